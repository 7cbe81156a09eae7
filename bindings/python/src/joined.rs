//! The machine joined to its texts and its wire: calls become requests, replies become outcomes.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use tenure_core::config;
use tenure_core::io::{Call, CallId, Event, Input, Outcome};
use tenure_core::lease;
use tenure_core::record::{Fence, HolderId, Record};
use tenure_core::time::{Instant, Now};
use tenure_core::wire::Texts;
use tenure_core::wire::dynamodb::{self as dynamodb_wire, Item};
use tenure_core::wire::redis::{Sent, Step, Tried};

use crate::dynamodb::{self, Key, OwnedItem, OwnedRow};
use crate::local::{self, RowTuple};
use crate::redis::{self, OwnedReply, RedisClient};
use crate::step::{self, InTheWay};
use crate::trace::Trace;

pub(crate) struct Joined {
    pub(crate) lease: lease::Lease,
    pub(crate) successor: Option<String>,
    pub(crate) complaint: Option<String>,
    name: String,
    holder: String,
    call: Option<Call>,
    who: InTheWay,
    wire: Wire,
    trace: Option<(Py<Trace>, u32)>,
}

pub(crate) enum Wire {
    DynamoDb { key: Key, row: OwnedRow },
    Local { outcome: Outcome },
    Redis(RedisWire),
}

pub(crate) struct RedisWire {
    client: Py<RedisClient>,
    fence_key: String,
    seen: Option<Vec<u8>>,
    tried: Tried,
    sent: Option<Sent>,
}

impl RedisWire {
    pub(crate) fn new(client: Py<RedisClient>, fence_key: String) -> Self {
        Self { client, fence_key, seen: None, tried: Tried::default(), sent: None }
    }
}

impl Joined {
    pub(crate) fn new(config: config::Config, name: String, holder: String, wire: Wire) -> Self {
        Self {
            lease: lease::Lease::new(config),
            successor: None,
            complaint: None,
            name,
            holder,
            call: None,
            who: InTheWay::default(),
            wire,
            trace: None,
        }
    }

    /// Records everything from here on.
    pub(crate) fn record(&mut self, trace: Py<Trace>) {
        let settings = *self.lease.config().settings();
        let number = trace.get().open(&self.name, &self.holder, settings);
        self.trace = Some((trace, number));
    }

    /// Before a question that takes a reading.
    pub(crate) fn asked(&self, now: Now) {
        if let Some((trace, number)) = &self.trace {
            trace.get().asked(*number, now);
        }
    }

    pub(crate) fn handle(&mut self, now: Now, input: Input) -> Stepped {
        let output = self.lease.handle(now, input);
        if let Some((trace, number)) = &self.trace {
            trace.get().handled(*number, now, input, &output);
        }
        let call = output.call.map(|call| {
            self.call = Some(call);
            if let Wire::Redis(wire) = &mut self.wire {
                wire.tried = Tried::default();
            }
            self.put(&call)
        });
        let event = output.event.map(|event| (event, self.who.clone()));
        Stepped { call, event, wake_at: output.wake_at }
    }

    /// The call in flight once more, in another form of its request.
    pub(crate) fn same_call(&mut self) -> Stepped {
        let call = self.call.map(|call| self.put(&call));
        Stepped { call, event: None, wake_at: None }
    }

    fn put(&mut self, call: &Call) -> Put {
        let texts =
            Texts { name: &self.name, holder: &self.holder, successor: self.successor.as_deref() };
        let request = match &mut self.wire {
            Wire::DynamoDb { key, row } => {
                dynamodb::request(key, &texts, row, call).map(Request::DynamoDb)
            }
            Wire::Local { .. } => Some(Request::Local(self.name.clone())),
            Wire::Redis(wire) => {
                let client = wire.client.get().lock();
                let seen = wire.seen.as_deref();
                let request = client.lower(&texts, &wire.fence_key, seen, call, wire.tried, false);
                wire.sent = request.as_ref().map(|request| request.sent);
                request.map(|request| Request::Redis(redis::OwnedRequest::new(&request)))
            }
        };
        Put { id: call.id, give_up_at: call.give_up_at, request }
    }

    pub(crate) fn read_item(
        &mut self,
        id: u32,
        how: &str,
        item: Option<&OwnedItem>,
    ) -> PyResult<Outcome> {
        let Some(call) = self.call.filter(|call| call.id == CallId(id)) else {
            return Ok(Outcome::Unknown);
        };
        let Wire::DynamoDb { key, row } = &mut self.wire else {
            return Err(PyTypeError::new_err("not a lease of a DynamoDB table"));
        };
        let texts = Texts { name: &self.name, holder: &self.holder, successor: None };
        let item = item.map(|item| item as &dyn Item);
        let read = match how {
            "applied" => dynamodb_wire::read_applied(&call, item),
            "refused" => dynamodb_wire::read_refused(&key.schema(), &texts, item),
            "found" => dynamodb_wire::read_found(&key.schema(), &texts, item),
            _ => return Err(PyValueError::new_err("how must be applied, refused or found")),
        };
        if let Some(record) = shown(&read.outcome) {
            *row = OwnedRow::new(read.row);
            self.who = in_the_way(read.holder.map(str::to_owned), &record);
        }
        self.complaint = read.complaint.map(|c| format!("{} {}", c.attribute, c.why));
        Ok(read.outcome)
    }

