//! The DynamoDB wire: the exact requests, and what rows of every kind are read as.

use tenure_core::config::{Config, Expiry, Settings, Ttl};
use tenure_core::io::{Call, CallId, CallKind, OurVersions, Outcome};
use tenure_core::record::{Fence, Holder, Identity, Record, Term, Version};
use tenure_core::time::{Instant, Span, Wall};
use tenure_core::wire::Texts;
use tenure_core::wire::dynamodb::{
    Attribute, Item, Operation, Request, RowTexts, Schema, Value, lower, outcome_of_error,
    read_applied, read_found, read_refused,
};

const TEXTS: Texts<'_> = Texts { name: "job", holder: "host:1", successor: Some("host:2") };
const WALL_MS: u64 = 1_700_000_000_000;

fn terms(expiry: Expiry) -> tenure_core::config::Terms {
    let settings = Settings::new(Ttl::For(Span::from_millis(30_000)), expiry);
    Config::new(settings).expect("these settings work").first_terms()
}

fn call(kind: CallKind) -> Call {
    Call {
        id: CallId(1),
        kind,
        wall: Some(Wall::from_millis(WALL_MS)),
        give_up_at: Instant::from_micros(0),
    }
}

fn put(kind: CallKind) -> Request<'static> {
    lower(&Schema::lease(), &TEXTS, Some(RowTexts::default()), &call(kind)).expect("can be put")
}

fn acquire(expiry: Expiry) -> CallKind {
    CallKind::Acquire { attempt: Version::from_bits(0xa1), terms: terms(expiry) }
}

fn value<'a>(request: &Request<'a>, placeholder: &str) -> Option<Value<'a>> {
    request.values.iter().find(|(name, _)| *name == placeholder).map(|(_, value)| *value)
}

/// DynamoDB refuses a request with a placeholder that is used nowhere, or used and not given.
fn placeholders_fit(request: &Request<'_>) {
    let text = format!("{} {}", request.update, request.condition);
    let used: std::collections::BTreeSet<&str> = text
        .split(|c: char| !(c.is_alphanumeric() || c == '#' || c == ':'))
        .filter(|word| word.starts_with(['#', ':']))
        .collect();
    let names = request.names.iter().map(|(name, _)| *name);
    let given: std::collections::BTreeSet<&str> =
        names.chain(request.values.iter().map(|(name, _)| *name)).collect();
    assert_eq!(used, given, "{text}");
}

struct Row(Vec<(&'static str, Attribute<'static>)>);

impl Item for Row {
    fn get(&self, name: &str) -> Option<Attribute<'_>> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, attribute)| *attribute)
    }

    fn has_others(&self, known: &dyn Fn(&str) -> bool) -> bool {
        self.0.iter().any(|(name, _)| !known(name))
    }
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// A row as an acquire of `holder` writes it.
fn written_by(holder: &'static str, version: u128) -> Row {
    let texts = Texts { holder, ..TEXTS };
    let kind =
        CallKind::Acquire { attempt: Version::from_bits(version), terms: terms(Expiry::Observed) };
    let request = lower(&Schema::lease(), &texts, None, &call(kind)).expect("can be put");
    let Some(Value::Version(version)) = value(&request, ":v") else { panic!("no version") };
    Row(vec![
        ("leaseId", Attribute::Text("job")),
        ("resourceId", Attribute::Text(holder)),
        ("leaseExpiration", Attribute::Number("1700000030000")),
        ("leaseDuration", Attribute::Number("30000")),
        ("version", Attribute::Text(leaked(version.as_str().to_owned()))),
        ("fence", Attribute::Number("17")),
    ])
}

fn found(row: &Row) -> Outcome {
    read_found(&Schema::lease(), &TEXTS, Some(row)).outcome
}

fn record(row: &Row) -> Record {
    match found(row) {
        Outcome::Found { record } => record,
        other => panic!("{other:?}"),
    }
}

fn set(mut row: Row, name: &'static str, attribute: Option<Attribute<'static>>) -> Row {
    row.0.retain(|(known, _)| *known != name);
    row.0.extend(attribute.map(|attribute| (name, attribute)));
    row
}

#[test]
fn an_acquire_is_one_conditional_update() {
    let request = put(acquire(Expiry::Observed));
    placeholders_fit(&request);
    assert_eq!(request.operation, Operation::UpdateItem);
    assert_eq!(request.key.as_slice(), [("leaseId", "job")]);
    assert_eq!(
        request.condition,
        "attribute_not_exists(#k) OR (attribute_exists(#v) AND attribute_not_exists(#r) AND \
         (attribute_not_exists(#nb) OR #nb <= :now))"
    );
    assert_eq!(
        request.update,
        "SET #r = :me, #e = :e, #ld = :ld, #v = :v, #f = if_not_exists(#f, :floor) + :one \
         REMOVE #nb, #ms"
    );
    assert_eq!(value(&request, ":e"), Some(Value::Number(WALL_MS + 30_000)));
    assert_eq!(value(&request, ":ld"), Some(Value::Number(30_000)));
    assert_eq!(value(&request, ":floor"), Some(Value::Number(WALL_MS)));
    assert_eq!(value(&request, ":me"), Some(Value::Text("host:1")));
}

