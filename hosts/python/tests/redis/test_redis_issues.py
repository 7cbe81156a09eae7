"""What other lock libraries were reported for: each as it should be."""

from __future__ import annotations

import time

import pytest
import redis
import tenure
from engine_help import PATIENCE, Losses, eventually, held, in_background, reason
from engines.proxy import Action, Fault, RedisProxy, answer, delay, delay_reply
from engines.servers import Server
from redis_help import Stores, ends_at_ms, single_try, warm


# What is told here depends on the client side; how servers differ, the other files show.
pytestmark = pytest.mark.parametrize("kind", ["redis86"], indirect=True)


@pytest.fixture
def store(wire: RedisProxy, stores: Stores) -> tenure.Store:
    store = stores(single_try(wire.port, socket_timeout=20))
    warm(store)
    return store


def test_issue_lock_returned_already_expired(
    store: tenure.Store, wire: RedisProxy, key: str, direct: redis.Redis
) -> None:
    wire.arm(Fault(delay_reply(0.8), contains=key))
    with pytest.raises(tenure.StoreError):
        store.acquire("a", ttl=0.5)
    eventually(lambda: direct.exists(key) == 0, within=5)


def test_issue_lock_that_arrived_too_late_is_released(
    store: tenure.Store, wire: RedisProxy, key: str, direct: redis.Redis
) -> None:
    """The request was under way for longer than the ttl, so that the key has all its time before it."""
    wire.arm(Fault(delay(1.0), contains=key))
    with pytest.raises(tenure.StoreError):
        store.acquire("a", ttl=0.8)
    assert wire.count("EVALSHA", "delay") == 1
    eventually(lambda: direct.exists(key) == 0, within=0.4)


def test_issue_waiting_ends_although_every_try_is_expired(
    store: tenure.Store, wire: RedisProxy, key: str, direct: redis.Redis
) -> None:
    wire.arm(Fault(delay_reply(0.4), contains=key, times=None))
    began = time.monotonic()
    with pytest.raises(tenure.TenureError):
        store.acquire("a", ttl=0.3, wait=1)
    assert time.monotonic() - began < PATIENCE / 2
    wire.disarm()
    eventually(lambda: direct.exists(key) == 0, within=5)


def test_issue_release_of_an_expired_lease_hits_the_next_one(
    server: Server, wire: RedisProxy, store: tenure.Store, stores: Stores, key: str, direct: redis.Redis
) -> None:
    first = store.acquire("a", ttl=0.5)
    wire.down()
    second = stores(single_try(server.port)).acquire("a", ttl=30, wait=10)
    value = direct.get(key)
    reason(first)
    wire.up()
    first.release()
    # What the first one still has to undo had time to be undone.
    time.sleep(0.3)
    assert direct.get(key) == value and held(second)


def test_issue_one_object_releases_the_lease_of_another_task(
    store: tenure.Store, key: str, direct: redis.Redis
) -> None:
    first = store.acquire("a", ttl=30)
    direct.delete(key)
    second = store.acquire("a", ttl=30)
    first.release()
    assert held(second) and direct.exists(key) == 1
    second.renew()


def test_issue_silent_reacquire_after_a_gap(
    server: Server, wire: RedisProxy, store: tenure.Store, stores: Stores, key: str, direct: redis.Redis
) -> None:
    first = store.acquire("a", ttl=0.5)
    wire.down()
    with stores(single_try(server.port)).lease("a", ttl=30, wait=10):
        pass
    assert direct.exists(key) == 0
    wire.up()
    with pytest.raises(tenure.Lost):
        first.renew()
    time.sleep(0.3)
    assert direct.exists(key) == 0


def test_issue_renew_without_compare_makes_two_owners(
    server: Server, wire: RedisProxy, store: tenure.Store, stores: Stores, key: str, direct: redis.Redis
) -> None:
    first = store.acquire("a", ttl=0.5)
    wire.down()
    second = stores(single_try(server.port), renew_interval=10).acquire("a", ttl=30, wait=10)
    ends_at = ends_at_ms(direct, key)
    wire.up()
    with pytest.raises(tenure.Lost):
        first.renew()
    time.sleep(0.3)
    assert ends_at_ms(direct, key) == ends_at and held(second)


@pytest.mark.parametrize("late", [delay(0.4), delay_reply(0.4)], ids=lambda action: action.kind)
def test_issue_release_racing_a_renewal_reports_a_loss(
    store: tenure.Store, wire: RedisProxy, late: Action, key: str, direct: redis.Redis
) -> None:
    told = Losses()
    lease = store.acquire("a", ttl=30, on_lost=told)
    wire.arm(Fault(late, contains=key))

    def renew() -> None:
        try:
            lease.renew()
        except tenure.Lost as lost:
            assert lost.reason == "released"

    with in_background(renew):
        eventually(lambda: any(entry.outcome == "unanswered" for entry in wire.log))
        lease.release()
    eventually(lambda: direct.exists(key) == 0, within=5)
    assert told.told == [] and not lease.lost.is_set()


