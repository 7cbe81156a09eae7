//! What a store keeps for a name, as far as the machine needs to know it.
//!
//! Texts stay beside the machine: a wire has already compared the holder's name with ours
//! ([`Holder`]) and condensed whatever a conditional write would name into an [`Identity`].

use core::fmt;

use crate::time::{Instant, Slow, Span, Wall};

/// What a conditional write compares: 128 bits that no two attempts to write ever share.
///
/// Fresh at every *attempt*, from the operating system's randomness, so that reading one in a
/// record tells which attempt was applied. (Stores that compare whole values use one per claim:
/// [`Versions`](crate::config::Versions).)
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Version([u8; 16]);

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(core::str::from_utf8(&self.to_hex()).unwrap_or(""))
    }
}

impl Version {
    /// No attempt's version: what a wire reports for a record that has none of ours.
    pub const NONE: Self = Self([0; 16]);

    /// The version of an attempt, from fresh random bits.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits.to_be_bytes())
    }

    /// Its bits.
    #[must_use]
    pub const fn to_bits(self) -> u128 {
        u128::from_be_bytes(self.0)
    }

    /// The version as stores hold it: 32 lower-case hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> [u8; 32] {
        let mut text = [b'0'; 32];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            for (digit, nibble) in pair.iter_mut().zip([byte >> 4, byte & 15]) {
                *digit = if nibble < 10 {
                    b'0'.saturating_add(nibble)
                } else {
                    b'a'.saturating_add(nibble.saturating_sub(10))
                };
            }
        }
        text
    }

    /// Reads [`Version::to_hex`] back; nothing else is a version.
    #[must_use]
    pub fn from_hex(text: &[u8]) -> Option<Self> {
        if text.len() != 32 {
            return None;
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            for &digit in pair {
                let nibble = match digit {
                    b'0'..=b'9' => digit.saturating_sub(b'0'),
                    b'a'..=b'f' => digit.saturating_sub(b'a').saturating_add(10),
                    _ => return None,
                };
                *byte = (*byte << 4) | nibble;
            }
        }
        Some(Self(bytes))
    }
}

/// A holder's id as text: who holds, unique for each start of a process, readable by a person.
///
/// Of 1 to 100 printable ASCII characters without spaces, so that every store can hold it and every
/// log shows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HolderId {
    len: u8,
    bytes: [u8; Self::MOST],
}

impl HolderId {
    const MOST: usize = 100;

    /// Checks and copies a text.
    ///
    /// # Errors
    /// What the text has that an id must not have.
    pub fn new(text: &str) -> Result<Self, TextError> {
        let len = u8::try_from(text.len()).map_err(|_| TextError::TooLong)?;
        if len == 0 {
            return Err(TextError::Empty);
        }
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(TextError::NotPrintable);
        }
        let mut bytes = [0; Self::MOST];
        bytes.get_mut(..text.len()).ok_or(TextError::TooLong)?.copy_from_slice(text.as_bytes());
        Ok(Self { len, bytes })
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or(&[]);
        core::str::from_utf8(bytes).unwrap_or("")
    }
}

impl fmt::Debug for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// Checks the name of a lease: 1 to 2,048 bytes, the most that every store takes as a key.
///
/// # Errors
/// What is wrong with it.
pub const fn check_name(name: &str) -> Result<(), TextError> {
    match name.len() {
        0 => Err(TextError::Empty),
        1..=2_048 => Ok(()),
        _ => Err(TextError::TooLong),
    }
}

/// Why a text cannot be a name or a holder id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextError {
    /// It is empty.
    Empty,
    /// It has spaces, control characters, or others than ASCII.
    NotPrintable,
    /// It is longer than stores can hold.
    TooLong,
}

impl TextError {
    /// What to tell.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::Empty => "must not be empty",
            Self::NotPrintable => "must be printable ASCII without spaces",
            Self::TooLong => "is too long: a name has at most 2,048 bytes, a holder id 100",
        }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why())
    }
}

impl core::error::Error for TextError {}

/// The fencing number of a grant. It strictly grows with every acquisition of a name; a resource
/// that refuses smaller ones is safe from a holder that does not know it has lost the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "a number with a name")]
pub struct Fence(pub u64);

/// A fingerprint of everything that a takeover of a record would name in its condition.
///
/// Only for comparing what was seen with what is seen now: the write itself names the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "bits with a name")]
pub struct Identity(pub u128);

