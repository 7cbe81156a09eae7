//! Which states of the world are one: the exhaustive search visits each once.
//!
//! Two states are one if whatever can happen from here on happens alike in both. So times are told from
//! now, versions by the order of their appearance, fences by their rank, and contenders in whichever order
//! gives the smallest telling. A version that stands nowhere and is in no request can never stand anywhere
//! again: all such versions are told alike.
//!
//! What only the checks remember of the past (which grants the store gave) is left out, as is the guarded
//! resource, which the search does not use.

use tenure_core::io::{CallKind, Outcome};
use tenure_core::lease::Shape;
use tenure_core::memory::Ends;
use tenure_core::record::{Fence, Identity, Record, Term, Version};
use tenure_core::time::{Now, Span, Wall};

use crate::world::{Message, World};

/// How far states are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "models fill it in")]
pub struct Telling {
    /// In which all clocks advance, in microseconds.
    pub grain: u64,
    /// Contenders of one kind may change places.
    pub any_order: bool,
    /// Versions that can never stand again are one.
    pub dead_are_one: bool,
    /// What only P4 depends on tells states apart: until when a contender looks for what it gave up, and
    /// whether it can be expected to find it. Without it, that is tried for one length of time, not for all.
    pub orphans: bool,
    /// Whether a copy of a request is on its way tells states apart: it may not be turned away then.
    pub copies: bool,
}

/// A number for this state: equal for states that are one, and different for others but for chance.
#[must_use]
pub fn fingerprint(world: &World, telling: Telling) -> u128 {
    let mut order: Vec<usize> = (0..world.contenders.len()).collect();
    if !telling.any_order {
        return tell(world, telling, &order);
    }
    let mut least = u128::MAX;
    permute(&mut order, 0, &mut |order| least = least.min(tell(world, telling, order)));
    least
}

fn permute(order: &mut Vec<usize>, from: usize, visit: &mut impl FnMut(&[usize])) {
    if from + 1 >= order.len() {
        visit(order);
        return;
    }
    for other in from..order.len() {
        order.swap(from, other);
        permute(order, from + 1, visit);
        order.swap(from, other);
    }
}

struct Teller {
    grain: u64,
    /// Versions that may stand in the record some time; `None` tells all apart.
    alive: Option<Vec<Version>>,
    /// In the order of their appearance.
    versions: Vec<Version>,
    orphans: bool,
    copies: bool,
    /// Sorted.
    fences: Vec<u64>,
    hash: [u64; 2],
}

impl Shape for Teller {
    fn word(&mut self, word: u64) {
        // Two multiplications by odd constants, each mixed with its own shift.
        self.hash[0] = (self.hash[0] ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash[0] ^= self.hash[0] >> 29;
        self.hash[1] = (self.hash[1].rotate_left(23) ^ word).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        self.hash[1] ^= self.hash[1] >> 31;
    }

    fn version(&mut self, version: Version) {
        let number = self.number(version);
        self.word(number);
    }

    fn identity(&mut self, identity: Identity) {
        // What rests is told from what is held by the complement of its version.
        let (held, rests) = (Version::from_bits(identity.0), Version::from_bits(!identity.0));
        let number = if identity.0 == 0 {
            0
        } else if self.is_alive(rests) && self.alive.is_some() {
            self.number(rests) + (1 << 32)
        } else {
            self.number(held)
        };
        self.word(number);
    }

    fn minds_forgetting(&self) -> bool {
        self.orphans
    }

    fn may_stand(&self, version: Version) -> bool {
        self.is_alive(version)
    }

    fn fence(&mut self, fence: Option<Fence>) {
        let rank = fence.map_or(u64::MAX, |Fence(fence)| self.rank(fence));
        self.word(rank);
    }
}

impl Teller {
    fn is_alive(&self, version: Version) -> bool {
        self.alive.as_ref().is_none_or(|alive| alive.contains(&version))
    }

    fn number(&mut self, version: Version) -> u64 {
        if version == Version::NONE {
            return 0;
        }
        if !self.is_alive(version) {
            return 1;
        }
        let known = self.versions.iter().position(|v| *v == version);
        let index = known.unwrap_or_else(|| {
            self.versions.push(version);
            self.versions.len() - 1
        });
        2 + index as u64
    }

    fn rank(&self, fence: u64) -> u64 {
        match self.fences.binary_search(&fence) {
            Ok(at) => 2 * at as u64,
            Err(at) => 2 * at as u64 + 1,
        }
    }

    fn span(&mut self, span: Span) {
        let grains = span.as_micros().div_ceil(self.grain);
        self.word(if span.is_forever() { u64::MAX } else { grains });
    }

