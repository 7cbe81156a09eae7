"""What the tests against real engines share."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import tenure

#: Far more than anything here takes: a test fails by its promise, not by a slow machine.
PATIENCE = 20.0
#: How late a thread may be woken up on a slow machine.
SLACK = 2.0

@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What fails in a thread of the library is logged there, for others to go on: nothing does."""
    yield
    assert [record.getMessage() for record in caplog.get_records("call") if record.exc_info] == []


class Losses:
    """An `on_lost`: which losses were told, and when."""

    def __init__(self) -> None:
        self.told: list[tenure.Lost] = []
        self.at: list[float] = []
        self.wall_at: list[float] = []

    def __call__(self, lost: tenure.Lost) -> None:
        self.at.append(time.monotonic())
        self.wall_at.append(time.time())
        self.told.append(lost)


def eventually(condition: Callable[[], object], within: float = PATIENCE) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it has not come to pass"
        time.sleep(0.005)


def reason(lease: tenure.Lease, within: float = PATIENCE) -> str | None:
    """Why it was lost, once it is."""
    assert lease.lost.wait(within), "it was not lost"
    with pytest.raises(tenure.Lost) as lost:
        lease.check()
    assert lease.remaining() == 0
    return lost.value.reason


def held(lease: tenure.Lease) -> bool:
    lease.check()
    return lease.remaining() > 0 and not lease.lost.is_set() and lease.lost_reason is None


@contextmanager
def in_background(work: Callable[[], object]) -> Iterator[threading.Thread]:
    """Runs it beside the block; what it raises counts as the block's."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="test-beside", daemon=True)
    thread.start()
    yield thread
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it does not end"
    if failed:
        raise failed[0]


@contextmanager
def interrupted(when: Callable[[], object]) -> Iterator[None]:
    """Ctrl-C, as soon as this is so. The block, in the main thread, must let it through."""

    def press() -> None:
        eventually(when)
        # To the main thread itself, so that what it waits for is interrupted.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    # A run in the background starts with this signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with in_background(press), pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGINT, before)
