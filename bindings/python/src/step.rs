//! Events as tuples, and readings of clocks.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use tenure_core::io::{BusyBecause, Event, Failure, Grant, LostReason};
use tenure_core::record::Fence;
use tenure_core::time::{Instant, Now, Span, Wall};

/// `(mono_us, wall_us, entropy)`: a reading of the clocks, and 16 fresh random bytes.
pub(crate) struct Reading(pub(crate) Now);

impl<'py> FromPyObject<'_, 'py> for Reading {
    type Error = PyErr;

    fn extract(tuple: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (mono_us, wall_us, entropy): (u64, Option<u64>, Bound<'py, PyBytes>) =
            tuple.extract()?;
        let entropy: [u8; 16] = entropy
            .as_bytes()
            .try_into()
            .map_err(|_| PyValueError::new_err("entropy must be 16 bytes"))?;
        Ok(Self(reading(mono_us, wall_us, u128::from_be_bytes(entropy))))
    }
}

/// 128 bits from hexadecimal digits.
pub(crate) fn bits(text: &str) -> PyResult<u128> {
    u128::from_str_radix(text, 16).map_err(|_| PyValueError::new_err("not hexadecimal"))
}

pub(crate) fn reading(mono_us: u64, wall_us: Option<u64>, entropy: u128) -> Now {
    Now { mono: Instant::from_micros(mono_us), wall: wall_us.map(Wall::from_micros), entropy }
}

/// Who is in the way, as far as it was shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct InTheWay {
    pub(crate) holder: Option<String>,
    pub(crate) fence: Option<Fence>,
}

pub(crate) fn micros(span: Span) -> Option<u64> {
    (!span.is_forever()).then(|| span.as_micros())
}

fn granted(grant: Grant) -> (Option<u64>, Option<u64>) {
    (grant.fence.map(|fence| fence.0), micros(grant.valid_for))
}

/// `(kind, …)`, for the host to take apart.
pub(crate) fn event<'py>(
    py: Python<'py>,
    event: Event,
    who: &InTheWay,
) -> PyResult<Bound<'py, PyTuple>> {
    let holder = who.holder.as_deref();
    let fence = who.fence.map(|fence| fence.0);
    match event {
        Event::Acquired { grant, takeover } => {
            let (fence, valid_for) = granted(grant);
            ("acquired", fence, valid_for, takeover).into_pyobject(py)
        }
        Event::Renewed { grant } => {
            let (fence, valid_for) = granted(grant);
            ("renewed", fence, valid_for).into_pyobject(py)
        }
        Event::Waiting { retry_after } => {
            ("waiting", retry_after.and_then(micros), holder, fence).into_pyobject(py)
        }
        Event::Busy { because, retry_after } => {
            let because = match because {
                BusyBecause::Resting => "resting",
                BusyBecause::Unjudgeable => "unjudgeable",
                _ => "held",
            };
            ("busy", because, retry_after.and_then(micros), holder, fence).into_pyobject(py)
        }
        Event::Failed { failure } => {
            let failure = match failure {
                Failure::Denied => "denied",
                Failure::Unavailable => "unavailable",
                _ => "unknown",
            };
            ("failed", failure).into_pyobject(py)
        }
        Event::AtRisk { valid_for } => ("at_risk", micros(valid_for)).into_pyobject(py),
        Event::Lost { reason, fence } => {
            let by = if reason == LostReason::Taken { holder } else { None };
            ("lost", lost_reason(reason), fence.map(|fence| fence.0), by).into_pyobject(py)
        }
        Event::Released => ("released",).into_pyobject(py),
        Event::HandedOver => ("handed_over",).into_pyobject(py),
        Event::Cancelled => ("cancelled",).into_pyobject(py),
        _ => ("unconfirmed",).into_pyobject(py),
    }
}

fn lost_reason(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Taken => "taken",
        LostReason::Missing => "missing",
        LostReason::Paused => "paused",
        LostReason::Unreachable => "unreachable",
        _ => "expired",
    }
}
