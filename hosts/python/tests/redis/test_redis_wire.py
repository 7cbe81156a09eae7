"""What a lease sends: no more than it needs, and nothing that could hit another's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
import tenure
from engines.servers import RedisKind, Server
from redis_help import Stores, single_try, warm

Words = list[str]


class Seen:
    """What the server carried out, as MONITOR shows it."""

    def __init__(self) -> None:
        #: Sent by a client.
        self.sent: list[Words] = []
        #: Carried out by a script.
        self.scripted: list[Words] = []


@contextmanager
def monitored(server: Server) -> Iterator[Seen]:
    seen = Seen()
    marker = redis.Redis(port=server.port)
    marker.ping()
    with redis.Redis(port=server.port).monitor() as monitor:  # type: ignore[no-untyped-call]
        yield seen
        marker.echo("the-end")
        while (event := monitor.next_command())["command"] != "ECHO the-end":
            words = event["command"].split()
            (seen.scripted if event["client_type"] == "lua" else seen.sent).append(words)


@pytest.fixture
def do(server: Server, stores: Stores) -> Callable[..., Seen]:
    """Carries out one thing with a store that knows the server, and shows what was sent for it."""

    def run(act: Callable[[tenure.Store], Any], **options: Any) -> Seen:
        store = stores(single_try(server.port), **options)
        warm(store)
        with monitored(server) as seen:
            act(store)
        return seen

    return run


def test_acquire_is_one_command(do: Callable[..., Seen], key: str) -> None:
    seen = do(lambda store: store.acquire("a", ttl=30))
    [command] = seen.sent
    assert command[0] == "EVALSHA" and command[2:5] == ["2", key, key[:-1] + "tenure:fence"]
    assert command[6:] == ["30000"]
    # Whatever a script writes has an end too.
    assert ["SET", key, command[5], "PX", "30000"] in seen.scripted
    assert not [words for words in seen.scripted if words[0] == "DEL"]


def test_acquire_without_a_fence_is_one_plain_set(do: Callable[..., Seen], key: str) -> None:
    [command] = do(lambda store: store.acquire("a", ttl=30), fence=False).sent
    assert command[:2] == ["SET", key] and command[3:] == ["NX", "PX", "30000"]


def test_a_refused_try_is_one_command(
    do: Callable[..., Seen], key: str, direct: redis.Redis
) -> None:
    direct.set(key, "theirs", px=60_000)

    def refused(store: tenure.Store) -> None:
        with pytest.raises(tenure.Busy):
            store.acquire("a", ttl=30)

    seen = do(refused)
    assert [words[0] for words in seen.sent] == ["EVALSHA"]
    assert [words[0] for words in seen.scripted] == ["GET", "PTTL"]


def test_release_is_one_conditional_command(
    do: Callable[..., Seen], key: str, kind: RedisKind
) -> None:
    acquire, release = do(lambda store: store.acquire("a", ttl=30).release()).sent
    value = acquire[5]
    if kind == "redis70":
        assert release[0] == "EVALSHA" and release[2:] == ["1", key, value]
    elif kind == "redis86":
        assert release == ["DELEX", key, "IFEQ", value]
    else:
        assert release == ["DELIFEQ", key, value]


def test_renew_is_one_conditional_command(
    do: Callable[..., Seen], key: str, kind: RedisKind
) -> None:
    seen = do(lambda store: store.acquire("a", ttl=30).renew())
    acquire, renew = seen.sent
    value = acquire[5]
    if kind == "redis70":
        assert renew[0] == "EVALSHA" and renew[2:] == ["1", key, value, value, "30000"]
        # Not SET, which a full server refuses.
        assert seen.scripted[-2:] == [["GET", key], ["PEXPIRE", key, "30000"]]
    else:
        assert renew == ["SET", key, value, "IFEQ", value, "PX", "30000"]


def test_a_lease_of_another_ttl_has_another_value(do: Callable[..., Seen], key: str) -> None:
    """A late write of the longer one cannot undo the shorter one."""
    acquire, renew = do(lambda store: store.acquire("a", ttl=30).renew(20)).sent
    if renew[0] == "EVALSHA":
        old, new = renew[4], renew[5]
    else:
        new, old = renew[2], renew[4]
    assert old == acquire[5] != new and renew[-1] == "20000"


def test_a_lock_is_acquired_with_an_end_and_then_renewed_without(
    do: Callable[..., Seen], key: str, kind: RedisKind, direct: redis.Redis
) -> None:
    acquired: list[tenure.Lease] = []

    def lock(store: tenure.Store) -> None:
        acquired.append(store.acquire("a", ttl="forever"))
        # The renewal that makes it last is the keeper's.
        while direct.pttl(key) != -1:
            pass

    seen = do(lock)
    ours = [words for words in seen.sent if key in words and words[0] != "PTTL"]
    assert [words[-1] for words in ours[:1]] == ["30000"]
    assert len(ours) == 2
    if kind != "redis70":
        assert ours[1][0] == "SET" and ours[1][3] == "IFEQ" and len(ours[1]) == 5
    acquired[0].release()
    assert direct.exists(key) == 0


def test_nothing_is_ever_deleted_unconditionally(do: Callable[..., Seen], key: str) -> None:
    def everything(store: tenure.Store) -> None:
        for name, min_hold in (("a", 0), ("b", 1)):
            lease = store.acquire(name, ttl=30, min_hold=min_hold)
            lease.renew()
            lease.renew(20)
            lease.release()
        store.acquire("c", ttl=30).hand_over("somebody")

    seen = do(everything)
    for words in seen.sent:
        assert words[0] in ("EVALSHA", "DELEX", "DELIFEQ", "SET"), words
        if words[0] == "SET":
            assert "IFEQ" in words and "PX" in words, words
        if words[0] == "DELEX":
            assert words[2] == "IFEQ" and len(words) == 4, words
    for words in seen.scripted:
        if words[0] == "SET" and words[1] != key[:-1] + "tenure:fence":
            assert "PX" in words, words


def test_what_a_server_lacks_is_tried_once(server: Server, stores: Stores) -> None:
    store = stores(single_try(server.port))
    with monitored(server) as first:
        warm(store)
    with monitored(server) as second:
        warm(store)
    assert len(second.sent) == 3
    assert len(first.sent) >= 3


def test_a_waiting_contender_sends_one_command_for_each_look(
    server: Server, stores: Stores, key: str, direct: redis.Redis
) -> None:
    store = stores(single_try(server.port), poll_interval=0.1)
    warm(store)
    direct.set(key, "theirs", px=1_000)
    with monitored(server) as seen:
        store.acquire("a", ttl=30, wait=10).release()
    tries = [words for words in seen.sent if words[0] == "EVALSHA" and words[2] == "2"]
    # Half the interval at least, and once more when the value ends.
    assert 2 <= len(tries) <= 1_000 / 50 + 2
    assert len(seen.sent) == len(tries) + 1
