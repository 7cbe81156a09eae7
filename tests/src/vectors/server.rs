//! A stand-in for a Redis server with one lease and one counter. It knows the few commands that the
//! wire sends, as far as this server has them.

use serde_json::{Map, Value, json};

use tenure_core::io::{Call, CallId, CallKind};
use tenure_core::record::Identity;
use tenure_core::time::Instant;
use tenure_core::wire::Texts;
use tenure_core::wire::redis::{Read, Redis, Reply as Borrowed, Sent, Step, Tried};

use super::plain::bytes;
use super::wire::{Answer, Reply};

/// The wire's scripts, which stand in the vectors by their names.
pub(super) const SCRIPTS: [(&str, &str); 3] = [
    ("$acquire.lua", include_str!("../../../core/src/wire/redis/acquire.lua")),
    ("$renew.lua", include_str!("../../../core/src/wire/redis/renew.lua")),
    ("$release.lua", include_str!("../../../core/src/wire/redis/release.lua")),
];

pub(super) const NOSCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";
pub(super) const NOPERM: &str = "NOPERM User app has no permissions to run the 'eval' command";
pub(super) const SYNTAX: &str = "ERR syntax error";

/// A reply, owned. Integers, text, errors, nothing, or a list of those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OwnedReply {
    Nil,
    Int(i64),
    Bytes(Vec<u8>),
    Error(String),
    List(Vec<Self>),
}

impl OwnedReply {
    pub(super) fn text(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec())
    }

    pub(super) fn plain(&self) -> Value {
        match self {
            Self::Nil => Value::Null,
            Self::Int(number) if number.unsigned_abs() < 1 << 53 => json!(number),
            Self::Int(number) => json!({"int": number.to_string()}),
            Self::Bytes(of) => bytes(of),
            Self::Error(text) => json!({"error": text}),
            Self::List(list) => Value::Array(list.iter().map(Self::plain).collect()),
        }
    }

    fn inner(&self) -> Vec<Borrowed<'_>> {
        match self {
            Self::List(list) => list.iter().map(|reply| reply.borrow(&[])).collect(),
            _ => Vec::new(),
        }
    }

    fn borrow<'a>(&'a self, list: &'a [Borrowed<'a>]) -> Borrowed<'a> {
        match self {
            Self::Nil => Borrowed::Nil,
            Self::Int(number) => Borrowed::Int(*number),
            Self::Bytes(bytes) => Borrowed::Bytes(bytes),
            Self::Error(text) => Borrowed::Error(text.as_bytes()),
            Self::List(_) => Borrowed::List(list),
        }
    }
}

/// What a server has, and its user may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Has {
    pub(super) ifeq: bool,
    pub(super) delex: bool,
    pub(super) delifeq: bool,
    pub(super) scripts: bool,
    /// The scripts are cached.
    pub(super) cached: bool,
}

impl Has {
    pub(super) const REDIS_70: Self =
        Self { ifeq: false, delex: false, delifeq: false, scripts: true, cached: false };
    pub(super) const REDIS_84: Self = Self { ifeq: true, delex: true, ..Self::REDIS_70 };
    pub(super) const VALKEY_90: Self = Self { ifeq: true, delifeq: true, ..Self::REDIS_70 };
    pub(super) const ONLY_IFEQ: Self = Self { ifeq: true, scripts: false, ..Self::REDIS_70 };
    pub(super) const NO_SCRIPTS: Self = Self { scripts: false, ..Self::REDIS_84 };
}

pub(super) struct Server {
    client: Redis,
    fence: bool,
    pub(super) has: Has,
    /// Its value, and when it ends.
    pub(super) held: Option<(Vec<u8>, Option<u64>)>,
    counter: Option<u64>,
    seen: Option<Vec<u8>>,
    tried: Tried,
    sent: Option<Sent>,
    commands: Vec<Vec<Vec<u8>>>,
    transaction: bool,
}

const FENCE_KEY: &str = "fences";

impl Server {
    pub(super) fn new(fence: bool, has: Has) -> Self {
        Self {
            client: Redis::new(fence),
            fence,
            has,
            held: None,
            counter: None,
            seen: None,
            tried: Tried::default(),
            sent: None,
            commands: Vec::new(),
            transaction: false,
        }
    }

    pub(super) fn describe(&self, texts: &mut Map<String, Value>) {
        texts.insert("fence".into(), json!(self.fence));
        texts.insert("fence_key".into(), json!(FENCE_KEY));
    }

