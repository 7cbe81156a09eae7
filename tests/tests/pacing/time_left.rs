//! What it tells of the time that is left.

use super::*;

#[test]
fn what_is_observed_may_change_after_the_ttl_and_the_margin_from_when_it_was_first_seen() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    let event = a.meets(Wait::No, held_by_another());
    assert_eq!(retry_after(event), Some(micros((TTL + MARGIN) * 1_000 + 1)));
    a.micros += 400_000;
    let event = a.meets(Wait::No, held_by_another());
    assert_eq!(retry_after(event), Some(micros((TTL + MARGIN - 400) * 1_000 + 1)));
}

#[test]
fn what_the_store_ends_may_change_when_the_store_says() {
    let mut a = Exact::lasting_a_ttl(Expiry::Store);
    let left = Some(ms(700));
    assert_eq!(retry_after(a.meets(Wait::No, another(Term::Remaining { left }))), left);
    let event = a.meets(Wait::No, another(Term::Remaining { left: None }));
    assert_eq!(retry_after(event), None, "a lock");
    // Time that passes while it waits is counted from the reading.
    a.meets(Wait::For(ms(40)), another(Term::Remaining { left: Some(ms(300)) }));
    a.sleep();
    assert_eq!(retry_after(a.who.last()), Some(ms(260)));
}

#[test]
fn a_lock_of_another_ends_by_no_clock() {
    for term in [
        Term::Observed { ttl: Span::FOREVER },
        Term::Bounded {
            ttl: Span::FOREVER,
            expires_at: Wall::from_micros(u64::MAX),
            max_clock_skew: ms(50),
        },
        Term::Bounded {
            ttl: Span::FOREVER,
            expires_at: Wall::from_micros(0),
            max_clock_skew: ms(50),
        },
    ] {
        let mut a = Exact::lasting_a_ttl(Expiry::Bounded { max_clock_skew: ms(100) });
        assert_eq!(retry_after(a.meets(Wait::No, another(term))), None);
        a.micros += 1_000_000_000_000;
        assert_eq!(retry_after(a.meets(Wait::No, another(term))), None);
    }
}

#[test]
fn a_bound_shortens_what_is_told_where_it_ends_sooner_than_patience() {
    let expires_in = |left: Ms, theirs: Ms| Term::Bounded {
        ttl: ms(TTL),
        expires_at: Wall::from_micros(1_000_000_000 + left * 1_000),
        max_clock_skew: ms(theirs),
    };
    let told = |expiry, term| {
        let mut a = Exact::lasting_a_ttl(expiry);
        retry_after(a.meets(Wait::No, another(term)))
    };
    let bounded = Expiry::Bounded { max_clock_skew: ms(100) };
    assert_eq!(told(bounded, expires_in(500, 50)), Some(micros(600_001)), "the larger bound: ours");
    assert_eq!(told(bounded, expires_in(500, 300)), Some(micros(800_001)), "or theirs");
    let patience = Some(micros((TTL + MARGIN) * 1_000 + 1));
    assert_eq!(told(bounded, expires_in(9_000, 50)), patience);
    assert_eq!(told(OBSERVED, expires_in(500, 50)), patience, "no bound, no judgement by it");
    let by_wall = Term::WallOnly { expires_at: Wall::from_micros(1_000_500_000) };
    assert_eq!(told(bounded, by_wall), Some(micros(600_001)));
    assert_eq!(told(OBSERVED, by_wall), None);
}

#[test]
fn a_bound_is_passed_a_microsecond_after_it_and_not_before() {
    for term in [
        Term::WallOnly { expires_at: Wall::from_micros(1_000_500_000) },
        Term::Bounded {
            ttl: ms(TTL),
            expires_at: Wall::from_micros(1_000_500_000),
            max_clock_skew: ms(50),
        },
    ] {
        for (waited, takes) in [(600_000, false), (600_001, true)] {
            let mut a = Exact::lasting_a_ttl(Expiry::Bounded { max_clock_skew: ms(100) });
            a.micros = waited;
            a.meets(Wait::No, another(term));
            let taken = a.who.call.is_some_and(|c| matches!(c.kind, CallKind::Takeover { .. }));
            assert_eq!(taken, takes);
        }
    }
}

#[test]
fn a_unix_time_that_is_not_over_yet_is_held_where_it_can_be_judged_and_unjudgeable_elsewhere() {
    let term = Term::WallOnly { expires_at: Wall::from_micros(2_000_000_000) };
    for (expiry, expected) in [
        (Expiry::Bounded { max_clock_skew: ms(100) }, BusyBecause::Held),
        (OBSERVED, BusyBecause::Unjudgeable),
    ] {
        match Exact::lasting_a_ttl(expiry).meets(Wait::No, another(term)) {
            Some(Event::Busy { because, .. }) => assert_eq!(because, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_rest_ends_when_its_wall_or_patience_says_whichever_is_sooner() {
    let resting = |rest, not_before| Record {
        identity: Identity(5),
        term: Term::Resting { rest, not_before },
        ..Record::FREE
    };
    let told = |record| {
        let mut a = Exact::lasting_a_ttl(OBSERVED);
        let event = a.meets(Wait::No, record);
        assert!(matches!(event, Some(Event::Busy { because: BusyBecause::Resting, .. })));
        retry_after(event)
    };
    // A rest of 1,000 ms is waited out like a ttl.
    let patience = Some(micros((TTL + MARGIN) * 1_000 + 1));
    assert_eq!(told(resting(ms(TTL), None)), patience);
    assert_eq!(told(resting(ms(TTL), Some(Wall::from_micros(1_000_200_000)))), Some(ms(200)));
    assert_eq!(told(resting(ms(TTL), Some(Wall::from_micros(1_009_000_000)))), patience);
    // None at all is none to wait for.
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.meets(Wait::No, resting(Span::ZERO, None));
    assert!(matches!(a.who.asks(), CallKind::Takeover { .. }));
}

#[test]
fn a_released_name_rests_for_what_is_left_of_its_least_hold_since_the_acquire_was_sent() {
    let mut a = Exact::new(Settings { min_hold: ms(500), ..settings(OBSERVED) });
    a.input(acquire(Wait::No));
    a.micros += 100_000;
    a.tell(Outcome::Applied { fence: None });
    a.micros += 50_000;
    a.input(Input::Release);
    let CallKind::Release { rest, .. } = a.who.asks() else { panic!("{:?}", a.who.asks()) };
    assert_eq!(rest, ms(350));
}
