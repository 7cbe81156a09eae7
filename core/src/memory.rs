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
}