    pub(super) fn begin(&mut self) {
        self.tried = Tried::default();
    }

    pub(super) fn lower(&mut self, texts: &Texts<'_>, call: &Call) -> Value {
        let seen = self.seen.as_deref();
        let request = self.client.lower(texts, FENCE_KEY, seen, call, self.tried, false);
        self.sent = request.as_ref().map(|request| request.sent);
        self.transaction = request.as_ref().is_some_and(|request| request.transaction);
        let Some(request) = request else {
            self.commands.clear();
            return Value::Null;
        };
        let args = |command: &tenure_core::wire::redis::Command<'_>| {
            let written = |arg: &tenure_core::wire::redis::Arg<'_>| {
                let mut bytes = Vec::new();
                arg.write(|part| bytes.extend_from_slice(part));
                bytes
            };
            command.args().iter().map(written).collect()
        };
        self.commands = request.commands.iter().map(args).collect();
        let shown: Vec<Vec<Value>> = self
            .commands
            .iter()
            .map(|command| command.iter().map(|arg| by_name(arg)).collect())
            .collect();
        json!({"commands": shown, "transaction": self.transaction})
    }

    pub(super) fn read(
        &mut self,
        texts: &Texts<'_>,
        call: &Call,
        replies: &[OwnedReply],
    ) -> Answer {
        let nothing = |outcome| Answer::Done { outcome, holder: None, complaint: None };
        let Some(sent) = self.sent else { return nothing(tenure_core::io::Outcome::Unknown) };
        let lists: Vec<_> = replies.iter().map(OwnedReply::inner).collect();
        let replies: Vec<_> =
            replies.iter().zip(&lists).map(|(reply, list)| reply.borrow(list)).collect();
        match self.client.read(texts, call, sent, &replies) {
            Step::Again(tried) => {
                self.tried = tried;
                Answer::Again
            }
            Step::Done(Read { outcome, value, holder, complaint }) => {
                if super::shows_a_record(&outcome) {
                    self.seen = value.map(<[u8]>::to_vec);
                }
                let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                Answer::Done { outcome, holder: holder.map(lossy), complaint: complaint.map(lossy) }
            }
        }
    }

    pub(super) fn shown(&self, name: &str, now: u64) -> (Identity, Value) {
        let mut client = Redis::new(false);
        let texts = Texts { name, holder: "", successor: None };
        let kind = CallKind::Read { consistent: true };
        let call = Call { id: CallId(0), kind, wall: None, give_up_at: Instant::from_micros(0) };
        let sent = client
            .lower(&texts, "", None, &call, Tried::default(), false)
            .expect("can be read")
            .sent;
        let (raw, ends_at) = self.held.as_ref().expect("something stands there");
        let replies = [
            Borrowed::Bytes(raw),
            Borrowed::Int(ends_at.map_or(-1, |at| (at.saturating_sub(now) / 1_000) as i64)),
        ];
        let Step::Done(read) = client.read(&texts, &call, sent, &replies) else {
            panic!("a read has one form")
        };
        let tenure_core::io::Outcome::Found { record } = read.outcome else {
            panic!("{:?}", read.outcome)
        };
        (record.identity, bytes(raw))
    }

    pub(super) fn saw(&mut self, raw: &Value) {
        self.seen = raw.as_str().map(|text| text.as_bytes().to_vec());
    }

    /// Carries the last request out.
    pub(super) fn perform(&mut self, now: u64) -> Reply {
        self.held = self.held.take().filter(|(_, ends_at)| ends_at.is_none_or(|at| at > now));
        let commands = self.commands.clone();
        let replies = commands
            .iter()
            .map(|command| {
                let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
                self.command(&words, now)
            })
            .collect();
        Reply::Replies(if self.transaction { vec![OwnedReply::List(replies)] } else { replies })
    }

    fn command(&mut self, words: &[&[u8]], now: u64) -> OwnedReply {
        let error = |text: &str| OwnedReply::Error(text.to_owned());
        let text = |word: &[u8]| core::str::from_utf8(word).unwrap_or("").to_owned();
        match words {
            [b"SET", key, value, b"NX"] if *key == FENCE_KEY.as_bytes() => {
                if self.counter.is_some() {
                    return OwnedReply::Nil;
                }
                self.counter = text(value).parse().ok();
                OwnedReply::text("OK")
            }
            [b"SET", _, value, b"NX", b"PX", ttl] => self.set(None, value, Some(ttl), now),
            [b"SET", _, value, b"IFEQ", expected, rest @ ..] if self.has.ifeq => {
                let ttl = rest.get(1).copied();
                self.set(Some(expected), value, ttl, now)
            }
            [b"SET", ..] => error(SYNTAX),
            [b"GET", _] => self.get(),
            [b"PTTL", _] => self.pttl(now),
            [b"INCR", _] => {
                let next = self.counter.unwrap_or(0) + 1;
                self.counter = Some(next);
                OwnedReply::Int(next as i64)
            }
            [b"DELEX", _, b"IFEQ", expected] if self.has.delex => self.delete(expected),
            [b"DELIFEQ", _, expected] if self.has.delifeq => self.delete(expected),
            [b"EVALSHA" | b"EVAL", ..] if !self.has.scripts => error(NOPERM),
            [b"EVALSHA", ..] if !self.has.cached => error(NOSCRIPT),
            [b"EVALSHA" | b"EVAL", _, keys, rest @ ..] => {
                self.has.cached = true;
                match (*keys, rest) {
                    (b"2", [_, _, value, ttl, seen @ ..]) => {
                        self.acquire_script(value, ttl, seen.first().copied(), now)
                    }
                    (_, [_, expected]) => match self.delete(expected) {
                        OwnedReply::Int(1) => OwnedReply::List(vec![OwnedReply::Int(1)]),
                        _ => self.refused(now),
                    },
                    (_, [_, expected, value, ttl @ ..]) => {
                        match self.set(Some(expected), value, ttl.first().copied(), now) {
                            OwnedReply::Nil => self.refused(now),
                            _ => OwnedReply::List(vec![OwnedReply::Int(1)]),
                        }
                    }
                    _ => error("ERR wrong number of arguments"),
                }
            }
            [name, ..] => error(&format!("ERR unknown command '{}'", text(name))),
            [] => error("ERR empty"),
        }
    }

    fn set(
        &mut self,
        expected: Option<&[u8]>,
        value: &[u8],
        ttl: Option<&[u8]>,
        now: u64,
    ) -> OwnedReply {
        if self.value() != expected {
            return OwnedReply::Nil;
        }
        let ttl = ttl.and_then(|ttl| core::str::from_utf8(ttl).ok()?.parse::<u64>().ok());
        self.held = Some((value.to_vec(), ttl.map(|ms| now.saturating_add(ms * 1_000))));
        OwnedReply::text("OK")
    }

    fn delete(&mut self, expected: &[u8]) -> OwnedReply {
        if self.value() != Some(expected) {
            return OwnedReply::Int(0);
        }
        self.held = None;
        OwnedReply::Int(1)
    }

    fn acquire_script(
        &mut self,
        value: &[u8],
        ttl: &[u8],
        seen: Option<&[u8]>,
        now: u64,
    ) -> OwnedReply {
        let ours = self.value() == Some(value);
        if self.value() != seen && !ours {
            return self.refused(now);
        }
        let fence = self.counter.map_or(now, |counter| now.max(counter + 1));
        self.counter = Some(fence);
        let fence = OwnedReply::text(&fence.to_string());
        if ours {
            let shown = [OwnedReply::Int(2), self.get(), self.pttl(now), fence];
            return OwnedReply::List(shown.to_vec());
        }
        self.held = None;
        self.set(None, value, Some(ttl), now);
        OwnedReply::List(vec![OwnedReply::Int(1), fence])
    }

    fn refused(&self, now: u64) -> OwnedReply {
        OwnedReply::List(vec![OwnedReply::Int(0), self.get(), self.pttl(now)])
    }

    fn value(&self) -> Option<&[u8]> {
        self.held.as_ref().map(|(value, _)| value.as_slice())
    }

    fn get(&self) -> OwnedReply {
        self.value().map_or(OwnedReply::Nil, |value| OwnedReply::Bytes(value.to_vec()))
    }

    fn pttl(&self, now: u64) -> OwnedReply {
        OwnedReply::Int(match &self.held {
            None => -2,
            Some((_, None)) => -1,
            Some((_, Some(at))) => (at.saturating_sub(now) / 1_000) as i64,
        })
    }
}

fn by_name(arg: &[u8]) -> Value {
    let script = SCRIPTS.iter().find(|(_, text)| text.as_bytes() == arg);
    script.map_or_else(|| bytes(arg), |(name, _)| json!(name))
}
