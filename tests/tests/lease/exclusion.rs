//! P1: no two valid grants at one instant.

use super::*;

#[test]
fn p1_a_contender_waits_for_the_ttl_in_the_record_and_not_for_its_own() {
    let (mut bench, mut a, _) = observed();
    let short = Settings::new(Ttl::For(Span::from_millis(100)), OBSERVED);
    let mut b = Contender::with(2, short);
    bench.hold(&mut a);
    bench.input(&mut b, acquire(Wait::Forever));
    bench.answer(&mut b);
    bench.pass(&mut b, TTL + MARGIN - 1);
    assert_eq!(bench.holder(), Some(1));
    bench.pass(&mut b, 100);
    assert_eq!(bench.holder(), Some(2));
    assert!(matches!(
        b.last(),
        Some(Event::Acquired { takeover: true, .. }) | Some(Event::Renewed { .. })
    ));
}

#[test]
fn p1_every_renewal_makes_a_contender_count_anew() {
    let (mut bench, mut a, mut b) = observed();
    bench.hold(&mut a);
    bench.input(&mut b, acquire(Wait::Forever));
    bench.answer(&mut b);
    for _ in 0..20 {
        bench.pass(&mut a, TTL / 5);
        bench.time -= TTL / 5;
        bench.pass(&mut b, TTL / 5);
    }
    assert!(bench.holds(&mut a));
}
