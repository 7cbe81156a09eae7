//! Settings of a lease, checked once: a [`Config`] cannot be wrong afterwards.
//!
//! # Why these defaults
//!
//! * `renew_interval = ttl / 3`: two more tries fit before the holder's own deadline.
//! * `rate_error = 1 %`: a hundred times what a quartz costs, ten times what a virtual machine was
//!   seen to lose; it takes 2 % off the ttl of a holder.
//! * `poll_interval`: a tenth of the ttl, at most a second where a poll costs money (a table that
//!   charges for reads) and a tenth of a second where the store itself tells when a record ends.
//! * `call_timeout`: a third of the ttl, at most five seconds, so that a lost reply leaves room for
//!   another try.

use core::fmt;

use crate::record::ClockId;
use crate::time::Span;

/// How long a record stays valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "finite or not")]
pub enum Ttl {
    /// For this long after its last write.
    For(Span),
    /// Until it is released or broken: a lock. It is acquired as a lease of
    /// [`Config::FOREVER_STARTS_AS`] and then renewed, so that a request that lands late cannot
    /// last for ever.
    Forever,
}

/// Who may say that a record is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "each is a rule of its own")]
pub enum Expiry {
    /// A contender that saw it unchanged for its ttl: needs no agreement of clocks.
    Observed,
    /// Also the Unix clock, where holder and contender both declared this bound on its difference
    /// between any two machines. A holder then ends that much earlier, because a client that
    /// judges by the wall alone does not wait longer.
    Bounded {
        /// The bound.
        max_clock_skew: Span,
    },
    /// The store: a record that is over is gone.
    Store,
}

/// How far a version reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "each is a rule of its own")]
pub enum Versions {
    /// A fresh one at every attempt to write: a record tells which attempt was applied.
    PerAttempt,
    /// One for all attempts of a claim, changed only with the ttl, where a store compares one
    /// whole value. A record then tells only *that* an attempt was applied, so a grant counts from
    /// the earliest one that is not known to have failed.
    PerClaim,
}

/// How a waiting contender looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "it reads or it writes")]
pub enum Polling {
    /// By reading, and writing only when the name may be free: where a refused write costs more.
    Read,
    /// By trying to acquire: where that costs the same and saves a round trip.
    Acquire,
}

/// What a lease can be told. Every field has a default but the ttl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "hosts fill it in")]
pub struct Settings {
    /// How long a record stays valid.
    pub ttl: Ttl,
    /// Who may say that a record is over.
    pub expiry: Expiry,
    /// How far a version reaches.
    pub versions: Versions,
    /// How a waiting contender looks again.
    pub polling: Polling,
    /// The pace of renewals; a third of the ttl by default.
    pub renew_interval: Option<Span>,
    /// The longest sleep of a waiting contender, and the pace at which a lock is checked.
    pub poll_interval: Option<Span>,
    /// After how long without an answer a call counts as unknown.
    pub call_timeout: Option<Span>,
    /// By how much a clock may run fast or slow, in parts per million.
    pub rate_error_ppm: u32,
    /// How long a name stays taken after it was acquired, even if it is released earlier.
    pub min_hold: Span,
    /// Which clock the host reads, if other processes can tell that they share it.
    pub clock: Option<ClockId>,
}

impl Settings {
    /// The defaults for a ttl in a store of this kind.
    #[must_use]
    pub const fn new(ttl: Ttl, expiry: Expiry) -> Self {
        Self {
            ttl,
            expiry,
            versions: Versions::PerAttempt,
            polling: match expiry {
                Expiry::Store => Polling::Acquire,
                Expiry::Observed | Expiry::Bounded { .. } => Polling::Read,
            },
            renew_interval: None,
            poll_interval: None,
            call_timeout: None,
            rate_error_ppm: 10_000,
            min_hold: Span::ZERO,
            clock: None,
        }
    }
}

/// Settings that were found to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    settings: Settings,
    first: Terms,
    lasting: Terms,
}

impl Config {
    /// What a lock is acquired as.
    pub const FOREVER_STARTS_AS: Span = Span::from_millis(30_000);
    /// Below this, scheduling alone eats a lease.
    pub const SHORTEST_TTL: Span = Span::from_millis(10);
    /// A hundred years: more is [`Ttl::Forever`], and fits no store's number.
    pub const LONGEST_TTL: Span = Span::from_millis(100 * 366 * 86_400_000);

