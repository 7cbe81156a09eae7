//! One row, one clock, and contenders that are driven by hand: for tests that tell a story.

use tenure_core::config::{Config, Expiry, Settings, Ttl, Versions};
use tenure_core::io::{Call, CallKind, Event, Input, Outcome, Wait};
use tenure_core::lease::Lease;
use tenure_core::memory::{Ends, Row};
use tenure_core::time::{Instant, Now, Span, Wall};

/// Milliseconds, as the stories count.
pub type Ms = u64;

/// The ttl of a story.
pub const TTL: Ms = 1_000;

/// The world of a story: true time is everybody's time.
#[derive(Debug)]
pub struct Bench {
    /// What the store keeps.
    pub row: Row<u32>,
    /// Now.
    pub time: Ms,
    entropy: u128,
}

/// A contender, and the call that it waits for.
#[derive(Debug)]
pub struct Contender {
    /// The machine.
    pub lease: Lease,
    /// Who it is.
    pub id: u32,
    /// Handed out and not answered yet.
    pub call: Option<Call>,
    /// When it wants to be ticked.
    pub wake_at: Option<Ms>,
    /// What it told.
    pub events: Vec<Event>,
}

impl Bench {
    /// A free row, ended by contenders or by the store.
    #[must_use]
    pub fn new(ends: Ends) -> Self {
        Self { row: Row::new(ends, 0), time: 10_000, entropy: 0 }
    }

    /// The reading of everybody's clock, with bits that were never used.
    pub fn now(&mut self) -> Now {
        self.entropy += 1;
        Now {
            mono: Instant::from_micros(self.time * 1_000),
            wall: Some(Wall::from_millis(1_000_000 + self.time)),
            entropy: self.entropy,
        }
    }

    /// Hands an input in.
    pub fn input(&mut self, who: &mut Contender, input: Input) {
        let now = self.now();
        let output = who.lease.handle(now, input);
        who.call = output.call.or(who.call);
        who.wake_at = output.wake_at.map(|at| at.as_micros().div_ceil(1_000));
        who.events.extend(output.event);
    }

    /// Lets the store carry out the call that waits, without telling its contender.
    pub fn land(&mut self, who: &Contender) -> Outcome {
        let call = who.call.expect("no call waits");
        self.land_again(who.id, &call)
    }

    /// Lets the store carry out a call, maybe once more.
    pub fn land_again(&mut self, id: u32, call: &Call) -> Outcome {
        let now = Instant::from_micros(self.time * 1_000);
        self.row.carry_out(id, None, call, now)
    }

    /// Tells a contender how its call ended.
    pub fn tell(&mut self, who: &mut Contender, outcome: Outcome) {
        let call = who.call.take().expect("no call waits");
        self.input(who, Input::Completed { id: call.id, outcome });
    }

    /// Carries out and answers calls until none waits.
    pub fn answer(&mut self, who: &mut Contender) {
        for _ in 0..20 {
            if who.call.is_none() {
                return;
            }
            let outcome = self.land(who);
            self.tell(who, outcome);
        }
        panic!("calls without an end");
    }

    /// Time passes; the contender is ticked whenever it wants to be, and answered at once.
    pub fn pass(&mut self, who: &mut Contender, time: Ms) {
        let end = self.time + time;
        while let Some(wake_at) = who.wake_at.filter(|at| *at <= end) {
            self.time = self.time.max(wake_at);
            self.input(who, Input::Tick);
            self.answer(who);
        }
        self.time = end;
    }

    /// Acquires, and expects to be granted it at once.
    pub fn hold(&mut self, who: &mut Contender) {
        self.input(who, Input::Acquire { wait: Wait::No });
        self.answer(who);
        assert!(self.holds(who), "{:?}", who.events);
    }

    /// Whether it believes to hold now.
    pub fn holds(&mut self, who: &mut Contender) -> bool {
        let now = self.now();
        who.lease.grant(now).is_some()
    }

    /// Whom the row names.
    #[must_use]
    pub fn holder(&self) -> Option<u32> {
        self.row.holder(Instant::from_micros(self.time * 1_000)).map(|(holder, ..)| holder)
    }
}

impl Contender {
    /// With the defaults of a store of this kind.
    #[must_use]
    pub fn new(id: u32, expiry: Expiry) -> Self {
        Self::with(id, Settings::new(Ttl::For(Span::from_millis(TTL)), expiry))
    }

    /// As in Redis.
    #[must_use]
    pub fn per_claim(id: u32) -> Self {
        let settings = Settings::new(Ttl::For(Span::from_millis(TTL)), Expiry::Store);
        Self::with(id, Settings { versions: Versions::PerClaim, ..settings })
    }

    /// With these settings.
    #[must_use]
    pub fn with(id: u32, settings: Settings) -> Self {
        let lease = Lease::new(Config::new(settings).expect("these settings work"));
        Self { lease, id, call: None, wake_at: None, events: Vec::new() }
    }

    /// The kind of the call that waits.
    #[must_use]
    pub fn asks(&self) -> CallKind {
        self.call.expect("no call waits").kind
    }

    /// What it told last.
    #[must_use]
    pub fn last(&self) -> Option<Event> {
        self.events.last().copied()
    }
}
