//! What happens when, drawn from a seed: a random walk through the world.
//!
//! Delays are drawn from the clock of true time, so that most calls end in milliseconds while leases
//! last a second, as in the real world; and then now and then something takes longer than a ttl.

use std::collections::BTreeMap;

use tenure_core::config::{Config, Expiry, Settings, Ttl, Versions};
use tenure_core::io::{Event, Input, LostReason, Wait};
use tenure_core::lease::State;
use tenure_core::memory::Ends;
use tenure_core::time::Span;

use crate::action::{Action, Number, TurnedAway};
use crate::promise::{Broken, Promise};
use crate::random::Random;
use crate::settle::{settle, take_over};
use crate::shrink::shrink;
use crate::world::{Born, EXACT, Happened, Rules, Shows, World};

/// What kind of world is walked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "each is walked")]
pub enum Mode {
    /// Records are judged by observation.
    Observed,
    /// By observation or by Unix clocks that agree within a bound.
    Bounded,
    /// Some contenders declare a bound that their clocks keep, others declare none and have none.
    Mixed,
    /// As `Bounded`, and a client shares the name that goes by the Unix clock alone.
    ByWall,
    /// The store ends records.
    Store,
    /// The same, with one version for a whole claim.
    StorePerClaim,
    /// The same, and the store fails over to a replica that has not heard of everything.
    Failover,
    /// Judged by observation, and some hold for ever: when they die, a person breaks their record.
    Forever,
    /// Judged by observation, and people delete and break records of the living.
    Deleted,
    /// Judged by observation, and machines are copied while they hold.
    Cloned,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Observed,
        Self::Bounded,
        Self::Mixed,
        Self::ByWall,
        Self::Store,
        Self::StorePerClaim,
        Self::Failover,
        Self::Forever,
        Self::Deleted,
        Self::Cloned,
    ];

    const fn expiry(self, bounded: bool) -> Expiry {
        match self {
            Self::Store | Self::StorePerClaim | Self::Failover => Expiry::Store,
            Self::Bounded | Self::Mixed | Self::ByWall if bounded => {
                Expiry::Bounded { max_clock_skew: Span::from_micros(SKEW) }
            }
            _ => Expiry::Observed,
        }
    }

    const fn ends(self) -> Ends {
        match self {
            Self::Store | Self::StorePerClaim | Self::Failover => Ends::ByStore,
            _ => Ends::ByContenders,
        }
    }
}

const TTL: u64 = 1_000_000;
const SKEW: u64 = 200_000;
/// Clock rates stay a little inside the default bound of 1 %.
const RATE_PPM: u64 = 9_900;
/// Time passes in milliseconds while a world settles.
const GRAIN: u64 = 1_000;

/// What was seen to happen: a walk in which nothing happens proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "tests look into it")]
pub struct Tally {
    /// Things that happened.
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
    /// Losses found in the record.
    pub taken: u64,
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
    /// Refusals of the guarded resource.
    pub turned_away: u64,
}

impl Tally {
    /// Adds another walk's.
    pub const fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.acquired += other.acquired;
        self.takeovers += other.takeovers;
        self.healed += other.healed;
        self.renewed += other.renewed;
        self.lost += other.lost;
        self.taken += other.taken;
        self.released += other.released;
        self.handed_over += other.handed_over;
        self.busy += other.busy;
        self.cancelled += other.cancelled;
        self.crashes += other.crashes;
        self.turned_away += other.turned_away;
    }

    const fn note(&mut self, happened: &Happened) {
        let Some(event) = happened.told else { return };
        match event {
            Event::Acquired { takeover, .. } => {
                self.acquired += 1;
                self.takeovers += takeover as u64;
                self.healed += happened.healed as u64;
            }
            Event::Renewed { .. } => self.renewed += 1,
            Event::Lost { reason, .. } => {
                self.lost += 1;
                self.taken += matches!(reason, LostReason::Taken | LostReason::Missing) as u64;
            }
            Event::Released => self.released += 1,
            Event::HandedOver => self.handed_over += 1,
            Event::Busy { .. } => self.busy += 1,
            Event::Cancelled => self.cancelled += 1,
            _ => {}
        }
    }
}