/// Whom a record names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "a record names nobody, us or another")]
pub enum Holder {
    /// Nobody: the name is free, unless a [`Term`] says from when.
    Nobody,
    /// Our holder id. Whether the record is *ours* is for the ledger to say: an id may be shared by
    /// mistake, or belong to an earlier life of this process.
    Us,
    /// Our holder id, put there by a holder that handed the lease over to us.
    OfferedToUs,
    /// Somebody else.
    Other,
}

/// How the end of a record may be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "each kind of evidence has a rule of its own")]
pub enum Term {
    /// By nothing that is needed: nobody holds it, and nothing delays the next holder.
    Over,
    /// By watching it unchanged for longer than its stored ttl.
    Observed {
        /// As stored, so that a contender honours its holder's promise and not its own setting.
        ttl: Span,
    },
    /// Also by the Unix clock, since its holder declared a bound on the difference of clocks.
    Bounded {
        /// As stored.
        ttl: Span,
        /// When it ends by its holder's Unix clock.
        expires_at: Wall,
        /// The bound that its holder declared.
        max_clock_skew: Span,
    },
    /// Only by the Unix clock: a client wrote it that leaves no other evidence.
    WallOnly {
        /// When it ends by its writer's Unix clock.
        expires_at: Wall,
    },
    /// It was released, and a `min_hold` delays the next holder. The work is done, so a Unix clock
    /// may judge it; watching it for as long as it was meant to rest serves where clocks are far
    /// apart.
    Resting {
        /// For how long after the release.
        rest: Span,
        /// Until when by the releaser's Unix clock.
        not_before: Option<Wall>,
    },
    /// The store itself ends it.
    Remaining {
        /// After this long by the store's clock; `None` if never.
        left: Option<Span>,
    },
}

/// A record as a reply showed it. An absent one is [`Record::FREE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "wires build it")]
pub struct Record {
    /// Whom it names.
    pub holder: Holder,
    /// The version of the attempt that wrote it; [`Version::NONE`] if it shows none.
    pub version: Version,
    /// What a takeover of exactly this record would name.
    pub identity: Identity,
    /// The fencing number kept with it, if the store keeps one there.
    pub fence: Option<Fence>,
    /// How its end may be known.
    pub term: Term,
}

impl Record {
    /// Nobody's.
    pub const FREE: Self = Self {
        holder: Holder::Nobody,
        version: Version::NONE,
        identity: Identity(0),
        fence: None,
        term: Term::Over,
    };
}

/// The machine and boot whose monotonic clock a reading belongs to. Readings of one clock may be
/// compared by every process that shares it, and by no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "bits with a name")]
pub struct ClockId(pub u128);

/// A contender's evidence that a record stood unchanged, in a form that outlives the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "hosts store it and hand it on")]
pub struct Observation {
    /// The record that was seen.
    pub identity: Identity,
    /// Its stored ttl.
    pub ttl: Span,
    /// For how long it is proven to have stood unchanged, at the readings below.
    pub proven_for: Span,
    /// Whose clock `mono` is a reading of, if that can be told.
    pub clock: Option<ClockId>,
    /// The monotonic clock when this was exported.
    pub mono: Instant,
    /// What no machine's Unix clock had passed when this was exported, if its observer declared a
    /// bound: its own reading and that bound. Another machine counts on from there.
    pub wall: Option<Wall>,
}

/// What this contender saw last, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    pub(crate) record: Record,
    /// Brought along by an imported observation.
    pub(crate) proven: Span,
    /// When the reply that first showed this record arrived: never when it was asked for.
    pub(crate) since: Slow,
    /// When the reply came, for terms that the store counts.
    pub(crate) read_at: Instant,
    /// Somebody decided to break it.
    pub(crate) broken: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_reads_back_and_nothing_else_does() {
        let version = Version::from_bits(0x0123_4567_89ab_cdef_fedc_ba98_7654_3210);
        let text = version.to_hex();
        assert_eq!(&text, b"0123456789abcdeffedcba9876543210");
        assert_eq!(Version::from_hex(&text), Some(version));
        let bad: [&[u8]; 4] = [
            b"",
            b"0123456789ABCDEFfedcba9876543210",
            b"0123456789abcdeffedcba987654321",
            b"0123456789abcdeffedcba987654321g",
        ];
        for text in bad {
            assert_eq!(Version::from_hex(text), None);
        }
    }
}
