//! Traces: everything that went into machines, so that what they did can be seen again.
//!
//! A trace is a byte for the format's version, and then frames in postcard: one that opens a lease
//! (its texts and settings), and one for each input or question. The machine is a function of those,
//! so replaying them gives the same outputs, bit for bit, on every platform and in every language. A
//! digest of each output is recorded along, by which the first difference shows.
//!
//! Frames and their parts only ever grow at the end of an enum; anything else is another version.

use core::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::config::{Config, Settings};
use crate::io::{Input, Output};
use crate::lease::Lease;
use crate::time::Now;

/// The first byte of a trace.
pub const VERSION: u8 = 1;

/// Room enough for any frame but one that opens a lease with long texts.
pub const MOST_FRAME: usize = 512;

/// One step of a trace. Leases are told apart by numbers of the recorder's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "a replay must know every kind")]
pub enum Frame<'a> {
    /// A lease was made.
    Opened {
        /// Its number.
        lease: u32,
        /// Its name.
        name: &'a str,
        /// Whose it is.
        holder: &'a str,
        /// What it was told.
        settings: Settings,
    },
    /// An input was handled.
    Handled {
        /// By this lease.
        lease: u32,
        /// At this reading.
        now: Now,
        /// The input.
        input: Input,
        /// Of the output: [`digest`].
        output: u32,
    },
    /// The lease was asked whether it is held, which takes a reading too.
    Asked {
        /// This lease.
        lease: u32,
        /// At this reading.
        now: Now,
    },
}

impl Frame<'_> {
    /// Which lease it is about.
    #[must_use]
    pub const fn lease(&self) -> u32 {
        match self {
            Self::Opened { lease, .. }
            | Self::Handled { lease, .. }
            | Self::Asked { lease, .. } => *lease,
        }
    }

    /// Writes the frame.
    ///
    /// # Errors
    /// [`TraceError::NoRoom`] if the buffer is too short.
    pub fn write<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], TraceError> {
        postcard::to_slice(self, buffer).map(|bytes| &*bytes).map_err(|_| TraceError::NoRoom)
    }
}

/// A short stand-in for an output: equal outputs have equal ones on every platform.
#[must_use]
pub fn digest(output: &Output) -> u32 {
    let mut buffer = [0; MOST_FRAME];
    let bytes = postcard::to_slice(output, &mut buffer).map_or(&[][..], |bytes| &*bytes);
    (xxh3_64(bytes) >> 32) as u32
}

/// Reads the frames of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of a trace of this version.
    ///
    /// # Errors
    /// If it is none.
    pub fn new(trace: &'a [u8]) -> Result<Self, TraceError> {
        match trace.split_first() {
            Some((&VERSION, rest)) => Ok(Self { rest }),
            Some(_) => Err(TraceError::OtherVersion),
            None => Err(TraceError::Truncated),
        }
    }

    /// How many bytes are left to read.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.rest.len()
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Frame<'a>, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match postcard::take_from_bytes(self.rest) {
            Ok((frame, rest)) => {
                self.rest = rest;
                Some(Ok(frame))
            }
            Err(error) => {
                self.rest = &[];
                Some(Err(match error {
                    postcard::Error::DeserializeUnexpectedEnd => TraceError::Truncated,
                    _ => TraceError::Unreadable,
                }))
            }
        }
    }
}

/// One lease of a trace, living its life again.
#[derive(Clone, Debug)]
pub struct Replay {
    lease: Lease,
}

/// What a frame led to this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "tools take it apart")]
pub struct Replayed {
    /// The output now; empty for a question.
    pub output: Output,
    /// Whether it is what it was when it was recorded.
    pub same: bool,
}

impl Replay {
    /// The lease that such a frame opens.
    ///
    /// # Errors
    /// [`TraceError::Unreadable`] if its settings cannot work.
    pub fn new(settings: Settings) -> Result<Self, TraceError> {
        let config = Config::new(settings).map_err(|_| TraceError::Unreadable)?;
        Ok(Self { lease: Lease::new(config) })
    }

