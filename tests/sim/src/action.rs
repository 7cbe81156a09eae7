//! What can happen. A schedule is a list of these.

use tenure_core::io::Input;

use crate::world::Born;

/// Something that happens. What is impossible at the time changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a schedule is made of these")]
pub enum Action {
    /// Time passes, in microseconds. The bits say whose clocks run fast meanwhile.
    Pass {
        /// How much.
        by: u64,
        /// Bit `i`: contender `i`.
        fast: u8,
    },
    /// A machine is handed an input that the application or its host may give it at any time.
    Input(usize, Input),
    /// A holder names another as its successor.
    HandOver(usize, usize),
    /// What the first saw of the record is handed to the second.
    Share(usize, usize),
    /// A request arrives at the store.
    Land(Number),
    /// The reply arrives.
    Answer(Number),
    /// The reply arrives, and will once more.
    AnswerTwice(Number),
    /// The request, or the reply, is lost; nobody is told.
    Lose(Number),
    /// The client hears that the connection broke. The request, if it has not landed, goes on.
    Break(Number),
    /// The client hears that its request was turned away, and is right to believe it.
    TurnAway(Number, TurnedAway),
    /// A second request like this one is on its way.
    Duplicate(Number),
    /// The reply is lost, whereupon the client's library sends the request again by itself.
    Resend(Number),
    /// A process dies, and another begins in its place.
    Crash(usize, Box<Born>),
    /// A process dies for good.
    Die(usize),
    /// A machine is copied with everything in it.
    Clone(usize),
    /// The Unix clock is set, by so many microseconds.
    StepWall(usize, i64),
    /// A machine is suspended: its monotonic clock stands still from here.
    Suspend(usize),
    /// It goes on.
    Resume(usize),
    /// What the store acknowledged reaches its replica.
    Replicate,
    /// The replica takes over; what it had not heard of is forgotten.
    Failover,
    /// A person has a contender take the name from whomever the record shows.
    TakeFrom(usize),
    /// Somebody deletes the record.
    Delete,
    /// A client that goes by the Unix clock alone takes the name or keeps it.
    HoldByWall,
    /// It leaves.
    LeaveByWall,
    /// A holder begins an addition to the guarded resource.
    Begin(usize),
    /// The addition that was begun first arrives there.
    Arrive,
}

/// Which request: whose, which call, and which copy of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a number with parts")]
pub struct Number {
    /// The life of the contender that sent it.
    pub life: u32,
    /// The call.
    pub call: u32,
    /// Counts its copies.
    pub copy: u32,
}

/// In which way a request was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum TurnedAway {
    /// For now.
    Unavailable,
    /// For good.
    Denied,
}
