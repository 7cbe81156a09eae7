//! DynamoDB: one `UpdateItem` for every decision, and a `GetItem` where only a look is needed.
//!
//! The table is the one that people already have for hand-written leases: a hash key, `resourceId`
//! and `leaseExpiration` while it is held. The rest is ours. Every condition is positive, because
//! `<>` and `NOT` pass on a missing row and would create half of one.
//!
//! # Telling our rows from others'
//!
//! A client that knows only `resourceId` and `leaseExpiration` leaves our `version` behind when it
//! takes a row over. So a version also carries a fingerprint of the holder it was written for: where
//! that does not fit the row's `resourceId`, the row is foreign, and only its Unix time says when it
//! ends.

use heapless::Vec;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::Texts;
use crate::config::Terms;
use crate::io::{Call, CallKind, MOST_VERSIONS, OurVersions, Outcome};
use crate::record::{Fence, Holder, Identity, Record, Term, Version};
use crate::time::{Span, Wall};

/// The names of a table's key; those of the other attributes are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "hosts fill it in")]
pub struct Schema<'a> {
    /// The hash key, of type S. It holds the lease's name.
    pub hash_key: &'a str,
    /// The sort key, of type S, and its value, if the table has one.
    pub sort_key: Option<(&'a str, &'a str)>,
}

impl Schema<'_> {
    /// The default table: `leaseId` S, and no sort key.
    #[must_use]
    pub const fn lease() -> Self {
        Self { hash_key: "leaseId", sort_key: None }
    }
}

/// Who holds it (S, only while held).
pub const RESOURCE_ID: &str = "resourceId";
/// When it ends by the holder's Unix clock (N, milliseconds, only while held).
pub const LEASE_EXPIRATION: &str = "leaseExpiration";
/// How long it stays valid after each write (N, milliseconds; 0 for a lock). In a released row with
/// a `notBefore`: how long it rests.
pub const LEASE_DURATION: &str = "leaseDuration";
/// What our conditional writes compare (S).
pub const VERSION: &str = "version";
/// The fencing number (N, kept on release).
pub const FENCE: &str = "fence";
/// The bound on clock difference that the holder declared (N, milliseconds).
pub const MAX_CLOCK_SKEW: &str = "maxClockSkew";
/// When a released row may be acquired (N, milliseconds; only by `min_hold`).
pub const NOT_BEFORE: &str = "notBefore";

const OWN_ATTRIBUTES: [&str; 7] =
    [RESOURCE_ID, LEASE_EXPIRATION, LEASE_DURATION, VERSION, FENCE, MAX_CLOCK_SKEW, NOT_BEFORE];

/// Which request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "hosts must be able to send every one")]
pub enum Operation {
    /// `GetItem`.
    GetItem,
    /// `UpdateItem` with `ReturnValues=ALL_NEW` and
    /// `ReturnValuesOnConditionCheckFailure=ALL_OLD`.
    UpdateItem,
}

impl Operation {
    /// As the API calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GetItem => "GetItem",
            Self::UpdateItem => "UpdateItem",
        }
    }
}

/// A version as the row holds it: 32 hexadecimal digits, a letter for what wrote it (`c` for a
/// holder, `o` for a hand-over), and 16 digits that fit its holder's name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VersionText([u8; Self::LEN]);

impl VersionText {
    const LEN: usize = 32 + 1 + 16;

    fn new(version: Version, offered: bool, holder: &str) -> Self {
        let kind = [if offered { b'o' } else { b'c' }];
        let print = Version::from_bits(u128::from(xxh3_64(holder.as_bytes()))).to_hex();
        let digits = version.to_hex();
        let mut text = [b'0'; Self::LEN];
        let parts = digits.iter().chain(&kind).chain(print.iter().skip(16));
        for (to, from) in text.iter_mut().zip(parts) {
            *to = *from;
        }
        Self(text)
    }

