//! Readings of clocks, and the two ages that every lease is judged by.
//!
//! Nothing here reads a clock. The host hands in a [`Now`] with every call, and `Clock` turns
//! the readings into two ages, counted from the first one:
//!
//! * the **fast** age never runs slower than the faster of the two clocks. A holder counts its own
//!   time by it, from *before* its write was sent.
//! * the **slow** age never runs faster than the slower of the two. A contender counts another's
//!   time by it, from *after* the reply that first showed a record.
//!
//! Whatever one clock does (a suspended machine stops it, a correction steps it), the other one
//! then errs on the safe side. Both clocks being wrong by more than the declared rate error, in the
//! unsafe direction and at the same time, is the assumption under which exclusion is promised.

/// Microseconds of the host's monotonic clock, from an origin that only the host knows.
///
/// A clock that counts while the machine is suspended is the right one (`CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Instant(u64);

impl Instant {
    /// The instant `micros` microseconds after the clock's origin.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the clock's origin.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// This instant, `span` later; the end of time at most.
    #[must_use]
    pub const fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// Microseconds of the Unix clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Wall(u64);

impl Wall {
    /// The time `micros` microseconds after the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The time `millis` milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// This time, `span` later; the end of time at most.
    #[must_use]
    pub const fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// This time, `span` earlier; the epoch at least.
    #[must_use]
    pub const fn before(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// A length of time in microseconds; [`Span::FOREVER`] never passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Span(u64);

impl Span {
    /// Longer than any clock counts.
    pub const FOREVER: Self = Self(u64::MAX);
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of `micros` microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A span of `millis` milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Microseconds.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds, rounded up: a store that counts in milliseconds must not count less
    /// than was meant.
    #[must_use]
    pub const fn as_millis_up(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// True if this span never passes.
    #[must_use]
    pub const fn is_forever(self) -> bool {
        self.0 == Self::FOREVER.0
    }

    /// Both spans together; for ever if either is.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left of this span after `other`; what is for ever stays so.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        if self.is_forever() { self } else { Self(self.0.saturating_sub(other.0)) }
    }

    /// This span `n` times.
    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }

    /// The `n`th part of this span, and the whole for `n` = 0; what is for ever stays so.
    #[must_use]
    pub const fn part(self, n: u64) -> Self {
        match self.0.checked_div(n) {
            Some(micros) if !self.is_forever() => Self(micros),
            _ => self,
        }
    }
}

/// One reading of everything that only the host can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "hosts build it at every call")]
pub struct Now {
    /// The monotonic clock.
    pub mono: Instant,
    /// The Unix clock, where the device has one.
    pub wall: Option<Wall>,
    /// Fresh random bits from the operating system, never reused: a cloned process or a restored
    /// machine must not repeat another's versions.
    pub entropy: u128,
}

/// Time by the fast age; the two ages are types of their own so that they cannot be mixed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fast(u64);

impl Fast {
    pub(crate) const NEVER: Self = Self(u64::MAX);

