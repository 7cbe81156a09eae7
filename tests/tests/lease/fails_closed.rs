//! P12: a refusal is never a free lease.

use super::*;

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
