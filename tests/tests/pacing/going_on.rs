//! How long an acquire goes on.

use super::*;

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
