//! The attempts whose outcome is not known yet, so that a lost reply can be told from a stranger.
//!
//! Only [`lease`](crate::lease) changes it. It is bounded: what no longer fits was sent longest ago,
//! and if it lands after all, it keeps the name for one ttl like any dead holder's record.

use heapless::Vec;

use crate::io::{MOST_VERSIONS, OurVersions};
use crate::record::Version;
use crate::time::{Fast, Instant, Span};

/// One attempt to write that may have been applied, or may yet be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) version: Version,
    /// The deadline of the grant that it gives, counted from its sending.
    pub(crate) until: Fast,
    /// Until when it may land, or its record may stand. No grant depends on it, so that it goes by the
    /// monotonic clock alone: a Unix clock that jumps must not make us forget what to take back.
    pub(crate) gone_at: Instant,
    /// Its terms' ttl.
    pub(crate) ttl: Span,
    /// It may land although nothing of ours stands in the record: an acquire or a takeover. The
    /// others name a version of ours and die with it.
    pub(crate) loose: bool,
    /// It was sent more than once, so that a copy may land after its record was freed.
    pub(crate) again: bool,
    /// It replaces the record of another.
    pub(crate) takeover: bool,
    /// What it was for has ended: never adopted again.
    pub(crate) retired: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    /// In the order of their sending.
    attempts: Vec<Attempt, MOST_VERSIONS>,
}

impl Ledger {
    /// One place is kept for the version that a holder knows to be applied, which joins when it is
    /// retired.
    const MOST_OPEN: usize = MOST_VERSIONS - 1;

    pub(crate) const fn new() -> Self {
        Self { attempts: Vec::new() }
    }

    /// Enters an attempt before it is sent. True if it is new: a version may be sent again (one
    /// value for a whole claim), and then still counts from its first sending.
    pub(crate) fn enter(&mut self, attempt: Attempt) -> bool {
        if let Some(known) = self.attempts.iter_mut().find(|a| a.version == attempt.version) {
            known.again = true;
            known.gone_at = known.gone_at.max(attempt.gone_at);
            return false;
        }
        if self.attempts.is_full() {
            // The first is the likeliest to stand in the record, and the others follow in the order of
            // their sending. A lock would stand there for ever.
            let ends = |a: &Attempt| !a.ttl.is_forever();
            let others = self.attempts.iter().enumerate().skip(1);
            let retired = others.clone().find(|(_, a)| a.retired && ends(a));
            let oldest =
                retired.map(|(index, _)| index).or_else(|| self.attempts.iter().position(ends));
            self.attempts.remove(oldest.unwrap_or(0));
        }
        self.attempts.push(attempt).is_ok()
    }

    #[cfg(feature = "shape")]
    pub(crate) fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    pub(crate) fn get(&self, version: Version) -> Option<&Attempt> {
        self.attempts.iter().find(|a| a.version == version)
    }

    /// The attempt of this version, if it may still be adopted.
    pub(crate) fn open(&self, version: Version) -> Option<Attempt> {
        self.get(version).filter(|a| !a.retired).copied()
    }

    pub(crate) fn is_retired(&self, version: Version) -> bool {
        self.get(version).is_some_and(|a| a.retired)
    }

    pub(crate) fn has_open(&self) -> bool {
        self.attempts.iter().any(|a| !a.retired)
    }

