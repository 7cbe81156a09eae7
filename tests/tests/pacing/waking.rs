//! When a holder wakes.

use super::*;

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