/// A walk that broke a promise.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "reports take it apart")]
pub struct Breach {
    /// By which seed.
    pub seed: u64,
    /// In which kind of world.
    pub mode: Mode,
    /// After how many steps.
    pub steps: u64,
    /// What.
    pub broken: Broken,
}

impl core::fmt::Display for Breach {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { seed, mode, steps, broken } = self;
        write!(f, "{broken} (seed {seed}, {mode:?}, step {steps})")
    }
}

/// Walks `steps` steps from `seed`, then stops the faults and expects the world to settle.
///
/// # Errors
/// The promise that was broken.
pub fn walk(seed: u64, mode: Mode, steps: u64) -> Result<Tally, Breach> {
    Walk::new(seed, mode).all(steps)
}

/// The same, printing every step.
///
/// # Errors
/// As [`walk`].
pub fn walk_aloud(seed: u64, mode: Mode, steps: u64) -> Result<Tally, Breach> {
    let mut walk = Walk::new(seed, mode);
    walk.world.be_verbose();
    walk.all(steps)
}

/// The shortest schedule found that breaks the promise which this walk breaks, from the world that the
/// seed begins with. `None` if it breaks none while faults go on.
#[must_use]
pub fn shortest_breach(seed: u64, mode: Mode, steps: u64) -> Option<(World, Vec<Action>)> {
    let mut walk = Walk::new(seed, mode);
    let world = walk.world.clone();
    walk.recorded = Some(Vec::new());
    let breach = walk.wander(steps).err()?;
    let schedule = walk.recorded.take()?;
    let shortest = shrink(&world, &schedule, breach.promise);
    Some((world, shortest))
}

/// What the network will do with a request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    ReplyLost,
    /// The reply is lost, and the client's library sends it again.
    Resent,
}

#[derive(Clone, Debug)]
enum Due {
    Land(Number, Fate),
    Answer(Number),
    Break(Number),
    TurnAway(Number, TurnedAway),
    Tick { who: usize, life: u32, turn: u64 },
    Resume(usize),
    Arrive,
}

struct Walk {
    seed: u64,
    mode: Mode,
    random: Random,
    world: World,
    queue: BTreeMap<(u64, u64), Due>,
    sequence: u64,
    /// Until when each process does not run.
    paused: [u64; 8],
    /// Counts the readings of each, so that only the last wish to be woken counts.
    turns: [u64; 8],
    tally: Tally,
    recorded: Option<Vec<Action>>,
}

impl Walk {
    fn new(seed: u64, mode: Mode) -> Self {
        let mut random = Random::new(seed ^ ((mode as u64) << 56));
        let store_rate = rate(&mut random);
        let rules = Rules {
            ends: mode.ends(),
            forgets: matches!(mode, Mode::Failover | Mode::Deleted),
            clones: mode == Mode::Cloned,
            store_rate,
            shows: match (mode.ends(), random.below(3)) {
                (Ends::ByStore, 0) => Shows::Never,
                (Ends::ByStore, 1) => Shows::Acquires,
                _ => Shows::Always,
            },
            compares_one: matches!(mode, Mode::StorePerClaim | Mode::Failover),
        };
        let mut world = World::new(rules, Some(Random::new(random.bits())));
        world.set_wall_client(error_within(SKEW / 2, &mut random));
        let mut walk = Self {
            seed,
            mode,
            random,
            world,
            queue: BTreeMap::new(),
            sequence: 0,
            paused: [0; 8],
            turns: [0; 8],
            tally: Tally::default(),
            recorded: None,
        };
        for _ in 0..2 + walk.random.below(2) {
            let born = walk.conceive();
            walk.world.be_born(born);
        }
        walk
    }