    pub(crate) fn has_tied(&self) -> bool {
        self.attempts.iter().any(|a| !a.loose)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// The newest open attempt, if there is no room for another one.
    pub(crate) fn full_with(&self) -> Option<Attempt> {
        let newest = self.attempts.last().filter(|a| !a.retired).copied();
        if self.attempts.len() < Self::MOST_OPEN { None } else { newest }
    }

    /// That attempt is known to have had no effect, nor will it.
    pub(crate) fn strike(&mut self, version: Version) {
        self.attempts.retain(|a| a.version != version);
    }

    /// Nothing of this version stands in the record: if it needs that, it cannot land any more.
    pub(crate) fn strike_if_tied(&mut self, version: Version) {
        self.attempts.retain(|a| a.loose || a.version != version);
    }

    /// A grant rests on this version: every other attempt that could have made one is retired, and so is
    /// a copy of this one, if it was sent more than once.
    pub(crate) fn granted(&mut self, version: Version) {
        self.attempts.retain(|a| a.loose && (a.again || a.version != version));
        self.retire_all();
    }

    /// This version of ours stands in the record: earlier attempts that name its predecessors
    /// cannot land any more, later ones can.
    pub(crate) fn stands(&mut self, version: Version) {
        let Some(at) = self.attempts.iter().position(|a| a.version == version) else { return };
        let mut index = 0_usize;
        self.attempts.retain(|a| {
            let later = index > at;
            index = index.saturating_add(1);
            later || a.loose && a.version != version
        });
    }

    /// Nothing of ours stands in the record, or nothing but what was just written: attempts that
    /// name a version of ours cannot land any more.
    pub(crate) fn strike_tied(&mut self) {
        self.attempts.retain(|a| a.loose);
    }

    /// The record of this version was freed: nothing of it is left, but maybe a copy on its way.
    pub(crate) fn freed(&mut self, version: Version) {
        self.attempts.retain(|a| a.version != version || a.loose && a.again);
    }

    /// This attempt was applied, as late as now for all that is known. It cannot land a second time
    /// while its record stands, which may be for a ttl from here.
    pub(crate) fn landed(&mut self, version: Version, now: Instant) {
        for attempt in self.attempts.iter_mut().filter(|a| a.version == version) {
            attempt.loose &= attempt.again;
            attempt.gone_at = attempt.gone_at.max(now.after(attempt.ttl));
        }
    }

    pub(crate) fn retire_all(&mut self) {
        for attempt in &mut self.attempts {
            attempt.retired = true;
        }
    }

    /// Retires all. What was open until now may stand in the record, however long this process did not
    /// run: it is looked for once more at least.
    pub(crate) fn give_up(&mut self, now: Instant) {
        for attempt in self.attempts.iter_mut().filter(|a| !a.retired) {
            attempt.retired = true;
            attempt.gone_at = attempt.gone_at.max(now.after(attempt.ttl));
        }
    }

    /// Drops what is retired and over for everybody.
    pub(crate) fn prune(&mut self, now: Instant) {
        self.attempts.retain(|a| !a.retired || a.gone_at > now);
    }

    /// When the next attempt is over for everybody.
    pub(crate) fn next_gone_at(&self) -> Option<Instant> {
        self.attempts.iter().map(|a| a.gone_at).min()
    }

    /// The first attempt goes to the end, so that the next one has its turn.
    pub(crate) fn rotate(&mut self) {
        if !self.attempts.is_empty() {
            self.attempts.rotate_left(1);
        }
    }

    pub(crate) fn first(&self) -> Option<Version> {
        self.attempts.first().map(|a| a.version)
    }

    /// Moves this version to the front.
    pub(crate) fn prefer(&mut self, version: Version) {
        if let Some(at) = self.attempts.iter().position(|a| a.version == version)
            && let Some(to_front) = self.attempts.get_mut(..=at)
        {
            to_front.rotate_right(1);
        }
    }

    /// The newest versions first: the likeliest to stand in the record.
    pub(crate) fn versions(&self, retired: bool) -> OurVersions {
        let mut ours = OurVersions::empty();
        self.add_versions(&mut ours, retired);
        ours
    }

    pub(crate) fn add_versions(&self, ours: &mut OurVersions, retired: bool) {
        for attempt in self.attempts.iter().rev().filter(|a| a.retired == retired) {
            ours.push(attempt.version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Span = Span::from_millis(1_000);

    fn at(millis: u64) -> Instant {
        Instant::from_micros(0).after(Span::from_millis(millis))
    }

    fn version(bits: u128) -> Version {
        Version::from_bits(bits)
    }

    /// A renewal: it names what stands there.
    fn tied(bits: u128) -> Attempt {
        Attempt {
            version: version(bits),
            until: Fast::NEVER,
            gone_at: at(2_000),
            ttl: TTL,
            loose: false,
            again: false,
            takeover: false,
            retired: false,
        }
    }

    /// An acquire: it names nothing of ours.
    fn loose(bits: u128) -> Attempt {
        Attempt { loose: true, ..tied(bits) }
    }

    fn retired(attempt: Attempt) -> Attempt {
        Attempt { retired: true, ..attempt }
    }

    fn ledger(attempts: &[Attempt]) -> Ledger {
        let mut ledger = Ledger::new();
        for attempt in attempts {
            assert!(ledger.enter(*attempt));
        }
        ledger
    }

    fn left(ledger: &Ledger) -> [u128; MOST_VERSIONS] {
        let mut bits = [0; MOST_VERSIONS];
        for (bits, attempt) in bits.iter_mut().zip(&ledger.attempts) {
            *bits = attempt.version.to_bits();
        }
        bits
    }

    fn named(ours: &OurVersions) -> [u128; MOST_VERSIONS] {
        let mut bits = [0; MOST_VERSIONS];
        for (bits, version) in bits.iter_mut().zip(ours.as_slice()) {
            *bits = version.to_bits();
        }
        bits
    }

    #[test]
    fn a_version_that_is_sent_again_counts_from_its_first_sending_and_is_looked_for_after_its_last()
    {
        let mut ledger = ledger(&[Attempt { until: Fast::NEVER.before(TTL), ..loose(1) }]);
        assert!(!ledger.enter(Attempt { gone_at: at(3_000), ..loose(1) }));
        let known = ledger.open(version(1)).expect("still open");
        assert_eq!(known.until, Fast::NEVER.before(TTL));
        assert_eq!(known.gone_at, at(3_000));
        assert!(known.again, "a copy may land after its record was freed");
        assert!(!ledger.enter(Attempt { gone_at: at(1_000), ..loose(1) }));
        assert_eq!(ledger.get(version(1)).expect("there").gone_at, at(3_000));
    }

    #[test]
    fn a_full_ledger_forgets_what_is_retired_before_what_is_open_but_never_the_likeliest() {
        let mut full = ledger(&[retired(tied(1)), tied(2), retired(tied(3)), tied(4), tied(5)]);
        full.enter(tied(6));
        assert_eq!(left(&full), [1, 2, 4, 5, 6]);
        let mut open = ledger(&[tied(1), tied(2), tied(3), tied(4), tied(5)]);
        open.enter(tied(6));
        assert_eq!(left(&open), [2, 3, 4, 5, 6]);
    }

    #[test]
    fn what_is_retired_is_known_and_not_open() {
        let ledger = ledger(&[retired(tied(1)), tied(2)]);
        assert!(ledger.open(version(1)).is_none() && ledger.get(version(1)).is_some());
        assert!(ledger.open(version(2)).is_some());
        assert!(ledger.is_retired(version(1)));
        assert!(!ledger.is_retired(version(2)));
        assert!(!ledger.is_retired(version(3)), "a stranger's");
    }

    #[test]
    fn open_and_tied_ones_are_told_from_the_others() {
        assert!(!ledger(&[]).has_open() && ledger(&[]).is_empty());
        assert!(!ledger(&[retired(tied(1))]).has_open());
        assert!(ledger(&[retired(tied(1)), loose(2)]).has_open());
        assert!(!ledger(&[loose(1)]).has_tied() && !ledger(&[loose(1)]).is_empty());
        assert!(ledger(&[loose(1), retired(tied(2))]).has_tied());
    }

    #[test]
    fn there_is_no_room_once_the_last_place_is_the_one_kept_for_the_held_version() {
        assert!(ledger(&[tied(1), tied(2), tied(3)]).full_with().is_none());
        let full = ledger(&[tied(1), tied(2), tied(3), tied(4)]);
        assert_eq!(full.full_with().map(|a| a.version), Some(version(4)));
        let over = ledger(&[tied(1), tied(2), tied(3), retired(tied(4))]);
        assert!(over.full_with().is_none(), "what is over is not sent again");
    }

    #[test]
    fn a_strike_takes_one_version_and_a_conditional_one_only_what_needs_our_record() {
        let mut all = ledger(&[loose(1), tied(2), tied(3)]);
        all.strike(version(1));
        assert_eq!(left(&all), [2, 3, 0, 0, 0]);
        let mut tied_only = ledger(&[loose(1), tied(2), tied(3)]);
        tied_only.strike_if_tied(version(1));
        tied_only.strike_if_tied(version(2));
        assert_eq!(left(&tied_only), [1, 3, 0, 0, 0]);
        tied_only.strike_tied();
        assert_eq!(left(&tied_only), [1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_grant_leaves_only_what_may_land_beside_it_and_retires_that() {
        let mut ledger = ledger(&[loose(1), tied(2), loose(3)]);
        ledger.granted(version(3));
        assert_eq!(left(&ledger), [1, 0, 0, 0, 0]);
        assert!(ledger.is_retired(version(1)));
    }

    #[test]
    fn what_stands_outdates_what_was_sent_before_it_and_not_what_was_sent_after() {
        let mut ledger = ledger(&[loose(1), tied(2), tied(3), tied(4)]);
        ledger.stands(version(3));
        assert_eq!(left(&ledger), [1, 4, 0, 0, 0]);
        ledger.stands(version(9));
        assert_eq!(left(&ledger), [1, 4, 0, 0, 0], "a stranger's tells nothing");
        ledger.stands(version(1));
        assert_eq!(left(&ledger), [4, 0, 0, 0, 0]);
    }

    #[test]
    fn what_was_freed_is_gone_unless_a_copy_of_it_may_land() {
        let again = Attempt { again: true, ..loose(1) };
        let mut all = ledger(&[again, loose(2), tied(3), Attempt { again: true, ..tied(4) }]);
        for bits in [1, 2, 4] {
            all.freed(version(bits));
        }
        assert_eq!(left(&all), [1, 3, 0, 0, 0]);
    }

    #[test]
    fn what_landed_stands_for_a_ttl_from_here_and_lands_no_second_time_unless_it_was_sent_twice() {
        let again = Attempt { again: true, ..loose(2) };
        let mut ledger = ledger(&[loose(1), again, loose(3), tied(4)]);
        ledger.landed(version(1), at(1_500));
        ledger.landed(version(2), at(100));
        ledger.landed(version(4), at(1_000));
        let told = |bits| ledger.get(version(bits)).map(|a| (a.loose, a.gone_at));
        assert_eq!(told(1), Some((false, at(2_500))));
        assert_eq!(told(2), Some((true, at(2_000))), "never sooner than was known");
        assert_eq!(told(3), Some((true, at(2_000))), "another one");
        assert_eq!(told(4), Some((false, at(2_000))));
    }

    #[test]
    fn what_is_given_up_is_looked_for_once_more_and_what_was_before_is_not() {
        let mut ledger = ledger(&[retired(tied(1)), tied(2), tied(3)]);
        if let Some(last) = ledger.attempts.last_mut() {
            last.gone_at = at(9_000);
        }
        ledger.give_up(at(5_000));
        assert!(!ledger.has_open());
        let gone_at = |bits| ledger.get(version(bits)).map(|a| a.gone_at);
        assert_eq!(gone_at(1), Some(at(2_000)));
        assert_eq!(gone_at(2), Some(at(6_000)));
        assert_eq!(gone_at(3), Some(at(9_000)));
    }

    #[test]
    fn what_is_over_for_everybody_is_dropped_at_that_instant_and_nothing_open_ever() {
        let mut ledger =
            ledger(&[Attempt { gone_at: at(1), ..tied(1) }, retired(tied(2)), retired(loose(3))]);
        ledger.prune(Instant::from_micros(1_999_999));
        assert_eq!(left(&ledger), [1, 2, 3, 0, 0]);
        assert_eq!(ledger.next_gone_at(), Some(at(1)));
        ledger.prune(at(2_000));
        assert_eq!(left(&ledger), [1, 0, 0, 0, 0]);
        ledger.retire_all();
        ledger.prune(at(2_000));
        assert!(ledger.is_empty() && ledger.next_gone_at().is_none());
    }

    #[test]
    fn one_is_preferred_and_one_waits_its_turn_without_disturbing_the_order_of_the_rest() {
        let mut ledger = ledger(&[tied(1), tied(2), tied(3), tied(4)]);
        ledger.prefer(version(3));
        assert_eq!(left(&ledger), [3, 1, 2, 4, 0]);
        ledger.prefer(version(9));
        assert_eq!(ledger.first(), Some(version(3)));
        ledger.rotate();
        assert_eq!(left(&ledger), [1, 2, 4, 3, 0]);
        let mut empty = Ledger::new();
        empty.rotate();
        assert_eq!(empty.first(), None);
    }

    #[test]
    fn the_newest_are_named_first_and_the_retired_apart_from_the_open() {
        let ledger = ledger(&[tied(1), retired(tied(2)), tied(3), retired(tied(4))]);
        assert_eq!(named(&ledger.versions(false)), [3, 1, 0, 0, 0]);
        assert_eq!(named(&ledger.versions(true)), [4, 2, 0, 0, 0]);
        let mut ours = OurVersions::one(version(7));
        ledger.add_versions(&mut ours, false);
        assert_eq!(named(&ours), [7, 3, 1, 0, 0]);
    }
}
