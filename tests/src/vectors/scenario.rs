//! One life of a lease, written down step by step as every binding must repeat it.

use serde_json::{Map, Value, json};

use tenure_core::config::{Config, Expiry, Settings, Ttl};
use tenure_core::io::{Call, CallId, Input, Outcome, Output, Wait};
use tenure_core::lease::{Lease, State};
use tenure_core::record::{HolderId, Identity, Observation, Record};
use tenure_core::time::{Instant, Now, Span, Wall};
use tenure_core::wire::Texts;

use super::answers::{InTheWay, plain_event, plain_grant, plain_observation, plain_settings};
use super::plain::{bits, number, span};
use super::wire::{Answer, Reply, Wire};

pub(super) const MS: u64 = 1_000;
pub(super) const SECOND: u64 = 1_000_000;
const MONO_START: u64 = SECOND;
const WALL_START: u64 = 1_700_000_000 * SECOND;

pub(super) struct Scenario {
    name: String,
    texts: Value,
    settings: Settings,
    lease: Lease,
    pub(super) wire: Wire,
    /// The last call that was made, answered or not.
    pub(super) call: Option<Call>,
    successor: Option<String>,
    who: InTheWay,
    complaint: Option<String>,
    pub(super) mono: u64,
    pub(super) wall: Option<u64>,
    readings: u64,
    /// Entropy is of 128 bits, and not short, which reads better.
    pub(super) wide: bool,
    pub(super) wake_at: Option<u64>,
    steps: Vec<Value>,
}

pub(super) const NAME: &str = "report";
pub(super) const HOLDER: &str = "web/1";
pub(super) const OTHER: &str = "web/9";

/// The settings of most scenarios: a lease of ten seconds.
pub(super) fn settings(expiry: Expiry) -> Settings {
    Settings::new(Ttl::For(Span::from_micros(10 * SECOND)), expiry)
}

impl Scenario {
    pub(super) fn new(name: impl Into<String>, settings: Settings, wire: Wire) -> Self {
        let config = Config::new(settings).expect("the settings of a scenario work");
        let mut texts = Map::new();
        texts.insert("name".into(), json!(NAME));
        texts.insert("holder".into(), json!(HOLDER));
        wire.describe(&mut texts);
        Self {
            name: name.into(),
            texts: Value::Object(texts),
            settings,
            lease: Lease::new(config),
            wire,
            call: None,
            successor: None,
            who: InTheWay::default(),
            complaint: None,
            mono: MONO_START,
            wall: Some(WALL_START),
            readings: 0,
            wide: false,
            wake_at: None,
            steps: Vec::new(),
        }
    }

    /// Lets time pass.
    pub(super) fn after(&mut self, micros: u64) -> &mut Self {
        self.mono = self.mono.saturating_add(micros);
        self.wall = self.wall.map(|wall| wall.saturating_add(micros));
        self
    }

    /// Lets time pass until something is due.
    pub(super) fn until_due(&mut self) -> &mut Self {
        let due = self.wake_at.unwrap_or(self.mono);
        self.after(due.saturating_sub(self.mono))
    }

    /// Ticks when something is due.
    pub(super) fn tick_when_due(&mut self) -> &mut Self {
        self.until_due().tick()
    }

    pub(super) fn acquire(&mut self, wait: Wait) -> &mut Self {
        let micros = match wait {
            Wait::No => number(0),
            Wait::For(time) => number(time.as_micros()),
            Wait::Forever => Value::Null,
        };
        self.step(json!({"method": "acquire", "wait_us": micros}), Input::Acquire { wait })
    }

    /// Acquires it and has the answer.
    pub(super) fn hold(&mut self) -> &mut Self {
        self.acquire(Wait::No).answer();
        assert_eq!(self.lease.state(), State::Held, "{}", self.name);
        self
    }

    pub(super) fn renew(&mut self) -> &mut Self {
        self.step(json!({"method": "renew", "new_ttl": null}), Input::Renew { terms: None })
    }

    /// Renews it for another time.
    pub(super) fn renew_for(&mut self, ttl: Ttl) -> &mut Self {
        let micros = match ttl {
            Ttl::For(ttl) => span(ttl),
            Ttl::Forever => Value::Null,
        };
        let input = json!({"method": "renew", "new_ttl": {"ttl_us": micros}});
        match self.lease.config().terms(ttl) {
            Ok(terms) => self.step(input, Input::Renew { terms: Some(terms) }),
            Err(error) => {
                let now = self.read();
                let expected = json!({"error": {"field": error.field(), "why": error.why()}});
                self.put_down(Some(&now), input, expected)
            }
        }
    }

    pub(super) fn release(&mut self) -> &mut Self {
        self.step(json!({"method": "release"}), Input::Release)
    }

    pub(super) fn cancel(&mut self) -> &mut Self {
        self.step(json!({"method": "cancel"}), Input::Cancel)
    }

    pub(super) fn hand_over(&mut self, to: &str) -> &mut Self {
        self.successor = Some(to.to_owned());
        self.step(json!({"method": "hand_over", "to": to}), Input::HandOver)
    }