#[test]
fn a_bounded_acquire_also_takes_what_is_over_by_both_bounds() {
    let expiry = Expiry::Bounded { max_clock_skew: Span::from_millis(250) };
    let request = put(acquire(expiry));
    placeholders_fit(&request);
    assert!(request.condition.ends_with("OR (#ms <= :ms AND #e < :past)"));
    assert_eq!(value(&request, ":ms"), Some(Value::Number(250)));
    assert_eq!(value(&request, ":past"), Some(Value::Number(WALL_MS - 250)));
}

#[test]
fn every_request_uses_exactly_the_placeholders_that_it_gives() {
    let ours = OurVersions::one(Version::from_bits(1));
    let attempt = Version::from_bits(2);
    for expiry in [Expiry::Observed, Expiry::Bounded { max_clock_skew: Span::from_millis(9) }] {
        let terms = terms(expiry);
        for kind in [
            CallKind::Acquire { attempt, terms },
            CallKind::Takeover { attempt, terms, seen: Identity(0) },
            CallKind::Renew { attempt, terms, ours },
            CallKind::HandOver { attempt, terms, ours },
            CallKind::Release { ours, rest: Span::ZERO },
            CallKind::Release { ours, rest: Span::from_millis(1) },
        ] {
            placeholders_fit(&put(kind));
        }
    }
}

#[test]
fn no_condition_passes_on_a_missing_row_but_that_of_an_acquire() {
    let ours = OurVersions::one(Version::from_bits(1));
    let (attempt, terms) = (Version::from_bits(2), terms(Expiry::Observed));
    for kind in [
        CallKind::Renew { attempt, terms, ours },
        CallKind::HandOver { attempt, terms, ours },
        CallKind::Release { ours, rest: Span::ZERO },
    ] {
        let condition = put(kind).condition;
        assert!(condition.starts_with("#r = :me AND #v "), "{condition}");
        assert!(!condition.contains("<>") && !condition.contains("NOT"), "{condition}");
    }
}

#[test]
fn a_takeover_names_everything_as_it_was_read() {
    let seen = RowTexts {
        resource_id: Some("other"),
        lease_expiration: Some("50.5"),
        version: Some("left behind"),
    };
    let kind = CallKind::Takeover {
        attempt: Version::from_bits(2),
        terms: terms(Expiry::Observed),
        seen: Identity(0),
    };
    let request = lower(&Schema::lease(), &TEXTS, Some(seen), &call(kind)).expect("can be put");
    placeholders_fit(&request);
    assert_eq!(request.condition, "#r = :r0 AND #e = :e0 AND #v = :v0");
    assert_eq!(value(&request, ":e0"), Some(Value::NumberText("50.5")));
    let unversioned = RowTexts { version: None, ..seen };
    let request =
        lower(&Schema::lease(), &TEXTS, Some(unversioned), &call(kind)).expect("can be put");
    placeholders_fit(&request);
    assert_eq!(request.condition, "#r = :r0 AND #e = :e0 AND attribute_not_exists(#v)");
    // Half a row names nothing.
    let half = RowTexts { lease_expiration: None, ..seen };
    assert_eq!(lower(&Schema::lease(), &TEXTS, Some(half), &call(kind)), None);
    assert_eq!(lower(&Schema::lease(), &TEXTS, None, &call(kind)), None);
}

#[test]
fn nothing_is_written_without_a_unix_clock() {
    let blind = Call { wall: None, ..call(acquire(Expiry::Observed)) };
    assert_eq!(lower(&Schema::lease(), &TEXTS, None, &blind), None);
}

#[test]
fn a_row_reads_back_as_what_was_written() {
    let ours = record(&written_by("host:1", 0xa1));
    assert_eq!(ours.holder, Holder::Us);
    assert_eq!(ours.version, Version::from_bits(0xa1));
    assert_eq!(ours.fence, Some(Fence(17)));
    assert_eq!(ours.term, Term::Observed { ttl: Span::from_millis(30_000) });
    assert_eq!(record(&written_by("host:3", 0xa1)).holder, Holder::Other);
    let skewed = set(written_by("host:3", 1), "maxClockSkew", Some(Attribute::Number("250")));
    assert!(matches!(record(&skewed).term, Term::Bounded { .. }));
    let lock = set(written_by("host:3", 1), "leaseDuration", Some(Attribute::Number("0")));
    assert_eq!(record(&lock).term, Term::Observed { ttl: Span::FOREVER });
    assert_eq!(
        read_found(&Schema::lease(), &TEXTS, None).outcome,
        Outcome::Found { record: Record::FREE }
    );
}

