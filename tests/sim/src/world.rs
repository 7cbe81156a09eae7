//! The state of the world. What changes it is in `happen` and `store`, what is checked in `check`. Which
//! of it happens, and when, is for the walk to draw and for the exhaustive search to enumerate.

mod check;
mod happen;
mod store;

use tenure_core::config::Config;
use tenure_core::io::{Call, CallKind, Event, Outcome};
use tenure_core::lease::Lease;
use tenure_core::memory::{Ends, Row};
use tenure_core::record::Version;
use tenure_core::time::{Instant, Now, Wall};

use crate::action::Number;
use crate::guarded::Guarded;
use crate::random::Random;

/// When the world begins by its Unix clocks, in microseconds.
pub const EPOCH: u64 = 1_700_000_000_000_000;
/// A clock that is right, in parts per million of true time.
pub const EXACT: u64 = 1_000_000;
/// The holder's id of the client that goes by the Unix clock alone.
const BY_WALL: u32 = u32::MAX;

/// What is the same for all of one world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "walks and models fill it in")]
pub struct Rules {
    /// Who ends records.
    pub ends: Ends,
    /// The store may forget what it acknowledged, or others change what it holds: then exclusion is
    /// not promised, while fencing is.
    pub forgets: bool,
    /// Processes are copied while they hold.
    pub clones: bool,
    /// How fast the store's clock runs, in ppm of true time.
    pub store_rate: u64,
    /// What a refusal shows.
    pub shows: Shows,
    /// A condition compares one value: of several versions the first.
    pub compares_one: bool,
}

/// Whether a refused write shows the record that stood in its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "stores do one of these")]
pub enum Shows {
    /// Always.
    Always,
    /// Only a refused acquire does.
    Acquires,
    /// Never.
    Never,
}

/// How a contender begins its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "walks and models fill it in")]
pub struct Born {
    /// Its lease.
    pub config: Config,
    /// How slow and how fast its clocks run at times, in ppm of true time.
    pub rates: (u64, u64),
    /// Its Unix clock is kept within a bound of true time, else it runs on its own.
    pub disciplined: bool,
    /// Its Unix clock's error at first, in microseconds; `None` if it has no such clock.
    pub wall_error: Option<i64>,
    /// Its monotonic clock at first, in microseconds.
    pub mono: u64,
}

/// A request on its way, or its reply.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Which one.
    pub number: Number,
    /// What it asks for.
    pub call: Call,
    /// The reply, once it landed.
    pub reply: Option<Outcome>,
    /// It is not the client's own request but a copy that nobody waits for.
    pub ghost: bool,
    /// Another request like it was, or is, on its way.
    pub copied: bool,
    holder: u32,
    successor: Option<u32>,
    sent: u64,
}

impl Message {
    /// From when on its sender cannot be expected to look for what it makes.
    #[must_use]
    pub const fn excused_from(&self) -> u64 {
        match self.call.kind {
            CallKind::Acquire { terms, .. }
            | CallKind::Takeover { terms, .. }
            | CallKind::Renew { terms, .. } => self.sent.saturating_add(terms.ttl().as_micros()),
            CallKind::HandOver { .. } | CallKind::Release { .. } | CallKind::Read { .. } => 0,
        }
    }
}

/// One machine with its lease.
#[derive(Clone, Debug)]
pub struct Contender {
    /// Unique for each life, and for each copy of one.
    pub life: u32,
    /// What stores know it by: shared by copies.
    pub holder: u32,
    /// The machine itself.
    pub lease: Lease,
    /// How it was born.
    pub born: Born,
    /// When it wants to be asked again, by its own monotonic clock.
    pub wake_at: Option<Instant>,
    /// The fence it holds, as far as it was told.
    pub fence: Option<u64>,
    /// It is suspended.
    pub suspended: bool,
    /// It is dead.
    pub dead: bool,
    /// Elapsed by its clocks, in millionths of microseconds; the monotonic one stops when suspended.
    mono: u64,
    wall: u64,
    wall_error: i64,
    /// The largest fence whose grant is known to have ended.
    ended: u64,
    successor: Option<u32>,
    /// Whose versions are its own: its ancestors', up to when it was copied.
    lineage: heapless::Vec<(u32, u64), 8>,
    /// How many bits of randomness it drew.
    draws: u64,
}

/// What happened, for whoever schedules what follows.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "schedulers take it apart")]
pub struct Happened {
    /// A request was sent.
    pub sent: Option<Number>,
    /// An event was told.
    pub told: Option<Event>,
    /// It was the record that proved it, not a reply.
    pub healed: bool,
}

/// A request that was applied and made the record.
#[derive(Clone, Copy, Debug)]
struct Landed {
    life: u32,
    version: Version,
    fence: u64,
    /// Until when it may stand there for want of anybody who could take it back.
    until: u64,
    /// Its maker cannot know of it: it is a copy, or came later than it was looked for.
    excused: bool,
}

/// Everything.
#[derive(Clone, Debug)]
pub struct World {
    /// What does not change.
    pub rules: Rules,
    /// All that live, and the dead whose requests are still on their way.
    pub contenders: Vec<Contender>,
    /// What is on its way.
    pub network: Vec<Message>,
    /// The store's row.
    pub row: Row<u32>,
    /// Refuses old fences.
    pub guarded: Guarded,
    /// True time, in microseconds.
    pub time: u64,
    /// Randomness of machines; `None` makes them all act in step, for the search.
    entropy: Option<Random>,
    replica: Row<u32>,
    store_time: u64,
    lives: u32,
    last_fence: u64,
    /// The last write that made or kept the record.
    landed: Option<Landed>,
    /// Grants that the store gave, newest last, for looking up.
    given: Few<(u64, u32)>,
    /// Attempts that were carried out, newest last: what lands again is a copy.
    carried_out: Few<Version>,
    by_wall_until: Option<Wall>,
    by_wall_error: i64,
    verbose: bool,
}

