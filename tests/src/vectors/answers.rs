//! What goes into a lease and what comes out of it, by the names that stand in the vectors.

use serde_json::{Value, json};

use tenure_core::config::{Expiry, Settings, Ttl, Versions};
use tenure_core::io::{BusyBecause, Event, Failure, Grant, LostReason};
use tenure_core::record::{Fence, Observation};
use tenure_core::time::Span;

use super::plain::{bits, number, span};

/// Who is in the way, as far as it was shown.
#[derive(Clone, Debug, Default)]
pub(super) struct InTheWay {
    pub(super) holder: Option<String>,
    pub(super) fence: Option<Fence>,
}

/// An event as bindings tell it, its parts in their order.
pub(super) fn plain_event(event: Event, who: &InTheWay) -> Value {
    let holder = who.holder.as_deref();
    let fence = plain_fence(who.fence);
    match event {
        Event::Acquired { grant, takeover } => {
            let mut event = grant_event("acquired", grant);
            event["takeover"] = json!(takeover);
            event
        }
        Event::Renewed { grant } => grant_event("renewed", grant),
        Event::Waiting { retry_after } => json!({
            "kind": "waiting", "retry_after_us": retry_after.map_or(Value::Null, span),
            "holder": holder, "fence": fence,
        }),
        Event::Busy { because, retry_after } => json!({
            "kind": "busy",
            "because": match because {
                BusyBecause::Held => "held",
                BusyBecause::Resting => "resting",
                BusyBecause::Unjudgeable => "unjudgeable",
                other => panic!("a vector does not know {other:?} yet"),
            },
            "retry_after_us": retry_after.map_or(Value::Null, span),
            "holder": holder, "fence": fence,
        }),
        Event::Failed { failure } => json!({
            "kind": "failed",
            "failure": match failure {
                Failure::Denied => "denied",
                Failure::Unavailable => "unavailable",
                Failure::Unknown => "unknown",
                other => panic!("a vector does not know {other:?} yet"),
            },
        }),
        Event::AtRisk { valid_for } => {
            json!({"kind": "at_risk", "valid_for_us": span(valid_for)})
        }
        Event::Lost { reason, fence } => json!({
            "kind": "lost",
            "reason": match reason {
                LostReason::Expired => "expired",
                LostReason::Taken => "taken",
                LostReason::Missing => "missing",
                LostReason::Paused => "paused",
                LostReason::Unreachable => "unreachable",
                other => panic!("a vector does not know {other:?} yet"),
            },
            "fence": plain_fence(fence),
            "by": if reason == LostReason::Taken { holder } else { None },
        }),
        Event::Released => json!({"kind": "released"}),
        Event::HandedOver => json!({"kind": "handed_over"}),
        Event::Cancelled => json!({"kind": "cancelled"}),
        Event::Unconfirmed => json!({"kind": "unconfirmed"}),
        other => panic!("a vector does not know {other:?} yet"),
    }
}

/// Settings by the names of a binding's arguments, in their order.
pub(super) fn plain_settings(settings: &Settings) -> Value {
    let (expiry, skew) = match settings.expiry {
        Expiry::Observed => ("observed", Span::ZERO),
        Expiry::Bounded { max_clock_skew } => ("bounded", max_clock_skew),
        Expiry::Store => ("store", Span::ZERO),
    };
    let ttl = match settings.ttl {
        Ttl::For(ttl) => number(ttl.as_micros()),
        Ttl::Forever => Value::Null,
    };
    let optional = |span: Option<Span>| span.map_or(Value::Null, |span| number(span.as_micros()));
    json!({
        "expiry": expiry,
        "ttl_us": ttl,
        "max_clock_skew_us": number(skew.as_micros()),
        "per_claim": settings.versions == Versions::PerClaim,
        "renew_interval_us": optional(settings.renew_interval),
        "poll_interval_us": optional(settings.poll_interval),
        "call_timeout_us": optional(settings.call_timeout),
        "rate_error_ppm": settings.rate_error_ppm,
        "min_hold_us": number(settings.min_hold.as_micros()),
        "clock": settings.clock.map(|clock| bits(clock.0)),
    })
}

pub(super) fn plain_observation(observation: &Observation) -> Value {
    json!({
        "identity": bits(observation.identity.0),
        "ttl_us": number(observation.ttl.as_micros()),
        "proven_for_us": number(observation.proven_for.as_micros()),
        "clock": observation.clock.map(|clock| bits(clock.0)),
        "mono_us": number(observation.mono.as_micros()),
        "wall_us": observation.wall.map_or(Value::Null, |wall| number(wall.as_micros())),
    })
}

fn plain_fence(fence: Option<Fence>) -> Value {
    fence.map_or(Value::Null, |fence| number(fence.0))
}

pub(super) fn plain_grant(grant: Grant) -> Value {
    json!({"fence": plain_fence(grant.fence), "valid_for_us": span(grant.valid_for)})
}

fn grant_event(kind: &str, grant: Grant) -> Value {
    json!({
        "kind": kind,
        "fence": plain_fence(grant.fence),
        "valid_for_us": span(grant.valid_for),
    })
}
