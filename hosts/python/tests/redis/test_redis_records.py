"""Keys that are gone, or hold something else."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis
import tenure
from engine_help import Losses, eventually, held, reason
from engines.servers import Server
from redis_help import Stores, single_try

#: How redis-py can be told to show replies.
SHOWN: list[dict[str, Any]] = [
    {"decode_responses": decode, "protocol": protocol} for decode in (False, True) for protocol in (2, 3)
]


@pytest.fixture
def store(server: Server, stores: Stores) -> tenure.Store:
    return stores(single_try(server.port))


def test_issue_renewal_thread_dies_silently(
    store: tenure.Store, key: str, direct: redis.Redis
) -> None:
    told = Losses()
    lease = store.acquire("a", ttl=30, on_lost=told)
    lease.renew(3)
    direct.delete(key)
    deleted_at = time.monotonic()
    assert reason(lease) == "missing"
    # By the next renewal, and not by the deadline.
    assert time.monotonic() - deleted_at < 1.0 + 1.0
    eventually(lambda: told.told)
    assert direct.exists(key) == 0


def test_a_key_of_another_type_is_an_error(
    store: tenure.Store, key: str, direct: redis.Redis
) -> None:
    direct.hset(key, "field", "1")
    with pytest.raises(tenure.StoreError) as refused:
        store.acquire("a", ttl=1, wait=1)
    assert "something else" in refused.value.hint and not isinstance(refused.value, tenure.OutcomeUnknown)
    assert direct.hgetall(key) == {b"field": b"1"} and direct.pttl(key) == -1


def test_a_key_that_becomes_another_type_is_no_longer_held(
    store: tenure.Store, key: str, direct: redis.Redis
) -> None:
    lease = store.acquire("a", ttl=0.5)
    direct.delete(key)
    direct.rpush(key, "theirs")
    reason(lease)
    lease.release()
    assert direct.lrange(key, 0, -1) == [b"theirs"] and direct.pttl(key) == -1


@pytest.mark.parametrize("shown", SHOWN, ids=str)
def test_however_the_client_shows_replies(
    server: Server, stores: Stores, key: str, direct: redis.Redis, shown: dict[str, Any]
) -> None:
    for fence in (True, False):
        store = stores(single_try(server.port, **shown), fence=fence)
        with store.lease("a", ttl=30) as lease:
            assert held(lease) and (lease.fence is not None) == fence
            lease.renew()
            lease.renew(20)
            with pytest.raises(tenure.Busy):
                store.acquire("a", ttl=30)
            assert store.status("a").holder == store.holder
            assert [status.name for status in store.list()] == ["a"]
        assert direct.exists(key) == 0
        # Whatever stands there is in the way, even if it is no text.
        direct.set(key, b"\xff\xfe\x00theirs", px=60_000)
        with pytest.raises(tenure.Busy) as busy:
            store.acquire("a", ttl=30)
        assert busy.value.holder is not None and busy.value.holder.endswith("theirs")
        assert store.status("a").foreign
        lost = store.try_acquire("a", ttl=30)
        assert lost is None
        direct.delete(key)


@pytest.mark.parametrize("shown", SHOWN, ids=str)
def test_a_binary_value_under_a_lease(
    server: Server, stores: Stores, key: str, direct: redis.Redis, shown: dict[str, Any]
) -> None:
    for fence in (True, False):
        lease = stores(single_try(server.port, **shown), fence=fence).acquire("a", ttl=30)
        direct.set(key, b"\xff\xfe", px=60_000)
        with pytest.raises(tenure.Lost) as lost:
            lease.renew()
        assert lost.value.reason == "taken"
        direct.delete(key)


def test_fences_grow_over_a_counter_that_was_lost(
    store: tenure.Store, key: str, direct: redis.Redis
) -> None:
    fences = []
    for _ in range(3):
        with store.lease("a", ttl=30) as lease:
            fences.append(lease.fence or 0)
        # As FLUSHALL does, without hitting other tests.
        direct.delete(key, key[:-1] + "tenure:fence")
    assert 0 < fences[0] < fences[1] < fences[2]


def test_fences_grow_over_a_counter_that_is_ahead_of_the_clock(
    store: tenure.Store, key: str, direct: redis.Redis
) -> None:
    ahead = 2**62
    direct.set(key[:-1] + "tenure:fence", ahead)
    for number in (1, 2):
        with store.lease("a", ttl=30) as lease:
            assert lease.fence == ahead + number


def test_a_counter_that_is_none_is_an_error_and_no_lease(
    store: tenure.Store, key: str, direct: redis.Redis
) -> None:
    direct.set(key[:-1] + "tenure:fence", "abc")
    with pytest.raises(tenure.StoreError):
        store.acquire("a", ttl=30)
    assert direct.exists(key) == 0


def test_another_database_is_another_place(
    server: Server, stores: Stores, key: str, direct: redis.Redis
) -> None:
    with stores(single_try(server.port, db=3)).lease("a", ttl=30) as lease:
        assert held(lease) and direct.exists(key) == 0
        with stores(single_try(server.port)).lease("a", ttl=30):
            pass
        assert held(lease)


def test_odd_names(store: tenure.Store, direct: redis.Redis, key: str) -> None:
    for odd in ("a}b", "{}foo", "x{", "a b", 'quo"te', "ümlaut ☃", "*", "a\nb", "tenure:fences"):
        try:
            lease = store.acquire(odd, ttl=30)
        except tenure.ConfigError:
            continue
        assert direct.exists(key[:-1] + odd) == 1
        lease.renew()
        lease.release()
        assert direct.exists(key[:-1] + odd) == 0
    with pytest.raises(tenure.ConfigError):
        store.acquire("tenure:fence", ttl=30)
