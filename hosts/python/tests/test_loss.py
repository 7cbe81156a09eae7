"""A loss is told four ways, once, and never by an exception in somebody else's thread."""

from __future__ import annotations

import time

import pytest

import tenure
from tenure import _clock

TTL = 0.4


def broken(store: tenure.Store, name: str) -> None:
    store.break_(store.status(name))


def test_check_the_event_the_callback_and_the_scope_tell_a_loss() -> None:
    store = tenure.memory()
    heard: list[tenure.Lost] = []
    with pytest.raises(tenure.Lost) as lost:
        with store.lease("a", TTL, on_lost=heard.append) as lease:
            broken(store, "a")
            assert lease.lost.wait(10)
            with pytest.raises(tenure.Lost):
                lease.check()
            assert lease.remaining() == 0
    assert (lost.value.name, lost.value.fence, lost.value.reason) == ("a", lease.fence, "missing")
    for _ in range(100):
        if heard:
            break
        time.sleep(0.05)
    assert [error.reason for error in heard] == ["missing"]


def test_the_bodys_own_error_wins() -> None:
    store = tenure.memory()
    with pytest.raises(KeyError) as caught:
        with store.lease("a", TTL) as lease:
            broken(store, "a")
            assert lease.lost.wait(10)
            raise KeyError("mine")
    assert any("no longer held" in note for note in getattr(caught.value, "__notes__", ()))


def test_the_bodys_error_comes_out_of_a_held_lease_and_the_name_is_free() -> None:
    store = tenure.memory()
    with pytest.raises(KeyError):
        with store.lease("a", 30):
            raise KeyError("mine")
    assert not store.status("a").held


def test_a_lost_lease_never_comes_back() -> None:
    store = tenure.memory()
    lease = store.acquire("a", TTL)
    store.keeper.close()
    time.sleep(TTL + 0.1)
    with pytest.raises(tenure.Lost) as lost:
        lease.check()
    assert lost.value.reason in ("expired", "paused")
    with pytest.raises(tenure.Lost):
        lease.renew()
    assert lease.remaining() == 0
    assert lease.lost.is_set()


def test_a_failing_callback_harms_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    store = tenure.memory()

    def slow(_: tenure.Lost) -> None:
        time.sleep(3 * TTL)

    lost = store.acquire("a", TTL, on_lost=slow)
    kept = store.acquire("b", TTL)
    broken(store, "a")
    assert lost.lost.wait(10)
    time.sleep(2 * TTL)
    kept.check()
    store.close()


def test_check_may_ask_for_time_that_is_left() -> None:
    store = tenure.memory()
    with store.lease("a", 10) as lease:
        lease.check("5s")
        with pytest.raises(tenure.Lost) as short:
            lease.check(11)
        assert short.value.reason == "short"
        lease.check()


@pytest.mark.parametrize("give_up", ["release", "hand_over"])
def test_giving_up_is_finished_if_it_is_interrupted(give_up: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tenure.memory()
    lease = store.acquire("a", TTL)
    reading = _clock.reading

    def interrupted() -> object:
        # As by a signal's handler, before the core has heard of it.
        monkeypatch.setattr(_clock, "reading", reading)
        raise KeyboardInterrupt

    monkeypatch.setattr(_clock, "reading", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lease.release() if give_up == "release" else lease.hand_over("next")
    for _ in range(200):
        if store.status("a").holder is None:
            break
        time.sleep(0.05)
    # And nothing renews it any more.
    assert store.status("a").holder is None
    lease.release()
    store.close()
