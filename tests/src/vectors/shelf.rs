//! The host's own row, which the binding itself carries calls out on.

use serde_json::{Value, json};

use tenure_core::io::{Call, Outcome};
use tenure_core::memory::{Boot, Ends, Parts, Row};
use tenure_core::record::{HolderId, Identity, Version};
use tenure_core::time::{Instant, Span};

use super::plain::{bits, number};

const HERE: Boot = Boot { machine: 0xabc, boot: 1 };
const FENCE_FLOOR: u64 = 41;

pub(super) struct Shelf {
    pub(super) row: Option<(Parts<HolderId>, Boot)>,
    pub(super) here: Boot,
    outcome: Outcome,
}

impl Shelf {
    pub(super) const fn new() -> Self {
        Self { row: None, here: HERE, outcome: Outcome::Unknown }
    }

    pub(super) const fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Another holder's row.
    pub(super) fn write_as(&mut self, holder: &str, ttl: Option<u64>, now: u64) {
        let fence = self.row.map_or(FENCE_FLOOR, |(parts, _)| parts.fence) + 1;
        let ttl = ttl.map_or(Span::FOREVER, Span::from_micros);
        let parts = Parts {
            holder: Some(HolderId::new(holder).expect("an id")),
            offered: false,
            version: Version::from_bits(u128::from(now)),
            ttl,
            ends_at: Instant::from_micros(now).after(ttl),
            fence,
        };
        self.row = Some((parts, self.here));
    }

    pub(super) fn holder(&self, now: u64) -> Option<String> {
        let row = self.current()?;
        let (holder, ..) = row.holder(Instant::from_micros(now))?;
        Some(holder.as_str().to_owned())
    }

    pub(super) fn shown(&self, now: u64) -> (Identity, Value) {
        let row = self.current().expect("a row");
        let nobody = HolderId::new("-").expect("an id");
        (row.record(nobody, Instant::from_micros(now)).identity, Value::Null)
    }

    /// The input of this, and what it gives.
    pub(super) fn carry_out(
        &mut self,
        us: HolderId,
        successor: Option<HolderId>,
        call: &Call,
        now: u64,
    ) -> (Value, Value) {
        let input = json!({
            "method": "carry_out",
            "call_id": call.id.0,
            "row": self.plain(),
            "store_us": number(now),
            "fence_floor": FENCE_FLOOR,
            "machine": id(self.here.machine),
            "boot": id(self.here.boot),
        });
        let Some(mut row) = self.current() else { return (input, json!({"error": {}})) };
        self.outcome = row.carry_out(us, successor, call, Instant::from_micros(now));
        if !matches!(self.outcome, Outcome::Applied { .. }) {
            return (input, json!({"row": null}));
        }
        self.row = Some((row.parts(), self.here));
        (input, json!({"row": self.plain()}))
    }

    /// `None` if it is another machine's.
    fn current(&self) -> Option<Row<HolderId>> {
        match self.row {
            None => Some(Row::new(Ends::ByStore, FENCE_FLOOR)),
            Some((parts, written)) => parts.since(written, self.here).ok().map(Row::from_parts),
        }
    }

    fn plain(&self) -> Value {
        let Some((parts, written)) = &self.row else { return Value::Null };
        // A column of 64 bits with a sign; -1 stands for ever.
        let ttl = if parts.ttl.is_forever() { json!(-1) } else { number(parts.ttl.as_micros()) };
        json!({
            "holder": parts.holder.map(|holder| holder.as_str().to_owned()),
            "offered": parts.offered,
            "version": bits(parts.version.to_bits()),
            "ttl_us": ttl,
            "ends_at_us": number(parts.ends_at.as_micros().min(i64::MAX as u64)),
            "fence": number(parts.fence),
            "machine": id(written.machine),
            "boot": id(written.boot),
        })
    }
}

/// A machine or boot as its host has it.
fn id(bits: u128) -> Value {
    json!(format!("{bits:x}"))
}
