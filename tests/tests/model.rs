//! The exhaustive searches: each visits every state of its world and finds no broken promise. They print how
//! many states that were. With `TENURE_LARGE` the bounds are wider, and a search takes minutes, not seconds.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use stateright::{Checker, Model};
use tenure_core::config::{Expiry, Versions};
use tenure_core::time::Span;
use tenure_sim::shape::{Telling, fingerprint};
use tenure_sim::world::Shows;
use tenure_tests::model::{Search, Seen, State};

const SKEW: Expiry = Expiry::Bounded { max_clock_skew: Span::from_millis(400) };

fn large() -> bool {
    std::env::var_os("TENURE_LARGE").is_some()
}

/// What must have happened, or the search proved nothing.
type Reached = fn(&Seen) -> [u64; 4];

/// Somebody holds, a renewal is applied, a grant is lost, a release is confirmed.
fn held_and_released(seen: &Seen) -> [u64; 4] {
    [&seen.acquired, &seen.renewed, &seen.lost, &seen.released].map(|n| n.load(Ordering::Relaxed))
}

/// The same with a takeover and the healing of a lost reply.
fn taken_and_healed(seen: &Seen) -> [u64; 4] {
    [&seen.acquired, &seen.takeovers, &seen.healed, &seen.released]
        .map(|n| n.load(Ordering::Relaxed))
}

/// Of promptly answered calls: somebody holds, renews and hands over by a release.
fn held_in_turn(seen: &Seen) -> [u64; 4] {
    [&seen.acquired, &seen.renewed, &seen.released, &seen.acquired]
        .map(|n| n.load(Ordering::Relaxed))
}

fn search(name: &str, search: Search, reached: Reached) -> usize {
    let began = Instant::now();
    // A search that does not end must not look like one that found nothing.
    let patience = Duration::from_secs(if large() { 3 * 3_600 } else { 1_200 });
    let checker = search.checker().threads(2).timeout(patience).spawn_bfs().join();
    let states = checker.unique_state_count();
    println!(
        "measured: {name}: {states} states, {} steps, depth {}, {:.1} s, {:?}",
        checker.state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f64(),
        checker.model().seen
    );
    let broken: Vec<_> = checker.discoveries().into_iter().collect();
    for (promise, path) in &broken {
        println!("{name} breaks {promise}:");
        for (_, action) in path.clone().into_vec() {
            println!("  {action:?}");
        }
    }
    assert!(broken.is_empty(), "{name} breaks promises");
    assert!(checker.is_done(), "{name}: not done after {patience:?}");
    let reached = reached(&checker.model().seen);
    assert!(reached.iter().all(|count| *count > 0), "{name} never got there: {reached:?}");
    states
}

fn two(expiry: Expiry) -> Search {
    Search::new(expiry)
}

/// Everything at once for one contender, and P4 to the grain: how long it looks for what it gave up.
#[test]
fn one_contender_under_every_fault() {
    let base = two(Expiry::Observed);
    let telling = Telling { orphans: true, ..base.telling };
    let doubts = vec![if large() { 3 } else { 1 }];
    let alone = Search {
        contenders: 1,
        doubts,
        late: true,
        hasty: true,
        tries_once: true,
        telling,
        ..base
    };
    search("one contender, every fault", alone, held_and_released);
}

/// Both lose requests and replies, and hear of it late or at once.
#[test]
fn two_contenders_with_lost_late_and_ambiguous_messages() {
    let doubts = if large() { vec![1] } else { vec![1, 0] };
    let both = Search {
        doubts,
        strays: 0,
        duplicates: false,
        refusals: false,
        late: true,
        ..two(Expiry::Observed)
    };
    search("two contenders, lost and ambiguous", both, taken_and_healed);
}

/// What was given up lands late, or twice.
#[test]
fn two_contenders_of_whom_one_leaves_strays() {
    let strays = Search {
        doubts: vec![1, 0],
        duplicates: large(),
        refusals: false,
        ..two(Expiry::Observed)
    };
    search("two contenders, strays", strays, taken_and_healed);
}

/// Processes are late, and acquire anew before what they gave up is gone.
#[test]
fn two_contenders_that_are_late_and_hasty() {
    let late = Search { doubts: vec![0], late: true, hasty: true, ..two(Expiry::Observed) };
    search("two contenders, late and hasty", late, held_and_released);
}

#[test]
fn two_contenders_that_crash() {
    let crash = Search { doubts: vec![0], crashes: true, late: true, ..two(Expiry::Observed) };
    search("two contenders, crashes", crash, |seen| {
        [&seen.acquired, &seen.takeovers, &seen.lost, &seen.released]
            .map(|n| n.load(Ordering::Relaxed))
    });
}

/// Clocks run up to 20 % slow or fast, differently in every grain.
#[test]
fn two_contenders_whose_clocks_drift() {
    let drift = Search {
        doubts: if large() { vec![1, 0] } else { vec![0] },
        strays: 0,
        duplicates: false,
        refusals: false,
        crashes: true,
        drift: true,
        late: true,
        telling: Telling { grain: 400_000, ..two(Expiry::Observed).telling },
        ..two(Expiry::Observed)
    };
    search("two contenders, drift and crashes", drift, held_and_released);
}

#[test]
fn two_contenders_of_different_ttls() {
    let ttls = Search { doubts: vec![0], ttls: vec![2, 3], late: true, ..two(Expiry::Observed) };
    search("two contenders, two ttls", ttls, taken_or_lost);
}