    /// Handles a frame of this lease once more.
    pub fn step(&mut self, frame: &Frame<'_>) -> Replayed {
        match *frame {
            Frame::Opened { .. } => Replayed { output: Output::default(), same: true },
            Frame::Asked { now, .. } => {
                let _ = self.lease.grant(now);
                Replayed { output: Output::default(), same: true }
            }
            Frame::Handled { now, input, output: recorded, .. } => {
                let output = self.lease.handle(now, input);
                Replayed { output, same: digest(&output) == recorded }
            }
        }
    }

    /// The machine as it is after the frames so far.
    #[must_use]
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }
}

/// Why a trace cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceError {
    /// The buffer is too short for the frame.
    NoRoom,
    /// It begins with another version than [`VERSION`].
    OtherVersion,
    /// It ends within a frame: its writer was cut off.
    Truncated,
    /// It holds what is no frame.
    Unreadable,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoom => "no room for the frame",
            Self::OtherVersion => "a trace of another version, or none",
            Self::Truncated => "the trace ends within a frame",
            Self::Unreadable => "what follows is no frame of a trace",
        })
    }
}

impl core::error::Error for TraceError {}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "tests may")]
mod tests {
    use super::*;
    use crate::config::{Expiry, Ttl};
    use crate::io::Wait;
    use crate::time::{Instant, Span, Wall};

    fn now(time: u64) -> Now {
        Now {
            mono: Instant::from_micros(time),
            wall: Some(Wall::from_micros(time + 7)),
            entropy: u128::from(time) << 70,
        }
    }

    fn record() -> ([u8; 4096], usize) {
        let settings = Settings::new(Ttl::For(Span::from_millis(1_000)), Expiry::Observed);
        let mut lease = Lease::new(Config::new(settings).unwrap());
        let mut trace = [0; 4096];
        trace[0] = VERSION;
        let mut end = 1;
        let mut put = |frame: Frame<'_>| {
            end += frame.write(&mut trace[end..]).unwrap().len();
        };
        put(Frame::Opened { lease: 1, name: "a", holder: "me", settings });
        for (time, input) in [
            (1, Input::Acquire { wait: Wait::No }),
            (2, Input::Tick),
            (3, Input::Cancel),
            (9_000_000, Input::Tick),
        ] {
            let output = digest(&lease.handle(now(time), input));
            put(Frame::Handled { lease: 1, now: now(time), input, output });
            let _ = lease.grant(now(time + 1));
            put(Frame::Asked { lease: 1, now: now(time + 1) });
        }
        (trace, end)
    }

    #[test]
    fn a_replay_gives_the_same_outputs() {
        let (trace, end) = record();
        let mut replay = None;
        let mut steps = 0;
        for frame in Reader::new(&trace[..end]).unwrap() {
            let frame = frame.unwrap();
            if let Frame::Opened { settings, .. } = frame {
                replay = Some(Replay::new(settings).unwrap());
            }
            assert!(replay.as_mut().unwrap().step(&frame).same, "{frame:?}");
            steps += 1;
        }
        assert_eq!(steps, 9);
    }

    #[test]
    fn a_difference_shows() {
        let (trace, end) = record();
        let mut frames = Reader::new(&trace[..end]).unwrap();
        let Some(Ok(Frame::Opened { settings, .. })) = frames.next() else { panic!() };
        let mut replay = Replay::new(settings).unwrap();
        let Some(Ok(Frame::Handled { lease, now, input, output })) = frames.next() else {
            panic!()
        };
        assert!(!replay.step(&Frame::Handled { lease, now, input, output: output ^ 1 }).same);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let (trace, end) = record();
        for cut in 0..end {
            let Ok(reader) = Reader::new(&trace[..cut]) else { continue };
            let last = reader.last();
            assert!(matches!(last, None | Some(Ok(_)) | Some(Err(TraceError::Truncated))), "{cut}");
        }
        for at in 1..end {
            for bit in 0..8 {
                let mut bad = trace;
                bad[at] ^= 1 << bit;
                for frame in Reader::new(&bad[..end]).unwrap() {
                    if let Ok(Frame::Opened { settings, .. }) = frame {
                        let _ = Replay::new(settings);
                    }
                }
            }
        }
        assert_eq!(Reader::new(&[9]).err(), Some(TraceError::OtherVersion));
    }
}
