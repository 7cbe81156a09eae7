//! P2: fences grow.

use super::*;

#[test]
fn p2_fences_grow_over_release_takeover_and_handover() {
    let (mut bench, mut a, mut b) = observed();
    let mut fences = Vec::new();
    bench.hold(&mut a);
    bench.input(&mut a, Input::Release);
    bench.answer(&mut a);
    bench.hold(&mut b);
    // It dies; its record is taken over.
    bench.input(&mut a, acquire(Wait::Forever));
    bench.answer(&mut a);
    bench.pass(&mut a, 3 * TTL);
    for who in [&a, &b] {
        for event in &who.events {
            if let Event::Acquired { grant, .. } = event {
                fences.push(grant.fence.map(|fence| fence.0));
            }
        }
    }
    fences.sort_unstable();
    assert_eq!(fences, [Some(1), Some(2), Some(3)]);
}
