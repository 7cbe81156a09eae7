//! The checkers are checked: each mutant of the core breaks one rule, and the random walk must catch
//! it. The mutants are made in a copy of the core under `target/`, so that the shipped one stays free
//! of them: a rule is an expression of its source, and a fault what stands there instead.

use core::fmt::Write as _;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Mutant {
    name: &'static str,
    /// File, a piece of it with the rule between `«` and `»`, and the fault.
    edits: &'static [(&'static str, &'static str, &'static str)],
}

const OBSERVED_LONG_ENOUGH: &str = "«self.stood_for(sight) > ttl.plus(self.config.margin(ttl))»";
const TO_ASKED: &str =
    "Phase::Acquiring(acquiring) => self.asked(now, acquiring, flight, «outcome»),";

macro_rules! mutants {
    ($($name:ident { $($file:literal: $rule:expr => $fault:literal;)* })*) => {
        &[$(Mutant { name: stringify!($name), edits: &[$(($file, $rule, $fault),)*] },)*]
    };
}

const MUTANTS: &[Mutant] = mutants! {
    // A holder counts from before its write was sent, and gives up a margin.
    grant_counts_from_the_reply {
        "lease.rs": "            until: «attempt.until»,\n            renew_at" => "fast.after(self.config.first_terms().valid_for)";
    }
    renewal_counts_from_the_reply {
        "lease.rs": "until: «flight.until»,\n                    // One" => "fast.after(self.terms.valid_for)";
    }
    lost_reply_counts_from_its_discovery {
        "lease.rs": "Some(self.acquired(&«attempt», record.fence))" => "Attempt { until: fast.after(self.config.first_terms().valid_for), ..attempt }";
    }
    holder_ignores_the_margin { "config.rs": "let valid_for = «ttl.minus(given_up)»;" => "ttl"; }
    holder_counts_by_the_slower_clock { "time.rs": "start.fast.after(«longer»)" => "shorter"; }
    grant_ends_only_at_a_tick { "lease/phase.rs": "«!self.ended && fast < self.until»" => "!self.ended"; }
    late_renewal_revives {
        "lease.rs": "_ if «fast >= held.until» => Some" => "false";
        "lease.rs": "Phase::Held(held) if «fast >= held.until && !held.ended» => {" => "false";
    }
    shorter_renewal_is_ignored { "lease/calls.rs": "until: if «terms.ttl() < held.ttl» {" => "false"; }

    // A contender counts from after the reply, for longer than the ttl in the record.
    contender_counts_from_the_request {
        "lease/evidence.rs": "let since = «self.clock.slow()»;" => "self.clock.slow().before(self.gap)";
    }
    contender_keeps_counting_over_a_change {
        "lease/evidence.rs": "Some(sight) if «sight.record.identity == record.identity» => {" => "true";
    }
    contender_uses_its_own_ttl {
        "lease/evidence.rs": OBSERVED_LONG_ENOUGH => "self.stood_for(sight) > self.config.first_terms().ttl.plus(self.config.margin(ttl))";
    }
    contender_comes_early { "lease/evidence.rs": OBSERVED_LONG_ENOUGH => "self.stood_for(sight) > ttl.part(2)"; }
    contender_counts_by_the_faster_clock { "time.rs": "saturating_add(«shorter».0)" => "longer"; }
    takeover_names_only_the_holder {
        "memory.rs": "if «self.record(us, now).identity != seen» {" => "self.held.is_none()";
    }
    import_counts_twice {
        "lease.rs": "Sight { proven, since: «self.clock.slow()», ..*sight }" => "sight.since";
    }
    import_of_any_clock_counts_on { "lease.rs": "let since_then = if «shares_clock» {" => "true"; }
    undeclared_observers_wall_is_believed {
        "lease.rs": "wall: «now.wall.zip(self.config.max_clock_skew()).map(|(wall, skew)| wall.after(skew))»," => "now.wall";
    }
    undeclared_bound_is_judged {
        "memory.rs": "let (Some(ours), Some(theirs)) = «(terms.max_clock_skew(), held.max_clock_skew)»" => "(terms.max_clock_skew(), held.max_clock_skew.or(Some(Span::ZERO)))";
    }

    // Outcomes.
    unknown_counts_as_success {
        "lease.rs": TO_ASKED => "if outcome == Outcome::Unknown { Outcome::Applied { fence: Some(Fence(u64::MAX)) } } else { outcome }";
    }
    unknown_counts_as_failure {
        "lease.rs": "let not_applied = «matches!(outcome, Outcome::Unavailable | Outcome::Denied)»;" => "matches!(outcome, Outcome::Unavailable | Outcome::Denied | Outcome::Unknown)";
    }
    denied_counts_as_free {
        "lease.rs": TO_ASKED => "if outcome == Outcome::Denied { Outcome::Applied { fence: Some(Fence(u64::MAX)) } } else { outcome }";
    }
    any_completion_is_believed { "lease.rs": "self.flight.take_if(|flight| «flight.id == id»)" => "true"; }

    // Versions.
    version_is_reused_on_retry {
        "lease/calls.rs": "let attempt = match «(self.config.settings().versions, acquiring.claim)» {" => "(Versions::PerClaim, acquiring.claim)";
        "lease/calls.rs": "flight.until = «flight.until.min(entered.until)»;" => "flight.until";
        "ledger.rs": "if let Some(known) = «self.attempts.iter_mut().find(|a| a.version == attempt.version)» {" => "{ self.strike(attempt.version); None }";
    }
    claim_outlives_its_answer {
        "lease.rs": "let acquiring = Acquiring { claim: «None», ..acquiring };" => "acquiring.claim";
    }
    retired_version_is_adopted {
        "ledger.rs": "self.get(version).filter(|a| «!a.retired»)" => "true";
    }
    grant_does_not_retire_the_others {
        "ledger.rs": "(a.again || a.version != version));\n        «self.retire_all()»;" => "()";
    }
    end_does_not_retire {
        "lease.rs": "«self.ledger.give_up(now.mono)»;" => "()";
    }
    ttl_shrinks_under_one_value {
        "lease/calls.rs": "Versions::PerClaim if «terms.ttl() == held.ttl»" => "true";
    }

    // Conditions.
    version_is_shared_while_another_is_in_doubt {
        "lease/calls.rs": " && «!self.ledger.has_open()» => {\n                held.version" => "true";
    }
    acquire_lists_its_own_versions {
        "memory.rs": "if «(self.held.is_some() && !over) || resting» {" => "(self.held.is_some() && !over && !self.held.is_some_and(|held| held.holder == us)) || resting";
    }
    renew_without_a_condition {
        "memory.rs": "CallKind::Renew { attempt, terms, ours } => {\n                if «!self.is_ours(us, ours.as_slice())» {" => "self.held.is_none()";
    }
    release_without_a_condition {
        "memory.rs": "CallKind::Release { ours, rest } => {\n                if «!self.is_ours(us, ours.as_slice())» {" => "false";
    }
    release_forgets_the_fence {
        "memory.rs": "let version = «self.held.take()»" => "{ self.fence = 0; self.held.take() }";
    }
    takeover_keeps_the_fence {
        "memory.rs": "if self.record(us, now).identity != seen {\n                    return self.refused(us, now);\n                }\n                self.fence = «self.fence.saturating_add(1)»;" => "self.fence";
    }
    release_forgets_what_stands {
        "lease.rs": "Outcome::Refused { current: Some(record) } => return «self.strike_by_record(record)»," => "{ self.ledger.strike_tied(); false }";
    }
    loss_forgets_what_stands { "lease.rs": "«self.strike_by_record(record)»;\n        self.undo" => "{ self.ledger.strike_tied(); false }"; }
    released_is_told_of_another_version { "lease.rs": "«self.ledger.prefer(held.version)»;" => "()"; }
    full_ledger_forgets_what_stands { "ledger.rs": "self.attempts.remove(«oldest.unwrap_or(0)»);" => "0"; }
    deletion_resets_the_fence { "memory.rs": "pub fn clear(&mut self) {\n        self.held = «None»;" => "{ self.fence = 0; None }"; }

    // Clients that go by the Unix clock alone, and bounds.
    version_left_behind_is_dead {
        "lease/evidence.rs": "_ if «sight.broken» => true," => "sight.broken || self.ledger.is_retired(sight.record.version)";
    }
    wall_client_is_judged_without_a_bound {
        "lease/evidence.rs": "(Some(ours), Some(wall)) = («self.config.max_clock_skew()», now.wall)" => "Some(self.config.max_clock_skew().unwrap_or(Span::ZERO))";
    }
    contender_ignores_the_skew {
        "lease/evidence.rs": "wall > «expires_at.after(ours.max(theirs))»" => "expires_at";
    }
    holder_ignores_the_skew {
        "config.rs": "margin(ttl, settings.rate_error_ppm).plus(«max_clock_skew.unwrap_or(Span::ZERO)»)" => "Span::ZERO";
    }

    cancel_forgets_what_may_have_landed {
        "lease.rs": "«self.undo(now, Goal::Quiet, None)»;\n                Some(Event::Cancelled)" => "{ self.ledger = Ledger::new(); self.phase = Phase::Idle }";
    }
};

