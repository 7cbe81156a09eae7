//! A seeded random walk: several machines, one row, a network that loses, delays and repeats, clocks
//! that disagree, processes that pause, crash and change their minds. After every step the promises
//! are checked; a broken one names its seed.

use std::collections::{BTreeMap, HashSet};

use tenure_core::config::{Config, Expiry, Settings, Ttl, Versions};
use tenure_core::io::{Call, CallId, CallKind, Event, Input, LostReason, Outcome, Output, Wait};
use tenure_core::lease::{Lease, State};
use tenure_core::memory::{Ends, Row};
use tenure_core::record::Version;
use tenure_core::time::{Instant, Now, Span, Wall};

/// How records end, and how versions go, in one walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Judged by observation.
    Observed,
    /// Judged by observation or by Unix clocks that agree within a bound.
    Bounded,
    /// Some contenders declare a bound that their clocks keep, others declare none and have none.
    Mixed,
    /// Ended by the store.
    Store,
    /// Ended by the store, with one version for a whole claim.
    StorePerClaim,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Observed, Self::Bounded, Self::Mixed, Self::Store, Self::StorePerClaim];

    fn expiry(self, bounded: bool) -> Expiry {
        match self {
            Self::Observed => Expiry::Observed,
            Self::Mixed if !bounded => Expiry::Observed,
            Self::Bounded | Self::Mixed => {
                Expiry::Bounded { max_clock_skew: Span::from_micros(SKEW) }
            }
            Self::Store | Self::StorePerClaim => Expiry::Store,
        }
    }

    fn ends(self) -> Ends {
        match self {
            Self::Observed | Self::Bounded | Self::Mixed => Ends::ByContenders,
            Self::Store | Self::StorePerClaim => Ends::ByStore,
        }
    }
}

const TTL: u64 = 1_000_000;
const SKEW: u64 = 200_000;
/// Clock rates stay a little inside the default bound of 1 %.
const RATE_PPM: u64 = 9_900;
const EPOCH: u64 = 1_700_000_000_000_000;

/// What was seen to happen: a walk in which nothing happens proves nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Steps taken.
    pub steps: u64,
    /// Grants.
    pub acquired: u64,
    /// Grants in place of another's record.
    pub takeovers: u64,
    /// Grants and renewals that were proven by the record, not by a reply.
    pub healed: u64,
    /// Renewals.
    pub renewed: u64,
    /// Losses.
    pub lost: u64,
    /// Confirmed releases.
    pub released: u64,
    /// Confirmed hand-overs.
    pub handed_over: u64,
    /// Tries that ended busy.
    pub busy: u64,
    /// Cancelled tries.
    pub cancelled: u64,
    /// Crashes.
    pub crashes: u64,
}

impl Tally {
    /// Adds another walk's.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.acquired += other.acquired;
        self.takeovers += other.takeovers;
        self.healed += other.healed;
        self.renewed += other.renewed;
        self.lost += other.lost;
        self.released += other.released;
        self.handed_over += other.handed_over;
        self.busy += other.busy;
        self.cancelled += other.cancelled;
        self.crashes += other.crashes;
    }
}

/// Walks `steps` steps from `seed`, then heals the network and expects the name to be won.
///
/// # Errors
/// The promise that was broken, when, and by which seed.
pub fn walk(seed: u64, mode: Mode, steps: u64) -> Result<Tally, String> {
    let mut world = World::new(seed, mode);
    for _ in 0..steps {
        world.step()?;
    }
    world.heal()?;
    Ok(world.tally)
}

struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

struct Contender {
    /// Unique for each life.
    id: u32,
    lease: Lease,
    /// How fast its clocks run, in ppm around true time.
    rate: u64,
    /// Its Unix clock is kept within the declared bound.
    bounded: bool,
    /// Its wall clock's error against true time, in microseconds.
    wall_error: i64,
    mono_offset: u64,
    paused_until: u64,
    /// The largest fence whose grant is known to have ended.
    ended: u64,
    /// The fence it holds, as far as it was told.
    fence: Option<u64>,
    successor: Option<u32>,
    wake: u64,
}

enum Happening {
    AtStore { from: u32, successor: Option<u32>, call: Call, reply: Reply, sent: u64 },
    Completed { to: u32, id: CallId, outcome: Outcome },
    Tick { who: u32, wake: u64 },
}

#[derive(Clone, Copy)]
enum Reply {
    Lost,
    /// Lost, whereupon the client library sends the request again by itself.
    Retried,
    Comes,
}

