//! Whatever a server answers, to whichever request: reading it never panics, a call comes to its end,
//! and it is never applied or free unless the reply says just that.
//!
//! The oracle looks at the commands as they were sent and at the replies, and knows nothing of how the
//! wire arrived at either.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

use tenure_core::config::{Config, Expiry, Settings, Terms, Ttl};
use tenure_core::io::{Call, CallId, CallKind, OurVersions, Outcome};
use tenure_core::record::{Holder, Identity, Record, Term, Version};
use tenure_core::time::{Instant, Span, Wall};
use tenure_core::wire::Texts;
use tenure_core::wire::redis::{Redis, Reply, Step, Tried};

const TEXTS: Texts<'static> = Texts { name: "report", holder: "web/1", successor: Some("web/2") };
const HEX: &[u8] = b"00000000000000000000000000000007";
/// As many as a call has forms at most.
const MOST_TRIES: usize = 8;

#[derive(Arbitrary, Debug)]
struct Case {
    fence: bool,
    calls: Vec<Asked>,
}

#[derive(Arbitrary, Debug)]
struct Asked {
    kind: Kind,
    seen: Option<Vec<u8>>,
    in_pipeline: bool,
    /// To each try; the last one again and again.
    rounds: Vec<Round>,
}

#[derive(Arbitrary, Debug)]
enum Round {
    Any(Vec<Said>),
    One(Said),
    Pair(Said, Said),
    Script([Said; 3]),
    ScriptWithFence([Said; 4]),
    Drawn([Said; 2]),
    Transaction([Said; 5], bool),
}

impl Round {
    fn replies(&self) -> Vec<Owned> {
        let list = |said: &[Said]| vec![Owned::List(said.iter().map(Owned::new).collect())];
        match self {
            Self::Any(said) => said.iter().map(Owned::new).collect(),
            Self::One(said) => vec![Owned::new(said)],
            Self::Pair(first, second) => vec![Owned::new(first), Owned::new(second)],
            Self::Script(said) => list(said),
            Self::ScriptWithFence(said) => list(said),
            Self::Drawn(said) => list(said),
            Self::Transaction(said, true) => list(said),
            Self::Transaction(said, false) => said.iter().map(Owned::new).collect(),
        }
    }
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum Kind {
    Acquire,
    Takeover,
    RenewSame,
    RenewOther { forever: bool },
    HandOver,
    Release,
    Rest,
    Read,
}

#[derive(Arbitrary, Debug)]
enum Said {
    Nil,
    Int(i64),
    /// Those that mean something are small.
    Small(i8),
    Ok,
    Number(u64),
    SmallNumber(u8),
    /// Our own value, of the attempt in question or of another.
    Ours(bool),
    Offered,
    Resting,
    Other,
    Bytes(Vec<u8>),
    Error(Trouble),
    List(Vec<Said>),
}

#[derive(Arbitrary, Debug)]
enum Trouble {
    NoScript,
    NoPerm,
    Unknown,
    Syntax,
    Oom,
    Loading,
    ReadOnly,
    ExecAbort,
    ExecAbortBecause,
    WrongType,
    Any(String),
}

impl Trouble {
    fn text(&self) -> Vec<u8> {
        match self {
            Self::NoScript => b"NOSCRIPT No matching script.".to_vec(),
            Self::NoPerm => b"NOPERM this user has no permissions".to_vec(),
            Self::Unknown => b"ERR unknown command 'DELEX'".to_vec(),
            Self::Syntax => b"ERR syntax error".to_vec(),
            Self::Oom => b"OOM command not allowed when used memory > 'maxmemory'.".to_vec(),
            Self::Loading => b"LOADING Redis is loading the dataset in memory".to_vec(),
            Self::ReadOnly => b"READONLY You can't write against a read only replica.".to_vec(),
            Self::ExecAbort => b"EXECABORT Transaction discarded".to_vec(),
            Self::ExecAbortBecause => {
                b"EXECABORT Transaction discarded because of: ERR syntax error".to_vec()
            }
            Self::WrongType => b"WRONGTYPE Operation against a key".to_vec(),
            Self::Any(text) => text.clone().into_bytes(),
        }
    }
}

#[derive(Debug)]
enum Owned {
    Nil,
    Int(i64),
    Bytes(Vec<u8>),
    Error(Vec<u8>),
    List(Vec<Self>),
}

impl Owned {
    fn new(said: &Said) -> Self {
        let value = |parts: [&[u8]; 2]| Self::Bytes(parts.concat());
        match said {
            Said::Nil => Self::Nil,
            Said::Int(number) => Self::Int(*number),
            Said::Small(number) => Self::Int((*number).into()),
            Said::Ok => Self::Bytes(b"OK".to_vec()),
            Said::Number(number) => Self::Bytes(number.to_string().into_bytes()),
            Said::SmallNumber(number) => Self::Bytes(number.to_string().into_bytes()),
            Said::Ours(true) => value([b"web/1/c", HEX]),
            Said::Ours(false) => value([b"web/1/c", b"0000000000000000000000000000000f"]),
            Said::Offered => value([b"web/1/o", HEX]),
            Said::Resting => value([b"web/1/r", HEX]),
            Said::Other => value([b"web/9/c", HEX]),
            Said::Bytes(bytes) => Self::Bytes(bytes.clone()),
            Said::Error(trouble) => Self::Error(trouble.text()),
            Said::List(list) => Self::List(list.iter().map(Self::new).collect()),
        }
    }