/// What faults need and the rules do not.
const HELP: &str = "
impl Slow {
    pub(crate) const fn before(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}
";

const SWITCH: &str = "//! Which mutant is at work.
use core::sync::atomic::{AtomicUsize, Ordering};
static AT_WORK: AtomicUsize = AtomicUsize::new(0);
/// Puts one to work; none is 0.
pub fn put_to_work(mutant: usize) { AT_WORK.store(mutant, Ordering::Relaxed); }
/// Whether this one is.
pub fn is(mutant: usize) -> bool { AT_WORK.load(Ordering::Relaxed) == mutant }
";

const MANIFEST: &str = r#"[workspace]
[package]
name = "mutants"
version = "0.0.0"
edition = "2024"
[dependencies]
tenure-core = { path = "core" }
tenure-sim = { path = "sim" }
[profile.release]
debug-assertions = true
overflow-checks = true
"#;

const SIM_MANIFEST: &str = r#"[package]
name = "tenure-sim"
version = "0.0.0"
edition = "2024"
[dependencies]
heapless = { version = "0.9.4", default-features = false }
tenure-core = { path = "../core", features = ["shape"] }
"#;

const CORE_MANIFEST: &str = r#"[package]
name = "tenure-core"
version = "0.0.0"
edition = "2024"
[features]
shape = []
[dependencies]
heapless = { version = "0.9.4", default-features = false }
xxhash-rust = { version = "0.8", default-features = false, features = ["xxh3"] }
"#;

const MAIN: &str = r#"
use tenure_sim::walk::{Mode, walk};
fn main() {
    let mut arguments = std::env::args().skip(1).map(|n| n.parse::<u64>().expect("a number"));
    let (mutants, seeds) = (arguments.next().unwrap_or(0), arguments.next().unwrap_or(0));
    std::panic::set_hook(Box::new(|_| {}));
    for mutant in 0..=mutants {
        tenure_core::mutant::put_to_work(mutant as usize);
        let caught = (0..seeds).find_map(|seed| {
            Mode::ALL.iter().find_map(|mode| {
                match std::panic::catch_unwind(|| walk(seed, *mode, 600)) {
                    Ok(walked) => walked.err().map(|breach| breach.to_string()),
                    Err(_) => Some(format!("P13 total: a panic (seed {seed}, {mode:?})")),
                }
            })
        });
        println!("{mutant}\t{}", caught.unwrap_or_default());
    }
}
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn copy_sources(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder under target");
    for entry in std::fs::read_dir(from).expect("the core's sources") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_sources(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("copied");
        }
    }
}