    /// Reads the version of a row that names `holder`. `None` if it was written for another one, or
    /// not by us at all.
    fn read(text: &str, holder: &str) -> Option<(Version, bool)> {
        let (digits, rest) = text.as_bytes().split_at_checked(32)?;
        let version = Version::from_hex(digits)?;
        let offered = rest.first() == Some(&b'o');
        (Self::new(version, offered, holder).as_str() == text).then_some((version, offered))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // All of it is ASCII.
        core::str::from_utf8(&self.0).unwrap_or("")
    }
}

impl core::fmt::Debug for VersionText {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_str().fmt(f)
    }
}

/// The value of a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "hosts must be able to encode every one")]
pub enum Value<'a> {
    /// N.
    Number(u64),
    /// N, exactly as a reply had it.
    NumberText(&'a str),
    /// S.
    Text(&'a str),
    /// S.
    Version(VersionText),
}

/// A request, but for the table's name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "hosts take it apart")]
pub struct Request<'a> {
    /// Which one.
    pub operation: Operation,
    /// `Key`, all of type S.
    pub key: Vec<(&'a str, &'a str), 2>,
    /// `ConditionExpression`; fixed text.
    pub condition: &'static str,
    /// `UpdateExpression`; fixed text.
    pub update: &'static str,
    /// `ExpressionAttributeNames`.
    pub names: Vec<(&'static str, &'a str), 8>,
    /// `ExpressionAttributeValues`.
    pub values: Vec<(&'static str, Value<'a>), 16>,
    /// `ConsistentRead`.
    pub consistent: bool,
}

/// The texts of a row that a takeover of exactly this row names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "hosts keep it between calls")]
pub struct RowTexts<'a> {
    /// `resourceId` as read.
    pub resource_id: Option<&'a str>,
    /// `leaseExpiration` as read.
    pub lease_expiration: Option<&'a str>,
    /// `version` as read.
    pub version: Option<&'a str>,
}

impl RowTexts<'_> {
    fn identity(&self) -> Identity {
        let mut hash = Xxh3::new();
        for text in [self.resource_id, self.lease_expiration, self.version] {
            let text = text.map(str::as_bytes);
            // Lengths keep neighbours apart; none is not the same as empty.
            hash.update(&text.map_or(u64::MAX, |t| t.len() as u64).to_be_bytes());
            hash.update(text.unwrap_or(&[]));
        }
        Identity(hash.digest128())
    }
}

/// One attribute of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "leases are made of these")]
pub enum Attribute<'a> {
    /// Of type N.
    Number(&'a str),
    /// Of type S.
    Text(&'a str),
    /// Of any other type.
    Other,
}

/// An item of a reply, however the host has it.
pub trait Item {
    /// The attribute of this name.
    fn get(&self, name: &str) -> Option<Attribute<'_>>;
    /// Whether there are attributes that `known` does not know.
    fn has_others(&self, known: &dyn Fn(&str) -> bool) -> bool;
}

/// What a reply said.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "hosts take it apart")]
pub struct Read<'a> {
    /// For the machine.
    pub outcome: Outcome,
    /// Whom the row names, for people.
    pub holder: Option<&'a str>,
    /// For a later takeover.
    pub row: RowTexts<'a>,
    /// Why a row could not be understood.
    pub complaint: Option<Complaint>,
}

