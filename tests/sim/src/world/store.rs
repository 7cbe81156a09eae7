//! What a request does at the store, and whether it may.

use tenure_core::io::{Call, CallKind, OurVersions, Outcome};
use tenure_core::memory::{Ends, Parts, Row};
use tenure_core::record::Version;

use super::{Landed, Message, Shows, World, remember};
use crate::promise::{Broken, Promise, broken};

impl World {
    pub(super) fn land(&mut self, index: usize) -> Result<(), Broken> {
        let message = self.network[index];
        if message.reply.is_some() {
            return Ok(());
        }
        let now = self.store_now();
        let Message { number, mut call, holder, successor, .. } = message;
        if self.rules.compares_one {
            match &mut call.kind {
                CallKind::Renew { ours, .. }
                | CallKind::HandOver { ours, .. }
                | CallKind::Release { ours, .. } => {
                    if let [first, ..] = *ours.as_slice() {
                        *ours = OurVersions::one(first);
                    }
                }
                CallKind::Acquire { .. } | CallKind::Takeover { .. } | CallKind::Read { .. } => {}
            }
        }
        let before = self.row.holder(now);
        let mut row = self.row;
        let takes = matches!(call.kind, CallKind::Acquire { .. } | CallKind::Takeover { .. });
        if takes && self.rules.forgets && self.rules.ends == Ends::ByStore {
            // The clock seeds fences, so that they outlive their counter.
            let parts = row.parts();
            row = Row::from_parts(Parts { fence: parts.fence.max(now.as_micros()), ..parts });
        }
        let mut outcome = row.carry_out(holder, successor, &call, now);
        if matches!(outcome, Outcome::Applied { .. }) {
            self.row = row;
        } else {
            outcome = self.row.carry_out(holder, successor, &call, now);
        }
        if self.verbose {
            println!("{:>12} store: {number:?} {call:?}", self.time);
            println!("             => {outcome:?}");
        }
        if matches!(outcome, Outcome::Applied { .. }) {
            self.check_applied(number.life, &call, before.map(|(_, version, _)| version))?;
        }
        match call.kind {
            CallKind::Acquire { attempt, terms } | CallKind::Takeover { attempt, terms, .. } => {
                let again = self.carried_out.contains(&attempt);
                if !again {
                    remember(&mut self.carried_out, attempt);
                }
                if let Outcome::Applied { fence } = outcome {
                    let fence = fence.map_or(0, |fence| fence.0);
                    if self.given.last().is_some_and(|(last, _)| fence <= *last) {
                        return Err(broken(
                            Promise::Fencing,
                            "fences must grow in the store's order",
                        ));
                    }
                    remember(&mut self.given, (fence, number.life));
                    let ttl = terms.ttl().as_micros();
                    let excused = again || self.time >= message.excused_from();
                    let until = self.time.saturating_add(ttl - ttl / 10);
                    let life = number.life;
                    self.landed = Some(Landed { life, version: attempt, fence, until, excused });
                }
            }
            CallKind::Renew { attempt, terms, .. } => {
                if matches!(outcome, Outcome::Applied { .. })
                    && let Some(landed) = &mut self.landed
                {
                    let ttl = terms.ttl().as_micros();
                    landed.excused |= self.time >= message.excused_from();
                    landed.life = number.life;
                    landed.version = attempt;
                    landed.until = self.time.saturating_add(ttl - ttl / 10);
                }
            }
            CallKind::Release { .. } | CallKind::HandOver { .. } => {
                if matches!(outcome, Outcome::Applied { .. }) {
                    self.landed = None;
                }
            }
            CallKind::Read { .. } => {}
        }
        if let Outcome::Refused { current } = &mut outcome
            && (self.rules.shows == Shows::Never || self.rules.shows == Shows::Acquires && !takes)
        {
            *current = None;
        }
        if message.ghost {
            self.network.swap_remove(index);
        } else {
            self.network[index].reply = Some(outcome);
        }
        Ok(())
    }

    /// Nothing but what its sender wrote, or saw, is ever changed.
    pub(super) fn check_applied(
        &self,
        life: u32,
        call: &Call,
        before: Option<Version>,
    ) -> Result<(), Broken> {
        match call.kind {
            CallKind::Acquire { .. } | CallKind::Takeover { .. } | CallKind::Read { .. } => {}
            CallKind::Renew { .. } | CallKind::HandOver { .. } | CallKind::Release { .. } => {
                let Some(version) = before else {
                    return Err(broken(
                        Promise::ReleaseIsOurs,
                        "a record that is not there was changed",
                    ));
                };
                if !self.drew(life, version) {
                    return Err(broken(Promise::ReleaseIsOurs, "another's record was changed"));
                }
            }
        }
        Ok(())
    }

    /// Whether this life, or an ancestor before it was copied, drew this version.
    pub(super) fn drew(&self, life: u32, version: Version) -> bool {
        let bits = version.to_bits();
        let (by, draw) = ((bits >> 96) as u32, (bits >> 32) as u64);
        by == life
            || self.contenders.iter().any(|c| {
                c.life == life && c.lineage.iter().any(|(of, until)| *of == by && draw <= *until)
            })
    }
}
