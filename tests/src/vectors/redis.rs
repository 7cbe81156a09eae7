//! What happens to a lease in a key.

use tenure_core::config::{Expiry, Settings, Ttl, Versions};
use tenure_core::io::Wait;
use tenure_core::lease::State;
use tenure_core::time::Span;

use super::scenario::{MS, SECOND, Scenario, settings};
use super::server::{Has, NOPERM, OwnedReply, Server};
use super::wire::{Reply, Wire};

fn store() -> Settings {
    Settings { versions: Versions::PerClaim, ..settings(Expiry::Store) }
}

/// Tries again less often, so that less is to be written down.
fn patient() -> Settings {
    Settings { poll_interval: Some(Span::from_millis(800)), ..store() }
}

fn new(name: &str, settings: Settings, fence: bool, has: Has) -> Scenario {
    Scenario::new(name, settings, Wire::Redis(Box::new(Server::new(fence, has))))
}

const THEIRS: &[u8] = b"web/9/c00000000000000000000000000000099";

fn held_by_another(name: &str, value: &[u8], ttl: Option<u64>) -> Scenario {
    let mut s = new(name, patient(), true, Has::REDIS_84);
    put(&mut s, value, ttl);
    s
}

fn put(s: &mut Scenario, value: &[u8], ttl: Option<u64>) {
    let now = s.store_now();
    s.wire.server().held = Some((value.to_vec(), ttl.map(|ttl| now + ttl)));
}

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = vec![];
    let mut add = |scenario: Scenario| all.push(scenario);
    let second = |seconds| Ttl::For(Span::from_micros(seconds * SECOND));

    for (server, has, fence) in [
        ("Redis 7.0", Has::REDIS_70, true),
        ("Redis 8.4", Has::REDIS_84, true),
        ("Redis 8.4 without fences", Has::REDIS_84, false),
        ("Valkey 9.0", Has::VALKEY_90, true),
        ("no scripts", Has::NO_SCRIPTS, true),
        ("no scripts, nothing but SET IFEQ", Has::ONLY_IFEQ, false),
    ] {
        let name = format!("{server}: every call, and what was learned");
        let mut s = new(&name, store(), fence, has);
        s.hold().ask().tick_when_due().answer().release().answer().after(SECOND);
        s.hold().renew_for(second(3)).answer().renew_for(second(30)).answer();
        s.tick_when_due().answer().hand_over("web/2").answer();
        s.acquire(Wait::No).go_on_until(State::Idle);
        add(s);
    }

    let resting = Settings { min_hold: Span::from_micros(3 * SECOND), ..patient() };
    let mut s = new("min_hold: a resting value", resting, true, Has::REDIS_84);
    s.hold().release().answer().acquire(Wait::No).answer();
    s.acquire(Wait::Forever).go_on_until(State::Held);
    add(s);

    let mut s = new(
        "a lock that never ends",
        Settings { ttl: Ttl::Forever, ..store() },
        true,
        Has::REDIS_70,
    );
    s.hold().answer().ask().tick_when_due().answer().release().answer();
    add(s);

    let mut s = held_by_another("busy until the key is gone", THEIRS, Some(2 * SECOND));
    s.acquire(Wait::No).answer();
    s.acquire(Wait::For(Span::from_micros(10 * SECOND))).go_on_until(State::Held);
    add(s);

    let mut s = held_by_another(
        "another kind of lock, of any bytes",
        b"\xff\x00\xfe token",
        Some(900 * MS),
    );
    s.acquire(Wait::No).answer();
    add(s);

    let mut s = held_by_another("a token without an end is broken by a person", b"41f2", None);
    s.acquire(Wait::No).answer().break_what_stands().answer().release().answer();
    add(s);

    let offered = b"web/1/o00000000000000000000000000000077";
    for fence in [true, false] {
        for has in [Has::REDIS_84, Has::NO_SCRIPTS] {
            let how = if has.scripts { "by a script" } else { "without scripts" };
            let with = if fence { "with" } else { "without" };
            let mut s =
                new(&format!("handed over to us {how}, {with} fences"), store(), fence, has);
            put(&mut s, offered, Some(10 * SECOND));
            s.acquire(Wait::No).go_on_until(State::Held).ask();
            add(s);
        }
    }

    for has in [Has::REDIS_84, Has::NO_SCRIPTS, Has::REDIS_70] {
        let how = match (has.scripts, has.ifeq) {
            (false, _) => "in transactions",
            (_, false) => "in scripts",
            _ => "natively",
        };
        let mut s = new(&format!("lost replies are healed, {how}"), store(), true, has);
        s.acquire(Wait::No).answer().release().answer();
        s.acquire(Wait::No).lose_reply().answer().ask();
        s.tick_when_due().lose_reply().tick_when_due().answer().renew_for(second(3)).lose_reply();
        s.tick_when_due().answer();
        if s.awaits() {
            s.answer();
        }
        s.release().lose_reply().answer();
        if s.awaits() {
            s.answer();
        }
        add(s);
    }

    let mut s = new("no fences: nil is followed by a read", store(), false, Has::REDIS_84);
    s.acquire(Wait::No).lose_reply().answer().answer().ask();
    add(s);

    let mut s = new(
        "out of memory: what stands there is renewed by a script",
        store(),
        true,
        Has::REDIS_84,
    );
    s.hold().tick_when_due();
    s.say(&Reply::errors(OOM));
    s.answer();
    s.tick_when_due();
    s.say(&Reply::errors(OOM));
    s.say(&Reply::errors(OOM));
    add(s);

    for text in [
        OOM,
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        "MISCONF Redis is configured to save RDB snapshots",
        "CLUSTERDOWN The cluster is down",
        "MOVED 3999 127.0.0.1:6381",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "NOREPLICAS Not enough good replicas to write.",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "NOAUTH Authentication required.",
        "ERR max number of clients reached",
        "ERR upstream failure",
        "ERR the fence counter holds no integer",
    ] {
        let mut s = new(&format!("an error: {text}"), store(), true, Has::REDIS_84);
        s.acquire(Wait::For(Span::from_micros(SECOND)));
        s.say(&Reply::errors(text));
        if s.state() == State::Acquiring && text == OOM {
            s.answer();
        }
        add(s);
    }

    let mut s = new("no form is left", store(), true, Has::REDIS_84);
    s.acquire(Wait::No);
    while s.say(&Reply::errors(NOPERM)) {}
    s.acquire(Wait::No).answer();
    add(s);

    let mut s = new("a transaction is discarded", store(), true, Has::NO_SCRIPTS);
    s.acquire(Wait::No);
    s.say(&Reply::errors(NOPERM));
    s.say(&Reply::errors(NOPERM));
    s.say(&Reply::errors("EXECABORT Transaction discarded because of previous errors."));
    s.answer();
    add(s);

    for (what, replies) in [
        ("nothing", vec![]),
        ("a number for a script's list", vec![OwnedReply::Int(1)]),
        ("a list that is too short", vec![OwnedReply::List(vec![OwnedReply::Int(1)])]),
        (
            "a fence that is none",
            vec![OwnedReply::List(vec![OwnedReply::Int(1), OwnedReply::text("-4")])],
        ),
        (
            "the largest of integers",
            vec![OwnedReply::List(vec![OwnedReply::Int(1), OwnedReply::Int(i64::MAX)])],
        ),
        (
            "taken, as the value of another",
            vec![OwnedReply::List(vec![
                OwnedReply::Int(2),
                OwnedReply::Bytes(THEIRS.to_vec()),
                OwnedReply::Int(5),
                OwnedReply::text("9"),
            ])],
        ),
    ] {
        let mut s =
            new(&format!("a reply to something else: {what}"), store(), true, Has::REDIS_84);
        s.acquire(Wait::No);
        s.say(&Reply::Replies(replies));
        if s.awaits() {
            s.answer();
        }
        add(s);
    }

    let mut s = new("a late reply changes nothing", store(), true, Has::REDIS_84);
    s.acquire(Wait::For(Span::from_micros(20 * SECOND)));
    let (first, late) = (s.id(), s.perform());
    s.tick_when_due();
    s.reply(first, &late);
    s.answer();
    add(s);

    let mut s = new("lost: missing", store(), true, Has::REDIS_84);
    s.hold();
    s.wire.server().held = None;
    s.tick_when_due().answer();
    if s.awaits() {
        s.answer();
    }
    add(s);

    for has in [Has::REDIS_84, Has::REDIS_70] {
        let how = if has.ifeq { "nil, then a read" } else { "a script's answer" };
        let mut s = new(&format!("lost: taken, by {how}"), store(), true, has);
        s.hold();
        put(&mut s, THEIRS, Some(8 * SECOND));
        s.tick_when_due().answer();
        if s.awaits() {
            s.answer();
        }
        s.tick();
        add(s);
    }

    let mut s = new("lost: taken, by whom may not be read", store(), true, Has::REDIS_84);
    s.hold();
    put(&mut s, THEIRS, Some(8 * SECOND));
    s.tick_when_due().answer();
    if s.awaits() {
        s.say(&Reply::Replies(vec![OwnedReply::Error(NOPERM.into()), OwnedReply::Int(8_000)]));
    }
    add(s);

    let mut s = new("lost: paused", store(), true, Has::REDIS_84);
    s.hold().after(30 * SECOND).tick().answer();
    add(s);

    let mut s = new("lost: unreachable, at risk before", patient(), true, Has::REDIS_84);
    s.hold();
    for _ in 0..60 {
        if s.state() != State::Held {
            break;
        }
        s.tick_when_due();
    }
    s.go_on_until(State::Idle);
    add(s);

    let mut s = new(
        "cancelled before it was answered; what landed is undone",
        patient(),
        true,
        Has::VALKEY_90,
    );
    s.acquire(Wait::Forever);
    s.lose_reply();
    let (id, reply) = (s.id(), s.perform());
    s.cancel();
    s.after(5 * MS).reply(id, &reply);
    s.go_on_until(State::Idle);
    add(s);

    let mut s = new(
        "no Unix clock: scripts need none, and neither does a grant",
        store(),
        true,
        Has::NO_SCRIPTS,
    );
    s.wall = None;
    s.acquire(Wait::No).answer().tick_when_due().answer().release().answer();
    add(s);

    all
}
