//! Whatever a table answers, reading it never panics, and what cannot be understood is never a free
//! lease.
//!
//! The oracle knows the table's format and nothing of the parser: it looks at the attributes one by
//! one, and judges only what is beyond doubt.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

use tenure_core::config::{Config, Expiry, Settings, Terms, Ttl};
use tenure_core::io::{Call, CallId, CallKind, OurVersions, Outcome};
use tenure_core::record::{Fence, Holder, Identity, Record, Term, Version};
use tenure_core::time::{Instant, Span, Wall};
use tenure_core::wire::Texts;
use tenure_core::wire::dynamodb::{
    Attribute, Item, Read, RowTexts, Schema, Value, lower, outcome_of_error, read_applied,
    read_found, read_refused,
};

const US: &str = "web/1";
const OTHER: &str = "web/9";
const TEXTS: Texts<'static> = Texts { name: "report", holder: US, successor: Some(OTHER) };
const TEXT_ATTRIBUTES: [&str; 2] = ["resourceId", "version"];
const NUMBER_ATTRIBUTES: [&str; 5] =
    ["leaseExpiration", "leaseDuration", "fence", "maxClockSkew", "notBefore"];

#[derive(Arbitrary, Debug)]
struct Case {
    /// None: the reply had no item.
    fields: Option<Vec<(Name, Field)>>,
    sort_key: bool,
    call: Kind,
    code: Code,
    status: u16,
}

#[derive(Arbitrary, Debug)]
enum Name {
    ResourceId,
    LeaseExpiration,
    LeaseDuration,
    Version,
    Fence,
    MaxClockSkew,
    NotBefore,
    Key,
    SortKey,
    Any(String),
}

#[derive(Arbitrary, Debug)]
enum Field {
    Number(u64),
    NumberText(String),
    Text(String),
    Us,
    Other,
    /// A version as this wire writes it.
    Version {
        holder: bool,
        offered: bool,
        bits: u128,
    },
    Binary,
}

#[derive(Arbitrary, Debug)]
enum Kind {
    Acquire,
    Takeover,
    Renew,
    HandOver,
    Release,
    Read,
}

#[derive(Arbitrary, Debug)]
enum Code {
    Throttling,
    Conflict,
    AccessDenied,
    Any(String),
}

#[derive(Clone, Debug)]
enum Kept {
    Number(String),
    Text(String),
    Other,
}

#[derive(Debug, Default)]
struct Row(BTreeMap<String, Kept>);

impl Item for Row {
    fn get(&self, name: &str) -> Option<Attribute<'_>> {
        self.0.get(name).map(|kept| match kept {
            Kept::Number(text) => Attribute::Number(text),
            Kept::Text(text) => Attribute::Text(text),
            Kept::Other => Attribute::Other,
        })
    }

    fn has_others(&self, known: &dyn Fn(&str) -> bool) -> bool {
        self.0.keys().any(|name| !known(name))
    }
}

