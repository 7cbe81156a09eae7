//! A resource that refuses old fences: the ground truth. Holders add one to its value, in two steps
//! between which anything may happen, and what was acknowledged must all be in the value in the end.

/// The resource.
#[derive(Clone, Debug, Default)]
pub struct Guarded {
    /// The highest fence that it saw.
    mark: u64,
    /// Whose that was.
    marked_by: Option<u32>,
    value: u64,
    acknowledged: u64,
    /// Additions that were begun and have not arrived yet.
    begun: Vec<Addition>,
    /// Refused for an old fence.
    pub refused: u64,
}

/// How an addition begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no fourth way")]
pub enum Begun {
    /// It may go on.
    Sealed,
    /// A later holder was here.
    TurnedAway,
    /// Another was here with the same fence.
    FenceOfAnother,
}

/// An addition on its way.
#[derive(Clone, Copy, Debug)]
struct Addition {
    fence: u64,
    read: u64,
}

impl Guarded {
    /// A holder begins: it seals the resource, which outdates everybody before it, and reads.
    pub fn begin(&mut self, fence: u64, who: u32) -> Begun {
        if fence < self.mark {
            self.refused += 1;
            return Begun::TurnedAway;
        }
        if fence == self.mark && self.marked_by.is_some_and(|other| other != who) {
            return Begun::FenceOfAnother;
        }
        self.mark = fence;
        self.marked_by = Some(who);
        if self.begun.len() == 8 {
            self.begun.remove(0);
        }
        // One at a time: what it had begun before is over for it.
        self.begun.retain(|addition| addition.fence != fence);
        self.begun.push(Addition { fence, read: self.value });
        Begun::Sealed
    }

    /// The addition that was begun first arrives; its holder may be long gone.
    pub fn arrive(&mut self) {
        if self.begun.is_empty() {
            return;
        }
        let addition = self.begun.remove(0);
        if addition.fence < self.mark {
            self.refused += 1;
            return;
        }
        self.value = addition.read + 1;
        self.acknowledged += 1;
    }

    /// Whether everything that was acknowledged is in the value.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.value == self.acknowledged
    }
}
