//! The value of a lease's key, and what it says.

use xxhash_rust::xxh3::xxh3_128;

use super::super::Texts;
use super::Reply;
use crate::record::{Holder, Identity, Record, Term, Version};
use crate::time::Span;

/// What stands in the key: `<holder>/<kind><version>`, the version as 32 lower-case hexadecimal
/// digits.
///
/// Plain text that is compared whole, like the tokens of every lock that is a `SET k token NX PX`:
/// each of them excludes us and is excluded by us. A holder may contain slashes, so it is read from
/// the end. Whatever has another form was written by somebody else, and need not be UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a grammar of three parts")]
pub struct Value<'a> {
    /// Whom it names.
    pub holder: &'a [u8],
    /// In which way.
    pub kind: Kind,
    /// Of the attempt that wrote it; a resting value keeps that of the lease that was released.
    pub version: Version,
}

/// What a [`Value`] says about the holder it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "another kind would be another grammar")]
pub enum Kind {
    /// `c`: it holds the lease.
    Claim,
    /// `o`: the lease was handed over to it, and waits to be taken by it.
    Offer,
    /// `r`: it released the lease, and its `min_hold` is not over.
    Rest,
}

impl<'a> Value<'a> {
    /// Reads a value; `None` if it has another form.
    #[must_use]
    pub fn parse(raw: &'a [u8]) -> Option<Self> {
        let (rest, version) = raw.split_last_chunk::<32>()?;
        let version = Version::from_hex(version)?;
        let (rest, kind) = rest.split_last_chunk::<2>()?;
        let kind = match kind {
            b"/c" => Kind::Claim,
            b"/o" => Kind::Offer,
            b"/r" => Kind::Rest,
            _ => return None,
        };
        Some(Self { holder: rest, kind, version })
    }

    /// Hands its text to `put`, piece by piece.
    pub fn write(&self, mut put: impl FnMut(&[u8])) {
        put(self.holder);
        put(match self.kind {
            Kind::Claim => b"/c",
            Kind::Offer => b"/o",
            Kind::Rest => b"/r",
        });
        put(&self.version.to_hex());
    }
}

/// A value as a reply showed it, with its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'a> {
    pub(super) record: Record,
    pub(super) raw: Option<&'a [u8]>,
    pub(super) holder: Option<&'a [u8]>,
}

impl<'a> Shown<'a> {
    pub(super) const NOTHING: Self = Self { record: Record::FREE, raw: None, holder: None };

    /// What stands there although it may not be read. Somebody's, as far as can be told.
    pub(super) const HIDDEN: Self = Self {
        record: Record {
            holder: Holder::Other,
            term: Term::Remaining { left: None },
            ..Record::FREE
        },
        ..Self::NOTHING
    };

    /// A value and the answer of `PTTL` to it.
    pub(super) fn new(texts: &Texts<'_>, raw: &'a [u8], pttl: &Reply<'_>) -> Self {
        let left = match *pttl {
            // It ended between the two commands.
            Reply::Int(-2) => return Self::NOTHING,
            // Zero is less than one, not nothing: the key was there.
            Reply::Int(ms) => u64::try_from(ms).ok().map(|ms| Span::from_millis(ms.max(1))),
            // -1, or not understood: as far as can be told it never ends.
            _ => None,
        };
        let term = Term::Remaining { left: left.filter(|left| !left.is_forever()) };
        let identity = Identity(xxh3_128(raw));
        let Some(value) = Value::parse(raw) else {
            let record = Record { holder: Holder::Other, identity, term, ..Record::FREE };
            return Self { record, raw: Some(raw), holder: Some(raw) };
        };
        let holder = match value.kind {
            Kind::Rest => Holder::Nobody,
            Kind::Claim | Kind::Offer if value.holder != texts.holder.as_bytes() => Holder::Other,
            Kind::Claim => Holder::Us,
            Kind::Offer => Holder::OfferedToUs,
        };
        Self {
            record: Record { holder, version: value.version, identity, fence: None, term },
            raw: Some(raw),
            holder: (holder != Holder::Nobody).then_some(value.holder),
        }
    }
}
