//! Requests, and the forms that one call may be sent in.

use core::fmt::Write as _;

use heapless::{String, Vec};

use super::Value;

/// What is to be sent for one call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "hosts take it apart")]
pub struct Request<'a> {
    /// To the primary, in this order, on one connection. The replies are handed back in the same
    /// order.
    pub commands: Vec<Command<'a>, MOST_COMMANDS>,
    /// To be sent as one transaction: the host puts `MULTI` and `EXEC` around them, or leaves that
    /// to its client, and hands back the list that `EXEC` answers. Otherwise they may travel in a
    /// pipeline with those of other leases.
    pub transaction: bool,
    /// To be handed back with the replies.
    pub sent: Sent,
}

/// How many commands a call takes at most.
pub const MOST_COMMANDS: usize = 5;

/// A command with its arguments. Keys among them are complete: a client that would put a prefix
/// before the keys of some commands and not of others (ioredis with `keyPrefix`) cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command<'a> {
    args: Vec<Arg<'a>, MOST_ARGS>,
}

/// How many arguments a command takes at most, its name being the first.
pub const MOST_ARGS: usize = 8;

impl<'a> Command<'a> {
    /// `None` if they are too many. What is cut short would be another command: `DELEX` without
    /// its condition deletes whatever stands there.
    pub(super) fn new(parts: &[&[Arg<'a>]]) -> Option<Self> {
        let mut args = Vec::new();
        for part in parts {
            args.extend_from_slice(part).ok()?;
        }
        Some(Self { args })
    }

    /// The arguments, the command's name first.
    #[must_use]
    pub fn args(&self) -> &[Arg<'a>] {
        &self.args
    }
}

/// An argument of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "hosts use `write`")]
pub enum Arg<'a> {
    /// Text of ours.
    Text(&'a str),
    /// What a reply showed, byte for byte.
    Bytes(&'a [u8]),
    /// A number, in decimal.
    Number(u64),
    /// A value of ours.
    Value(Value<'a>),
}

impl Arg<'_> {
    /// Hands its bytes to `put`, piece by piece.
    pub fn write(&self, mut put: impl FnMut(&[u8])) {
        match self {
            Self::Text(text) => put(text.as_bytes()),
            Self::Bytes(bytes) => put(bytes),
            Self::Number(number) => {
                let mut text = String::<20>::new();
                // No number of 64 bits is longer.
                let _ = write!(text, "{number}");
                put(text.as_bytes());
            }
            Self::Value(value) => value.write(put),
        }
    }
}

/// The form in which a call was sent. Kept with the request, since what is known about the server
/// may have changed before the replies come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub(super) form: Form,
    pub(super) tried: Tried,
}

/// The forms that a call was sent in without being understood. The default is the first try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    pub(super) forms: Forms,
    /// Of them those that the server, or this user's permissions, do not have at all.
    pub(super) refused: Forms,
    /// One of them failed because the server was out of memory.
    pub(super) full: bool,
}

/// A way to put a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A conditional `SET`, or plain reads.
    Native,
    /// A script by its digest.
    EvalSha,
    /// A script by its text.
    Eval,
    /// Five commands in a transaction.
    Multi,
    /// Redis' compare-and-delete.
    Delex,
    /// Valkey's.
    DelIfEq,
    /// The same by a conditional `SET` that ends within a millisecond.
    Brief,
}

/// A set of forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Forms(u8);

impl Forms {
    pub(super) const NONE: Self = Self(0);

    pub(super) const fn has(self, form: Form) -> bool {
        self.0 & Self::bit(form) != 0
    }

    pub(super) const fn with(self, form: Form) -> Self {
        Self(self.0 | Self::bit(form))
    }

    pub(super) const fn without(self, form: Form) -> Self {
        Self(self.0 & !Self::bit(form))
    }

    pub(super) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    const fn bit(form: Form) -> u8 {
        match form {
            Form::Native => 1,
            Form::EvalSha => 1 << 1,
            Form::Eval => 1 << 2,
            Form::Multi => 1 << 3,
            Form::Delex => 1 << 4,
            Form::DelIfEq => 1 << 5,
            Form::Brief => 1 << 6,
        }
    }
}

/// What a server may be able to do in one form and not in another. Each is learned for itself:
/// Dragonfly has `DELEX` without `SET IFEQ`, Valkey 8.1 the second without a compare-and-delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ability {
    /// To acquire and draw a fencing number.
    Acquire,
    /// To acquire, without a number.
    AcquirePlainly,
    /// To replace a value that was seen, and draw a number.
    TakeOver,
    /// To write in place of a value: renew, hand over, rest.
    Replace,
    /// To delete a value.
    Delete,
    /// To read.
    Read,
}

impl Ability {
    /// How many there are.
    pub(super) const COUNT: usize = 6;

    /// Its forms, the best first.
    pub(super) const fn forms(self) -> &'static [Form] {
        match self {
            // Without its number a grant is still a grant: better than none where a user may only
            // write.
            Self::Acquire | Self::TakeOver => {
                &[Form::EvalSha, Form::Eval, Form::Multi, Form::Native]
            }
            // By scripts only where it must be: they need a permission of their own.
            Self::Replace => &[Form::Native, Form::EvalSha, Form::Eval],
            Self::Delete => &[Form::Delex, Form::DelIfEq, Form::EvalSha, Form::Eval, Form::Brief],
            Self::AcquirePlainly | Self::Read => &[Form::Native],
        }
    }
}

/// A Lua script. Its SHA-1 digest is how a server names it.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: &'static str,
    pub(super) sha: &'static str,
}

impl Script {
    pub(super) const ACQUIRE: Self =
        Self { text: include_str!("acquire.lua"), sha: "44be8f835647faeb8cb608defca01a017207a26a" };
    pub(super) const RENEW: Self =
        Self { text: include_str!("renew.lua"), sha: "d2ba8b1eb581e3dbd684e4d5d0352769daac7e04" };
    pub(super) const RELEASE: Self =
        Self { text: include_str!("release.lua"), sha: "69b96b97559e9e7b67c73af5ae7d5f45c005235b" };
}