impl World {
    /// A world without contenders.
    #[must_use]
    pub fn new(rules: Rules, entropy: Option<Random>) -> Self {
        Self {
            rules,
            contenders: Vec::new(),
            network: Vec::new(),
            row: Row::new(rules.ends, 0),
            guarded: Guarded::default(),
            time: 10_000_000,
            entropy,
            replica: Row::new(rules.ends, 0),
            store_time: 10_000_000 * 1_000_000,
            lives: 0,
            last_fence: 0,
            landed: None,
            given: Few::new(),
            carried_out: Few::new(),
            by_wall_until: None,
            by_wall_error: 0,
            verbose: false,
        }
    }

    /// Prints every step from here on.
    pub const fn be_verbose(&mut self) {
        self.verbose = true;
    }

    /// Sets the Unix clock of the client that goes by it alone.
    pub const fn set_wall_client(&mut self, error: i64) {
        self.by_wall_error = error;
    }

    /// One more contender.
    pub fn be_born(&mut self, born: Born) {
        let contender = self.begin(born);
        self.contenders.push(contender);
    }

    fn begin(&mut self, born: Born) -> Contender {
        self.lives += 1;
        Contender {
            life: self.lives,
            holder: self.lives,
            lease: Lease::new(born.config),
            born,
            wake_at: None,
            fence: None,
            suspended: false,
            dead: false,
            mono: born.mono * 1_000_000,
            wall: 0,
            wall_error: born.wall_error.unwrap_or(0),
            ended: 0,
            successor: None,
            lineage: few((self.lives, u64::MAX)),
            draws: 0,
        }
    }

    /// The store's clock.
    #[must_use]
    pub const fn store_now(&self) -> Instant {
        Instant::from_micros(self.store_time / 1_000_000)
    }

    /// A contender's clocks, without drawing randomness.
    #[must_use]
    pub fn clocks(&self, at: usize) -> Now {
        let c = &self.contenders[at];
        let elapsed = if c.born.disciplined { self.time } else { c.wall / 1_000_000 };
        let wall = (EPOCH + elapsed).saturating_add_signed(c.wall_error);
        Now {
            mono: Instant::from_micros(c.mono / 1_000_000),
            wall: c.born.wall_error.map(|_| Wall::from_micros(wall)),
            entropy: 0,
        }
    }

    /// The same with fresh randomness: the upper bits say who drew it, so that it never repeats and
    /// tells whose version it became.
    fn now(&mut self, at: usize) -> Now {
        let now = self.clocks(at);
        let c = &mut self.contenders[at];
        c.draws += 1;
        let unique = (u128::from(c.life) << 96) | (u128::from(c.draws) << 32);
        let noise = self.entropy.as_mut().map_or(0, Random::bits) & 0xffff_ffff;
        Now { entropy: unique | u128::from(noise), ..now }
    }

    /// Whether whoever the record names is gone.
    #[must_use]
    pub fn is_held_by_the_dead(&self) -> bool {
        self.row.holder(self.store_now()).is_some_and(|(holder, ..)| {
            !self.contenders.iter().any(|c| c.holder == holder && !c.dead)
        })
    }

    /// Whose the write is that made the record, what it wrote, until when it needs no excuse, and
    /// whether it has one.
    pub(crate) fn standing(&self) -> Option<(u32, Version, u64, bool)> {
        self.landed.map(|l| (l.life, l.version, l.until, l.excused))
    }

    pub(crate) fn was_carried_out(&self, version: Version) -> bool {
        self.carried_out.contains(&version)
    }

    pub(crate) const fn last_fence(&self) -> u64 {
        self.last_fence
    }

    /// A process begins anew on the same machine, under the same holder's id.
    pub(crate) fn start_over(&mut self, who: usize) {
        self.lives += 1;
        let c = &mut self.contenders[who];
        c.life = self.lives;
        c.lineage = few((self.lives, u64::MAX));
        c.draws = 0;
        c.lease = Lease::new(c.born.config);
        c.fence = None;
        c.ended = 0;
        c.wake_at = None;
        c.suspended = false;
        c.dead = false;
    }

    /// Nothing that is on its way arrives.
    pub(crate) fn clear_network(&mut self) {
        self.network.clear();
    }
}

impl Contender {
    pub(crate) const fn ended(&self) -> u64 {
        self.ended
    }

    pub(crate) const fn successor(&self) -> Option<u32> {
        self.successor
    }
}

/// What a world remembers of the past. In place, so that a world is copied fast.
type Few<T> = heapless::Vec<T, 64>;

fn few<T, const MOST: usize>(item: T) -> heapless::Vec<T, MOST> {
    let mut list = heapless::Vec::new();
    remember(&mut list, item);
    list
}

/// Keeps the newest.
fn remember<T, const MOST: usize>(list: &mut heapless::Vec<T, MOST>, item: T) {
    if list.is_full() {
        list.remove(0);
    }
    // There is room now.
    drop(list.push(item));
}
