//! The machine answers every sequence of inputs, under every clock: no panic and no overflow (P13),
//! one call at a time, a grant only after a write that is known to be applied (P3), a loss that stays
//! one (P11), something to wait for while anything is under way, and the same again for the same
//! inputs (P9).
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

use tenure_core::config::{Config, Expiry, Polling, Settings, Ttl, Versions};
use tenure_core::io::{Call, CallId, CallKind, Event, Input, Outcome, Output, Wait};
use tenure_core::lease::{Lease, State};
use tenure_core::memory::{Ends, Row};
use tenure_core::record::{ClockId, Fence, Holder, Identity, Observation, Record, Term, Version};
use tenure_core::time::{Instant, Now, Span, Wall};
use tenure_core::wire::Texts;
use tenure_core::wire::dynamodb::{self, RowTexts, Schema};
use tenure_core::wire::redis::{Redis, Tried};

#[derive(Arbitrary, Debug)]
struct Case {
    settings: Chosen,
    start: (u64, Option<u64>),
    steps: Vec<Stepped>,
}

#[derive(Arbitrary, Debug)]
struct Chosen {
    /// In milliseconds; none is for ever.
    ttl: Option<u16>,
    expiry: How,
    per_claim: bool,
    poll_by_writing: bool,
    renew_interval: Option<u16>,
    poll_interval: Option<u16>,
    call_timeout: Option<u16>,
    rate_error: Option<u32>,
    min_hold: Option<u16>,
    clock: bool,
    /// Anything at all.
    wild: Option<(u64, u64, u64)>,
}

#[derive(Arbitrary, Debug)]
enum How {
    Observed,
    Bounded(u16),
    Store,
}

#[derive(Arbitrary, Debug)]
struct Stepped {
    clock: Reading,
    wall: WallReading,
    entropy: u16,
    action: Action,
}

#[derive(Arbitrary, Debug)]
enum Reading {
    Same,
    /// Microseconds.
    Later(u32),
    /// When something is due, or a little off.
    Due(i8),
    Back(u32),
    Any(u64),
}

#[derive(Arbitrary, Debug)]
enum WallReading {
    /// It goes with the other clock.
    Along,
    Leaps(u32),
    Back(u32),
    Gone,
    Any(u64),
}

#[derive(Arbitrary, Debug)]
enum Action {
    Acquire(Option<u32>),
    Renew,
    RenewFor(Option<u16>),
    Release,
    Cancel,
    HandOver,
    Wake,
    Tick,
    Ask,
    Observe(Evidence),
    Export,
    Break(Which),
    /// A store that works carries the call out, and answers.
    Answer,
    /// It carries it out, and its reply is lost.
    Lose,
    /// Somebody else is at the store.
    Meddle(Meddling),
    Complete(To, Ending),
}

#[derive(Arbitrary, Debug)]
enum Meddling {
    Clear,
    Takes,
    PassTime(u32),
}

#[derive(Arbitrary, Debug)]
enum To {
    Awaited,
    Last,
    Any(u32),
}

#[derive(Arbitrary, Debug)]
enum Ending {
    Applied(Option<u64>),
    RefusedUnseen,
    Refused(Shown),
    Found(Shown),
    Unknown,
    Unavailable,
    Denied,
}

#[derive(Arbitrary, Debug)]
struct Shown {
    holder: u8,
    version: Which,
    identity: Which,
    fence: Option<u64>,
    term: u8,
    first: u64,
    second: u64,
}

#[derive(Arbitrary, Debug)]
enum Which {
    None,
    /// One that was sent, counted from the newest.
    Sent(u8),
    Any(u8),
}

#[derive(Arbitrary, Debug)]
struct Evidence {
    identity: Which,
    ttl: u64,
    proven_for: u64,
    clock: bool,
    mono: u64,
    wall: Option<u64>,
}

impl Chosen {
    fn config(&self) -> Option<Config> {
        let millis = |ms: u16| Span::from_millis(ms.into());
        let ttl = self.ttl.map_or(Ttl::Forever, |ms| Ttl::For(millis(ms)));
        let expiry = match self.expiry {
            How::Observed => Expiry::Observed,
            How::Bounded(ms) => Expiry::Bounded { max_clock_skew: millis(ms) },
            How::Store => Expiry::Store,
        };
        let mut settings = Settings::new(ttl, expiry);
        if self.per_claim {
            settings.versions = Versions::PerClaim;
        }
        if self.poll_by_writing {
            settings.polling = Polling::Acquire;
        }
        settings.renew_interval = self.renew_interval.map(millis);
        settings.poll_interval = self.poll_interval.map(millis);
        settings.call_timeout = self.call_timeout.map(millis);
        settings.rate_error_ppm = self.rate_error.unwrap_or(settings.rate_error_ppm);
        settings.min_hold = self.min_hold.map_or(Span::ZERO, millis);
        settings.clock = self.clock.then_some(ClockId(1));
        if let Some((ttl, poll, timeout)) = self.wild {
            settings.ttl = Ttl::For(Span::from_micros(ttl));
            settings.poll_interval = Some(Span::from_micros(poll));
            settings.call_timeout = Some(Span::from_micros(timeout));
        }
        Config::new(settings).ok()
    }
}

