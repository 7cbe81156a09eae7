//! Stories of when and how often: when a lease wakes, how long it backs off, what it tells of the time
//! that is left, and which of several reasons it gives.

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

// When a holder wakes.

#[test]
fn a_renewal_is_due_a_third_of_the_ttl_after_the_last_write_was_sent_and_not_answered() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.input(acquire(Wait::No));
    a.micros += 100_000;
    a.tell(Outcome::Applied { fence: None });
    assert_eq!(a.wakes_in, Some(micros(333_333 - 100_000)));
    a.sleep();
    assert!(a.renews());
    a.micros += 50_000;
    a.tell(Outcome::Applied { fence: None });
    assert_eq!(a.wakes_in, Some(micros(333_333 - 50_000)));
}

#[test]
fn a_renewal_comes_at_its_time_and_not_a_microsecond_before_it() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.hold();
    a.micros += 333_332;
    a.tick();
    assert!(!a.renews());
    a.micros += 1;
    a.tick();
    assert!(a.renews());
}

#[test]
fn an_application_that_asks_for_a_renewal_gets_it_at_once() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.hold();
    a.micros += 1_000;
    a.input(Input::Renew { terms: None });
    assert!(a.renews());
    a.tell(Outcome::Applied { fence: None });
    assert!(!a.renews(), "once");
    assert_eq!(a.wakes_in, Some(micros(333_333)));
}

#[test]
fn an_application_that_asks_for_a_renewal_hears_of_it_even_if_its_reply_was_that_of_a_copy() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.hold();
    a.input(Input::Renew { terms: None });
    let CallKind::Renew { attempt, .. } = a.who.asks() else { panic!("{:?}", a.who.asks()) };
    let ours = Record { holder: Holder::Us, version: attempt, ..held_by_another() };
    assert_eq!(a.tell(Outcome::Refused { current: Some(ours) }), None);
    assert!(a.renews(), "at once");
    assert!(matches!(a.tell(Outcome::Applied { fence: None }), Some(Event::Renewed { .. })));
}

#[test]
fn asking_again_and_again_does_not_hasten_a_renewal_that_just_failed() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.renew();
    a.tell(Outcome::Unavailable);
    for _ in 0..3 {
        a.input(Input::Renew { terms: None });
        assert!(!a.renews());
    }
    a.sleep();
    assert!(a.renews());
}

#[test]
fn terms_that_were_asked_for_last_until_the_lease_ends_and_no_longer() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.hold();
    let terms = a.who.lease.config().terms(Ttl::For(ms(2 * TTL))).ok();
    let ttl = |a: &Exact| match a.who.asks() {
        CallKind::Renew { terms, .. } | CallKind::Acquire { terms, .. } => terms.ttl(),
        other => panic!("{other:?}"),
    };
    a.input(Input::Renew { terms });
    assert_eq!(ttl(&a), ms(2 * TTL));
    a.tell(Outcome::Applied { fence: None });
    assert_eq!(a.sleep(), micros(666_666), "a third of the new ttl");
    assert_eq!(ttl(&a), ms(2 * TTL));
    a.tell(Outcome::Applied { fence: None });
    a.input(Input::Release);
    a.tell(Outcome::Applied { fence: None });
    a.hold();
    a.sleep();
    assert_eq!(ttl(&a), ms(TTL));
}

#[test]
fn terms_that_are_asked_for_while_a_renewal_is_under_way_are_sent_after_it() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.renew();
    let terms = a.who.lease.config().terms(Ttl::For(ms(2 * TTL))).ok();
    a.input(Input::Renew { terms });
    a.tell(Outcome::Applied { fence: None });
    let CallKind::Renew { terms, .. } = a.who.asks() else { panic!("{:?}", a.who.asks()) };
    assert_eq!(terms.ttl(), ms(2 * TTL));
}

#[test]
fn a_holder_is_at_risk_when_a_quarter_of_the_ttl_is_left_and_is_told_so_once() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.renew();
    a.micros = (VALID - TTL / 4) * 1_000 - 1;
    assert_eq!(a.tick(), None);
    a.micros += 1;
    assert_eq!(a.tick(), Some(Event::AtRisk { valid_for: ms(TTL / 4) }));
    a.micros += 1;
    assert_eq!(a.tick(), None);
}

#[test]
fn a_holder_is_woken_to_be_told_that_it_is_at_risk_and_then_that_it_lost() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.renew();
    let give_up = micros(333_333);
    assert_eq!(a.wakes_in, Some(give_up), "when the call is given up");
    a.sleep();
    assert!(a.renews(), "which is sent again");
    assert_eq!(a.wakes_in, Some(micros((VALID - TTL / 4) * 1_000 - a.micros)));
    a.sleep();
    assert!(matches!(a.who.last(), Some(Event::AtRisk { .. })));
    while !matches!(a.who.last(), Some(Event::Lost { .. })) {
        assert!(a.micros < VALID * 1_000);
        a.sleep();
    }
    assert_eq!(a.micros, VALID * 1_000);
}

#[test]
fn a_renewal_that_came_through_after_a_warning_makes_the_next_warning_news() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.renew();
    a.micros = (VALID - TTL / 4) * 1_000;
    assert!(matches!(a.tick(), Some(Event::AtRisk { .. })));
    // Given up by now, and sent again.
    assert!(matches!(a.tell(Outcome::Applied { fence: None }), Some(Event::Renewed { .. })));
    a.sleep();
    a.micros += (VALID - TTL / 4) * 1_000 - 333_333;
    assert!(matches!(a.tick(), Some(Event::AtRisk { .. })));
}

