//! What is ours, and what is not.

use super::*;

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
