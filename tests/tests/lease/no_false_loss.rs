//! P5: what the record still gives is not lost.

use super::*;

#[test]
fn p5_the_lost_reply_of_an_acquire_is_found_in_the_record() {
    let (mut bench, mut a, _) = observed();
    bench.input(&mut a, acquire(Wait::No));
    let sent = bench.time;
    bench.land(&a);
    bench.time += 50;
    bench.tell(&mut a, Outcome::Unknown);
    bench.answer(&mut a);
    let now = bench.now();
    let grant = a.lease.grant(now).expect("held");
    assert_eq!(grant.fence, Some(Fence(1)), "acquired once");
    assert_eq!(grant.valid_for, Span::from_millis(TTL - MARGIN - (bench.time - sent)));
}

#[test]
fn p5_a_client_library_that_repeats_an_acquire_does_not_lose_it() {
    for mut a in [Contender::new(1, OBSERVED), Contender::per_claim(1)] {
        let mut bench = Bench::new(Ends::ByContenders);
        bench.input(&mut a, acquire(Wait::No));
        bench.land(&a);
        // The second sending is refused by the first.
        let outcome = bench.land(&a);
        assert!(matches!(outcome, Outcome::Refused { .. }));
        bench.tell(&mut a, outcome);
        assert!(matches!(a.last(), Some(Event::Acquired { .. })));
        // Some stores refuse without a word.
        let mut bench = Bench::new(Ends::ByContenders);
        let mut a = Contender::with(1, *a.lease.config().settings());
        bench.input(&mut a, acquire(Wait::No));
        bench.land(&a);
        bench.tell(&mut a, Outcome::Refused { current: None });
        assert_eq!(a.asks(), CallKind::Read { consistent: true });
        bench.answer(&mut a);
        assert!(matches!(a.last(), Some(Event::Acquired { .. })));
    }
}

#[test]
fn p5_a_renewal_applied_without_a_reply_is_no_loss() {
    let (mut bench, mut a, _) = observed();
    bench.hold(&mut a);
    for _ in 0..10 {
        bench.time = a.wake_at.expect("it renews");
        bench.input(&mut a, Input::Tick);
        bench.land(&a);
        bench.tell(&mut a, Outcome::Unknown);
        // The retry names the version that landed.
        bench.answer(&mut a);
        assert!(matches!(a.last(), Some(Event::Renewed { .. })), "{:?}", a.last());
    }
    assert!(bench.holds(&mut a));
}

#[test]
fn p5_many_renewals_without_a_reply_fill_the_ledger_and_lose_nothing() {
    let (mut bench, mut a, _) = observed();
    bench.hold(&mut a);
    bench.time = a.wake_at.expect("it renews");
    bench.input(&mut a, Input::Tick);
    let mut ghosts = Vec::new();
    for _ in 0..12 {
        ghosts.push(a.call.expect("it tries"));
        bench.tell(&mut a, Outcome::Unknown);
        if a.call.is_none() {
            bench.time = a.wake_at.expect("it tries again");
            bench.input(&mut a, Input::Tick);
        }
    }
    let versions: Vec<_> = ghosts
        .iter()
        .map(|call| match call.kind {
            CallKind::Renew { attempt, .. } => attempt,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(versions[4..].iter().filter(|v| **v != versions[3]).count(), 0, "no room for more");
    // An early one lands late, of all things.
    bench.land_again(1, &ghosts[1]);
    bench.answer(&mut a);
    assert!(bench.holds(&mut a), "{:?}", a.last());
}

#[test]
fn p5_a_full_ledger_counts_from_the_first_sending_of_what_it_sends_again() {
    let (mut bench, mut a, _) = observed();
    bench.hold(&mut a);
    bench.time = a.wake_at.expect("it renews");
    bench.input(&mut a, Input::Tick);
    let mut sent = Vec::new();
    for _ in 0..8 {
        let CallKind::Renew { attempt, .. } = a.asks() else { panic!("{:?}", a.asks()) };
        sent.push((attempt, bench.time));
        bench.tell(&mut a, Outcome::Unknown);
        if a.call.is_none() {
            bench.time = a.wake_at.expect("it tries again");
            bench.input(&mut a, Input::Tick);
        }
    }
    let CallKind::Renew { attempt, .. } = a.asks() else { panic!("{:?}", a.asks()) };
    let first_sent = sent.iter().find(|(version, _)| *version == attempt).expect("again").1;
    bench.answer(&mut a);
    let now = bench.now();
    let left = a.lease.grant(now).expect("held").valid_for;
    assert_eq!(left, Span::from_millis(first_sent + TTL - MARGIN - bench.time));
}