    fn inner(&self) -> Vec<Reply<'_>> {
        match self {
            Self::List(list) => list.iter().map(|reply| reply.borrow(&[])).collect(),
            _ => Vec::new(),
        }
    }

    fn borrow<'a>(&'a self, list: &'a [Reply<'a>]) -> Reply<'a> {
        match self {
            Self::Nil => Reply::Nil,
            Self::Int(number) => Reply::Int(*number),
            Self::Bytes(bytes) => Reply::Bytes(bytes),
            Self::Error(text) => Reply::Error(text),
            Self::List(_) => Reply::List(list),
        }
    }
}

fn terms(ttl: Ttl) -> Terms {
    let config = Config::new(Settings::new(ttl, Expiry::Store)).expect("works");
    config.terms(ttl).expect("works")
}

fn call_of(kind: Kind) -> Call {
    let attempt = Version::from_bits(7);
    let other = Version::from_bits(8);
    let ours = OurVersions::one(attempt);
    let ten_seconds = Ttl::For(Span::from_millis(10_000));
    let finite = terms(ten_seconds);
    let kind = match kind {
        Kind::Acquire => CallKind::Acquire { attempt, terms: finite },
        Kind::Takeover => CallKind::Takeover { attempt, terms: finite, seen: Identity(1) },
        Kind::RenewSame => CallKind::Renew { attempt, terms: finite, ours },
        Kind::RenewOther { forever } => {
            let ttl = if forever { Ttl::Forever } else { ten_seconds };
            CallKind::Renew { attempt: other, terms: terms(ttl), ours }
        }
        Kind::HandOver => CallKind::HandOver { attempt: other, terms: finite, ours },
        Kind::Release => CallKind::Release { ours, rest: Span::ZERO },
        Kind::Rest => CallKind::Release { ours, rest: Span::from_millis(500) },
        Kind::Read => CallKind::Read { consistent: true },
    };
    let wall = Some(Wall::from_micros(1_700_000_000_000_000));
    Call { id: CallId(1), kind, wall, give_up_at: Instant::from_micros(0) }
}

/// The commands as they were sent.
struct Sent {
    commands: Vec<Vec<Vec<u8>>>,
    transaction: bool,
}

impl Sent {
    fn name(&self) -> &[u8] {
        &self.commands[0][0]
    }

