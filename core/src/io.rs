//! What goes into the machine and what comes out of it: plain data.
//!
//! Serialised enums only ever grow at their end: the order of variants is the format of traces.

use crate::config::Terms;
use crate::record::{Fence, Identity, Observation, Record, Version};
use crate::time::{Instant, Span, Wall};

/// How long an acquire may go on once it heard that somebody else holds the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "there is no fourth way to wait")]
pub enum Wait {
    /// Not at all: one answered try. A dead holder's lease that is proven over is still taken.
    No,
    /// For this long.
    For(Span),
    /// For ever.
    Forever,
}

/// What happened, or what the application wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Input {
    /// Take the lease. Nothing happens if it is already held or asked for.
    Acquire {
        /// How long to go on while it is busy.
        wait: Wait,
    },
    /// Renew it now; with a ttl of its own from here on, if terms are given. Sets, never adds.
    Renew {
        /// From [`Config::terms`](crate::config::Config::terms).
        terms: Option<Terms>,
    },
    /// Give it up. The grant ends here, whatever the store answers.
    Release,
    /// Stop acquiring; what may have been applied is undone.
    Cancel,
    /// Name a successor (whose id the host hands to the wire). The grant ends here.
    HandOver,
    /// Evidence from another process.
    Observe {
        /// As exported by [`Lease::observation`](crate::lease::Lease::observation).
        observation: Observation,
    },
    /// Take the name although this record stands in the way: a person knows that its holder is dead.
    /// A takeover like any other, so the fence grows, and the record is replaced only if it is still
    /// this one. Anything else there makes it busy.
    Break {
        /// What was shown to that person.
        seen: Identity,
    },
    /// The name may have become free: look again now.
    Wake,
    /// A call came to its end.
    Completed {
        /// Which one.
        id: CallId,
        /// How.
        outcome: Outcome,
    },
    /// Time passed.
    Tick,
}

/// Couples a call with its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "a number with a name")]
pub struct CallId(pub u32);

/// How many versions a call can name.
pub const MOST_VERSIONS: usize = 5;

/// The versions of ours that a condition accepts, the likeliest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OurVersions {
    list: [Version; MOST_VERSIONS],
    len: u8,
}

impl OurVersions {
    pub(crate) const fn empty() -> Self {
        Self { list: [Version::NONE; MOST_VERSIONS], len: 0 }
    }

    pub(crate) fn push(&mut self, version: Version) {
        if self.as_slice().contains(&version) {
            return;
        }
        if let Some(free) = self.list.get_mut(usize::from(self.len)) {
            *free = version;
            self.len = self.len.saturating_add(1);
        }
    }

    /// One version and no other.
    #[must_use]
    pub fn one(version: Version) -> Self {
        let mut this = Self::empty();
        this.push(version);
        this
    }

