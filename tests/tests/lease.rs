//! Stories: each promise, and each way in which lease libraries were seen to break it.

use tenure_core::config::{Expiry, Settings, Ttl};
use tenure_core::io::{
    BusyBecause, CallKind, Event, Failure, Input, LostReason, OurVersions, Outcome, Wait,
};
use tenure_core::lease::State;
use tenure_core::memory::Ends;
use tenure_core::record::{ClockId, Fence, Holder, Identity, Record, Term, Version};
use tenure_core::time::{Instant, Now, Span, Wall};
use tenure_tests::bench::{Bench, Contender, TTL};

const OBSERVED: Expiry = Expiry::Observed;
const BOUNDED: Expiry = Expiry::Bounded { max_clock_skew: Span::from_millis(100) };
/// Of the ttl of a story: 1,000 ms × 2 × 1 % + 2 ms.
const MARGIN: u64 = 22;

fn observed() -> (Bench, Contender, Contender) {
    (Bench::new(Ends::ByContenders), Contender::new(1, OBSERVED), Contender::new(2, OBSERVED))
}

fn acquire(wait: Wait) -> Input {
    Input::Acquire { wait }
}

fn is_lost(event: Option<Event>, why: LostReason) -> bool {
    matches!(event, Some(Event::Lost { reason, .. }) if reason == why)
}

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

#[test]
fn a_full_ledger_keeps_what_stands_in_the_record() {
    let (mut bench, mut a, _) = observed();
    bench.input(&mut a, acquire(Wait::Forever));
    bench.land(&a);
    bench.tell(&mut a, Outcome::Unknown);
    // The name is given up before that is found out, and asked for once more.
    bench.input(&mut a, Input::Cancel);
    bench.input(&mut a, acquire(Wait::Forever));
    // With what comes now the ledger is full, and the last pushes another out.
    for _ in 0..4 {
        bench.tell(&mut a, Outcome::Unknown);
        if a.call.is_none() {
            bench.time = a.wake_at.expect("it tries again");
            bench.input(&mut a, Input::Tick);
        }
    }
    bench.answer(&mut a);
    let Some(Event::Acquired { grant, .. }) = a.last() else { panic!("{:?}", a.events) };
    assert_eq!(grant.fence, Some(Fence(2)), "its own record is none to wait for");
}

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
fn a_retired_version_is_never_adopted_but_replaced_at_once() {
    let (mut bench, mut a, _) = observed();
    bench.input(&mut a, acquire(Wait::Forever));
    let ghost = a.call.expect("it asks");
    bench.tell(&mut a, Outcome::Unknown);
    bench.tell(&mut a, Outcome::Unavailable);
    bench.input(&mut a, Input::Cancel);
    bench.answer(&mut a);
    // It lands after all, and the name is asked for again while it stands there.
    bench.land_again(1, &ghost);
    bench.input(&mut a, acquire(Wait::No));
    bench.answer(&mut a);
    let Some(Event::Acquired { grant, .. }) = a.last() else { panic!("{:?}", a.events) };
    assert_eq!(grant.fence, Some(Fence(2)));
}

#[test]
fn acquire_never_lists_its_own_versions_and_renew_and_release_do() {
    let (mut bench, mut a, _) = observed();
    bench.hold(&mut a);
    bench.time = a.wake_at.expect("it renews");
    bench.input(&mut a, Input::Tick);
    let CallKind::Renew { attempt, ours, .. } = a.asks() else { panic!("{:?}", a.asks()) };
    assert!(ours.as_slice().contains(&attempt) && ours.as_slice().len() == 2);
    bench.tell(&mut a, Outcome::Unknown);
    bench.input(&mut a, Input::Release);
    bench.tell(&mut a, Outcome::Unknown);
    let CallKind::Release { ours, .. } = a.asks() else { panic!("{:?}", a.asks()) };
    assert_eq!(ours.as_slice().len(), 3);
}

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

#[test]
fn a_record_whose_holder_declared_no_bound_is_not_judged_by_one() {
    let mut bench = Bench::new(Ends::ByContenders);
    let (mut a, mut b) = (Contender::new(1, OBSERVED), Contender::new(2, BOUNDED));
    bench.hold(&mut a);
    bench.time += 100 * TTL;
    bench.input(&mut b, acquire(Wait::No));
    bench.answer(&mut b);
    assert!(matches!(b.last(), Some(Event::Busy { because: BusyBecause::Held, .. })));
}