    /// How a new process is.
    fn conceive(&mut self) -> Born {
        let disciplined = match self.mode {
            Mode::Bounded | Mode::ByWall => true,
            Mode::Mixed => self.random.one_in(2),
            _ => false,
        };
        let expiry = self.mode.expiry(disciplined);
        let mut settings = Settings::new(Ttl::For(Span::from_micros(TTL)), expiry);
        if matches!(self.mode, Mode::StorePerClaim | Mode::Failover) {
            settings.versions = Versions::PerClaim;
        }
        if self.random.one_in(4) {
            settings.ttl = Ttl::For(Span::from_micros(TTL * 2));
        }
        if self.mode == Mode::Forever && self.random.one_in(2) {
            settings.ttl = Ttl::Forever;
        }
        if self.random.one_in(6) {
            settings.min_hold = Span::from_micros(TTL / 2);
        }
        let (one, other) = (rate(&mut self.random), rate(&mut self.random));
        let bound = if disciplined { SKEW / 2 } else { 3_600_000_000 };
        Born {
            config: Config::new(settings).expect("these settings work"),
            rates: (one.min(other), one.max(other)),
            disciplined,
            wall_error: Some(error_within(bound, &mut self.random)),
            mono: self.random.below(1 << 40),
        }
    }

    fn all(mut self, steps: u64) -> Result<Tally, Breach> {
        let walked = self.wander(steps).and_then(|()| {
            take_over(&mut self.world.clone(), 0, GRAIN)?;
            settle(&mut self.world, GRAIN)
        });
        self.tally.turned_away = self.world.guarded.refused;
        let (seed, mode, steps) = (self.seed, self.mode, self.tally.steps);
        walked.map_err(|broken| Breach { seed, mode, steps, broken })?;
        Ok(self.tally)
    }