#[test]
fn a_lock_is_neither_renewed_nor_at_risk_but_looked_at_every_second() {
    for (poll, every) in [(None, 1_000), (Some(ms(300)), 300)] {
        let settings = Settings { poll_interval: poll, ..Settings::new(Ttl::Forever, OBSERVED) };
        let mut a = Exact::new(settings);
        a.hold();
        assert!(a.renews(), "it is acquired as a lease");
        let CallKind::Renew { attempt, .. } = a.who.asks() else { panic!() };
        a.tell(Outcome::Applied { fence: None });
        let ours = Record {
            holder: Holder::Us,
            version: attempt,
            identity: Identity(1),
            fence: None,
            term: Term::Observed { ttl: Span::FOREVER },
        };
        for _ in 0..5 {
            assert_eq!(a.sleep(), ms(every));
            assert_eq!(a.who.asks(), CallKind::Read { consistent: true });
            assert_eq!(a.tell(Outcome::Found { record: ours }), None);
        }
        // A look that got no answer is repeated soon.
        a.sleep();
        a.tell(Outcome::Unavailable);
        assert_eq!(a.wakes_in, Some(ms(5)));
        a.sleep();
        a.tell(Outcome::Found { record: ours });
        assert_eq!(a.sleep(), ms(every));
        a.tell(Outcome::Unavailable);
        assert_eq!(a.wakes_in, Some(ms(5)), "one answer makes up for what failed before it");
    }
}

#[test]
fn what_was_asked_of_a_lock_and_got_no_answer_is_asked_again_and_not_merely_looked_at() {
    let mut a = Exact::new(Settings::new(Ttl::Forever, OBSERVED));
    a.hold();
    a.tell(Outcome::Unavailable);
    a.sleep();
    assert!(a.renews(), "it is a lease yet");
    a.tell(Outcome::Applied { fence: None });
    let terms = a.who.lease.config().terms(Ttl::For(ms(TTL))).ok();
    a.input(Input::Renew { terms });
    a.tell(Outcome::Unavailable);
    a.sleep();
    assert!(a.renews(), "it is to be a lease again");
}

#[test]
fn the_quarter_that_puts_a_holder_at_risk_is_of_the_ttl_that_it_renewed_with() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.hold();
    let terms = a.who.lease.config().terms(Ttl::For(ms(2 * TTL))).expect("these terms work");
    a.input(Input::Renew { terms: Some(terms) });
    a.tell(Outcome::Applied { fence: None });
    a.sleep();
    let at_risk = terms.valid_for().minus(ms(2 * TTL).part(4));
    a.micros = at_risk.as_micros() - 1;
    assert_eq!(a.tick(), None);
    a.micros += 1;
    assert_eq!(a.tick(), Some(Event::AtRisk { valid_for: ms(TTL / 2) }));
}

#[test]
fn whoever_has_nothing_to_do_sleeps_for_ever() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.tick();
    assert_eq!(a.wakes_in, None);
    a.hold();
    a.input(Input::Release);
    a.tell(Outcome::Applied { fence: None });
    assert_eq!(a.who.lease.state(), State::Idle);
    assert_eq!(a.wakes_in, None);
}

#[test]
fn one_call_is_awaited_from_its_sending_to_its_end() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    assert_eq!(a.who.lease.awaited(), None);
    a.input(acquire(Wait::No));
    assert_eq!(a.who.lease.awaited(), a.who.call.map(|call| call.id));
    a.tell(Outcome::Applied { fence: None });
    assert_eq!(a.who.lease.awaited(), None);
}

#[test]
fn a_call_is_given_up_after_its_timeout_and_that_of_a_holder_at_its_deadline_at_the_latest() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.renew();
    let give_up_in =
        |a: &Exact| a.who.call.expect("it renews").give_up_at.since(Instant::from_micros(a.micros));
    assert_eq!(give_up_in(&a), micros(333_333));
    a.micros = 900_000;
    a.tick();
    a.tick();
    assert!(a.renews());
    assert_eq!(give_up_in(&a), ms(VALID - 900));
}

// How long it backs off.

#[test]
fn after_a_refusal_to_answer_pauses_double_from_ten_milliseconds_to_one_poll_half_of_it_by_chance()
{
    for (luck, shortest) in [(LEAST_LUCK, true), (MOST_LUCK, false)] {
        let mut a = Exact::lasting_a_ttl(OBSERVED);
        a.luck = luck;
        a.input(acquire(Wait::Forever));
        for most in [10, 20, 40, 80, POLL, POLL, POLL] {
            a.tell(Outcome::Unavailable);
            let pause = a.sleep();
            if shortest {
                assert_eq!(pause, ms(most).part(2));
            } else {
                assert!(pause < ms(most) && pause > ms(most).part(100).times(99), "{pause:?}");
            }
        }
    }
}

#[test]
fn what_got_no_reply_is_sent_again_at_once_and_only_then_with_pauses() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.input(acquire(Wait::Forever));
    a.tell(Outcome::Unknown);
    assert!(a.who.call.is_some(), "mostly it is the reply that was lost");
    for most in [10, 20, 40] {
        a.tell(Outcome::Unknown);
        assert_eq!(a.sleep(), ms(most).part(2));
    }
}

#[test]
fn a_renewal_without_a_reply_is_sent_again_at_once_and_a_refused_one_after_a_pause() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.renew();
    a.tell(Outcome::Unknown);
    assert!(a.renews());
    for most in [10, 20, 40] {
        a.tell(Outcome::Unknown);
        assert_eq!(a.sleep(), ms(most).part(2));
    }
    for refusal in [Outcome::Unavailable, Outcome::Denied] {
        let mut b = Exact::lasting_a_ttl(OBSERVED);
        b.renew();
        for most in [10, 20, 40] {
            b.tell(refusal);
            assert_eq!(b.sleep(), ms(most).part(2));
        }
    }
}

#[test]
fn a_renewal_that_came_through_makes_up_for_those_that_failed() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.renew();
    for _ in 0..4 {
        a.tell(Outcome::Unavailable);
        a.sleep();
    }
    a.tell(Outcome::Applied { fence: None });
    a.sleep();
    a.tell(Outcome::Unavailable);
    assert_eq!(a.wakes_in, Some(ms(5)));
}

#[test]
fn a_holder_whose_time_runs_out_waits_for_a_quarter_of_it_at_most() {
    let settings = Settings { poll_interval: Some(ms(TTL)), ..settings(OBSERVED) };
    let mut a = Exact::new(settings);
    a.luck = MOST_LUCK;
    a.renew();
    let mut shortened = 0;
    while !matches!(a.who.last(), Some(Event::Lost { .. })) {
        if a.who.call.is_some() {
            a.tell(Outcome::Unavailable);
        }
        let left = micros(VALID * 1_000 - a.micros);
        let most = left.part(4).max(ms(5)).min(left);
        let wakes_in = a.wakes_in.expect("it goes on");
        assert!(wakes_in <= most, "{wakes_in:?} of {left:?}");
        shortened += u32::from(wakes_in == left.part(4));
        a.sleep();
    }
    assert!(shortened > 3);
    assert_eq!(a.micros, VALID * 1_000);
    assert!(matches!(a.who.last(), Some(Event::Lost { reason: LostReason::Unreachable, .. })));
}