    /// Checks settings.
    ///
    /// # Errors
    /// The first setting that cannot work, and why.
    pub fn new(settings: Settings) -> Result<Self, ConfigError> {
        if settings.rate_error_ppm > 200_000 {
            return Err(ConfigError::RateErrorTooLarge);
        }
        if settings.poll_interval.is_some_and(|poll| poll < Span::from_millis(1)) {
            return Err(ConfigError::PollTooOften);
        }
        if settings.poll_interval.is_some_and(|poll| poll > Self::LONGEST_TTL) {
            return Err(ConfigError::PollTooRare);
        }
        if settings.call_timeout.is_some_and(|timeout| timeout < Span::from_millis(1)) {
            return Err(ConfigError::CallTimeoutTooShort);
        }
        if settings.call_timeout.is_some_and(|timeout| timeout > Self::LONGEST_TTL) {
            return Err(ConfigError::CallTimeoutTooLong);
        }
        if settings.min_hold > Self::LONGEST_TTL {
            return Err(ConfigError::MinHoldTooLong);
        }
        let lasting = Terms::new(&settings, settings.ttl)?;
        let first = match settings.ttl {
            Ttl::For(_) => lasting,
            Ttl::Forever => Terms::new(&settings, Ttl::For(Self::FOREVER_STARTS_AS))?,
        };
        Ok(Self { settings, first, lasting })
    }

    /// The terms of a later renewal with another ttl.
    ///
    /// # Errors
    /// As [`Config::new`].
    pub fn terms(&self, ttl: Ttl) -> Result<Terms, ConfigError> {
        // An interval that was chosen for one ttl says little about another.
        let settings = Settings { renew_interval: None, ..self.settings };
        Terms::new(&settings, ttl)
    }

    /// What a record is acquired with.
    #[must_use]
    pub const fn first_terms(&self) -> Terms {
        self.first
    }

    pub(crate) const fn lasting_terms(&self) -> Terms {
        self.lasting
    }

    /// The settings it was made of.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What a holder gives up of a ttl, and a contender waits beyond it, for the error of clock
    /// rates: `ttl × 2 × rate_error + 2 ms`.
    #[must_use]
    pub const fn margin(&self, ttl: Span) -> Span {
        margin(ttl, self.settings.rate_error_ppm)
    }

    /// The longest sleep of a waiting contender.
    #[must_use]
    pub fn poll_interval(&self) -> Span {
        let most = match self.settings.expiry {
            Expiry::Store => Span::from_millis(100),
            Expiry::Observed | Expiry::Bounded { .. } => Span::from_millis(1_000),
        };
        self.settings.poll_interval.unwrap_or_else(|| self.first.ttl.part(10).min(most))
    }

    /// After how long without an answer a call counts as unknown.
    #[must_use]
    pub fn call_timeout(&self) -> Span {
        self.settings
            .call_timeout
            .unwrap_or_else(|| self.first.ttl.part(3).min(Span::from_millis(5_000)))
    }

    pub(crate) const fn max_clock_skew(&self) -> Option<Span> {
        match self.settings.expiry {
            Expiry::Bounded { max_clock_skew } => Some(max_clock_skew),
            Expiry::Observed | Expiry::Store => None,
        }
    }
}

/// A ttl with what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Terms {
    pub(crate) ttl: Span,
    pub(crate) valid_for: Span,
    pub(crate) renew_interval: Span,
    pub(crate) max_clock_skew: Option<Span>,
}

