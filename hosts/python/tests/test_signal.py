"""Waits end when their time is over, and none is missed."""

from __future__ import annotations

import threading
import time

from tenure._signal import Nudge, Signal


def ends(wait: object, within: float = 60) -> bool:
    assert callable(wait)
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(within)
    return not thread.is_alive()


def test_a_wait_whose_time_passes_while_it_begins_ends() -> None:
    """`queue.SimpleQueue` waits for ever then, so that an acquire never returned; some hundred waits met it."""
    signal, nudge = Signal(), Nudge()

    def wait() -> None:
        for _ in range(10_000):
            for timeout in (0.0, 1e-7, 1e-6, 4e-6):
                assert not signal.wait(timeout)
                assert not nudge.take(timeout)

    assert ends(wait)


def test_a_nudge_is_kept_for_the_next_wait_and_several_are_one() -> None:
    nudge = Nudge()
    nudge.give()
    nudge.give()
    assert nudge.take(0)
    assert not nudge.take(0)


def test_a_nudge_ends_a_wait_without_an_end() -> None:
    nudge = Nudge()
    threading.Timer(0.05, nudge.give).start()
    assert ends(nudge.take)


def test_a_signal_is_set_for_all_who_wait() -> None:
    signal = Signal()
    threads = [threading.Thread(target=signal.wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    signal.set()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert signal.wait(0)


def test_being_nudged_ends_a_wait_and_sets_nothing() -> None:
    signal = Signal()
    heard: list[bool] = []
    thread = threading.Thread(target=lambda: heard.append(signal.wait()), daemon=True)
    thread.start()
    while not heard:
        signal.nudge()
        time.sleep(0.01)
    assert heard == [False]
    assert not signal.is_set()