#[test]
fn a_release_without_a_reply_is_sent_again_at_once_and_a_refused_one_after_a_pause() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.hold();
    a.input(Input::Release);
    a.tell(Outcome::Unknown);
    assert!(a.who.call.is_some());
    for most in [10, 20, 40] {
        a.tell(Outcome::Unknown);
        assert_eq!(a.sleep(), ms(most).part(2));
    }
    let mut b = Exact::lasting_a_ttl(OBSERVED);
    b.hold();
    b.input(Input::Release);
    for most in [10, 20, 40] {
        b.tell(Outcome::Unavailable);
        assert_eq!(b.sleep(), ms(most).part(2));
    }
}

#[test]
fn a_release_that_is_refused_by_the_very_record_that_it_names_is_repeated_with_pauses() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.hold();
    a.input(Input::Release);
    let CallKind::Release { ours, .. } = a.who.asks() else { panic!("{:?}", a.who.asks()) };
    let version = ours.as_slice()[0];
    let record = Record { holder: Holder::Us, version, ..held_by_another() };
    for most in [10, 20, 40] {
        assert_eq!(a.tell(Outcome::Refused { current: Some(record) }), None);
        assert_eq!(a.sleep(), ms(most).part(2));
        assert!(matches!(a.who.asks(), CallKind::Release { .. }));
    }
}

#[test]
fn a_store_that_refuses_although_nobody_is_in_the_way_is_asked_five_times_and_not_for_ever() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.input(acquire(Wait::No));
    for pause in [0, 5, 10, 20] {
        let event = a.tell(Outcome::Refused { current: Some(Record::FREE) });
        assert_eq!(event, None);
        if pause > 0 {
            assert_eq!(a.sleep(), ms(pause));
        }
        assert!(matches!(a.who.asks(), CallKind::Acquire { .. }));
    }
    let event = a.tell(Outcome::Refused { current: Some(Record::FREE) });
    assert_eq!(event, Some(Event::Failed { failure: Failure::Unavailable }));
}

// How long an acquire goes on.

#[test]
fn a_wait_ends_when_it_was_said_to_and_the_contender_is_woken_for_it() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.meets(Wait::For(ms(30)), held_by_another());
    assert_eq!(a.wakes_in, Some(ms(30)), "sooner than its next look");
    a.micros += 29_999;
    assert_eq!(a.tick(), None);
    a.micros += 1;
    assert!(matches!(a.tick(), Some(Event::Busy { because: BusyBecause::Held, .. })));
    assert_eq!(a.who.lease.state(), State::Idle);
}

#[test]
fn an_acquire_without_any_reply_has_two_timeouts_more_than_it_was_told_to_wait() {
    let wait = Wait::For(ms(100));
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.input(acquire(wait));
    a.tell(Outcome::Unknown);
    let patience = 100_000 + 2 * 333_333;
    a.micros += patience - 1;
    assert_eq!(a.tell(Outcome::Unknown), None);
    a.micros += 1;
    assert_eq!(a.tick(), Some(Event::Failed { failure: Failure::Unknown }));
}

#[test]
fn an_acquire_that_a_store_turns_away_ends_when_it_was_said_to() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.input(acquire(Wait::For(ms(3))));
    assert_eq!(a.tell(Outcome::Unavailable), None);
    assert_eq!(a.wakes_in, Some(ms(3)), "sooner than its next try");
    a.micros += 3_000;
    assert_eq!(a.tick(), Some(Event::Failed { failure: Failure::Unavailable }));
}

#[test]
fn an_acquire_whose_time_is_over_still_gets_the_answer_that_is_on_its_way() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.meets(Wait::For(ms(60)), held_by_another());
    a.sleep();
    assert_eq!(a.who.asks(), CallKind::Read { consistent: false });
    a.micros += 20_000;
    assert_eq!(a.tick(), None);
    let event = a.tell(Outcome::Found { record: held_by_another() });
    assert!(matches!(event, Some(Event::Busy { .. })));
}

#[test]
fn a_wake_up_is_followed_by_a_try_at_once() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.meets(Wait::Forever, held_by_another());
    assert!(a.who.call.is_none());
    a.input(Input::Wake);
    assert!(matches!(a.who.asks(), CallKind::Acquire { .. }), "not a mere look");
}

#[test]
fn a_record_in_the_way_is_told_once_and_the_next_one_again() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    assert!(matches!(a.meets(Wait::Forever, held_by_another()), Some(Event::Waiting { .. })));
    a.sleep();
    assert_eq!(a.tell(Outcome::Found { record: held_by_another() }), None);
    a.sleep();
    let renewed = Record { identity: Identity(2), ..held_by_another() };
    assert!(matches!(a.tell(Outcome::Found { record: renewed }), Some(Event::Waiting { .. })));
}

#[test]
fn p3_a_record_of_ours_that_is_found_when_its_grant_would_be_over_is_no_grant() {
    let patient = Settings { call_timeout: Some(ms(5 * TTL)), ..settings(OBSERVED) };
    for (after, granted) in [(VALID * 1_000 - 1, true), (VALID * 1_000, false)] {
        let mut a = Exact::new(patient);
        a.input(acquire(Wait::No));
        let CallKind::Acquire { attempt, .. } = a.who.asks() else { panic!() };
        a.micros += after;
        let ours = Record { holder: Holder::Us, version: attempt, ..held_by_another() };
        let event = a.tell(Outcome::Refused { current: Some(ours) });
        if granted {
            assert!(matches!(event, Some(Event::Acquired { .. })));
        } else {
            assert_eq!(event, Some(Event::Failed { failure: Failure::Unavailable }));
            assert_eq!(a.who.lease.state(), State::Releasing, "it is given back");
        }
    }
}

// When it looks again.

