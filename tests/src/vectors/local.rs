//! What happens to a lease in a row that the host keeps.

use tenure_core::config::{Expiry, Settings, Ttl};
use tenure_core::io::Wait;
use tenure_core::lease::State;
use tenure_core::memory::Boot;
use tenure_core::time::Span;

use super::scenario::{MS, OTHER, SECOND, Scenario, settings};
use super::shelf::Shelf;
use super::wire::Wire;

fn store() -> Settings {
    settings(Expiry::Store)
}

/// Tries again less often, so that less is to be written down.
fn patient() -> Settings {
    Settings { poll_interval: Some(Span::from_millis(800)), ..store() }
}

fn new(name: &str, settings: Settings) -> Scenario {
    Scenario::new(name, settings, Wire::Local(Shelf::new()))
}

fn held_by_another(name: &str, ttl: Option<u64>) -> Scenario {
    let mut s = new(name, patient());
    let now = s.store_now();
    s.wire.shelf().write_as(OTHER, ttl, now);
    s
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = vec![];
    let mut add = |scenario: Scenario| all.push(scenario);

    let mut s = new("a grant, renewals, a release, and another grant", store());
    s.hold().ask().tick_when_due().answer().after(SECOND).renew().answer();
    s.release().answer().hold().release().answer();
    add(s);

    let mut s = held_by_another("busy until the store ends it", Some(3 * SECOND));
    s.acquire(Wait::No).answer();
    s.acquire(Wait::For(Span::from_micros(10 * SECOND))).go_on_until(State::Held);
    add(s);

    let mut s = held_by_another("a lock of another ends only by a person", None);
    s.acquire(Wait::No).answer().break_what_stands().answer();
    add(s);

    let mut s = new("min_hold", Settings { min_hold: Span::from_micros(3 * SECOND), ..patient() });
    s.hold().after(SECOND).release().answer().acquire(Wait::No).answer();
    s.acquire(Wait::Forever).go_on_until(State::Held);
    add(s);

    let mut s = new("a lock that never ends", Settings { ttl: Ttl::Forever, ..store() });
    s.hold().answer().ask().tick_when_due().answer().release().answer();
    add(s);

    let mut s = new("handed over, and not taken back", store());
    s.hold().hand_over("web/2").answer().acquire(Wait::No).answer();
    add(s);

    let mut s = new("handed over to us", store());
    let now = s.store_now();
    s.wire.shelf().write_as(super::scenario::HOLDER, Some(10 * SECOND), now);
    if let Some((parts, _)) = &mut s.wire.shelf().row {
        parts.offered = true;
    }
    s.acquire(Wait::No).answer().answer().ask();
    add(s);

    let mut s = new("lost replies", store());
    s.acquire(Wait::No).lose_reply().answer().tick_when_due().lose_reply().tick_when_due();
    s.answer().release().lose_reply().answer();
    add(s);

    let mut s = new("taken from a holder that paused", store());
    s.hold().after(11 * SECOND);
    let now = s.store_now();
    s.wire.shelf().write_as(OTHER, Some(5 * SECOND), now);
    s.tick().answer();
    add(s);

    let mut s = new("lost: missing", store());
    s.hold();
    s.wire.shelf().row = None;
    s.tick_when_due().answer();
    add(s);

    let mut s = new("lost: taken", store());
    s.hold();
    let now = s.store_now();
    s.wire.shelf().write_as(OTHER, Some(5 * SECOND), now);
    s.tick_when_due().answer();
    add(s);

    let mut s = held_by_another("the machine was started anew", Some(60 * SECOND));
    let machine = s.wire.shelf().here.machine;
    s.wire.shelf().here = Boot { machine, boot: 2 };
    s.acquire(Wait::No).answer().release().answer();
    add(s);

    let mut s = held_by_another("a row of another machine is refused", Some(60 * SECOND));
    s.wire.shelf().here = Boot { machine: 0xdef, boot: 1 };
    s.acquire(Wait::No);
    let _ = s.perform();
    s.unavailable(true);
    add(s);

    let mut s = new("the disk would not", store());
    s.acquire(Wait::No).unavailable(false).tick_when_due();
    s.acquire(Wait::For(Span::from_micros(SECOND))).unavailable(false).tick_when_due().answer();
    s.tick_when_due().unavailable(true).tick_when_due().answer().after(20 * MS).cancel().answer();
    add(s);

    all
}