#[test]
fn a_record_that_only_a_unix_clock_can_judge_is_said_to_be_so() {
    let foreign = Record {
        holder: Holder::Other,
        version: Version::NONE,
        identity: Identity(7),
        fence: None,
        term: Term::WallOnly { expires_at: Wall::from_millis(0) },
    };
    let (mut bench, mut a, _) = observed();
    bench.input(&mut a, acquire(Wait::No));
    bench.tell(&mut a, Outcome::Refused { current: Some(foreign) });
    assert!(matches!(a.last(), Some(Event::Busy { because: BusyBecause::Unjudgeable, .. })));
    bench.time += 1_000 * TTL;
    bench.input(&mut a, acquire(Wait::No));
    assert!(matches!(a.asks(), CallKind::Acquire { .. }), "however long it stands there");
    // With a bound it is judged, and taken by its identity.
    let mut b = Contender::new(2, BOUNDED);
    bench.input(&mut b, acquire(Wait::No));
    bench.tell(&mut b, Outcome::Refused { current: Some(foreign) });
    assert!(matches!(b.asks(), CallKind::Takeover { seen: Identity(7), .. }));
}

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
fn p12_neither_a_refusal_of_access_nor_a_throttle_is_a_free_lease() {
    for (outcome, failure) in
        [(Outcome::Denied, Failure::Denied), (Outcome::Unavailable, Failure::Unavailable)]
    {
        let (mut bench, mut a, _) = observed();
        bench.input(&mut a, acquire(Wait::No));
        bench.tell(&mut a, outcome);
        assert_eq!(a.last(), Some(Event::Failed { failure }));
        assert!(!bench.holds(&mut a));
        assert_eq!(a.lease.state(), State::Idle, "nothing is to be undone");
    }
}

#[test]
fn a_throttled_renewal_is_tried_again_and_loses_nothing() {
    let (mut bench, mut a, _) = observed();
    bench.hold(&mut a);
    bench.time = a.wake_at.expect("it renews");
    bench.input(&mut a, Input::Tick);
    for outcome in [Outcome::Unavailable, Outcome::Denied, Outcome::Unavailable] {
        bench.tell(&mut a, outcome);
        bench.time = a.wake_at.expect("it tries again");
        bench.input(&mut a, Input::Tick);
    }
    bench.answer(&mut a);
    assert!(matches!(a.last(), Some(Event::Renewed { .. })));
}

#[test]
fn a_store_that_goes_away_is_a_loss_at_the_deadline_and_not_later() {
    let (mut bench, mut a, _) = observed();
    bench.hold(&mut a);
    let deadline = bench.time + TTL - MARGIN;
    let mut at_risk = 0;
    while !matches!(a.last(), Some(Event::Lost { .. })) {
        assert!(bench.time < deadline);
        assert!(bench.holds(&mut a));
        if a.call.is_some() && bench.time % 2 == 0 {
            bench.tell(&mut a, Outcome::Unknown);
        }
        a.call = None;
        bench.time = a.wake_at.expect("it goes on");
        bench.input(&mut a, Input::Tick);
        at_risk += usize::from(matches!(a.last(), Some(Event::AtRisk { .. })));
    }
    assert_eq!(bench.time, deadline);
    assert!(is_lost(a.last(), LostReason::Unreachable));
    assert!(at_risk >= 1);
    assert_eq!(a.events.iter().filter(|e| matches!(e, Event::AtRisk { .. })).count(), 1);
}

#[test]
fn a_missing_and_a_taken_record_are_told_apart() {
    let (mut bench, mut a, mut b) = observed();
    bench.hold(&mut a);
    bench.row.clear();
    bench.pass(&mut a, TTL / 2);
    assert!(is_lost(a.last(), LostReason::Missing), "{:?}", a.last());
    bench.hold(&mut a);
    bench.row.clear();
    bench.hold(&mut b);
    bench.pass(&mut a, TTL / 2);
    assert!(is_lost(a.last(), LostReason::Taken), "{:?}", a.last());
}

#[test]
fn a_store_that_refuses_a_renewal_without_a_word_ends_belief_at_once() {
    let mut bench = Bench::new(Ends::ByStore);
    let mut a = Contender::per_claim(1);
    bench.hold(&mut a);
    bench.row.clear();
    bench.time = a.wake_at.expect("it renews");
    bench.input(&mut a, Input::Tick);
    bench.tell(&mut a, Outcome::Refused { current: None });
    assert!(!bench.holds(&mut a));
    bench.answer(&mut a);
    assert!(is_lost(a.last(), LostReason::Missing));
}

