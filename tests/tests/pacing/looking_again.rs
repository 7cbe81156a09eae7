//! When it looks again.

use super::*;

#[test]
fn contenders_that_saw_one_record_come_back_within_a_poll_and_not_in_step() {
    let pause = |luck| {
        let mut a = Exact::lasting_a_ttl(OBSERVED);
        a.luck = luck;
        a.meets(Wait::Forever, held_by_another());
        a.sleep()
    };
    assert_eq!(pause(LEAST_LUCK), ms(POLL / 2));
    assert_eq!(pause(u16::MAX / 2 + 1), ms(POLL * 3 / 4));
    assert!(pause(MOST_LUCK) < ms(POLL) && pause(MOST_LUCK) > ms(POLL - 1));
}

#[test]
fn when_a_record_ends_within_a_poll_its_contenders_write_then_and_not_in_step() {
    let pause = |luck, left| {
        let mut a = Exact::lasting_a_ttl(Expiry::Store);
        a.luck = luck;
        a.meets(Wait::Forever, another(Term::Remaining { left: Some(left) }));
        let pause = a.sleep();
        assert!(matches!(a.who.asks(), CallKind::Acquire { .. }));
        pause
    };
    assert_eq!(pause(LEAST_LUCK, ms(70)), ms(70));
    assert!(pause(MOST_LUCK, ms(70)) < micros(82_500));
    assert!(pause(MOST_LUCK, ms(70)) > micros(82_400));
    assert_eq!(pause(LEAST_LUCK, ms(POLL)), ms(POLL), "within, not after it");
    assert_eq!(pause(LEAST_LUCK, ms(POLL + 1)), ms(POLL / 2));
    assert_eq!(pause(LEAST_LUCK, Span::ZERO), ms(1), "never in a hot loop");
}

#[test]
fn a_contender_reads_while_nothing_can_have_changed_and_writes_when_it_may() {
    let mut a = Exact::lasting_a_ttl(OBSERVED);
    a.meets(Wait::Forever, held_by_another());
    let mut reads = 0;
    loop {
        a.sleep();
        match a.who.asks() {
            CallKind::Read { consistent: false } => reads += 1,
            CallKind::Takeover { .. } => break,
            other => panic!("{other:?}"),
        }
        a.tell(Outcome::Found { record: held_by_another() });
    }
    assert_eq!(a.micros, (TTL + MARGIN) * 1_000 + 1);
    assert_eq!(reads, 19, "each half a poll after the other, with the least luck");
}

#[test]
fn a_record_is_taken_a_microsecond_after_its_ttl_and_the_margin_and_not_before() {
    for (waited, takes) in
        [(TTL + MARGIN) * 1_000, (TTL + MARGIN) * 1_000 + 1].into_iter().zip([false, true])
    {
        let mut a = Exact::lasting_a_ttl(OBSERVED);
        a.meets(Wait::No, held_by_another());
        a.micros += waited;
        a.input(acquire(Wait::No));
        assert_eq!(matches!(a.who.asks(), CallKind::Takeover { .. }), takes);
    }
}
