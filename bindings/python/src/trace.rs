//! Recording what goes into leases, and showing what was recorded.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use tenure_core::config::Settings;
use tenure_core::io::{Input, Output};
use tenure_core::time::Now;
use tenure_core::trace::{self, Frame, MOST_FRAME, Reader, Replay};

/// Collects the frames of a store's leases until the host writes them to its file.
#[pyclass(frozen, module = "tenure._core")]
pub(crate) struct Trace(Mutex<Pending>);

struct Pending {
    bytes: Vec<u8>,
    leases: u32,
}

#[pymethods]
impl Trace {
    /// A new trace.
    #[new]
    fn new() -> Self {
        Self(Mutex::new(Pending { bytes: vec![trace::VERSION], leases: 0 }))
    }

    /// What was recorded since it was taken last.
    fn take<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes = core::mem::take(&mut self.lock().bytes);
        PyBytes::new(py, &bytes)
    }
}

impl Trace {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a lease its number.
    pub(crate) fn open(&self, name: &str, holder: &str, settings: Settings) -> u32 {
        let mut pending = self.lock();
        pending.leases = pending.leases.wrapping_add(1);
        let lease = pending.leases;
        let room = MOST_FRAME + name.len() + holder.len();
        pending.add(&Frame::Opened { lease, name, holder, settings }, room);
        lease
    }

    pub(crate) fn handled(&self, lease: u32, now: Now, input: Input, output: &Output) {
        let output = trace::digest(output);
        self.lock().add(&Frame::Handled { lease, now, input, output }, MOST_FRAME);
    }

    pub(crate) fn asked(&self, lease: u32, now: Now) {
        self.lock().add(&Frame::Asked { lease, now }, MOST_FRAME);
    }
}

impl Pending {
    fn add(&mut self, frame: &Frame<'_>, room: usize) {
        let start = self.bytes.len();
        self.bytes.resize(start + room, 0);
        // There is room for every frame.
        let written = frame.write(&mut self.bytes[start..]).map_or(0, <[u8]>::len);
        self.bytes.truncate(start + written);
    }
}

/// A trace as lines for people, replayed: `(lines, differences)`. A `ValueError` if it is no trace;
/// one that was cut off ends with a line that says so.
#[pyfunction]
pub(crate) fn trace_lines(bytes: &[u8]) -> PyResult<(Vec<String>, usize)> {
    let reader = Reader::new(bytes).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let mut leases: HashMap<u32, (Replay, String)> = HashMap::new();
    let mut lines = Vec::new();
    let mut differences = 0;
    let mut start = None;
    for frame in reader {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                lines.push(format!("-- {error}"));
                break;
            }
        };
        match frame {
            Frame::Opened { lease, name, holder, settings } => {
                let replay = Replay::new(settings)
                    .map_err(|error| PyValueError::new_err(error.to_string()))?;
                leases.insert(lease, (replay, name.to_owned()));
                lines.push(format!("#{lease} {name} of {holder}: {settings:?}"));
            }
            Frame::Asked { .. } => {
                if let Some((replay, _)) = leases.get_mut(&frame.lease()) {
                    replay.step(&frame);
                }
            }
            Frame::Handled { lease, now, input, .. } => {
                let Some((replay, name)) = leases.get_mut(&lease) else {
                    return Err(PyValueError::new_err("an input to a lease that was not opened"));
                };
                let replayed = replay.step(&frame);
                let origin = *start.get_or_insert(now.mono);
                let seconds = now.mono.since(origin).as_micros() as f64 / 1e6;
                lines.push(format!("{seconds:12.6} #{lease} {name} {input:?}"));
                if let Some(call) = replayed.output.call {
                    lines.push(format!("{:>14} call {} {:?}", "->", call.id.0, call.kind));
                }
                if let Some(event) = replayed.output.event {
                    lines.push(format!("{:>14} {event:?}", "->"));
                }
                if !replayed.same {
                    differences += 1;
                    lines.push("-- not what was recorded: made by another version?".to_owned());
                }
            }
        }
    }
    Ok((lines, differences))
}
