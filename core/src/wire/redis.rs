//! Redis and Valkey: one key for a lease, with one [`Value`] that is compared whole.
//!
//! The store itself ends a record ([`Expiry::Store`](crate::config::Expiry)), and one value serves
//! all attempts of a claim ([`Versions::PerClaim`](crate::config::Versions)). What
//! [`OurVersions`] lists, beyond the first, cannot be compared here.
//!
//! # Forms
//!
//! Not every server has every command, and not every user may use them. So each ability has forms,
//! the best first, and [`Redis`] learns by trying:
//!
//! | | forms |
//! |---|---|
//! | acquire | a script · `MULTI` with `SET NX`, `GET`, `PTTL`, `SET`, `INCR` · `SET NX` (no fence) |
//! | take over | a script · the same with `SET IFEQ` · `SET IFEQ` (no fence) |
//! | renew, hand over, rest | `SET IFEQ` · a script |
//! | release | `DELEX` · `DELIFEQ` · a script · `SET IFEQ` that ends within a millisecond |
//!
//! Versions are not asked for, since servers give false ones. A form counts as missing once a later
//! one was understood in its place, and a form that is missed is tried again before a call fails: a
//! failover may lead to another version, and users are given permissions. A script is sent by its
//! digest, and by its text after `NOSCRIPT`.
//!
//! # Fences
//!
//! One counter, which all leases of a namespace share, gives the fencing numbers: the next one, or
//! the server's clock in microseconds if that is larger, so that they go on growing after the
//! counter was lost. It must live in the slot of its leases if the store is a cluster.
//!
//! # What is not promised
//!
//! Replication is asynchronous: a failover can forget a lease that was acquired. The fence outlives
//! that, as far as the new server's clock is not behind.

mod error;
mod reply;
mod request;
#[cfg(test)]
mod tests;
mod value;

use heapless::Vec;

pub use self::reply::{Read, Reply, Step};
pub use self::request::{Arg, Command, MOST_ARGS, MOST_COMMANDS, Request, Sent, Tried};
pub use self::value::{Kind, Value};

use self::error::Class;
use self::reply::{NOT_A_REPLY, Trouble};
use self::request::{Ability, Form, Forms, Script};
use super::Texts;
use crate::io::{Call, CallKind, OurVersions, Outcome};
use crate::time::Span;

/// What was learned about one client, which stands for one server (or cluster) and one user.
#[derive(Clone, Debug)]
pub struct Redis {
    fence: bool,
    /// By ability: the forms in whose place a later one was understood.
    missing: [Forms; Ability::COUNT],
}

impl Redis {
    /// A client of which nothing is known. With `fence`, acquisitions draw fencing numbers where
    /// the server and the user's permissions allow it.
    #[must_use]
    pub const fn new(fence: bool) -> Self {
        Self { fence, missing: [Forms::NONE; Ability::COUNT] }
    }