fn taken_or_lost(seen: &Seen) -> [u64; 4] {
    [&seen.acquired, &seen.renewed, &seen.lost, &seen.takeovers].map(|n| n.load(Ordering::Relaxed))
}

#[test]
fn two_contenders_who_try_once() {
    let once = Search { doubts: vec![0], tries_once: true, late: true, ..two(Expiry::Observed) };
    search("two contenders, one try", once, |seen| {
        [&seen.acquired, &seen.busy, &seen.takeovers, &seen.released]
            .map(|n| n.load(Ordering::Relaxed))
    });
}

#[test]
fn two_contenders_who_hand_over() {
    let hand_over =
        Search { doubts: vec![0], hand_over: true, late: true, ..two(Expiry::Observed) };
    search("two contenders, hand-over", hand_over, |seen| {
        [&seen.acquired, &seen.handed_over, &seen.lost, &seen.takeovers]
            .map(|n| n.load(Ordering::Relaxed))
    });
}

#[test]
fn two_contenders_with_clocks_within_a_bound() {
    let bounded = Search { doubts: vec![0], late: true, ..two(SKEW) };
    search("two contenders, bounded", bounded, taken_or_lost);
}

#[test]
fn two_contenders_at_a_store_that_ends_records() {
    for (name, versions) in
        [("per attempt", Versions::PerAttempt), ("per claim", Versions::PerClaim)]
    {
        let doubts = if large() { vec![1] } else { vec![1, 0] };
        let store = Search {
            versions,
            doubts,
            duplicates: false,
            refusals: false,
            late: large(),
            shows: Shows::Acquires,
            ..two(Expiry::Store)
        };
        search(&format!("two contenders, ended by the store, {name}"), store, held_and_released);
    }
}

#[test]
fn three_contenders() {
    let three = Search {
        contenders: 3,
        doubts: vec![0],
        most_fences: if large() { None } else { Some(3) },
        refusals: large(),
        duplicates: large(),
        ..two(Expiry::Observed)
    };
    search("three contenders", three, held_in_turn);
}

/// P6 and the end of undoing, from every state: everybody else dies, or everybody gives up, and the name is
/// won within the stored ttl, both margins and one poll.
#[test]
fn from_every_state_the_name_is_won_within_the_bound() {
    let heals = Search {
        doubts: if large() { vec![1, 0] } else { vec![0] },
        duplicates: large(),
        refusals: large(),
        crashes: true,
        late: true,
        heals: true,
        ..two(Expiry::Observed)
    };
    search("from every state a takeover in time", heals, |seen| {
        [&seen.acquired, &seen.takeovers, &seen.lost, &seen.released]
            .map(|n| n.load(Ordering::Relaxed))
    });
}

/// The reductions are not trusted: the same small world with and without them.
#[test]
fn the_verdict_is_the_same_without_reductions() {
    let world = |telling| Search {
        most_fences: Some(if large() { 4 } else { 2 }),
        doubts: vec![0],
        duplicates: false,
        late: true,
        telling,
        ..two(Expiry::Observed)
    };
    let reduced = two(Expiry::Observed).telling;
    let full = Telling { any_order: false, dead_are_one: false, orphans: true, ..reduced };
    let fewer = search("reduced", world(reduced), held_and_released);
    let more = search("not reduced", world(full), held_and_released);
    assert!(fewer < more, "the reductions reduce nothing");
}

/// Two states that are told alike must behave alike: their next states are told alike too. Of the exact
/// telling always; of the reduced one, how often not is printed.
#[test]
fn states_that_are_told_alike_behave_alike() {
    let base = two(Expiry::Observed);
    let exact = Telling { any_order: false, dead_are_one: false, orphans: true, ..base.telling };
    for (name, contenders, telling) in [
        ("exact", 1, exact),
        ("exact", 2, exact),
        ("reduced", 1, base.telling),
        ("reduced", 2, base.telling),
    ] {
        let search = Search {
            contenders,
            hasty: true,
            late: true,
            telling,
            ..Search::new(Expiry::Observed)
        };
        let (pairs, differ) = compare(&search, if large() { 200_000 } else { 15_000 });
        println!(
            "measured: {name}, {contenders} contenders: {pairs} pairs told alike, {differ} behave differently"
        );
        assert!(pairs > 1_000, "too few pairs to tell");
        // Where a little is given up on purpose, it must stay little.
        let most = if name == "exact" { 0 } else { pairs / 10 };
        assert!(differ <= most, "{differ} of {pairs} pairs differ");
    }
}

fn compare(search: &Search, most: usize) -> (usize, usize) {
    let next = |state: &State| -> Vec<State> {
        let mut actions = Vec::new();
        search.actions(state, &mut actions);
        actions.into_iter().filter_map(|action| search.next_state(state, action)).collect()
    };
    let tell = |state: &State| fingerprint(&state.world, search.telling);
    let told = |states: &[State]| states.iter().map(tell).collect::<BTreeSet<u128>>();
    let mut known: HashMap<u128, BTreeSet<u128>> = HashMap::new();
    let mut queue: VecDeque<State> = search.init_states().into();
    let (mut pairs, mut differ) = (0, 0);
    while let Some(state) = queue.pop_front().filter(|_| known.len() < most) {
        let after = next(&state);
        let behaviour = told(&after);
        match known.get(&tell(&state)) {
            Some(other) => {
                pairs += 1;
                differ += usize::from(*other != behaviour);
            }
            None => {
                known.insert(tell(&state), behaviour);
                queue.extend(after);
            }
        }
    }
    (pairs, differ)
}