/// Beyond this a clock may stand at its end, where nothing comes any more.
const NEAR_THE_END: u64 = u64::MAX / 4;

struct World {
    lease: Lease,
    twin: Lease,
    row: Row<u32>,
    store_time: u64,
    mono: u64,
    wall: Option<u64>,
    wake_at: Option<u64>,
    /// Every version that was sent.
    sent: Vec<Version>,
    last: Option<Call>,
    /// The clocks did nothing odd since the last call was made.
    sane: bool,
    /// They may have come to their end.
    ended: bool,
    turns: u64,
}

impl World {
    fn now(&mut self, entropy: u16) -> Now {
        // As the system would give them: never the same twice.
        self.turns += 1;
        let entropy = u128::from(self.turns) << 64 | u128::from(entropy);
        Now {
            mono: Instant::from_micros(self.mono),
            wall: self.wall.map(Wall::from_micros),
            entropy,
        }
    }

    fn read(&mut self, clock: &Reading, wall: &WallReading) {
        let before = self.mono;
        self.mono = match clock {
            Reading::Same => before,
            Reading::Later(micros) => before.saturating_add((*micros).into()),
            Reading::Due(off) => {
                self.wake_at.unwrap_or(before).saturating_add_signed((*off).into()).max(before)
            }
            Reading::Back(micros) => before.saturating_sub((*micros).into()),
            Reading::Any(micros) => *micros,
        };
        let passed = self.mono.saturating_sub(before);
        self.store_time = self.store_time.saturating_add(passed);
        let along = self.wall.map(|wall| wall.saturating_add(passed));
        self.wall = match wall {
            WallReading::Along => along,
            WallReading::Leaps(by) => along.map(|wall| wall.saturating_add((*by).into())),
            WallReading::Back(by) => along.map(|wall| wall.saturating_sub((*by).into())),
            WallReading::Gone => None,
            WallReading::Any(micros) => Some(*micros),
        };
        self.sane &= self.mono >= before && matches!(wall, WallReading::Along);
        self.ended |= self.mono > NEAR_THE_END || self.wall.is_some_and(|wall| wall > NEAR_THE_END);
    }

    fn version(&self, which: &Which) -> Version {
        match which {
            Which::None => Version::NONE,
            Which::Sent(back) => {
                let newest_first = self.sent.iter().rev().nth(usize::from(*back) % 8);
                newest_first.copied().unwrap_or(Version::NONE)
            }
            Which::Any(bits) => Version::from_bits((*bits).into()),
        }
    }

    fn identity(&self, which: &Which) -> Identity {
        Identity(self.version(which).to_bits())
    }

    fn record(&self, shown: &Shown) -> Record {
        let span = Span::from_micros(shown.first);
        let wall = Wall::from_micros(shown.second);
        Record {
            holder: [Holder::Nobody, Holder::Us, Holder::OfferedToUs, Holder::Other]
                [usize::from(shown.holder % 4)],
            version: self.version(&shown.version),
            identity: self.identity(&shown.identity),
            fence: shown.fence.map(Fence),
            term: match shown.term % 7 {
                0 => Term::Over,
                1 => Term::Observed { ttl: span },
                2 => Term::Bounded {
                    ttl: span,
                    expires_at: wall,
                    max_clock_skew: Span::from_micros(shown.second),
                },
                3 => Term::WallOnly { expires_at: wall },
                4 => Term::Resting { rest: span, not_before: Some(wall) },
                5 => Term::Remaining { left: Some(span) },
                _ => Term::Remaining { left: None },
            },
        }
    }

    fn handle(&mut self, now: Now, input: Input) {
        let awaited = self.lease.awaited();
        let before = self.lease.state();
        let output = self.lease.handle(now, input);
        assert_eq!(output, self.twin.handle(now, input), "the same inputs, another output");
        self.check(&now, &input, before, awaited, &output);
        self.wake_at = output.wake_at.map(Instant::as_micros);
        if let Some(call) = output.call {
            self.note(&call);
        }
    }