struct World {
    seed: u64,
    mode: Mode,
    random: Random,
    time: u64,
    row: Row<u32>,
    store_rate: u64,
    contenders: Vec<Contender>,
    queue: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    lives: u32,
    last_fence: u64,
    /// The acquire that landed last, of a contender that was still at it, and when; until that one
    /// hears of a grant.
    landed: Option<(u32, Version, u64)>,
    /// Attempts that reached the store: a copy that lands later is nobody's to take back.
    carried_out: HashSet<Version>,
    faults: bool,
    verbose: bool,
    tally: Tally,
}

impl World {
    fn new(seed: u64, mode: Mode) -> Self {
        let mut random = Random(seed ^ ((mode as u64) << 56));
        let store_rate = rate(&mut random);
        let mut world = Self {
            seed,
            mode,
            random,
            time: 10_000_000,
            row: Row::new(mode.ends(), 0),
            store_rate,
            contenders: Vec::new(),
            queue: BTreeMap::new(),
            sequence: 0,
            lives: 0,
            last_fence: 0,
            landed: None,
            carried_out: HashSet::new(),
            faults: true,
            verbose: std::env::var_os("TENURE_VERBOSE").is_some(),
            tally: Tally::default(),
        };
        for _ in 0..2 + world.random.below(2) {
            let contender = world.be_born();
            world.contenders.push(contender);
        }
        world
    }

    fn be_born(&mut self) -> Contender {
        self.lives += 1;
        let bounded = match self.mode {
            Mode::Bounded => true,
            Mode::Mixed => self.random.one_in(2),
            Mode::Observed | Mode::Store | Mode::StorePerClaim => false,
        };
        let mut settings =
            Settings::new(Ttl::For(Span::from_micros(TTL)), self.mode.expiry(bounded));
        if self.mode == Mode::StorePerClaim {
            settings.versions = Versions::PerClaim;
        }
        if self.random.one_in(4) {
            settings.ttl = Ttl::For(Span::from_micros(TTL * 2));
        }
        if self.random.one_in(6) {
            settings.min_hold = Span::from_micros(TTL / 2);
        }
        let lease = Lease::new(Config::new(settings).expect("these settings work"));
        let bound = if bounded { SKEW / 2 } else { 3_600_000_000 };
        Contender {
            id: self.lives,
            lease,
            rate: rate(&mut self.random),
            bounded,
            wall_error: self.random.below(bound) as i64 - (bound / 2) as i64,
            mono_offset: self.random.below(1 << 40),
            paused_until: 0,
            ended: 0,
            fence: None,
            successor: None,
            wake: 0,
        }
    }

    fn store_now(&self) -> Instant {
        Instant::from_micros(scaled(self.time, self.store_rate))
    }

    fn now(&mut self, at: usize) -> Now {
        let entropy = (u128::from(self.random.bits()) << 64) | u128::from(self.random.bits());
        let c = &self.contenders[at];
        let wall = if c.bounded { EPOCH + self.time } else { EPOCH + scaled(self.time, c.rate) };
        Now {
            mono: Instant::from_micros(c.mono_offset + scaled(self.time, c.rate)),
            wall: Some(Wall::from_micros(wall.saturating_add_signed(c.wall_error))),
            entropy,
        }
    }