    /// Takes the name from the record that is shown now.
    pub(super) fn break_what_stands(&mut self) -> &mut Self {
        let now = self.store_now();
        let (identity, raw) = self.wire.shown(NAME, now);
        self.wire.saw(&raw);
        let input = json!({"method": "break", "identity": bits(identity.0), "raw": raw});
        self.step(input, Input::Break { seen: identity })
    }

    pub(super) fn tick(&mut self) -> &mut Self {
        self.step(json!({"method": "tick"}), Input::Tick)
    }

    pub(super) fn wake(&mut self) -> &mut Self {
        self.step(json!({"method": "wake"}), Input::Wake)
    }

    pub(super) fn observe(&mut self, observation: Observation) -> &mut Self {
        let input = json!({"method": "observe", "observation": plain_observation(&observation)});
        self.step(input, Input::Observe { observation })
    }

    /// The store does what was asked (or is asked soon), and its reply comes 5 ms later. Asked in
    /// another form, it is asked again.
    pub(super) fn answer(&mut self) -> &mut Self {
        let is_soon = |s: &Self| s.wake_at.is_some_and(|at| at < s.mono + SECOND);
        while !self.awaits() && is_soon(self) {
            self.tick_when_due();
        }
        while self.awaits() {
            let id = self.id();
            let reply = self.perform();
            if !self.after(5 * MS).reply(id, &reply) {
                break;
            }
        }
        self
    }

    /// The store does what was asked, and its reply is lost.
    pub(super) fn lose_reply(&mut self) -> &mut Self {
        let _ = self.perform();
        self.drop_request()
    }

    /// The request never arrives, which nobody knows.
    pub(super) fn drop_request(&mut self) -> &mut Self {
        self.after(5 * MS);
        let id = self.id();
        let input = json!({"method": "unknown", "call_id": id});
        self.completed(input, id, Outcome::Unknown)
    }

    /// The host knows that the request did not take effect.
    pub(super) fn unavailable(&mut self, lasting: bool) -> &mut Self {
        self.after(5 * MS);
        let id = self.id();
        let input = json!({"method": "unavailable", "call_id": id, "lasting": lasting});
        self.completed(input, id, if lasting { Outcome::Denied } else { Outcome::Unavailable })
    }

    /// The store says this to the call that was made last. True if that is to be put in another
    /// form.
    pub(super) fn say(&mut self, reply: &Reply) -> bool {
        let id = self.id();
        self.after(5 * MS).reply(id, reply)
    }

    pub(super) fn reply(&mut self, id: u32, reply: &Reply) -> bool {
        let now = self.read();
        let mut input = Map::new();
        input.insert("method".into(), json!(reply.method()));
        input.insert("call_id".into(), json!(id));
        reply.describe(&mut input);
        let outcome = match self.call.filter(|call| call.id == CallId(id)) {
            // Not a matter of which call it was.
            _ if matches!(reply, Reply::Error { .. } | Reply::Carried) => self.wire.outcome(reply),
            None => Outcome::Unknown,
            Some(call) => {
                let texts =
                    Texts { name: NAME, holder: HOLDER, successor: self.successor.as_deref() };
                match self.wire.read(&texts, &call, reply) {
                    Answer::Again => {
                        // What is late must not be sent again; no vector asks for it.
                        assert!(self.awaits(), "{}: a call that nobody awaits", self.name);
                        let call = self.call.map(|call| self.put(&call));
                        let expected = self.expected(call, Value::Null, None);
                        self.put_down(Some(&now), Value::Object(input), expected);
                        return true;
                    }
                    Answer::Done { outcome, holder, complaint } => {
                        if let Some(record) = shown(&outcome) {
                            self.who = InTheWay { holder, fence: record.fence };
                        }
                        self.complaint = complaint;
                        outcome
                    }
                }
            }
        };
        let completed = Input::Completed { id: CallId(id), outcome };
        self.handled(&now, Value::Object(input), completed);
        false
    }

    /// Has the store do what the last call asks.
    pub(super) fn perform(&mut self) -> Reply {
        let call = self.call.expect("a call was made");
        let now = self.store_now();
        if let Wire::Local(shelf) = &mut self.wire {
            let us = HolderId::new(HOLDER).expect("an id");
            let successor = self.successor.as_deref().map(|to| HolderId::new(to).expect("an id"));
            let (input, kept) = shelf.carry_out(us, successor, &call, now);
            if let Some(record) = shown(&shelf.outcome()) {
                self.who = InTheWay { holder: shelf.holder(now), fence: record.fence };
            }
            self.put_down(None, input, kept);
            return Reply::Carried;
        }
        self.wire.perform(&call, now)
    }

    /// Asks whether it is held, now.
    pub(super) fn ask(&mut self) -> &mut Self {
        let now = Now { entropy: 0, ..self.read() };
        let grant = self.lease.grant(now).map_or(Value::Null, plain_grant);
        self.put_down(Some(&now), json!({"method": "grant"}), json!({"grant": grant}))
    }

