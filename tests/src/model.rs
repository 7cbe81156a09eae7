//! The exhaustive search: every state that the world of [`tenure_sim`] can get into, within bounds that a
//! [`Search`] states. The machines are the shipped ones and everything that happens to them is the
//! simulator's; here is only which of it may happen next.
//!
//! Time passes in whole grains of which a ttl has two, so that every order of messages, ticks and crashes
//! within a grain is tried, while a state stays one of a few hundred thousand. Messages are lost, late,
//! repeated and ambiguous without any budget: only how many stray requests are on their way *at a time* is
//! bounded. See [`tenure_sim::shape`] for which states count as one.

use core::hash::{Hash, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};

use stateright::{Model, Property};
use tenure_core::config::{Config, Expiry, Settings, Ttl, Versions};
use tenure_core::io::{Event, Input, Wait};
use tenure_core::lease::State as Doing;
use tenure_core::memory::Ends;
use tenure_core::time::Span;
use tenure_sim::action::{Action, Number, TurnedAway};
use tenure_sim::promise::{Broken, Promise};
use tenure_sim::settle::{settle, take_over};
use tenure_sim::shape::{Telling, fingerprint, may_apply};
use tenure_sim::world::{Born, EXACT, Happened, Message, Rules, Shows, World};

const SECOND: u64 = 1_000_000;

/// What is searched.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "tests fill it in")]
pub struct Search {
    /// How many contend.
    pub contenders: usize,
    /// Who may say that a record is over.
    pub expiry: Expiry,
    /// How far a version reaches.
    pub versions: Versions,
    /// Their ttls in grains; the last one holds for the rest.
    pub ttls: Vec<u64>,
    /// Clocks run slow or fast, as each grain passes, by the most that the config allows.
    pub drift: bool,
    /// Processes crash and are replaced.
    pub crashes: bool,
    /// An acquire may try once only.
    pub tries_once: bool,
    /// How many attempts of each may be in doubt at a time; the last one holds for the rest. With that
    /// many, the next call is answered before time passes.
    pub doubts: Vec<usize>,
    /// Processes may be late: time passes although they wanted to be woken.
    pub late: bool,
    /// What is given up may be acquired anew before it is known to be gone.
    pub hasty: bool,
    /// A holder may name another as its successor.
    pub hand_over: bool,
    /// How many requests that nobody waits for may be on their way at a time.
    pub strays: usize,
    /// Requests are sent a second time, by the network or by the client's library.
    pub duplicates: bool,
    /// What a refused write shows.
    pub shows: Shows,
    /// Requests are turned away.
    pub refusals: bool,
    /// The fences after which nothing more is acquired; `None` never ends.
    pub most_fences: Option<u64>,
    /// From every state: the faults stop, and the name must be won within the bound.
    pub heals: bool,
    /// Which states are one.
    pub telling: Telling,
    /// What was seen to happen.
    pub seen: Seen,
}

/// Reachability: a search in which nothing happens proves nothing.
#[derive(Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "tests look into it")]
pub struct Seen {
    /// Grants.
    pub acquired: AtomicU64,
    /// Grants in place of another's record.
    pub takeovers: AtomicU64,
    /// Grants that the record proved, not a reply.
    pub healed: AtomicU64,
    /// Renewals.
    pub renewed: AtomicU64,
    /// Losses.
    pub lost: AtomicU64,
    /// Confirmed releases.
    pub released: AtomicU64,
    /// Confirmed hand-overs.
    pub handed_over: AtomicU64,
    /// Tries that ended busy.
    pub busy: AtomicU64,
}

impl Seen {
    fn note(&self, happened: &Happened) {
        let Some(event) = happened.told else { return };
        let counter = match event {
            Event::Acquired { takeover, .. } => {
                if takeover {
                    self.takeovers.fetch_add(1, Ordering::Relaxed);
                }
                if happened.healed {
                    self.healed.fetch_add(1, Ordering::Relaxed);
                }
                &self.acquired
            }
            Event::Renewed { .. } => &self.renewed,
            Event::Lost { .. } => &self.lost,
            Event::Released => &self.released,
            Event::HandedOver => &self.handed_over,
            Event::Busy { .. } => &self.busy,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// A state of the search.
#[derive(Clone, Debug)]
pub struct State {
    /// The world.
    pub world: World,
    /// The promise that the way here broke.
    pub broken: Option<Broken>,
    telling: Telling,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.broken.hash(state);
        if self.broken.is_none() {
            state.write_u128(fingerprint(&self.world, self.telling));
        }
    }
}

/// As the search sees it.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.broken == other.broken
            && fingerprint(&self.world, self.telling) == fingerprint(&other.world, other.telling)
    }
}

