//! Replies, and how they say that a call ended.

use super::super::Texts;
use super::error::Class;
use super::request::{Ability, Form, Tried};
use super::value::Shown;
use crate::io::{CallKind, Outcome};
use crate::record::{Fence, Holder};

/// A reply of the server, as the client shows it. A client that turns `OK` into a truth value is
/// to be asked not to, or its host turns that back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "RESP has no other reply to what is sent")]
pub enum Reply<'a> {
    /// Null of any kind.
    Nil,
    /// An integer.
    Int(i64),
    /// A string of any kind, statuses too.
    Bytes(&'a [u8]),
    /// An error with its code in front (`NOPERM …`). The code `ERR` may be missing.
    Error(&'a [u8]),
    /// An array.
    List(&'a [Self]),
}

/// What follows from replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a call has ended or it has not")]
#[must_use]
pub enum Step<'a> {
    /// The call has ended.
    Done(Read<'a>),
    /// Nothing was done, since the server did not understand this form: to be lowered anew with
    /// this, and sent. At most once for each form.
    Again(Tried),
}

/// How a call ended, for the machine and for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "hosts take it apart")]
pub struct Read<'a> {
    /// To be handed to the machine.
    pub outcome: Outcome,
    /// The raw value that was seen, to be kept for a later takeover.
    pub value: Option<&'a [u8]>,
    /// Whom that value names, for people; all of it if it is foreign.
    pub holder: Option<&'a [u8]>,
    /// The error's text, if the outcome was not what was asked for because of one.
    pub complaint: Option<&'a [u8]>,
}

impl<'a> Read<'a> {
    const fn new(outcome: Outcome) -> Self {
        Self { outcome, value: None, holder: None, complaint: None }
    }

    pub(super) const fn failed(outcome: Outcome, complaint: &'a [u8]) -> Self {
        Self { complaint: Some(complaint), ..Self::new(outcome) }
    }

    const fn refused_unseen() -> Self {
        Self::new(Outcome::Refused { current: None })
    }

    const fn refused(shown: Shown<'a>) -> Self {
        let outcome = Outcome::Refused { current: Some(shown.record) };
        Self { value: shown.raw, holder: shown.holder, ..Self::new(outcome) }
    }

    const fn found(shown: Shown<'a>) -> Self {
        let outcome = Outcome::Found { record: shown.record };
        Self { value: shown.raw, holder: shown.holder, ..Self::new(outcome) }
    }
}

/// What a reply says instead of how the call ended.
pub(super) enum Trouble<'a> {
    Error(&'a [u8]),
    /// No server gives this reply to what was sent.
    Shape,
}

pub(super) const NOT_A_REPLY: &[u8] = b"this is no reply to what was sent";

/// How replies say that a call ended. Strict: what has another shape says nothing.
pub(super) fn answer<'a>(
    texts: &Texts<'_>,
    kind: &CallKind,
    ability: Ability,
    form: Form,
    replies: &'a [Reply<'a>],
) -> Result<Read<'a>, Trouble<'a>> {
    let replies = match (form, replies) {
        (_, [Reply::Error(text), ..])
            if ability == Ability::Read && Class::of(text) == Class::NoPermission =>
        {
            // Somebody may hold it, for all that this user can know.
            return Ok(Read { complaint: Some(text), ..Read::found(Shown::HIDDEN) });
        }
        (_, [Reply::Error(text)]) => return Err(Trouble::Error(text)),
        (Form::EvalSha | Form::Eval | Form::Multi, [Reply::List(list)]) => list,
        (Form::EvalSha | Form::Eval, _) => return Err(Trouble::Shape),
        (_, replies) => replies,
    };
    // What an acquire of ours writes.
    let ours = |shown: &Shown<'_>| match kind {
        CallKind::Acquire { attempt, .. } | CallKind::Takeover { attempt, .. } => {
            shown.record.holder == Holder::Us && shown.record.version == *attempt
        }
        _ => false,
    };
    let applied = |fence| Ok(Read::new(Outcome::Applied { fence }));
    let draws = matches!(ability, Ability::Acquire | Ability::TakeOver);
    match (form, replies) {
        (Form::Native, [get, pttl]) if ability == Ability::Read => match pttl {
            Reply::Error(text) if Class::of(text) != Class::NoPermission => {
                Err(Trouble::Error(text))
            }
            _ => shown(texts, get, pttl).map(Read::found),
        },
        // The form of another call, or no read.
        _ if ability == Ability::Read || !ability.forms().contains(&form) => Err(Trouble::Shape),
        (Form::Native | Form::Brief, [Reply::Bytes(b"OK")]) => applied(None),
        (Form::Native | Form::Brief, [Reply::Nil]) => Ok(Read::refused_unseen()),
        (Form::Delex | Form::DelIfEq, [Reply::Int(1)]) => applied(None),
        (Form::Delex | Form::DelIfEq, [Reply::Int(0)]) => Ok(Read::refused_unseen()),
        (Form::Multi, [Reply::Bytes(b"OK"), _, _, _, incr]) => applied(drawn(incr)),
        (Form::Multi, [Reply::Nil, get, pttl, _, incr]) => {
            let mut shown = shown(texts, get, pttl)?;
            if ours(&shown) {
                shown.record.fence = drawn(incr);
            }
            Ok(Read::refused(shown))
        }
        (Form::Multi, [Reply::Error(text), _, _, _, _]) => Err(Trouble::Error(text)),
        (Form::EvalSha | Form::Eval, [Reply::Int(1)]) if !draws => applied(None),
        (Form::EvalSha | Form::Eval, [Reply::Int(1), fence]) if draws => {
            applied(Some(drawn(fence).ok_or(Trouble::Shape)?))
        }
        (Form::EvalSha | Form::Eval, [Reply::Int(2), held, pttl, fence]) if draws => {
            let mut shown = shown(texts, held, pttl)?;
            if !ours(&shown) {
                return Err(Trouble::Shape);
            }
            shown.record.fence = Some(drawn(fence).ok_or(Trouble::Shape)?);
            Ok(Read::refused(shown))
        }
        (Form::EvalSha | Form::Eval, [Reply::Int(0), held, pttl]) => {
            shown(texts, held, pttl).map(Read::refused)
        }
        _ => Err(Trouble::Shape),
    }
}

/// What `GET` and `PTTL` showed.
fn shown<'a>(
    texts: &Texts<'_>,
    get: &Reply<'a>,
    pttl: &Reply<'_>,
) -> Result<Shown<'a>, Trouble<'a>> {
    match *get {
        Reply::Nil => Ok(Shown::NOTHING),
        Reply::Bytes(raw) => Ok(Shown::new(texts, raw, pttl)),
        Reply::Error(text) => Err(Trouble::Error(text)),
        Reply::Int(_) | Reply::List(_) => Err(Trouble::Shape),
    }
}

/// A fencing number, as an integer of `INCR` or as a script's text.
fn drawn(reply: &Reply<'_>) -> Option<Fence> {
    let number = match *reply {
        Reply::Int(number) => u64::try_from(number).ok()?,
        Reply::Bytes(text) if text.iter().all(u8::is_ascii_digit) => {
            core::str::from_utf8(text).ok()?.parse().ok()?
        }
        _ => return None,
    };
    (number > 0).then_some(Fence(number))
}