/// Why an item is no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "hosts show it")]
pub struct Complaint {
    /// The attribute that is wrong.
    pub attribute: &'static str,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Lowers a call. `seen` are the texts of the row that a takeover names. `None` if it cannot be said
/// to this store: without a Unix clock there is no `leaseExpiration`.
#[must_use]
pub fn lower<'a>(
    schema: &Schema<'a>,
    texts: &Texts<'a>,
    seen: Option<RowTexts<'a>>,
    call: &Call,
) -> Option<Request<'a>> {
    let mut key = Vec::new();
    key.push((schema.hash_key, texts.name)).ok()?;
    if let Some(sort_key) = schema.sort_key {
        key.push(sort_key).ok()?;
    }
    let mut request = Request {
        operation: Operation::UpdateItem,
        key,
        condition: "",
        update: "",
        names: Vec::new(),
        values: Vec::new(),
        consistent: false,
    };
    match call.kind {
        CallKind::Read { consistent } => {
            request.operation = Operation::GetItem;
            request.consistent = consistent;
        }
        CallKind::Acquire { attempt, terms } => {
            let wall = call.wall?;
            request.names.push(("#k", schema.hash_key)).ok()?;
            request.condition = FREE;
            if let Some(skew) = terms.max_clock_skew() {
                request.condition = FREE_OR_OVER;
                let past = wall.before(skew).as_millis();
                request.values.push((":past", Value::Number(past))).ok()?;
            }
            request.values.push((":now", Value::Number(wall.as_millis()))).ok()?;
            request.write_record(texts.holder, attempt, false, &terms, wall)?;
        }
        CallKind::Takeover { attempt, terms, .. } => {
            request.name_row(&seen?)?;
            request.write_record(texts.holder, attempt, false, &terms, call.wall?)?;
        }
        CallKind::Renew { attempt, terms, ours } => {
            request.name_ours(texts.holder, &ours)?;
            request.update = "SET #e = :e, #ld = :ld, #v = :v";
            request.write_times(&terms, call.wall?)?;
            let version = VersionText::new(attempt, false, texts.holder);
            request.values.push((":v", Value::Version(version))).ok()?;
        }
        CallKind::HandOver { attempt, terms, ours } => {
            let successor = texts.successor?;
            request.name_ours(texts.holder, &ours)?;
            request.update = "SET #r = :to, #e = :e, #ld = :ld, #v = :v";
            request.write_times(&terms, call.wall?)?;
            let version = VersionText::new(attempt, true, successor);
            request.values.push((":v", Value::Version(version))).ok()?;
            request.values.push((":to", Value::Text(successor))).ok()?;
        }
        CallKind::Release { ours, rest } => {
            request.name_ours(texts.holder, &ours)?;
            request.names.push(("#e", LEASE_EXPIRATION)).ok()?;
            request.update = "REMOVE #r, #e";
            if rest > Span::ZERO {
                request.update = "SET #nb = :nb, #ld = :ld REMOVE #r, #e";
                request.names.push(("#nb", NOT_BEFORE)).ok()?;
                request.names.push(("#ld", LEASE_DURATION)).ok()?;
                let not_before = call.wall?.after(rest).as_millis();
                request.values.push((":nb", Value::Number(not_before))).ok()?;
                request.values.push((":ld", Value::Number(rest.as_millis_up()))).ok()?;
            }
        }
    }
    Some(request)
}

/// No such row, or one of ours that is released and rested. Any other row without a `resourceId` may
/// be somebody's data.
const FREE: &str = "attribute_not_exists(#k) OR (attribute_exists(#v) AND \
                    attribute_not_exists(#r) AND (attribute_not_exists(#nb) OR #nb <= :now))";

/// Or one whose holder declared a bound no larger than ours, and that is over by more than ours.
const FREE_OR_OVER: &str = "attribute_not_exists(#k) OR (attribute_exists(#v) AND \
                            attribute_not_exists(#r) AND (attribute_not_exists(#nb) OR \
                            #nb <= :now)) OR (#ms <= :ms AND #e < :past)";

