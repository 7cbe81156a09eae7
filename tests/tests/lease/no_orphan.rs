//! P4: nothing of ours keeps the name.

use super::*;

#[test]
fn p4_a_cancelled_acquire_that_landed_is_released() {
    for expiry in [OBSERVED, BOUNDED, Expiry::Store] {
        let mut bench = Bench::new(Ends::ByContenders);
        let mut a = Contender::new(1, expiry);
        bench.input(&mut a, acquire(Wait::Forever));
        let outcome = bench.land(&a);
        bench.input(&mut a, Input::Cancel);
        assert_eq!(a.last(), Some(Event::Cancelled));
        bench.tell(&mut a, outcome);
        assert!(matches!(a.asks(), CallKind::Release { .. }));
        bench.answer(&mut a);
        assert_eq!(bench.holder(), None);
        assert_eq!(a.lease.state(), State::Idle);
    }
}

#[test]
fn p4_a_cancelled_acquire_that_lands_late_is_released_too() {
    let (mut bench, mut a, _) = observed();
    bench.input(&mut a, acquire(Wait::Forever));
    let ghost = a.call.expect("it asks");
    bench.tell(&mut a, Outcome::Unknown);
    bench.tell(&mut a, Outcome::Unavailable);
    bench.input(&mut a, Input::Cancel);
    bench.answer(&mut a);
    // Nothing was there to release; but it may yet come.
    bench.land_again(1, &ghost);
    assert_eq!(bench.holder(), Some(1));
    bench.pass(&mut a, TTL / 2);
    assert_eq!(bench.holder(), None);
    bench.pass(&mut a, TTL);
    assert_eq!(a.lease.state(), State::Idle);
}

#[test]
fn p4_a_try_that_ends_unknown_is_undone() {
    let (mut bench, mut a, _) = observed();
    bench.input(&mut a, acquire(Wait::No));
    let ghost = a.call.expect("it asks");
    let end = bench.time + 10 * TTL;
    while !matches!(a.last(), Some(Event::Failed { .. })) {
        assert!(bench.time < end, "P8: a try that never ends");
        a.call = None;
        bench.time = a.wake_at.expect("it gives up in time");
        bench.input(&mut a, Input::Tick);
    }
    assert_eq!(a.last(), Some(Event::Failed { failure: Failure::Unknown }));
    bench.land_again(1, &ghost);
    bench.answer(&mut a);
    bench.pass(&mut a, TTL / 2);
    assert_eq!(bench.holder(), None);
}

#[test]
fn p4_a_holder_that_lost_to_a_late_acquire_of_its_own_takes_that_back() {
    let (mut bench, mut a, _) = observed();
    bench.input(&mut a, acquire(Wait::No));
    let late = a.call.expect("it asks");
    bench.tell(&mut a, Outcome::Unknown);
    bench.answer(&mut a);
    assert!(bench.holds(&mut a));
    // Somebody deletes its record, and the first attempt lands in the gap.
    bench.row.clear();
    bench.land_again(1, &late);
    bench.time = a.wake_at.expect("it renews");
    bench.input(&mut a, Input::Tick);
    let outcome = bench.land(&a);
    bench.tell(&mut a, outcome);
    assert!(is_lost(a.last(), LostReason::Taken), "{:?}", a.last());
    bench.answer(&mut a);
    assert_eq!(bench.holder(), None, "what nobody holds keeps nobody waiting");
}

#[test]
fn p4_an_acquire_does_not_make_a_release_under_way_forget_the_version_that_it_finds() {
    // One version is compared, and another of ours stands there.
    let mut bench = Bench::new(Ends::ByStore);
    let mut a = Contender::per_claim(1);
    bench.hold(&mut a);
    let terms = a.lease.config().terms(Ttl::For(Span::from_millis(2 * TTL))).ok();
    bench.input(&mut a, Input::Renew { terms });
    bench.tell(&mut a, Outcome::Unknown);
    bench.land(&a);
    bench.input(&mut a, Input::Release);
    bench.tell(&mut a, Outcome::Unknown);
    assert!(matches!(a.asks(), CallKind::Release { .. }));
    let outcome = bench.land(&a);
    bench.input(&mut a, acquire(Wait::No));
    bench.tell(&mut a, outcome);
    bench.answer(&mut a);
    assert!(matches!(a.last(), Some(Event::Acquired { .. })), "{:?}", a.last());
}

#[test]
fn p4_an_acquire_does_not_make_a_release_under_way_forget_what_landed_behind_it() {
    // All are named, but the store looks only after its refusal who stands there.
    let (mut bench, mut a, _) = observed();
    bench.input(&mut a, acquire(Wait::Forever));
    let late = a.call.expect("it asks");
    bench.input(&mut a, Input::Cancel);
    bench.tell(&mut a, Outcome::Unknown);
    assert!(matches!(a.asks(), CallKind::Release { .. }));
    bench.land(&a);
    bench.land_again(1, &late);
    let current = Some(bench.row.record(1, Instant::from_micros(bench.time * 1_000)));
    bench.input(&mut a, acquire(Wait::No));
    bench.tell(&mut a, Outcome::Refused { current });
    bench.answer(&mut a);
    assert!(matches!(a.last(), Some(Event::Acquired { .. })), "{:?}", a.last());
}

#[test]
fn p4_a_release_after_a_long_pause_names_the_renewal_that_may_stand() {
    let (mut bench, mut a, _) = observed();
    bench.hold(&mut a);
    bench.time = a.wake_at.expect("it renews");
    bench.input(&mut a, Input::Tick);
    bench.land(&a);
    // Its reply is lost, and the process does not run for longer than a ttl there and a ttl back.
    a.call = None;
    bench.time += 3 * TTL;
    bench.input(&mut a, Input::Release);
    bench.answer(&mut a);
    assert_eq!(bench.holder(), None);
}
