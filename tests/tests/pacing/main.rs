//! Stories of when and how often: when a lease wakes, how long it backs off, what it tells of the time
//! that is left, and which of several reasons it gives.

mod after_the_end;
mod backing_off;
mod elsewhere;
mod going_on;
mod looking_again;
mod ours;
mod reasons;
mod time_left;
mod waking;

use tenure_core::config::{Expiry, Settings, Ttl, Versions};
use tenure_core::io::{
    BusyBecause, CallKind, Event, Failure, Input, LostReason, OurVersions, Outcome, Wait,
};
use tenure_core::lease::State;
use tenure_core::memory::Ends;
use tenure_core::record::{ClockId, Holder, Identity, Observation, Record, Term, Version};
use tenure_core::time::{Instant, Now, Span, Wall};
use tenure_tests::bench::{Bench, Contender, Ms, TTL};

const OBSERVED: Expiry = Expiry::Observed;
/// Of the ttl of a story: 1,000 ms × 2 × 1 % + 2 ms.
const MARGIN: Ms = 22;
/// How long a grant of that ttl is valid.
const VALID: Ms = TTL - MARGIN;
/// A tenth of that ttl.
const POLL: Ms = 100;
const LEAST_LUCK: u16 = 0;
const MOST_LUCK: u16 = u16::MAX;

/// A contender whose clocks are read to the microsecond, and whose random bits are chosen.
struct Exact {
    who: Contender,
    micros: u64,
    luck: u16,
    drawn: u128,
    /// When it wants to be ticked, from now.
    wakes_in: Option<Span>,
}

impl Exact {
    fn new(settings: Settings) -> Self {
        let who = Contender::with(1, settings);
        Self { who, micros: 0, luck: LEAST_LUCK, drawn: 0, wakes_in: None }
    }

    fn lasting_a_ttl(expiry: Expiry) -> Self {
        Self::new(settings(expiry))
    }

    fn now(&mut self) -> Now {
        self.drawn += 1;
        Now {
            mono: Instant::from_micros(self.micros),
            wall: Some(Wall::from_micros(1_000_000_000 + self.micros)),
            entropy: self.drawn << 16 | u128::from(self.luck),
        }
    }

    fn input(&mut self, input: Input) -> Option<Event> {
        let now = self.now();
        let output = self.who.lease.handle(now, input);
        self.who.call = output.call.or(self.who.call);
        self.who.events.extend(output.event);
        self.wakes_in = output.wake_at.map(|at| at.since(now.mono));
        output.event
    }

    fn tick(&mut self) -> Option<Event> {
        self.input(Input::Tick)
    }

    fn tell(&mut self, outcome: Outcome) -> Option<Event> {
        let id = self.who.call.take().expect("no call waits").id;
        self.input(Input::Completed { id, outcome })
    }

    /// Sleeps as long as it may.
    fn sleep(&mut self) -> Span {
        let wakes_in = self.wakes_in.expect("it wants to be woken");
        self.micros += wakes_in.as_micros();
        self.tick();
        wakes_in
    }

    fn hold(&mut self) {
        self.input(acquire(Wait::Forever));
        let event = self.tell(Outcome::Applied { fence: None });
        assert!(matches!(event, Some(Event::Acquired { .. })));
    }

    /// Holds, and has just sent the renewal that is due.
    fn renew(&mut self) {
        self.hold();
        self.sleep();
        assert!(matches!(self.who.asks(), CallKind::Renew { .. }));
    }

    fn renews(&self) -> bool {
        self.who.call.is_some_and(|call| matches!(call.kind, CallKind::Renew { .. }))
    }

    /// Meets this record when it asks for the name.
    fn meets(&mut self, wait: Wait, record: Record) -> Option<Event> {
        self.input(acquire(wait));
        self.tell(Outcome::Refused { current: Some(record) })
    }
}

fn settings(expiry: Expiry) -> Settings {
    Settings::new(Ttl::For(ms(TTL)), expiry)
}

const fn ms(millis: Ms) -> Span {
    Span::from_millis(millis)
}

const fn micros(micros: u64) -> Span {
    Span::from_micros(micros)
}

fn acquire(wait: Wait) -> Input {
    Input::Acquire { wait }
}

fn another(term: Term) -> Record {
    let version = Version::from_bits(0xb0b);
    Record { holder: Holder::Other, version, identity: Identity(0xb0b), fence: None, term }
}

fn held_by_another() -> Record {
    another(Term::Observed { ttl: ms(TTL) })
}

fn retry_after(event: Option<Event>) -> Option<Span> {
    match event {
        Some(Event::Busy { retry_after, .. } | Event::Waiting { retry_after }) => retry_after,
        other => panic!("{other:?}"),
    }
}

fn observed_elsewhere(proven_for: Span, clock: Option<ClockId>, mono: u64) -> Input {
    let identity = held_by_another().identity;
    let (ttl, mono) = (ms(TTL), Instant::from_micros(mono));
    Input::Observe {
        observation: Observation { identity, ttl, proven_for, clock, mono, wall: None },
    }
}

/// After what it was told, how long must it still wait?
fn still_to_wait(a: &mut Exact) -> Ms {
    let left = retry_after(a.meets(Wait::No, held_by_another())).expect("an end is known");
    left.as_millis_up() - 1
}
