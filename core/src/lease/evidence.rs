//! What a contender knows of the record in its way, and when that proves it over.
//!
//! Judgements only: nothing here changes the phase.

use super::{Lease, jitter};
use crate::config::Versions;
use crate::record::{Holder, Record, Sight, Term};
use crate::time::{Fast, Now, Span, Wall};

impl Lease {
    /// Notes a record that is in the way. True if it was not there before.
    pub(super) fn look_at(&mut self, now: &Now, record: Record) -> bool {
        match &mut self.seen {
            Some(sight) if sight.record.identity == record.identity => {
                sight.record = record;
                sight.read_at = now.mono;
                false
            }
            seen => {
                let since = self.clock.slow();
                let proven = Span::ZERO;
                *seen = Some(Sight { record, proven, since, read_at: now.mono, broken: false });
                true
            }
        }
    }

    pub(super) fn stood_for(&self, sight: &Sight) -> Span {
        sight.proven.plus(self.clock.slow().since(sight.since))
    }

    /// Whether this record may be replaced now.
    pub(super) fn may_take(&self, now: &Now, sight: &Sight) -> bool {
        match sight.record.holder {
            _ if sight.broken => true,
            Holder::OfferedToUs => true,
            Holder::Us if self.ledger.is_retired(sight.record.version) => true,
            Holder::Us | Holder::Other | Holder::Nobody => self.proven_over(now, sight),
        }
    }

    pub(super) fn proven_over(&self, now: &Now, sight: &Sight) -> bool {
        let observed = |ttl: Span| {
            !ttl.is_forever() && self.stood_for(sight) > ttl.plus(self.config.margin(ttl))
        };
        let passed = |expires_at: Wall, theirs: Span| {
            let (Some(ours), Some(wall)) = (self.config.max_clock_skew(), now.wall) else {
                return false;
            };
            wall > expires_at.after(ours.max(theirs))
        };
        match sight.record.term {
            Term::Over | Term::Remaining { .. } => false,
            Term::Observed { ttl } => observed(ttl),
            Term::Resting { rest, .. } => rest == Span::ZERO || observed(rest),
            Term::Bounded { ttl, expires_at, max_clock_skew } => {
                observed(ttl) || !ttl.is_forever() && passed(expires_at, max_clock_skew)
            }
            Term::WallOnly { expires_at } => passed(expires_at, Span::ZERO),
        }
    }

    /// How long until a record can be over, if it stays as it is; `None` if that cannot be known.
    pub(super) fn changes_in(&self, now: &Now, sight: &Sight) -> Option<Span> {
        let tick = Span::from_micros(1);
        let observed = |ttl: Span| {
            let wait = ttl.plus(self.config.margin(ttl)).plus(tick);
            (!ttl.is_forever()).then(|| wait.minus(self.stood_for(sight)))
        };
        let by_wall = |expires_at: Wall, theirs: Span| {
            let skew = self.config.max_clock_skew()?.max(theirs).plus(tick);
            Some(expires_at.after(skew).since(now.wall?))
        };
        match sight.record.term {
            Term::Over => Some(Span::ZERO),
            Term::Observed { ttl } => observed(ttl),
            Term::Bounded { ttl, expires_at, max_clock_skew } => {
                match (observed(ttl), by_wall(expires_at, max_clock_skew)) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, None) => a,
                    (None, _) => None,
                }
            }
            Term::WallOnly { expires_at } => by_wall(expires_at, Span::ZERO),
            Term::Resting { rest, not_before } => {
                let waited = observed(rest)?;
                let by_wall = not_before.zip(now.wall).map(|(until, now)| until.since(now));
                Some(by_wall.map_or(waited, |span| span.min(waited)))
            }
            Term::Remaining { left } => Some(left?.minus(now.mono.since(sight.read_at))),
        }
    }

    /// The pause before try number `failures` + 1: none, then doubling, and never in step with
    /// another contender's.
    pub(super) fn backoff(&self, now: &Now, failures: u8) -> Span {
        let Some(doublings) = failures.checked_sub(1) else { return Span::ZERO };
        let longest = self.config.poll_interval().max(Span::from_millis(20));
        let pause = Span::from_millis(10).times(1_u64 << doublings.min(20)).min(longest);
        pause.part(2).plus(jitter(pause.part(2), now))
    }

    pub(super) fn renew_at(&self, sent: Fast, ttl: Span) -> Fast {
        if ttl.is_forever() {
            return self.clock.fast().after(self.check_interval());
        }
        sent.after(self.terms.renew_interval)
    }

    /// The pace at which a lock, which nothing renews, is looked at.
    pub(super) fn check_interval(&self) -> Span {
        self.config.settings().poll_interval.unwrap_or(Span::from_millis(1_000))
    }

    /// Whether the store compares a single value, so that a condition cannot list several.
    pub(super) fn names_one(&self) -> bool {
        self.config.settings().versions == Versions::PerClaim
    }
}
