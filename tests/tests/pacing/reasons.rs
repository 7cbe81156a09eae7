//! Which reason it gives.

use super::*;

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
