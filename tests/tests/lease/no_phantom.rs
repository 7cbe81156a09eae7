//! P3: a grant rests on a write that was applied, and counts from its sending.

use super::*;

#[test]
fn p3_a_grant_counts_from_the_sending_and_ends_a_margin_early() {
    let (mut bench, mut a, _) = observed();
    bench.input(&mut a, acquire(Wait::No));
    bench.time += 200;
    let outcome = bench.land(&a);
    bench.time += 100;
    bench.tell(&mut a, outcome);
    let now = bench.now();
    let grant = a.lease.grant(now).expect("held");
    assert_eq!(grant.valid_for, Span::from_millis(TTL - MARGIN - 300));
}

#[test]
fn p3_a_grant_that_comes_too_late_is_given_back() {
    let (mut bench, mut a, _) = observed();
    bench.input(&mut a, acquire(Wait::No));
    let outcome = bench.land(&a);
    bench.time += TTL - MARGIN;
    bench.tell(&mut a, outcome);
    assert!(!bench.holds(&mut a));
    assert!(!a.events.iter().any(|event| matches!(event, Event::Acquired { .. })));
    bench.pass(&mut a, 5 * TTL);
    bench.answer(&mut a);
    assert_eq!(bench.holder(), None);
    assert_eq!(a.lease.state(), State::Idle);
}