    fn until(&mut self, at: u64, now: u64) {
        self.word(at.saturating_sub(now).div_ceil(self.grain));
    }

    /// A record as a reply shows it, which is judged by the clocks at its arrival.
    fn record(&mut self, record: &Record, now: &Now) {
        self.word(record.holder as u64);
        self.version(record.version);
        self.identity(record.identity);
        self.fence(record.fence);
        let wall = |at: Wall| at.since(now.wall.unwrap_or(at));
        match record.term {
            Term::Over => self.word(0),
            Term::Observed { ttl } => {
                self.word(1);
                self.span(ttl);
            }
            Term::Bounded { ttl, expires_at, max_clock_skew } => {
                self.word(2);
                self.span(ttl);
                self.span(wall(expires_at.after(max_clock_skew)));
            }
            Term::WallOnly { expires_at } => {
                self.word(3);
                self.span(wall(expires_at));
            }
            Term::Resting { rest, not_before } => {
                self.word(4);
                self.span(rest);
                self.span(not_before.map_or(Span::ZERO, wall));
            }
            Term::Remaining { left } => {
                self.word(5);
                self.span(left.unwrap_or(Span::FOREVER));
            }
        }
    }

    fn outcome(&mut self, outcome: &Outcome, now: &Now) {
        match outcome {
            Outcome::Applied { fence } => {
                self.word(1);
                self.fence(*fence);
            }
            Outcome::Refused { current: Some(record) } => {
                self.word(2);
                self.record(record, now);
            }
            Outcome::Found { record } => {
                self.word(3);
                self.record(record, now);
            }
            Outcome::Refused { current: None } => self.word(4),
            Outcome::Unknown | Outcome::Unavailable | Outcome::Denied => self.word(5),
        }
    }

    /// What a condition accepts: a version that stands nowhere makes no difference.
    fn ours(&mut self, versions: &[Version]) {
        for version in versions {
            if self.is_alive(*version) {
                self.version(*version);
            }
        }
        self.word(0);
    }