/// Puts every fault into the copy, behind a switch.
fn breed(core: &Path) {
    let mut places: BTreeMap<(&str, &str), Vec<(usize, &str)>> = BTreeMap::new();
    for (number, mutant) in MUTANTS.iter().enumerate() {
        for (file, piece, fault) in mutant.edits {
            places.entry((file, piece)).or_default().push((number + 1, fault));
        }
    }
    for ((file, piece), faults) in places {
        let (before, rest) = piece.split_once('«').expect("a rule");
        let (rule, after) = rest.split_once('»').expect("a rule");
        let shipped = format!("{before}{rule}{after}");
        let mut bred = String::new();
        for (number, fault) in faults {
            write!(bred, "if crate::mutant::is({number}) {{ {fault} }} else ").expect("it grows");
        }
        let path = core.join("src").join(file);
        let text = std::fs::read_to_string(&path).expect("a file of the core");
        assert_eq!(text.matches(&shipped).count(), 1, "how often {file} has {shipped:?}");
        let bred = format!("{before}({bred} {{ {rule} }}){after}");
        std::fs::write(&path, text.replace(&shipped, &bred)).expect("written");
    }
    let add = |file: &str, more: &str| {
        let path = core.join("src").join(file);
        let mut text = std::fs::read_to_string(&path).expect("a file of the core");
        // At the end of the sources, before the tests, which are left out.
        if let Some(tests) = text.find("#[cfg(test)]\nmod tests {") {
            text.truncate(tests);
        }
        text.push_str(more);
        std::fs::write(&path, text).expect("written");
    };
    add("time.rs", HELP);
    add("lib.rs", "\npub mod mutant;\n");
    std::fs::write(core.join("src/mutant.rs"), SWITCH).expect("written");
}

