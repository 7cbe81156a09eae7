//! What leases offer beside the numbered promises.

use super::*;

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
