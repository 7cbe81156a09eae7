//! The checked-in vectors are what the core does.

use serde_json::Value;
use tenure_tests::vectors;

#[test]
fn no_vector_changed() {
    for file in vectors::files() {
        let json: Value = serde_json::from_str(&file.text).expect("a vector is JSON");
        let scenarios = json["scenarios"].as_array().cloned().unwrap_or_default();
        let steps = scenarios.iter().filter_map(|scenario| scenario.get("steps")?.as_array());
        let steps: usize = steps.map(Vec::len).sum();
        println!("measured: {}: {} scenarios, {steps} steps", file.name, scenarios.len());
    }
    if let Err(difference) = vectors::compare(&vectors::files(), &vectors::folder()) {
        panic!("{difference}");
    }
}

#[test]
fn a_changed_vector_is_seen() {
    let mut made = vectors::files();
    let file = &mut made[0];
    file.text = file.text.replacen("min_hold", "max_hold", 1);
    let difference = vectors::compare(&made, &vectors::folder()).expect_err("it changed");
    assert!(difference.contains(vectors::ACCEPT), "{difference}");
    assert!(difference.contains(&made[0].name), "{difference}");
}

#[test]
fn they_have_every_event_and_every_reason() {
    let text: String = vectors::files().into_iter().map(|file| file.text).collect();
    for (key, values) in [
        ("kind", &["acquired", "at_risk", "busy", "cancelled", "failed", "handed_over"][..]),
        ("kind", &["lost", "released", "renewed", "unconfirmed", "waiting"]),
        ("because", &["held", "resting", "unjudgeable"]),
        ("failure", &["denied", "unavailable", "unknown"]),
        ("reason", &["expired", "missing", "paused", "taken", "unreachable"]),
        ("field", &["call_timeout", "holder", "min_hold", "name", "poll_interval", "rate_error"]),
        ("field", &["max_clock_skew", "renew_interval", "ttl"]),
    ] {
        for value in values {
            assert!(
                text.contains(&format!("\"{key}\":\"{value}\"")),
                "no vector has {key} {value}"
            );
        }
    }
    for takeover in [true, false] {
        assert!(text.contains(&format!("\"takeover\":{takeover}")));
    }
}

#[test]
fn they_have_every_request() {
    let files = vectors::files();
    let text = |wire: &str| -> String {
        let of_wire = files.iter().filter(|file| file.name.starts_with(wire));
        of_wire.map(|file| file.text.as_str()).collect()
    };
    let dynamodb = text("dynamodb");
    for part in [
        // What a condition names, for each kind of row, and the effects of each kind of call.
        "#r = :r0 AND #e = :e0 AND #v = :v0",
        "#r = :r0 AND #e = :e0 AND attribute_not_exists(#v)",
        "attribute_not_exists(#r) AND attribute_not_exists(#e) AND #v = :v0",
        "attribute_not_exists(#r) AND attribute_not_exists(#e) AND attribute_not_exists(#v)",
        "#r = :me AND #v = :v0",
        "#r = :me AND #v IN (",
        "OR (#ms <= :ms AND #e < :past)",
        "SET #r = :to",
        "\"REMOVE #r, #e\"",
        "SET #nb = :nb",
        "\"ConsistentRead\":true",
        "\"ConsistentRead\":false",
        "\"request\":null",
    ] {
        assert!(dynamodb.contains(part), "no vector has {part}");
    }
    let redis = text("redis");
    for part in [
        "\"NX\",\"PX\"",
        "\"IFEQ\"",
        "[\"EVAL\",\"$acquire.lua\"",
        "[\"EVAL\",\"$renew.lua\"",
        "[\"EVAL\",\"$release.lua\"",
        "\"EVALSHA\"",
        "\"DELEX\"",
        "\"DELIFEQ\"",
        "\"INCR\"",
        "\"PX\",\"1\"",
        "\"transaction\":true",
        "{\"hex\":",
    ] {
        assert!(redis.contains(part), "no vector has {part}");
    }
}
