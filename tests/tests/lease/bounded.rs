//! P8: everything has an end.

use super::*;

#[test]
fn p8_a_hand_over_that_compares_one_version_names_what_stands_there_and_not_its_own_offer() {
    let version = |who: &Contender| match who.asks() {
        CallKind::HandOver { ours, .. } => ours,
        other => panic!("{other:?}"),
    };
    for shown in [true, false] {
        let mut bench = Bench::new(Ends::ByStore);
        let mut a = Contender::per_claim(1);
        bench.hold(&mut a);
        let terms = a.lease.config().terms(Ttl::For(Span::from_millis(2 * TTL))).ok();
        bench.input(&mut a, Input::Renew { terms });
        let outcome = bench.land(&a);
        assert!(matches!(outcome, Outcome::Applied { .. }));
        let current = bench.row.record(1, Instant::from_micros(bench.time * 1_000));
        bench.input(&mut a, Input::HandOver);
        bench.tell(&mut a, Outcome::Unknown);
        // The held version is compared first, and the renewal has replaced it.
        assert_ne!(version(&a), OurVersions::one(current.version));
        bench.tell(&mut a, Outcome::Refused { current: shown.then_some(current) });
        if !shown {
            assert_eq!(a.asks(), CallKind::Read { consistent: true });
            bench.tell(&mut a, Outcome::Found { record: current });
        }
        while a.call.is_none() {
            bench.time = a.wake_at.expect("it hands over");
            bench.input(&mut a, Input::Tick);
        }
        assert_eq!(version(&a), OurVersions::one(current.version));
        // Sent again, it is still that one.
        bench.tell(&mut a, Outcome::Unknown);
        while a.call.is_none() {
            bench.time = a.wake_at.expect("it hands over");
            bench.input(&mut a, Input::Tick);
        }
        assert_eq!(version(&a), OurVersions::one(current.version));
    }
}