    /// Puts a call as a request.
    ///
    /// * `fence_key` names the counter that gives the fencing numbers; unused without a fence.
    /// * `seen` is the raw value that a takeover replaces, from [`Read::value`].
    /// * `tried` is [`Tried::default`] at first, then what [`Step::Again`] says.
    /// * `in_pipeline`: the request will travel with others, so that scripts are sent whole. A
    ///   `NOSCRIPT` would cost the round trip that the pipeline saves.
    ///
    /// `None` if it cannot be put: a takeover without `seen`, a hand-over without a successor, no
    /// version of ours to compare, an acquire that would last for ever (the machine renews to
    /// that), or no form left to try.
    #[must_use]
    pub fn lower<'a>(
        &self,
        texts: &Texts<'a>,
        fence_key: &'a str,
        seen: Option<&'a [u8]>,
        call: &Call,
        tried: Tried,
        in_pipeline: bool,
    ) -> Option<Request<'a>> {
        let job = Job::of(texts, seen, &call.kind)?;
        let ability = self.ability(&call.kind);
        let form = self.choose(ability, tried.forms, in_pipeline)?;
        let key = Arg::Text(texts.name);
        let counter = Arg::Text(fence_key);
        let mut commands = Vec::new();
        let mut add = |command: Option<Command<'a>>| commands.push(command?).ok();
        match (job, form) {
            (Job::Write { expected, value, ttl }, Form::Native) => {
                add(set(key, value, expected, ttl))?;
            }
            (Job::Write { expected, value, ttl }, Form::Multi) => {
                let wall = Arg::Number(call.wall.map_or(0, |wall| wall.as_micros()));
                add(set(key, value, expected, ttl))?;
                add(Command::new(&[&[Arg::Text("GET"), key]]))?;
                add(Command::new(&[&[Arg::Text("PTTL"), key]]))?;
                add(Command::new(&[&[Arg::Text("SET"), counter, wall, Arg::Text("NX")]]))?;
                add(Command::new(&[&[Arg::Text("INCR"), counter]]))?;
            }
            (Job::Write { expected, value, ttl }, Form::EvalSha | Form::Eval) => {
                let value = Arg::Value(value);
                let ttl = millis(ttl);
                let expected = expected.as_slice();
                add(match ability {
                    Ability::Acquire | Ability::TakeOver => {
                        let args = [value, ttl?];
                        script(form, &Script::ACQUIRE, &[key, counter], &[&args, expected])
                    }
                    _ => {
                        let compared = [*expected.first()?, value];
                        script(form, &Script::RENEW, &[key], &[&compared, ttl.as_slice()])
                    }
                })?;
            }
            (Job::Delete { expected }, Form::Delex) => {
                add(Command::new(&[&[Arg::Text("DELEX"), key, Arg::Text("IFEQ"), expected]]))?;
            }
            (Job::Delete { expected }, Form::DelIfEq) => {
                add(Command::new(&[&[Arg::Text("DELIFEQ"), key, expected]]))?;
            }
            (Job::Delete { expected }, Form::EvalSha | Form::Eval) => {
                add(script(form, &Script::RELEASE, &[key], &[&[expected], &[]]))?;
            }
            (Job::Delete { expected }, Form::Brief) => {
                let Arg::Value(value) = expected else { return None };
                add(set(key, value, Some(expected), Span::from_millis(1)))?;
            }
            (Job::Read, Form::Native) => {
                add(Command::new(&[&[Arg::Text("GET"), key]]))?;
                add(Command::new(&[&[Arg::Text("PTTL"), key]]))?;
            }
            _ => return None,
        }
        let transaction = form == Form::Multi;
        Some(Request { commands, transaction, sent: Sent { form, tried } })
    }

    /// Reads what the server replied to a request: a reply for each command, or for a transaction
    /// the list that `EXEC` answered (as one reply or laid out), or the one error by which it was
    /// refused.
    ///
    /// A request that got no reply at all is for the host to call
    /// [`Outcome::Unknown`].
    pub fn read<'a>(
        &mut self,
        texts: &Texts<'_>,
        call: &Call,
        sent: Sent,
        replies: &'a [Reply<'a>],
    ) -> Step<'a> {
        let ability = self.ability(&call.kind);
        let text = match reply::answer(texts, &call.kind, ability, sent.form, replies) {
            Ok(read) => {
                // Only now: where every form fails, it is not the forms that are missing.
                if let Some(missing) = self.missing.get_mut(ability as usize) {
                    *missing = missing.and(sent.tried.refused).without(sent.form);
                }
                return Step::Done(read);
            }
            Err(Trouble::Error(text)) => text,
            Err(Trouble::Shape) => {
                return Step::Done(match call.kind {
                    CallKind::Read { .. } => Read::failed(Outcome::Denied, NOT_A_REPLY),
                    // It was answered, but as if by another command.
                    _ => Read::failed(Outcome::Unknown, NOT_A_REPLY),
                });
            }
        };
        let mut tried = sent.tried;
        match Class::of(text) {
            Class::NoScript => {}
            Class::Unsupported | Class::NoPermission | Class::Aborted => {
                tried.refused = tried.refused.with(sent.form);
            }
            Class::Full if sent.form == Form::Native && is_plain_renewal(&call.kind) => {
                tried.full = true;
            }
            Class::Full | Class::Passing => {
                return Step::Done(Read::failed(Outcome::Unavailable, text));
            }
            Class::Lasting => return Step::Done(Read::failed(Outcome::Denied, text)),
            Class::Unclear => return Step::Done(Read::failed(Outcome::Unknown, text)),
        }
        // A form is sent once for a call, so this comes to an end.
        tried.forms = tried.forms.with(sent.form);
        if ability.forms().iter().any(|form| !tried.forms.has(*form)) {
            return Step::Again(tried);
        }
        let outcome = if tried.full { Outcome::Unavailable } else { Outcome::Denied };
        Step::Done(Read::failed(outcome, text))
    }

    const fn ability(&self, kind: &CallKind) -> Ability {
        match kind {
            CallKind::Acquire { .. } if self.fence => Ability::Acquire,
            CallKind::Acquire { .. } => Ability::AcquirePlainly,
            CallKind::Takeover { .. } if self.fence => Ability::TakeOver,
            CallKind::Release { rest, .. } if rest.as_micros() == 0 => Ability::Delete,
            CallKind::Takeover { .. }
            | CallKind::Renew { .. }
            | CallKind::HandOver { .. }
            | CallKind::Release { .. } => Ability::Replace,
            CallKind::Read { .. } => Ability::Read,
        }
    }

    /// The best form that this call did not try, and that is not known to be missing; if there is
    /// none, what is known may be out of date.
    fn choose(&self, ability: Ability, tried: Forms, in_pipeline: bool) -> Option<Form> {
        let missing = self.missing.get(ability as usize).copied().unwrap_or_default();
        let known = tried.and(missing);
        let best = |without: Forms| ability.forms().iter().find(|form| !without.has(**form));
        let form = *best(known).or_else(|| best(tried))?;
        let whole = in_pipeline && form == Form::EvalSha && !known.has(Form::Eval);
        Some(if whole { Form::Eval } else { form })
    }
}

