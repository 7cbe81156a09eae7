//! P11: what has ended stays so.

use super::*;

#[test]
fn p11_a_renewal_whose_reply_comes_after_the_deadline_revives_nothing() {
    let (mut bench, mut a, _) = observed();
    bench.hold(&mut a);
    bench.time = a.wake_at.expect("it renews");
    bench.input(&mut a, Input::Tick);
    let outcome = bench.land(&a);
    bench.time += TTL - MARGIN;
    assert!(!bench.holds(&mut a));
    bench.tell(&mut a, outcome);
    assert!(!bench.holds(&mut a));
    assert!(matches!(a.last(), Some(Event::Lost { fence: Some(Fence(1)), .. })));
    bench.answer(&mut a);
    assert_eq!(bench.holder(), None, "what was applied too late is given back");
}

#[test]
fn p11_a_grant_ends_without_any_tick_and_stays_ended() {
    let (mut bench, mut a, _) = observed();
    bench.hold(&mut a);
    bench.time += TTL - MARGIN;
    assert!(!bench.holds(&mut a));
    bench.time -= TTL / 2;
    assert!(!bench.holds(&mut a), "although a clock went back");
}
