//! Evidence from elsewhere.

use super::*;

#[test]
fn what_another_process_saw_counts_where_it_is_more_than_what_was_seen_here() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.meets(Wait::No, held_by_another());
    a.micros += 100_000;
    a.input(observed_elsewhere(ms(50), None, 0));
    assert_eq!(still_to_wait(&mut a), TTL + MARGIN - 100, "it knew more itself");
    a.input(observed_elsewhere(ms(300), None, 0));
    assert_eq!(still_to_wait(&mut a), TTL + MARGIN - 300);
    a.micros += 100_000;
    assert_eq!(still_to_wait(&mut a), TTL + MARGIN - 400, "and it goes on counting from there");
    a.input(observed_elsewhere(ms(350), None, 0));
    assert_eq!(still_to_wait(&mut a), TTL + MARGIN - 400);
}

#[test]
fn what_was_seen_of_another_record_is_no_evidence_for_this_one() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    let renewed = Record { identity: Identity(7), ..held_by_another() };
    a.meets(Wait::No, renewed);
    a.input(observed_elsewhere(ms(900), None, 0));
    let left = retry_after(a.meets(Wait::No, renewed));
    assert_eq!(left, Some(micros((TTL + MARGIN) * 1_000 + 1)));
}

#[test]
fn a_shared_clock_counts_on_and_one_that_is_not_known_to_be_shared_does_not() {
    let waits = |ours, theirs, read_at| {
        let mut a = Exact::new(Settings { clock: ours, ..settings(OBSERVED) });
        a.micros = 500_000;
        a.input(observed_elsewhere(ms(100), theirs, read_at));
        still_to_wait(&mut a)
    };
    let (one, other) = (Some(ClockId(1)), Some(ClockId(2)));
    assert_eq!(waits(one, one, 200_000), TTL + MARGIN - 400);
    assert_eq!(waits(one, one, 500_000), TTL + MARGIN - 100);
    assert_eq!(waits(one, one, 500_001), TTL + MARGIN - 100, "a reading from the future");
    assert_eq!(waits(one, other, 200_000), TTL + MARGIN - 100);
    assert_eq!(waits(None, None, 200_000), TTL + MARGIN - 100);
}

#[test]
fn under_a_bound_the_unix_clocks_count_on_less_both_their_errors() {
    let bounded = Expiry::Bounded { max_clock_skew: ms(100) };
    let mut observer = Exact::lasting_a_ttl(bounded);
    observer.meets(Wait::No, held_by_another());
    observer.micros += 50_000;
    let now = observer.now();
    let observation = observer.who.lease.observation(now).expect("it saw the record");
    let mut a = Exact::lasting_a_ttl(bounded);
    a.micros = 50_000 + 600_000;
    a.input(Input::Observe { observation });
    assert_eq!(still_to_wait(&mut a), TTL + MARGIN - 50 - (600 - 2 * 100));
}

#[test]
fn only_what_patience_can_end_is_worth_telling_another_process() {
    let observation = |term| {
        let mut a = Exact::lasting_a_ttl(OBSERVED);
        a.meets(Wait::No, another(term));
        let now = a.now();
        a.who.lease.observation(now).is_some()
    };
    assert!(observation(Term::Observed { ttl: ms(TTL) }));
    assert!(!observation(Term::Remaining { left: Some(ms(TTL)) }));
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    let now = a.now();
    assert_eq!(a.who.lease.observation(now), None, "it saw nothing");
}

#[test]
fn to_break_a_record_is_to_take_over_from_another_whatever_its_term() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.input(Input::Break { seen: Identity(0xb0b) });
    assert!(matches!(a.who.asks(), CallKind::Takeover { seen: Identity(0xb0b), .. }));
    let event = a.tell(Outcome::Applied { fence: None });
    assert!(matches!(event, Some(Event::Acquired { takeover: true, .. })));
}

#[test]
fn a_holder_that_replaces_what_was_its_own_took_over_from_nobody() {
    let mut bench = Bench::new(Ends::ByContenders);
    let mut a = Contender::new(1, OBSERVED);
    bench.input(&mut a, acquire(Wait::Forever));
    bench.land(&a);
    bench.input(&mut a, Input::Cancel);
    bench.input(&mut a, acquire(Wait::No));
    bench.tell(&mut a, Outcome::Unknown);
    bench.answer(&mut a);
    assert!(matches!(a.last(), Some(Event::Acquired { takeover: false, .. })), "{:?}", a.events);
}

#[test]
fn a_state_says_what_is_being_done() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    assert_eq!(a.who.lease.state(), State::Idle);
    a.input(acquire(Wait::No));
    assert_eq!(a.who.lease.state(), State::Acquiring);
    a.tell(Outcome::Applied { fence: None });
    assert_eq!(a.who.lease.state(), State::Held);
    a.input(Input::Release);
    assert_eq!(a.who.lease.state(), State::Releasing);
    let CallKind::Release { ours, .. } = a.who.asks() else { panic!("{:?}", a.who.asks()) };
    assert_eq!(ours.as_slice().len(), 1);
    assert_ne!(ours, OurVersions::one(Version::NONE));
    a.tell(Outcome::Applied { fence: None });
    assert_eq!(a.who.lease.state(), State::Idle);
}