    fn check(
        &self,
        now: &Now,
        input: &Input,
        before: State,
        awaited: Option<CallId>,
        output: &Output,
    ) {
        let state = self.lease.state();
        let ends_the_awaited = matches!(input, Input::Completed { id, .. } if Some(*id) == awaited);
        match output.call {
            Some(call) => {
                assert_eq!(self.lease.awaited(), Some(call.id));
                assert_ne!(awaited, Some(call.id), "a call that was made before");
                assert!(call.give_up_at >= now.mono, "given up before it is made");
                assert_eq!(call.wall, now.wall);
                let in_time = self.last.is_some_and(|last| now.mono < last.give_up_at);
                if awaited.is_some() && !ends_the_awaited && self.sane && in_time {
                    panic!("two calls at once");
                }
            }
            None if ends_the_awaited => assert_eq!(self.lease.awaited(), None),
            None => assert!(self.lease.awaited().is_none() || self.lease.awaited() == awaited),
        }
        if let Some(wake_at) = output.wake_at {
            assert!(wake_at >= now.mono, "due before now");
        }
        let is_under_way = self.lease.awaited().is_some() || state != State::Idle;
        assert!(!is_under_way || output.wake_at.is_some() || self.ended, "nothing to wait for");
        match output.event {
            Some(Event::Acquired { grant, .. }) => {
                let proof = matches!(
                    input,
                    Input::Completed {
                        outcome: Outcome::Applied { .. }
                            | Outcome::Refused { current: Some(_) }
                            | Outcome::Found { .. },
                        ..
                    }
                );
                assert!(proof && ends_the_awaited, "a grant out of nowhere");
                assert_eq!((before, state), (State::Acquiring, State::Held));
                assert!(grant.valid_for > Span::ZERO);
            }
            Some(Event::Renewed { grant }) => {
                assert_eq!((before, state), (State::Held, State::Held));
                assert!(ends_the_awaited && grant.valid_for > Span::ZERO);
            }
            Some(Event::AtRisk { .. }) => assert_eq!(state, State::Held),
            Some(Event::Lost { .. }) => assert_ne!(state, State::Held),
            Some(Event::Busy { .. } | Event::Failed { .. } | Event::Cancelled) => {
                // It may have been asked for only now, while another try was being undone.
                assert_ne!(before, State::Held);
                assert_ne!(state, State::Acquiring);
            }
            _ => {}
        }
        let acquired = matches!(output.event, Some(Event::Acquired { .. }));
        assert!(state != State::Held || before == State::Held || acquired, "held without a word");
        // A question changes nothing but the clock, so a copy may be asked.
        let grant = self.lease.clone().grant(*now);
        assert!(grant.is_none() || state == State::Held, "valid, and not held");
        if let Some(Event::Acquired { grant: told, .. } | Event::Renewed { grant: told }) =
            output.event
        {
            // A call that shortens the lease does so when it is made.
            let grant = grant.expect("told, and not valid");
            let shortened = output.call.is_some() && grant.valid_for < told.valid_for;
            assert!(grant == told || shortened && grant.fence == told.fence);
        }
    }

    fn note(&mut self, call: &Call) {
        self.last = Some(*call);
        self.sane = true;
        match call.kind {
            CallKind::Acquire { attempt, .. } | CallKind::Takeover { attempt, .. } => {
                self.sent.push(attempt);
            }
            CallKind::Renew { attempt, ours, .. } | CallKind::HandOver { attempt, ours, .. } => {
                assert!(!ours.as_slice().is_empty(), "a condition that names nothing");
                self.sent.push(attempt);
            }
            CallKind::Release { ours, .. } => {
                assert!(!ours.as_slice().is_empty(), "a condition that names nothing");
            }
            CallKind::Read { .. } => {}
        }
        let texts = Texts { name: "report", holder: "web/1", successor: Some("web/2") };
        let row = RowTexts { version: Some("v"), ..RowTexts::default() };
        let request = dynamodb::lower(&Schema::lease(), &texts, Some(row), call);
        assert!(request.is_some() || call.wall.is_none(), "cannot be put");
        for fence in [true, false] {
            let redis = Redis::new(fence);
            let tried = Tried::default();
            assert!(redis.lower(&texts, "f", Some(b"v"), call, tried, false).is_some());
        }
    }

    fn carry_out(&mut self) -> Option<(CallId, Outcome)> {
        let call = self.last?;
        let at = Instant::from_micros(self.store_time);
        Some((call.id, self.row.carry_out(1, Some(2), &call, at)))
    }

