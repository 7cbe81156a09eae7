//! What happens to a lease in a table.

use tenure_core::config::{Expiry, Settings, Ttl};
use tenure_core::io::Wait;
use tenure_core::lease::State;
use tenure_core::record::ClockId;
use tenure_core::time::Span;

use super::scenario::{
    HOLDER, MS, NAME, NOTHING, OTHER, SECOND, Scenario, acquire_of_another, settings,
};
use super::table::{Field, Row, Table};
use super::wire::{Reply, Wire};

const BOUNDED: Expiry = Expiry::Bounded { max_clock_skew: Span::from_millis(500) };

fn observed() -> Settings {
    settings(Expiry::Observed)
}

/// Tries again less often, so that less is to be written down.
fn patient() -> Settings {
    patiently(observed())
}

fn patiently(settings: Settings) -> Settings {
    Settings { poll_interval: Some(Span::from_micros(4 * SECOND)), ..settings }
}

fn new(name: &str, settings: Settings) -> Scenario {
    Scenario::new(name, settings, Wire::DynamoDb(Table::new()))
}

/// Somebody else holds the row.
fn held_by_another(name: &str, settings: Settings, theirs: Settings) -> Scenario {
    let mut s = new(name, settings);
    another_writes(&mut s, theirs, 0x99);
    s
}

fn another_writes(s: &mut Scenario, theirs: Settings, version: u128) {
    let call = acquire_of_another(theirs, version, s.store_now());
    s.wire.table().write_as(OTHER, &call);
}

fn number(number: u64) -> Field {
    Field::N(number.to_string())
}