    fn wander(&mut self, steps: u64) -> Result<(), Broken> {
        for _ in 0..steps {
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Broken> {
        self.tally.steps += 1;
        if self.random.one_in(6) {
            let by = self.random.below(TTL / 20);
            self.pass(by)?;
            let who = self.random.below(self.world.contenders.len() as u64) as usize;
            return self.act(who);
        }
        let Some(((due, _), next)) = self.queue.pop_first() else {
            let by = self.random.below(TTL / 4);
            return self.pass(by);
        };
        self.pass(due.saturating_sub(self.world.time))?;
        self.come_due(next)
    }

    fn put(&mut self, at: u64, due: Due) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), due);
    }

    fn pass(&mut self, by: u64) -> Result<(), Broken> {
        if by == 0 {
            return Ok(());
        }
        let fast = self.random.bits() as u8;
        self.apply(Action::Pass { by, fast }).map(|_| ())
    }

    fn apply(&mut self, action: Action) -> Result<Happened, Broken> {
        let happened = self.world.apply(&action);
        if let Some(recorded) = &mut self.recorded {
            recorded.push(action);
        }
        let happened = happened?;
        self.tally.note(&happened);
        Ok(happened)
    }

    /// Hands something to a process, and arranges what follows from it.
    fn hand(&mut self, who: usize, action: Action) -> Result<(), Broken> {
        let happened = self.apply(action)?;
        if let Some(number) = happened.sent {
            self.send(number)?;
        }
        let Some(c) = self.world.contenders.get(who) else { return Ok(()) };
        self.turns[who] += 1;
        if let Some(wake_at) = c.wake_at {
            let ahead = wake_at.since(self.world.clocks(who).mono).as_micros();
            let late = if self.random.one_in(10) { self.random.below(20_000) } else { 1 };
            let tick = Due::Tick { who, life: c.life, turn: self.turns[who] };
            self.put(self.world.time + ahead * 1_010_000 / 1_000_000 + late, tick);
        }
        Ok(())
    }

    fn send(&mut self, number: Number) -> Result<(), Broken> {
        let now = self.world.time;
        let fate = match self.random.below(20) {
            0 => Fate::ReplyLost,
            1 => Fate::Resent,
            _ => Fate::Answered,
        };
        if self.random.one_in(40) {
            let how =
                if self.random.one_in(8) { TurnedAway::Denied } else { TurnedAway::Unavailable };
            self.put(now + 500, Due::TurnAway(number, how));
            return Ok(());
        }
        if self.random.one_in(12) {
            let copy = self.apply(Action::Duplicate(number))?.sent;
            if let Some(copy) = copy {
                let arrives = now + self.delay();
                self.put(arrives, Due::Land(copy, Fate::ReplyLost));
            }
        }
        if self.random.one_in(15) {
            self.apply(Action::Lose(number))?;
        } else {
            let arrives = now + self.delay();
            self.put(arrives, Due::Land(number, fate));
        }
        // A connection that breaks, or a client that is less patient than the machine.
        if self.random.one_in(10) {
            let breaks = now + self.random.below(10_000);
            self.put(breaks, Due::Break(number));
        }
        Ok(())
    }

    fn delay(&mut self) -> u64 {
        match self.random.below(40) {
            0 => self.random.below(3 * TTL),
            1..=4 => self.random.below(TTL / 3),
            _ => 100 + self.random.below(3_000),
        }
    }

    fn come_due(&mut self, due: Due) -> Result<(), Broken> {
        match due {
            Due::Land(number, fate) => {
                self.apply(Action::Land(number))?;
                let now = self.world.time;
                match fate {
                    Fate::Answered => {
                        let arrives = now + self.delay();
                        self.put(arrives, Due::Answer(number));
                    }
                    Fate::Resent => {
                        self.apply(Action::Resend(number))?;
                        let arrives = now + self.delay();
                        self.put(arrives, Due::Land(number, Fate::Answered));
                    }
                    Fate::ReplyLost => {
                        self.apply(Action::Lose(number))?;
                    }
                }
                Ok(())
            }
            Due::Answer(number) => {
                let Some(who) = self.process(number) else { return Ok(()) };
                if self.defer(who, &due) {
                    return Ok(());
                }
                if self.random.one_in(30) {
                    let delay = self.delay();
                    self.put(self.world.time + delay, Due::Answer(number));
                    return self.hand(who, Action::AnswerTwice(number));
                }
                self.hand(who, Action::Answer(number))
            }
            Due::Break(number) => {
                let Some(who) = self.process(number) else { return Ok(()) };
                if self.defer(who, &due) {
                    return Ok(());
                }
                self.hand(who, Action::Break(number))
            }
            Due::TurnAway(number, how) => {
                let Some(who) = self.process(number) else { return Ok(()) };
                if self.defer(who, &due) {
                    return Ok(());
                }
                self.hand(who, Action::TurnAway(number, how))
            }
            Due::Tick { who, life, turn } => {
                let same = self.world.contenders.get(who).is_some_and(|c| c.life == life);
                if !same || self.turns[who] != turn || self.defer(who, &due) {
                    return Ok(());
                }
                self.hand(who, Action::Input(who, Input::Tick))
            }
            Due::Resume(who) => self.apply(Action::Resume(who)).map(|_| ()),
            Due::Arrive => self.apply(Action::Arrive).map(|_| ()),
        }
    }

    fn process(&self, number: Number) -> Option<usize> {
        self.world.contenders.iter().position(|c| c.life == number.life)
    }

    /// What reaches a process that does not run waits for it.
    fn defer(&mut self, who: usize, due: &Due) -> bool {
        let until = self.paused[who];
        if until <= self.world.time {
            return false;
        }
        self.put(until, due.clone());
        true
    }

    /// Something that the outside world does.
    fn act(&mut self, who: usize) -> Result<(), Broken> {
        if self.paused[who] > self.world.time {
            return Ok(());
        }
        if let Some(action) = self.of_its_kind(who) {
            return self.hand(who, action);
        }
        let free_clock = !self.world.contenders[who].born.disciplined;
        let input = match self.random.below(64) {
            0 => {
                self.tally.crashes += 1;
                let born = Box::new(self.conceive());
                self.turns[who] += 1;
                return self.apply(Action::Crash(who, born)).map(|_| ());
            }
            1 | 2 => {
                self.paused[who] = self.world.time + self.random.below(3 * TTL);
                return Ok(());
            }
            3 if free_clock => {
                // Read before the step: a clock that stands still and another that goes back within
                // one stretch is more than the promise bears.
                self.hand(who, Action::Input(who, Input::Tick))?;
                let by = error_within(20 * TTL, &mut self.random);
                self.apply(Action::StepWall(who, by))?;
                Input::Tick
            }
            // A suspended machine: its monotonic clock stood still, which counts for nobody else.
            4 if free_clock => {
                let until = self.world.time + self.random.below(2 * TTL);
                self.paused[who] = until;
                // Before whatever else waits for it then.
                self.put(until.saturating_sub(1), Due::Resume(who));
                return self.apply(Action::Suspend(who)).map(|_| ());
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
                let other = self.random.below(self.world.contenders.len() as u64) as usize;
                return self.hand(who, Action::HandOver(who, other));
            }
            37..=39 => {
                // Often one that it had before.
                let micros = match self.random.below(4) {
                    0 => TTL / 2,
                    1 => TTL,
                    2 => 2 * TTL,
                    _ => TTL / 2 + self.random.below(2 * TTL),
                };
                let span = Span::from_micros(micros);
                let lasts = self.mode == Mode::Forever && self.random.one_in(3);
                let ttl = if lasts { Ttl::Forever } else { Ttl::For(span) };
                let c = &self.world.contenders[who];
                let terms = c.lease.config().terms(ttl);
                Input::Renew { terms: terms.ok().filter(|_| !c.born.disciplined) }
            }
            40 => Input::Wake,
            41 | 42 => {
                let from = self.random.below(self.world.contenders.len() as u64) as usize;
                return self.hand(who, Action::Share(from, who));
            }
            43..=46 => {
                self.apply(Action::Begin(who))?;
                // Often so late that another holds by then.
                let arrives = self.world.time + self.random.below(2 * TTL);
                self.put(arrives, Due::Arrive);
                return Ok(());
            }
            _ => Input::Tick,
        };
        self.hand(who, Action::Input(who, input))
    }

    /// What happens only in some kinds of worlds.
    fn of_its_kind(&mut self, who: usize) -> Option<Action> {
        match self.mode {
            Mode::ByWall => match self.random.below(24) {
                0..=4 => Some(Action::HoldByWall),
                5 => Some(Action::LeaveByWall),
                _ => None,
            },
            Mode::Failover => match self.random.below(40) {
                0..=9 => Some(Action::Replicate),
                10 => Some(Action::Failover),
                _ => None,
            },
            Mode::Deleted => match self.random.below(80) {
                0 | 1 => Some(Action::Delete),
                2 => Some(Action::TakeFrom(who)),
                _ => None,
            },
            Mode::Forever => (self.world.is_held_by_the_dead() && self.random.one_in(10))
                .then_some(Action::TakeFrom(who)),
            Mode::Cloned => {
                let held = self.world.contenders[who].lease.state() == State::Held;
                (held && self.random.one_in(20)).then_some(Action::Clone(who))
            }
            _ => None,
        }
    }
}

fn rate(random: &mut Random) -> u64 {
    EXACT - RATE_PPM + random.below(2 * RATE_PPM)
}

/// A clock's error of at most half of `bound` to either side.
fn error_within(bound: u64, random: &mut Random) -> i64 {
    random.below(bound) as i64 - (bound / 2) as i64
}

impl From<&Breach> for Promise {
    fn from(breach: &Breach) -> Self {
        breach.broken.promise
    }
}
