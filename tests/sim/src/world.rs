//! The state of the world, and everything that can happen to it. Which of it happens, and when, is for
//! the walk to draw and for the exhaustive search to enumerate.

use tenure_core::config::Config;
use tenure_core::io::{Call, CallKind, Event, Input, LostReason, Outcome, Output};
use tenure_core::lease::{Lease, State};
use tenure_core::memory::{Ends, Parts, Row};
use tenure_core::record::{Fence, Version};
use tenure_core::time::{Instant, Now, Span, Wall};

use crate::guarded::{Begun, Guarded};
use crate::promise::{Broken, Promise, broken};
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

/// Something that happens. What is impossible at the time changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a schedule is made of these")]
pub enum Action {
    /// Time passes, in microseconds. The bits say whose clocks run fast meanwhile.
    Pass {
        /// How much.
        by: u64,
        /// Bit `i`: contender `i`.
        fast: u8,
    },
    /// A machine is handed an input that the application or its host may give it at any time.
    Input(usize, Input),
    /// A holder names another as its successor.
    HandOver(usize, usize),
    /// What the first saw of the record is handed to the second.
    Share(usize, usize),
    /// A request arrives at the store.
    Land(Number),
    /// The reply arrives.
    Answer(Number),
    /// The reply arrives, and will once more.
    AnswerTwice(Number),
    /// The request, or the reply, is lost; nobody is told.
    Lose(Number),
    /// The client hears that the connection broke. The request, if it has not landed, goes on.
    Break(Number),
    /// The client hears that its request was turned away, and is right to believe it.
    TurnAway(Number, TurnedAway),
    /// A second request like this one is on its way.
    Duplicate(Number),
    /// The reply is lost, whereupon the client's library sends the request again by itself.
    Resend(Number),
    /// A process dies, and another begins in its place.
    Crash(usize, Box<Born>),
    /// A process dies for good.
    Die(usize),
    /// A machine is copied with everything in it.
    Clone(usize),
    /// The Unix clock is set, by so many microseconds.
    StepWall(usize, i64),
    /// A machine is suspended: its monotonic clock stands still from here.
    Suspend(usize),
    /// It goes on.
    Resume(usize),
    /// What the store acknowledged reaches its replica.
    Replicate,
    /// The replica takes over; what it had not heard of is forgotten.
    Failover,
    /// Somebody deletes the record.
    Delete,
    /// A client that goes by the Unix clock alone takes the name or keeps it.
    HoldByWall,
    /// It leaves.
    LeaveByWall,
    /// A holder begins an addition to the guarded resource.
    Begin(usize),
    /// The addition that was begun first arrives there.
    Arrive,
}

/// Which request: whose, which call, and which copy of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a number with parts")]
pub struct Number {
    /// The life of the contender that sent it.
    pub life: u32,
    /// The call.
    pub call: u32,
    /// Counts its copies.
    pub copy: u32,
}

