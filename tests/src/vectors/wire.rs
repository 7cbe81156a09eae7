//! The wires joined to stand-ins for their stores, so that a scenario only says what goes wrong.

use serde_json::{Map, Value, json};

use tenure_core::io::{Call, Outcome};
use tenure_core::record::Identity;
use tenure_core::wire::Texts;
use tenure_core::wire::dynamodb::outcome_of_error;

use super::server::{OwnedReply, Server};
use super::shelf::Shelf;
use super::table::{Row, Table};

pub(super) enum Wire {
    DynamoDb(Table),
    Local(Shelf),
    Redis(Box<Server>),
}

/// What a host hands back for a call.
pub(super) enum Reply {
    /// DynamoDB answered.
    Item { how: &'static str, item: Option<Row> },
    /// DynamoDB answered with an error.
    Error { code: &'static str, status: u16 },
    /// Redis answered.
    Replies(Vec<OwnedReply>),
    /// The host's own row was kept.
    Carried,
}

/// How a reply was read.
pub(super) enum Answer {
    Again,
    Done { outcome: Outcome, holder: Option<String>, complaint: Option<String> },
}

impl Reply {
    pub(super) fn errors(text: &str) -> Self {
        Self::Replies(vec![OwnedReply::Error(text.to_owned())])
    }

    pub(super) const fn method(&self) -> &'static str {
        match self {
            Self::Item { .. } => "item",
            Self::Error { .. } => "error",
            Self::Replies(_) => "replies",
            Self::Carried => "carried",
        }
    }

    pub(super) fn describe(&self, input: &mut Map<String, Value>) {
        match self {
            Self::Item { how, item } => {
                input.insert("how".into(), json!(how));
                let item = item.as_ref().map_or(Value::Null, Row::plain);
                input.insert("item".into(), item);
            }
            Self::Error { code, status } => {
                input.insert("code".into(), json!(code));
                input.insert("status".into(), json!(status));
            }
            Self::Replies(replies) => {
                let replies = replies.iter().map(OwnedReply::plain).collect();
                input.insert("replies".into(), Value::Array(replies));
            }
            Self::Carried => {}
        }
    }
}

impl Wire {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::DynamoDb(_) => "dynamodb",
            Self::Local(_) => "local",
            Self::Redis(_) => "redis",
        }
    }

    /// What a binding is told of the wire.
    pub(super) fn describe(&self, texts: &mut Map<String, Value>) {
        match self {
            Self::DynamoDb(table) => table.describe(texts),
            Self::Local(_) => {}
            Self::Redis(server) => server.describe(texts),
        }
    }

    /// Another call was made.
    pub(super) fn begin(&mut self) {
        if let Self::Redis(server) = self {
            server.begin();
        }
    }

    /// The request of a call, null if it cannot be put.
    pub(super) fn lower(&mut self, texts: &Texts<'_>, call: &Call) -> Value {
        match self {
            Self::DynamoDb(table) => table.lower(texts, call),
            Self::Local(_) => json!(texts.name),
            Self::Redis(server) => server.lower(texts, call),
        }
    }

    pub(super) fn perform(&mut self, call: &Call, now: u64) -> Reply {
        match self {
            Self::DynamoDb(table) => table.perform(call),
            Self::Local(_) => Reply::Carried,
            Self::Redis(server) => server.perform(now),
        }
    }

    pub(super) fn read(&mut self, texts: &Texts<'_>, call: &Call, reply: &Reply) -> Answer {
        match (self, reply) {
            (Self::DynamoDb(table), Reply::Item { how, item }) => {
                table.read(texts, call, how, item.as_ref())
            }
            (Self::Redis(server), Reply::Replies(replies)) => server.read(texts, call, replies),
            _ => panic!("not a reply of this store"),
        }
    }

    /// What such a reply says whichever call it is to.
    pub(super) fn outcome(&self, reply: &Reply) -> Outcome {
        match (self, reply) {
            (_, Reply::Error { code, status }) => outcome_of_error(code, *status),
            (Self::Local(shelf), Reply::Carried) => shelf.outcome(),
            _ => Outcome::Unknown,
        }
    }

    /// What stands there, as a person would be shown it: its identity, and what names it.
    pub(super) fn shown(&self, name: &str, now: u64) -> (Identity, Value) {
        match self {
            Self::DynamoDb(table) => table.shown(name),
            Self::Local(shelf) => shelf.shown(now),
            Self::Redis(server) => server.shown(name, now),
        }
    }

    /// A later takeover is to name this.
    pub(super) fn saw(&mut self, raw: &Value) {
        match self {
            Self::DynamoDb(table) => table.saw(raw),
            Self::Local(_) => {}
            Self::Redis(server) => server.saw(raw),
        }
    }

    pub(super) fn table(&mut self) -> &mut Table {
        let Self::DynamoDb(table) = self else { panic!("not a table") };
        table
    }

    pub(super) fn server(&mut self) -> &mut Server {
        let Self::Redis(server) = self else { panic!("not a server") };
        server
    }

    pub(super) fn shelf(&mut self) -> &mut Shelf {
        let Self::Local(shelf) = self else { panic!("not a shelf") };
        shelf
    }
}
