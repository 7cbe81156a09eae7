//! The reference store: one record, and a table of them, in memory.
//!
//! For tests, the demo and small devices. It does what [`CallKind`] says and decides nothing else;
//! real stores are tested against the same expectations.

use heapless::LinearMap;

use crate::config::Terms;
use crate::io::{Call, CallKind, Outcome};
use crate::record::{Fence, Holder, Identity, Record, Term, Version};
use crate::time::{Instant, Span, Wall};

/// Whether the store ends records itself, or leaves that to contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it does or it does not")]
pub enum Ends {
    /// Records that are over are gone, by the store's clock.
    ByStore,
    /// Records stay until they are released or replaced.
    ByContenders,
}

/// Everything kept for one name. `H` stands for a holder's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<H> {
    ends: Ends,
    held: Option<Held<H>>,
    rest_until: Option<Rest>,
    fence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held<H> {
    holder: H,
    version: Version,
    ttl: Span,
    /// By the store's clock.
    ends_at: Instant,
    /// By the holder's.
    expires_at: Option<Wall>,
    max_clock_skew: Option<Span>,
    offered: bool,
    /// Written by a client that goes by the Unix clock alone.
    by_wall: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rest {
    rest: Span,
    /// Of the holder that released it; nobody's attempt any more, but told apart by it.
    version: Version,
    by_store: Instant,
    not_before: Option<Wall>,
}

/// What a row is made of, where the store ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores keep every part")]
pub struct Parts<H> {
    /// Whom it names.
    pub holder: Option<H>,
    /// Whether that one was named by a hand-over.
    pub offered: bool,
    /// The version of the attempt that wrote it.
    pub version: Version,
    /// How long it stays valid, or rests.
    pub ttl: Span,
    /// When it ends, or stops resting, by the store's clock.
    pub ends_at: Instant,
    /// The fencing number drawn last.
    pub fence: u64,
}

/// Which start of which machine a store's clock belongs to. Instants of one mean nothing to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "hosts read both from their system")]
pub struct Boot {
    /// The machine.
    pub machine: u128,
    /// Its start.
    pub boot: u128,
}

/// A row that was written on another machine, whose clock cannot be judged from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it has nothing to say but this")]
pub struct OtherMachine;

impl<H: Copy + PartialEq> Parts<H> {
    const fn free(fence: u64) -> Self {
        Self {
            holder: None,
            offered: false,
            version: Version::NONE,
            ttl: Span::ZERO,
            ends_at: Instant::from_micros(0),
            fence,
        }
    }

    /// The row as of this start of the machine: an earlier start's processes are gone, so it is free
    /// then.
    ///
    /// # Errors
    /// [`OtherMachine`] if it is held, or rests, by the clock of another one.
    pub fn since(self, written: Boot, here: Boot) -> Result<Self, OtherMachine> {
        let free = Self::free(self.fence);
        if written == here || self == free {
            Ok(self)
        } else if written.machine == here.machine {
            Ok(free)
        } else {
            Err(OtherMachine)
        }
    }
}

impl<H: Copy + PartialEq> Row<H> {
    /// A free row, with a fence that starts above `fence`.
    #[must_use]
    pub const fn new(ends: Ends, fence: u64) -> Self {
        Self { ends, held: None, rest_until: None, fence }
    }

    /// Everything in it, for stores that keep it elsewhere between calls.
    #[must_use]
    pub fn parts(&self) -> Parts<H> {
        let fence = self.fence;
        match (self.held, self.rest_until) {
            (Some(held), _) => Parts {
                holder: Some(held.holder),
                offered: held.offered,
                version: held.version,
                ttl: held.ttl,
                ends_at: held.ends_at,
                fence,
            },
            (None, Some(rest)) => Parts {
                version: rest.version,
                ttl: rest.rest,
                ends_at: rest.by_store,
                ..Parts::free(fence)
            },
            (None, None) => Parts::free(fence),
        }
    }

    /// A row that the store ends, from its parts. Nobody's row with an end is resting.
    #[must_use]
    pub fn from_parts(parts: Parts<H>) -> Self {
        let Parts { holder, offered, version, ttl, ends_at, fence } = parts;
        let held = holder.map(|holder| Held {
            holder,
            version,
            ttl,
            ends_at,
            expires_at: None,
            max_clock_skew: None,
            offered,
            by_wall: false,
        });
        let rests = held.is_none() && ends_at > Instant::from_micros(0);
        let rest_until =
            rests.then_some(Rest { rest: ttl, version, by_store: ends_at, not_before: None });
        Self { ends: Ends::ByStore, held, rest_until, fence }
    }

    /// Whom the row names at the store's time `now`, with the version and fence it carries.
    #[must_use]
    pub fn holder(&self, now: Instant) -> Option<(H, Version, Fence)> {
        let held = self.held.filter(|held| !self.is_over(held, now))?;
        Some((held.holder, held.version, Fence(self.fence)))
    }

    /// Carries out `call` for the contender `us` at the store's time `now`. `successor` is named by
    /// a hand-over, which without one is denied.
    pub fn carry_out(&mut self, us: H, successor: Option<H>, call: &Call, now: Instant) -> Outcome {
        self.pass_time(now);
        match call.kind {
            CallKind::Acquire { attempt, terms } => {
                let resting = self.rest_until.is_some_and(|rest| match self.ends {
                    Ends::ByStore => rest.by_store > now,
                    Ends::ByContenders => rest.not_before > call.wall || call.wall.is_none(),
                });
                let over = self.held.is_some_and(|held| {
                    let (Some(ours), Some(theirs)) = (terms.max_clock_skew(), held.max_clock_skew)
                    else {
                        return false;
                    };
                    let (Some(now), Some(expires_at)) = (call.wall, held.expires_at) else {
                        return false;
                    };
                    theirs <= ours && expires_at < now.before(ours)
                });
                if (self.held.is_some() && !over) || resting {
                    return self.refused(us, now);
                }
                self.fence = self.fence.saturating_add(1);
                self.write(us, attempt, terms, call, now)
            }
            CallKind::Takeover { attempt, terms, seen } => {
                if self.record(us, now).identity != seen {
                    return self.refused(us, now);
                }
                self.fence = self.fence.saturating_add(1);
                self.write(us, attempt, terms, call, now)
            }
            CallKind::Renew { attempt, terms, ours } => {
                if !self.is_ours(us, ours.as_slice()) {
                    return self.refused(us, now);
                }
                self.write(us, attempt, terms, call, now)
            }
            CallKind::HandOver { attempt, terms, ours } => {
                if !self.is_ours(us, ours.as_slice()) {
                    return self.refused(us, now);
                }
                let Some(successor) = successor else { return Outcome::Denied };
                let outcome = self.write(successor, attempt, terms, call, now);
                if let Some(held) = &mut self.held {
                    held.offered = true;
                }
                outcome
            }
            CallKind::Release { ours, rest } => {
                if !self.is_ours(us, ours.as_slice()) {
                    return self.refused(us, now);
                }
                let version = self.held.take().map_or(Version::NONE, |held| held.version);
                self.rest_until = (rest > Span::ZERO).then(|| Rest {
                    rest,
                    version,
                    by_store: now.after(rest),
                    not_before: call.wall.map(|wall| wall.after(rest)),
                });
                Outcome::Applied { fence: None }
            }
            CallKind::Read { .. } => Outcome::Found { record: self.record(us, now) },
        }
    }

    /// What a client does that goes by the Unix clock alone: takes the name, or keeps it, unless
    /// another's stored expiry lies ahead. It knows of nothing else in the row and leaves it there, our
    /// version too. True if it holds.
    pub fn hold_by_wall(&mut self, holder: H, now: Wall, ttl: Span) -> bool {
        let open = |held: &Held<H>| held.holder == holder || held.expires_at < Some(now);
        if self.held.is_some_and(|held| !open(&held) || held.expires_at.is_none()) {
            return false;
        }
        let expires_at = Some(now.after(ttl));
        let left_behind = self.held.unwrap_or(Held {
            holder,
            version: Version::NONE,
            ttl,
            ends_at: Instant::from_micros(u64::MAX),
            expires_at,
            max_clock_skew: None,
            offered: false,
            by_wall: true,
        });
        self.held = Some(Held { holder, expires_at, offered: false, by_wall: true, ..left_behind });
        true
    }

    /// What such a client does in the end: removes itself, if it stands there.
    pub fn leave_by_wall(&mut self, holder: H) {
        self.held = self.held.filter(|held| !held.by_wall || held.holder != holder);
    }

    /// Frees the row whoever holds it.
    pub fn clear(&mut self) {
        self.held = None;
        self.rest_until = None;
    }

    /// The row as `us` would read it at the store's time `now`.
    #[must_use]
    pub fn record(&self, us: H, now: Instant) -> Record {
        let Some(held) = self.held.filter(|held| !self.is_over(held, now)) else {
            let rests = |rest: &Rest| self.ends == Ends::ByContenders || rest.by_store > now;
            let Some(rest) = self.rest_until.filter(rests) else { return Record::FREE };
            let term = match self.ends {
                Ends::ByStore => Term::Remaining { left: Some(rest.by_store.since(now)) },
                Ends::ByContenders => {
                    Term::Resting { rest: rest.rest, not_before: rest.not_before }
                }
            };
            let identity = Identity(!rest.version.to_bits());
            return Record { term, identity, ..Record::FREE };
        };
        if let (true, Some(expires_at)) = (held.by_wall, held.expires_at) {
            return Record {
                holder: Holder::Other,
                version: held.version,
                identity: Identity(!held.version.to_bits() ^ u128::from(expires_at.as_micros())),
                fence: Some(Fence(self.fence)),
                term: Term::WallOnly { expires_at },
            };
        }
        let ttl = held.ttl;
        let term = match (self.ends, held.expires_at, held.max_clock_skew) {
            (Ends::ByStore, ..) => {
                Term::Remaining { left: (!ttl.is_forever()).then(|| held.ends_at.since(now)) }
            }
            (Ends::ByContenders, Some(expires_at), Some(max_clock_skew)) => {
                Term::Bounded { ttl, expires_at, max_clock_skew }
            }
            (Ends::ByContenders, ..) => Term::Observed { ttl },
        };
        let holder = match (held.holder == us, held.offered) {
            (true, true) => Holder::OfferedToUs,
            (true, false) => Holder::Us,
            (false, _) => Holder::Other,
        };
        Record {
            holder,
            version: held.version,
            identity: Identity(held.version.to_bits()),
            fence: Some(Fence(self.fence)),
            term,
        }
    }

    fn pass_time(&mut self, now: Instant) {
        if self.ends == Ends::ByStore {
            self.held = self.held.filter(|held| !self.is_over(held, now));
            self.rest_until = self.rest_until.filter(|rest| rest.by_store > now);
        }
    }

    fn is_over(&self, held: &Held<H>, now: Instant) -> bool {
        self.ends == Ends::ByStore && !held.ttl.is_forever() && held.ends_at <= now
    }

    fn is_ours(&self, us: H, ours: &[Version]) -> bool {
        self.held
            .is_some_and(|held| held.holder == us && !held.offered && ours.contains(&held.version))
    }

    fn refused(&self, us: H, now: Instant) -> Outcome {
        Outcome::Refused { current: Some(self.record(us, now)) }
    }

    fn write(
        &mut self,
        holder: H,
        version: Version,
        terms: Terms,
        call: &Call,
        now: Instant,
    ) -> Outcome {
        let ttl = terms.ttl();
        self.rest_until = None;
        self.held = Some(Held {
            holder,
            version,
            ttl,
            ends_at: now.after(ttl),
            expires_at: call.wall.map(|wall| wall.after(ttl)),
            max_clock_skew: terms.max_clock_skew(),
            offered: false,
            by_wall: false,
        });
        Outcome::Applied { fence: Some(Fence(self.fence)) }
    }
}

/// Up to `N` names in a fixed amount of memory; `K` is whatever a name is compared by.
#[derive(Debug)]
pub struct Store<K: Eq, H, const N: usize> {
    ends: Ends,
    rows: LinearMap<K, Row<H>, N>,
}

impl<K: Eq, H: Copy + PartialEq, const N: usize> Store<K, H, N> {
    /// An empty store.
    #[must_use]
    pub const fn new(ends: Ends) -> Self {
        Self { ends, rows: LinearMap::new() }
    }

    /// As [`Row::carry_out`]. A name that finds no room is denied: never a free lease.
    pub fn carry_out(
        &mut self,
        name: K,
        us: H,
        successor: Option<H>,
        call: &Call,
        now: Instant,
    ) -> Outcome {
        if let Some(row) = self.rows.get_mut(&name) {
            return row.carry_out(us, successor, call, now);
        }
        let mut row = Row::new(self.ends, 0);
        let outcome = row.carry_out(us, successor, call, now);
        if matches!(outcome, Outcome::Applied { .. }) && self.rows.insert(name, row).is_err() {
            return Outcome::Denied;
        }
        outcome
    }

    /// The row of a name, if it was ever held.
    #[must_use]
    pub fn row(&self, name: &K) -> Option<&Row<H>> {
        self.rows.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Expiry, Settings, Ttl};
    use crate::io::{CallId, OurVersions};

    fn call(kind: CallKind) -> Call {
        Call { id: CallId(1), kind, wall: None, give_up_at: Instant::from_micros(0) }
    }

    fn acquire(bits: u128) -> Call {
        let ttl = Ttl::For(Span::from_millis(1_000));
        let terms = Config::new(Settings::new(ttl, Expiry::Store)).unwrap().first_terms();
        call(CallKind::Acquire { attempt: Version::from_bits(bits), terms })
    }

    #[test]
    fn the_fence_survives_a_release_and_the_name_is_free_at_once() {
        let mut row = Row::new(Ends::ByContenders, 0);
        let now = Instant::from_micros(0);
        assert_eq!(
            row.carry_out('a', None, &acquire(1), now),
            Outcome::Applied { fence: Some(Fence(1)) }
        );
        assert!(matches!(row.carry_out('b', None, &acquire(2), now), Outcome::Refused { .. }));
        let ours = OurVersions::one(Version::from_bits(1));
        let release = call(CallKind::Release { ours, rest: Span::ZERO });
        assert!(matches!(row.carry_out('b', None, &release, now), Outcome::Refused { .. }));
        assert_eq!(row.carry_out('a', None, &release, now), Outcome::Applied { fence: None });
        assert_eq!(
            row.carry_out('b', None, &acquire(3), now),
            Outcome::Applied { fence: Some(Fence(2)) }
        );
    }

    #[test]
    fn a_full_table_is_denied_and_not_free() {
        let mut store: Store<u8, char, 1> = Store::new(Ends::ByStore);
        let now = Instant::from_micros(0);
        assert!(matches!(store.carry_out(1, 'a', None, &acquire(1), now), Outcome::Applied { .. }));
        assert_eq!(store.carry_out(2, 'a', None, &acquire(2), now), Outcome::Denied);
        let later = Instant::from_micros(1_000_001);
        assert!(matches!(
            store.carry_out(1, 'b', None, &acquire(3), later),
            Outcome::Applied { fence: Some(Fence(2)) }
        ));
    }

    const TTL: Span = Span::from_millis(1_000);

    fn at(millis: u64) -> Instant {
        Instant::from_micros(0).after(Span::from_millis(millis))
    }

    fn wall(millis: u64) -> Option<Wall> {
        Some(Wall::from_millis(millis))
    }

    /// An acquire of one that declares a bound, by its Unix clock.
    fn bounded(bits: u128, skew_ms: u64, now: Option<Wall>) -> Call {
        let expiry = Expiry::Bounded { max_clock_skew: Span::from_millis(skew_ms) };
        let terms = Config::new(Settings::new(Ttl::For(TTL), expiry)).unwrap().first_terms();
        let kind = CallKind::Acquire { attempt: Version::from_bits(bits), terms };
        Call { wall: now, ..call(kind) }
    }

    fn release(bits: u128, rest_ms: u64, now: Option<Wall>) -> Call {
        let ours = OurVersions::one(Version::from_bits(bits));
        let rest = Span::from_millis(rest_ms);
        Call { wall: now, ..call(CallKind::Release { ours, rest }) }
    }

    fn is_applied(outcome: Outcome) -> bool {
        matches!(outcome, Outcome::Applied { .. })
    }

    #[test]
    fn a_row_is_of_this_start_of_the_machine_or_free_and_another_machines_is_neither() {
        let held = Parts { holder: Some('a'), ends_at: at(500), ttl: TTL, ..Parts::free(7) };
        let (here, rebooted) = (Boot { machine: 1, boot: 1 }, Boot { machine: 1, boot: 2 });
        let elsewhere = Boot { machine: 2, boot: 1 };
        assert_eq!(held.since(here, here), Ok(held));
        assert_eq!(held.since(here, rebooted), Ok(Parts::free(7)));
        assert_eq!(held.since(elsewhere, here), Err(OtherMachine));
        assert_eq!(Parts::<char>::free(7).since(elsewhere, here), Ok(Parts::free(7)));
    }

    #[test]
    fn a_row_is_the_same_from_its_parts() {
        let mut row = Row::new(Ends::ByStore, 0);
        assert_eq!(Row::from_parts(row.parts()), row);
        assert!(is_applied(row.carry_out('a', None, &acquire(1), at(0))));
        let parts = row.parts();
        assert_eq!((parts.holder, parts.ends_at, parts.ttl), (Some('a'), at(1_000), TTL));
        assert_eq!(Row::from_parts(parts), row);
        assert!(is_applied(row.carry_out('a', None, &release(1, 300, None), at(100))));
        let parts = row.parts();
        assert_eq!((parts.holder, parts.ends_at), (None, at(400)));
        assert_eq!(parts.version, Version::from_bits(1));
        assert_eq!(parts.ttl, Span::from_millis(300));
        assert_eq!(Row::from_parts(parts), row);
    }

    #[test]
    fn the_store_ends_a_record_at_its_last_instant_and_frees_a_name_that_rested() {
        let mut row = Row::new(Ends::ByStore, 0);
        assert!(is_applied(row.carry_out('a', None, &acquire(1), at(0))));
        let named = |row: &Row<char>, millis| row.holder(at(millis)).map(|(who, ..)| who);
        assert_eq!(named(&row, 999), Some('a'));
        assert_eq!(named(&row, 1_000), None);
        assert!(is_applied(row.carry_out('a', None, &release(1, 300, None), at(100))));
        let left = Some(Span::from_millis(1));
        assert_eq!(row.record('b', at(399)).term, Term::Remaining { left });
        assert_eq!(row.record('b', at(400)), Record::FREE);
        assert!(!is_applied(row.carry_out('b', None, &acquire(2), at(399))));
        assert!(is_applied(row.carry_out('b', None, &acquire(2), at(400))));
    }

    #[test]
    fn where_contenders_end_records_a_rest_ends_by_the_wall_of_whoever_asks() {
        let rested = || {
            let mut row = Row::new(Ends::ByContenders, 0);
            assert!(is_applied(row.carry_out('a', None, &acquire(1), at(0))));
            let released = row.carry_out('a', None, &release(1, 300, wall(5_000)), at(0));
            assert!(is_applied(released));
            row
        };
        let ask = |now| is_applied(rested().carry_out('b', None, &bounded(2, 100, now), at(9_000)));
        assert!(!ask(wall(5_299)) && ask(wall(5_300)));
        assert!(!ask(None), "who has no such clock waits");
    }

    #[test]
    fn a_bound_frees_a_record_of_those_who_declared_one_as_large_at_most() {
        let asked = |theirs, ours, now| {
            let mut row = Row::new(Ends::ByContenders, 0);
            let held = row.carry_out('a', None, &bounded(1, theirs, wall(5_000)), at(0));
            assert!(is_applied(held));
            is_applied(row.carry_out('b', None, &bounded(2, ours, now), at(0)))
        };
        // It expires after 6,000 ms by its wall.
        assert!(!asked(100, 100, wall(6_100)));
        assert!(asked(100, 100, wall(6_101)));
        assert!(asked(50, 100, wall(6_101)));
        assert!(!asked(150, 100, wall(60_000)));
        assert!(!asked(100, 100, None));
    }

    #[test]
    fn a_client_that_goes_by_the_wall_takes_what_is_over_by_it_and_leaves_only_its_own() {
        let now = Wall::from_millis(5_000);
        let mut row = Row::new(Ends::ByContenders, 0);
        assert!(row.hold_by_wall('w', now, TTL));
        assert!(row.hold_by_wall('w', now, TTL), "keeps it");
        assert!(!row.hold_by_wall('v', Wall::from_millis(6_000), TTL));
        assert!(row.hold_by_wall('v', Wall::from_millis(6_001), TTL));
        row.leave_by_wall('w');
        assert_eq!(row.holder(at(0)).map(|(who, ..)| who), Some('v'));
        let expires_at = Wall::from_millis(7_001);
        assert_eq!(row.record('v', at(0)).term, Term::WallOnly { expires_at });
        row.leave_by_wall('v');
        assert_eq!(row.holder(at(0)), None);

        // It neither sees what tells no Unix time, nor removes what another wrote under its name.
        assert!(is_applied(row.carry_out('a', None, &acquire(1), at(0))));
        assert!(!row.hold_by_wall('w', Wall::from_millis(u64::MAX), TTL));
        row.leave_by_wall('a');
        assert_eq!(row.holder(at(0)).map(|(who, ..)| who), Some('a'));
    }

    #[test]
    fn one_version_left_behind_is_told_apart_by_the_time_that_was_written_beside_it() {
        let mut row = Row::new(Ends::ByContenders, 0);
        let held = row.carry_out('a', None, &bounded(1, 100, wall(5_000)), at(0));
        assert!(is_applied(held));
        let ours = row.record('a', at(0)).identity;
        assert!(row.hold_by_wall('w', Wall::from_millis(7_000), TTL));
        let left_behind = row.record('a', at(0));
        assert_eq!(left_behind.version, Version::from_bits(1));
        assert_eq!(left_behind.holder, Holder::Other);
        assert!(row.hold_by_wall('w', Wall::from_millis(7_500), TTL));
        let renewed = row.record('a', at(0)).identity;
        assert!(ours != left_behind.identity && left_behind.identity != renewed);
    }

    #[test]
    fn nothing_but_our_own_record_is_renewed_or_handed_over() {
        let terms = bounded(0, 100, None).kind;
        let CallKind::Acquire { terms, .. } = terms else { return };
        let ours = OurVersions::one(Version::from_bits(1));
        let renew = call(CallKind::Renew { attempt: Version::from_bits(2), terms, ours });
        let hand_over = call(CallKind::HandOver { attempt: Version::from_bits(3), terms, ours });
        let mut row = Row::new(Ends::ByContenders, 0);
        assert!(is_applied(row.carry_out('a', None, &acquire(1), at(0))));
        for refused in [&renew, &hand_over] {
            assert!(!is_applied(row.carry_out('b', Some('c'), refused, at(0))));
        }
        assert_eq!(row.carry_out('a', None, &hand_over, at(0)), Outcome::Denied);
        assert!(is_applied(row.carry_out('a', Some('c'), &hand_over, at(0))));
        assert_eq!(row.record('c', at(0)).holder, Holder::OfferedToUs);
        assert_eq!(row.record('a', at(0)).holder, Holder::Other);
        let ours = OurVersions::one(Version::from_bits(3));
        let renew = call(CallKind::Renew { attempt: Version::from_bits(4), terms, ours });
        assert!(!is_applied(row.carry_out('c', None, &renew, at(0))), "an offer is taken over");
    }
}
