//! Seeds × worlds of the random walk. `TENURE_SEEDS` sets how many seeds each kind of world is walked,
//! `TENURE_FIRST_SEED` from which one; with `TENURE_VERBOSE` every step is printed. A broken promise is told
//! with its seed and the shortest schedule found.

use core::fmt::Write as _;
use std::time::Instant;

use tenure_sim::shrink;
use tenure_sim::walk::{Mode, Tally, shortest_breach, walk, walk_aloud};

const STEPS: u64 = 600;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

fn walk_all(mode: Mode) -> Tally {
    let (first, seeds) = (setting("TENURE_FIRST_SEED", 0), setting("TENURE_SEEDS", 20_000));
    let aloud = std::env::var_os("TENURE_VERBOSE").is_some();
    let mut tally = Tally::default();
    let began = Instant::now();
    for seed in first..first + seeds {
        let walked = if aloud { walk_aloud(seed, mode, STEPS) } else { walk(seed, mode, STEPS) };
        match walked {
            Ok(one) => tally.add(&one),
            Err(breach) => panic!("{breach}\n{}", schedule(seed, mode)),
        }
    }
    let rate = tally.steps as f64 / began.elapsed().as_secs_f64() / 1e6;
    println!("measured: {mode:?}: {seeds} seeds, {rate:.1} million steps a second, {tally:?}");
    if std::env::var_os("TENURE_FIRST_SEED").is_some() {
        // One seed is looked at, and proves nothing.
        return tally;
    }
    // A walk in which these do not happen proves nothing.
    for (what, count) in [
        ("acquired", tally.acquired),
        ("renewed", tally.renewed),
        ("healed", tally.healed),
        ("lost", tally.lost),
        ("found taken", tally.taken),
        ("released", tally.released),
        ("handed over", tally.handed_over),
        ("busy", tally.busy),
        ("cancelled", tally.cancelled),
        ("crashed", tally.crashes),
        ("turned away by the guarded resource", tally.turned_away),
    ] {
        assert!(count > 0, "{mode:?}: nothing was ever {what}");
    }
    tally
}

/// What a person wants to read: the shortest schedule that breaks it.
fn schedule(seed: u64, mode: Mode) -> String {
    let Some((world, actions)) = shortest_breach(seed, mode, STEPS) else {
        return "it breaks only once the faults stop".to_owned();
    };
    let mut text = String::new();
    for action in &actions {
        writeln!(text, "  {action:?}").expect("a string grows");
    }
    match shrink::run(&world, &actions) {
        Err((_, broken)) => text + &broken.to_string(),
        Ok(()) => text + "…which breaks nothing when run again",
    }
}

fn with_takeovers(mode: Mode) {
    let tally = walk_all(mode);
    let one = std::env::var_os("TENURE_FIRST_SEED").is_some();
    assert!(one || tally.takeovers > 0, "{mode:?}: no takeover");
}

#[test]
fn promises_hold_when_expiry_is_observed() {
    with_takeovers(Mode::Observed);
}

#[test]
fn promises_hold_when_expiry_is_bounded() {
    with_takeovers(Mode::Bounded);
}

#[test]
fn promises_hold_when_only_some_declare_a_bound() {
    with_takeovers(Mode::Mixed);
}

#[test]
fn promises_hold_beside_a_client_that_goes_by_the_unix_clock_alone() {
    with_takeovers(Mode::ByWall);
}

#[test]
fn promises_hold_when_the_store_ends_records() {
    walk_all(Mode::Store);
}

#[test]
fn promises_hold_with_one_version_for_a_claim() {
    walk_all(Mode::StorePerClaim);
}

#[test]
fn fencing_holds_when_a_failover_forgets() {
    walk_all(Mode::Failover);
}

#[test]
fn promises_hold_when_some_hold_for_ever() {
    with_takeovers(Mode::Forever);
}

#[test]
fn fencing_holds_when_records_are_deleted_and_broken() {
    with_takeovers(Mode::Deleted);
}

#[test]
fn fencing_holds_when_holders_are_cloned() {
    with_takeovers(Mode::Cloned);
}

#[test]
fn the_same_seed_walks_the_same_way() {
    for mode in Mode::ALL {
        let one = walk(7, mode, STEPS).map_err(|breach| breach.to_string());
        assert_eq!(one, walk(7, mode, STEPS).map_err(|breach| breach.to_string()));
    }
}