    /// `None` if the call is to be put in another form.
    pub(crate) fn read_replies(
        &mut self,
        id: u32,
        replies: &[OwnedReply],
    ) -> PyResult<Option<Outcome>> {
        let Some(call) = self.call.filter(|call| call.id == CallId(id)) else {
            return Ok(Some(Outcome::Unknown));
        };
        let Wire::Redis(wire) = &mut self.wire else {
            return Err(PyTypeError::new_err("not a lease of a Redis key"));
        };
        let Some(sent) = wire.sent else { return Ok(Some(Outcome::Unknown)) };
        let texts =
            Texts { name: &self.name, holder: &self.holder, successor: self.successor.as_deref() };
        let lists: Vec<_> = replies.iter().map(OwnedReply::inner).collect();
        let replies: Vec<_> =
            replies.iter().zip(&lists).map(|(reply, list)| reply.borrow(list)).collect();
        let step = wire.client.get().lock().read(&texts, &call, sent, &replies);
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match step {
            Step::Again(tried) => {
                wire.tried = tried;
                Ok(None)
            }
            Step::Done(read) => {
                if let Some(record) = shown(&read.outcome) {
                    wire.seen = read.value.map(<[u8]>::to_vec);
                    self.who = in_the_way(read.holder.map(lossy), &record);
                }
                self.complaint = read.complaint.map(lossy);
                Ok(Some(read.outcome))
            }
        }
    }

    /// Gives the row to keep, if it is another one.
    pub(crate) fn carry_out(
        &mut self,
        id: CallId,
        row: Option<&RowTuple>,
        store_us: u64,
        fence_floor: u64,
        here: (&str, &str),
    ) -> PyResult<Option<RowTuple>> {
        let Some(call) = self.call.filter(|call| call.id == id) else { return Ok(None) };
        let id_of = |text: &str| {
            HolderId::new(text).map_err(|error| PyValueError::new_err(("holder", error.why())))
        };
        let us = id_of(&self.holder)?;
        let successor = self.successor.as_deref().map(id_of).transpose()?;
        let mut row = local::row(row, fence_floor, local::boot(here.0, here.1)?)?;
        let now = Instant::from_micros(store_us);
        let result = row.carry_out(us, successor, &call, now);
        if let Some(record) = shown(&result) {
            let holder = row.holder(now).map(|(holder, ..)| holder.as_str().to_owned());
            self.who = in_the_way(holder, &record);
        }
        if let Wire::Local { outcome } = &mut self.wire {
            *outcome = result;
        }
        let changed = matches!(result, Outcome::Applied { .. });
        Ok(changed.then(|| local::tuple(&row, here)))
    }

    /// How `carry_out` ended.
    pub(crate) fn carried(&self) -> Outcome {
        match self.wire {
            Wire::Local { outcome } => outcome,
            _ => Outcome::Unknown,
        }
    }

    /// What a later takeover is to name.
    pub(crate) fn saw(&mut self, raw: Raw) {
        match (&mut self.wire, raw) {
            (Wire::DynamoDb { row, .. }, Raw::Row(parts)) => *row = OwnedRow::from_parts(parts),
            (Wire::Redis(wire), Raw::Value(value)) => wire.seen = Some(value),
            _ => {}
        }
    }
}

/// What the host kept of a record that was shown, to name it again.
#[derive(FromPyObject)]
pub(crate) enum Raw {
    Value(Vec<u8>),
    Row((Option<String>, Option<String>, Option<String>)),
}

/// An answer of the machine that holds nothing of Python's, so that it can be made under the lock.
pub(crate) struct Stepped {
    call: Option<Put>,
    event: Option<(Event, InTheWay)>,
    wake_at: Option<Instant>,
}

struct Put {
    id: CallId,
    give_up_at: Instant,
    request: Option<Request>,
}

enum Request {
    DynamoDb(dynamodb::OwnedRequest),
    Local(String),
    Redis(redis::OwnedRequest),
}

impl Stepped {
    /// `(call, event, wake_at_us)`; a call is `(id, give_up_at_us, request)`.
    pub(crate) fn into_python<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let call = self.call.map(|put| put.into_python(py)).transpose()?;
        let event = self.event.map(|(event, who)| step::event(py, event, &who)).transpose()?;
        (call, event, self.wake_at.map(Instant::as_micros)).into_pyobject(py)
    }
}

impl Put {
    fn into_python<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let request = match self.request {
            None => None,
            Some(Request::DynamoDb(request)) => Some(request.into_python(py)?.into_any()),
            Some(Request::Local(name)) => Some(name.into_pyobject(py)?.into_any()),
            Some(Request::Redis(request)) => Some(request.into_python(py)?.into_any()),
        };
        (self.id.0, self.give_up_at.as_micros(), request).into_pyobject(py)
    }
}

fn shown(outcome: &Outcome) -> Option<Record> {
    match outcome {
        Outcome::Refused { current } => *current,
        Outcome::Found { record } => Some(*record),
        _ => None,
    }
}

fn in_the_way(holder: Option<String>, record: &Record) -> InTheWay {
    let fence: Option<Fence> = record.fence;
    InTheWay { holder, fence }
}