    /// The versions.
    #[must_use]
    pub fn as_slice(&self) -> &[Version] {
        self.list.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

/// A conditional write or a read, to be carried out by the host. Its wire lowers it to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "a wire must lower every kind")]
pub enum CallKind {
    /// Write our record if nobody's stands there.
    Acquire {
        /// What the record will carry.
        attempt: Version,
        /// Its terms.
        terms: Terms,
    },
    /// Write our record in place of exactly the one that was seen.
    Takeover {
        /// What the record will carry.
        attempt: Version,
        /// Its terms.
        terms: Terms,
        /// The record that it replaces.
        seen: Identity,
    },
    /// Write our record anew if it stands there.
    Renew {
        /// What the record will carry.
        attempt: Version,
        /// Its terms.
        terms: Terms,
        /// Ours.
        ours: OurVersions,
    },
    /// Put a successor's name in our record if it stands there.
    HandOver {
        /// What the record will carry.
        attempt: Version,
        /// Its terms.
        terms: Terms,
        /// Ours.
        ours: OurVersions,
    },
    /// Free the name if our record stands there.
    Release {
        /// Ours.
        ours: OurVersions,
        /// For how long nobody may acquire it yet (`min_hold`).
        rest: Span,
    },
    /// Read the record.
    Read {
        /// Whether the read must see every write that was answered before it was sent.
        consistent: bool,
    },
}

/// What the host is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "wires and hosts take it apart")]
pub struct Call {
    /// To be handed back with the outcome.
    pub id: CallId,
    /// What to do.
    pub kind: CallKind,
    /// The Unix clock when the call was made; stored expiries count from it.
    pub wall: Option<Wall>,
    /// When the machine stops waiting for the outcome; a later one is ignored. The host bounds its
    /// request by this.
    pub give_up_at: Instant,
}

/// How a call ended. An outcome is not an error: "somebody holds it" and "the store is down" are
/// answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "a wire must be able to say every one")]
pub enum Outcome {
    /// The write took effect.
    Applied {
        /// The fencing number that it drew, if it drew one.
        fence: Option<Fence>,
    },
    /// The condition failed, so the write did not and will not take effect as sent.
    Refused {
        /// The record that stood there; `None` if the store did not show it.
        current: Option<Record>,
    },
    /// The record that a read found.
    Found {
        /// [`Record::FREE`] if there was none.
        record: Record,
    },
    /// No answer: the write may have taken effect, or may yet.
    Unknown,
    /// Known not to have taken effect, for a reason that may pass (throttled, loading).
    Unavailable,
    /// Known not to have taken effect, for a reason that will not pass by itself (no permission, no
    /// such table, a record that cannot be understood). Never a free lease.
    Denied,
}

/// The right that a held lease gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "hosts take it apart")]
pub struct Grant {
    /// The fencing number, if the store gives one.
    pub fence: Option<Fence>,
    /// For how long it is still valid by what is known now; [`Span::FOREVER`] for a lock.
    pub valid_for: Span,
}

/// Why an acquire ended without the lease although nobody else was seen to hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Failure {
    /// The store could not take the write, for a reason that may pass.
    Unavailable,
    /// The store refuses such writes.
    Denied,
    /// No answer came. What may have been applied is being undone.
    Unknown,
}

/// Why a busy name could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum BusyBecause {
    /// Somebody holds it.
    Held,
    /// It was released, and its `min_hold` is not over.
    Resting,
    /// Somebody holds it whose record has only a Unix time, and no `max_clock_skew` was declared by
    /// which that could be judged.
    Unjudgeable,
}

/// Why a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum LostReason {
    /// Its time ran out before a renewal was applied.
    Expired,
    /// The record names somebody else.
    Taken,
    /// The record is gone: broken, evicted, or forgotten by the store.
    Missing,
    /// This process (or its machine) did not run between the last renewal and the deadline.
    Paused,
    /// The store did not take a renewal in time.
    Unreachable,
}

/// What the application is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Event {
    /// Somebody holds the name; still trying. Told once for each record that is in the way.
    Waiting {
        /// When the answer may change, if that is known.
        retry_after: Option<Span>,
    },
    /// Somebody holds the name; the wait is over.
    Busy {
        /// In which way.
        because: BusyBecause,
        /// When the answer may change, if that is known.
        retry_after: Option<Span>,
    },
    /// The acquire ended without an answer that it could use.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// The lease is held.
    Acquired {
        /// By this right.
        grant: Grant,
        /// Whether the record of another was replaced.
        takeover: bool,
    },
    /// A renewal was applied.
    Renewed {
        /// The right that it gives.
        grant: Grant,
    },
    /// Still held, but renewals fail and little time is left.
    AtRisk {
        /// How much.
        valid_for: Span,
    },
    /// No longer held.
    Lost {
        /// Why.
        reason: LostReason,
        /// The fencing number of the grant that ended.
        fence: Option<Fence>,
    },
    /// Our record is known to be gone from the store.
    Released,
    /// The successor's name is known to stand in the record.
    HandedOver,
    /// The acquire was given up on request.
    Cancelled,
    /// The store did not confirm a release or hand-over before the record ended by itself.
    Unconfirmed,
}

/// The answer to one input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "hosts take it apart")]
#[must_use]
pub struct Output {
    /// To be carried out now.
    pub call: Option<Call>,
    /// To be told to the application.
    pub event: Option<Event>,
    /// When to tick at the latest. Early is harmless; late costs only availability and the
    /// promptness of [`Event::Lost`].
    pub wake_at: Option<Instant>,
}