    fn message(&mut self, message: &Message, world: &World, now: &Now) {
        self.word(u64::from(message.ghost) | u64::from(message.copied && self.copies) << 1);
        match message.call.kind {
            CallKind::Acquire { attempt, terms } => {
                self.word(1);
                self.version(attempt);
                self.span(terms.ttl());
            }
            CallKind::Takeover { attempt, terms, seen } => {
                self.word(2);
                self.version(attempt);
                self.span(terms.ttl());
                self.identity(seen);
            }
            CallKind::Renew { attempt, terms, ours }
            | CallKind::HandOver { attempt, terms, ours } => {
                self.word(3);
                self.version(attempt);
                self.span(terms.ttl());
                self.ours(ours.as_slice());
            }
            CallKind::Release { ours, rest } => {
                self.word(4);
                self.span(rest);
                self.ours(ours.as_slice());
            }
            CallKind::Read { .. } => self.word(5),
        }
        match &message.reply {
            // How long until what it makes may stand without excuse.
            None if self.orphans => self.until(message.excused_from(), world.time),
            None => self.word(0),
            Some(outcome) => self.outcome(outcome, now),
        }
    }
}

/// The versions that may stand in the record some time: the one that does, and those of requests on their
/// way whose condition such a version can meet.
fn alive(world: &World) -> Vec<Version> {
    let mut alive = vec![world.row.parts().version];
    loop {
        let before = alive.len();
        for message in &world.network {
            if let Some(attempt) = attempt_of(&message.call.kind)
                && !alive.contains(&attempt)
                && may_apply_beside(message, &alive)
            {
                alive.push(attempt);
            }
        }
        if alive.len() == before {
            return alive;
        }
    }
}

const fn attempt_of(kind: &CallKind) -> Option<Version> {
    match *kind {
        CallKind::Acquire { attempt, .. }
        | CallKind::Takeover { attempt, .. }
        | CallKind::Renew { attempt, .. }
        | CallKind::HandOver { attempt, .. } => Some(attempt),
        CallKind::Release { .. } | CallKind::Read { .. } => None,
    }
}

fn may_apply_beside(message: &Message, alive: &[Version]) -> bool {
    message.reply.is_none()
        && match message.call.kind {
            CallKind::Acquire { .. } => true,
            CallKind::Takeover { seen, .. } => {
                let versions = [Version::from_bits(seen.0), Version::from_bits(!seen.0)];
                versions.iter().any(|version| alive.contains(version))
            }
            CallKind::Renew { ours, .. }
            | CallKind::HandOver { ours, .. }
            | CallKind::Release { ours, .. } => {
                ours.as_slice().iter().any(|version| alive.contains(version))
            }
            CallKind::Read { .. } => false,
        }
}

/// Whether a request can ever change the record. One that cannot, and that nobody waits for, is as good as
/// lost.
#[must_use]
pub fn may_apply(world: &World, message: &Message) -> bool {
    may_apply_beside(message, &alive(world))
}

fn fences(world: &World) -> Vec<u64> {
    let mut fences = vec![world.row.parts().fence, world.last_fence()];
    for c in &world.contenders {
        fences.push(c.ended());
        fences.extend(c.fence);
    }
    for message in &world.network {
        match message.reply {
            Some(Outcome::Applied { fence }) => fences.extend(fence.map(|fence| fence.0)),
            Some(Outcome::Refused { current: Some(record) } | Outcome::Found { record }) => {
                fences.extend(record.fence.map(|fence| fence.0))
            }
            _ => {}
        }
    }
    fences.sort_unstable();
    fences.dedup();
    fences
}

fn tell(world: &World, telling: Telling, order: &[usize]) -> u128 {
    let mut teller = Teller {
        grain: telling.grain,
        alive: telling.dead_are_one.then(|| alive(world)),
        versions: Vec::new(),
        orphans: telling.orphans,
        copies: telling.copies,
        fences: fences(world),
        hash: [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344],
    };
    // Places in the order; whoever is gone is told as nobody in particular.
    let place = |holder: u32| {
        let at = order.iter().position(|index| world.contenders[*index].holder == holder);
        at.map_or(u64::MAX, |at| at as u64)
    };
    let place_of_life = |life: u32| {
        let at = order.iter().position(|index| world.contenders[*index].life == life);
        at.map_or(u64::MAX, |at| at as u64)
    };
    let parts = world.row.parts();
    let store_now = world.store_now();
    let standing = world.row.holder(store_now);
    teller.word(standing.map_or(u64::MAX - 1, |(holder, ..)| place(holder)));
    teller.word(u64::from(parts.offered));
    teller.version(parts.version);
    teller.span(parts.ttl);
    if world.rules.ends == Ends::ByStore {
        teller.span(parts.ends_at.since(store_now));
    } else {
        let stranger = world.row.record(u32::MAX - 1, store_now);
        let now = world.clocks(order[0]);
        teller.record(&stranger, &now);
    }
    let fence = teller.rank(parts.fence);
    teller.word(fence);
    let last = teller.rank(world.last_fence());
    teller.word(last);
    if let Some((life, version, until, excused)) = world.standing().filter(|_| telling.orphans) {
        teller.word(1 + u64::from(excused));
        teller.word(place_of_life(life));
        teller.version(version);
        teller.until(until, world.time);
    }
    for at in order {
        let c = &world.contenders[*at];
        teller.word(u64::from(c.dead) | u64::from(c.suspended) << 1);
        if c.dead {
            continue;
        }
        let now = world.clocks(*at);
        teller.word(c.lease.config().first_terms().ttl().as_micros());
        c.lease.shape(now, Span::from_micros(telling.grain), &mut teller);
        let wake = c.wake_at.map_or(Span::FOREVER, |wake_at| wake_at.since(now.mono));
        teller.span(wake);
        teller.fence(c.fence.map(Fence));
        let ended = teller.rank(c.ended());
        teller.word(ended);
        teller.word(c.successor().map_or(u64::MAX - 1, place));
    }
    let mut messages: Vec<(u64, bool, u64, &Message)> = world
        .network
        .iter()
        .map(|m| {
            let awaited = order.iter().any(|index| {
                let c = &world.contenders[*index];
                c.life == m.number.life && c.lease.awaited().is_some_and(|id| id.0 == m.number.call)
            });
            let number = u64::from(m.number.call) << 32 | u64::from(m.number.copy);
            (place_of_life(m.number.life), !awaited, number, m)
        })
        .collect();
    messages
        .sort_unstable_by_key(|(place, not_awaited, number, _)| (*place, *not_awaited, *number));
    for (place, not_awaited, _, message) in messages {
        teller.word(place);
        teller.word(u64::from(not_awaited));
        let reader = order.get(place as usize).copied().unwrap_or(0);
        let now = world.clocks(reader);
        teller.message(message, world, &now);
    }
    if telling.orphans {
        let again = |bits, v: &Version| bits << 1 | u64::from(world.was_carried_out(*v));
        let carried_out = teller.versions.iter().fold(0, again);
        teller.word(carried_out);
    }
    u128::from(teller.hash[0]) << 64 | u128::from(teller.hash[1])
}
