//! Which call a lease wants carried out now, and when it wants to be asked again.
//!
//! A call belongs to the phase that it is made in; making it notes in the ledger and in that phase
//! what was sent, and leads to no other phase.

use super::phase::{Acquiring, Cause, Flight, Goal, Held, Next, Phase, Undoing, Write};
use super::{Lease, fresh_version};
use crate::config::{Polling, Versions};
use crate::io::{Call, CallId, CallKind, Failure, OurVersions};
use crate::ledger::Attempt;
use crate::record::{Holder, Version};
use crate::time::{Fast, Instant, Now, Span};

impl Lease {
    pub(super) fn next_call(&mut self, now: &Now) -> Option<Call> {
        if self.flight.is_some() {
            return None;
        }
        let fast = self.clock.fast();
        match self.phase {
            Phase::Acquiring(acquiring) if fast >= acquiring.next_at => {
                let reads = match acquiring.next {
                    Next::Settle => Some(true),
                    Next::Poll if self.config.settings().polling == Polling::Read => Some(false),
                    Next::Poll | Next::Write => None,
                };
                match reads {
                    Some(consistent) => Some(self.look(now, consistent)),
                    None => Some(self.write_acquire(now, acquiring)),
                }
            }
            Phase::Held(held) if held.ended => Some(self.look(now, true)),
            Phase::Held(held) if fast < held.until && (held.asked || fast >= held.renew_at) => {
                let only_check = held.ttl.is_forever() && self.terms.ttl().is_forever();
                // A failed renewal is not repeated at once just because it was asked for.
                if held.failures > 0 && fast < held.renew_at {
                    None
                } else if held.settle || only_check && !held.asked {
                    Some(self.look(now, true))
                } else {
                    Some(self.write_renew(now, held))
                }
            }
            Phase::Undoing(undoing) if fast >= undoing.next_at && !self.ledger.is_empty() => {
                Some(self.write_undo(now, &undoing))
            }
            _ => None,
        }
    }

    fn write_acquire(&mut self, now: &Now, acquiring: Acquiring) -> Call {
        let terms = self.config.first_terms();
        let attempt = match (self.config.settings().versions, acquiring.claim) {
            (Versions::PerClaim, Some(claim)) => claim,
            _ => fresh_version(now),
        };
        self.phase = Phase::Acquiring(Acquiring { claim: Some(attempt), ..acquiring });
        let takes = self.seen.filter(|sight| self.may_take(now, sight));
        let (write, kind) = match takes {
            Some(sight) => {
                let seen = sight.record.identity;
                (Write::Takeover, CallKind::Takeover { attempt, terms, seen })
            }
            None => (Write::Acquire, CallKind::Acquire { attempt, terms }),
        };
        // Replacing what was ours or nobody's is no takeover to speak of.
        let takeover = takes.is_some_and(|sight| sight.record.holder == Holder::Other);
        self.send(now, write, kind, takeover)
    }

    fn write_renew(&mut self, now: &Now, held: Held) -> Call {
        let mut terms = self.terms;
        let mut attempt = match self.config.settings().versions {
            // A write that lands late must not shorten what a later one gave, so only writes of one
            // ttl share a version; and none does while another that names it is in doubt, which would
            // find it standing there again.
            Versions::PerClaim if terms.ttl() == held.ttl && !self.ledger.has_open() => {
                held.version
            }
            _ => fresh_version(now),
        };
        if let Some(newest) = self.ledger.full_with() {
            // No room for another attempt: the newest is sent again, and counts from its first
            // sending.
            attempt = newest.version;
            terms.ttl = newest.ttl;
        }
        let mut ours = OurVersions::one(held.version);
        ours.push(attempt);
        self.ledger.add_versions(&mut ours, false);
        let until = self.clock.fast().after(terms.valid_for);
        self.phase = Phase::Held(Held {
            asked: false,
            // If it shortens the lease and its reply is lost, it may have been applied.
            until: if terms.ttl() < held.ttl { held.until.min(until) } else { held.until },
            // Which is no risk that anybody need hear of.
            at_risk_told: held.at_risk_told || terms.ttl() < held.ttl,
            ..held
        });
        let kind = CallKind::Renew { attempt, terms, ours };
        self.send(now, Write::Renew, kind, false)
    }

    fn write_undo(&mut self, now: &Now, undoing: &Undoing) -> Call {
        if undoing.goal == Goal::HandOver {
            if undoing.failures == u8::MAX {
                return self.look(now, true);
            }
            let offer =
                if undoing.offer == Version::NONE { fresh_version(now) } else { undoing.offer };
            self.phase = Phase::Undoing(Undoing { offer, ..*undoing });
            let kind = CallKind::HandOver {
                attempt: offer,
                terms: self.config.first_terms(),
                ours: self.given_up(),
            };
            return self.send(now, Write::HandOver, kind, false);
        }
        let ours = self.given_up();
        let rest = undoing.rest_until.since(self.clock.fast());
        self.send(now, Write::Release, CallKind::Release { ours, rest }, false)
    }

