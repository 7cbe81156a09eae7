"""Scopes and the decorator."""

from __future__ import annotations

import threading

import pytest

import tenure


def test_a_busy_scope_does_not_run_its_body() -> None:
    store = tenure.memory()
    with store.lease("a", 30):
        with pytest.raises(tenure.Busy):
            with store.lease("a", 30):
                pytest.fail("two holders")


def test_a_scope_may_be_entered_again_and_by_many_threads() -> None:
    store = tenure.memory()
    scope = store.lease("a", 30, wait=30)
    counter = [0]

    def work() -> None:
        for _ in range(5):
            with scope:
                seen = counter[0]
                threading.Event().wait(0.001)
                counter[0] = seen + 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter == [20]


def test_the_decorator_names_the_lease_by_the_calls_arguments() -> None:
    store = tenure.memory()
    seen: list[str] = []

    @store.exclusive("report:{region}", ttl=30)
    def report(region: str, *, day: int = 1) -> int:
        seen.extend(status.name for status in store.list("report:"))
        return day

    assert report("eu", day=7) == 7
    assert report(region="us") == 1
    assert seen == ["report:eu", "report:us"]
    assert report.__name__ == "report"


def test_the_decorator_skips_or_raises_while_somebody_else_holds_it() -> None:
    store = tenure.memory()

    @store.exclusive("a", ttl=30, on_busy="skip")
    def skips() -> int:
        return 1

    @store.exclusive("a", ttl=30)
    def raises() -> int:
        return 1

    with store.lease("a", 30):
        assert skips() is None
        with pytest.raises(tenure.Busy):
            raises()
    assert skips() == 1


def test_the_decorator_refuses_what_it_cannot_guard() -> None:
    store = tenure.memory()

    async def coroutine() -> None: ...

    with pytest.raises(tenure.ConfigError):
        store.exclusive("a", ttl=30)(coroutine)
    with pytest.raises(tenure.ConfigError):
        store.exclusive("a", ttl=30, on_busy="wait")  # type: ignore[arg-type]


def test_a_closed_store_has_released_everything_and_refuses_more() -> None:
    with tenure.memory() as store:
        lease = store.acquire("a", 30)
    assert lease.remaining() == 0
    with pytest.raises(tenure.ConfigError):
        store.acquire("a", 30)
