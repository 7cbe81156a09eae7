//! A stand-in for a DynamoDB table of one row. It does what each kind of call means, on the
//! attributes that the request names: enough to have replies whose texts fit the requests.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use tenure_core::io::{Call, CallKind};
use tenure_core::record::Identity;
use tenure_core::wire::Texts;
use tenure_core::wire::dynamodb::{
    self as wire, Attribute, FENCE, Item, LEASE_DURATION, LEASE_EXPIRATION, MAX_CLOCK_SKEW,
    NOT_BEFORE, Operation, RESOURCE_ID, RowTexts, Schema, VERSION,
};

use super::wire::{Answer, Reply};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field {
    N(String),
    S(String),
    /// Of a type that no lease has.
    Bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row(pub(super) BTreeMap<String, Field>);

impl Row {
    pub(super) fn of<const N: usize>(fields: [(&str, Field); N]) -> Self {
        Self(fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect())
    }

    pub(super) fn plain(&self) -> Value {
        let plain = |field: &Field| match field {
            Field::N(text) => json!({"N": text}),
            Field::S(text) => json!({"S": text}),
            Field::Bool => json!({"BOOL": true}),
        };
        Value::Object(self.0.iter().map(|(name, field)| (name.clone(), plain(field))).collect())
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            Field::N(text) | Field::S(text) => Some(text),
            Field::Bool => None,
        }
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }
}

impl Item for Row {
    fn get(&self, name: &str) -> Option<Attribute<'_>> {
        self.0.get(name).map(|field| match field {
            Field::N(text) => Attribute::Number(text),
            Field::S(text) => Attribute::Text(text),
            Field::Bool => Attribute::Other,
        })
    }

    fn has_others(&self, known: &dyn Fn(&str) -> bool) -> bool {
        self.0.keys().any(|name| !known(name))
    }
}

type Seen = [Option<String>; 3];

pub(super) struct Table {
    hash_key: &'static str,
    sort_key: Option<(&'static str, &'static str)>,
    pub(super) row: Option<Row>,
    /// Says what stood in the way of a write, as newer engines do.
    pub(super) shows_old: bool,
    seen: Seen,
    request: Value,
}

impl Table {
    pub(super) const fn new() -> Self {
        Self::with_key("leaseId", None)
    }

    pub(super) const fn with_key(
        hash_key: &'static str,
        sort_key: Option<(&'static str, &'static str)>,
    ) -> Self {
        let seen = [None, None, None];
        Self { hash_key, sort_key, row: None, shows_old: true, seen, request: Value::Null }
    }

