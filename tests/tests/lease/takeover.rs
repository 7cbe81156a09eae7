//! P6: a dead holder's name is taken in time.

use super::*;

#[test]
fn p6_a_dead_holders_lease_is_taken_within_its_bound() {
    let (mut bench, mut a, mut b) = observed();
    bench.hold(&mut a);
    bench.input(&mut b, acquire(Wait::Forever));
    bench.answer(&mut b);
    bench.pass(&mut b, TTL + MARGIN + TTL / 10);
    assert_eq!(bench.holder(), Some(2));
}

#[test]
fn p6_tries_that_never_wait_add_up_to_a_takeover() {
    let (mut bench, mut a, mut b) = observed();
    bench.hold(&mut a);
    for _ in 0..4 {
        bench.input(&mut b, acquire(Wait::No));
        bench.answer(&mut b);
        assert!(matches!(b.last(), Some(Event::Busy { because: BusyBecause::Held, .. })));
        bench.time += TTL / 4;
    }
    bench.time += MARGIN + 1;
    bench.input(&mut b, acquire(Wait::No));
    bench.answer(&mut b);
    assert!(matches!(b.last(), Some(Event::Acquired { takeover: true, .. })));
}

#[test]
fn p6_a_declared_bound_lets_the_first_try_take_over() {
    let mut bench = Bench::new(Ends::ByContenders);
    let (mut a, mut b) = (Contender::new(1, BOUNDED), Contender::new(2, BOUNDED));
    bench.hold(&mut a);
    bench.time += TTL + 100;
    bench.input(&mut b, acquire(Wait::No));
    bench.answer(&mut b);
    assert!(matches!(b.last(), Some(Event::Busy { .. })), "not before expiry and bound");
    bench.time += 1;
    bench.input(&mut b, acquire(Wait::No));
    bench.answer(&mut b);
    assert!(matches!(b.last(), Some(Event::Acquired { .. })));
}
