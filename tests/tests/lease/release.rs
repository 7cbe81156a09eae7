//! P7: what is released is ours, and gone.

use super::*;

#[test]
fn p7_a_holder_that_lost_touches_nothing_of_its_successor() {
    let (mut bench, mut a, mut b) = observed();
    bench.hold(&mut a);
    bench.input(&mut b, acquire(Wait::Forever));
    bench.answer(&mut b);
    bench.pass(&mut b, 2 * TTL);
    assert_eq!(bench.holder(), Some(2));
    let before = bench.row;
    bench.input(&mut a, Input::Tick);
    assert!(is_lost(a.last(), LostReason::Paused), "{:?}", a.last());
    bench.answer(&mut a);
    bench.input(&mut a, Input::Renew { terms: None });
    bench.input(&mut a, Input::Release);
    bench.answer(&mut a);
    assert_eq!(bench.row, before);
}