impl<'a> Request<'a> {
    fn write_record(
        &mut self,
        holder: &'a str,
        attempt: Version,
        offered: bool,
        terms: &Terms,
        wall: Wall,
    ) -> Option<()> {
        // What an earlier holder declared must not be taken for ours.
        self.update = "SET #r = :me, #e = :e, #ld = :ld, #v = :v, \
                       #f = if_not_exists(#f, :floor) + :one REMOVE #nb, #ms";
        if let Some(skew) = terms.max_clock_skew() {
            self.update = "SET #r = :me, #e = :e, #ld = :ld, #v = :v, #ms = :ms, \
                           #f = if_not_exists(#f, :floor) + :one REMOVE #nb";
            self.values.push((":ms", Value::Number(skew.as_millis_up()))).ok()?;
        }
        self.name_once("#r", RESOURCE_ID)?;
        self.name_once("#v", VERSION)?;
        self.name_once("#f", FENCE)?;
        self.name_once("#ms", MAX_CLOCK_SKEW)?;
        self.name_once("#nb", NOT_BEFORE)?;
        self.write_times(terms, wall)?;
        let version = VersionText::new(attempt, offered, holder);
        self.values.push((":me", Value::Text(holder))).ok()?;
        self.values.push((":v", Value::Version(version))).ok()?;
        // A fence that starts at the clock grows even over a row that was deleted.
        self.values.push((":floor", Value::Number(wall.as_millis()))).ok()?;
        self.values.push((":one", Value::Number(1))).ok()
    }

    fn write_times(&mut self, terms: &Terms, wall: Wall) -> Option<()> {
        self.name_once("#e", LEASE_EXPIRATION)?;
        self.name_once("#ld", LEASE_DURATION)?;
        let ttl = terms.ttl();
        let (expiration, duration) = if ttl.is_forever() {
            (FAR_FUTURE_MS, 0)
        } else {
            (wall.after(ttl).as_micros().div_ceil(1_000), ttl.as_millis_up())
        };
        self.values.push((":e", Value::Number(expiration))).ok()?;
        self.values.push((":ld", Value::Number(duration))).ok()
    }

    fn name_ours(&mut self, holder: &'a str, ours: &OurVersions) -> Option<()> {
        self.name_once("#r", RESOURCE_ID)?;
        self.name_once("#v", VERSION)?;
        self.values.push((":me", Value::Text(holder))).ok()?;
        let first = *ours.as_slice().first()?;
        let only_one = ours.as_slice().len() == 1;
        // Fixed text: a short list is filled up with its first version.
        self.condition = if only_one {
            "#r = :me AND #v = :v0"
        } else {
            "#r = :me AND #v IN (:v0, :v1, :v2, :v3, :v4)"
        };
        const PLACES: [&str; MOST_VERSIONS] = [":v0", ":v1", ":v2", ":v3", ":v4"];
        let filled = ours.as_slice().iter().copied().chain(core::iter::repeat(first));
        for (place, version) in PLACES.into_iter().zip(filled) {
            let text = VersionText::new(version, false, holder);
            self.values.push((place, Value::Version(text))).ok()?;
            if only_one {
                break;
            }
        }
        Some(())
    }

    fn name_row(&mut self, row: &RowTexts<'a>) -> Option<()> {
        self.name_once("#r", RESOURCE_ID)?;
        self.name_once("#e", LEASE_EXPIRATION)?;
        self.name_once("#v", VERSION)?;
        self.condition = match (row.resource_id, row.lease_expiration, row.version) {
            (Some(_), Some(_), Some(_)) => "#r = :r0 AND #e = :e0 AND #v = :v0",
            (Some(_), Some(_), None) => "#r = :r0 AND #e = :e0 AND attribute_not_exists(#v)",
            (None, None, Some(_)) => {
                "attribute_not_exists(#r) AND attribute_not_exists(#e) AND #v = :v0"
            }
            (None, None, None) => {
                "attribute_not_exists(#r) AND attribute_not_exists(#e) AND \
                 attribute_not_exists(#v)"
            }
            // Half a row is never read as a lease.
            _ => return None,
        };
        if let Some(holder) = row.resource_id {
            self.values.push((":r0", Value::Text(holder))).ok()?;
        }
        if let Some(expiration) = row.lease_expiration {
            self.values.push((":e0", Value::NumberText(expiration))).ok()?;
        }
        if let Some(version) = row.version {
            self.values.push((":v0", Value::Text(version))).ok()?;
        }
        Some(())
    }

