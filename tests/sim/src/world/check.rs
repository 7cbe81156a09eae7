//! What is checked: when something is told, and at every instant.

use tenure_core::io::{Event, LostReason};
use tenure_core::lease::State;
use tenure_core::record::Fence;

use super::{Landed, World};
use crate::promise::{Broken, Promise, broken};

impl World {
    pub(super) fn hear(&mut self, who: usize, event: Event) -> Result<(), Broken> {
        match event {
            Event::Acquired { grant, .. } => {
                let Some(Fence(fence)) = grant.fence else {
                    return Err(broken(Promise::NoPhantom, "a grant without its fence"));
                };
                // What is told late may be out of order where two may hold.
                if fence <= self.last_fence && self.is_exclusive() {
                    return Err(broken(Promise::Fencing, "fences must grow from grant to grant"));
                }
                self.last_fence = self.last_fence.max(fence);
                let c = &mut self.contenders[who];
                c.fence = Some(fence);
                let life = c.life;
                let same = |landed: &&mut Landed| landed.life == life && landed.fence == fence;
                if let Some(landed) = self.landed.as_mut().filter(same) {
                    landed.excused = false;
                }
                if !self.given.contains(&(fence, life)) {
                    return Err(broken(Promise::NoPhantom, "a grant that the store never gave"));
                }
            }
            Event::Lost { reason, .. } => {
                let c = &self.contenders[who];
                // A copy of this machine may have renewed it meanwhile: that one has it, not we. And what a
                // replica brought back is not what was given.
                let ours =
                    self.row.holder(self.store_now()).is_some_and(|(holder, version, fence)| {
                        holder == c.holder
                            && Some(fence.0) == c.fence
                            && self.drew(c.life, version)
                            && self.landed.is_some_and(|landed| landed.version == version)
                    });
                if ours && matches!(reason, LostReason::Taken | LostReason::Missing) {
                    return Err(broken(
                        Promise::NoFalseLoss,
                        "the record still gives what was called lost",
                    ));
                }
                self.end(who);
            }
            Event::Released => {
                let c = &self.contenders[who];
                let stands =
                    self.row.holder(self.store_now()).is_some_and(|(_, version, fence)| {
                        Some(fence.0) == c.fence
                            && self.drew(c.life, version)
                            && self.landed.is_some_and(|l| l.version == version && !l.excused)
                    });
                if stands {
                    return Err(broken(Promise::ReleaseIsOurs, "what is told released stands"));
                }
                self.end(who);
            }
            Event::HandedOver => self.end(who),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn end(&mut self, who: usize) {
        let c = &mut self.contenders[who];
        if let Some(fence) = c.fence.take() {
            c.ended = c.ended.max(fence);
        }
    }

    /// Whether exclusion is promised at all in this world.
    pub(super) const fn is_exclusive(&self) -> bool {
        !self.rules.forgets && !self.rules.clones
    }

    /// The promises that are about one instant.
    pub(super) fn check(&mut self) -> Result<(), Broken> {
        let store_now = self.store_now();
        let exclusive = self.is_exclusive();
        let named = self.row.holder(store_now);
        let by_wall = self.by_wall_now();
        let mut believers = usize::from(self.by_wall_until.is_some_and(|until| by_wall <= until));
        for at in 0..self.contenders.len() {
            // Nobody can ask one that is dead or suspended.
            if self.contenders[at].dead || self.contenders[at].suspended {
                continue;
            }
            let now = self.clocks(at);
            // A copy is asked, so that asking changes nothing.
            let Some(grant) = self.contenders[at].lease.clone().grant(now) else {
                // Nothing may report it valid again, even if it was not told yet.
                let c = &mut self.contenders[at];
                c.ended = c.ended.max(c.fence.unwrap_or(0));
                continue;
            };
            believers += 1;
            let fence = grant.fence.map_or(0, |fence| fence.0);
            let c = &self.contenders[at];
            if fence <= c.ended {
                return Err(broken(Promise::LossIsFinal, "an ended grant came back"));
            }
            if exclusive
                && named.is_none_or(|(holder, _, stored)| holder != c.holder || stored.0 != fence)
            {
                return Err(broken(
                    Promise::BeliefImpliesStore,
                    "the record names another, or nobody",
                ));
            }
        }
        if exclusive && believers > 1 {
            return Err(broken(Promise::Exclusion, "two valid grants at one instant"));
        }
        if let (Some((holder, version, _)), Some(landed)) = (named, self.landed)
            && landed.version == version
            && !landed.excused
            && self.time < landed.until
            && self.contenders.iter().any(|c| {
                c.life == landed.life
                    && c.holder == holder
                    && !c.dead
                    && c.lease.state() == State::Idle
            })
        {
            return Err(broken(Promise::NoOrphan, "what was given up keeps the name"));
        }
        if !self.guarded.is_whole() {
            return Err(broken(Promise::GuardedResource, "an acknowledged addition is gone"));
        }
        Ok(())
    }
}