    const fn schema(&self) -> Schema<'static> {
        Schema { hash_key: self.hash_key, sort_key: self.sort_key }
    }

    pub(super) fn describe(&self, texts: &mut Map<String, Value>) {
        texts.insert("hash_key".into(), json!(self.hash_key));
        texts.insert("sort_key".into(), json!(self.sort_key));
    }

    pub(super) fn lower(&mut self, texts: &Texts<'_>, call: &Call) -> Value {
        let seen = row_texts(&self.seen);
        let schema = self.schema();
        let request = wire::lower(&schema, texts, Some(seen), call);
        self.request = request.map_or(Value::Null, |request| plain_request(&request));
        self.request.clone()
    }

    pub(super) fn read(
        &mut self,
        texts: &Texts<'_>,
        call: &Call,
        how: &str,
        item: Option<&Row>,
    ) -> Answer {
        let item = item.map(|item| item as &dyn Item);
        let schema = self.schema();
        let read = match how {
            "applied" => wire::read_applied(call, item),
            "refused" => wire::read_refused(&schema, texts, item),
            _ => wire::read_found(&schema, texts, item),
        };
        if super::shows_a_record(&read.outcome) {
            self.seen = owned(&read.row);
        }
        Answer::Done {
            outcome: read.outcome,
            holder: read.holder.map(str::to_owned),
            complaint: read.complaint.map(|c| format!("{} {}", c.attribute, c.why)),
        }
    }

    pub(super) fn shown(&self, name: &str) -> (Identity, Value) {
        let texts = Texts { name, holder: "", successor: None };
        let item = self.row.as_ref().map(|row| row as &dyn Item);
        let read = wire::read_found(&self.schema(), &texts, item);
        let tenure_core::io::Outcome::Found { record } = read.outcome else {
            panic!("no lease: {:?}", read.complaint)
        };
        (record.identity, json!(owned(&read.row)))
    }

    pub(super) fn saw(&mut self, raw: &Value) {
        self.seen = [0, 1, 2].map(|at| raw[at].as_str().map(str::to_owned));
    }

    /// Another holder writes the row, as this crate's wire has it.
    pub(super) fn write_as(&mut self, holder: &str, call: &Call) {
        let texts = Texts { name: "", holder, successor: None };
        let request = wire::lower(&self.schema(), &texts, Some(RowTexts::default()), call)
            .expect("can be put");
        self.request = plain_request(&request);
        self.write(true);
    }

    /// A client that knows only the seed's two attributes takes the row.
    pub(super) fn write_as_seed(&mut self, holder: &str, expires_at_ms: u64) {
        let hash_key = self.hash_key.to_owned();
        let row = self.row.get_or_insert_default();
        row.0.insert(hash_key, Field::S(super::scenario::NAME.into()));
        row.0.insert(RESOURCE_ID.into(), Field::S(holder.into()));
        row.0.insert(LEASE_EXPIRATION.into(), Field::N(expires_at_ms.to_string()));
    }

    pub(super) fn perform(&mut self, call: &Call) -> Reply {
        let draws = matches!(call.kind, CallKind::Acquire { .. } | CallKind::Takeover { .. });
        if self.request.is_null() {
            return Reply::Error { code: "ValidationException", status: 400 };
        }
        if matches!(call.kind, CallKind::Read { .. }) {
            return Reply::Item { how: "found", item: self.row.clone() };
        }
        if !self.condition_holds(&call.kind) {
            let item = if self.shows_old { self.row.clone() } else { None };
            return Reply::Item { how: "refused", item };
        }
        self.write(draws);
        Reply::Item { how: "applied", item: self.row.clone() }
    }

    fn value(&self, placeholder: &str) -> Option<Field> {
        let value = &self.request["parameters"]["ExpressionAttributeValues"][placeholder];
        match (&value["N"], &value["S"]) {
            (Value::String(text), _) => Some(Field::N(text.clone())),
            (_, Value::String(text)) => Some(Field::S(text.clone())),
            _ => None,
        }
    }

    fn number(&self, placeholder: &str) -> Option<u64> {
        match self.value(placeholder)? {
            Field::N(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn condition_holds(&self, kind: &CallKind) -> bool {
        let Some(row) = &self.row else { return matches!(kind, CallKind::Acquire { .. }) };
        match kind {
            CallKind::Acquire { .. } => {
                let free = row.text(VERSION).is_some()
                    && row.text(RESOURCE_ID).is_none()
                    && row.number(NOT_BEFORE) <= self.number(":now");
                let over = match (row.number(MAX_CLOCK_SKEW), self.number(":ms")) {
                    (Some(theirs), Some(ours)) => {
                        theirs <= ours && row.number(LEASE_EXPIRATION) < self.number(":past")
                    }
                    _ => false,
                };
                free || over
            }
            CallKind::Takeover { .. } => {
                [(RESOURCE_ID, ":r0"), (LEASE_EXPIRATION, ":e0"), (VERSION, ":v0")]
                    .into_iter()
                    .all(|(name, place)| row.0.get(name) == self.value(place).as_ref())
            }
            _ => {
                let named = [":v0", ":v1", ":v2", ":v3", ":v4"];
                row.0.get(RESOURCE_ID) == self.value(":me").as_ref()
                    && named.iter().any(|place| self.value(place).as_ref() == row.0.get(VERSION))
            }
        }
    }

    fn write(&mut self, draws: bool) {
        let mut row = self.row.take().unwrap_or_default();
        if let Some(key) = self.request["parameters"]["Key"].as_object() {
            for (name, value) in key {
                row.0.insert(name.clone(), Field::S(value["S"].as_str().unwrap_or("").into()));
            }
        }
        let update = self.request["parameters"]["UpdateExpression"].as_str().unwrap_or("");
        let removed = update.split("REMOVE ").nth(1).unwrap_or("");
        for place in removed.split(", ") {
            let name = &self.request["parameters"]["ExpressionAttributeNames"][place];
            row.0.remove(name.as_str().unwrap_or(""));
        }
        for (name, places) in [
            (RESOURCE_ID, &[":me", ":to"][..]),
            (LEASE_EXPIRATION, &[":e"]),
            (LEASE_DURATION, &[":ld"]),
            (VERSION, &[":v"]),
            (MAX_CLOCK_SKEW, &[":ms"]),
            (NOT_BEFORE, &[":nb"]),
        ] {
            // A successor's name is the last word; a release names its holder only to compare it.
            let released = name == RESOURCE_ID && removed.contains("#r");
            for value in places.iter().filter_map(|place| self.value(place)) {
                if !released {
                    row.0.insert(name.into(), value);
                }
            }
        }
        if draws {
            let fence = row.number(FENCE).or_else(|| self.number(":floor")).unwrap_or(0) + 1;
            row.0.insert(FENCE.into(), Field::N(fence.to_string()));
        }
        self.row = Some(row);
    }
}

fn owned(row: &RowTexts<'_>) -> Seen {
    [row.resource_id, row.lease_expiration, row.version].map(|text| text.map(str::to_owned))
}

fn row_texts(seen: &Seen) -> RowTexts<'_> {
    let [resource_id, lease_expiration, version] = seen.each_ref().map(Option::as_deref);
    RowTexts { resource_id, lease_expiration, version }
}

/// As an SDK takes it, but for the table's name.
fn plain_request(request: &wire::Request<'_>) -> Value {
    let mut parameters = Map::new();
    let key = request.key.iter().map(|(name, value)| ((*name).to_owned(), json!({"S": value})));
    parameters.insert("Key".into(), Value::Object(key.collect()));
    if request.operation == Operation::GetItem {
        parameters.insert("ConsistentRead".into(), json!(request.consistent));
    } else {
        let names =
            request.names.iter().map(|(place, name)| ((*place).to_owned(), json!(name))).collect();
        let values = request.values.iter().map(|(place, value)| {
            let value = match value {
                wire::Value::Number(number) => json!({"N": number.to_string()}),
                wire::Value::NumberText(text) => json!({"N": text}),
                wire::Value::Text(text) => json!({"S": text}),
                wire::Value::Version(text) => json!({"S": text.as_str()}),
            };
            ((*place).to_owned(), value)
        });
        parameters.insert("UpdateExpression".into(), json!(request.update));
        parameters.insert("ConditionExpression".into(), json!(request.condition));
        parameters.insert("ExpressionAttributeNames".into(), Value::Object(names));
        parameters.insert("ExpressionAttributeValues".into(), Value::Object(values.collect()));
        parameters.insert("ReturnValues".into(), json!("ALL_NEW"));
        parameters.insert("ReturnValuesOnConditionCheckFailure".into(), json!("ALL_OLD"));
    }
    json!({"operation": request.operation.name(), "parameters": parameters})
}
