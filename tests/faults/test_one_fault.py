"""One fault at a time, at the instant at which it hurts the most, on real engines.

Safety is asserted by what the guarded row and the histories say, without any tolerance. Where a test waits, it
waits for what must come to pass, and is late only on a machine that is.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from engines.proxy import Fault, drop_request

from .chaos import TTL, takeover_bound
from .clocks import Skew, true_us
from .engine import Engine, durable
from .fleet import Fleet, Process, eventually
from .history import Bounds, Violation, violations

NAME = "job"
FOREVER = 3600.0
"""Longer than any test: a worker goes on with what it holds."""


@pytest.fixture(scope="module", params=["redis86", "dynamodb"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with durable(request.param) as opened:
        yield opened


@pytest.fixture
def fleet(engine: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    with Fleet(engine, tmp_path, [f"{NAME}-{request.node.originalname}"], TTL) as opened:
        yield opened


def ended(fleet: Fleet) -> list[Violation]:
    """Ends the run, and what was wrong with it."""
    fleet.note("ended")
    fleet.end()
    if not fleet.lines("healed"):
        fleet.note("healed")
    history, rows = fleet.read()
    bound_us = int(takeover_bound(fleet.engine) * 1e6)
    return violations(history, rows, [], Bounds(bound_us, bound_us))


def holding(fleet: Fleet, worker: Process, after_us: int = 0) -> int:
    """Waits until it has had something written; its fence."""
    found = eventually(
        lambda: [line for line in fleet.lines("acked", by=worker.by) if line["at"] > after_us],
        otherwise=f"{worker.by} does not work\n{fleet.logs()}",
    )
    return int(found[-1]["fence"])


def stopped_before_acting(fleet: Fleet, worker: Process) -> int:
    """Waits until it has stopped itself there; its fence."""
    fence = fleet.wait_for("acting", by=worker.by)["fence"]
    eventually(lambda: worker.state() == "T")
    return int(fence)


def the_stale_write(fleet: Fleet, *, sealed: bool = True, fenced: bool = True) -> tuple[Process, Process]:
    """One worker stops between its check and its write for longer than its ttl. Another one takes over and reads;
    before that one has written, the first goes on."""
    stale = fleet.start(hold=FOREVER, stops=True, fenced=fenced)
    old = stopped_before_acting(fleet, stale)
    fresh = fleet.start(hold=FOREVER, stops=True, sealed=sealed, fenced=fenced)
    assert stopped_before_acting(fleet, fresh) > old
    fleet.resume(stale)
    fleet.wait_for("acked", "refused", by=stale.by)
    fleet.resume(fresh)
    fleet.wait_for("acked", "refused", by=fresh.by)
    return stale, fresh


# --- a holder that stops --------------------------------------------------------------------------------------


def test_a_stale_write_is_refused_and_its_sender_hears_that_it_lost(fleet: Fleet) -> None:
    stale, fresh = the_stale_write(fleet)
    [act, *_] = fleet.lines("acting", by=stale.by)
    [refused, *_] = fleet.lines("refused", by=stale.by)
    assert refused["element"] == act["element"]
    # Nobody had to tell it: it asked, and its own clock had gone on.
    lost = fleet.wait_for("lost", by=stale.by, fence=act["fence"])
    assert lost["reason"] in ("paused", "expired", "taken", "unreachable")
    late = [line for line in fleet.lines("held", by=stale.by, fence=act["fence"]) if line["at"] > act["at"]]
    assert late == []
    assert ended(fleet) == []


def test_a_short_stop_costs_nothing(fleet: Fleet) -> None:
    worker = fleet.start(hold=FOREVER)
    fence = holding(fleet, worker)
    fleet.start(hold=FOREVER)
    fleet.stop(worker)
    # Far from the deadline, which is at least two thirds of a ttl away when a renewal is due.
    eventually(lambda: worker.state() == "T")
    fleet.resume(worker)
    assert holding(fleet, worker, after_us=true_us()) == fence
    assert ended(fleet) == []


# --- a holder that dies ---------------------------------------------------------------------------------------


def test_a_dead_holders_lease_is_taken_within_the_bound(fleet: Fleet) -> None:
    dead = fleet.start(hold=FOREVER)
    fence = holding(fleet, dead)
    heir = fleet.start(hold=FOREVER)
    fleet.wait_for("asked", by=heir.by)
    fleet.kill(dead)
    killed_us = true_us()
    granted = fleet.wait_for("granted", by=heir.by)
    assert granted["fence"] > fence
    assert granted["at"] - killed_us <= takeover_bound(fleet.engine) * 1e6
    assert ended(fleet) == []


# --- requests that are lost ---------------------------------------------------------------------------------------


def test_a_confirmed_release_leaves_nothing_of_any_attempt(engine: Engine, tmp_path: Path) -> None:
    name = "twice-lost"
    write = "EVALSHA" if engine.protocol == "redis" else "UpdateItem"
    look = engine.store()
    held = look.acquire(name, 30)
    with engine.proxy() as proxy, engine.store(proxy.port) as store, ThreadPoolExecutor() as beside:
        store.acquire("warm", 30).release()
        # The first attempt is lost, for all that its sender knows not, and its repetition is refused.
        proxy.arm(Fault(drop_request, match=write, contains=name))
        acquiring = beside.submit(store.acquire, name, 30, wait=20)
        eventually(lambda: "drop_request,passed" in ",".join(e.outcome for e in proxy.log if e.operation == write))
        # And so is the next one, whose repetition is granted: what is to be released is not all that was sent.
        proxy.arm(Fault(drop_request, match=write, contains=name))
        held.release()
        acquiring.result().release()
        assert proxy.count(write, "drop_request") == 2
        assert not look.status(name).held
    look.close()


# --- an engine that dies --------------------------------------------------------------------------------------


def test_while_the_engine_is_gone_nothing_is_free_and_the_holder_hears_of_its_loss_in_time(fleet: Fleet) -> None:
    holder = fleet.start(hold=FOREVER, idle=True)
    fence = fleet.wait_for("granted", by=holder.by)["fence"]
    other = fleet.start(hold=FOREVER)
    fleet.wait_for("busy", by=other.by)
    fleet.engine.server.kill()
    killed_us = true_us()
    try:
        lost = fleet.wait_for("lost", by=holder.by, fence=fence)
        proofs = fleet.lines("granted", "held", by=holder.by, fence=fence)
        deadline_us = max(line["until"] for line in proofs)
        # Whatever it was told last, it never believes for longer than a ttl without the store.
        assert deadline_us <= killed_us + TTL * 1e6
        # It asks every few hundredths of a second, where the machine lets it.
        assert lost["at"] <= deadline_us + 1e6
        # And then it is no more free for anybody than before.
        for worker in (holder, other):
            eventually(lambda: [e for e in fleet.lines("error", by=worker.by) if e["at"] > deadline_us])
        assert [line for line in fleet.lines("granted") if line["at"] > killed_us] == []
    finally:
        fleet.engine.server.restart()
    # And it is taken again, by one of them, once there is a store.
    again = eventually(lambda: [line for line in fleet.lines("granted") if line["at"] > killed_us])
    assert again[0]["fence"] > fence
    assert ended(fleet) == []


def test_an_engine_that_comes_back_with_its_data_in_time_ends_no_lease(fleet: Fleet) -> None:
    # It only holds: a write that the crash made unknown would end it.
    holder = fleet.start(hold=FOREVER, idle=True)
    fence = fleet.wait_for("granted", by=holder.by)["fence"]
    for _ in range(3):
        fleet.engine.server.kill()
        fleet.engine.server.restart()
        restarted_us = true_us()
        # Beyond what it was told before the crash.
        eventually(lambda: [e for e in fleet.lines("held", fence=fence) if e["until"] > restarted_us + TTL * 1e6])
    assert fleet.lines("lost", "releasing") == []
    assert ended(fleet) == []


# --- what must be found ---------------------------------------------------------------------------------------


def test_without_the_seal_the_checker_finds_a_lost_write(fleet: Fleet) -> None:
    the_stale_write(fleet, sealed=False)
    assert {violation.rule for violation in ended(fleet)} == {4}


def test_without_the_fence_the_checker_finds_a_stale_write(fleet: Fleet) -> None:
    stale = fleet.start(hold=FOREVER, stops=True, fenced=False)
    stopped_before_acting(fleet, stale)
    fresh = fleet.start(hold=FOREVER, fenced=False)
    holding(fleet, fresh)
    fleet.resume(stale)
    stale_us = fleet.wait_for("acked", by=stale.by)["at"]
    holding(fleet, fresh, after_us=stale_us)
    assert {violation.rule for violation in ended(fleet)} == {1, 4}


def test_a_clock_beyond_the_declared_error_is_found_to_break_exclusion(fleet: Fleet) -> None:
    # A third of the true pace: it renews too late, and believes for three ttls.
    slow = replace(Skew(), rate_ppm=-700_000)
    cheat = fleet.start(hold=FOREVER, skew=slow)
    fleet.wait_for("granted", by=cheat.by)
    honest = fleet.start(hold=FOREVER)
    fleet.wait_for("granted", by=honest.by)
    # Two believe at once, unless its renewal is refused first: then it lost what by its own clock was its own.
    assert {3, 7} & {violation.rule for violation in ended(fleet)}