    fn name_once(&mut self, placeholder: &'static str, name: &'a str) -> Option<()> {
        if self.names.iter().any(|(known, _)| *known == placeholder) {
            return Some(());
        }
        self.names.push((placeholder, name)).ok()
    }
}

/// The year 9999, for clients that compare it with their clock.
const FAR_FUTURE_MS: u64 = 253_402_300_799_000;

/// Reads the item of a successful `GetItem` (`None` if there was none).
#[must_use]
pub fn read_found<'a>(
    schema: &Schema<'_>,
    texts: &Texts<'_>,
    item: Option<&'a dyn Item>,
) -> Read<'a> {
    understand(schema, texts, item, |record| Outcome::Found { record })
}

/// Reads the attributes that a successful `UpdateItem` returned.
#[must_use]
pub fn read_applied<'a>(call: &Call, attributes: Option<&'a dyn Item>) -> Read<'a> {
    let draws = matches!(call.kind, CallKind::Acquire { .. } | CallKind::Takeover { .. });
    let fence = match attributes.and_then(|item| item.get(FENCE)) {
        Some(Attribute::Number(text)) if draws => whole(text).map(Fence),
        _ => None,
    };
    Read {
        outcome: Outcome::Applied { fence },
        holder: None,
        row: RowTexts::default(),
        complaint: None,
    }
}

/// Reads the item that came with a failed condition. Engines that do not return it leave that to a
/// read.
#[must_use]
pub fn read_refused<'a>(
    schema: &Schema<'_>,
    texts: &Texts<'_>,
    item: Option<&'a dyn Item>,
) -> Read<'a> {
    match item {
        None => Read {
            outcome: Outcome::Refused { current: None },
            holder: None,
            row: RowTexts::default(),
            complaint: None,
        },
        item => {
            understand(schema, texts, item, |record| Outcome::Refused { current: Some(record) })
        }
    }
}

/// What an error code says about the request, failed conditions apart. An error without a code (a
/// broken connection, a time-out) is [`Outcome::Unknown`].
#[must_use]
pub fn outcome_of_error(code: &str, http_status: u16) -> Outcome {
    match code {
        "ItemCollectionSizeLimitExceededException"
        | "LimitExceededException"
        | "ProvisionedThroughputExceededException"
        | "ReplicatedWriteConflictException"
        | "RequestLimitExceeded"
        | "Throttling"
        | "ThrottlingException"
        | "TooManyRequestsException"
        | "TransactionConflictException"
        | "TransactionInProgressException" => Outcome::Unavailable,
        _ if (400..500).contains(&http_status) => Outcome::Denied,
        _ => Outcome::Unknown,
    }
}

fn understand<'a>(
    schema: &Schema<'_>,
    texts: &Texts<'_>,
    item: Option<&'a dyn Item>,
    outcome: impl Fn(Record) -> Outcome,
) -> Read<'a> {
    let Some(item) = item else {
        return Read {
            outcome: outcome(Record::FREE),
            holder: None,
            row: RowTexts::default(),
            complaint: None,
        };
    };
    match record_of(schema, texts, item) {
        Ok((record, row)) => {
            Read { outcome: outcome(record), holder: row.resource_id, row, complaint: None }
        }
        Err(complaint) => Read {
            outcome: Outcome::Denied,
            holder: None,
            row: RowTexts::default(),
            complaint: Some(complaint),
        },
    }
}