#[test]
fn contenders_that_saw_one_record_come_back_within_a_poll_and_not_in_step() {
    let pause = |luck| {
        let mut a = Exact::lasting_a_ttl(OBSERVED);
        a.luck = luck;
        a.meets(Wait::Forever, held_by_another());
        a.sleep()
    };
    assert_eq!(pause(LEAST_LUCK), ms(POLL / 2));
    assert_eq!(pause(u16::MAX / 2 + 1), ms(POLL * 3 / 4));
    assert!(pause(MOST_LUCK) < ms(POLL) && pause(MOST_LUCK) > ms(POLL - 1));
}

#[test]
fn when_a_record_ends_within_a_poll_its_contenders_write_then_and_not_in_step() {
    let pause = |luck, left| {
        let mut a = Exact::lasting_a_ttl(Expiry::Store);
        a.luck = luck;
        a.meets(Wait::Forever, another(Term::Remaining { left: Some(left) }));
        let pause = a.sleep();
        assert!(matches!(a.who.asks(), CallKind::Acquire { .. }));
        pause
    };
    assert_eq!(pause(LEAST_LUCK, ms(70)), ms(70));
    assert!(pause(MOST_LUCK, ms(70)) < micros(82_500));
    assert!(pause(MOST_LUCK, ms(70)) > micros(82_400));
    assert_eq!(pause(LEAST_LUCK, ms(POLL)), ms(POLL), "within, not after it");
    assert_eq!(pause(LEAST_LUCK, ms(POLL + 1)), ms(POLL / 2));
    assert_eq!(pause(LEAST_LUCK, Span::ZERO), ms(1), "never in a hot loop");
}

#[test]
fn a_contender_reads_while_nothing_can_have_changed_and_writes_when_it_may() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.meets(Wait::Forever, held_by_another());
    let mut reads = 0;
    loop {
        a.sleep();
        match a.who.asks() {
            CallKind::Read { consistent: false } => reads += 1,
            CallKind::Takeover { .. } => break,
            other => panic!("{other:?}"),
        }
        a.tell(Outcome::Found { record: held_by_another() });
    }
    assert_eq!(a.micros, (TTL + MARGIN) * 1_000 + 1);
    assert_eq!(reads, 19, "each half a poll after the other, with the least luck");
}

#[test]
fn a_record_is_taken_a_microsecond_after_its_ttl_and_the_margin_and_not_before() {
    for (waited, takes) in
        [(TTL + MARGIN) * 1_000, (TTL + MARGIN) * 1_000 + 1].into_iter().zip([false, true])
    {
        let mut a = Exact::lasting_a_ttl(OBSERVED);
        a.meets(Wait::No, held_by_another());
        a.micros += waited;
        a.input(acquire(Wait::No));
        assert_eq!(matches!(a.who.asks(), CallKind::Takeover { .. }), takes);
    }
}

// What it tells of the time that is left.

#[test]
fn what_is_observed_may_change_after_the_ttl_and_the_margin_from_when_it_was_first_seen() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    let event = a.meets(Wait::No, held_by_another());
    assert_eq!(retry_after(event), Some(micros((TTL + MARGIN) * 1_000 + 1)));
    a.micros += 400_000;
    let event = a.meets(Wait::No, held_by_another());
    assert_eq!(retry_after(event), Some(micros((TTL + MARGIN - 400) * 1_000 + 1)));
}

#[test]
fn what_the_store_ends_may_change_when_the_store_says() {
    let mut a = Exact::lasting_a_ttl(Expiry::Store);
    let left = Some(ms(700));
    assert_eq!(retry_after(a.meets(Wait::No, another(Term::Remaining { left }))), left);
    let event = a.meets(Wait::No, another(Term::Remaining { left: None }));
    assert_eq!(retry_after(event), None, "a lock");
    // Time that passes while it waits is counted from the reading.
    a.meets(Wait::For(ms(40)), another(Term::Remaining { left: Some(ms(300)) }));
    a.sleep();
    assert_eq!(retry_after(a.who.last()), Some(ms(260)));
}

#[test]
fn a_lock_of_another_ends_by_no_clock() {
    for term in [
        Term::Observed { ttl: Span::FOREVER },
        Term::Bounded {
            ttl: Span::FOREVER,
            expires_at: Wall::from_micros(u64::MAX),
            max_clock_skew: ms(50),
        },
        Term::Bounded {
            ttl: Span::FOREVER,
            expires_at: Wall::from_micros(0),
            max_clock_skew: ms(50),
        },
    ] {
        let mut a = Exact::lasting_a_ttl(Expiry::Bounded { max_clock_skew: ms(100) });
        assert_eq!(retry_after(a.meets(Wait::No, another(term))), None);
        a.micros += 1_000_000_000_000;
        assert_eq!(retry_after(a.meets(Wait::No, another(term))), None);
    }
}

#[test]
fn a_bound_shortens_what_is_told_where_it_ends_sooner_than_patience() {
    let expires_in = |left: Ms, theirs: Ms| Term::Bounded {
        ttl: ms(TTL),
        expires_at: Wall::from_micros(1_000_000_000 + left * 1_000),
        max_clock_skew: ms(theirs),
    };
    let told = |expiry, term| {
        let mut a = Exact::lasting_a_ttl(expiry);
        retry_after(a.meets(Wait::No, another(term)))
    };
    let bounded = Expiry::Bounded { max_clock_skew: ms(100) };
    assert_eq!(told(bounded, expires_in(500, 50)), Some(micros(600_001)), "the larger bound: ours");
    assert_eq!(told(bounded, expires_in(500, 300)), Some(micros(800_001)), "or theirs");
    let patience = Some(micros((TTL + MARGIN) * 1_000 + 1));
    assert_eq!(told(bounded, expires_in(9_000, 50)), patience);
    assert_eq!(told(OBSERVED, expires_in(500, 50)), patience, "no bound, no judgement by it");
    let by_wall = Term::WallOnly { expires_at: Wall::from_micros(1_000_500_000) };
    assert_eq!(told(bounded, by_wall), Some(micros(600_001)));
    assert_eq!(told(OBSERVED, by_wall), None);
}

#[test]
fn a_bound_is_passed_a_microsecond_after_it_and_not_before() {
    for term in [
        Term::WallOnly { expires_at: Wall::from_micros(1_000_500_000) },
        Term::Bounded {
            ttl: ms(TTL),
            expires_at: Wall::from_micros(1_000_500_000),
            max_clock_skew: ms(50),
        },
    ] {
        for (waited, takes) in [(600_000, false), (600_001, true)] {
            let mut a = Exact::lasting_a_ttl(Expiry::Bounded { max_clock_skew: ms(100) });
            a.micros = waited;
            a.meets(Wait::No, another(term));
            let taken = a.who.call.is_some_and(|c| matches!(c.kind, CallKind::Takeover { .. }));
            assert_eq!(taken, takes);
        }
    }
}

