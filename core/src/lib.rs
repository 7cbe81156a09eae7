//! The lease machine behind `tenure`: it decides *who may act now*, and does nothing else.
//!
//! A **lease** is an exclusive right over a name that ends by itself if its holder dies. This crate
//! takes every decision about one as a pure transition: no clock, no randomness, no I/O, no
//! allocation, no panic. A host reads the clock, asks the machine, carries out the one conditional
//! write that it may be handed, and reports how that ended.
//!
//! # The loop
//!
//! 1. Make a [`Lease`](lease::Lease) of a [`Config`](config::Config). Texts (name, holder id, data)
//!    stay beside it, with the wire.
//! 2. Hand every wish, outcome and passing of time to [`Lease::handle`](lease::Lease::handle).
//! 3. Carry out [`Output::call`](io::Output): a wire ([`wire`]) lowers it to a request of the store
//!    and reads the reply back into an [`Outcome`](io::Outcome). At most one call is awaited; the
//!    outcome of an older one is ignored.
//! 4. Tell the application about [`Output::event`](io::Output).
//! 5. Tick no later than [`Output::wake_at`](io::Output). Early is harmless.
//! 6. Right before each protected step ask [`Lease::grant`](lease::Lease::grant), and send its fence
//!    along.
//!
//! # The safety argument
//!
//! A holder counts from before its write was sent, and gives up a margin of the ttl. A contender
//! counts from after the reply that first showed a record, waits a margin longer than the ttl *in*
//! the record, and replaces exactly that record. Whoever replaces it therefore does so after its
//! writer stopped believing, as long as no clock runs faster or slower than the rate error in the
//! config. Nothing is promised about two machines' clocks agreeing, unless a bound was declared.
//!
//! # What is not promised
//!
//! That two programs never *act* at once: a check and the act that follows are two instants. A
//! resource that refuses smaller fences closes that gap, and needs no clock for it.
#![no_std]

pub mod config;
pub mod io;
pub mod lease;
mod ledger;
pub mod memory;
pub mod record;
pub mod time;
#[cfg(feature = "trace")]
pub mod trace;
pub mod wire;
