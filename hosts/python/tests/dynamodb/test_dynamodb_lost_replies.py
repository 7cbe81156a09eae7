"""A request or its reply gets lost, or arrives twice: nothing is lost by that, and nothing left behind."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import tenure
from dynamodb_help import Clients, Rows, Stores, as_it_comes, single_try
from engine_help import eventually, held
from engines.proxy import Action, Fault, HttpProxy, delay, delay_reply, drop_reply, drop_request, duplicate
from engines.servers import Server

BROKEN = [drop_reply, drop_request, duplicate]


@pytest.fixture(params=BROKEN, ids=lambda action: action.kind)
def broken(request: pytest.FixtureRequest) -> Action:
    chosen: Action = request.param
    return chosen


@pytest.fixture(params=[single_try, as_it_comes], ids=["single_try", "retrying"])
def store(request: pytest.FixtureRequest, line: HttpProxy, stores: Stores) -> tenure.Store:
    """By a client without and with retries of its own."""
    client: Clients = request.param
    return stores(client(line.endpoint))


def test_acquire(store: tenure.Store, line: HttpProxy, broken: Action, rows: Rows, name: str) -> None:
    line.arm(Fault(broken, match="UpdateItem"))
    lease = store.acquire(name, ttl=30)
    assert held(lease) and lease.fence == rows.fence(name)
    assert rows.of(name)["resourceId"] == {"S": store.holder}
    lease.renew()
    assert lease.fence == rows.fence(name)
    lease.release()
    assert rows.free(name)
    with store.lease(name, ttl=30) as later:
        assert later.fence == rows.fence(name) == (lease.fence or 0) + 1
    assert rows.free(name)


def test_acquire_of_a_name_that_was_used(
    store: tenure.Store, line: HttpProxy, broken: Action, rows: Rows, name: str
) -> None:
    with store.lease(name, ttl=30) as before:
        pass
    line.arm(Fault(broken, match="UpdateItem"))
    with store.lease(name, ttl=30) as lease:
        assert lease.fence == rows.fence(name) > (before.fence or 0)
    assert rows.free(name)


def test_takeover(
    server: Server,
    stores: Stores,
    store: tenure.Store,
    line: HttpProxy,
    broken: Action,
    rows: Rows,
    name: str,
) -> None:
    rows.left_dead(stores(single_try(server.endpoint)), name, ttl=0.4)
    dead = rows.fence(name)
    line.arm(Fault(broken, match="UpdateItem", contains='"#r = :r0'))
    lease = store.acquire(name, ttl=30, wait=60)
    assert [entry.outcome for entry in line.log].count(broken.kind) == 1
    assert held(lease) and lease.fence == rows.fence(name) == dead + 1
    lease.renew()
    lease.release()
    assert rows.free(name)


def test_renew(store: tenure.Store, line: HttpProxy, broken: Action, rows: Rows, name: str) -> None:
    lease = store.acquire(name, ttl=30)
    line.arm(Fault(broken, match="UpdateItem"))
    lease.renew()
    assert held(lease) and rows.of(name)["resourceId"] == {"S": store.holder}
    assert lease.fence == rows.fence(name)
    lease.renew(20)
    assert held(lease) and rows.of(name)["leaseDuration"] == {"N": "20000"}
    lease.release()
    assert rows.free(name)


def test_renew_again_and_again(store: tenure.Store, line: HttpProxy, rows: Rows, name: str) -> None:
    """Every other answer is lost: each leaves a version that may stand in the row."""
    lease = store.acquire(name, ttl=30)
    for number in range(12):
        if number % 2:
            line.arm(Fault(drop_reply, match="UpdateItem"))
        lease.renew()
        assert held(lease)
    lease.release()
    assert rows.free(name)


def test_release(store: tenure.Store, line: HttpProxy, broken: Action, rows: Rows, name: str) -> None:
    lease = store.acquire(name, ttl=30)
    line.arm(Fault(broken, match="UpdateItem"))
    lease.release()
    assert rows.free(name) and rows.fence(name) == lease.fence
    lease.release()
    assert not lease.lost.is_set()


def test_release_with_min_hold(
    store: tenure.Store, line: HttpProxy, broken: Action, rows: Rows, name: str
) -> None:
    lease = store.acquire(name, ttl=30, min_hold=60)
    line.arm(Fault(broken, match="UpdateItem"))
    lease.release()
    assert rows.free(name) and "notBefore" in rows.of(name)


def test_regular_renewals(
    line: HttpProxy, stores: Stores, broken: Action, rows: Rows, name: str
) -> None:
    store = stores(single_try(line.endpoint))
    with store.lease(name, ttl=0.9) as lease:
        line.arm(Fault(broken, match="UpdateItem"))
        # A ttl further on it can only be held by renewals.
        time.sleep(1.0)
        assert held(lease) and rows.of(name)["resourceId"] == {"S": store.holder}
    assert rows.free(name)


@pytest.mark.parametrize("late", [delay, delay_reply])
@pytest.mark.parametrize("part", ["acquire", "renew", "release"])
def test_what_comes_after_the_client_gave_up(
    line: HttpProxy, stores: Stores, late: Callable[[float], Action], part: str, rows: Rows, name: str
) -> None:
    store = stores(single_try(line.endpoint, read_timeout=0.3), call_timeout=3, poll_interval=0.1)
    fault = Fault(late(0.8), match="UpdateItem")
    if part == "acquire":
        line.arm(fault)
    lease = store.acquire(name, ttl=30)
    if part == "renew":
        line.arm(fault)
        lease.renew()
    assert held(lease) and lease.fence == rows.fence(name)
    if part == "release":
        line.arm(fault)
    lease.release()
    # Nor when the straggler has arrived at last.
    eventually(lambda: not [entry for entry in line.log if entry.outcome == "unanswered"])
    eventually(lambda: rows.free(name), within=10)


def test_a_straggler_does_not_raise_the_fence_behind_its_holder(
    line: HttpProxy, stores: Stores, rows: Rows, name: str
) -> None:
    store = stores(single_try(line.endpoint, read_timeout=0.3), call_timeout=3)
    line.arm(Fault(delay(0.8), match="UpdateItem"))
    with store.lease(name, ttl=30) as lease:
        row = rows.of(name)
        eventually(lambda: line.count("UpdateItem", "delay"))
        assert rows.of(name) == row and lease.fence == rows.fence(name)


def test_issue_single_server_loses_its_own_lock_randomly(
    line: HttpProxy, stores: Stores, rows: Rows, name: str
) -> None:
    store = stores(single_try(line.endpoint), renew_interval=0.01)
    with store.lease(name, ttl=5) as lease:
        for _ in range(30):
            line.arm(Fault(drop_reply, match="UpdateItem"))
            seen = len(line.log)
            eventually(lambda: len(line.log) > seen + 1)
        assert held(lease) and line.count("UpdateItem", "drop_reply") >= 25
    assert rows.free(name)
