//! What a lease is doing, with everything that this needs: a deadline cannot exist in the wrong phase.
//!
//! Plain data. The transitions between phases are in `lease.rs` and nowhere else.

use crate::io::{BusyBecause, CallId, Failure, Grant};
use crate::record::{Fence, Version};
use crate::time::{Fast, Span};

#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    Idle,
    Acquiring(Acquiring),
    Held(Held),
    Undoing(Undoing),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Acquiring {
    pub(super) wait_until: Fast,
    pub(super) next: Next,
    pub(super) next_at: Fast,
    /// Tries without an answer in a row.
    pub(super) failures: u8,
    /// How the last try ended; none has yet at first.
    pub(super) cause: Option<Cause>,
    /// One version for all attempts, where that is how versions go.
    pub(super) claim: Option<Version>,
    /// A refused attempt that a client library may have sent twice: ours if the record shows it.
    pub(super) doubted: Option<Version>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// Try to write.
    Write,
    /// Look again.
    Poll,
    /// Find out what stands there.
    Settle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Busy(BusyBecause),
    Failed(Failure),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Known to have been applied.
    pub(super) version: Version,
    pub(super) fence: Option<Fence>,
    /// The ttl that the record carries.
    pub(super) ttl: Span,
    /// When the write that made the grant was sent; `min_hold` counts from here.
    pub(super) acquired_at: Fast,
    pub(super) until: Fast,
    pub(super) renew_at: Fast,
    /// Renewals without an answer in a row.
    pub(super) failures: u8,
    /// The application asked for a renewal, or for other terms.
    pub(super) asked: bool,
    pub(super) at_risk_told: bool,
    /// A renewal was refused by a store that did not say why, and some other version of ours may
    /// stand there.
    pub(super) settle: bool,
    /// The same, but nothing else can: belief has ended, and the reason is being looked up.
    pub(super) ended: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Undoing {
    pub(super) goal: Goal,
    pub(super) next_at: Fast,
    pub(super) failures: u8,
    /// How often it looked for what may yet land.
    pub(super) sweeps: u8,
    /// Until when a released name stays taken.
    pub(super) rest_until: Fast,
    /// The version of a hand-over. One for all its sendings: no grant is counted from it.
    pub(super) offer: Version,
}

/// What the application waits to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    HandOver,
    Quiet,
    Release,
}

/// The call in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) id: CallId,
    pub(super) write: Write,
    pub(super) attempt: Version,
    pub(super) sent: Fast,
    pub(super) until: Fast,
    pub(super) ttl: Span,
    pub(super) give_up: Fast,
    /// This sending is the first of its version.
    pub(super) first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Acquire,
    HandOver,
    Read,
    Release,
    Renew,
    Takeover,
}

impl Held {
    pub(super) fn is_valid(&self, fast: Fast) -> bool {
        !self.ended && fast < self.until
    }

    pub(super) fn grant(&self, fast: Fast) -> Grant {
        let valid_for =
            if self.until == Fast::NEVER { Span::FOREVER } else { self.until.since(fast) };
        Grant { fence: self.fence, valid_for }
    }

    /// When a quarter of the ttl is left and no renewal came through.
    pub(super) fn at_risk_at(&self) -> Fast {
        if self.until == Fast::NEVER { self.until } else { self.until.before(self.ttl.part(4)) }
    }
}