impl Search {
    /// Two contenders under every fault of the network, in which two grains are a ttl.
    #[must_use]
    pub fn new(expiry: Expiry) -> Self {
        Self {
            contenders: 2,
            expiry,
            versions: Versions::PerAttempt,
            ttls: vec![2],
            drift: false,
            crashes: false,
            tries_once: false,
            doubts: vec![1],
            late: false,
            hasty: false,
            hand_over: false,
            strays: 1,
            duplicates: true,
            shows: Shows::Always,
            refusals: true,
            most_fences: None,
            heals: false,
            telling: Telling {
                grain: SECOND,
                any_order: true,
                dead_are_one: true,
                orphans: false,
                copies: true,
            },
            seen: Seen::default(),
        }
    }

    /// The rate error that clocks have where they drift, in parts per million: the most that a config
    /// takes.
    const RATE_ERROR: u32 = 200_000;

    fn born(&self, at: usize) -> Born {
        let grains = self.ttls.get(at).or_else(|| self.ttls.last()).copied().unwrap_or(2);
        let ttl = Span::from_micros(grains * SECOND);
        let mut settings = Settings::new(Ttl::For(ttl), self.expiry);
        settings.versions = self.versions;
        settings.rate_error_ppm = if self.drift { Self::RATE_ERROR } else { 0 };
        // Shorter than a grain: every pause but the ttl's own is "by the next grain".
        settings.poll_interval = Some(Span::from_millis(20));
        let error = u64::from(settings.rate_error_ppm);
        Born {
            config: Config::new(settings).expect("these settings work"),
            rates: (EXACT - error, EXACT + error),
            disciplined: true,
            wall_error: matches!(self.expiry, Expiry::Bounded { .. }).then_some(0),
            mono: 0,
        }
    }

    fn awaited(world: &World, number: Number) -> bool {
        world.contenders.iter().any(|c| {
            c.life == number.life && c.lease.awaited().is_some_and(|id| id.0 == number.call)
        })
    }

    /// Replies that nobody waits for any more are gone, and so are stray requests that cannot change
    /// anything. One that becomes a stray beyond the bound is lost.
    fn tidy(&self, world: &mut World) {
        let mut given_up = None;
        for index in 0..world.network.len() {
            let number = world.network[index].number;
            if !world.network[index].ghost && !Self::awaited(world, number) {
                world.network[index].ghost = true;
                given_up = Some(number);
            }
        }
        let useless = |message: &Message, world: &World| {
            message.ghost && (message.reply.is_some() || !may_apply(world, message))
        };
        while let Some(index) = world.network.iter().position(|m| useless(m, world)) {
            world.network.remove(index);
        }
        let strays = world.network.iter().filter(|message| message.ghost).count();
        if strays > self.strays {
            world.network.retain(|message| Some(message.number) != given_up);
        }
    }

    /// No more doubts for this one: its call is answered next.
    fn is_sure(&self, world: &World, at: usize) -> bool {
        let most = self.doubts.get(at).or_else(|| self.doubts.last()).copied().unwrap_or(0);
        let c = &world.contenders[at];
        c.lease.awaited().is_some() && c.lease.in_doubt() > most
    }