    fn put(&mut self, at: u64, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), happening);
    }

    fn step(&mut self) -> Result<(), String> {
        self.tally.steps += 1;
        if self.random.one_in(6) {
            self.time += self.random.below(TTL / 20);
            let at = self.random.below(self.contenders.len() as u64) as usize;
            return self.act(at);
        }
        let Some(((due, _), happening)) = self.queue.pop_first() else {
            self.time += self.random.below(TTL / 4);
            return Ok(());
        };
        self.time = self.time.max(due);
        self.happen(happening)
    }

    fn happen(&mut self, happening: Happening) -> Result<(), String> {
        match happening {
            Happening::AtStore { from, successor, call, reply, sent } => {
                let now = self.store_now();
                let outcome = self.row.carry_out(from, successor, &call, now);
                if let CallKind::Acquire { attempt, .. } | CallKind::Takeover { attempt, .. } =
                    call.kind
                {
                    let copy = !self.carried_out.insert(attempt);
                    if matches!(outcome, Outcome::Applied { .. }) {
                        let undoes = |c: &Contender| {
                            // What lands later than a ttl after its sending is given up by then.
                            c.id == from && c.lease.state() != State::Idle && self.time < sent + TTL
                        };
                        let awaited = !copy && self.contenders.iter().any(undoes);
                        self.landed = awaited.then_some((from, attempt, self.time));
                    }
                }
                if self.verbose {
                    println!(
                        "{:>12} store: {from} {call:?}\n             => {outcome:?}",
                        self.time
                    );
                }
                match reply {
                    Reply::Comes => {
                        let delay = self.delay();
                        let completed = Happening::Completed { to: from, id: call.id, outcome };
                        self.put(self.time + delay, completed);
                    }
                    Reply::Retried => {
                        let delay = self.delay();
                        let again =
                            Happening::AtStore { from, successor, call, reply: Reply::Comes, sent };
                        self.put(self.time + delay, again);
                    }
                    Reply::Lost => {}
                }
                self.check()
            }
            Happening::Completed { to, id, outcome } => {
                let Some(at) = self.contenders.iter().position(|c| c.id == to) else {
                    return Ok(());
                };
                if self.defer(at, Happening::Completed { to, id, outcome }) {
                    return Ok(());
                }
                if matches!(outcome, Outcome::Unknown) {
                    return self.input(at, Input::Completed { id, outcome });
                }
                if self.faults && self.random.one_in(30) {
                    let repeat = Happening::Completed { to, id, outcome };
                    let delay = self.delay();
                    self.put(self.time + delay, repeat);
                }
                self.input(at, Input::Completed { id, outcome })
            }
            Happening::Tick { who, wake } => {
                let Some(at) = self.contenders.iter().position(|c| c.id == who) else {
                    return Ok(());
                };
                if self.contenders[at].wake != wake || self.defer(at, Happening::Tick { who, wake })
                {
                    return Ok(());
                }
                self.input(at, Input::Tick)
            }
        }
    }

    /// What reaches a paused process waits for it.
    fn defer(&mut self, at: usize, happening: Happening) -> bool {
        let until = self.contenders[at].paused_until;
        if until <= self.time {
            return false;
        }
        self.put(until, happening);
        true
    }

    fn delay(&mut self) -> u64 {
        match self.random.below(40) {
            0 if self.faults => self.random.below(3 * TTL),
            1..=4 if self.faults => self.random.below(TTL / 3),
            _ => 100 + self.random.below(3_000),
        }
    }

    /// Something that the outside world does.
    fn act(&mut self, at: usize) -> Result<(), String> {
        if self.contenders[at].paused_until > self.time {
            return Ok(());
        }
        let input = match self.random.below(60) {
            0 => {
                self.tally.crashes += 1;
                self.contenders[at] = self.be_born();
                return Ok(());
            }
            1 | 2 => {
                self.contenders[at].paused_until = self.time + self.random.below(3 * TTL);
                return Ok(());
            }
            3 if !self.contenders[at].bounded => {
                // Read before the step: a clock that stands still and another that goes back within
                // one stretch is more than the promise bears.
                self.input(at, Input::Tick)?;
                let by = self.random.below(20 * TTL) as i64 - 10 * TTL as i64;
                self.contenders[at].wall_error += by;
                Input::Tick
            }
            // A suspended machine: its monotonic clock stood still, which counts for nobody else.
            4 if !self.contenders[at].bounded => {
                let gap = self.random.below(2 * TTL);
                let c = &mut self.contenders[at];
                let stood = scaled(gap, c.rate);
                c.mono_offset = c.mono_offset.saturating_sub(stood);
                c.paused_until = self.time + gap;
                return Ok(());
            }
            5..=24 => Input::Acquire {
                wait: match self.random.below(3) {
                    0 => Wait::No,
                    1 => Wait::For(Span::from_micros(self.random.below(4 * TTL))),
                    _ => Wait::Forever,
                },
            },
            25..=32 => Input::Release,
            33..=35 => Input::Cancel,
            36 => {
                let other = self.random.below(self.contenders.len() as u64) as usize;
                self.contenders[at].successor = Some(self.contenders[other].id);
                Input::HandOver
            }
            37..=39 => {
                let ttl = Span::from_micros(TTL / 2 + self.random.below(2 * TTL));
                let terms = self.contenders[at].lease.config().terms(Ttl::For(ttl));
                Input::Renew { terms: terms.ok().filter(|_| !self.contenders[at].bounded) }
            }
            40 => Input::Wake,
            41 | 42 => {
                let from = self.random.below(self.contenders.len() as u64) as usize;
                let now = self.now(from);
                match self.contenders[from].lease.observation(now) {
                    Some(observation) => Input::Observe { observation },
                    None => Input::Tick,
                }
            }
            _ => Input::Tick,
        };
        self.input(at, input)
    }

    fn input(&mut self, at: usize, input: Input) -> Result<(), String> {
        let now = self.now(at);
        let healing = matches!(
            input,
            Input::Completed { outcome: Outcome::Refused { .. } | Outcome::Found { .. }, .. }
        );
        let output = self.contenders[at].lease.handle(now, input);
        if self.verbose {
            println!(
                "{:>12} {} {input:?}\n             -> {output:?}",
                self.time, self.contenders[at].id
            );
        }
        self.follow(at, now, &output, healing)?;
        self.check()
    }

    fn follow(
        &mut self,
        at: usize,
        now: Now,
        output: &Output,
        healing: bool,
    ) -> Result<(), String> {
        if let Some(event) = output.event {
            self.hear(at, event, healing)?;
        }
        if let Some(call) = output.call {
            self.send(at, call);
        }
        let c = &mut self.contenders[at];
        c.wake += 1;
        if let Some(wake_at) = output.wake_at {
            let ahead = wake_at.since(now.mono).as_micros();
            let late = if self.random.one_in(10) { self.random.below(20_000) } else { 1 };
            let tick = Happening::Tick { who: c.id, wake: c.wake };
            self.put(self.time + ahead * 1_010_000 / 1_000_000 + late, tick);
        }
        Ok(())
    }

    fn send(&mut self, at: usize, call: Call) {
        let from = self.contenders[at].id;
        let successor = self.contenders[at].successor;
        let reply = match self.random.below(20) {
            0 if self.faults => Reply::Lost,
            1 if self.faults => Reply::Retried,
            _ => Reply::Comes,
        };
        if !(self.faults && self.random.one_in(15)) {
            let arrives = self.time + self.delay();
            self.put(arrives, Happening::AtStore { from, successor, call, reply, sent: self.time });
        }
        if self.faults && self.random.one_in(12) {
            let arrives = self.time + self.delay();
            self.put(
                arrives,
                Happening::AtStore { from, successor, call, reply: Reply::Lost, sent: self.time },
            );
        }
        // A connection that breaks, or a client that is less patient than the machine.
        if self.faults && self.random.one_in(10) {
            let outcome = Outcome::Unknown;
            let breaks = self.time + self.random.below(10_000);
            self.put(breaks, Happening::Completed { to: from, id: call.id, outcome });
        }
        if self.faults && self.random.one_in(40) {
            let outcome =
                if self.random.one_in(8) { Outcome::Denied } else { Outcome::Unavailable };
            // Only what never arrives may be said not to have been applied.
            if let Some(key) = self.sent_first(from, call.id) {
                self.queue.retain(|k, h| {
                    *k < key || !matches!(h, Happening::AtStore { from: f, call: c, .. } if *f == from && c.id == call.id)
                });
                self.put(self.time + 500, Happening::Completed { to: from, id: call.id, outcome });
            }
        }
    }

    fn sent_first(&self, from: u32, id: CallId) -> Option<(u64, u64)> {
        self.queue.iter().find_map(|(key, h)| match h {
            Happening::AtStore { from: f, call, .. } if *f == from && call.id == id => Some(*key),
            _ => None,
        })
    }

    fn hear(&mut self, at: usize, event: Event, healing: bool) -> Result<(), String> {
        let store_now = self.store_now();
        match event {
            Event::Acquired { grant, takeover } => {
                self.tally.acquired += 1;
                self.tally.takeovers += u64::from(takeover);
                self.tally.healed += u64::from(healing);
                let fence = grant.fence.ok_or_else(|| self.broken("a grant without a fence"))?.0;
                if fence <= self.last_fence {
                    return Err(self.broken("P2: fences must grow from grant to grant"));
                }
                self.last_fence = fence;
                self.contenders[at].fence = Some(fence);
                let id = self.contenders[at].id;
                self.landed = self.landed.filter(|(from, ..)| *from != id);
            }
            Event::Renewed { .. } => self.tally.renewed += 1,
            Event::Lost { reason, .. } => {
                self.tally.lost += 1;
                let id = self.contenders[at].id;
                let ours = self.row.holder(store_now).is_some_and(|(holder, _, fence)| {
                    holder == id && Some(fence.0) == self.contenders[at].fence
                });
                if ours && matches!(reason, LostReason::Taken | LostReason::Missing) {
                    return Err(self.broken("P5: the record still gives us what was called lost"));
                }
                self.end(at);
            }
            Event::Released => {
                self.tally.released += 1;
                self.end(at);
            }
            Event::HandedOver => {
                self.tally.handed_over += 1;
                self.end(at);
            }
            Event::Busy { .. } => self.tally.busy += 1,
            Event::Cancelled => self.tally.cancelled += 1,
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, at: usize) {
        let c = &mut self.contenders[at];
        if let Some(fence) = c.fence.take() {
            c.ended = c.ended.max(fence);
        }
    }

    /// P1, P11, and the stronger "belief implies store".
    fn check(&mut self) -> Result<(), String> {
        let store_now = self.store_now();
        let mut believers = 0;
        for at in 0..self.contenders.len() {
            let now = self.now(at);
            // A copy is asked, so that asking changes nothing.
            let grant = self.contenders[at].lease.clone().grant(now);
            let Some(grant) = grant else {
                // Nothing may report it valid again, even if it was not told yet.
                let c = &mut self.contenders[at];
                c.ended = c.ended.max(c.fence.unwrap_or(0));
                continue;
            };
            believers += 1;
            let fence = grant.fence.ok_or_else(|| self.broken("a grant without a fence"))?.0;
            let c = &self.contenders[at];
            if fence <= c.ended {
                return Err(self.broken("P11: an ended grant came back"));
            }
            match self.row.holder(store_now) {
                Some((holder, _, stored)) if holder == c.id && stored.0 == fence => {}
                other => {
                    let what = format!(
                        "belief implies store: {} believes in fence {fence}, the row says {other:?}",
                        c.id
                    );
                    return Err(self.broken(&what));
                }
            }
        }
        if believers > 1 {
            return Err(self.broken("P1: two valid grants at one instant"));
        }
        Ok(())
    }

    /// From here on nothing is lost. Everybody gives up; then one contender must get the name within
    /// the bound of P6, and leave it free.
    fn heal(&mut self) -> Result<(), String> {
        self.faults = false;
        let healed_at = self.time;
        self.queue.retain(|_, h| !matches!(h, Happening::AtStore { .. }));
        for at in 0..self.contenders.len() {
            self.contenders[at].paused_until = 0;
            self.input(at, Input::Release)?;
        }
        self.run_for(6 * TTL)?;
        for c in &self.contenders {
            if c.lease.state() != State::Idle {
                return Err(self.broken("P8: undoing does not end"));
            }
        }
        // Whoever gave an acquire up and has a ttl's time left takes back what it may have left.
        if let (Some((holder, standing, _)), Some((from, version, landed_at))) =
            (self.row.holder(self.store_now()), self.landed)
            && self.contenders.iter().any(|c| c.id == from)
            && (holder, standing) == (from, version)
            && landed_at + TTL / 2 > healed_at
        {
            return Err(self.broken("P4: what was given up keeps the name"));
        }
        let at = 0;
        let settings = *self.contenders[at].lease.config().settings();
        let config = Config::new(settings).map_err(|e| e.to_string())?;
        self.contenders[at].lease = Lease::new(config);
        self.contenders[at].fence = None;
        self.input(at, Input::Acquire { wait: Wait::Forever })?;
        // The longest stored ttl, both margins, one poll.
        self.run_until_held(at, 3 * TTL + 3 * TTL / 20 + TTL)?;
        self.input(at, Input::Release)?;
        self.run_for(TTL)?;
        if self.row.holder(self.store_now()).is_some() {
            return Err(self.broken("P4: a released name is not free"));
        }
        Ok(())
    }

    fn run_until_held(&mut self, at: usize, bound: u64) -> Result<(), String> {
        let end = self.time + bound;
        while self.contenders[at].fence.is_none() {
            let next = self.queue.first_key_value().map(|((due, _), _)| *due);
            match next {
                Some(due) if due <= end => {
                    if let Some(((due, _), happening)) = self.queue.pop_first() {
                        self.time = self.time.max(due);
                        self.happen(happening)?;
                    }
                }
                _ => return Err(self.broken("P6: no takeover within the bound")),
            }
        }
        Ok(())
    }

    fn run_for(&mut self, span: u64) -> Result<(), String> {
        let end = self.time + span;
        while let Some(((due, _), _)) = self.queue.first_key_value() {
            if *due > end {
                break;
            }
            if let Some(((due, _), happening)) = self.queue.pop_first() {
                self.time = self.time.max(due);
                self.happen(happening)?;
            }
        }
        self.time = end;
        Ok(())
    }

    fn broken(&self, what: &str) -> String {
        format!(
            "{what} (seed {}, {:?}, step {}, true time {} us)",
            self.seed, self.mode, self.tally.steps, self.time
        )
    }
}

fn rate(random: &mut Random) -> u64 {
    1_000_000 - RATE_PPM + random.below(2 * RATE_PPM)
}

fn scaled(time: u64, rate: u64) -> u64 {
    (u128::from(time) * u128::from(rate) / 1_000_000) as u64
}