/// A call, joined with its texts.
#[derive(Clone, Copy, Debug)]
enum Job<'a> {
    /// In place of what is expected; of nothing, if nothing is.
    Write {
        expected: Option<Arg<'a>>,
        value: Value<'a>,
        ttl: Span,
    },
    Delete {
        expected: Arg<'a>,
    },
    Read,
}

impl<'a> Job<'a> {
    fn of(texts: &Texts<'a>, seen: Option<&'a [u8]>, kind: &CallKind) -> Option<Self> {
        let us = texts.holder.as_bytes();
        let claim = |version| Value { holder: us, kind: Kind::Claim, version };
        let first = |ours: &OurVersions| ours.as_slice().first().copied();
        match kind {
            CallKind::Acquire { terms, .. } | CallKind::Takeover { terms, .. }
                if terms.ttl().is_forever() =>
            {
                None
            }
            CallKind::Acquire { attempt, terms } => {
                Some(Self::Write { expected: None, value: claim(*attempt), ttl: terms.ttl() })
            }
            CallKind::Takeover { attempt, terms, .. } => Some(Self::Write {
                expected: Some(Arg::Bytes(seen?)),
                value: claim(*attempt),
                ttl: terms.ttl(),
            }),
            CallKind::Renew { attempt, terms, ours } => Some(Self::Write {
                expected: Some(Arg::Value(claim(first(ours)?))),
                value: claim(*attempt),
                ttl: terms.ttl(),
            }),
            CallKind::HandOver { attempt, terms, ours } => Some(Self::Write {
                expected: Some(Arg::Value(claim(first(ours)?))),
                value: Value {
                    holder: texts.successor?.as_bytes(),
                    kind: Kind::Offer,
                    version: *attempt,
                },
                ttl: terms.ttl(),
            }),
            CallKind::Release { ours, rest } => {
                let held = claim(first(ours)?);
                let expected = Arg::Value(held);
                Some(if *rest == Span::ZERO {
                    Self::Delete { expected }
                } else {
                    let value = Value { kind: Kind::Rest, ..held };
                    Self::Write { expected: Some(expected), value, ttl: *rest }
                })
            }
            CallKind::Read { .. } => Some(Self::Read),
        }
    }
}

/// `SET` with a condition always, and with an end unless it is to last for ever.
fn set<'a>(
    key: Arg<'a>,
    value: Value<'a>,
    expected: Option<Arg<'a>>,
    ttl: Span,
) -> Option<Command<'a>> {
    let write = [Arg::Text("SET"), key, Arg::Value(value)];
    let equal = expected.map(|expected| [Arg::Text("IFEQ"), expected]);
    let absent = [Arg::Text("NX")];
    let condition = equal.as_ref().map_or(absent.as_slice(), |equal| equal.as_slice());
    let end = millis(ttl).map(|ttl| [Arg::Text("PX"), ttl]);
    Command::new(&[&write, condition, end.as_ref().map_or(&[], |end| end.as_slice())])
}

fn script<'a>(
    form: Form,
    script: &Script,
    keys: &[Arg<'a>],
    [args, more]: &[&[Arg<'a>]; 2],
) -> Option<Command<'a>> {
    let (name, body) = match form {
        Form::Eval => ("EVAL", script.text),
        _ => ("EVALSHA", script.sha),
    };
    let start = [Arg::Text(name), Arg::Text(body), Arg::Number(keys.len() as u64)];
    Command::new(&[&start, keys, args, more])
}

/// A time to live as servers take it; none for what lasts for ever.
fn millis<'a>(ttl: Span) -> Option<Arg<'a>> {
    (!ttl.is_forever()).then(|| Arg::Number(ttl.as_millis_up().max(1)))
}

/// Whether a call writes again what stands there, which takes no memory.
fn is_plain_renewal(kind: &CallKind) -> bool {
    matches!(kind, CallKind::Renew { attempt, ours, .. } if ours.as_slice().first() == Some(attempt))
}
