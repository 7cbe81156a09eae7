//! The promises, by the numbers that the design gives them.

use core::fmt;

/// A promise that a run can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "these are the promises")]
pub enum Promise {
    /// No two contenders have a valid grant at one instant.
    Exclusion,
    /// Stronger than exclusion: whoever believes to hold is whom the record names.
    BeliefImpliesStore,
    /// Fences grow in the order of grants, and a fence belongs to one of them.
    Fencing,
    /// A grant rests on a write that was applied, and is told with its fence.
    NoPhantom,
    /// Nothing of ours keeps the name after an acquire that came to nothing.
    NoOrphan,
    /// What the record still gives is not called lost.
    NoFalseLoss,
    /// A dead holder's name is taken within the bound.
    Takeover,
    /// Nothing but our own live record is renewed, released or deleted.
    ReleaseIsOurs,
    /// Everything has an end and a size.
    Bounded,
    /// The same inputs give the same outputs.
    SameEverywhere,
    /// An ended grant does not come back.
    LossIsFinal,
    /// A refusal is never a free lease.
    FailsClosed,
    /// Every input is answered.
    Total,
    /// At a resource that checks fences nothing that was acknowledged is lost, and a valid holder is
    /// never turned away.
    GuardedResource,
}

impl Promise {
    /// All that the world checks.
    pub const ALL: [Self; 14] = [
        Self::Exclusion,
        Self::BeliefImpliesStore,
        Self::Fencing,
        Self::NoPhantom,
        Self::NoOrphan,
        Self::NoFalseLoss,
        Self::Takeover,
        Self::ReleaseIsOurs,
        Self::Bounded,
        Self::SameEverywhere,
        Self::LossIsFinal,
        Self::FailsClosed,
        Self::Total,
        Self::GuardedResource,
    ];

    /// Its number and name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exclusion => "P1 exclusion",
            Self::BeliefImpliesStore => "P1 belief implies store",
            Self::Fencing => "P2 fencing",
            Self::NoPhantom => "P3 no phantom",
            Self::NoOrphan => "P4 no orphan",
            Self::NoFalseLoss => "P5 no false loss",
            Self::Takeover => "P6 takeover",
            Self::ReleaseIsOurs => "P7 release is ours",
            Self::Bounded => "P8 bounded",
            Self::SameEverywhere => "P9 same everywhere",
            Self::LossIsFinal => "P11 loss is final",
            Self::FailsClosed => "P12 fails closed",
            Self::Total => "P13 total",
            Self::GuardedResource => "P2 guarded resource",
        }
    }
}

/// A promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "reports take it apart")]
pub struct Broken {
    /// Which.
    pub promise: Promise,
    /// How.
    pub how: &'static str,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise.name(), self.how)
    }
}

/// A breach.
pub(crate) const fn broken(promise: Promise, how: &'static str) -> Broken {
    Broken { promise, how }
}
