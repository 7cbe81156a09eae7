//! Values as JSON that every language reads without loss.

use serde_json::{Value, json};

use tenure_core::time::Span;

/// The largest integer that a double holds along with all below it.
const SAFE: u64 = 1 << 53;

/// An integer; as decimal text if a double could not hold it.
pub(super) fn number(number: u64) -> Value {
    if number < SAFE { json!(number) } else { json!(number.to_string()) }
}

/// Microseconds; null for ever.
pub(super) fn span(span: Span) -> Value {
    if span.is_forever() { Value::Null } else { number(span.as_micros()) }
}

/// 128 bits as 32 hexadecimal digits.
pub(super) fn bits(bits: u128) -> Value {
    json!(format!("{bits:032x}"))
}

/// Bytes as text if they are, else as `{"hex": …}`.
pub(super) fn bytes(bytes: &[u8]) -> Value {
    match core::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => {
            let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            json!({"hex": digits.concat()})
        }
    }
}