def test_issue_body_ran_without_the_lock(store: tenure.Store, key: str, direct: redis.Redis) -> None:
    direct.set(key, "theirs", px=60_000)
    ran = False
    with pytest.raises(tenure.Busy), store.lease("a", ttl=1, wait=0.2):
        ran = True
    assert not ran


def test_issue_suspend_is_noticed_at_once(
    store: tenure.Store, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """The monotonic clock stood still, the Unix clock did not: no tick and no reply is needed to know."""
    told = Losses()
    lease = store.acquire("a", ttl=30, on_lost=told)
    before = tenure._clock.wall_us
    monkeypatch.setattr(tenure._clock, "wall_us", lambda: before() + 60_000_000)
    assert lease.remaining() == 0
    with pytest.raises(tenure.Lost) as lost:
        lease.check()
    monkeypatch.undo()
    # It does not come back with the clock.
    assert lease.remaining() == 0 and lease.lost.is_set()
    eventually(lambda: len(told.told) == 1)
    assert lost.value.reason == told.told[0].reason == "paused"


def test_issue_busy_and_unreachable_are_told_apart(
    store: tenure.Store, wire: RedisProxy, key: str, direct: redis.Redis
) -> None:
    direct.set(key, "theirs", px=60_000)
    with pytest.raises(tenure.Busy) as busy:
        store.acquire("a", ttl=30)
    assert not isinstance(busy.value, tenure.StoreError) and busy.value.holder == "theirs"
    wire.arm(Fault(answer(b"-READONLY You can't write against a read only replica.\r\n"), contains=key, times=None))
    with pytest.raises(tenure.StoreError) as failed:
        store.acquire("a", ttl=30)
    assert not isinstance(failed.value, tenure.Busy) and isinstance(failed.value.cause, redis.ReadOnlyError)


def test_issue_release_of_an_expired_lease_masks_the_error(
    store: tenure.Store, wire: RedisProxy, key: str
) -> None:
    began = 0.0
    with pytest.raises(KeyError, match="of the body") as raised, store.lease("a", ttl=0.3) as lease:
        wire.down()
        assert lease.lost.wait(PATIENCE)
        began = time.monotonic()
        raise KeyError("of the body")
    # No retries for something that is over.
    assert time.monotonic() - began < 1
    assert any("no longer held" in note for note in getattr(raised.value, "__notes__", ["no longer held"]))


def test_issue_release_that_fails_masks_the_error(
    store: tenure.Store, wire: RedisProxy, key: str, direct: redis.Redis
) -> None:
    with pytest.raises(KeyError, match="of the body"), store.lease("a", ttl=1):
        wire.down()
        raise KeyError("of the body")


def test_issue_expiry_counted_from_the_wrong_start(
    store: tenure.Store, key: str, direct: redis.Redis
) -> None:
    direct.set(key, "theirs", px=1_200)
    lease = store.acquire("a", ttl=1, wait=10)
    # Not from the first try, which would be over; and never beyond what the key has.
    on_the_server = direct.pttl(key) / 1000
    assert 0.2 < lease.remaining() <= on_the_server <= 1


def test_issue_extend_adds_to_what_is_left(store: tenure.Store, key: str, direct: redis.Redis) -> None:
    lease = store.acquire("a", ttl=10)
    for _ in range(3):
        lease.renew(10)
    assert direct.pttl(key) <= 10_000 and lease.remaining() <= 10


def test_issue_fencing_keys_leak(store: tenure.Store, key: str, direct: redis.Redis) -> None:
    fences = []
    for number in range(500):
        with store.lease(f"of-many-{number}", ttl=30) as lease:
            fences.append(lease.fence or 0)
    assert fences == sorted(set(fences))
    assert list(direct.scan_iter(match=f"{key[:-1]}*", count=1000)) == [f"{key[:-1]}tenure:fence".encode()]


def test_issue_interval_that_cannot_keep_a_lease(server: Server, stores: Stores) -> None:
    store = stores(single_try(server.port), renew_interval=2)
    with pytest.raises(tenure.ConfigError) as refused:
        store.acquire("a", ttl=2)
    assert refused.value.field == "renew_interval"


def test_issue_key_deleted_early_is_not_called_expired(
    store: tenure.Store, key: str, direct: redis.Redis
) -> None:
    lease = store.acquire("a", ttl=0.6)
    direct.delete(key)
    assert reason(lease) == "missing"