    pub(crate) const fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    pub(crate) const fn before(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    pub(crate) const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// Time by the slow age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slow(u64);

impl Slow {
    pub(crate) const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// Accumulates the two ages from readings.
///
/// The readings are compared over stretches of at least [`Clock::STRETCH`]. Adding up the larger
/// (or smaller) of two whole numbers of microseconds at every reading would let a caller that asks
/// a million times a second make the fast age run at double speed, and the slow one stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Where the present stretch began; `None` before the first reading.
    start: Option<Start>,
    fast: Fast,
    slow: Slow,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    mono: Instant,
    wall: Option<Wall>,
    fast: Fast,
    slow: Slow,
}

impl Clock {
    const STRETCH: Span = Span::from_millis(10);

    pub(crate) const fn new() -> Self {
        Self { start: None, fast: Fast(0), slow: Slow(0) }
    }

    pub(crate) const fn fast(&self) -> Fast {
        self.fast
    }

    pub(crate) const fn slow(&self) -> Slow {
        self.slow
    }

    /// Takes a reading. A monotonic clock that goes back counts as one that stands still.
    pub(crate) fn advance(&mut self, now: &Now) {
        let Some(start) = self.start else {
            self.begin_stretch(now);
            return;
        };
        let mono = now.mono.since(start.mono);
        let (longer, shorter) = match (now.wall, start.wall) {
            (Some(to), Some(from)) if to >= from => {
                let wall = to.since(from);
                (mono.max(wall), mono.min(wall))
            }
            _ => (mono, mono),
        };
        self.fast = self.fast.max(start.fast.after(longer));
        self.slow = self.slow.max(Slow(start.slow.0.saturating_add(shorter.0)));
        // A reading from before the stretch began, as one that another thread took and was kept from
        // handing in, tells nothing. A Unix clock alone that went back does.
        let older = now.mono < start.mono;
        let stepped_back = now.wall < start.wall;
        if !older && (longer >= Self::STRETCH || stepped_back) {
            self.begin_stretch(now);
        }
    }

    const fn begin_stretch(&mut self, now: &Now) {
        self.start =
            Some(Start { mono: now.mono, wall: now.wall, fast: self.fast, slow: self.slow });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mono: u64, wall: Option<u64>) -> Now {
        Now { mono: Instant(mono), wall: wall.map(Wall), entropy: 0 }
    }

    fn ages(readings: &[(u64, Option<u64>)]) -> (u64, u64) {
        let mut clock = Clock::new();
        for &(mono, wall) in readings {
            clock.advance(&at(mono, wall));
        }
        (clock.fast.0, clock.slow.0)
    }

    #[test]
    fn suspend_counts_for_the_holder_and_not_for_the_contender() {
        let (fast, slow) = ages(&[(0, Some(0)), (1_000, Some(600_000_000))]);
        assert_eq!((fast, slow), (600_000_000, 1_000));
    }

    #[test]
    fn a_wall_clock_that_steps_back_leaves_the_monotonic_one_in_charge() {
        let (fast, slow) = ages(&[(0, Some(9_000_000)), (500_000, Some(1))]);
        assert_eq!((fast, slow), (500_000, 500_000));
    }

    #[test]
    fn a_device_without_a_wall_clock_has_one_age() {
        assert_eq!(ages(&[(5, None), (70_005, None)]), (70_000, 70_000));
    }

    #[test]
    fn readings_that_come_in_late_are_not_counted_twice() {
        let (fast, slow) = ages(&[(50_000, None), (10_000, None), (35_000, None), (60_000, None)]);
        assert_eq!((fast, slow), (10_000, 10_000));
        let mut clock = Clock::new();
        clock.advance(&at(0, Some(0)));
        for time in (1_000..1_000_000).step_by(1_000) {
            clock.advance(&at(time, Some(time)));
            clock.advance(&at(time - 900, Some(time - 900)));
        }
        assert_eq!((clock.fast.0, clock.slow.0), (999_000, 999_000));
    }

    #[test]
    fn the_fast_age_never_comes_back() {
        let mut clock = Clock::new();
        clock.advance(&at(0, Some(0)));
        clock.advance(&at(10, Some(5_000)));
        let before = clock.fast;
        clock.advance(&at(20, Some(20)));
        assert!(clock.fast >= before);
    }

    #[test]
    fn reading_a_million_times_a_second_bends_neither_age() {
        let mut clock = Clock::new();
        for half_micros in 0..2_000_000_u64 {
            clock.advance(&at(half_micros / 2, Some(half_micros.div_ceil(2))));
        }
        let second = 1_000_000_u64;
        assert!(clock.fast.0.abs_diff(second) < second / 1_000, "fast {}", clock.fast.0);
        assert!(clock.slow.0.abs_diff(second) < second / 1_000, "slow {}", clock.slow.0);
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let (fast, slow) = ages(&[(0, Some(0)), (u64::MAX, Some(u64::MAX)), (0, Some(0))]);
        assert_eq!((fast, slow), (u64::MAX, u64::MAX));
        assert!(Span::FOREVER.plus(Span(1)).is_forever());
        assert!(Span::FOREVER.minus(Span(1)).is_forever());
        assert_eq!(Span(7).part(0), Span(7));
    }

    #[test]
    fn a_span_ends_where_it_was_said_to_and_never_before_it_began() {
        let span = Span::from_millis(2);
        assert_eq!(Instant(5).after(span), Instant(2_005));
        assert_eq!(Instant(2_005).since(Instant(5)), span);
        assert_eq!(Instant(5).since(Instant(2_005)), Span::ZERO);
        assert_eq!(Wall(5).after(span), Wall(2_005));
        assert_eq!(Wall(2_005).before(span), Wall(5));
        assert_eq!(Wall(5).before(span), Wall(0));
        assert_eq!(Wall(2_005).since(Wall(5)), span);
        assert_eq!(Wall(5).since(Wall(2_005)), Span::ZERO);
        assert_eq!(Fast(5).after(span), Fast(2_005));
        assert_eq!(Fast(2_005).before(span), Fast(5));
        assert_eq!(Fast(2_005).since(Fast(5)), span);
        assert_eq!(Slow(2_005).since(Slow(5)), span);
    }

    #[test]
    fn units_are_what_they_are_called() {
        assert_eq!(Instant::from_micros(7).as_micros(), 7);
        assert_eq!(Wall::from_micros(7).as_micros(), 7);
        assert_eq!(Wall::from_millis(7).as_micros(), 7_000);
        assert_eq!(Wall(7_999).as_millis(), 7);
        assert_eq!(Span::from_micros(7).as_micros(), 7);
        assert_eq!(Span::from_millis(7).as_micros(), 7_000);
        assert_eq!([0, 1_000, 1_001].map(|n| Span(n).as_millis_up()), [0, 1, 2]);
    }

    #[test]
    fn parts_and_multiples_of_for_ever_are_for_ever() {
        assert!(Span::FOREVER.is_forever() && !Span(u64::MAX - 1).is_forever());
        assert!(Span::FOREVER.part(3).is_forever() && Span::FOREVER.times(3).is_forever());
        assert_eq!(Span(7).part(3), Span(2));
        assert_eq!(Span(7).times(3), Span(21));
        assert_eq!(Span(7).plus(Span(3)), Span(10));
        assert_eq!(Span(7).minus(Span(3)), Span(4));
        assert_eq!(Span(3).minus(Span(7)), Span::ZERO);
    }

    #[test]
    fn a_stretch_begins_after_ten_milliseconds_and_not_before() {
        // Within one, the larger and the smaller of the two clocks' totals count, and not those of each
        // reading.
        let uneven = [(0, Some(0)), (5_000, Some(1_000)), (9_000, Some(9_000))];
        assert_eq!(ages(&uneven), (9_000, 9_000));
        let coarse = [(0, Some(0)), (5_000, Some(0)), (9_000, Some(9_000))];
        assert_eq!(ages(&coarse), (9_000, 9_000));
        // From one to the next, what a clock gained in the first is not made up for in the second.
        let two = [(0, Some(0)), (10_000, Some(1_000)), (20_000, Some(20_000))];
        assert_eq!(ages(&two), (10_000 + 19_000, 1_000 + 10_000));
        let almost = [(0, Some(0)), (9_999, Some(1_000)), (20_000, Some(20_000))];
        assert_eq!(ages(&almost), (20_000, 20_000));
    }

    #[test]
    fn a_unix_clock_that_goes_back_is_followed_from_where_it_is_then() {
        let readings = [(0, Some(9_000_000)), (1_000, Some(8_000_000)), (2_000, Some(8_001_000))];
        assert_eq!(ages(&readings), (2_000, 2_000));
        // What it gains after that counts for the holder, though it is still behind where it began.
        let on = [(0, Some(9_000_000)), (1_000, Some(8_000_000)), (2_000, Some(8_500_000))];
        assert_eq!(ages(&on), (1_000 + 500_000, 2_000));
    }

    #[test]
    fn a_clock_that_stands_still_stops_the_slow_age_alone() {
        assert_eq!(ages(&[(0, Some(7)), (50_000, Some(7))]), (50_000, 0));
        assert_eq!(ages(&[(7, Some(0)), (7, Some(20_000)), (15_007, Some(20_000))]), (35_000, 0));
    }
}
