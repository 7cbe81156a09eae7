"""What a lease is, on every store: acquired when free, refused while held, taken over when its time
is over and not before, and renewed and released by its holder alone."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import tenure

TTL = 0.6
#: Until when a dead holder's lease must have been taken over: ttl, margins, one poll, and slack for a
#: loaded machine.
PATIENCE = TTL + 3.0


def die(store: tenure.Store) -> None:
    """As if the process had ended: nothing is renewed or released any more."""
    store.keeper.close()


def test_a_free_name_is_acquired(store: tenure.Store, name: str) -> None:
    lease = store.acquire(name, 30)
    lease.check()
    assert 0 < lease.remaining() < 30
    assert isinstance(lease.fence, int)
    assert lease.holder == store.holder
    status = store.status(name)
    assert status.held and status.holder == store.holder and not status.foreign
    lease.release()


def test_a_held_name_is_refused(opener: Any, name: str) -> None:
    first, second = opener(), opener()
    lease = first.acquire(name, 30)
    with pytest.raises(tenure.Busy) as busy:
        second.acquire(name, 30)
    assert busy.value.name == name
    assert busy.value.holder == first.holder
    assert second.try_acquire(name, 30) is None
    lease.check()
    lease.release()


def test_a_released_name_is_free_at_once_with_a_larger_fence(opener: Any, name: str) -> None:
    first, second = opener(), opener()
    fences = []
    for store in (first, second, first):
        with store.lease(name, 30) as lease:
            fences.append(lease.fence)
        assert not store.status(name).held
    assert fences == sorted(set(fences))


def test_a_dead_holders_lease_is_taken_over_after_its_time_and_not_before(
    opener: Any, name: str
) -> None:
    first, second = opener(), opener()
    dead = first.acquire(name, TTL)
    die(first)
    taken = second.acquire(name, TTL, wait=PATIENCE)
    # Judged by the dead one's own clock, at the instant of the takeover or later.
    assert dead.remaining() == 0
    assert taken.fence is not None and dead.fence is not None and taken.fence > dead.fence
    with pytest.raises(tenure.Lost):
        dead.check()
    taken.check()
    taken.release()


def test_of_many_contenders_for_an_expired_lease_one_wins(opener: Any, name: str) -> None:
    first = opener()
    first.acquire(name, TTL)
    die(first)
    contenders = [opener() for _ in range(6)]
    winners: list[tenure.Lease] = []

    def contend(store: tenure.Store) -> None:
        try:
            winners.append(store.acquire(name, 30, wait=PATIENCE))
        except tenure.Busy:
            pass

    threads = [threading.Thread(target=contend, args=(store,)) for store in contenders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1
    winners[0].check()


def test_a_held_lease_outlives_its_ttl(store: tenure.Store, name: str) -> None:
    with store.lease(name, TTL) as lease:
        time.sleep(2 * TTL)
        lease.check()


def test_only_the_holder_renews(opener: Any, name: str) -> None:
    first, second = opener(), opener()
    late = first.acquire(name, TTL)
    die(first)
    lease = second.acquire(name, 30, wait=PATIENCE)
    before = second.status(name)
    with pytest.raises(tenure.Lost):
        late.renew()
    late.release()
    after = second.status(name)
    assert (after.holder, after.identity, after.fence) == (
        before.holder,
        before.identity,
        before.fence,
    )
    lease.check()
    lease.release()


def test_a_renewal_sets_the_time_and_never_adds(store: tenure.Store, name: str) -> None:
    lease = store.acquire(name, 10)
    for _ in range(3):
        lease.renew()
        assert lease.remaining() <= 10
    lease.renew(20)
    assert 10 < lease.remaining() <= 20
    # Shorter, too.
    lease.renew(5)
    assert lease.remaining() <= 5
    lease.release()


def test_release_is_idempotent_and_ends_the_grant(store: tenure.Store, name: str) -> None:
    lease = store.acquire(name, 30)
    lease.release()
    lease.release()
    assert lease.remaining() == 0
    with pytest.raises(tenure.Lost) as lost:
        lease.check()
    assert lost.value.reason == "released"
    assert not lease.lost.is_set(), "a release is no loss"


def test_a_waiting_contender_gets_a_released_name(opener: Any, name: str) -> None:
    first, second = opener(), opener()
    lease = first.acquire(name, 30)
    told: list[str | None] = []
    threading.Timer(0.3, lease.release).start()
    with second.acquire(
        name, 30, wait=20, on_waiting=lambda holder, retry_after: told.append(holder)
    ) as next_lease:
        assert next_lease.fence is not None and lease.fence is not None
        assert next_lease.fence > lease.fence
    assert told[0] == first.holder


def test_a_wait_ends(opener: Any, name: str) -> None:
    first, second = opener(), opener()
    with first.lease(name, 30):
        began = time.monotonic()
        with pytest.raises(tenure.Busy):
            second.acquire(name, 30, wait=0.3)
        assert time.monotonic() - began >= 0.3


def test_min_hold_keeps_a_name_taken_after_a_quick_job(opener: Any, name: str) -> None:
    first, second = opener(), opener()
    began = time.monotonic()
    first.acquire(name, 30, min_hold=1).release()
    with pytest.raises(tenure.Busy) as busy:
        second.acquire(name, 30)
    assert busy.value.because == "resting"
    assert second.status(name).resting
    second.acquire(name, 30, wait=20).release()
    assert time.monotonic() - began >= 1


def test_a_rest_that_is_over_is_shown_as_free(store: tenure.Store, name: str) -> None:
    store.acquire(name, 30, min_hold=0.3).release()
    time.sleep(0.5)
    status = store.status(name)
    assert not status.resting and not status.held
    assert list(store.list(name)) == []


def test_a_lock_lasts_until_it_is_released(opener: Any, name: str) -> None:
    first, second = opener(), opener()
    lock = first.acquire(name, "forever")
    assert lock.remaining() == float("inf")
    assert second.try_acquire(name, 30) is None
    assert second.status(name).ttl is None
    lock.release()
    second.acquire(name, 30).release()


def test_break_takes_the_name_from_the_record_that_was_shown(opener: Any, name: str) -> None:
    first, second = opener(), opener()
    lease = first.acquire(name, TTL)
    shown = second.status(name)
    second.break_(shown)
    assert lease.lost.wait(10)
    assert lease.lost_reason == "missing"
    with second.lease(name, 30) as next_lease:
        assert next_lease.fence is not None and lease.fence is not None
        assert next_lease.fence > lease.fence
        # What stands there now is not what was shown.
        with pytest.raises(tenure.Busy):
            first.break_(shown)
        next_lease.check()


def test_a_lease_is_handed_over_without_a_gap(opener: Any, name: str) -> None:
    first, second, third = opener(), opener(), opener()
    lease = first.acquire(name, 30)
    lease.hand_over(second.holder)
    assert lease.remaining() == 0
    assert third.try_acquire(name, 30) is None
    with second.lease(name, 30) as taken:
        assert taken.fence is not None and lease.fence is not None and taken.fence > lease.fence
    with pytest.raises(tenure.Lost):
        lease.renew()


def test_list_shows_what_is_held(opener: Any, name: str) -> None:
    store = opener()
    leases = [store.acquire(f"{name}/{i}", 30) for i in range(3)]
    store.acquire(f"other-{name}", 30).release()
    shown = {status.name: status for status in store.list(f"{name}/")}
    assert set(shown) == {f"{name}/{i}" for i in range(3)}
    assert all(status.held and status.holder == store.holder for status in shown.values())
    for lease in leases:
        lease.release()
    assert list(store.list(f"{name}/")) == []