impl Terms {
    fn new(settings: &Settings, ttl: Ttl) -> Result<Self, ConfigError> {
        let ttl = match ttl {
            Ttl::Forever => Span::FOREVER,
            Ttl::For(ttl) if ttl < Config::SHORTEST_TTL => return Err(ConfigError::TtlTooShort),
            Ttl::For(ttl) if ttl > Config::LONGEST_TTL => return Err(ConfigError::TtlTooLong),
            Ttl::For(ttl) => ttl,
        };
        let max_clock_skew = match settings.expiry {
            Expiry::Bounded { max_clock_skew } => Some(max_clock_skew),
            Expiry::Observed | Expiry::Store => None,
        };
        if max_clock_skew.is_some_and(|skew| skew >= ttl) {
            return Err(ConfigError::SkewEatsTtl);
        }
        let given_up =
            margin(ttl, settings.rate_error_ppm).plus(max_clock_skew.unwrap_or(Span::ZERO));
        let valid_for = ttl.minus(given_up);
        // The margin alone never does: it is two fifths of a ttl and two milliseconds at most.
        if valid_for < ttl.part(4) {
            return Err(ConfigError::SkewEatsTtl);
        }
        let renew_interval = settings.renew_interval.unwrap_or_else(|| {
            if ttl.is_forever() { ttl } else { ttl.part(3).min(valid_for.part(2)) }
        });
        if renew_interval > valid_for.part(2) {
            return Err(ConfigError::RenewsTooLate);
        }
        if renew_interval < Span::from_millis(1) {
            return Err(ConfigError::RenewsTooOften);
        }
        Ok(Self { ttl, valid_for, renew_interval, max_clock_skew })
    }

    /// How long the record stays valid.
    #[must_use]
    pub const fn ttl(&self) -> Span {
        self.ttl
    }

    /// For how long after the sending of its write a holder holds.
    #[must_use]
    pub const fn valid_for(&self) -> Span {
        self.valid_for
    }

    /// The bound on the difference of Unix clocks that the record will declare.
    #[must_use]
    pub const fn max_clock_skew(&self) -> Option<Span> {
        self.max_clock_skew
    }
}

const fn margin(ttl: Span, rate_error_ppm: u32) -> Span {
    if ttl.is_forever() {
        return Span::ZERO;
    }
    ttl.times(2).part(1_000).times(rate_error_ppm as u64).part(1_000).plus(Span::from_millis(2))
}

/// A setting that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A call that times out after a hundred years, if ever.
    CallTimeoutTooLong,
    /// A call that times out within a millisecond never gets an answer.
    CallTimeoutTooShort,
    /// A `min_hold` beyond a hundred years.
    MinHoldTooLong,
    /// Polls less than a millisecond apart.
    PollTooOften,
    /// Polls more than a hundred years apart, if they come at all.
    PollTooRare,
    /// A rate error above 20 %.
    RateErrorTooLarge,
    /// Renewals that leave no room for a second try.
    RenewsTooLate,
    /// Renewals less than a millisecond apart.
    RenewsTooOften,
    /// A clock skew that leaves too little of the ttl.
    SkewEatsTtl,
    /// A ttl beyond a hundred years.
    TtlTooLong,
    /// A ttl under ten milliseconds.
    TtlTooShort,
}

