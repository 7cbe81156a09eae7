//! Seeds × modes of the random walk. `TENURE_SEEDS` sets how many seeds each mode is walked, `TENURE_FIRST_SEED`
//! from which one; `TENURE_VERBOSE` prints every step.

use tenure_tests::walk::{Mode, Tally, walk};

fn seeds() -> u64 {
    std::env::var("TENURE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000)
}

fn first_seed() -> u64 {
    std::env::var("TENURE_FIRST_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn walk_all(mode: Mode) {
    let mut tally = Tally::default();
    for seed in first_seed()..first_seed() + seeds() {
        match walk(seed, mode, 600) {
            Ok(one) => tally.add(&one),
            Err(broken) => panic!("{broken}"),
        }
    }
    println!("{mode:?}: {} seeds, {tally:?}", seeds());
    // A walk in which these do not happen proves nothing.
    for (what, count) in [
        ("acquired", tally.acquired),
        ("renewed", tally.renewed),
        ("healed", tally.healed),
        ("lost", tally.lost),
        ("released", tally.released),
        ("handed over", tally.handed_over),
        ("busy", tally.busy),
        ("cancelled", tally.cancelled),
        ("crashed", tally.crashes),
    ] {
        assert!(count > 0, "{mode:?}: nothing was ever {what}");
    }
    if matches!(mode, Mode::Observed | Mode::Bounded | Mode::Mixed) {
        assert!(tally.takeovers > 0, "{mode:?}: no takeover");
    }
}

#[test]
fn promises_hold_when_expiry_is_observed() {
    walk_all(Mode::Observed);
}

#[test]
fn promises_hold_when_expiry_is_bounded() {
    walk_all(Mode::Bounded);
}

#[test]
fn promises_hold_when_only_some_declare_a_bound() {
    walk_all(Mode::Mixed);
}

#[test]
fn promises_hold_when_the_store_ends_records() {
    walk_all(Mode::Store);
}

#[test]
fn promises_hold_with_one_version_for_a_claim() {
    walk_all(Mode::StorePerClaim);
}