    /// The versions of what is being given up, as far as one condition can name them.
    fn given_up(&self) -> OurVersions {
        if self.names_one() {
            self.ledger.first().map_or_else(OurVersions::empty, OurVersions::one)
        } else {
            self.ledger.versions(true)
        }
    }

    fn look(&mut self, now: &Now, consistent: bool) -> Call {
        self.send(now, Write::Read, CallKind::Read { consistent }, false)
    }

    /// Puts a call in flight, after its attempt was entered in the ledger.
    fn send(&mut self, now: &Now, write: Write, kind: CallKind, takeover: bool) -> Call {
        let fast = self.clock.fast();
        self.calls = self.calls.wrapping_add(1);
        let id = CallId(self.calls);
        let mut flight = Flight {
            id,
            write,
            attempt: Version::NONE,
            sent: fast,
            until: fast,
            ttl: Span::ZERO,
            give_up: fast.after(self.config.call_timeout()),
            first: false,
        };
        match kind {
            CallKind::Acquire { attempt, terms }
            | CallKind::Takeover { attempt, terms, .. }
            | CallKind::Renew { attempt, terms, .. }
            | CallKind::HandOver { attempt, terms, .. } => {
                let until = fast.after(terms.valid_for);
                flight = Flight { attempt, until, ttl: terms.ttl, ..flight };
                self.enter(now, &mut flight, takeover);
            }
            CallKind::Release { ours, .. } => {
                // Names the attempt if it is the only one.
                if let [only] = ours.as_slice() {
                    flight.attempt = *only;
                }
            }
            CallKind::Read { .. } => {}
        }
        if let Phase::Held(held) = self.phase
            && !held.ended
        {
            flight.give_up = flight.give_up.min(held.until);
        }
        self.flight = Some(flight);
        Call { id, kind, wall: now.wall, give_up_at: now.mono.after(flight.give_up.since(fast)) }
    }

    fn enter(&mut self, now: &Now, flight: &mut Flight, takeover: bool) {
        if let Phase::Held(held) = self.phase
            && held.version == flight.attempt
        {
            // Stands in the record already: nothing to find out about it.
            return;
        }
        flight.first = self.ledger.enter(Attempt {
            version: flight.attempt,
            until: flight.until,
            // Looked for until then: on its way for one ttl, and standing for another.
            gone_at: now.mono.after(flight.ttl.times(2)),
            ttl: flight.ttl,
            loose: matches!(flight.write, Write::Acquire | Write::Takeover),
            again: false,
            takeover,
            retired: flight.write == Write::HandOver,
        });
        if let Some(entered) = self.ledger.get(flight.attempt) {
            // One version sent several times: any of the sendings may be the one that is applied.
            flight.until = flight.until.min(entered.until);
        }
    }

    /// The earliest instant at which something is due, if nothing else happens before.
    pub(super) fn wake_at(&self, now: &Now) -> Option<Instant> {
        let fast = self.clock.fast();
        let give_up = self.flight.map(|flight| flight.give_up);
        let due = match &self.phase {
            Phase::Idle => return None,
            Phase::Acquiring(acquiring) if self.flight.is_none() => {
                Some(acquiring.cause.map_or(acquiring.next_at, |cause| match cause {
                    Cause::Failed(Failure::Unknown) => acquiring.next_at,
                    Cause::Busy(_) | Cause::Failed(_) => {
                        acquiring.next_at.min(acquiring.wait_until)
                    }
                }))
            }
            Phase::Acquiring(_) => None,
            Phase::Held(held) if held.ended => None,
            Phase::Held(held) => {
                let risk = if held.at_risk_told { held.until } else { held.at_risk_at() };
                let end = held.until.min(risk);
                Some(if self.flight.is_some() { end } else { end.min(held.renew_at) })
            }
            Phase::Undoing(undoing) if self.flight.is_none() => Some(undoing.next_at),
            Phase::Undoing(_) => None,
        };
        let at = match (give_up, due) {
            (Some(give_up), Some(due)) => Some(give_up.min(due)),
            (at, None) | (None, at) => at,
        };
        let at = at.filter(|at| *at != Fast::NEVER).map(|at| now.mono.after(at.since(fast)));
        let gone_at = match self.phase {
            Phase::Undoing(_) => self.ledger.next_gone_at(),
            Phase::Idle | Phase::Acquiring(_) | Phase::Held(_) => None,
        };
        let gone_at = gone_at.map(|at| at.max(now.mono));
        match (at, gone_at) {
            (Some(at), Some(gone_at)) => Some(at.min(gone_at)),
            (at, None) | (None, at) => at,
        }
    }
}