    fn inputs(&self, world: &World, at: usize, actions: &mut Vec<Action>) {
        let c = &world.contenders[at];
        let may_acquire = self.most_fences.is_none_or(|most| world.row.parts().fence < most);
        match c.lease.state() {
            state @ (Doing::Idle | Doing::Releasing)
                if may_acquire && (self.hasty || state == Doing::Idle) =>
            {
                actions.push(Action::Input(at, Input::Acquire { wait: Wait::Forever }));
                if self.tries_once {
                    actions.push(Action::Input(at, Input::Acquire { wait: Wait::No }));
                }
            }
            Doing::Acquiring => actions.push(Action::Input(at, Input::Cancel)),
            Doing::Held => {
                actions.push(Action::Input(at, Input::Release));
                if self.hand_over {
                    let other = (at + 1) % world.contenders.len();
                    actions.push(Action::HandOver(at, other));
                }
            }
            _ => {}
        }
        let now = world.clocks(at).mono;
        if c.wake_at.is_some_and(|wake_at| wake_at <= now) {
            actions.push(Action::Input(at, Input::Tick));
        }
        if self.crashes && (c.lease.state() != Doing::Idle || c.lease.awaited().is_some()) {
            actions.push(Action::Crash(at, Box::new(self.born(at))));
        }
    }

    fn messages(&self, world: &World, actions: &mut Vec<Action>) {
        let strays = world.network.iter().filter(|message| message.ghost).count();
        let room = strays < self.strays;
        for message in &world.network {
            let number = message.number;
            let sure = world
                .contenders
                .iter()
                .position(|c| c.life == number.life)
                .is_some_and(|at| !message.ghost && self.is_sure(world, at));
            if message.reply.is_some() {
                actions.push(Action::Answer(number));
                if !sure {
                    actions.push(Action::Break(number));
                    if self.duplicates {
                        actions.push(Action::Resend(number));
                    }
                }
                continue;
            }
            actions.push(Action::Land(number));
            if message.ghost {
                actions.push(Action::Lose(number));
            }
            if sure || message.ghost {
                continue;
            }
            actions.push(Action::Lose(number));
            if room {
                actions.push(Action::Break(number));
                if self.duplicates {
                    actions.push(Action::Duplicate(number));
                }
            }
            if self.refusals && !message.copied {
                actions.push(Action::TurnAway(number, TurnedAway::Unavailable));
                actions.push(Action::TurnAway(number, TurnedAway::Denied));
            }
        }
    }

    /// Whether time may pass now.
    fn may_pass(&self, world: &World) -> bool {
        (0..world.contenders.len()).all(|at| {
            let due = |wake_at| wake_at <= world.clocks(at).mono;
            let waits = world.contenders[at].wake_at.is_some_and(due);
            !self.is_sure(world, at) && (self.late || !waits)
        })
    }

    fn healed(&self, world: &World) -> Result<(), Broken> {
        for who in 0..world.contenders.len() {
            take_over(&mut world.clone(), who, self.telling.grain)?;
        }
        settle(&mut world.clone(), self.telling.grain)
    }
}

impl Model for Search {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let ends = match self.expiry {
            Expiry::Store => Ends::ByStore,
            Expiry::Observed | Expiry::Bounded { .. } => Ends::ByContenders,
        };
        let rules = Rules {
            ends,
            forgets: false,
            clones: false,
            store_rate: EXACT,
            shows: self.shows,
            compares_one: self.versions == Versions::PerClaim,
        };
        let mut world = World::new(rules, None);
        for at in 0..self.contenders {
            world.be_born(self.born(at));
        }
        vec![State { world, broken: None, telling: self.telling }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        for at in 0..state.world.contenders.len() {
            self.inputs(&state.world, at, actions);
        }
        self.messages(&state.world, actions);
        if !self.may_pass(&state.world) {
            return;
        }
        let paces = if self.drift { 1 << state.world.contenders.len() } else { 1 };
        for fast in 0..paces {
            actions.push(Action::Pass { by: SECOND, fast });
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        match next.world.apply(&action) {
            Ok(happened) => self.seen.note(&happened),
            Err(broken) => next.broken = Some(broken),
        }
        self.tidy(&mut next.world);
        if self.heals && next.broken.is_none() {
            next.broken = self.healed(&next.world).err();
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! kept {
            ($($promise:ident)*) => {
                vec![$(Property::always(Promise::$promise.name(), |_, state: &State| {
                    state.broken.is_none_or(|broken| broken.promise != Promise::$promise)
                }),)*]
            };
        }
        kept! {
            Exclusion BeliefImpliesStore Fencing NoPhantom NoOrphan NoFalseLoss Takeover ReleaseIsOurs
            Bounded LossIsFinal FailsClosed
        }
    }
}