impl Row {
    fn new(fields: Vec<(Name, Field)>) -> Self {
        let name = |name| match name {
            Name::ResourceId => "resourceId".into(),
            Name::LeaseExpiration => "leaseExpiration".into(),
            Name::LeaseDuration => "leaseDuration".into(),
            Name::Version => "version".into(),
            Name::Fence => "fence".into(),
            Name::MaxClockSkew => "maxClockSkew".into(),
            Name::NotBefore => "notBefore".into(),
            Name::Key => "leaseId".into(),
            Name::SortKey => "sort".into(),
            Name::Any(name) => name,
        };
        let kept = |field| match field {
            Field::Number(number) => Kept::Number(number.to_string()),
            Field::NumberText(text) => Kept::Number(text),
            Field::Text(text) => Kept::Text(text),
            Field::Us => Kept::Text(US.into()),
            Field::Other => Kept::Text(OTHER.into()),
            Field::Version { holder, offered, bits } => {
                Kept::Text(version_text(if holder { US } else { OTHER }, offered, bits))
            }
            Field::Binary => Kept::Other,
        };
        Self(fields.into_iter().map(|(of, field)| (name(of), kept(field))).collect())
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Beyond doubt.
    fn has_something_malformed(&self) -> bool {
        let malformed = |name: &&str| match self.0.get(*name) {
            None => false,
            Some(Kept::Number(text)) => {
                TEXT_ATTRIBUTES.contains(name)
                    || !text.bytes().any(|byte| byte.is_ascii_digit())
                    || text.bytes().any(|byte| !byte.is_ascii_digit() && byte != b'.')
                    || text.split('.').next().unwrap_or("").trim_start_matches('0').len() > 20
            }
            Some(Kept::Text(_)) => NUMBER_ATTRIBUTES.contains(name),
            Some(Kept::Other) => true,
        };
        TEXT_ATTRIBUTES.iter().chain(&NUMBER_ATTRIBUTES).any(malformed)
    }
}

fn terms() -> Terms {
    let ttl = Ttl::For(Span::from_millis(10_000));
    Config::new(Settings::new(ttl, Expiry::Observed)).expect("works").first_terms()
}

fn call(kind: CallKind) -> Call {
    let wall = Some(Wall::from_millis(1_700_000_000_000));
    Call { id: CallId(1), kind, wall, give_up_at: Instant::from_micros(0) }
}

fn version_text(holder: &str, offered: bool, bits: u128) -> String {
    let (attempt, terms) = (Version::from_bits(bits), terms());
    let ours = OurVersions::one(attempt);
    let (writer, kind) = if offered {
        ("writer", CallKind::HandOver { attempt, terms, ours })
    } else {
        (holder, CallKind::Acquire { attempt, terms })
    };
    let texts = Texts { name: "report", holder: writer, successor: Some(holder) };
    let request = lower(&Schema::lease(), &texts, None, &call(kind)).expect("can be put");
    let version = request.values.iter().find(|(place, _)| *place == ":v");
    match version {
        Some((_, Value::Version(text))) => text.as_str().to_owned(),
        other => panic!("no version: {other:?}"),
    }
}

fn call_of(kind: &Kind) -> Call {
    let (attempt, terms) = (Version::from_bits(7), terms());
    let ours = OurVersions::one(attempt);
    call(match kind {
        Kind::Acquire => CallKind::Acquire { attempt, terms },
        Kind::Takeover => CallKind::Takeover { attempt, terms, seen: Identity(1) },
        Kind::Renew => CallKind::Renew { attempt, terms, ours },
        Kind::HandOver => CallKind::HandOver { attempt, terms, ours },
        Kind::Release => CallKind::Release { ours, rest: Span::ZERO },
        Kind::Read => CallKind::Read { consistent: true },
    })
}

fn record(read: &Read<'_>) -> Option<Record> {
    match read.outcome {
        Outcome::Found { record } => Some(record),
        Outcome::Refused { current } => current,
        Outcome::Denied => None,
        outcome => panic!("a row is not read as {outcome:?}"),
    }
}

fn judge(row: Option<&Row>, read: &Read<'_>) {
    let Some(row) = row else { return };
    let Some(record) = record(read) else {
        let complaint = read.complaint.expect("says why");
        let ours = TEXT_ATTRIBUTES.iter().chain(&NUMBER_ATTRIBUTES);
        assert!(ours.into_iter().any(|name| *name == complaint.attribute), "{complaint:?}");
        return;
    };
    assert!(!row.has_something_malformed(), "malformed, and read as {record:?}");
    if row.has("resourceId") || row.has("leaseExpiration") {
        assert_ne!(record.holder, Holder::Nobody, "held, and read as free");
        assert_ne!(record.term, Term::Over, "held, and read as over");
    }
    if record.holder == Holder::Nobody && record.term == Term::Over {
        assert!(row.has("version") && !row.has("notBefore"), "free, though it is not ours to take");
    }
    let text = |name: &str| match row.0.get(name) {
        Some(Kept::Text(text)) => text.as_str(),
        _ => "",
    };
    if matches!(record.holder, Holder::Us | Holder::OfferedToUs) {
        assert_eq!(text("resourceId"), US, "ours, though it names another");
    }
    if record.version != Version::NONE || record.holder == Holder::Us {
        let written = record.version.to_hex();
        assert!(text("version").as_bytes().starts_with(&written), "not the row's version");
    }
}

fuzz_target!(|case: Case| {
    let sort_key = case.sort_key.then_some(("sort", "lease"));
    let schema = Schema { sort_key, ..Schema::lease() };
    let row = case.fields.map(Row::new);
    let item = row.as_ref().map(|row| row as &dyn Item);

    let found = read_found(&schema, &TEXTS, item);
    judge(row.as_ref(), &found);
    assert!(!matches!(found.outcome, Outcome::Refused { .. } | Outcome::Applied { .. }));
    let refused = read_refused(&schema, &TEXTS, item);
    judge(row.as_ref(), &refused);
    assert_eq!(record(&refused).is_some(), item.is_some() && record(&found).is_some());

    let made = call_of(&case.call);
    let applied = read_applied(&made, item);
    let Outcome::Applied { fence } = applied.outcome else { panic!("{:?}", applied.outcome) };
    let draws = matches!(case.call, Kind::Acquire | Kind::Takeover);
    let number = match row.as_ref().and_then(|row| row.0.get("fence")) {
        Some(Kept::Number(text)) if draws => text.split('.').next().unwrap_or("").parse().ok(),
        _ => None,
    };
    if let Some(Fence(fence)) = fence {
        let number: u64 = number.expect("a fence out of nowhere");
        assert!(fence >= number && fence - number <= 1);
    }

    // What was read can be named again, each text as it was, or not at all.
    let request = lower(&schema, &TEXTS, Some(found.row), &call_of(&Kind::Takeover));
    if let Some(request) = request {
        let value = |place| {
            request.values.iter().find_map(|(known, value)| match value {
                Value::Text(text) | Value::NumberText(text) if *known == place => Some(*text),
                _ => None,
            })
        };
        let RowTexts { resource_id, lease_expiration, version } = found.row;
        assert_eq!(
            (value(":r0"), value(":e0"), value(":v0")),
            (resource_id, lease_expiration, version)
        );
    }

    let code = match &case.code {
        Code::Throttling => "ThrottlingException",
        Code::Conflict => "TransactionConflictException",
        Code::AccessDenied => "AccessDeniedException",
        Code::Any(code) => code,
    };
    match outcome_of_error(code, case.status) {
        Outcome::Unknown => {}
        Outcome::Denied => assert!((400..500).contains(&case.status), "may have been applied"),
        Outcome::Unavailable => assert!(!code.is_empty()),
        outcome => panic!("an error is not {outcome:?}"),
    }
});