    /// What a transaction or a script answered, however it is laid out.
    fn answers<'a>(&self, replies: &'a [Reply<'a>]) -> &'a [Reply<'a>] {
        match replies {
            [Reply::List(list)] => list,
            _ if matches!(self.name(), b"EVAL" | b"EVALSHA") => &[],
            _ => replies,
        }
    }

    fn says_applied(&self, kind: Kind, replies: &[Reply<'_>]) -> bool {
        let answers = self.answers(replies);
        match self.name() {
            _ if self.transaction => answers.len() == 5 && answers[0] == Reply::Bytes(b"OK"),
            b"SET" => replies == [Reply::Bytes(b"OK")],
            b"DELEX" | b"DELIFEQ" => replies == [Reply::Int(1)],
            b"EVAL" | b"EVALSHA" => {
                let draws = matches!(kind, Kind::Acquire | Kind::Takeover);
                answers.first() == Some(&Reply::Int(1))
                    && answers.len() == if draws { 2 } else { 1 }
            }
            _ => false,
        }
    }

    /// The value and the time to live that a reply shows, if it shows them.
    fn shown<'a>(&self, replies: &'a [Reply<'a>]) -> Option<(&'a Reply<'a>, &'a Reply<'a>)> {
        match (self.name(), self.answers(replies)) {
            (b"GET", [get, pttl]) => Some((get, pttl)),
            (b"EVAL" | b"EVALSHA", [Reply::Int(0), get, pttl]) => Some((get, pttl)),
            (b"EVAL" | b"EVALSHA", [Reply::Int(2), get, pttl, _]) => Some((get, pttl)),
            (_, [_, get, pttl, _, _]) if self.transaction => Some((get, pttl)),
            _ => None,
        }
    }
}

fn judge(sent: &Sent, kind: Kind, replies: &[Reply<'_>], outcome: &Outcome) {
    let has_error = replies.iter().any(|reply| matches!(reply, Reply::Error(_)))
        || sent.answers(replies).iter().any(|reply| matches!(reply, Reply::Error(_)));
    match outcome {
        Outcome::Applied { fence } => {
            assert!(sent.says_applied(kind, replies), "applied out of nowhere");
            if let Some(fence) = fence {
                let draws = matches!(kind, Kind::Acquire | Kind::Takeover);
                let number = match sent.answers(replies).last() {
                    Some(Reply::Int(number)) => u64::try_from(*number).ok(),
                    Some(Reply::Bytes(text)) => String::from_utf8_lossy(text).parse().ok(),
                    _ => None,
                };
                assert!(draws && fence.0 > 0 && number == Some(fence.0), "a fence out of nowhere");
            }
        }
        Outcome::Refused { current } => {
            assert!(!matches!(kind, Kind::Read), "a read is not refused");
            if let Some(record) = current {
                judge_record(sent, replies, record);
            } else {
                assert!(replies == [Reply::Nil] || replies == [Reply::Int(0)]);
            }
        }
        Outcome::Found { record } => {
            assert!(matches!(kind, Kind::Read), "a write finds nothing");
            judge_record(sent, replies, record);
        }
        Outcome::Unavailable => assert!(has_error),
        Outcome::Denied => assert!(has_error || matches!(kind, Kind::Read)),
        Outcome::Unknown => assert!(!matches!(kind, Kind::Read) || has_error),
    }
}

fn judge_record(sent: &Sent, replies: &[Reply<'_>], record: &Record) {
    // Whoever may not look at it is told that somebody holds it.
    if let [Reply::Error(_), ..] = replies {
        assert_eq!((record.holder, record.term), (Holder::Other, Term::Remaining { left: None }));
        return;
    }
    let (get, pttl) = sent.shown(replies).expect("a record out of nowhere");
    let is_gone = *get == Reply::Nil || *pttl == Reply::Int(-2);
    let value = match get {
        Reply::Bytes(value) => value,
        _ => &[][..],
    };
    assert_eq!(*record == Record::FREE, is_gone, "free or not");
    let begins = |with: &[u8]| value.starts_with(with) && value.len() == with.len() + HEX.len();
    match record.holder {
        Holder::Nobody => assert!(is_gone || value.windows(2).any(|part| part == b"/r")),
        Holder::Us => assert!(begins(b"web/1/c"), "not ours"),
        Holder::OfferedToUs => assert!(begins(b"web/1/o"), "not offered to us"),
        Holder::Other => assert!(!begins(b"web/1/c") || !value.ends_with(HEX), "ours"),
    }
    if !is_gone {
        assert!(matches!(record.term, Term::Remaining { .. }), "over before the store says so");
    }
}

fuzz_target!(|case: Case| {
    let mut redis = Redis::new(case.fence);
    for asked in &case.calls {
        let call = call_of(asked.kind);
        let mut tried = Tried::default();
        let mut rounds = asked.rounds.iter();
        let mut last = None;
        for tries in 0.. {
            assert!(tries < MOST_TRIES, "a call without an end");
            let seen = asked.seen.as_deref();
            let request = redis.lower(&TEXTS, "fences", seen, &call, tried, asked.in_pipeline);
            let Some(request) = request else {
                assert!(tries == 0 && matches!(asked.kind, Kind::Takeover) && seen.is_none());
                break;
            };
            let bytes = |arg: &tenure_core::wire::redis::Arg<'_>| {
                let mut bytes = Vec::new();
                arg.write(|part| bytes.extend_from_slice(part));
                bytes
            };
            let commands =
                request.commands.iter().map(|c| c.args().iter().map(bytes).collect()).collect();
            let sent = Sent { commands, transaction: request.transaction };
            last = rounds.next().or(last);
            let owned = last.map_or_else(Vec::new, Round::replies);
            let lists: Vec<_> = owned.iter().map(Owned::inner).collect();
            let replies: Vec<_> =
                owned.iter().zip(&lists).map(|(reply, list)| reply.borrow(list)).collect();
            match redis.read(&TEXTS, &call, request.sent, &replies) {
                Step::Done(read) => {
                    judge(&sent, asked.kind, &replies, &read.outcome);
                    break;
                }
                Step::Again(more) => {
                    let error = |reply: &Reply<'_>| matches!(reply, Reply::Error(_));
                    let answers = sent.answers(&replies);
                    assert!(
                        replies.iter().chain(answers).any(error),
                        "again, though it was answered"
                    );
                    tried = more;
                }
            }
        }
    }
});
