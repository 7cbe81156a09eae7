extern crate alloc;

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use alloc::{format, vec};

use sha1::{Digest as _, Sha1};
use xxhash_rust::xxh3::xxh3_128;

use super::*;
use crate::config::{Config, Expiry, Settings, Terms, Ttl};
use crate::io::CallId;
use crate::record::{Fence, Holder, Identity, Record, Term, Version};
use crate::time::{Instant, Wall};

const TEXTS: Texts<'static> = Texts { name: "job", holder: "web/1", successor: Some("web/2") };
const V1: Version = Version::from_bits(0xa1);
const V2: Version = Version::from_bits(0xb2);
const V1_HEX: &str = "000000000000000000000000000000a1";
const V2_HEX: &str = "000000000000000000000000000000b2";
const OURS: &[u8] = b"web/1/c000000000000000000000000000000a1";
const OTHER: &[u8] = b"web/9/c000000000000000000000000000000f9";
const OFFERED: &[u8] = b"web/1/o000000000000000000000000000000f9";
const FORMS: [Form; 7] =
    [Form::Native, Form::EvalSha, Form::Eval, Form::Multi, Form::Delex, Form::DelIfEq, Form::Brief];
const UNKNOWN: Reply<'static> = Reply::Error(b"ERR unknown command 'X', with args beginning with:");
const NOPERM: Reply<'static> = Reply::Error(b"NOPERM User u has no permissions to run 'x'");
const NOSCRIPT: Reply<'static> = Reply::Error(b"NOSCRIPT No matching script.");
const OOM: Reply<'static> =
    Reply::Error(b"OOM command not allowed when used memory > 'maxmemory'.");
const OK: Reply<'static> = Reply::Bytes(b"OK");

fn terms(ttl: Ttl) -> Terms {
    let config = Config::new(Settings::new(ttl, Expiry::Store)).unwrap();
    config.terms(ttl).unwrap()
}

fn ten_seconds() -> Terms {
    terms(Ttl::For(Span::from_millis(10_000)))
}

fn call(kind: CallKind) -> Call {
    let wall = Some(Wall::from_micros(1_700_000_000_000_000));
    Call { id: CallId(1), kind, wall, give_up_at: Instant::from_micros(0) }
}

fn acquire() -> Call {
    call(CallKind::Acquire { attempt: V1, terms: ten_seconds() })
}

fn takeover() -> Call {
    let seen = Identity(xxh3_128(OFFERED));
    call(CallKind::Takeover { attempt: V1, terms: ten_seconds(), seen })
}

fn renew(attempt: Version, ttl: Ttl) -> Call {
    call(CallKind::Renew { attempt, terms: terms(ttl), ours: OurVersions::one(V1) })
}

fn same() -> Call {
    renew(V1, Ttl::For(Span::from_millis(10_000)))
}

fn hand_over() -> Call {
    let ours = OurVersions::one(V1);
    call(CallKind::HandOver { attempt: V2, terms: ten_seconds(), ours })
}

fn release(rest: Span) -> Call {
    call(CallKind::Release { ours: OurVersions::one(V1), rest })
}

fn look() -> Call {
    call(CallKind::Read { consistent: true })
}

fn all_calls() -> Vec<Call> {
    vec![
        acquire(),
        takeover(),
        same(),
        renew(V2, Ttl::Forever),
        hand_over(),
        release(Span::ZERO),
        release(Span::from_millis(500)),
        look(),
    ]
}

/// A request as one line for each command, scripts by their names.
fn lines(request: &Request<'_>) -> Vec<String> {
    let scripts =
        [("acquire", Script::ACQUIRE), ("renew", Script::RENEW), ("release", Script::RELEASE)];
    let line = |command: &Command<'_>| {
        let mut words = Vec::new();
        for arg in command.args() {
            let mut word = Vec::new();
            arg.write(|piece| word.extend_from_slice(piece));
            let word = String::from_utf8(word).unwrap();
            let name = scripts.iter().find_map(|(name, script)| {
                (word == script.sha || word == script.text).then(|| format!("<{name}>"))
            });
            words.push(name.unwrap_or(word));
        }
        words.join(" ").replace(V1_HEX, "V1").replace(V2_HEX, "V2")
    };
    let mut lines: Vec<String> = request.commands.iter().map(line).collect();
    if request.transaction {
        lines.insert(0, "MULTI".to_string());
    }
    lines
}

fn lower(redis: &Redis, call: &Call, tried: Tried) -> Option<Request<'static>> {
    redis.lower(&TEXTS, "fences", Some(OFFERED), call, tried, false)
}

