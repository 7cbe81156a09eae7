//! The attackers of `tenure-core`: they run the shipped machine, never a copy of it.

pub mod bench;
pub mod model;
pub mod vectors;
