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
            // their sending.
            let retired = self.attempts.iter().skip(1).position(|a| a.retired);
            self.attempts.remove(retired.map_or(0, |index| index.saturating_add(1)));
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

    /// A grant rests on this version: every other attempt that could have made one is retired.
    pub(crate) fn granted(&mut self, version: Version) {
        self.attempts.retain(|a| a.loose && a.version != version);
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
