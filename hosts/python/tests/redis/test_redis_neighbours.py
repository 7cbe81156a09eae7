"""Other locks on the same key: each excludes the other, and nobody touches what is not his."""

from __future__ import annotations

import time

import pytest
import redis
import tenure
from engine_help import Losses, eventually, held, reason
from engines.servers import Server
from redis.exceptions import LockError
from redis_help import Stores, ends_at_ms, single_try


@pytest.fixture
def store(server: Server, stores: Stores) -> tenure.Store:
    return stores(single_try(server.port))


def test_redis_py_lock_excludes_us(store: tenure.Store, key: str, direct: redis.Redis) -> None:
    theirs = direct.lock(key, timeout=60)
    assert theirs.acquire(blocking=False)
    with pytest.raises(tenure.Busy) as busy:
        store.acquire("a", ttl=30)
    assert busy.value.holder is not None and busy.value.holder.encode() == direct.get(key)
    assert busy.value.because == "held" and busy.value.fence is None
    assert busy.value.retry_after is not None and 50 < busy.value.retry_after <= 60
    theirs.release()
    with store.lease("a", ttl=30) as lease:
        assert held(lease)


def test_we_exclude_redis_py_lock(store: tenure.Store, key: str, direct: redis.Redis) -> None:
    theirs = direct.lock(key, timeout=60)
    with store.lease("a", ttl=30) as lease:
        assert not theirs.acquire(blocking=False)
        value = direct.get(key)
        with pytest.raises(LockError):
            direct.lock(key, timeout=60).release()
        assert direct.get(key) == value and held(lease)
    assert theirs.acquire(blocking=False)
    theirs.release()


def test_a_lock_by_hand_excludes_us_until_it_ends(
    store: tenure.Store, key: str, direct: redis.Redis
) -> None:
    assert direct.set(key, "by-hand", nx=True, px=500)
    ends_at = ends_at_ms(direct, key) / 1000
    with pytest.raises(tenure.Busy) as busy:
        store.acquire("a", ttl=30)
    assert busy.value.holder == "by-hand"
    with store.lease("a", ttl=30, wait=10):
        assert time.time() >= ends_at - 0.002
        assert direct.set(key, "by-hand", nx=True, px=500) is None


def test_a_lock_that_never_ends_is_never_taken(
    store: tenure.Store, key: str, direct: redis.Redis
) -> None:
    direct.set(key, "for ever", nx=True)
    with pytest.raises(tenure.Busy) as busy:
        store.acquire("a", ttl=1, wait=0.5)
    assert busy.value.holder == "for ever" and busy.value.retry_after is None
    assert direct.get(key) == b"for ever" and direct.pttl(key) == -1


@pytest.mark.parametrize("value", [b"theirs", b"\xff\x00binary", b"", b"x" * 100_000])
def test_a_key_that_was_replaced_is_lost_and_left_alone(
    store: tenure.Store, key: str, direct: redis.Redis, value: bytes
) -> None:
    told = Losses()
    lease = store.acquire("a", ttl=1, on_lost=told)
    direct.set(key, value, px=60_000)
    assert reason(lease) == "taken"
    lease.release()
    eventually(lambda: told.told)
    assert direct.get(key) == value and direct.pttl(key) > 30_000
    assert [lost.reason for lost in told.told] == ["taken"]


def test_release_leaves_what_replaced_it(store: tenure.Store, key: str, direct: redis.Redis) -> None:
    lease = store.acquire("a", ttl=30)
    direct.set(key, "theirs", px=60_000)
    lease.release()
    assert direct.get(key) == b"theirs" and direct.pttl(key) > 30_000


def test_renew_leaves_what_replaced_it(store: tenure.Store, key: str, direct: redis.Redis) -> None:
    lease = store.acquire("a", ttl=30)
    direct.set(key, "theirs", px=60_000)
    with pytest.raises(tenure.Lost) as lost:
        lease.renew()
    assert lost.value.reason == "taken"
    assert direct.get(key) == b"theirs" and direct.pttl(key) > 30_000


def test_a_value_that_only_begins_like_ours_is_not_ours(
    store: tenure.Store, key: str, direct: redis.Redis
) -> None:
    lease = store.acquire("a", ttl=30)
    mine = direct.get(key)
    assert isinstance(mine, bytes)
    direct.set(key, mine + b"0", px=60_000)
    lease.release()
    assert direct.get(key) == mine + b"0"


def test_two_of_us(server: Server, stores: Stores, key: str, direct: redis.Redis) -> None:
    first, second = stores(single_try(server.port)), stores(single_try(server.port))
    with first.lease("a", ttl=30) as lease:
        with pytest.raises(tenure.Busy) as busy:
            second.acquire("a", ttl=30)
        assert busy.value.holder == first.holder
        assert second.try_acquire("a", ttl=30) is None
        assert direct.get(key) and held(lease)
    with second.lease("a", ttl=30) as later:
        assert later.fence is not None and lease.fence is not None and later.fence > lease.fence
