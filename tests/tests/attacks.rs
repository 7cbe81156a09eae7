//! What a deliberate attack found: each story broke its promise once.

use tenure_core::config::{Expiry, Settings, Ttl};
use tenure_core::io::{Call, CallKind, Event, Input, OurVersions, Outcome, Wait};
use tenure_core::lease::State;
use tenure_core::memory::Ends;
use tenure_core::time::{Instant, Span};
use tenure_tests::bench::{Bench, Contender, TTL};

fn renew_to(who: &Contender, ttl: Ttl) -> Input {
    Input::Renew { terms: who.lease.config().terms(ttl).ok() }
}

fn millis(ms: u64) -> Ttl {
    Ttl::For(Span::from_millis(ms))
}

/// The store of one value: it compares the first version only, and shows nothing when it refuses.
fn as_one_value(bench: &mut Bench, who: &Contender) -> Outcome {
    let call = who.call.expect("no call waits");
    let first = |ours: OurVersions| ours.as_slice().first().map_or(ours, |v| OurVersions::one(*v));
    let kind = match call.kind {
        CallKind::Renew { attempt, terms, ours } => {
            CallKind::Renew { attempt, terms, ours: first(ours) }
        }
        CallKind::HandOver { attempt, terms, ours } => {
            CallKind::HandOver { attempt, terms, ours: first(ours) }
        }
        CallKind::Release { ours, rest } => CallKind::Release { ours: first(ours), rest },
        other => other,
    };
    let now = Instant::from_micros(bench.time * 1_000);
    match bench.row.carry_out(who.id, Some(9), &Call { kind, ..call }, now) {
        Outcome::Refused { .. } => Outcome::Refused { current: None },
        outcome => outcome,
    }
}

#[test]
fn p1_a_late_renewal_does_not_find_the_value_again_that_it_names() {
    let mut bench = Bench::new(Ends::ByStore);
    let (mut one, mut two) = (Contender::per_claim(1), Contender::per_claim(2));
    bench.hold(&mut one);
    // To a shorter ttl: slow, and its connection breaks.
    let shorter = renew_to(&one, millis(100));
    bench.input(&mut one, shorter);
    let late = one.call.expect("sent");
    // Back to the former one: answered.
    let longer = renew_to(&one, millis(TTL));
    bench.input(&mut one, longer);
    bench.tell(&mut one, Outcome::Unknown);
    bench.answer(&mut one);
    bench.time += 30;
    bench.land_again(1, &late);
    bench.time += 110;
    bench.input(&mut two, Input::Acquire { wait: Wait::No });
    bench.answer(&mut two);
    assert!(!(bench.holds(&mut one) && bench.holds(&mut two)));
}

#[test]
fn p5_a_late_renewal_to_a_longer_ttl_does_not_cost_the_lease() {
    let mut bench = Bench::new(Ends::ByStore);
    let mut one = Contender::per_claim(1);
    bench.hold(&mut one);
    let longer = renew_to(&one, millis(60 * TTL));
    bench.input(&mut one, longer);
    let late = one.call.expect("sent");
    let same = renew_to(&one, millis(TTL));
    bench.input(&mut one, same);
    bench.tell(&mut one, Outcome::Unknown);
    bench.answer(&mut one);
    bench.time += 30;
    bench.land_again(1, &late);
    bench.pass(&mut one, 5 * TTL);
    assert!(bench.holds(&mut one), "{:?}", one.events);
}

#[test]
fn p8_a_hand_over_whose_request_was_lost_succeeds_in_few_calls() {
    let mut bench = Bench::new(Ends::ByStore);
    let mut one = Contender::per_claim(1);
    bench.hold(&mut one);
    bench.input(&mut one, Input::HandOver);
    bench.tell(&mut one, Outcome::Unknown);
    let mut calls = 0;
    while one.last() != Some(Event::HandedOver) {
        if one.call.is_none() {
            bench.time = one.wake_at.expect("it goes on").max(bench.time);
            bench.input(&mut one, Input::Tick);
        }
        if one.call.is_some() {
            calls += 1;
            let outcome = as_one_value(&mut bench, &one);
            bench.tell(&mut one, outcome);
        }
        assert!(calls < 5, "{:?}", one.events);
    }
}

