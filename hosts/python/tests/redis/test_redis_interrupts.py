"""Ctrl-C while the answer is awaited: nothing of ours stays behind, whatever arrived."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
import redis
import tenure
from engine_help import PATIENCE, eventually, interrupted
from engines.proxy import Action, Fault, RedisProxy, delay, delay_reply
from redis_help import Stores, single_try, warm

# With a script for everything, and with one for the acquire only.
pytestmark = pytest.mark.parametrize("kind", ["redis70", "valkey91"], indirect=True)

#: A client may forget the answer, or find the request still under way.
SLOW = [delay_reply(0.5), delay(0.5)]


@pytest.fixture(params=SLOW, ids=lambda action: action.kind)
def slow(request: pytest.FixtureRequest) -> Action:
    chosen: Action = request.param
    return chosen


@pytest.fixture
def store(wire: RedisProxy, stores: Stores) -> tenure.Store:
    store = stores(single_try(wire.port, socket_timeout=20), call_timeout=5)
    warm(store)
    return store


def arrived(wire: RedisProxy) -> bool:
    return any(entry.outcome == "unanswered" for entry in wire.log)


def settled(wire: RedisProxy) -> None:
    eventually(lambda: not arrived(wire))


def test_issue_cancelled_acquire_leaves_an_orphan(
    store: tenure.Store, wire: RedisProxy, slow: Action, key: str, direct: redis.Redis
) -> None:
    wire.arm(Fault(slow, contains=key))
    with interrupted(lambda: arrived(wire)):
        store.acquire("a", ttl=600)
    settled(wire)
    eventually(lambda: direct.exists(key) == 0, within=10)
    # Not only for a moment, before a straggler.
    with store.lease("a", ttl=600):
        pass
    assert direct.exists(key) == 0


def test_a_cancelled_wait_leaves_nothing(
    store: tenure.Store, wire: RedisProxy, key: str, direct: redis.Redis
) -> None:
    direct.set(key, "theirs", px=600_000)
    before = wire.count("EVALSHA")
    with interrupted(lambda: wire.count("EVALSHA") > before + 2):
        store.acquire("a", ttl=600, wait="forever")
    assert direct.get(key) == b"theirs"
    direct.delete(key)
    settled(wire)
    assert direct.exists(key) == 0


def test_issue_cancelled_release_leaves_an_orphan(
    store: tenure.Store, wire: RedisProxy, slow: Action, key: str, direct: redis.Redis
) -> None:
    lease = store.acquire("a", ttl=600)
    wire.arm(Fault(slow, contains=key))
    with interrupted(lambda: arrived(wire)):
        lease.release()
    assert lease.remaining() == 0
    eventually(lambda: direct.exists(key) == 0, within=10)
    lease.release()


def test_issue_cancelled_release_whose_request_got_lost(
    store: tenure.Store, wire: RedisProxy, key: str, direct: redis.Redis
) -> None:
    lease = store.acquire("a", ttl=600)
    wire.arm(Fault(delay(600), contains=key))
    with interrupted(lambda: arrived(wire)):
        lease.release()
    lease.release()
    eventually(lambda: direct.exists(key) == 0, within=10)


def test_a_cancelled_renewal_costs_nothing(
    store: tenure.Store, wire: RedisProxy, slow: Action, key: str, direct: redis.Redis
) -> None:
    lease = store.acquire("a", ttl=600)
    wire.arm(Fault(slow, contains=key))
    with interrupted(lambda: arrived(wire)):
        lease.renew()
    lease.renew()
    lease.check()
    settled(wire)
    assert direct.exists(key) == 1 and not lease.lost.is_set()
    lease.release()
    assert direct.exists(key) == 0


def test_a_body_that_is_interrupted_releases(
    store: tenure.Store, key: str, direct: redis.Redis
) -> None:
    with interrupted(lambda: direct.exists(key)), store.lease("a", ttl=600):
        time.sleep(PATIENCE)
    assert direct.exists(key) == 0


ACQUIRES = """
import signal, sys, redis, tenure
signal.signal(signal.SIGINT, signal.default_int_handler)
client = redis.Redis(port=int(sys.argv[1]), socket_timeout=20)
tenure.redis(client, prefix=sys.argv[2]).acquire("a", ttl=600)
"""


def test_a_process_that_is_interrupted_undoes_before_it_ends(
    wire: RedisProxy, key: str, direct: redis.Redis
) -> None:
    wire.arm(Fault(delay_reply(60), contains=key))
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", ACQUIRES, str(wire.port), key[:-1]],
        stderr=subprocess.PIPE,
    ) as process:
        try:
            eventually(lambda: direct.exists(key))
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
        finally:
            process.kill()
    assert b"KeyboardInterrupt" in said
    assert direct.exists(key) == 0