#[test]
fn a_foreign_holder_that_left_our_version_behind_is_judged_by_the_wall_only() {
    let row = set(written_by("host:1", 1), "resourceId", Some(Attribute::Text("theirs")));
    let foreign = record(&row);
    assert_eq!(foreign.holder, Holder::Other);
    assert_eq!(foreign.version, Version::NONE);
    assert!(matches!(foreign.term, Term::WallOnly { .. }));
    let unversioned = record(&set(row, "version", None));
    assert!(matches!(unversioned.term, Term::WallOnly { .. }));
    // Each change makes another record of it.
    assert_ne!(foreign.identity, unversioned.identity);
}

#[test]
fn a_released_row_is_free_and_a_resting_one_is_not_yet() {
    let released = set(set(written_by("host:1", 1), "resourceId", None), "leaseExpiration", None);
    assert_eq!(record(&released).holder, Holder::Nobody);
    assert_eq!(record(&released).term, Term::Over);
    let resting = set(released, "notBefore", Some(Attribute::Number("1700000099000")));
    assert!(matches!(record(&resting).term, Term::Resting { .. }));
}

#[test]
fn p12_a_row_that_cannot_be_understood_is_never_free() {
    let held = || written_by("host:3", 1);
    let number = Some(Attribute::Number("1"));
    let text = Some(Attribute::Text("1"));
    for (row, wrong) in [
        (set(held(), "resourceId", number), "resourceId"),
        (set(held(), "resourceId", Some(Attribute::Other)), "resourceId"),
        (set(held(), "resourceId", None), "resourceId"),
        (set(held(), "leaseExpiration", text), "leaseExpiration"),
        (set(held(), "leaseExpiration", None), "leaseExpiration"),
        (set(held(), "leaseExpiration", Some(Attribute::Number("-1"))), "leaseExpiration"),
        (set(held(), "leaseExpiration", Some(Attribute::Number("1E+3"))), "leaseExpiration"),
        (
            set(held(), "leaseExpiration", Some(Attribute::Number("99999999999999999999999"))),
            "leaseExpiration",
        ),
        (set(held(), "leaseDuration", None), "leaseDuration"),
        (set(held(), "leaseDuration", text), "leaseDuration"),
        (set(held(), "version", number), "version"),
        (set(held(), "fence", text), "fence"),
        (set(held(), "maxClockSkew", text), "maxClockSkew"),
        (Row(vec![("leaseId", Attribute::Text("job")), ("price", Attribute::Other)]), "version"),
    ] {
        let read = read_found(&Schema::lease(), &TEXTS, Some(&row));
        assert_eq!(read.outcome, Outcome::Denied);
        assert_eq!(read.complaint.map(|complaint| complaint.attribute), Some(wrong));
        assert_eq!(read_refused(&Schema::lease(), &TEXTS, Some(&row)).outcome, Outcome::Denied);
    }
}

#[test]
fn a_row_with_nothing_but_a_key_is_replaced_as_seen() {
    let bare = record(&Row(vec![("leaseId", Attribute::Text("job"))]));
    assert_eq!(bare.holder, Holder::Nobody);
    assert_eq!(bare.term, Term::Resting { rest: Span::ZERO, not_before: None });
}

#[test]
fn only_acquisitions_draw_a_fence() {
    let row = written_by("host:1", 1);
    let applied = |kind| read_applied(&call(kind), Some(&row)).outcome;
    assert_eq!(applied(acquire(Expiry::Observed)), Outcome::Applied { fence: Some(Fence(17)) });
    let ours = OurVersions::one(Version::from_bits(1));
    assert_eq!(
        applied(CallKind::Release { ours, rest: Span::ZERO }),
        Outcome::Applied { fence: None }
    );
}

#[test]
fn errors_are_told_apart() {
    for code in ["ThrottlingException", "TransactionConflictException", "RequestLimitExceeded"] {
        assert_eq!(outcome_of_error(code, 400), Outcome::Unavailable);
    }
    for code in ["AccessDeniedException", "ResourceNotFoundException", "ValidationException", "?"] {
        assert_eq!(outcome_of_error(code, 400), Outcome::Denied);
    }
    assert_eq!(outcome_of_error("InternalServerError", 500), Outcome::Unknown);
    assert_eq!(outcome_of_error("", 0), Outcome::Unknown);
}