impl ConfigError {
    /// The setting to change.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::CallTimeoutTooLong | Self::CallTimeoutTooShort => "call_timeout",
            Self::TtlTooLong | Self::TtlTooShort => "ttl",
            Self::MinHoldTooLong => "min_hold",
            Self::PollTooOften | Self::PollTooRare => "poll_interval",
            Self::RateErrorTooLarge => "rate_error",
            Self::RenewsTooLate | Self::RenewsTooOften => "renew_interval",
            Self::SkewEatsTtl => "max_clock_skew",
        }
    }

    /// Why it cannot work.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::CallTimeoutTooLong | Self::MinHoldTooLong | Self::PollTooRare => {
                "must be at most 100 years"
            }
            Self::CallTimeoutTooShort => "must be at least 1 ms",
            Self::PollTooOften => "must be at least 1 ms",
            Self::RateErrorTooLarge => "must be at most 20 %",
            Self::RenewsTooLate => {
                "must be at most half of the time for which a grant is valid, so that a failed \
                 renewal can be tried again"
            }
            Self::RenewsTooOften => "must be at least 1 ms",
            Self::SkewEatsTtl => {
                "leaves less than a quarter of the ttl to its holder; use a longer ttl or a \
                 smaller bound"
            }
            Self::TtlTooLong => "must be at most 100 years; a lock that never ends is `forever`",
            Self::TtlTooShort => "must be at least 10 ms",
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field(), self.why())
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(ttl_ms: u64) -> Settings {
        Settings::new(Ttl::For(Span::from_millis(ttl_ms)), Expiry::Observed)
    }

    fn refused(settings: Settings) -> ConfigError {
        Config::new(settings).unwrap_err()
    }

    #[test]
    fn the_margin_is_twice_the_rate_error_and_two_milliseconds() {
        let config = Config::new(settings(10_000)).unwrap();
        assert_eq!(config.margin(Span::from_millis(10_000)), Span::from_millis(202));
        assert_eq!(config.first_terms().valid_for(), Span::from_millis(9_798));
        assert_eq!(config.margin(Span::FOREVER), Span::ZERO);
    }

    #[test]
    fn what_cannot_work_is_refused() {
        assert_eq!(refused(settings(0)), ConfigError::TtlTooShort);
        assert_eq!(refused(settings(9)), ConfigError::TtlTooShort);
        assert_eq!(refused(settings(u64::MAX)), ConfigError::TtlTooLong);
        let late = Settings { renew_interval: Some(Span::from_millis(5_000)), ..settings(10_000) };
        assert_eq!(refused(late), ConfigError::RenewsTooLate);
        let drift = Settings { rate_error_ppm: 200_001, ..settings(10_000) };
        assert_eq!(refused(drift), ConfigError::RateErrorTooLarge);
        for max_clock_skew in [Span::from_millis(10_000), Span::from_millis(8_000)] {
            let skewed =
                Settings { expiry: Expiry::Bounded { max_clock_skew }, ..settings(10_000) };
            assert_eq!(refused(skewed), ConfigError::SkewEatsTtl);
        }
        let polls = Settings { poll_interval: Some(Span::ZERO), ..settings(10_000) };
        assert_eq!(refused(polls), ConfigError::PollTooOften);
    }

    #[test]
    fn p8_a_pace_at_which_nothing_ever_comes_is_refused() {
        let never = Some(Span::from_micros(Config::LONGEST_TTL.as_micros() + 1));
        let polls = Settings { poll_interval: never, ..settings(10_000) };
        assert_eq!(refused(polls), ConfigError::PollTooRare);
        let waits = Settings { call_timeout: never, ..settings(10_000) };
        assert_eq!(refused(waits), ConfigError::CallTimeoutTooLong);
    }

    #[test]
    fn the_shortest_ttl_and_the_longest_work() {
        for ttl in [Config::SHORTEST_TTL, Config::LONGEST_TTL] {
            let terms =
                Config::new(Settings::new(Ttl::For(ttl), Expiry::Store)).unwrap().first_terms();
            assert!(terms.valid_for() < ttl && terms.renew_interval.times(2) <= terms.valid_for());
        }
    }

    #[test]
    fn a_bound_comes_off_the_holders_time() {
        let expiry = Expiry::Bounded { max_clock_skew: Span::from_millis(1_000) };
        let config = Config::new(Settings { expiry, ..settings(10_000) }).unwrap();
        assert_eq!(config.first_terms().valid_for(), Span::from_millis(8_798));
    }

    #[test]
    fn every_setting_works_up_to_its_limit_and_not_beyond() {
        use ConfigError::*;
        let tick = Span::from_micros(1);
        let least = Span::from_millis(1);
        let most = Config::LONGEST_TTL;
        let base = settings(10_000);
        let check =
            |settings: Settings| Config::new(settings).map(|_| ()).map_err(|why| why.field());
        let polls = |poll| check(Settings { poll_interval: Some(poll), ..base });
        let timeouts = |timeout| check(Settings { call_timeout: Some(timeout), ..base });
        let holds = |min_hold| check(Settings { min_hold, ..base });
        let renews = |pace| check(Settings { renew_interval: Some(pace), ..base });
        assert_eq!([polls(least), timeouts(least), renews(least)], [Ok(()); 3]);
        assert_eq!([polls(most), timeouts(most), holds(most)], [Ok(()); 3]);
        assert_eq!(polls(least.minus(tick)), Err("poll_interval"));
        assert_eq!(polls(most.plus(tick)), Err("poll_interval"));
        assert_eq!(timeouts(least.minus(tick)), Err("call_timeout"));
        assert_eq!(timeouts(most.plus(tick)), Err("call_timeout"));
        assert_eq!(holds(most.plus(tick)), Err("min_hold"));
        assert_eq!(renews(least.minus(tick)), Err("renew_interval"));
        let two_tries = Span::from_millis(9_798).part(2);
        assert_eq!(renews(two_tries), Ok(()));
        assert_eq!(renews(two_tries.plus(tick)), Err("renew_interval"));
        let drifts = |rate_error_ppm| Config::new(Settings { rate_error_ppm, ..base });
        assert!(drifts(200_000).is_ok());
        assert_eq!(drifts(200_001), Err(RateErrorTooLarge));
        // Of 10 s, 7.298 s may go to the bound: what is left with the margin is a quarter.
        let skews = |max_clock_skew| {
            Config::new(Settings { expiry: Expiry::Bounded { max_clock_skew }, ..base })
        };
        assert!(skews(Span::from_millis(7_298)).is_ok());
        assert_eq!(skews(Span::from_millis(7_298).plus(tick)), Err(SkewEatsTtl));
        assert_eq!(skews(Span::from_millis(10_000)), Err(SkewEatsTtl));
    }

    #[test]
    fn the_longest_ttl_is_a_hundred_years() {
        let days = Config::LONGEST_TTL.part(24 * 60 * 60 * 1_000_000).as_micros();
        assert!((36_525..=36_600).contains(&days), "{days}");
    }

    #[test]
    fn defaults_are_parts_of_the_ttl_and_end_where_they_would_be_a_nuisance() {
        let of = |ttl_ms, expiry| {
            let ttl = Ttl::For(Span::from_millis(ttl_ms));
            let config = Config::new(Settings::new(ttl, expiry)).unwrap();
            (config.poll_interval().as_millis_up(), config.call_timeout().as_millis_up())
        };
        assert_eq!(of(600, Expiry::Observed), (60, 200));
        assert_eq!(of(600, Expiry::Store), (60, 200));
        assert_eq!(of(60_000, Expiry::Store), (100, 5_000));
        assert_eq!(of(60_000, Expiry::Observed), (1_000, 5_000));
        let bounded = Expiry::Bounded { max_clock_skew: Span::from_millis(100) };
        assert_eq!(of(60_000, bounded), (1_000, 5_000));
        let chosen = Settings {
            poll_interval: Some(Span::from_millis(3)),
            call_timeout: Some(Span::from_millis(4)),
            ..settings(600)
        };
        let config = Config::new(chosen).unwrap();
        assert_eq!(config.poll_interval(), Span::from_millis(3));
        assert_eq!(config.call_timeout(), Span::from_millis(4));
    }

    #[test]
    fn a_chosen_pace_of_renewals_is_for_the_ttl_that_it_was_chosen_with() {
        let pace = Some(Span::from_millis(100));
        let config = Config::new(Settings { renew_interval: pace, ..settings(600) }).unwrap();
        assert_eq!(Some(config.first_terms().renew_interval), pace);
        let terms = config.terms(Ttl::For(Span::from_millis(6_000))).unwrap();
        assert_eq!(terms.renew_interval, Span::from_millis(2_000));
        assert_eq!(terms.ttl(), Span::from_millis(6_000));
    }

    #[test]
    fn a_bound_is_declared_by_those_who_judge_by_it_and_by_nobody_else() {
        let max_clock_skew = Span::from_millis(100);
        let of = |expiry| {
            let config = Config::new(Settings { expiry, ..settings(10_000) }).unwrap();
            (config.max_clock_skew(), config.first_terms().max_clock_skew())
        };
        let declared = (Some(max_clock_skew), Some(max_clock_skew));
        assert_eq!(of(Expiry::Bounded { max_clock_skew }), declared);
        assert_eq!(of(Expiry::Observed), (None, None));
        assert_eq!(of(Expiry::Store), (None, None));
    }

    #[test]
    fn where_asking_costs_a_write_a_contender_reads() {
        let polling = |expiry| Settings::new(Ttl::Forever, expiry).polling;
        assert_eq!(polling(Expiry::Store), Polling::Acquire);
        assert_eq!(polling(Expiry::Observed), Polling::Read);
    }

    #[test]
    fn an_error_says_which_setting_and_what_is_wrong_with_it() {
        extern crate alloc;
        use alloc::string::ToString as _;
        let told = refused(settings(1)).to_string();
        assert_eq!(told, "ttl must be at least 10 ms");
    }
}
