//! A world in which the shipped machines are attacked: several contenders for one name, each with
//! clocks of its own, a store, a network that loses, delays, repeats and reorders, processes that
//! pause, crash, restart, are cloned and change their minds, and clients of other makes.
//!
//! No I/O, no clock, no randomness but the seed's: the same seed walks the same way on every platform,
//! in a browser too.
//!
//! * [`action`]: everything that can happen; [`world`]: the state, and how each action changes it. The one
//!   description that the random walk and the exhaustive search share.
//! * [`promise`]: what is checked after every step.
//! * [`walk`]: what happens when, drawn from a seed.
//! * [`shrink`]: the shortest schedule found that breaks the same promise.
//! * [`settle`]: the faults stop; what must become of the world then, and how soon.
//! * [`shape`]: which states of the world are one, for the exhaustive search.

pub mod action;
pub mod guarded;
pub mod promise;
pub mod random;
pub mod settle;
pub mod shape;
pub mod shrink;
pub mod walk;
pub mod world;
