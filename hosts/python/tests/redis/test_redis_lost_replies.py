"""A request or its reply gets lost, or arrives twice: nothing is lost by that, and nothing left behind."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import redis
from engine_help import eventually, held
from engines.proxy import Action, Fault, RedisProxy, delay, delay_reply, drop_reply, drop_request, duplicate
from redis_help import Clients, Stores, as_it_comes, single_try, warm

BROKEN = [drop_reply, drop_request, duplicate]


@pytest.fixture(params=BROKEN, ids=lambda action: action.kind)
def broken(request: pytest.FixtureRequest) -> Action:
    chosen: Action = request.param
    return chosen


@pytest.fixture(params=[single_try, as_it_comes], ids=["single_try", "retrying"])
def client(request: pytest.FixtureRequest) -> Clients:
    """Without and with retries of its own."""
    chosen: Clients = request.param
    return chosen


def fence_of(direct: redis.Redis, key: str) -> int:
    return int(direct.get(key[:-1] + "tenure:fence") or 0)


def test_acquire(
    wire: RedisProxy, client: Clients, stores: Stores, broken: Action, key: str, direct: redis.Redis
) -> None:
    store = stores(client(wire.port))
    warm(store)
    before = fence_of(direct, key)
    wire.arm(Fault(broken, contains=key))
    lease = store.acquire("a", ttl=30)
    assert held(lease) and lease.fence is not None
    # A number that got lost with its reply is never given again.
    assert before < lease.fence <= fence_of(direct, key)
    assert 0 < direct.pttl(key) <= 30_000
    lease.release()
    assert direct.exists(key) == 0
    with store.lease("a", ttl=30) as later:
        assert later.fence is not None and later.fence > lease.fence
    assert direct.exists(key) == 0


def test_acquire_without_a_fence(
    wire: RedisProxy, client: Clients, stores: Stores, broken: Action, key: str, direct: redis.Redis
) -> None:
    store = stores(client(wire.port), fence=False)
    wire.arm(Fault(broken, match="SET", contains=key))
    lease = store.acquire("a", ttl=30)
    assert held(lease) and lease.fence is None
    lease.release()
    assert direct.exists(key) == 0


def test_renew(
    wire: RedisProxy, client: Clients, stores: Stores, broken: Action, key: str, direct: redis.Redis
) -> None:
    store = stores(client(wire.port))
    warm(store)
    lease = store.acquire("a", ttl=30)
    value = direct.get(key)
    direct.pexpire(key, 20_000)
    wire.arm(Fault(broken, contains=key))
    lease.renew()
    assert held(lease) and direct.get(key) == value
    assert direct.pttl(key) > 20_000
    lease.release()
    assert direct.exists(key) == 0


def test_renew_with_another_ttl(
    wire: RedisProxy, client: Clients, stores: Stores, broken: Action, key: str, direct: redis.Redis
) -> None:
    """This changes the value, so that a lost reply leaves two to choose from."""
    store = stores(client(wire.port))
    warm(store)
    for ttl in (20, 40):
        lease = store.acquire("a", ttl=30)
        wire.arm(Fault(broken, contains=key))
        lease.renew(ttl)
        assert held(lease) and lease.remaining() <= ttl
        assert direct.pttl(key) > lease.remaining() * 1000
        lease.release()
        assert direct.exists(key) == 0


@pytest.mark.parametrize("kind", ["redis70", "valkey91"], indirect=True)
def test_regular_renewals(
    wire: RedisProxy, stores: Stores, broken: Action, key: str, direct: redis.Redis
) -> None:
    store = stores(single_try(wire.port))
    warm(store)
    with store.lease("a", ttl=0.6) as lease:
        wire.arm(Fault(broken, contains=key))
        # A ttl further on it can only be held by renewals.
        time.sleep(0.7)
        assert held(lease) and direct.exists(key) == 1
    assert direct.exists(key) == 0


def test_release(
    wire: RedisProxy, client: Clients, stores: Stores, broken: Action, key: str, direct: redis.Redis
) -> None:
    store = stores(client(wire.port))
    warm(store)
    lease = store.acquire("a", ttl=30)
    wire.arm(Fault(broken, contains=key))
    lease.release()
    assert direct.exists(key) == 0
    lease.release()
    assert not lease.lost.is_set()


def test_release_with_min_hold(
    wire: RedisProxy, client: Clients, stores: Stores, broken: Action, key: str, direct: redis.Redis
) -> None:
    store = stores(client(wire.port))
    warm(store)
    lease = store.acquire("a", ttl=30, min_hold=10)
    wire.arm(Fault(broken, contains=key))
    lease.release()
    assert 0 < direct.pttl(key) <= 10_000
    direct.delete(key)


LATE = [
    ("acquire", delay_reply),
    ("renew", delay),
    ("renew", delay_reply),
    ("release", delay),
    ("release", delay_reply),
]


@pytest.mark.parametrize("kind", ["redis70", "redis86"], indirect=True)
@pytest.mark.parametrize(("part", "late"), LATE)
def test_what_comes_after_the_client_gave_up(
    wire: RedisProxy, stores: Stores, late: Callable[[float], Action], part: str, key: str, direct: redis.Redis
) -> None:
    store = stores(single_try(wire.port, socket_timeout=0.2), call_timeout=2)
    warm(store)
    fault = Fault(late(0.6), contains=key)
    if part == "acquire":
        wire.arm(fault)
    lease = store.acquire("a", ttl=30)
    if part == "renew":
        wire.arm(fault)
        lease.renew()
    assert held(lease)
    if part == "release":
        wire.arm(fault)
    lease.release()
    # Nor when the straggler has arrived at last.
    eventually(lambda: not [entry for entry in wire.log if entry.outcome == "unanswered"])
    eventually(lambda: direct.exists(key) == 0, within=5)


def test_an_acquire_that_arrives_after_the_release(
    wire: RedisProxy, stores: Stores, key: str, direct: redis.Redis
) -> None:
    """Its second sending made the grant; the first one finds the name free again, and writes the same value."""
    store = stores(single_try(wire.port, socket_timeout=0.2), call_timeout=2)
    warm(store)
    wire.arm(Fault(delay(0.6), contains=key))
    store.acquire("a", ttl=30).release()
    eventually(lambda: not [entry for entry in wire.log if entry.outcome == "unanswered"])
    eventually(lambda: direct.exists(key) == 0, within=5)
