//! Stories: each promise, and each way in which lease libraries were seen to break it.

mod bounded;
mod exclusion;
mod fails_closed;
mod fencing;
mod finality;
mod no_false_loss;
mod no_orphan;
mod no_phantom;
mod release;
mod takeover;
mod total;
mod ways;

use tenure_core::config::{Expiry, Settings, Ttl};
use tenure_core::io::{
    BusyBecause, CallKind, Event, Failure, Input, LostReason, OurVersions, Outcome, Wait,
};
use tenure_core::lease::State;
use tenure_core::memory::Ends;
use tenure_core::record::{ClockId, Fence, Holder, Identity, Record, Term, Version};
use tenure_core::time::{Instant, Now, Span, Wall};
use tenure_tests::bench::{Bench, Contender, TTL};

const OBSERVED: Expiry = Expiry::Observed;
const BOUNDED: Expiry = Expiry::Bounded { max_clock_skew: Span::from_millis(100) };
/// Of the ttl of a story: 1,000 ms × 2 × 1 % + 2 ms.
const MARGIN: u64 = 22;

fn observed() -> (Bench, Contender, Contender) {
    (Bench::new(Ends::ByContenders), Contender::new(1, OBSERVED), Contender::new(2, OBSERVED))
}

fn acquire(wait: Wait) -> Input {
    Input::Acquire { wait }
}

fn is_lost(event: Option<Event>, why: LostReason) -> bool {
    matches!(event, Some(Event::Lost { reason, .. }) if reason == why)
}