fn text(text: &str) -> Field {
    Field::S(text.to_owned())
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = vec![];
    let mut add = |scenario: Scenario| all.push(scenario);

    let mut s = new("a grant, renewals, a release, and another grant", observed());
    s.hold().ask().tick_when_due().answer().after(SECOND).renew().answer().ask();
    s.release().ask().answer().after(SECOND).hold().release().answer();
    add(s);

    let table = Table::with_key("pk", Some(("sk", "lease")));
    let mut s = Scenario::new("a sort key", observed(), Wire::DynamoDb(table));
    s.hold().tick_when_due().answer().release().answer();
    another_writes(&mut s, observed(), 0x98);
    s.acquire(Wait::For(Span::from_millis(800))).answer().tick_when_due().answer();
    s.go_on_until(State::Idle);
    add(s);

    let mut s = new("a bounded grant, a renewal, a release", settings(BOUNDED));
    s.hold().tick_when_due().answer().ask().release().answer();
    add(s);

    let mut s = held_by_another(
        "a bounded holder is taken from by the first try",
        settings(BOUNDED),
        settings(BOUNDED),
    );
    s.after(10_600 * MS).acquire(Wait::No).answer().release().answer();
    add(s);

    let mut s = held_by_another(
        "a bounded holder is waited for",
        patiently(settings(BOUNDED)),
        settings(BOUNDED),
    );
    s.acquire(Wait::Forever).go_on_until(State::Held);
    add(s);

    let mut s = held_by_another(
        "a holder without a bound is observed for its ttl",
        patiently(settings(BOUNDED)),
        observed(),
    );
    s.acquire(Wait::For(Span::from_micros(60 * SECOND))).go_on_until(State::Held);
    add(s);

    let mut s =
        held_by_another("busy, and then busy when the wait is over", observed(), observed());
    s.acquire(Wait::No).answer().after(SECOND);
    s.acquire(Wait::For(Span::from_millis(1_500))).go_on_until(State::Idle);
    add(s);

    let mut s = held_by_another("woken when it was released", observed(), observed());
    s.acquire(Wait::Forever).answer().after(100 * MS);
    let released = s.wire.table().row.as_mut().expect("a row");
    released.0.remove("resourceId");
    released.0.remove("leaseExpiration");
    s.wake().answer().wake().release().answer();
    add(s);

    let mut s = new("a foreign client left our version behind: unjudgeable", observed());
    s.hold().release().answer();
    let expires_at = (s.store_now() + 10 * SECOND) / MS;
    s.wire.table().write_as_seed("cron@7", expires_at);
    s.after(60 * SECOND).acquire(Wait::No).answer();
    s.acquire(Wait::For(Span::from_micros(2 * SECOND))).go_on_until(State::Idle);
    add(s);

    let mut s =
        new("a foreign client's row is over by the declared bound", patiently(settings(BOUNDED)));
    s.hold().release().answer();
    let expires_at = (s.store_now() + 2 * SECOND) / MS;
    s.wire.table().write_as_seed("cron@7", expires_at);
    s.acquire(Wait::Forever).go_on_until(State::Held).release().answer();
    add(s);

    let mut s = new("a foreign client's row that never had a version", settings(BOUNDED));
    let expires_at = (s.store_now() + SECOND) / MS;
    s.wire.table().write_as_seed("cron@7", expires_at);
    s.after(5 * SECOND).acquire(Wait::No).answer().answer();
    add(s);

    let mut s = new("a foreign client took the row from us", observed());
    s.hold();
    let expires_at = (s.store_now() + 20 * SECOND) / MS;
    s.wire.table().write_as_seed("cron@7", expires_at);
    s.tick_when_due().answer().tick_when_due();
    add(s);

    let mut s = new("a row with nothing but a key is replaced as seen", observed());
    s.wire.table().row = Some(Row::of([("leaseId", text(NAME))]));
    s.acquire(Wait::No).answer().answer();
    add(s);

    for (what, wrong) in [
        ("a holder that is a number", Row::of([("resourceId", number(7))])),
        ("a holder that is neither", Row::of([("resourceId", Field::Bool)])),
        ("a holder and no expiry", Row::of([("resourceId", text("x"))])),
        ("an expiry and no holder", Row::of([("leaseExpiration", number(7))])),
        (
            "an expiry with an exponent",
            Row::of([("resourceId", text("x")), ("leaseExpiration", Field::N("1E+3".into()))]),
        ),
        ("a fence that is text", Row::of([("fence", text("7"))])),
        ("somebody's data", Row::of([("leaseId", text(NAME)), ("price", number(7))])),
    ] {
        let mut s = new(&format!("no lease: {what}"), observed());
        s.wire.table().row = Some(wrong);
        s.acquire(Wait::No).answer();
        add(s);
    }

    let mut s = new(
        "min_hold: released early, it rests",
        Settings { min_hold: Span::from_micros(4 * SECOND), ..observed() },
    );
    s.hold().after(SECOND).release().answer().after(SECOND).acquire(Wait::No).answer();
    s.acquire(Wait::For(Span::from_micros(60 * SECOND))).go_on_until(State::Held);
    s.after(31 * SECOND).tick();
    add(s);

    let mut s = new("a rest is watched where clocks are far apart", observed());
    s.hold().release().answer();
    let released = s.wire.table().row.as_mut().expect("a row");
    released.0.insert("notBefore".into(), number(1_800_000_000_000));
    released.0.insert("leaseDuration".into(), number(2_000));
    s.acquire(Wait::For(Span::from_micros(5 * SECOND))).go_on_until(State::Held);
    add(s);

    let mut s = new("a lock that never ends", Settings { ttl: Ttl::Forever, ..observed() });
    s.hold().answer().ask().tick_when_due().answer().tick_when_due().answer();
    s.release().answer();
    add(s);

    let forever = Settings { ttl: Ttl::Forever, ..observed() };
    let mut s = new("a lock that somebody broke", forever);
    s.hold().answer();
    s.wire.table().row = None;
    s.tick_when_due().answer();
    add(s);

    let mut s = new("handed over", observed());
    s.hold().after(SECOND).hand_over("web/2").ask().answer();
    add(s);

    let mut s = new("handed over to us", observed());
    let text_of = |s: &Scenario| s.store_now() + 10 * SECOND;
    s.wire.table().row = Some(offered(text_of(&s) / MS));
    s.acquire(Wait::No).answer().answer().tick_when_due().answer();
    add(s);

    let mut s = new("handed over, and the reply is lost", observed());
    s.hold().hand_over("web/2").lose_reply().answer().go_on_until(State::Idle);
    add(s);

    let mut s = new("handed over too late", observed());
    s.hold();
    another_writes(&mut s, observed(), 0x97);
    s.hand_over("web/2").answer();
    add(s);

    let mut s = held_by_another("broken by a person", observed(), observed());
    s.break_what_stands().answer().release().answer();
    add(s);

    let mut s = held_by_another("changed before it was broken", observed(), observed());
    s.break_what_stands();
    another_writes(&mut s, observed(), 0x96);
    s.answer();
    add(s);

    let clock = Some(ClockId(0x00c1_0c4a));
    for (what, importer, wait) in [
        ("on the same clock", Settings { clock, ..observed() }, 10_300 * MS),
        ("on another clock", observed(), 10_300 * MS),
        ("on another clock, with a bound", settings(BOUNDED), 12_000 * MS),
    ] {
        let theirs = observed();
        let exporter = Settings { clock, expiry: importer.expiry, ..observed() };
        let mut s =
            held_by_another(&format!("observed: what is exported {what}"), exporter, theirs);
        s.acquire(Wait::No).answer().after(SECOND);
        let observation = s.export().expect("something was seen");
        let (row, mono, wall) = (s.wire.table().row.clone(), s.mono, s.wall);
        add(s);
        let mut s = new(&format!("observed: what is imported {what}"), importer);
        s.wire.table().row = row;
        (s.mono, s.wall) = (mono, wall);
        s.after(wait).observe(observation).acquire(Wait::No).answer();
        if s.awaits() {
            s.answer();
        }
        add(s);
    }

    let mut s = held_by_another("observed: nothing like what stands there", observed(), observed());
    s.acquire(Wait::No).answer();
    let seen = s.export().expect("something was seen");
    s.observe(tenure_core::record::Observation { identity: NOTHING, ..seen });
    s.after(SECOND).observe(seen).acquire(Wait::No).answer();
    add(s);

    let mut s = new("lost replies are healed by what stands there", observed());
    s.acquire(Wait::No).lose_reply().answer().ask();
    s.tick_when_due().lose_reply().tick_when_due().answer().ask();
    s.renew().lose_reply().tick_when_due().drop_request().tick_when_due().answer();
    s.release().lose_reply().answer();
    add(s);

    let mut s = new("an engine that shows nothing is asked by a read", observed());
    s.wire.table().shows_old = false;
    s.acquire(Wait::No).lose_reply().answer().answer().ask();
    s.tick_when_due().lose_reply().tick_when_due().answer().answer();
    s.wire.table().row = None;
    s.tick_when_due().answer().answer();
    add(s);

    let mut s = new("no answer within the time of a call; a late one changes nothing", observed());
    s.acquire(Wait::For(Span::from_micros(20 * SECOND)));
    let (first, late) = (s.id(), s.perform());
    s.tick_when_due();
    s.reply(first, &late);
    s.answer();
    s.reply(first, &late);
    s.reply(77, &late);
    add(s);

    let mut s = new("nobody answers", patient());
    s.acquire(Wait::No);
    while s.state() == State::Acquiring {
        if s.awaits() {
            s.drop_request();
        } else {
            s.tick_when_due();
        }
    }
    s.go_on_until(State::Idle);
    add(s);

    let mut s = new("lost: taken", observed());
    s.hold();
    another_writes(&mut s, observed(), 0x95);
    s.tick_when_due().answer().ask();
    add(s);

    let mut s = new("lost: missing", observed());
    s.hold();
    s.wire.table().row = None;
    s.tick_when_due().answer().answer();
    add(s);

    let mut s = new("lost: paused", observed());
    s.hold().after(30 * SECOND).ask().tick().answer();
    add(s);

    let mut s = new("lost: unreachable, at risk before", patient());
    s.hold();
    for _ in 0..60 {
        if s.state() != State::Held {
            break;
        }
        s.tick_when_due();
    }
    s.go_on_until(State::Idle);
    add(s);

    let mut s = new("lost: expired, asked for and never ticked", observed());
    s.hold();
    for _ in 0..11 {
        s.after(SECOND).ask();
    }
    s.tick().answer();
    add(s);

    let mut s = new("at risk, and renewed after all", observed());
    s.hold().tick_when_due().tick_when_due().tick_when_due().answer().ask().release().answer();
    add(s);

    let mut s = new("cancelled before it was answered; what landed is undone", observed());
    s.acquire(Wait::Forever);
    let (id, reply) = (s.id(), s.perform());
    s.cancel();
    s.after(5 * MS).reply(id, &reply);
    s.answer();
    add(s);

    let mut s = held_by_another("cancelled while it waits", observed(), observed());
    s.acquire(Wait::Forever).answer().cancel().cancel().tick();
    add(s);

    let mut s = new("cancelled, and the reply is lost", observed());
    s.acquire(Wait::Forever).cancel().lose_reply().answer();
    s.go_on_until(State::Idle);
    add(s);

    for (code, status) in [
        ("ThrottlingException", 400),
        ("ProvisionedThroughputExceededException", 400),
        ("TransactionConflictException", 400),
        ("AccessDeniedException", 400),
        ("ResourceNotFoundException", 400),
        ("ValidationException", 400),
        ("InternalServerError", 500),
        ("ServiceUnavailable", 503),
        ("", 0),
    ] {
        let mut s = new(&format!("an error: {code} {status}"), observed());
        s.acquire(Wait::For(Span::from_micros(SECOND)));
        s.say(&Reply::Error { code, status });
        if code == "ThrottlingException" {
            s.tick_when_due().answer().tick_when_due();
            s.say(&Reply::Error { code, status });
            s.release();
        }
        add(s);
    }

    let mut s = new("throttled, and no time to wait", observed());
    s.acquire(Wait::No);
    s.say(&Reply::Error { code: "ThrottlingException", status: 400 });
    add(s);

    let mut s = new("a release that nobody confirms", patient());
    s.hold().release();
    while s.state() != State::Idle {
        s.tick_when_due();
    }
    add(s);

    let mut s = new("no Unix clock: nothing can be put to a table", observed());
    s.wall = None;
    s.acquire(Wait::No).unavailable(true);
    add(s);

    let mut s =
        new("the Unix clock leaps: a grant is over, and a contender does not count it", observed());
    s.hold();
    s.wall = s.wall.map(|wall| wall + 60 * SECOND);
    s.ask().tick().answer();
    another_writes(&mut s, observed(), 0x94);
    s.acquire(Wait::No).answer();
    s.wall = s.wall.map(|wall| wall + 600 * SECOND);
    s.acquire(Wait::No).answer();
    s.wall = s.wall.map(|wall| wall - 900 * SECOND);
    s.acquire(Wait::No).answer();
    add(s);

    let ttl = |micros| Ttl::For(Span::from_micros(micros));
    let mut s = new("renewed for longer, for less, for ever, and for what cannot work", observed());
    s.hold().renew_for(ttl(60 * SECOND)).answer().ask().renew_for(ttl(2 * SECOND)).answer().ask();
    s.renew_for(ttl(1)).renew_for(ttl(u64::MAX - 1)).renew_for(Ttl::Forever).answer().ask();
    s.release().answer();
    add(s);

    let mut s = new("inputs that make no sense now change nothing", observed());
    s.renew().release().cancel().wake().hand_over("web/2").tick();
    s.acquire(Wait::No).acquire(Wait::Forever).renew().answer().acquire(Wait::No).wake();
    s.release().release().renew().answer().tick();
    add(s);

    let mut s =
        new("the ends of time", Settings { ttl: Ttl::For(Span::from_millis(10)), ..observed() });
    s.hold().after(u64::MAX / 2).ask().tick().answer();
    s.after(u64::MAX).tick();
    add(s);

    all
}

