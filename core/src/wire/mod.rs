//! What the stores understand: a wire lowers a [`Call`](crate::io::Call) to a request of the store
//! and reads the reply back into an [`Outcome`](crate::io::Outcome).
//!
//! A wire translates and never decides about leases. It joins the machine's numbers with the texts
//! that stay beside it ([`Texts`]), and what it reads is shown both ways: condensed for the machine,
//! and as the texts that a later takeover has to name.

pub mod dynamodb;
pub mod redis;

/// The texts of one lease.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "hosts fill it in")]
pub struct Texts<'a> {
    /// The name that is contended for.
    pub name: &'a str,
    /// Our holder id.
    pub holder: &'a str,
    /// Whom a hand-over names.
    pub successor: Option<&'a str>,
}