#[test]
fn a_release_while_a_renewal_is_in_flight_is_no_loss_in_either_order() {
    for renewal_lands in [true, false] {
        let (mut bench, mut a, _) = observed();
        bench.hold(&mut a);
        bench.time = a.wake_at.expect("it renews");
        bench.input(&mut a, Input::Tick);
        let outcome = if renewal_lands { bench.land(&a) } else { Outcome::Unknown };
        bench.input(&mut a, Input::Release);
        assert!(!bench.holds(&mut a));
        bench.tell(&mut a, outcome);
        bench.answer(&mut a);
        assert_eq!(a.last(), Some(Event::Released));
        assert_eq!(bench.holder(), None);
    }
}

#[test]
fn the_lost_reply_of_a_release_is_settled() {
    let (mut bench, mut a, _) = observed();
    bench.hold(&mut a);
    bench.input(&mut a, Input::Release);
    bench.land(&a);
    bench.tell(&mut a, Outcome::Unknown);
    bench.pass(&mut a, TTL / 4);
    bench.answer(&mut a);
    assert_eq!(a.last(), Some(Event::Released));
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
fn a_release_that_compares_one_version_is_told_only_once_the_held_one_was_asked_for() {
    for renewal_lands in [true, false] {
        let mut bench = Bench::new(Ends::ByStore);
        let mut a = Contender::per_claim(1);
        bench.input(&mut a, acquire(Wait::No));
        // Sent twice, so that a copy of it may be on its way.
        bench.tell(&mut a, Outcome::Unknown);
        bench.answer(&mut a);
        assert!(bench.holds(&mut a));
        let terms = a.lease.config().terms(Ttl::For(Span::from_millis(2 * TTL))).ok();
        bench.input(&mut a, Input::Renew { terms });
        if renewal_lands {
            bench.land(&a);
        }
        bench.input(&mut a, Input::Release);
        bench.tell(&mut a, Outcome::Unknown);
        for _ in 0..5 {
            let outcome = match bench.land(&a) {
                Outcome::Refused { .. } => Outcome::Refused { current: None },
                outcome => outcome,
            };
            bench.tell(&mut a, outcome);
            if a.last() == Some(Event::Released) {
                break;
            }
        }
        assert_eq!(a.last(), Some(Event::Released));
        assert_eq!(bench.holder(), None);
    }
}

#[test]
fn versions_are_asked_for_one_by_one_in_the_order_of_their_sending() {
    let mut bench = Bench::new(Ends::ByStore);
    let mut a = Contender::per_claim(1);
    bench.hold(&mut a);
    let mut sent = Vec::new();
    if let Some((_, version, _)) = bench.row.holder(Instant::from_micros(bench.time * 1_000)) {
        sent.push(version);
    }
    let terms = a.lease.config().terms(Ttl::For(Span::from_millis(2 * TTL))).ok();
    bench.input(&mut a, Input::Renew { terms });
    for _ in 0..2 {
        let CallKind::Renew { attempt, .. } = a.asks() else { panic!("{:?}", a.asks()) };
        sent.push(attempt);
        bench.tell(&mut a, Outcome::Unknown);
    }
    assert_eq!(sent.len(), 3);
    bench.input(&mut a, Input::Release);
    // A renewal that is still on its way moves the record from an earlier version to its own, so a
    // later version that is not there may be there once an earlier one was asked for, and not the
    // other way round.
    let mut asked: Vec<Version> = Vec::new();
    while a.last() != Some(Event::Released) {
        let CallKind::Release { ours, .. } = a.asks() else { panic!("{:?}", a.asks()) };
        asked.extend(ours.as_slice());
        bench.tell(&mut a, Outcome::Refused { current: None });
    }
    assert_eq!(asked, sent);
}

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

#[test]
fn a_record_of_ours_that_came_too_late_to_be_freed_is_told_as_unconfirmed() {
    let (mut bench, mut a, _) = observed();
    bench.hold(&mut a);
    let terms = a.lease.config().terms(Ttl::For(Span::from_millis(TTL / 10))).ok();
    bench.input(&mut a, Input::Renew { terms });
    let late = a.call.expect("it renews");
    bench.input(&mut a, Input::Release);
    bench.tell(&mut a, Outcome::Unknown);
    // Nothing gets through until that renewal is over for everybody. Then it does.
    let over = bench.time + 2 * (TTL / 10);
    loop {
        let CallKind::Release { ours, .. } = a.asks() else { panic!("{:?}", a.asks()) };
        if bench.time >= over && ours.as_slice().len() == 1 {
            break;
        }
        bench.tell(&mut a, Outcome::Unknown);
        while a.call.is_none() {
            bench.time = a.wake_at.expect("it releases");
            bench.input(&mut a, Input::Tick);
        }
    }
    bench.land_again(1, &late);
    bench.answer(&mut a);
    assert_eq!(bench.holder(), Some(1));
    assert_eq!(a.last(), Some(Event::Unconfirmed), "{:?}", a.events);
}

#[test]
fn a_shorter_renewal_without_a_reply_is_believed_to_have_shortened() {
    let (mut bench, mut a, _) = observed();
    bench.hold(&mut a);
    let terms = a.lease.config().terms(Ttl::For(Span::from_millis(100))).ok();
    bench.input(&mut a, Input::Renew { terms });
    let now = bench.now();
    assert!(a.lease.grant(now).expect("held").valid_for < Span::from_millis(100));
}

#[test]
fn one_value_for_a_claim_changes_with_the_ttl_and_with_the_first_answer() {
    let mut bench = Bench::new(Ends::ByStore);
    let mut a = Contender::per_claim(1);
    let mut b = Contender::per_claim(2);
    bench.hold(&mut a);
    let version = |who: &Contender| match who.asks() {
        CallKind::Acquire { attempt, .. } | CallKind::Renew { attempt, .. } => attempt,
        other => panic!("{other:?}"),
    };
    bench.time = a.wake_at.expect("it renews");
    bench.input(&mut a, Input::Tick);
    let (first, CallKind::Renew { ours, .. }) = (version(&a), a.asks()) else { panic!() };
    assert_eq!(ours, OurVersions::one(first), "the same ttl, the same value");
    bench.answer(&mut a);
    let terms = a.lease.config().terms(Ttl::For(Span::from_millis(TTL / 2))).ok();
    bench.input(&mut a, Input::Renew { terms });
    assert_ne!(version(&a), first, "a late renewal must not shorten or lengthen it");
    bench.answer(&mut a);
    bench.input(&mut b, acquire(Wait::Forever));
    let claim = version(&b);
    bench.tell(&mut b, Outcome::Unknown);
    assert_eq!(version(&b), claim, "not answered: the same claim");
    let outcome = bench.land(&b);
    bench.tell(&mut b, outcome);
    bench.time = b.wake_at.expect("it polls");
    bench.input(&mut b, Input::Tick);
    assert_ne!(version(&b), claim, "a copy of the refused one may land later");
}

#[test]
fn a_lock_is_acquired_as_a_lease_and_then_lasts_until_it_is_found_broken() {
    let mut bench = Bench::new(Ends::ByContenders);
    let mut a = Contender::with(1, Settings::new(Ttl::Forever, OBSERVED));
    bench.input(&mut a, acquire(Wait::No));
    let CallKind::Acquire { terms, .. } = a.asks() else { panic!() };
    assert_eq!(terms.ttl(), Span::from_millis(30_000), "a ghost of it must not last for ever");
    bench.answer(&mut a);
    let now = bench.now();
    assert!(a.lease.grant(now).expect("held").valid_for.is_forever());
    bench.pass(&mut a, 100 * TTL);
    assert!(bench.holds(&mut a));
    bench.row.clear();
    bench.pass(&mut a, 2 * TTL);
    assert!(is_lost(a.last(), LostReason::Missing));
}

#[test]
fn min_hold_leaves_a_rest_that_a_wall_clock_or_patience_may_end() {
    let settings = Settings::new(Ttl::For(Span::from_millis(TTL)), OBSERVED);
    let settings = Settings { min_hold: Span::from_millis(2 * TTL), ..settings };
    let mut bench = Bench::new(Ends::ByContenders);
    let (mut a, mut b) = (Contender::with(1, settings), Contender::new(2, OBSERVED));
    bench.hold(&mut a);
    bench.time += TTL / 2;
    bench.input(&mut a, Input::Release);
    bench.answer(&mut a);
    bench.input(&mut b, acquire(Wait::No));
    bench.answer(&mut b);
    assert!(matches!(b.last(), Some(Event::Busy { because: BusyBecause::Resting, .. })));
    bench.time += TTL + TTL / 2;
    bench.hold(&mut b);
}

#[test]
fn an_observation_is_evidence_where_its_clock_is_shared() {
    let clock = Some(ClockId(5));
    let settings = Settings::new(Ttl::For(Span::from_millis(TTL)), OBSERVED);
    let shared = Settings { clock, ..settings };
    let (mut bench, mut a, _) = observed();
    bench.hold(&mut a);
    let mut b = Contender::with(2, shared);
    bench.input(&mut b, acquire(Wait::No));
    bench.answer(&mut b);
    bench.time += 100;
    let now = bench.now();
    let observation = b.lease.observation(now).expect("it saw the record");
    assert_eq!(observation.proven_for, Span::from_millis(100));
    bench.time += TTL;
    // Of another machine: only what was proven then.
    let mut stranger = Contender::with(3, settings);
    bench.input(&mut stranger, Input::Observe { observation });
    bench.input(&mut stranger, acquire(Wait::No));
    bench.answer(&mut stranger);
    assert!(matches!(stranger.last(), Some(Event::Busy { .. })));
    // Of the same: the time since then, too.
    let mut neighbour = Contender::with(4, shared);
    bench.input(&mut neighbour, Input::Observe { observation });
    bench.input(&mut neighbour, acquire(Wait::No));
    assert!(matches!(neighbour.asks(), CallKind::Takeover { .. }));
    bench.answer(&mut neighbour);
    assert!(matches!(neighbour.last(), Some(Event::Acquired { takeover: true, .. })));
}

#[test]
fn a_unix_clock_of_an_observer_that_declared_no_bound_is_no_evidence() {
    let mut bench = Bench::new(Ends::ByContenders);
    let (mut a, mut b, mut c) =
        (Contender::new(1, BOUNDED), Contender::new(2, OBSERVED), Contender::new(3, BOUNDED));
    bench.hold(&mut a);
    bench.input(&mut b, acquire(Wait::No));
    bench.answer(&mut b);
    let mut now = bench.now();
    // Far behind, as nobody forbade it.
    now.wall = Some(Wall::from_millis(1));
    let observation = b.lease.observation(now).expect("it saw the record");
    bench.input(&mut c, Input::Observe { observation });
    bench.input(&mut c, acquire(Wait::No));
    assert!(matches!(c.asks(), CallKind::Acquire { .. }));
}

#[test]
fn an_observation_counts_once_however_often_it_is_taken_in() {
    let settings = Settings::new(Ttl::For(Span::from_millis(TTL)), OBSERVED);
    let settings = Settings { clock: Some(ClockId(5)), ..settings };
    let (mut bench, mut a, _) = observed();
    bench.hold(&mut a);
    let mut b = Contender::with(2, settings);
    bench.input(&mut b, acquire(Wait::No));
    bench.answer(&mut b);
    bench.time += TTL / 2;
    for _ in 0..5 {
        let now = bench.now();
        let observation = b.lease.observation(now).expect("it saw the record");
        bench.input(&mut b, Input::Observe { observation });
    }
    bench.input(&mut b, acquire(Wait::No));
    assert!(matches!(b.asks(), CallKind::Acquire { .. }));
}

#[test]
fn break_takes_exactly_the_record_that_was_shown() {
    let (mut bench, mut a, mut b) = observed();
    bench.hold(&mut a);
    let seen = bench.row.record(2, Instant::from_micros(0)).identity;
    bench.pass(&mut a, TTL / 2);
    bench.input(&mut b, Input::Break { seen });
    bench.answer(&mut b);
    assert!(matches!(b.last(), Some(Event::Busy { .. })), "it was renewed since");
    assert!(bench.holds(&mut a));
    let seen = bench.row.record(2, Instant::from_micros(0)).identity;
    bench.input(&mut b, Input::Break { seen });
    bench.answer(&mut b);
    assert!(matches!(b.last(), Some(Event::Acquired { .. })));
}

#[test]
fn a_waiting_contender_is_no_blind_poller() {
    let (mut bench, mut a, mut b) = observed();
    bench.hold(&mut a);
    bench.input(&mut b, acquire(Wait::For(Span::from_millis(TTL / 2))));
    bench.answer(&mut b);
    let mut polls = 0;
    let end = bench.time + TTL / 2;
    while b.lease.state() == State::Acquiring {
        bench.time = b.wake_at.expect("it looks again");
        assert!(bench.time <= end);
        bench.input(&mut b, Input::Tick);
        if b.call.is_some() {
            polls += 1;
            assert_eq!(b.asks(), CallKind::Read { consistent: false });
        }
        bench.answer(&mut b);
    }
    assert!((4..=12).contains(&polls), "{polls} polls of a tenth of the ttl each");
    assert!(matches!(b.last(), Some(Event::Busy { .. })));
}

#[test]
fn late_repeated_and_foreign_completions_change_nothing() {
    let (mut bench, mut a, _) = observed();
    bench.input(&mut a, acquire(Wait::No));
    let first = a.call.expect("it asks");
    bench.tell(&mut a, Outcome::Unknown);
    let again = Input::Completed { id: first.id, outcome: Outcome::Applied { fence: None } };
    bench.input(&mut a, again);
    assert!(!bench.holds(&mut a));
    bench.answer(&mut a);
    assert!(bench.holds(&mut a));
    let lost = Input::Completed { id: first.id, outcome: Outcome::Refused { current: None } };
    bench.input(&mut a, lost);
    assert!(bench.holds(&mut a));
}

#[test]
fn p13_every_input_is_answered() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bits = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..20_000 {
        let expiry = [OBSERVED, BOUNDED, Expiry::Store][round % 3];
        let mut settings = Settings::new(Ttl::For(Span::from_millis(10 + bits() % 5_000)), expiry);
        if settings.ttl == Ttl::For(Span::from_millis(10)) || bits() % 9 == 0 {
            settings.ttl = Ttl::Forever;
        }
        let Ok(config) = tenure_core::config::Config::new(settings) else { continue };
        let mut lease = tenure_core::lease::Lease::new(config);
        let mut last = None;
        for _ in 0..40 {
            let wild =
                |bits: u64| if bits & 7 == 0 { u64::MAX - bits % 3 } else { bits % 100_000_000 };
            let now = Now {
                mono: Instant::from_micros(wild(bits())),
                wall: (bits() % 5 > 0).then(|| Wall::from_micros(wild(bits()))),
                entropy: u128::from(bits() % 4),
            };
            let record = Record {
                holder: [Holder::Nobody, Holder::Us, Holder::OfferedToUs, Holder::Other]
                    [bits() as usize % 4],
                version: Version::from_bits(u128::from(bits() % 4)),
                identity: Identity(u128::from(bits() % 3)),
                fence: (bits() % 2 == 0).then_some(Fence(u64::MAX)),
                term: match bits() % 6 {
                    0 => Term::Over,
                    1 => Term::Observed { ttl: Span::from_micros(wild(bits())) },
                    2 => Term::Bounded {
                        ttl: Span::from_micros(wild(bits())),
                        expires_at: Wall::from_micros(wild(bits())),
                        max_clock_skew: Span::from_micros(wild(bits())),
                    },
                    3 => Term::WallOnly { expires_at: Wall::from_micros(wild(bits())) },
                    4 => Term::Resting { rest: Span::from_micros(wild(bits())), not_before: None },
                    _ => Term::Remaining {
                        left: (bits() % 3 > 0).then(|| Span::from_micros(wild(bits()))),
                    },
                },
            };
            let outcome = match bits() % 8 {
                0 => Outcome::Applied { fence: Some(Fence(bits())) },
                1 => Outcome::Refused { current: None },
                2 | 3 => Outcome::Refused { current: Some(record) },
                4 => Outcome::Found { record },
                5 => Outcome::Unknown,
                6 => Outcome::Unavailable,
                _ => Outcome::Denied,
            };
            let input = match bits() % 14 {
                0 => Input::Acquire { wait: Wait::Forever },
                1 => Input::Acquire { wait: Wait::For(Span::from_micros(wild(bits()))) },
                2 => Input::Acquire { wait: Wait::No },
                3 => Input::Release,
                4 => Input::Cancel,
                5 => Input::HandOver,
                6 => Input::Break { seen: record.identity },
                7 => Input::Renew {
                    terms: config.terms(Ttl::For(Span::from_micros(wild(bits())))).ok(),
                },
                8 => Input::Wake,
                9 => Input::Tick,
                _ => match last {
                    Some(id) => Input::Completed { id, outcome },
                    None => Input::Tick,
                },
            };
            let output = lease.handle(now, input);
            last = output.call.map(|call| call.id).or(last);
            assert!(output.wake_at.is_none_or(|at| at >= now.mono));
            let _ = lease.grant(now);
            let _ = lease.observation(now);
        }
    }
}