/// A row that its holder handed over to us. Its version fits our name, as only the wire can make it.
fn offered(expires_at_ms: u64) -> Row {
    use tenure_core::io::{Call, CallId, CallKind, OurVersions};
    use tenure_core::record::Version;
    use tenure_core::time::{Instant, Wall};
    use tenure_core::wire::Texts;
    use tenure_core::wire::dynamodb::{RowTexts, Schema, Value, lower};

    let Ok(config) = tenure_core::config::Config::new(observed()) else { panic!("works") };
    let call = Call {
        id: CallId(0),
        kind: CallKind::HandOver {
            attempt: Version::from_bits(0x77),
            terms: config.first_terms(),
            ours: OurVersions::one(Version::from_bits(0x76)),
        },
        wall: Some(Wall::from_millis(expires_at_ms)),
        give_up_at: Instant::from_micros(0),
    };
    let texts = Texts { name: NAME, holder: OTHER, successor: Some(HOLDER) };
    let request = lower(&Schema::lease(), &texts, Some(RowTexts::default()), &call);
    let values = request.expect("can be put").values;
    let version = values.iter().find_map(|(place, value)| match value {
        Value::Version(version) if *place == ":v" => Some(version.as_str().to_owned()),
        _ => None,
    });
    Row::of([
        ("leaseId", text(NAME)),
        ("resourceId", text(HOLDER)),
        ("leaseExpiration", number(expires_at_ms)),
        ("leaseDuration", number(10_000)),
        ("version", text(&version.expect("a version"))),
        ("fence", number(1_700_000_000_000)),
    ])
}