    fn step(&mut self, step: &Stepped) {
        self.read(&step.clock, &step.wall);
        let now = self.now(step.entropy);
        let input = match &step.action {
            Action::Acquire(None) => Input::Acquire { wait: Wait::Forever },
            Action::Acquire(Some(0)) => Input::Acquire { wait: Wait::No },
            Action::Acquire(Some(micros)) => {
                Input::Acquire { wait: Wait::For(Span::from_micros((*micros).into())) }
            }
            Action::Renew => Input::Renew { terms: None },
            Action::RenewFor(ms) => {
                let ttl = ms.map_or(Ttl::Forever, |ms| Ttl::For(Span::from_millis(ms.into())));
                let Ok(terms) = self.lease.config().terms(ttl) else { return };
                Input::Renew { terms: Some(terms) }
            }
            Action::Release => Input::Release,
            Action::Cancel => Input::Cancel,
            Action::HandOver => Input::HandOver,
            Action::Wake => Input::Wake,
            Action::Tick => Input::Tick,
            Action::Ask => {
                let grant = self.lease.grant(now);
                assert_eq!(grant, self.twin.grant(now));
                return;
            }
            Action::Observe(evidence) => Input::Observe {
                observation: Observation {
                    identity: self.identity(&evidence.identity),
                    ttl: Span::from_micros(evidence.ttl),
                    proven_for: Span::from_micros(evidence.proven_for),
                    clock: evidence.clock.then_some(ClockId(1)),
                    mono: Instant::from_micros(evidence.mono),
                    wall: evidence.wall.map(Wall::from_micros),
                },
            },
            Action::Export => {
                let observation = self.lease.observation(now);
                assert_eq!(observation, self.twin.observation(now));
                let Some(observation) = observation else { return };
                Input::Observe { observation }
            }
            Action::Break(which) => Input::Break { seen: self.identity(which) },
            Action::Answer => {
                let Some((id, outcome)) = self.carry_out() else { return };
                Input::Completed { id, outcome }
            }
            Action::Lose => {
                let Some((id, _)) = self.carry_out() else { return };
                Input::Completed { id, outcome: Outcome::Unknown }
            }
            Action::Meddle(meddling) => {
                match meddling {
                    Meddling::Clear => self.row.clear(),
                    Meddling::PassTime(micros) => {
                        self.store_time = self.store_time.saturating_add((*micros).into());
                    }
                    Meddling::Takes => {
                        let terms = self.lease.config().first_terms();
                        let attempt = Version::from_bits(now.entropy | 1 << 127);
                        let kind = CallKind::Acquire { attempt, terms };
                        let call =
                            Call { id: CallId(0), kind, wall: now.wall, give_up_at: now.mono };
                        self.row.clear();
                        let _ = self.row.carry_out(
                            9,
                            None,
                            &call,
                            Instant::from_micros(self.store_time),
                        );
                    }
                }
                return;
            }
            Action::Complete(to, ending) => {
                let last = self.last.map_or(CallId(0), |call| call.id);
                let id = match to {
                    To::Awaited => self.lease.awaited().unwrap_or(last),
                    To::Last => last,
                    To::Any(id) => CallId(*id),
                };
                let outcome = match ending {
                    Ending::Applied(fence) => Outcome::Applied { fence: fence.map(Fence) },
                    Ending::RefusedUnseen => Outcome::Refused { current: None },
                    Ending::Refused(shown) => {
                        Outcome::Refused { current: Some(self.record(shown)) }
                    }
                    Ending::Found(shown) => Outcome::Found { record: self.record(shown) },
                    Ending::Unknown => Outcome::Unknown,
                    Ending::Unavailable => Outcome::Unavailable,
                    Ending::Denied => Outcome::Denied,
                };
                Input::Completed { id, outcome }
            }
        };
        self.handle(now, input);
    }
}

fuzz_target!(|case: Case| {
    let Some(config) = case.settings.config() else { return };
    let ends =
        if config.settings().expiry == Expiry::Store { Ends::ByStore } else { Ends::ByContenders };
    let (mono, wall) = case.start;
    let mut world = World {
        lease: Lease::new(config),
        twin: Lease::new(config),
        row: Row::new(ends, 0),
        store_time: 0,
        mono,
        wall,
        wake_at: None,
        sent: Vec::new(),
        last: None,
        sane: true,
        ended: mono > NEAR_THE_END || wall.is_some_and(|wall| wall > NEAR_THE_END),
        turns: 0,
    };
    for step in &case.steps {
        world.step(step);
    }
});
