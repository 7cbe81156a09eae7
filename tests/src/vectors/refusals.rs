//! Settings, names and holder ids: which are taken, and what is said of those that are not.

use serde_json::{Value, json};

use tenure_core::config::{Config, Expiry, Settings, Ttl};
use tenure_core::record::{HolderId, TextError, check_name};
use tenure_core::time::Span;

use super::answers::plain_settings;
use super::plain::number;
use super::scenario::{SECOND, settings};

pub(super) fn configs() -> Vec<Value> {
    let micros = Span::from_micros;
    let base = settings(Expiry::Observed);
    let ttl = |ttl| Settings { ttl: Ttl::For(micros(ttl)), ..base };
    let skewed =
        |skew| Settings { expiry: Expiry::Bounded { max_clock_skew: micros(skew) }, ..base };
    let all = [
        base,
        Settings { ttl: Ttl::Forever, ..base },
        settings(Expiry::Store),
        ttl(10_000),
        ttl(9_999),
        ttl(0),
        ttl(Config::LONGEST_TTL.as_micros()),
        ttl(Config::LONGEST_TTL.as_micros() + 1),
        ttl(u64::MAX),
        Settings { rate_error_ppm: 200_000, ..base },
        Settings { rate_error_ppm: 200_001, ..base },
        Settings { rate_error_ppm: 0, ..base },
        Settings { rate_error_ppm: 200_000, ..ttl(10_000) },
        skewed(SECOND),
        skewed(8 * SECOND),
        skewed(10 * SECOND),
        skewed(u64::MAX),
        Settings { renew_interval: Some(micros(4 * SECOND)), ..base },
        Settings { renew_interval: Some(micros(5 * SECOND)), ..base },
        Settings { renew_interval: Some(micros(999)), ..base },
        Settings { poll_interval: Some(micros(1_000)), ..base },
        Settings { poll_interval: Some(micros(999)), ..base },
        Settings { poll_interval: Some(micros(Config::LONGEST_TTL.as_micros() + 1)), ..base },
        Settings { call_timeout: Some(micros(1_000)), ..base },
        Settings { call_timeout: Some(Span::FOREVER), ..base },
        Settings { call_timeout: Some(micros(999)), ..base },
        Settings { min_hold: Config::LONGEST_TTL, ..base },
        Settings { min_hold: micros(Config::LONGEST_TTL.as_micros() + 1), ..base },
        // The first that cannot work is named.
        Settings { min_hold: Span::FOREVER, rate_error_ppm: u32::MAX, ..ttl(1) },
    ];
    all.into_iter()
        .map(|settings| {
            let expected = match Config::new(settings) {
                Ok(config) => {
                    json!({"call_timeout_us": number(config.call_timeout().as_micros())})
                }
                Err(error) => json!({"error": {"field": error.field(), "why": error.why()}}),
            };
            json!({"config": plain_settings(&settings), "expected": expected})
        })
        .collect()
}

pub(super) fn names() -> Vec<Value> {
    let long = "n".repeat(2_048);
    let longer = "n".repeat(2_049);
    let all = ["report", "", "with spaces, ümläuts/and#signs", &long, &longer];
    all.iter().map(|name| text("name", name, check_name(name).err())).collect()
}

pub(super) fn holders() -> Vec<Value> {
    let long = "h".repeat(100);
    let longer = "h".repeat(101);
    let longest = "h".repeat(300);
    let all = ["web/1", "", "with space", "ümlaut", "tab\there", &long, &longer, &longest];
    all.iter().map(|holder| text("holder", holder, HolderId::new(holder).err())).collect()
}

fn text(field: &str, text: &str, error: Option<TextError>) -> Value {
    let error = error.map(|error| json!({"field": field, "why": error.why()}));
    json!({field: text, "expected": {"error": error}})
}
