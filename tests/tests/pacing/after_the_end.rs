//! What is looked for after the end.

use super::*;

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