#[test]
fn every_mutant_is_caught() {
    let seeds = std::env::var("TENURE_MUTANT_SEEDS").unwrap_or_else(|_| "15000".to_owned());
    let home = root().join("target").join("mutants");
    let core = home.join("core");
    drop(std::fs::remove_dir_all(&core));
    copy_sources(&root().join("core/src"), &core.join("src"));
    breed(&core);
    std::fs::create_dir_all(home.join("src")).expect("a folder under target");
    std::fs::write(home.join("Cargo.toml"), MANIFEST).expect("written");
    std::fs::write(core.join("Cargo.toml"), CORE_MANIFEST).expect("written");
    std::fs::write(home.join("src/main.rs"), MAIN).expect("written");
    copy_sources(&root().join("tests/sim/src"), &home.join("sim/src"));
    std::fs::write(home.join("sim/Cargo.toml"), SIM_MANIFEST).expect("written");
    let run = Command::new(env!("CARGO"))
        .args(["run", "--release", "--quiet", "--", &MUTANTS.len().to_string(), &seeds])
        .current_dir(&home)
        .env("CARGO_TARGET_DIR", home.join("target"))
        .env("RUSTFLAGS", "--cap-lints=allow")
        .output()
        .expect("cargo runs");
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let caught: Vec<&str> =
        output.lines().map(|line| line.split_once('\t').map_or("", |(_, by)| by)).collect();
    assert_eq!(caught.len(), MUTANTS.len() + 1, "{output}");
    assert_eq!(caught[0], "", "without a mutant nothing is to be caught");
    let mut missed = String::new();
    for (mutant, by) in MUTANTS.iter().zip(&caught[1..]) {
        println!("{:42} {by}", mutant.name);
        if by.is_empty() {
            write!(missed, " {}", mutant.name).expect("a string grows");
        }
    }
    println!(
        "measured: {} mutants, {} of them caught within {seeds} seeds",
        MUTANTS.len(),
        caught[1..].iter().filter(|by| !by.is_empty()).count()
    );
    assert!(missed.is_empty(), "not caught within {seeds} seeds:{missed}");
}