/// In which way a request was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum TurnedAway {
    /// For now.
    Unavailable,
    /// For good.
    Denied,
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
            | CallKind::Renew { terms, .. } => self.sent + terms.ttl().as_micros(),
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
    lineage: Few<(u32, u64)>,
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

    /// Lets something happen, and checks every promise.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn apply(&mut self, action: &Action) -> Result<Happened, Broken> {
        let mut happened = Happened::default();
        match *action {
            Action::Pass { by, fast } => {
                self.pass(by, fast);
                self.check()?;
                return Ok(happened);
            }
            Action::Input(who, input) => self.input(who, input, &mut happened)?,
            Action::HandOver(from, to) => {
                if let Some(to) = self.contenders.get(to).map(|c| c.holder)
                    && let Some(from) = self.contenders.get_mut(from)
                {
                    from.successor = Some(to);
                }
                self.input(from, Input::HandOver, &mut happened)?;
            }
            Action::Share(from, to) => {
                if from < self.contenders.len() {
                    let now = self.clocks(from);
                    if let Some(observation) = self.contenders[from].lease.observation(now) {
                        self.input(to, Input::Observe { observation }, &mut happened)?;
                    }
                }
            }
            Action::Land(number) => {
                if let Some(index) = self.find(number) {
                    self.land(index)?;
                }
            }
            Action::Answer(number) | Action::AnswerTwice(number) => {
                if let Some(index) = self.find(number)
                    && let Some(outcome) = self.network[index].reply
                    && let Some(who) = self.position(number.life)
                    && !self.contenders[who].suspended
                {
                    if matches!(action, Action::Answer(_)) {
                        self.network.swap_remove(index);
                    }
                    self.complete(who, number, outcome, &mut happened)?;
                }
            }
            Action::Lose(number) => {
                if let Some(index) = self.find(number) {
                    self.network.swap_remove(index);
                }
            }
            Action::Break(number) => {
                if let Some(index) = self.find(number)
                    && let Some(who) = self.position(number.life)
                    && !self.contenders[who].suspended
                {
                    if self.network[index].reply.is_some() {
                        self.network.swap_remove(index);
                    } else {
                        self.network[index].ghost = true;
                    }
                    self.complete(who, number, Outcome::Unknown, &mut happened)?;
                }
            }
            Action::TurnAway(number, how) => self.turn_away(number, how, &mut happened)?,
            Action::Duplicate(number) => {
                if let Some(index) = self.find(number) {
                    let copies = self.network.iter().map(|m| m.number.copy).max().unwrap_or(0);
                    self.network[index].copied = true;
                    let copy = Message {
                        number: Number { copy: copies + 1, ..number },
                        ghost: true,
                        reply: None,
                        ..self.network[index]
                    };
                    self.network.push(copy);
                    happened.sent = Some(copy.number);
                }
            }
            Action::Resend(number) => {
                if let Some(index) = self.find(number) {
                    self.network[index].reply = None;
                    self.network[index].copied = true;
                }
            }
            Action::Crash(who, ref born) => {
                // Copies stay: what they send names their ancestors' versions.
                if self.contenders.get(who).is_some_and(|c| c.lineage.len() == 1) {
                    self.contenders[who] = self.begin(**born);
                }
            }
            Action::Die(who) => {
                if let Some(c) = self.contenders.get_mut(who) {
                    c.dead = true;
                    c.wake_at = None;
                }
            }
            Action::Clone(who) => self.copy_machine(who),
            Action::StepWall(who, by) => {
                let free = |c: &&mut Contender| !c.born.disciplined && !c.suspended;
                if let Some(c) = self.contenders.get_mut(who).filter(free) {
                    c.wall_error = c.wall_error.saturating_add(by);
                }
            }
            Action::Suspend(who) => {
                if let Some(c) = self.contenders.get_mut(who) {
                    c.suspended = true;
                }
            }
            Action::Resume(who) => {
                if let Some(c) = self.contenders.get_mut(who) {
                    c.suspended = false;
                }
            }
            Action::Replicate => self.replica = self.row,
            Action::Failover => {
                // Takes a while, in which the clock that seeds fences goes on.
                self.pass(1_000, 0);
                self.row = self.replica;
                self.landed = None;
            }
            Action::Delete => {
                self.row.clear();
                self.landed = None;
            }
            Action::HoldByWall => self.hold_by_wall(),
            Action::LeaveByWall => {
                self.row.leave_by_wall(BY_WALL);
                self.by_wall_until = None;
            }
            Action::Begin(who) => self.begin_addition(who)?,
            Action::Arrive => self.guarded.arrive(),
        }
        self.check()?;
        Ok(happened)
    }

    fn find(&self, number: Number) -> Option<usize> {
        self.network.iter().position(|m| m.number == number)
    }

    fn position(&self, life: u32) -> Option<usize> {
        self.contenders.iter().position(|c| c.life == life && !c.dead)
    }

    fn pass(&mut self, by: u64, fast: u8) {
        self.time += by;
        self.store_time += by * self.rules.store_rate;
        for (index, c) in self.contenders.iter_mut().enumerate() {
            let rate = if fast & (1 << index) == 0 { c.born.rates.0 } else { c.born.rates.1 };
            c.wall += by * rate;
            if !c.suspended {
                c.mono += by * rate;
            }
        }
    }

    fn input(&mut self, who: usize, input: Input, happened: &mut Happened) -> Result<(), Broken> {
        if self.contenders.get(who).is_none_or(|c| c.dead || c.suspended) {
            return Ok(());
        }
        let now = self.now(who);
        let output = self.contenders[who].lease.handle(now, input);
        if self.verbose {
            println!("{:>12} {} {input:?}", self.time, self.contenders[who].life);
            println!("             -> {output:?}");
        }
        self.follow(who, now, &output, happened)
    }

    fn complete(
        &mut self,
        who: usize,
        number: Number,
        outcome: Outcome,
        happened: &mut Happened,
    ) -> Result<(), Broken> {
        let id = tenure_core::io::CallId(number.call);
        happened.healed = matches!(outcome, Outcome::Refused { .. } | Outcome::Found { .. });
        self.input(who, Input::Completed { id, outcome }, happened)?;
        let turned_away =
            matches!(outcome, Outcome::Unknown | Outcome::Unavailable | Outcome::Denied);
        if turned_away && matches!(happened.told, Some(Event::Acquired { .. })) {
            return Err(broken(Promise::FailsClosed, "a request that failed gave a grant"));
        }
        Ok(())
    }

    fn turn_away(
        &mut self,
        number: Number,
        how: TurnedAway,
        happened: &mut Happened,
    ) -> Result<(), Broken> {
        // Only of what never arrives may be said that it was not applied.
        if let Some(index) = self.find(number)
            && self.network[index].reply.is_none()
            && !self.network[index].copied
            && let Some(who) = self.position(number.life)
            && !self.contenders[who].suspended
        {
            self.network.swap_remove(index);
            let outcome = match how {
                TurnedAway::Unavailable => Outcome::Unavailable,
                TurnedAway::Denied => Outcome::Denied,
            };
            self.complete(who, number, outcome, happened)?;
        }
        Ok(())
    }

    fn follow(
        &mut self,
        who: usize,
        now: Now,
        output: &Output,
        happened: &mut Happened,
    ) -> Result<(), Broken> {
        if let Some(event) = output.event {
            happened.told = Some(event);
            self.hear(who, event)?;
        }
        let timeout = self.contenders[who].born.config.call_timeout();
        if let Some(call) = output.call {
            let wait = call.give_up_at.since(now.mono);
            if call.give_up_at < now.mono || wait > timeout {
                return Err(broken(Promise::Bounded, "a call without a bound in time"));
            }
            let c = &self.contenders[who];
            let number = Number { life: c.life, call: call.id.0, copy: 0 };
            self.network.push(Message {
                number,
                call,
                reply: None,
                ghost: false,
                copied: false,
                holder: c.holder,
                successor: c.successor,
                sent: self.time,
            });
            happened.sent = Some(number);
        }
        if output.wake_at.is_none() {
            let idle = self.contenders[who].lease.awaited().is_none()
                && match self.contenders[who].lease.state() {
                    State::Acquiring | State::Releasing => false,
                    // Nothing is due for a lock, or for a grant that ended and was told.
                    State::Idle | State::Held | _ => true,
                };
            if !idle {
                return Err(broken(
                    Promise::Bounded,
                    "something is under way and nothing wakes it",
                ));
            }
        }
        self.contenders[who].wake_at = output.wake_at;
        Ok(())
    }

    fn land(&mut self, index: usize) -> Result<(), Broken> {
        let message = self.network[index];
        if message.reply.is_some() {
            return Ok(());
        }
        let now = self.store_now();
        let Message { number, call, holder, successor, .. } = message;
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
                    let until = self.time + ttl - ttl / 10;
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
                    landed.until = self.time + ttl - ttl / 10;
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
    fn check_applied(&self, life: u32, call: &Call, before: Option<Version>) -> Result<(), Broken> {
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
    fn drew(&self, life: u32, version: Version) -> bool {
        let bits = version.to_bits();
        let (by, draw) = ((bits >> 96) as u32, (bits >> 32) as u64);
        by == life
            || self.contenders.iter().any(|c| {
                c.life == life && c.lineage.iter().any(|(of, until)| *of == by && draw <= *until)
            })
    }

    fn hear(&mut self, who: usize, event: Event) -> Result<(), Broken> {
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

    fn end(&mut self, who: usize) {
        let c = &mut self.contenders[who];
        if let Some(fence) = c.fence.take() {
            c.ended = c.ended.max(fence);
        }
    }

    fn copy_machine(&mut self, who: usize) {
        let Some(original) = self.contenders.get(who) else { return };
        // One that is still acquiring would make two grants of one attempt, which only its host can see.
        let steady = matches!(original.lease.state(), State::Idle | State::Held);
        if original.dead || original.suspended || !steady || self.contenders.len() >= 4 {
            return;
        }
        self.lives += 1;
        let mut copy = original.clone();
        copy.life = self.lives;
        if let Some((_, until)) = copy.lineage.last_mut() {
            *until = copy.draws;
        }
        remember(&mut copy.lineage, (self.lives, u64::MAX));
        copy.draws = 0;
        self.contenders.push(copy);
    }

    fn by_wall_now(&self) -> Wall {
        Wall::from_micros((EPOCH + self.time).saturating_add_signed(self.by_wall_error))
    }

    fn hold_by_wall(&mut self) {
        const TTL: Span = Span::from_micros(1_000_000);
        let now = self.by_wall_now();
        self.by_wall_until = None;
        if self.row.hold_by_wall(BY_WALL, now, TTL) {
            self.by_wall_until = Some(now.after(TTL));
            self.landed = None;
        }
    }

    fn begin_addition(&mut self, who: usize) -> Result<(), Broken> {
        if self.contenders.get(who).is_none_or(|c| c.dead || c.suspended) {
            return Ok(());
        }
        let now = self.now(who);
        let Some(grant) = self.contenders[who].lease.grant(now) else { return Ok(()) };
        let fence = grant.fence.map_or(0, |fence| fence.0);
        let life = self.contenders[who].life;
        match self.guarded.begin(fence, if self.rules.clones { 0 } else { life }) {
            Begun::FenceOfAnother => {
                Err(broken(Promise::GuardedResource, "two grants with one fence"))
            }
            Begun::TurnedAway if self.is_exclusive() => {
                Err(broken(Promise::GuardedResource, "a valid holder was turned away"))
            }
            Begun::Sealed | Begun::TurnedAway => Ok(()),
        }
    }

    /// Whether exclusion is promised at all in this world.
    const fn is_exclusive(&self) -> bool {
        !self.rules.forgets && !self.rules.clones
    }

    /// The promises that are about one instant.
    fn check(&mut self) -> Result<(), Broken> {
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
type Few<T> = heapless::Vec<T, 16>;

fn few<T>(item: T) -> Few<T> {
    let mut list = Few::new();
    remember(&mut list, item);
    list
}

/// Keeps the newest.
fn remember<T>(list: &mut Few<T>, item: T) {
    if list.is_full() {
        list.remove(0);
    }
    // There is room now.
    drop(list.push(item));
}