#[test]
fn a_unix_time_that_is_not_over_yet_is_held_where_it_can_be_judged_and_unjudgeable_elsewhere() {
    let term = Term::WallOnly { expires_at: Wall::from_micros(2_000_000_000) };
    for (expiry, expected) in [
        (Expiry::Bounded { max_clock_skew: ms(100) }, BusyBecause::Held),
        (OBSERVED, BusyBecause::Unjudgeable),
    ] {
        match Exact::lasting_a_ttl(expiry).meets(Wait::No, another(term)) {
            Some(Event::Busy { because, .. }) => assert_eq!(because, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_rest_ends_when_its_wall_or_patience_says_whichever_is_sooner() {
    let resting = |rest, not_before| Record {
        identity: Identity(5),
        term: Term::Resting { rest, not_before },
        ..Record::FREE
    };
    let told = |record| {
        let mut a = Exact::lasting_a_ttl(OBSERVED);
        let event = a.meets(Wait::No, record);
        assert!(matches!(event, Some(Event::Busy { because: BusyBecause::Resting, .. })));
        retry_after(event)
    };
    // A rest of 1,000 ms is waited out like a ttl.
    let patience = Some(micros((TTL + MARGIN) * 1_000 + 1));
    assert_eq!(told(resting(ms(TTL), None)), patience);
    assert_eq!(told(resting(ms(TTL), Some(Wall::from_micros(1_000_200_000)))), Some(ms(200)));
    assert_eq!(told(resting(ms(TTL), Some(Wall::from_micros(1_009_000_000)))), patience);
    // None at all is none to wait for.
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.meets(Wait::No, resting(Span::ZERO, None));
    assert!(matches!(a.who.asks(), CallKind::Takeover { .. }));
}

#[test]
fn a_released_name_rests_for_what_is_left_of_its_least_hold_since_the_acquire_was_sent() {
    let mut a = Exact::new(Settings { min_hold: ms(500), ..settings(OBSERVED) });
    a.input(acquire(Wait::No));
    a.micros += 100_000;
    a.tell(Outcome::Applied { fence: None });
    a.micros += 50_000;
    a.input(Input::Release);
    let CallKind::Release { rest, .. } = a.who.asks() else { panic!("{:?}", a.who.asks()) };
    assert_eq!(rest, ms(350));
}

// What is looked for after the end.

#[test]
fn what_may_yet_land_is_looked_for_less_and_less_often_until_it_cannot_any_more() {
    let mut a = Exact::new(Settings { poll_interval: Some(ms(10)), ..settings(OBSERVED) });
    a.input(acquire(Wait::Forever));
    a.input(Input::Cancel);
    a.tell(Outcome::Unknown);
    let mut sent = Vec::new();
    while a.who.lease.state() != State::Idle {
        if a.who.call.is_some() {
            assert!(matches!(a.who.asks(), CallKind::Release { .. }));
            sent.push(a.micros);
            a.tell(Outcome::Refused { current: Some(Record::FREE) });
        } else {
            a.sleep();
        }
    }
    let pauses: Vec<_> = sent.windows(2).map(|two| (two[1] - two[0]) / 1_000).collect();
    assert_eq!(pauses[..6], [10, 20, 40, 80, 100, 100], "a tenth of the ttl at most");
    assert_eq!(a.micros, 2 * TTL * 1_000, "on its way for one ttl, and standing for another");
    assert_eq!(a.who.last(), Some(Event::Cancelled), "told already");
}

#[test]
fn what_was_found_to_stand_there_and_replaced_is_not_looked_for_any_more() {
    let mut bench = Bench::new(Ends::ByContenders);
    let mut a = Contender::new(1, OBSERVED);
    bench.input(&mut a, acquire(Wait::Forever));
    bench.land(&a);
    bench.input(&mut a, Input::Cancel);
    bench.input(&mut a, acquire(Wait::Forever));
    bench.tell(&mut a, Outcome::Unknown);
    bench.answer(&mut a);
    assert!(bench.holds(&mut a));
    bench.input(&mut a, Input::Release);
    bench.answer(&mut a);
    assert_eq!(a.last(), Some(Event::Released));
    assert_eq!(a.lease.state(), State::Idle, "sent once, it cannot land once more");
}

#[test]
fn p4_what_is_found_late_is_looked_for_as_long_as_it_may_stand_from_then() {
    let mut bench = Bench::new(Ends::ByContenders);
    let mut a = Contender::new(1, OBSERVED);
    bench.input(&mut a, acquire(Wait::Forever));
    let late = a.call.expect("it asks");
    let sent = bench.time;
    bench.input(&mut a, Input::Cancel);
    bench.tell(&mut a, Outcome::Unknown);
    bench.answer(&mut a);
    bench.pass(&mut a, 2 * TTL - POLL / 2);
    // Just before nobody would look for it any more it lands, and is seen.
    bench.land_again(1, &late);
    bench.input(&mut a, acquire(Wait::Forever));
    let outcome = bench.land(&a);
    bench.tell(&mut a, outcome);
    assert!(matches!(a.asks(), CallKind::Takeover { .. }));
    // Then the store takes no writes for a while.
    bench.tell(&mut a, Outcome::Unavailable);
    bench.input(&mut a, Input::Cancel);
    while bench.time < sent + 2 * TTL + POLL {
        if a.call.is_some() {
            bench.tell(&mut a, Outcome::Unavailable);
        }
        bench.time = a.wake_at.expect("its record stands there");
        bench.input(&mut a, Input::Tick);
    }
    bench.answer(&mut a);
    bench.pass(&mut a, POLL);
    assert_eq!(bench.holder(), None);
}

#[test]
fn a_cancelled_acquire_that_was_refused_leaves_nothing_to_undo_unless_its_own_record_refused_it() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.input(acquire(Wait::Forever));
    a.input(Input::Cancel);
    a.tell(Outcome::Refused { current: Some(held_by_another()) });
    assert_eq!(a.who.lease.state(), State::Idle);
    // A client library sent it twice, and the second sending met the first.
    let mut b = Exact::lasting_a_ttl(OBSERVED);
    b.input(acquire(Wait::Forever));
    let CallKind::Acquire { attempt, .. } = b.who.asks() else { panic!("{:?}", b.who.asks()) };
    b.input(Input::Cancel);
    let ours = Record { holder: Holder::Us, version: attempt, ..held_by_another() };
    b.tell(Outcome::Refused { current: Some(ours) });
    let CallKind::Release { ours, .. } = b.who.asks() else { panic!("{:?}", b.who.asks()) };
    assert_eq!(ours, OurVersions::one(attempt));
    // The same where the store does not show it.
    let mut c = Exact::lasting_a_ttl(OBSERVED);
    c.input(acquire(Wait::Forever));
    c.input(Input::Cancel);
    c.tell(Outcome::Refused { current: None });
    assert!(matches!(c.who.asks(), CallKind::Release { .. }));
}

#[test]
fn an_acquire_that_was_turned_away_is_not_looked_for() {
    for outcome in [Outcome::Unavailable, Outcome::Denied] {
        let mut a = Exact::lasting_a_ttl(OBSERVED);
        a.input(acquire(Wait::Forever));
        a.input(Input::Cancel);
        a.tell(outcome);
        assert_eq!(a.who.lease.state(), State::Idle);
    }
    // But one of whose sendings nobody knows is, where all share a version.
    let mut b = Exact::new(Settings { versions: Versions::PerClaim, ..settings(Expiry::Store) });
    b.input(acquire(Wait::Forever));
    b.tell(Outcome::Unknown);
    b.input(Input::Cancel);
    b.tell(Outcome::Unavailable);
    assert_eq!(b.who.lease.state(), State::Releasing);
}

#[test]
fn a_release_that_nobody_confirms_is_given_up_when_the_record_has_ended_by_itself() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.hold();
    a.micros = 200_000;
    a.input(Input::Release);
    while a.who.lease.state() != State::Idle {
        if a.who.call.is_some() {
            a.tell(Outcome::Unavailable);
        } else {
            a.sleep();
        }
    }
    assert_eq!(a.who.last(), Some(Event::Unconfirmed));
    assert_eq!(a.micros, 200_000 + 2 * TTL * 1_000, "a copy of its last write may land for a ttl");
}

#[test]
fn p4_a_copy_of_an_acquire_that_was_sent_twice_is_looked_for_however_short_the_lease_became() {
    let mut bench = Bench::new(Ends::ByStore);
    let mut a = Contender::per_claim(1);
    bench.input(&mut a, acquire(Wait::No));
    let copy = a.call.expect("it asks");
    bench.tell(&mut a, Outcome::Unknown);
    bench.answer(&mut a);
    let terms = a.lease.config().terms(Ttl::For(ms(TTL / 10))).ok();
    bench.input(&mut a, Input::Renew { terms });
    bench.answer(&mut a);
    bench.input(&mut a, Input::Release);
    bench.answer(&mut a);
    assert_eq!(a.last(), Some(Event::Released));
    bench.pass(&mut a, TTL / 2);
    // Who knows how many of them a network makes.
    for _ in 0..2 {
        bench.land_again(1, &copy);
        assert_eq!(bench.holder(), Some(1));
        bench.pass(&mut a, POLL);
        assert_eq!(bench.holder(), None);
    }
    bench.pass(&mut a, 2 * TTL);
    assert_eq!(a.lease.state(), State::Idle);
    assert_eq!(a.events.iter().filter(|event| **event == Event::Released).count(), 1);
}

// Which reason it gives.

#[test]
fn a_process_that_did_not_run_while_renewals_had_time_was_paused() {
    let lost = |at: &[Ms], failing: bool| {
        let mut a = Exact::lasting_a_ttl(OBSERVED);
        a.renew();
        if failing {
            a.tell(Outcome::Unavailable);
        }
        for at in at {
            a.micros = at * 1_000;
            a.tick();
        }
        match a.who.last() {
            Some(Event::Lost { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    };
    // The renewal was due after 333 ms, so 645 ms were left for it.
    assert_eq!(lost(&[1_100], false), LostReason::Paused);
    assert_eq!(lost(&[600, 1_200], false), LostReason::Unreachable, "its call was given up");
    assert_eq!(lost(&[340, 1_100], true), LostReason::Unreachable, "it had failed before that");
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.hold();
    a.micros = VALID * 1_000;
    let event = a.tick();
    assert!(matches!(event, Some(Event::Lost { reason: LostReason::Paused, .. })), "{event:?}");
}

#[test]
fn a_process_that_asks_for_its_grant_all_the_while_was_not_paused() {
    for (renews, expected) in [(true, LostReason::Unreachable), (false, LostReason::Expired)] {
        let mut a = Exact::lasting_a_ttl(OBSERVED);
        a.hold();
        if renews {
            a.sleep();
        }
        for at in (340..VALID).step_by(20) {
            a.micros = at * 1_000;
            let now = a.now();
            assert!(a.who.lease.grant(now).is_some());
        }
        a.micros = VALID * 1_000;
        match a.tick() {
            Some(Event::Lost { reason, .. }) => assert_eq!(reason, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_grant_that_ended_without_a_word_is_looked_up_before_it_is_told_why() {
    for (record, expected) in
        [(held_by_another(), LostReason::Taken), (Record::FREE, LostReason::Missing)]
    {
        // One value for a claim, so no other attempt can have made the record.
        let mut a =
            Exact::new(Settings { versions: Versions::PerClaim, ..settings(Expiry::Store) });
        a.renew();
        a.tell(Outcome::Unavailable);
        a.micros = 600_000;
        a.tick();
        assert!(a.renews());
        a.tell(Outcome::Refused { current: None });
        assert_eq!(a.who.asks(), CallKind::Read { consistent: true });
        let now = a.now();
        assert!(a.who.lease.grant(now).is_none());
        assert_eq!(a.wakes_in, Some(micros(333_333)), "nothing else is due");
        match a.tell(Outcome::Found { record }) {
            Some(Event::Lost { reason, .. }) => assert_eq!(reason, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_hand_over_that_came_too_late_is_told_as_the_loss_that_it_is() {
    let told = |outcome: Outcome| {
        let mut a = Exact::lasting_a_ttl(OBSERVED);
        a.hold();
        a.input(Input::HandOver);
        let told = a.tell(outcome);
        assert_eq!(a.who.lease.state(), State::Idle);
        told
    };
    assert_eq!(told(Outcome::Applied { fence: None }), Some(Event::HandedOver));
    let lost = |reason| Some(Event::Lost { reason, fence: None });
    let shown = |record| Outcome::Refused { current: Some(record) };
    assert_eq!(told(shown(held_by_another())), lost(LostReason::Taken));
    assert_eq!(told(shown(Record::FREE)), lost(LostReason::Missing));
    let of_an_earlier_life = Record { holder: Holder::Us, ..held_by_another() };
    assert_eq!(told(shown(of_an_earlier_life)), lost(LostReason::Expired));
}

#[test]
fn a_hand_over_has_one_version_of_its_own_by_which_it_is_found() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.hold();
    a.input(Input::HandOver);
    let offer = |a: &Exact| match a.who.asks() {
        CallKind::HandOver { attempt, .. } => attempt,
        other => panic!("{other:?}"),
    };
    let first = offer(&a);
    assert_ne!(first, Version::NONE);
    a.tell(Outcome::Unknown);
    assert_eq!(offer(&a), first);
    // The first sending had landed, so the second is refused by it.
    let offered = Record { version: first, ..held_by_another() };
    let event = a.tell(Outcome::Refused { current: Some(offered) });
    assert_eq!(event, Some(Event::HandedOver));
    assert_eq!(a.who.lease.state(), State::Idle);

    // A store that does not show it is asked.
    for (version, told) in [
        (Some(()), Event::HandedOver),
        (None, Event::Lost { reason: LostReason::Taken, fence: None }),
    ] {
        let mut b = Exact::lasting_a_ttl(OBSERVED);
        b.hold();
        b.input(Input::HandOver);
        let found = version.map_or(Version::from_bits(0xb0b), |()| offer(&b));
        b.tell(Outcome::Refused { current: None });
        assert_eq!(b.who.asks(), CallKind::Read { consistent: true });
        let record = Record { version: found, ..held_by_another() };
        assert_eq!(b.tell(Outcome::Found { record }), Some(told));
        assert_eq!(b.who.lease.state(), State::Idle);
    }
}

// What is ours, and what is not.

#[test]
fn p1_a_record_with_our_name_that_another_life_wrote_is_waited_for_like_any_other() {
    let mut bench = Bench::new(Ends::ByContenders);
    let (mut a, mut twin) = (Contender::new(1, OBSERVED), Contender::new(1, OBSERVED));
    bench.hold(&mut a);
    bench.time += 1;
    // So that the two do not draw the same versions.
    bench.input(&mut twin, acquire(Wait::No));
    bench.answer(&mut twin);
    assert!(matches!(twin.last(), Some(Event::Busy { because: BusyBecause::Held, .. })));
    assert!(bench.holds(&mut a));
}

#[test]
fn p5_a_renewal_refused_without_a_word_is_settled_by_a_read_while_another_may_stand_there() {
    let mut bench = Bench::new(Ends::ByStore);
    let mut a = Contender::per_claim(1);
    bench.hold(&mut a);
    let terms = a.lease.config().terms(Ttl::For(ms(2 * TTL))).ok();
    bench.input(&mut a, Input::Renew { terms });
    bench.land(&a);
    bench.tell(&mut a, Outcome::Unknown);
    // The next one compares the version before, which is gone, and the store does not say more.
    bench.tell(&mut a, Outcome::Refused { current: None });
    assert!(bench.holds(&mut a));
    assert_eq!(a.asks(), CallKind::Read { consistent: true });
    let outcome = bench.land(&a);
    bench.tell(&mut a, outcome);
    // That one gives the grant, from its own sending and with its own ttl, and is renewed at once.
    let now = bench.now();
    assert_eq!(a.lease.grant(now).expect("held").valid_for, terms.expect("they work").valid_for());
    let CallKind::Renew { ours, .. } = a.asks() else { panic!("{:?}", a.asks()) };
    let standing = bench.row.record(1, Instant::from_micros(bench.time * 1_000)).version;
    assert_eq!(ours.as_slice().first(), Some(&standing));
    bench.answer(&mut a);
    assert!(bench.holds(&mut a));
    assert!(!a.events.iter().any(|event| matches!(event, Event::Lost { .. })));
}

#[test]
fn a_renewal_refused_although_the_held_version_stands_there_is_sent_again_soon() {
    // The store shows it, though it refused.
    let held = |a: &Exact| match a.who.asks() {
        CallKind::Renew { ours, .. } => {
            Record { holder: Holder::Us, version: ours.as_slice()[0], ..held_by_another() }
        }
        other => panic!("{other:?}"),
    };
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.renew();
    let record = held(&a);
    assert_eq!(a.tell(Outcome::Refused { current: Some(record) }), None);
    if !a.renews() {
        assert!(a.sleep() <= ms(POLL));
    }
    assert!(a.renews());
    // The store shows nothing, and is asked at once, however early the renewal was.
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.hold();
    a.input(Input::Renew { terms: None });
    let record = held(&a);
    a.tell(Outcome::Refused { current: None });
    assert_eq!(a.who.asks(), CallKind::Read { consistent: true });
    assert_eq!(a.tell(Outcome::Found { record }), None);
    if !a.renews() {
        assert!(a.sleep() <= ms(POLL));
    }
    assert!(a.renews());
}

#[test]
fn p7_our_name_over_anothers_version_is_a_loss_and_so_is_our_version_under_anothers_name() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.renew();
    let record = Record { holder: Holder::Us, ..held_by_another() };
    let event = a.tell(Outcome::Refused { current: Some(record) });
    assert!(matches!(event, Some(Event::Lost { reason: LostReason::Taken, .. })), "{event:?}");
    let mut b = Exact::lasting_a_ttl(OBSERVED);
    b.renew();
    // A client that goes by the Unix clock alone leaves our version behind.
    let CallKind::Renew { ours, .. } = b.who.asks() else { panic!("{:?}", b.who.asks()) };
    let record = Record { version: ours.as_slice()[0], ..held_by_another() };
    let event = b.tell(Outcome::Refused { current: Some(record) });
    assert!(matches!(event, Some(Event::Lost { reason: LostReason::Taken, .. })), "{event:?}");
}

#[test]
fn terms_for_which_the_ledger_had_no_room_are_asked_for_once_it_has() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.renew();
    let mut renewals = 1;
    while renewals < 4 {
        a.tell(Outcome::Unknown);
        if !a.renews() {
            a.sleep();
        }
        renewals += 1;
    }
    let ttl = |a: &Exact| match a.who.asks() {
        CallKind::Renew { terms, .. } => terms.ttl(),
        other => panic!("{other:?}"),
    };
    a.tell(Outcome::Unknown);
    let terms = a.who.lease.config().terms(Ttl::For(ms(2 * TTL))).ok();
    a.input(Input::Renew { terms });
    if !a.renews() {
        a.sleep();
    }
    assert_eq!(ttl(&a), ms(TTL), "the newest is sent again as it was");
    a.tell(Outcome::Applied { fence: None });
    assert_eq!(ttl(&a), ms(2 * TTL));
}

// Evidence from elsewhere.

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

#[test]
fn what_another_process_saw_counts_where_it_is_more_than_what_was_seen_here() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.meets(Wait::No, held_by_another());
    a.micros += 100_000;
    a.input(observed_elsewhere(ms(50), None, 0));
    assert_eq!(still_to_wait(&mut a), TTL + MARGIN - 100, "it knew more itself");
    a.input(observed_elsewhere(ms(300), None, 0));
    assert_eq!(still_to_wait(&mut a), TTL + MARGIN - 300);
    a.micros += 100_000;
    assert_eq!(still_to_wait(&mut a), TTL + MARGIN - 400, "and it goes on counting from there");
    a.input(observed_elsewhere(ms(350), None, 0));
    assert_eq!(still_to_wait(&mut a), TTL + MARGIN - 400);
}

#[test]
fn what_was_seen_of_another_record_is_no_evidence_for_this_one() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    let renewed = Record { identity: Identity(7), ..held_by_another() };
    a.meets(Wait::No, renewed);
    a.input(observed_elsewhere(ms(900), None, 0));
    let left = retry_after(a.meets(Wait::No, renewed));
    assert_eq!(left, Some(micros((TTL + MARGIN) * 1_000 + 1)));
}

#[test]
fn a_shared_clock_counts_on_and_one_that_is_not_known_to_be_shared_does_not() {
    let waits = |ours, theirs, read_at| {
        let mut a = Exact::new(Settings { clock: ours, ..settings(OBSERVED) });
        a.micros = 500_000;
        a.input(observed_elsewhere(ms(100), theirs, read_at));
        still_to_wait(&mut a)
    };
    let (one, other) = (Some(ClockId(1)), Some(ClockId(2)));
    assert_eq!(waits(one, one, 200_000), TTL + MARGIN - 400);
    assert_eq!(waits(one, one, 500_000), TTL + MARGIN - 100);
    assert_eq!(waits(one, one, 500_001), TTL + MARGIN - 100, "a reading from the future");
    assert_eq!(waits(one, other, 200_000), TTL + MARGIN - 100);
    assert_eq!(waits(None, None, 200_000), TTL + MARGIN - 100);
}

#[test]
fn under_a_bound_the_unix_clocks_count_on_less_both_their_errors() {
    let bounded = Expiry::Bounded { max_clock_skew: ms(100) };
    let mut observer = Exact::lasting_a_ttl(bounded);
    observer.meets(Wait::No, held_by_another());
    observer.micros += 50_000;
    let now = observer.now();
    let observation = observer.who.lease.observation(now).expect("it saw the record");
    let mut a = Exact::lasting_a_ttl(bounded);
    a.micros = 50_000 + 600_000;
    a.input(Input::Observe { observation });
    assert_eq!(still_to_wait(&mut a), TTL + MARGIN - 50 - (600 - 2 * 100));
}

#[test]
fn only_what_patience_can_end_is_worth_telling_another_process() {
    let observation = |term| {
        let mut a = Exact::lasting_a_ttl(OBSERVED);
        a.meets(Wait::No, another(term));
        let now = a.now();
        a.who.lease.observation(now).is_some()
    };
    assert!(observation(Term::Observed { ttl: ms(TTL) }));
    assert!(!observation(Term::Remaining { left: Some(ms(TTL)) }));
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    let now = a.now();
    assert_eq!(a.who.lease.observation(now), None, "it saw nothing");
}

#[test]
fn to_break_a_record_is_to_take_over_from_another_whatever_its_term() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.input(Input::Break { seen: Identity(0xb0b) });
    assert!(matches!(a.who.asks(), CallKind::Takeover { seen: Identity(0xb0b), .. }));
    let event = a.tell(Outcome::Applied { fence: None });
    assert!(matches!(event, Some(Event::Acquired { takeover: true, .. })));
}

#[test]
fn a_holder_that_replaces_what_was_its_own_took_over_from_nobody() {
    let mut bench = Bench::new(Ends::ByContenders);
    let mut a = Contender::new(1, OBSERVED);
    bench.input(&mut a, acquire(Wait::Forever));
    bench.land(&a);
    bench.input(&mut a, Input::Cancel);
    bench.input(&mut a, acquire(Wait::No));
    bench.tell(&mut a, Outcome::Unknown);
    bench.answer(&mut a);
    assert!(matches!(a.last(), Some(Event::Acquired { takeover: false, .. })), "{:?}", a.events);
}

#[test]
fn a_state_says_what_is_being_done() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    assert_eq!(a.who.lease.state(), State::Idle);
    a.input(acquire(Wait::No));
    assert_eq!(a.who.lease.state(), State::Acquiring);
    a.tell(Outcome::Applied { fence: None });
    assert_eq!(a.who.lease.state(), State::Held);
    a.input(Input::Release);
    assert_eq!(a.who.lease.state(), State::Releasing);
    let CallKind::Release { ours, .. } = a.who.asks() else { panic!("{:?}", a.who.asks()) };
    assert_eq!(ours.as_slice().len(), 1);
    assert_ne!(ours, OurVersions::one(Version::NONE));
    a.tell(Outcome::Applied { fence: None });
    assert_eq!(a.who.lease.state(), State::Idle);
}