#[test]
fn p8_undoing_a_lock_whose_acquire_was_sent_twice_ends() {
    let mut bench = Bench::new(Ends::ByStore);
    let base = *Contender::per_claim(1).lease.config().settings();
    let mut one = Contender::with(1, Settings { ttl: Ttl::Forever, ..base });
    bench.input(&mut one, Input::Acquire { wait: Wait::Forever });
    bench.tell(&mut one, Outcome::Unknown);
    bench.answer(&mut one);
    assert!(bench.holds(&mut one));
    bench.input(&mut one, Input::Release);
    bench.answer(&mut one);
    assert!(one.events.contains(&Event::Released));
    bench.pass(&mut one, 120_000);
    assert_eq!(one.lease.state(), State::Idle);
}

#[test]
fn p5_a_renewal_that_was_sent_again_is_renewed_while_there_is_time() {
    let mut bench = Bench::new(Ends::ByContenders);
    let mut one = Contender::with(1, Settings::new(millis(30_000), Expiry::Observed));
    bench.hold(&mut one);
    let start = bench.time;
    // Whatever is sent is lost at once.
    while bench.time < start + 29_000 {
        bench.time = one.wake_at.expect("held").max(bench.time);
        bench.input(&mut one, Input::Tick);
        while one.call.is_some() {
            bench.tell(&mut one, Outcome::Unknown);
        }
    }
    while !matches!(one.last(), Some(Event::Renewed { .. })) {
        bench.time = one.wake_at.expect("held").max(bench.time);
        bench.input(&mut one, Input::Tick);
        bench.answer(&mut one);
    }
    let now = bench.now();
    let left = one.lease.grant(now).expect("held").valid_for.as_millis_up();
    let end = bench.time + left;
    while one.call.is_none() {
        bench.time = one.wake_at.expect("held").max(bench.time);
        bench.input(&mut one, Input::Tick);
    }
    assert!(bench.time + left / 3 < end, "{} of {left} ms are left for it", end - bench.time);
}

#[test]
fn p1_a_break_that_failed_is_not_tried_by_a_later_acquire() {
    let mut bench = Bench::new(Ends::ByStore);
    let (mut one, mut two) = (Contender::per_claim(1), Contender::per_claim(2));
    bench.hold(&mut one);
    let seen = bench.row.record(2, Instant::from_micros(bench.time * 1_000)).identity;
    bench.input(&mut two, Input::Break { seen });
    bench.tell(&mut two, Outcome::Denied);
    bench.pass(&mut one, 3 * TTL);
    bench.pass(&mut two, 0);
    bench.input(&mut two, Input::Acquire { wait: Wait::No });
    bench.answer(&mut two);
    assert!(bench.holds(&mut one) && !bench.holds(&mut two));
}

#[test]
fn p4_what_is_known_to_be_applied_is_taken_back_however_late_that_is_known() {
    let mut bench = Bench::new(Ends::ByStore);
    let base = Settings::new(millis(TTL), Expiry::Store);
    let call_timeout = Some(Span::from_millis(10 * TTL));
    let mut one = Contender::with(1, Settings { call_timeout, ..base });
    bench.input(&mut one, Input::Acquire { wait: Wait::No });
    bench.input(&mut one, Input::Cancel);
    bench.time += 5 * TTL / 2;
    bench.input(&mut one, Input::Tick);
    let outcome = bench.land(&one);
    bench.tell(&mut one, outcome);
    bench.answer(&mut one);
    assert_eq!(bench.holder(), None);
}

#[test]
fn a_renewal_to_a_shorter_ttl_is_no_risk() {
    let mut bench = Bench::new(Ends::ByContenders);
    let mut one = Contender::new(1, Expiry::Observed);
    bench.hold(&mut one);
    let shorter = renew_to(&one, millis(100));
    bench.input(&mut one, shorter);
    // Looked at before the reply has come.
    bench.input(&mut one, Input::Tick);
    bench.answer(&mut one);
    bench.pass(&mut one, 20);
    assert!(!one.events.iter().any(|event| matches!(event, Event::AtRisk { .. })));
}