fn record_of<'a>(
    schema: &Schema<'_>,
    texts: &Texts<'_>,
    item: &'a dyn Item,
) -> Result<(Record, RowTexts<'a>), Complaint> {
    let row = RowTexts {
        resource_id: text(item, RESOURCE_ID)?,
        lease_expiration: number_text(item, LEASE_EXPIRATION)?,
        version: text(item, VERSION)?,
    };
    let fence = number(item, FENCE)?.map(Fence);
    let duration = number(item, LEASE_DURATION)?.map(|ms| match ms {
        0 => Span::FOREVER,
        ms => Span::from_millis(ms),
    });
    let max_clock_skew = number(item, MAX_CLOCK_SKEW)?.map(Span::from_millis);
    let not_before = number(item, NOT_BEFORE)?.map(Wall::from_millis);
    let identity = row.identity();
    let nobody = Record { identity, fence, ..Record::FREE };
    let Some(holder) = row.resource_id else {
        if row.lease_expiration.is_some() {
            return Err(Complaint { attribute: RESOURCE_ID, why: "is missing" });
        }
        if row.version.is_none() && has_foreign_attributes(schema, item) {
            return Err(Complaint {
                attribute: VERSION,
                why: "is missing from an item that has other attributes than a lease's, so it may \
                      be no lease; give leases a table or a key prefix of their own",
            });
        }
        // A row that carries nothing of ours is replaced as seen, not acquired.
        let term = match (not_before, row.version) {
            (None, Some(_)) => Term::Over,
            (None, None) => Term::Resting { rest: Span::ZERO, not_before: None },
            (not_before, _) => {
                Term::Resting { rest: duration.unwrap_or(Span::FOREVER), not_before }
            }
        };
        return Ok((Record { term, ..nobody }, row));
    };
    let Some(expires_at) = number(item, LEASE_EXPIRATION)?.map(Wall::from_millis) else {
        return Err(Complaint { attribute: LEASE_EXPIRATION, why: "is missing" });
    };
    let version = row.version.and_then(|text| VersionText::read(text, holder));
    let record = match (version, duration) {
        (Some((version, offered)), Some(ttl)) => Record {
            holder: match (holder == texts.holder, offered) {
                (true, true) => Holder::OfferedToUs,
                (true, false) => Holder::Us,
                (false, _) => Holder::Other,
            },
            version,
            term: match max_clock_skew {
                Some(max_clock_skew) => Term::Bounded { ttl, expires_at, max_clock_skew },
                None => Term::Observed { ttl },
            },
            ..nobody
        },
        (Some(_), None) => {
            return Err(Complaint { attribute: LEASE_DURATION, why: "is missing" });
        }
        (None, _) => {
            Record { holder: Holder::Other, term: Term::WallOnly { expires_at }, ..nobody }
        }
    };
    Ok((record, row))
}

fn has_foreign_attributes(schema: &Schema<'_>, item: &dyn Item) -> bool {
    let sort_key = schema.sort_key.map(|(name, _)| name);
    item.has_others(&|name| {
        OWN_ATTRIBUTES.contains(&name) || name == schema.hash_key || Some(name) == sort_key
    })
}

fn text<'a>(item: &'a dyn Item, name: &'static str) -> Result<Option<&'a str>, Complaint> {
    match item.get(name) {
        None => Ok(None),
        Some(Attribute::Text(text)) => Ok(Some(text)),
        Some(_) => Err(Complaint { attribute: name, why: "is not of type S" }),
    }
}

fn number_text<'a>(item: &'a dyn Item, name: &'static str) -> Result<Option<&'a str>, Complaint> {
    match item.get(name) {
        None => Ok(None),
        Some(Attribute::Number(text)) => Ok(Some(text)),
        Some(_) => Err(Complaint { attribute: name, why: "is not of type N" }),
    }
}

fn number(item: &dyn Item, name: &'static str) -> Result<Option<u64>, Complaint> {
    match number_text(item, name)?.map(whole) {
        None => Ok(None),
        Some(Some(number)) => Ok(Some(number)),
        Some(None) => {
            Err(Complaint { attribute: name, why: "is not a number of milliseconds or a count" })
        }
    }
}

/// A number without a sign or an exponent, rounded up: later is the safe side of an expiry.
fn whole(text: &str) -> Option<u64> {
    let (digits, fraction) = text.split_once('.').unwrap_or((text, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if digits.is_empty() || !all_digits(digits) || !all_digits(fraction) {
        return None;
    }
    let whole: u64 = digits.parse().ok()?;
    Some(whole.saturating_add(u64::from(fraction.bytes().any(|b| b != b'0'))))
}
