//! Records as they are shown to people, without contending for them.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use tenure_core::io::{Call, CallId, CallKind, Outcome};
use tenure_core::record::{Holder, HolderId, Record, Term, Version};
use tenure_core::time::{Instant, Span, Wall};
use tenure_core::wire::Texts;
use tenure_core::wire::dynamodb::{self as dynamodb_wire, Item};
use tenure_core::wire::redis::{self as redis_wire, Step, Tried};

use crate::dynamodb::{Key, OwnedItem};
use crate::local::{self, RowTuple};
use crate::redis::OwnedReply;
use crate::step::micros;

/// `(holder, fence, ttl_us, left_us, expires_at_ms, resting, foreign, identity)`. Unknown parts are
/// `None`; free is a record without a holder that does not rest.
type Shown =
    (Option<String>, Option<u64>, Option<u64>, Option<u64>, Option<u64>, bool, bool, String);

/// Nobody's texts: whoever holds it is another.
fn reader(name: &str) -> Texts<'_> {
    Texts { name, holder: "", successor: None }
}

fn show(record: &Record, holder: Option<String>, ours: bool) -> Shown {
    let nobody = record.holder == Holder::Nobody;
    let (ttl, left, expires_at) = match record.term {
        Term::Over => (None, None, None),
        Term::Observed { ttl } => (Some(ttl), None, None),
        Term::Bounded { ttl, expires_at, .. } => (Some(ttl), None, Some(expires_at)),
        Term::WallOnly { expires_at } => (None, None, Some(expires_at)),
        Term::Resting { rest, not_before } => (Some(rest), None, not_before),
        Term::Remaining { left } => (None, left, None),
    };
    (
        holder.filter(|_| !nobody),
        record.fence.map(|fence| fence.0),
        ttl.and_then(micros),
        left.map(Span::as_micros),
        expires_at.map(|wall| wall.as_millis()),
        nobody && record.term != Term::Over && ttl != Some(Span::ZERO),
        !nobody && !ours,
        format!("{:032x}", record.identity.0),
    )
}

/// What an item of a table says, and the texts by which `Lease.break_` names it. A `ValueError` if
/// it is no lease.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "plain tuples")]
pub(crate) fn dynamodb_shown(
    name: &str,
    hash_key: String,
    sort_key: Option<(String, String)>,
    item: Option<&Bound<'_, PyDict>>,
    wall_us: u64,
) -> PyResult<(Shown, (Option<String>, Option<String>, Option<String>))> {
    let item = OwnedItem::of(item)?;
    let key = Key { hash_key, sort_key };
    let item = item.as_ref().map(|item| item as &dyn Item);
    let read = dynamodb_wire::read_found(&key.schema(), &reader(name), item);
    let owned = |text: Option<&str>| text.map(str::to_owned);
    match read.outcome {
        Outcome::Found { record } => {
            let mut shown = show(&record, owned(read.holder), record.version != Version::NONE);
            // Not what a contender judges by, but what people want to see.
            let expires_at = read.row.lease_expiration.and_then(|text| text.parse().ok());
            shown.4 = shown.4.or_else(|| expires_at.filter(|_| shown.2.is_some()));
            if let Term::Resting { not_before: Some(until), .. } = record.term {
                shown.5 = until > Wall::from_micros(wall_us);
            }
            let row = read.row;
            Ok((shown, (owned(row.resource_id), owned(row.lease_expiration), owned(row.version))))
        }
        _ => {
            let complaint = read.complaint.map(|c| format!("{} {}", c.attribute, c.why));
            Err(pyo3::exceptions::PyValueError::new_err(complaint.unwrap_or_default()))
        }
    }
}

/// What `GET` and `PTTL` of a key say. A `ValueError` with the server's words if it would not.
#[pyfunction]
pub(crate) fn redis_shown(
    key: &str,
    get: &Bound<'_, PyAny>,
    pttl: &Bound<'_, PyAny>,
) -> PyResult<Shown> {
    let mut client = redis_wire::Redis::new(false);
    let (get, pttl) = (OwnedReply::new(get)?, OwnedReply::new(pttl)?);
    let texts = reader(key);
    let call = read_call();
    let refused = |words: &[u8]| {
        pyo3::exceptions::PyValueError::new_err(String::from_utf8_lossy(words).into_owned())
    };
    let Some(request) = client.lower(&texts, "", None, &call, Tried::default(), false) else {
        return Err(refused(b"cannot be read"));
    };
    let sent = request.sent;
    let replies = [get.borrow(&[]), pttl.borrow(&[])];
    match client.read(&texts, &call, sent, &replies) {
        Step::Done(read) => match read.outcome {
            Outcome::Found { record } => {
                let holder = read.holder.map(|h| String::from_utf8_lossy(h).into_owned());
                Ok(show(&record, holder, record.version != Version::NONE))
            }
            _ => Err(refused(read.complaint.unwrap_or(b"cannot be read"))),
        },
        Step::Again(_) => Err(refused(b"cannot be read")),
    }
}

/// What a row of the host's says at the store's time.
#[pyfunction]
pub(crate) fn local_shown(
    row: Option<RowTuple>,
    store_us: u64,
    machine: &str,
    boot: &str,
) -> PyResult<Shown> {
    let row = local::row(row.as_ref(), 0, local::boot(machine, boot)?)?;
    let now = Instant::from_micros(store_us);
    let nobody =
        HolderId::new("-").map_err(|error| pyo3::exceptions::PyValueError::new_err(error.why()))?;
    let record = row.record(nobody, now);
    let holder = row.holder(now).map(|(holder, ..)| holder.as_str().to_owned());
    Ok(show(&record, holder, true))
}

fn read_call() -> Call {
    Call {
        id: CallId(0),
        kind: CallKind::Read { consistent: true },
        wall: None,
        give_up_at: Instant::from_micros(0),
    }
}
