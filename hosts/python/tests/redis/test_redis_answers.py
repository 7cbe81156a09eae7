"""Answers that say neither yes nor no: a renewal goes on, an acquire says that it could not be done."""

from __future__ import annotations

import time

import pytest
import redis
import tenure
from engine_help import eventually, held
from engines.proxy import Fault, RedisProxy, answer
from engines.servers import RedisKind, redis_server
from redis_help import Stores, single_try, warm

PASSING = {
    "busy": b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
    "loading": b"-LOADING Redis is loading the dataset in memory\r\n",
    "masterdown": b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
    "oom": b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "readonly": b"-READONLY You can't write against a read only replica.\r\n",
    "tryagain": b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
}


@pytest.fixture(params=PASSING)
def reply(request: pytest.FixtureRequest) -> bytes:
    return PASSING[request.param]


def test_issue_watchdog_stops_for_good_after_one_error(
    wire: RedisProxy, stores: Stores, key: str, direct: redis.Redis
) -> None:
    store = stores(single_try(wire.port))
    warm(store)
    with store.lease("a", ttl=1) as lease:
        for told, reply in enumerate(PASSING.values(), 1):
            wire.arm(Fault(answer(reply), contains=key))
            eventually(lambda: sum(e.outcome == "answer" for e in wire.log) == told)
            direct.pexpire(key, 700)
            # The one after it came through.
            eventually(lambda: direct.pttl(key) > 700)
            assert held(lease)
    assert direct.exists(key) == 0


def test_an_acquire_that_is_answered_so_fails_and_is_not_busy(
    wire: RedisProxy, stores: Stores, reply: bytes, key: str, direct: redis.Redis
) -> None:
    store = stores(single_try(wire.port))
    warm(store)
    wire.arm(Fault(answer(reply), contains=key, times=None))
    with pytest.raises(tenure.StoreError) as failed:
        store.acquire("a", ttl=30)
    assert not isinstance(failed.value, tenure.OutcomeUnknown)
    assert isinstance(failed.value.cause, redis.RedisError)
    wire.disarm()
    assert direct.exists(key) == 0
    with store.lease("a", ttl=30) as lease:
        assert held(lease)


def test_an_acquire_that_may_wait_outlasts_it(
    wire: RedisProxy, stores: Stores, reply: bytes, key: str
) -> None:
    store = stores(single_try(wire.port))
    warm(store)
    wire.arm(Fault(answer(reply), contains=key, times=3))
    with store.lease("a", ttl=30, wait=20) as lease:
        assert held(lease)


def test_a_release_outlasts_it(
    wire: RedisProxy, stores: Stores, reply: bytes, key: str, direct: redis.Redis
) -> None:
    store = stores(single_try(wire.port))
    warm(store)
    lease = store.acquire("a", ttl=30)
    wire.arm(Fault(answer(reply), contains=key, times=3))
    lease.release()
    assert direct.exists(key) == 0


def test_a_forgotten_script_costs_nothing(
    wire: RedisProxy, stores: Stores, key: str, direct: redis.Redis
) -> None:
    store = stores(single_try(wire.port))
    warm(store)
    direct.script_flush()
    lease = store.acquire("a", ttl=30)
    for _ in range(2):
        direct.script_flush()
        lease.renew()
        assert held(lease)
    direct.script_flush()
    lease.release()
    assert direct.exists(key) == 0


def test_scripts_forgotten_between_regular_renewals(
    wire: RedisProxy, stores: Stores, direct: redis.Redis, key: str
) -> None:
    store = stores(single_try(wire.port))
    with store.lease("a", ttl=0.6) as lease:
        for _ in range(9):
            direct.script_flush()
            time.sleep(0.1)
        assert held(lease)
    assert direct.exists(key) == 0


def test_a_full_server_still_renews_and_releases(kind: RedisKind, stores: Stores) -> None:
    with redis_server(kind, "--maxmemory-policy", "noeviction") as server:
        direct = single_try(server.port)
        store = stores(single_try(server.port), prefix="")
        warm(store)
        lease = store.acquire("a", ttl=0.6)
        direct.config_set("maxmemory", "1")
        with pytest.raises(redis.ResponseError):
            direct.set("more", "x")
        time.sleep(0.9)
        assert held(lease)
        lease.renew()
        with pytest.raises(tenure.StoreError) as full:
            store.acquire("b", ttl=30)
        assert not isinstance(full.value, tenure.OutcomeUnknown)
        lease.release()
        assert direct.exists("a", "b") == 0
        direct.config_set("maxmemory", "0")
        with store.lease("b", ttl=30) as other:
            assert held(other)


@pytest.mark.parametrize("kind", ["redis86"], indirect=True)
def test_an_answer_to_something_else_is_not_believed(
    wire: RedisProxy, stores: Stores, key: str, direct: redis.Redis
) -> None:
    store = stores(single_try(wire.port))
    warm(store)
    wire.arm(Fault(answer(b":7\r\n"), contains=key))
    lease = store.acquire("a", ttl=30)
    assert held(lease) and direct.exists(key) == 1
    lease.release()
    assert direct.exists(key) == 0