    /// Exports what was seen, now.
    pub(super) fn export(&mut self) -> Option<Observation> {
        let now = Now { entropy: 0, ..self.read() };
        let observation = self.lease.observation(now);
        let plain = observation.as_ref().map_or(Value::Null, plain_observation);
        self.put_down(Some(&now), json!({"method": "observation"}), json!({"observation": plain}));
        observation
    }

    pub(super) fn id(&self) -> u32 {
        self.call.map_or(0, |call| call.id.0)
    }

    pub(super) fn awaits(&self) -> bool {
        self.lease.awaited().is_some()
    }

    pub(super) const fn state(&self) -> State {
        self.lease.state()
    }

    /// The store's clock, which agrees with ours here.
    pub(super) fn store_now(&self) -> u64 {
        WALL_START + (self.mono - MONO_START)
    }

    fn completed(&mut self, input: Value, id: u32, outcome: Outcome) -> &mut Self {
        self.step(input, Input::Completed { id: CallId(id), outcome })
    }

    fn step(&mut self, described: Value, input: Input) -> &mut Self {
        let now = self.read();
        self.handled(&now, described, input)
    }

    fn handled(&mut self, now: &Now, described: Value, input: Input) -> &mut Self {
        let output: Output = self.lease.handle(*now, input);
        let call = output.call.map(|call| {
            self.call = Some(call);
            self.wire.begin();
            self.put(&call)
        });
        let event = output.event.map_or(Value::Null, |event| plain_event(event, &self.who));
        let expected = self.expected(call, event, output.wake_at);
        self.wake_at = output.wake_at.map(Instant::as_micros);
        self.put_down(Some(now), described, expected)
    }

    fn put(&mut self, call: &Call) -> Value {
        let texts = Texts { name: NAME, holder: HOLDER, successor: self.successor.as_deref() };
        json!({
            "id": call.id.0,
            "give_up_at_us": number(call.give_up_at.as_micros()),
            "request": self.wire.lower(&texts, call),
        })
    }

    fn expected(&self, call: Option<Value>, event: Value, wake_at: Option<Instant>) -> Value {
        let mut expected = Map::new();
        expected.insert("call".into(), call.unwrap_or_default());
        expected.insert("event".into(), event);
        let wake_at = wake_at.map_or(Value::Null, |at| number(at.as_micros()));
        expected.insert("wake_at_us".into(), wake_at);
        let state = match self.lease.state() {
            State::Acquiring => "acquiring",
            State::Held => "held",
            State::Releasing => "releasing",
            _ => "idle",
        };
        expected.insert("state".into(), json!(state));
        if let Some(complaint) = &self.complaint {
            expected.insert("complaint".into(), json!(complaint));
        }
        Value::Object(expected)
    }

    fn put_down(&mut self, now: Option<&Now>, input: Value, expected: Value) -> &mut Self {
        let mut step = Map::new();
        if let Some(now) = now {
            let now = json!({
                "mono_us": number(now.mono.as_micros()),
                "wall_us": now.wall.map_or(Value::Null, |wall| number(wall.as_micros())),
                "entropy": format!("{:x}", now.entropy),
            });
            step.insert("now".into(), now);
        }
        step.insert("input".into(), input);
        step.insert("expected".into(), expected);
        self.steps.push(Value::Object(step));
        self
    }

    fn read(&mut self) -> Now {
        self.readings += 1;
        let mut random = super::random::Random::new(self.readings);
        let short = u128::from(random.bits() >> 40);
        let entropy = if self.wide { short << 104 | u128::from(random.bits()) } else { short };
        Now {
            mono: Instant::from_micros(self.mono),
            wall: self.wall.map(Wall::from_micros),
            entropy,
        }
    }

    /// The scenario as it goes into a file: all but its steps, and those.
    pub(super) fn finish(self) -> (Value, Vec<Value>) {
        let head = json!({
            "name": self.name,
            "wire": self.wire.name(),
            "config": plain_settings(&self.settings),
            "lease": self.texts,
        });
        (head, self.steps)
    }
}

fn shown(outcome: &Outcome) -> Option<Record> {
    match outcome {
        Outcome::Refused { current } => *current,
        Outcome::Found { record } => Some(*record),
        _ => None,
    }
}

/// An identity that nothing has.
pub(super) const NOTHING: Identity = Identity(0xdead);

/// What another holder asks of its store.
pub(super) fn acquire_of_another(settings: Settings, version: u128, wall: u64) -> Call {
    let terms = Config::new(settings).expect("the settings of a scenario work").first_terms();
    let attempt = tenure_core::record::Version::from_bits(version);
    let kind = tenure_core::io::CallKind::Acquire { attempt, terms };
    let wall = Some(Wall::from_micros(wall));
    Call { id: CallId(0), kind, wall, give_up_at: Instant::from_micros(0) }
}

impl Scenario {
    /// Ticks when something is due and has every call answered, until it is in this state.
    pub(super) fn go_on_until(&mut self, state: State) -> &mut Self {
        for _ in 0..200 {
            if self.lease.state() == state {
                return self;
            }
            if self.awaits() {
                self.answer();
            } else {
                self.tick_when_due();
            }
        }
        panic!("{}: never {state:?}", self.name);
    }
}
