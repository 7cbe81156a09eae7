//! How long it backs off.

use super::*;

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
