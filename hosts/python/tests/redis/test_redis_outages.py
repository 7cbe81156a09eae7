"""The store goes away while a lease is held: that is told in time, before anybody else can have it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
import redis
import tenure
from engine_help import PATIENCE, SLACK, Losses, eventually, held, reason
from engines.proxy import Fault, RedisProxy, hang
from engines.servers import RedisKind, redis_server
from redis_help import Clients, Stores, as_it_comes, ends_at_ms, single_try, warm

TTL = 1.0
#: A fifth of the ttl: time enough to look at a key that must not be over yet.
MARGIN = {"rate_error": 0.1}


def endless(port: int) -> redis.Redis:
    """A client that waits for ever for an answer."""
    return single_try(port, socket_timeout=None, socket_connect_timeout=None)


@pytest.mark.parametrize("kind", ["redis70", "redis86"], indirect=True)
@pytest.mark.parametrize("client", [single_try, as_it_comes, endless])
@pytest.mark.parametrize("outage", ["down", "hang"])
def test_a_loss_is_told_at_the_deadline_and_before_the_key_ends(
    wire: RedisProxy, stores: Stores, outage: str, client: Clients, key: str, direct: redis.Redis
) -> None:
    told = Losses()
    store = stores(client(wire.port), **MARGIN)
    warm(store)
    lease = store.acquire("a", ttl=TTL, on_lost=told)
    if outage == "down":
        wire.down()
    else:
        wire.arm(Fault(hang, contains=key, times=None))
    # What was under way before may have been answered still.
    time.sleep(0.05)
    over_at = time.monotonic() + lease.remaining()
    ends_at = ends_at_ms(direct, key) / 1000
    assert held(lease)
    assert reason(lease) == "unreachable"
    eventually(lambda: told.told)
    assert over_at - 0.05 <= told.at[0] <= over_at + SLACK
    # Nobody else could have acquired it before.
    assert told.wall_at[0] < ends_at
    assert lease.lost_reason == told.told[0].reason == "unreachable"
    began = time.monotonic()
    lease.release()
    assert time.monotonic() - began < SLACK
    time.sleep(0.1)
    assert len(told.told) == 1


def test_leaving_the_scope_says_that_it_was_lost(
    wire: RedisProxy, stores: Stores, key: str, direct: redis.Redis
) -> None:
    store = stores(single_try(wire.port))
    with pytest.raises(tenure.Lost) as lost, store.lease("a", ttl=0.5) as lease:
        wire.down()
        assert lease.lost.wait(PATIENCE)
    assert lost.value.reason == "unreachable" and lost.value.fence == lease.fence
    wire.up()
    with store.lease("a", ttl=0.5, wait=5) as again:
        assert held(again) and again.fence != lease.fence
    assert direct.exists(key) == 0


@pytest.mark.parametrize("kind", ["redis86"], indirect=True)
def test_an_outage_shorter_than_the_lease_is_outlasted(
    wire: RedisProxy, stores: Stores, key: str, direct: redis.Redis
) -> None:
    store = stores(single_try(wire.port))
    with store.lease("a", ttl=2) as lease:
        wire.down()
        time.sleep(1.0)
        assert held(lease)
        wire.up()
        time.sleep(1.5)
        assert held(lease) and direct.exists(key) == 1
    assert direct.exists(key) == 0


def test_a_release_that_cannot_be_sent_goes_on_in_the_background(
    wire: RedisProxy, stores: Stores, key: str, direct: redis.Redis
) -> None:
    """Issue: a failed release forgets what it was to release."""
    store = stores(single_try(wire.port), call_timeout=0.2)
    lease = store.acquire("a", ttl=600)
    wire.down()
    with pytest.raises(tenure.OutcomeUnknown) as unknown:
        lease.release()
    assert unknown.value.op == "release" and isinstance(unknown.value.cause, redis.ConnectionError)
    assert lease.remaining() == 0
    assert direct.exists(key) == 1
    wire.up()
    eventually(lambda: direct.exists(key) == 0, within=10)
    lease.release()


def test_an_acquire_that_cannot_be_sent_is_not_busy(
    wire: RedisProxy, stores: Stores, key: str, direct: redis.Redis
) -> None:
    store = stores(single_try(wire.port), call_timeout=0.2)
    wire.down()
    with pytest.raises(tenure.StoreError) as failed:
        store.acquire("a", ttl=30)
    assert isinstance(failed.value.cause, redis.ConnectionError)
    wire.up()
    with store.lease("a", ttl=30) as lease:
        assert held(lease)
    assert direct.exists(key) == 0


def test_an_acquire_may_wait_for_the_store(wire: RedisProxy, stores: Stores) -> None:
    store = stores(single_try(wire.port))
    wire.down()
    threading.Timer(0.5, wire.up).start()
    with store.lease("a", ttl=30, wait=PATIENCE) as lease:
        assert held(lease)


@pytest.mark.parametrize("freeze", [True, False], ids=["paused", "killed"])
@pytest.mark.parametrize("kind", ["redis86", "valkey91"], indirect=True)
def test_a_server_that_stops(kind: RedisKind, stores: Stores, freeze: bool) -> None:
    with redis_server(kind) as server:
        told = Losses()
        store = stores(single_try(server.port))
        lease = store.acquire("a", ttl=TTL, on_lost=told)
        stop: Callable[[], None] = server.pause if freeze else server.kill
        stop()
        time.sleep(0.05)
        over_at = time.monotonic() + lease.remaining()
        assert reason(lease) == "unreachable"
        eventually(lambda: told.told)
        assert over_at - 0.05 <= told.at[0] <= over_at + SLACK


def test_a_server_that_forgot_everything(kind: RedisKind, stores: Stores) -> None:
    with redis_server(kind) as server:
        store = stores(single_try(server.port))
        lease = store.acquire("a", ttl=30)
        server.kill()
        server.restart()
        with pytest.raises(tenure.Lost) as lost:
            lease.renew()
        assert lost.value.reason == "missing"
        with store.lease("a", ttl=30) as later:
            assert later.fence is not None and lease.fence is not None and later.fence > lease.fence