/// Every form in which a call is sent to a server that understands none of them.
fn tries(redis: &mut Redis, call: &Call, says: &[Reply<'_>]) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let mut tried = Tried::default();
    while let Some(request) = lower(redis, call, tried) {
        all.push(lines(&request));
        match redis.read(&TEXTS, call, request.sent, says) {
            Step::Again(more) => tried = more,
            Step::Done(_) => break,
        }
    }
    all
}

/// The end of a call that was sent in this form.
fn done<'a>(call: &Call, form: Form, replies: &'a [Reply<'a>]) -> Read<'a> {
    match Redis::new(true).read(&TEXTS, call, Sent { form, tried: Tried::default() }, replies) {
        Step::Done(read) => read,
        Step::Again(tried) => panic!("{form:?} {replies:?}: {tried:?}"),
    }
}

fn ours(fence: Option<u64>, left: Option<u64>) -> Record {
    Record {
        holder: Holder::Us,
        version: V1,
        identity: Identity(xxh3_128(OURS)),
        fence: fence.map(Fence),
        term: Term::Remaining { left: left.map(Span::from_millis) },
    }
}

fn others(left: Option<u64>) -> Record {
    Record {
        holder: Holder::Other,
        version: Version::from_bits(0xf9),
        identity: Identity(xxh3_128(OTHER)),
        fence: None,
        term: Term::Remaining { left: left.map(Span::from_millis) },
    }
}

#[test]
fn digests_are_those_of_the_scripts() {
    for script in [Script::ACQUIRE, Script::RENEW, Script::RELEASE] {
        let digest: String =
            Sha1::digest(script.text).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, script.sha);
    }
}

#[test]
fn a_value_reads_back_and_nothing_else_does() {
    for holder in ["web", "", "a/b/c0", "\u{e9}"] {
        for kind in [Kind::Claim, Kind::Offer, Kind::Rest] {
            let value = Value { holder: holder.as_bytes(), kind, version: V1 };
            let mut text = Vec::new();
            value.write(|piece| text.extend_from_slice(piece));
            assert_eq!(Value::parse(&text), Some(value));
        }
    }
    assert_eq!(Value::parse(OURS).unwrap().holder, b"web/1");
    let foreign: [&[u8]; 8] = [
        b"",
        b"c000000000000000000000000000000a1",
        b"web/x000000000000000000000000000000a1",
        b"web-c000000000000000000000000000000a1",
        b"web/c000000000000000000000000000000A1",
        b"web/c000000000000000000000000000000a1\n",
        b"web/c00000000000000000000000000000a1",
        b"\xff\xfe",
    ];
    for raw in foreign {
        assert_eq!(Value::parse(raw), None);
    }
}

#[test]
fn a_read_asks_for_value_and_time() {
    let request = lower(&Redis::new(true), &look(), Tried::default()).unwrap();
    assert_eq!(lines(&request), ["GET job", "PTTL job"]);
}

#[test]
fn a_read_tells_whose_value_it_is() {
    let cases = [
        (OURS, Holder::Us, V1, Some(&b"web/1"[..])),
        (OFFERED, Holder::OfferedToUs, Version::from_bits(0xf9), Some(&b"web/1"[..])),
        (&b"web/1/r000000000000000000000000000000a1"[..], Holder::Nobody, V1, None),
        (&b"web/9/r000000000000000000000000000000a1"[..], Holder::Nobody, V1, None),
        (OTHER, Holder::Other, Version::from_bits(0xf9), Some(&b"web/9"[..])),
        (&b"web/2/o000000000000000000000000000000b2"[..], Holder::Other, V2, Some(&b"web/2"[..])),
        (&b""[..], Holder::Other, Version::NONE, Some(&b""[..])),
        (&b"\xff\x00"[..], Holder::Other, Version::NONE, Some(&b"\xff\x00"[..])),
    ];
    for (raw, holder, version, named) in cases {
        let replies = [Reply::Bytes(raw), Reply::Int(70)];
        let read = done(&look(), Form::Native, &replies);
        let term = Term::Remaining { left: Some(Span::from_millis(70)) };
        let identity = Identity(xxh3_128(raw));
        let record = Record { holder, version, identity, fence: None, term };
        assert_eq!(read.outcome, Outcome::Found { record });
        assert_eq!((read.value, read.holder, read.complaint), (Some(raw), named, None));
    }
}

#[test]
fn a_read_tells_how_long_it_lasts() {
    let cases = [
        (Reply::Int(0), Some(1)),
        (Reply::Int(1), Some(1)),
        (Reply::Int(9_999), Some(9_999)),
        (Reply::Int(-1), None),
        (Reply::Int(-3), None),
        (Reply::Int(i64::MIN), None),
        (Reply::Int(i64::MAX), None),
        (Reply::Nil, None),
        (Reply::Bytes(b"70"), None),
        (NOPERM, None),
    ];
    for (pttl, left) in cases {
        let replies = [Reply::Bytes(OTHER), pttl];
        let record = others(left);
        assert_eq!(done(&look(), Form::Native, &replies).outcome, Outcome::Found { record });
    }
    for replies in [
        [Reply::Nil, Reply::Int(-2)],
        [Reply::Nil, NOPERM],
        // Taken by the next one, or over, between the two commands.
        [Reply::Nil, Reply::Int(70)],
        [Reply::Bytes(OTHER), Reply::Int(-2)],
    ] {
        let read = done(&look(), Form::Native, &replies);
        assert_eq!(read.outcome, Outcome::Found { record: Record::FREE });
        assert_eq!((read.value, read.holder), (None, None));
    }
}

#[test]
fn who_may_not_read_sees_a_stranger() {
    for replies in [&[NOPERM, NOPERM][..], &[NOPERM, Reply::Int(-2)], &[NOPERM]] {
        let read = done(&look(), Form::Native, replies);
        let Outcome::Found { record } = read.outcome else { panic!() };
        assert_eq!((record.holder, record.identity), (Holder::Other, Identity(0)));
        assert_eq!(record.term, Term::Remaining { left: None });
        assert!(read.complaint.is_some());
    }
}

#[test]
fn an_acquire_with_a_fence_has_four_forms() {
    let forms = [
        vec!["EVALSHA <acquire> 2 job fences web/1/cV1 10000"],
        vec!["EVAL <acquire> 2 job fences web/1/cV1 10000"],
        vec![
            "MULTI",
            "SET job web/1/cV1 NX PX 10000",
            "GET job",
            "PTTL job",
            "SET fences 1700000000000000 NX",
            "INCR fences",
        ],
        vec!["SET job web/1/cV1 NX PX 10000"],
    ];
    assert_eq!(tries(&mut Redis::new(true), &acquire(), &[NOPERM]), forms);
    assert_eq!(tries(&mut Redis::new(false), &acquire(), &[NOPERM]), forms[3..]);
    let timeless = Call { wall: None, ..acquire() };
    assert_eq!(tries(&mut Redis::new(true), &timeless, &[NOPERM])[2][4], "SET fences 0 NX");
}

#[test]
fn a_takeover_names_what_was_seen() {
    let seen = core::str::from_utf8(OFFERED).unwrap();
    let forms = [
        vec![format!("EVALSHA <acquire> 2 job fences web/1/cV1 10000 {seen}")],
        vec![format!("EVAL <acquire> 2 job fences web/1/cV1 10000 {seen}")],
        vec![
            "MULTI".to_string(),
            format!("SET job web/1/cV1 IFEQ {seen} PX 10000"),
            "GET job".to_string(),
            "PTTL job".to_string(),
            "SET fences 1700000000000000 NX".to_string(),
            "INCR fences".to_string(),
        ],
        vec![format!("SET job web/1/cV1 IFEQ {seen} PX 10000")],
    ];
    assert_eq!(tries(&mut Redis::new(true), &takeover(), &[NOPERM]), forms);
    assert_eq!(
        tries(&mut Redis::new(false), &takeover(), &[UNKNOWN]),
        [
            forms[3].clone(),
            vec![format!("EVALSHA <renew> 1 job {seen} web/1/cV1 10000")],
            vec![format!("EVAL <renew> 1 job {seen} web/1/cV1 10000")],
        ]
    );
    let unseen =
        Redis::new(true).lower(&TEXTS, "fences", None, &takeover(), Tried::default(), false);
    assert_eq!(unseen, None);
}

#[test]
fn renew_hand_over_and_rest_have_three_forms() {
    let shorter = renew(V2, Ttl::For(Span::from_micros(4_999_001)));
    let cases = [
        (same(), "web/1/cV1", " PX 10000", " 10000"),
        (shorter, "web/1/cV2", " PX 5000", " 5000"),
        (renew(V2, Ttl::Forever), "web/1/cV2", "", ""),
        (renew(V1, Ttl::Forever), "web/1/cV1", "", ""),
        (hand_over(), "web/2/oV2", " PX 10000", " 10000"),
        (release(Span::from_micros(1)), "web/1/rV1", " PX 1", " 1"),
        (release(Span::from_millis(700)), "web/1/rV1", " PX 700", " 700"),
    ];
    for (call, value, px, ttl) in cases {
        assert_eq!(
            tries(&mut Redis::new(true), &call, &[UNKNOWN]),
            [
                [format!("SET job {value} IFEQ web/1/cV1{px}")],
                [format!("EVALSHA <renew> 1 job web/1/cV1 {value}{ttl}")],
                [format!("EVAL <renew> 1 job web/1/cV1 {value}{ttl}")],
            ]
        );
    }
}

#[test]
fn a_release_has_five_forms() {
    assert_eq!(
        tries(&mut Redis::new(true), &release(Span::ZERO), &[UNKNOWN]),
        [
            ["DELEX job IFEQ web/1/cV1"],
            ["DELIFEQ job web/1/cV1"],
            ["EVALSHA <release> 1 job web/1/cV1"],
            ["EVAL <release> 1 job web/1/cV1"],
            ["SET job web/1/cV1 IFEQ web/1/cV1 PX 1"],
        ]
    );
}

#[test]
fn what_cannot_be_put_is_not_put() {
    let redis = Redis::new(true);
    let none = OurVersions::empty();
    let terms = ten_seconds();
    let alone = Texts { successor: None, ..TEXTS };
    assert!(redis.lower(&alone, "f", None, &hand_over(), Tried::default(), false).is_none());
    for kind in [
        CallKind::Renew { attempt: V1, terms, ours: none },
        CallKind::Release { ours: none, rest: Span::ZERO },
        CallKind::Acquire { attempt: V1, terms: self::terms(Ttl::Forever) },
    ] {
        assert_eq!(lower(&redis, &call(kind), Tried::default()), None);
    }
    let mut spent = Tried::default();
    for form in FORMS {
        spent.forms = spent.forms.with(form);
    }
    for call in all_calls() {
        assert_eq!(lower(&redis, &call, spent), None);
    }
}

#[test]
fn in_a_pipeline_scripts_travel_whole() {
    let mut redis = Redis::new(true);
    let first = |redis: &Redis| {
        let request =
            redis.lower(&TEXTS, "fences", None, &acquire(), Tried::default(), true).unwrap();
        (lines(&request)[0].split(' ').next().unwrap().to_string(), request.sent)
    };
    let (name, sent) = first(&redis);
    assert_eq!(name, "EVAL");
    // A user who may only send digests.
    let Step::Again(tried) = redis.read(&TEXTS, &acquire(), sent, &[NOPERM]) else { panic!() };
    let request = redis.lower(&TEXTS, "fences", None, &acquire(), tried, true).unwrap();
    assert_eq!(request.sent.form, Form::EvalSha);
    let taken = [Reply::List(&[Reply::Int(1), Reply::Bytes(b"5")])];
    let _ = redis.read(&TEXTS, &acquire(), request.sent, &taken);
    assert_eq!(first(&redis).0, "EVALSHA");
}

#[test]
fn a_form_is_missing_once_a_later_one_was_understood() {
    let mut redis = Redis::new(true);
    let call = release(Span::ZERO);
    let mut tried = Tried::default();
    let send = |redis: &mut Redis, tried: &mut Tried, says: &[Reply<'_>]| {
        let request = lower(redis, &call, *tried).unwrap();
        match redis.read(&TEXTS, &call, request.sent, says) {
            Step::Again(more) => *tried = more,
            Step::Done(_) => *tried = Tried::default(),
        }
        request.sent.form
    };
    assert_eq!(send(&mut redis, &mut tried, &[UNKNOWN]), Form::Delex);
    // Another lease meanwhile.
    assert_eq!(lower(&redis, &call, Tried::default()).unwrap().sent.form, Form::Delex);
    assert_eq!(send(&mut redis, &mut tried, &[Reply::Int(0)]), Form::DelIfEq);
    assert_eq!(send(&mut redis, &mut tried, &[Reply::Int(1)]), Form::DelIfEq);
    // Another server after a failover: the rest is tried, and at last what was missing before.
    assert_eq!(send(&mut redis, &mut tried, &[UNKNOWN]), Form::DelIfEq);
    assert_eq!(send(&mut redis, &mut tried, &[NOPERM]), Form::EvalSha);
    assert_eq!(send(&mut redis, &mut tried, &[NOPERM]), Form::Eval);
    assert_eq!(send(&mut redis, &mut tried, &[UNKNOWN]), Form::Brief);
    assert_eq!(send(&mut redis, &mut tried, &[Reply::Int(1)]), Form::Delex);
    assert_eq!(send(&mut redis, &mut tried, &[Reply::Int(1)]), Form::Delex);
    // The others were learned apart.
    assert_eq!(lower(&redis, &same(), Tried::default()).unwrap().sent.form, Form::Native);
    assert_eq!(lower(&redis, &acquire(), Tried::default()).unwrap().sent.form, Form::EvalSha);
}

#[test]
fn nothing_is_learned_where_every_form_fails() {
    for says in [NOPERM, UNKNOWN, Reply::Error(b"EXECABORT Transaction discarded")] {
        for call in all_calls() {
            let mut redis = Redis::new(true);
            let first = tries(&mut redis, &call, &[says]);
            assert_eq!(tries(&mut redis, &call, &[says]), first);
        }
    }
    let last = Sent {
        form: Form::Native,
        tried: Tried {
            forms: Forms::NONE.with(Form::EvalSha).with(Form::Eval).with(Form::Multi),
            ..Tried::default()
        },
    };
    let denied = [NOPERM];
    let Step::Done(read) = Redis::new(true).read(&TEXTS, &acquire(), last, &denied) else {
        panic!()
    };
    assert_eq!(read.outcome, Outcome::Denied);
    assert!(read.complaint.unwrap().starts_with(b"NOPERM"));
}

#[test]
fn a_digest_that_is_not_cached_is_no_lesson() {
    let mut redis = Redis::new(true);
    let request = lower(&redis, &acquire(), Tried::default()).unwrap();
    assert_eq!(request.sent.form, Form::EvalSha);
    let Step::Again(tried) = redis.read(&TEXTS, &acquire(), request.sent, &[NOSCRIPT]) else {
        panic!()
    };
    let request = lower(&redis, &acquire(), tried).unwrap();
    assert_eq!(request.sent.form, Form::Eval);
    let taken = [Reply::List(&[Reply::Int(1), Reply::Bytes(b"5")])];
    let _ = redis.read(&TEXTS, &acquire(), request.sent, &taken);
    assert_eq!(lower(&redis, &acquire(), Tried::default()).unwrap().sent.form, Form::EvalSha);
}

#[test]
fn a_full_server_still_renews_by_script() {
    let mut redis = Redis::new(true);
    let request = lower(&redis, &same(), Tried::default()).unwrap();
    let Step::Again(tried) = redis.read(&TEXTS, &same(), request.sent, &[OOM]) else { panic!() };
    let request = lower(&redis, &same(), tried).unwrap();
    assert_eq!(request.sent.form, Form::EvalSha);
    let renewed = [Reply::List(&[Reply::Int(1)])];
    let _ = redis.read(&TEXTS, &same(), request.sent, &renewed);
    assert_eq!(lower(&redis, &same(), Tried::default()).unwrap().sent.form, Form::Native);
    // Whoever may not send scripts waits until there is room.
    let Step::Again(tried) = redis.read(&TEXTS, &same(), request.sent, &[NOPERM]) else { panic!() };
    let last = Sent { form: Form::Eval, tried };
    let denied = [NOPERM];
    let Step::Done(read) = redis.read(&TEXTS, &same(), last, &denied) else { panic!() };
    assert_eq!(read.outcome, Outcome::Unavailable);
    // Another value takes memory in a script as well.
    for call in [acquire(), renew(V2, Ttl::Forever), hand_over()] {
        assert_eq!(done(&call, Form::Native, &[OOM]).outcome, Outcome::Unavailable);
    }
}

#[test]
fn a_script_takes_or_adopts_or_shows_who_holds() {
    for call in [acquire(), takeover()] {
        for form in [Form::EvalSha, Form::Eval] {
            let read = |list: &[Reply<'static>]| {
                let replies = [Reply::List(list)];
                let read = done(&call, form, &replies);
                (read.outcome, read.holder.is_some())
            };
            let fence = Some(Fence(9_007_199_254_740_993));
            assert_eq!(
                read(&[Reply::Int(1), Reply::Bytes(b"9007199254740993")]),
                (Outcome::Applied { fence }, false),
            );
            let adopted = [Reply::Int(2), Reply::Bytes(OURS), Reply::Int(9), Reply::Bytes(b"7")];
            let current = Some(ours(Some(7), Some(9)));
            assert_eq!(read(&adopted), (Outcome::Refused { current }, true));
            let held = [Reply::Int(0), Reply::Bytes(OTHER), Reply::Int(-1)];
            let current = Some(others(None));
            assert_eq!(read(&held), (Outcome::Refused { current }, true));
            let gone = [Reply::Int(0), Reply::Nil, Reply::Int(-2)];
            let current = Some(Record::FREE);
            assert_eq!(read(&gone), (Outcome::Refused { current }, false));
        }
    }
}

#[test]
fn a_transaction_takes_or_adopts_or_shows_who_holds() {
    let wrong = Reply::Error(b"WRONGTYPE Operation against a key");
    let no_integer = Reply::Error(b"ERR value is not an integer or out of range");
    let cases = [
        (
            [OK, Reply::Bytes(OURS), Reply::Int(9), OK, Reply::Int(7)],
            Outcome::Applied { fence: Some(Fence(7)) },
        ),
        // The lease is taken whatever became of its number.
        (
            [OK, Reply::Bytes(OURS), Reply::Int(9), Reply::Nil, no_integer],
            Outcome::Applied { fence: None },
        ),
        (
            [OK, Reply::Bytes(OURS), Reply::Int(9), Reply::Nil, Reply::Int(-4)],
            Outcome::Applied { fence: None },
        ),
        ([Reply::Nil, Reply::Bytes(OURS), Reply::Int(9), Reply::Nil, Reply::Int(7)], {
            Outcome::Refused { current: Some(ours(Some(7), Some(9))) }
        }),
        ([Reply::Nil, Reply::Bytes(OURS), Reply::Int(9), Reply::Nil, no_integer], {
            Outcome::Refused { current: Some(ours(None, Some(9))) }
        }),
        ([Reply::Nil, Reply::Bytes(OTHER), Reply::Int(-1), Reply::Nil, Reply::Int(7)], {
            Outcome::Refused { current: Some(others(None)) }
        }),
        (
            [Reply::Nil, Reply::Nil, Reply::Int(-2), Reply::Nil, Reply::Int(7)],
            Outcome::Refused { current: Some(Record::FREE) },
        ),
        ([Reply::Nil, wrong, Reply::Int(-1), Reply::Nil, Reply::Int(7)], Outcome::Denied),
        ([OOM, Reply::Nil, Reply::Int(-2), OOM, OOM], Outcome::Unavailable),
    ];
    for (replies, outcome) in cases {
        for call in [acquire(), takeover()] {
            assert_eq!(done(&call, Form::Multi, &replies).outcome, outcome);
            assert_eq!(done(&call, Form::Multi, &[Reply::List(&replies)]).outcome, outcome);
        }
    }
}

#[test]
fn a_transaction_that_is_not_allowed_leads_to_a_plain_set() {
    let first = Sent {
        form: Form::Multi,
        tried: Tried {
            forms: Forms::NONE.with(Form::EvalSha).with(Form::Eval),
            refused: Forms::NONE.with(Form::EvalSha).with(Form::Eval),
            full: false,
        },
    };
    let syntax = Reply::Error(b"ERR syntax error");
    for says in [
        &[NOPERM][..],
        &[Reply::Error(b"EXECABORT Transaction discarded because of previous errors.")],
        // `IFEQ` is not known before it runs.
        &[Reply::List(&[syntax, Reply::Nil, Reply::Int(-2), Reply::Nil, Reply::Int(7)])],
    ] {
        let mut redis = Redis::new(true);
        let Step::Again(tried) = redis.read(&TEXTS, &acquire(), first, says) else { panic!() };
        let request = lower(&redis, &acquire(), tried).unwrap();
        assert_eq!(lines(&request), ["SET job web/1/cV1 NX PX 10000"]);
        let Step::Done(read) = redis.read(&TEXTS, &acquire(), request.sent, &[OK]) else {
            panic!()
        };
        assert_eq!(read.outcome, Outcome::Applied { fence: None });
        assert_eq!(lower(&redis, &acquire(), Tried::default()).unwrap().sent.form, Form::Native);
        // A takeover learns for itself.
        assert_eq!(lower(&redis, &takeover(), Tried::default()).unwrap().sent.form, Form::EvalSha);
    }
    // What will pass is no lesson.
    for says in [
        Reply::Error(b"EXECABORT Transaction discarded because of: READONLY You can't write"),
        Reply::Error(b"EXECABORT Transaction discarded because of: OOM command not allowed"),
    ] {
        assert_eq!(done(&acquire(), Form::Multi, &[says]).outcome, Outcome::Unavailable);
    }
}

#[test]
fn native_forms_tell_only_whether_they_applied() {
    let applied = Outcome::Applied { fence: None };
    let refused = Outcome::Refused { current: None };
    let resting = release(Span::from_millis(500));
    for call in [acquire(), takeover(), same(), hand_over(), resting] {
        assert_eq!(done(&call, Form::Native, &[OK]).outcome, applied);
        assert_eq!(done(&call, Form::Native, &[Reply::Nil]).outcome, refused);
    }
    let release = release(Span::ZERO);
    assert_eq!(done(&release, Form::Brief, &[OK]).outcome, applied);
    assert_eq!(done(&release, Form::Brief, &[Reply::Nil]).outcome, refused);
    for form in [Form::Delex, Form::DelIfEq] {
        assert_eq!(done(&release, form, &[Reply::Int(1)]).outcome, applied);
        assert_eq!(done(&release, form, &[Reply::Int(0)]).outcome, refused);
    }
}

#[test]
fn scripts_show_what_they_refused() {
    for call in [same(), hand_over(), release(Span::ZERO), release(Span::from_millis(500))] {
        for form in [Form::EvalSha, Form::Eval] {
            let yes = [Reply::List(&[Reply::Int(1)])];
            assert_eq!(done(&call, form, &yes).outcome, Outcome::Applied { fence: None });
            let no = [Reply::List(&[Reply::Int(0), Reply::Bytes(OTHER), Reply::Int(44)])];
            let read = done(&call, form, &no);
            assert_eq!(read.outcome, Outcome::Refused { current: Some(others(Some(44))) });
            assert_eq!((read.value, read.holder), (Some(OTHER), Some(&b"web/9"[..])));
            let gone = [Reply::List(&[Reply::Int(0), Reply::Nil, Reply::Int(-2)])];
            let current = Some(Record::FREE);
            assert_eq!(done(&call, form, &gone).outcome, Outcome::Refused { current });
        }
    }
}

#[test]
fn errors_are_told_apart_by_their_codes() {
    let cases: [(&str, Class); 51] = [
        ("NOSCRIPT No matching script. Please use EVAL.", Class::NoScript),
        ("-NOSCRIPT No matching script", Class::NoScript),
        ("ERR unknown command 'DELEX', with args beginning with: 'a' ", Class::Unsupported),
        ("unknown command 'DELEX', with args beginning with: 'a' ", Class::Unsupported),
        ("ERR unknown command `DELEX`, with args beginning with:", Class::Unsupported),
        ("ERR Unknown Redis command called from script script: 1", Class::Unsupported),
        ("ERR syntax error", Class::Unsupported),
        ("syntax error", Class::Unsupported),
        ("ERR wrong number of arguments for 'set' command", Class::Unsupported),
        ("wrong number of arguments for 'delex' command", Class::Unsupported),
        (
            "Command # 1 (SET syntax error IFEQ) of pipeline caused error: WRONGTYPE Operation",
            Class::Lasting,
        ),
        ("ERR Command # 1 (DELEX k) of pipeline caused error: syntax error", Class::Unsupported),
        ("NOPERM this user has no permissions to run the 'eval' command", Class::NoPermission),
        (
            "NOPERM Command # 2 (GET k) of pipeline caused error: User u has no permissions",
            Class::NoPermission,
        ),
        ("ERR ACL failure in script: User u has no permissions", Class::NoPermission),
        ("NOPERM ACL failure in script: User u has no permissions", Class::NoPermission),
        (
            "ERR The user executing the script can't run this command or subcommand script: 1",
            Class::NoPermission,
        ),
        ("EXECABORT Transaction discarded because of previous errors.", Class::Aborted),
        ("EXECABORT", Class::Aborted),
        ("EXECABORT Transaction discarded because of: NOPERM no", Class::NoPermission),
        ("EXECABORT Transaction discarded because of: LOADING Redis is loading", Class::Passing),
        ("OOM command not allowed when used memory > 'maxmemory'.", Class::Full),
        (
            "ERR Error running script (call to f_1): @user_script: 3: -OOM command not allowed",
            Class::Full,
        ),
        (
            "ERR Error running script (call to f_1): @user_script:3: WRONGTYPE Operation",
            Class::Lasting,
        ),
        ("LOADING Redis is loading the dataset in memory", Class::Passing),
        ("BUSY Redis is busy running a script.", Class::Passing),
        ("UNKILLABLE Sorry the script already executed write commands", Class::Passing),
        ("READONLY You can't write against a read only replica.", Class::Passing),
        ("MASTERDOWN Link with MASTER is down", Class::Passing),
        ("CLUSTERDOWN The cluster is down", Class::Passing),
        ("TRYAGAIN Multiple keys request during rehashing of slot", Class::Passing),
        ("MISCONF Redis is configured to save RDB snapshots", Class::Passing),
        ("NOREPLICAS Not enough good replicas to write.", Class::Passing),
        ("MOVED 1 127.0.0.1:7000", Class::Passing),
        ("ASK 1 127.0.0.1:7000", Class::Passing),
        ("REDIRECT 127.0.0.1:7000", Class::Passing),
        ("ERR max number of clients reached", Class::Passing),
        ("no upstream host", Class::Passing),
        ("upstream failure", Class::Unclear),
        ("ERR Connection timed out", Class::Unclear),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", Class::Lasting),
        ("ERR Key should be of string type if conditions are specified", Class::Lasting),
        ("NOAUTH Authentication required.", Class::Lasting),
        ("WRONGPASS invalid username-password pair", Class::Lasting),
        ("CROSSSLOT Keys in request don't hash to the same slot", Class::Lasting),
        ("ERR invalid expire time in 'set' command", Class::Lasting),
        ("ERR the fence counter holds no integer", Class::Lasting),
        ("ERR increment or decrement would overflow", Class::Lasting),
        ("unknown", Class::Lasting),
        ("ERR", Class::Lasting),
        ("", Class::Lasting),
    ];
    for (text, class) in cases {
        assert_eq!(Class::of(text.as_bytes()), class, "{text}");
    }
    assert_eq!(Class::of(b"\xff\xfe ERR"), Class::Lasting);
}

#[test]
fn errors_that_no_form_helps_against_end_the_call() {
    for call in all_calls() {
        for form in FORMS {
            for (text, outcome) in [
                (&b"READONLY You can't write"[..], Outcome::Unavailable),
                (b"LOADING Redis is loading", Outcome::Unavailable),
                (b"WRONGTYPE Operation against a key", Outcome::Denied),
                (b"NOAUTH Authentication required.", Outcome::Denied),
                (b"upstream failure", Outcome::Unknown),
            ] {
                let replies = [Reply::Error(text)];
                let read = done(&call, form, &replies);
                assert_eq!((read.outcome, read.complaint), (outcome, Some(text)));
            }
        }
    }
    let wrong_key = [Reply::Error(b"WRONGTYPE Operation against a key"), Reply::Int(-1)];
    assert_eq!(done(&look(), Form::Native, &wrong_key).outcome, Outcome::Denied);
    let loading = [Reply::Bytes(OTHER), Reply::Error(b"LOADING")];
    assert_eq!(done(&look(), Form::Native, &loading).outcome, Outcome::Unavailable);
}

/// Everything up to three replies long, by itself and as a list, for every call in every form.
#[test]
fn no_absurd_reply_gives_a_lease_or_frees_a_name() {
    const FIVE: [Reply<'static>; 5] = [Reply::Int(1); 5];
    const NESTED: [Reply<'static>; 1] = [Reply::List(&[Reply::Int(1), Reply::Int(1)])];
    let atoms = [
        Reply::Int(3),
        Reply::Int(i64::MAX),
        Reply::Int(i64::MIN),
        Reply::Int(-2),
        Reply::Bytes(b""),
        Reply::Bytes(b"ok"),
        Reply::Bytes(b"QUEUED"),
        Reply::Bytes(b"\xff"),
        Reply::Bytes(b"99999999999999999999999"),
        Reply::Bytes(&[b'9'; 5_000]),
        Reply::Error(b""),
        Reply::Error(b"\xff\xff"),
        Reply::List(&[]),
        Reply::List(&FIVE),
        Reply::List(&NESTED),
    ];
    let mut all: Vec<Vec<Reply<'_>>> = vec![vec![]];
    for a in atoms {
        all.push(vec![a]);
        for b in atoms {
            all.push(vec![a, b]);
            all.extend(atoms.map(|c| vec![a, b, c]));
        }
    }
    for call in all_calls() {
        for form in FORMS {
            let sent = Sent { form, tried: Tried::default() };
            for replies in &all {
                for replies in [&replies[..], &[Reply::List(replies)]] {
                    let step = Redis::new(true).read(&TEXTS, &call, sent, replies);
                    let Step::Done(read) = step else { continue };
                    match read.outcome {
                        // A key that ended between `GET` and `PTTL` is gone.
                        Outcome::Found { record: Record::FREE } => {
                            assert!(matches!(replies, [Reply::Bytes(_), Reply::Int(-2)]));
                        }
                        Outcome::Found { record } => assert_eq!(record.holder, Holder::Other),
                        Outcome::Unknown | Outcome::Denied => assert!(read.complaint.is_some()),
                        outcome => panic!("{call:?} {form:?} {replies:?}: {outcome:?}"),
                    }
                }
            }
        }
    }
    // A script that took the lease says its number, and one that found it ours shows our value.
    let list = |list: &[Reply<'static>]| done(&acquire(), Form::Eval, &[Reply::List(list)]).outcome;
    for fence in [Reply::Nil, Reply::Int(0), Reply::Int(-1), Reply::Bytes(b""), Reply::Bytes(b"+1")]
    {
        assert_eq!(list(&[Reply::Int(1), fence]), Outcome::Unknown);
        let adopted = [Reply::Int(2), Reply::Bytes(OURS), Reply::Int(9), fence];
        assert_eq!(list(&adopted), Outcome::Unknown);
    }
    let not_ours = [Reply::Int(2), Reply::Bytes(OTHER), Reply::Int(9), Reply::Bytes(b"7")];
    assert_eq!(list(&not_ours), Outcome::Unknown);
    assert_eq!(list(&[Reply::Int(1)]), Outcome::Unknown);
}
