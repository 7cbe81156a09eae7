"""What once broke this host, each by its name."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engines.proxy import Fault, RedisProxy, drop_reply

import tenure
from stores import redis_client


def in_child(act: Callable[[], object]) -> str:
    """What `act` gives in a fork of this process."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, repr(act()).encode())
        except BaseException as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


def test_a_store_that_fails_at_a_fork_leaves_no_belief_in_the_child(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    broken = tenure.sqlite(folder / "leases.sqlite")
    closed = tenure.sqlite(tmp_path / "closed.sqlite")
    closed.close()
    stores = [tenure.memory() for _ in range(6)]
    leases = [store.acquire("a", 30) for store in (*stores, broken)]
    shutil.rmtree(folder)
    assert in_child(lambda: [lease.remaining() for lease in leases]) == repr([0.0] * 7)
    assert all(lease.remaining() > 0 for lease in leases[:-1])


def test_children_forked_while_sqlite_is_busy_can_use_it(tmp_path: Path) -> None:
    store = tenure.sqlite(tmp_path / "leases.sqlite")
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            store.acquire("busy", 30, wait=10).release()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for i in range(8):
            said = in_child(lambda i=i: store.acquire(f"child-{i}", 30, wait=10).release())  # type: ignore[misc]
            assert said == "None"
    finally:
        stop.set()
        worker.join()


def test_a_waiter_forked_by_its_callback_does_not_go_on_in_the_child(tmp_path: Path) -> None:
    store = tenure.sqlite(tmp_path / "leases.sqlite")
    held = tenure.sqlite(tmp_path / "leases.sqlite").acquire("a", 30)
    children: list[int] = []

    def fork(holder: str | None, retry_after: float | None) -> None:
        children.append(os.fork())

    try:
        store.acquire("a", 30, wait=0.3, on_waiting=fork)
    except tenure.Lost:
        os._exit(7)
    except tenure.Busy:
        if children[0] == 0:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7
    held.check()


def test_an_error_that_the_caller_handles_is_not_taken_for_the_clients(
    engines: Callable[[str], Any], name: str
) -> None:
    with RedisProxy(engines("redis86").port) as proxy:
        store = tenure.redis(redis_client(proxy.port))
        store.acquire(f"{name}-warm", 30).release()
        proxy.arm(Fault(drop_reply, match="EVALSHA", times=1))
        try:
            raise ConnectionRefusedError("of some other service")
        except ConnectionRefusedError:
            lease = store.acquire(name, 30)
        # Counted from the sending that may have landed, and known to be ours.
        lease.check()
        lease.release()
        assert not store.status(name).held


@pytest.fixture
def eager_collector() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(20)
    yield
    gc.set_threshold(*before)


def test_a_finalizer_may_ask_the_lease_that_is_at_work(eager_collector: None) -> None:
    store = tenure.memory()
    lease = store.acquire("a", 30)

    class Asks:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            lease.remaining()

    done = threading.Event()

    def work() -> None:
        for _ in range(300):
            Asks()
            lease.renew()
        done.set()

    threading.Thread(target=work, daemon=True).start()
    assert done.wait(60), "a deadlock"


class Interrupt(Exception):
    pass


def test_a_signal_handler_that_raises_anywhere_leaves_the_renewals_alive() -> None:
    store = tenure.memory()
    pinned = store.acquire("pinned", 1)

    def handler(signum: int, frame: object) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        until = time.monotonic() + 6
        turn = 0
        while time.monotonic() < until:
            turn += 1
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.00003 + (turn * 7919 % 400) * 1e-6)
                with store.lease("a", 30, wait=0.01):
                    pass
            except (Interrupt, tenure.TenureError):
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    time.sleep(1.5)
    pinned.check()


def test_an_interrupted_transaction_does_not_lock_the_file(tmp_path: Path) -> None:
    path = tmp_path / "leases.sqlite"
    store: Any = tenure.sqlite(path)
    store.carrier._database.execute("BEGIN IMMEDIATE")
    store.acquire("a", 30).release()
    tenure.sqlite(path).acquire("a", 30).release()


def test_two_holders_are_not_kept_apart_by_a_replaced_file(tmp_path: Path) -> None:
    path = tmp_path / "leases.sqlite"
    first = tenure.sqlite(path).acquire("a", 1)
    for file in tmp_path.iterdir():
        file.unlink()
    with tenure.sqlite(path).lease("a", 30) as second:
        assert first.lost.wait(10) and first.lost_reason == "taken"
        assert second.fence is not None and first.fence is not None and second.fence > first.fence
        second.check()


def test_a_file_that_something_else_keeps_locked_is_a_store_error(tmp_path: Path) -> None:
    path = tmp_path / "leases.sqlite"
    store = tenure.sqlite(path)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(tenure.StoreError):
            store.acquire("a", 30)
        other.execute("ROLLBACK")
    other.close()
    store.acquire("a", 30).release()


def test_a_thread_that_cannot_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    store = tenure.memory()
    start = threading.Thread.start

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(RuntimeError):
        store.acquire("a", 0.5)
    monkeypatch.setattr(threading.Thread, "start", start)
    with store.lease("b", 0.5) as lease:
        time.sleep(1)
        lease.check()


def test_leases_that_are_done_leave_the_schedule() -> None:
    store: Any = tenure.memory()
    for _ in range(3000):
        store.acquire("a", "1h").release()
    assert len(store.keeper._due) < 600
    assert len(store._leases) < 700


def test_only_one_of_two_hand_overs_counts() -> None:
    for _ in range(100):
        store = tenure.memory()
        lease = store.acquire("a", 30)
        given: list[str] = []

        def give(to: str, lease: tenure.Lease = lease, given: list[str] = given) -> None:
            try:
                lease.hand_over(to)
                given.append(to)
            except tenure.Lost:
                pass

        threads = [threading.Thread(target=give, args=(to,)) for to in ("x", "y")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert given == [store.status("a").holder]


def test_many_threads_may_use_one_lease_at_once(opener: Any, name: str) -> None:
    store = opener()
    lease = store.acquire(name, 30)
    barrier = threading.Barrier(12)
    strange: list[BaseException] = []

    def use(act: Callable[[], object]) -> None:
        barrier.wait()
        for _ in range(5):
            try:
                act()
            except tenure.Lost:
                pass
            except BaseException as error:
                strange.append(error)

    acts = [lease.check, lease.renew, lease.remaining, lease.release] * 3
    threads = [threading.Thread(target=use, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not strange
    assert lease.remaining() == 0
    store.acquire(name, 30).release()


def test_break_works_whatever_intervals_the_store_has() -> None:
    store = tenure.memory(renew_interval=8)
    store.acquire("a", 30)
    assert not store.break_(store.status("a")).held


def test_a_generator_is_not_guarded_and_says_so() -> None:
    def rows() -> Iterator[int]:
        yield 1

    with pytest.raises(tenure.ConfigError):
        tenure.memory().exclusive("a", ttl=30)(rows)


def test_a_scope_may_be_left_by_another_thread() -> None:
    store = tenure.memory()
    scope = store.lease("a", 30)
    scope.__enter__()
    thread = threading.Thread(target=scope.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    assert not store.status("a").held


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.acquire("\ud800", 30),
        lambda store: store.acquire(b"a", 30),
        lambda store: store.acquire(None, 30),
        lambda store: store.acquire("a", 10**400),
        lambda store: store.acquire("a", 30, wait=10**400),
        lambda store: store.acquire("a", 30).hand_over(None),
        lambda store: store.acquire("a", 30).hand_over("\ud800"),
        lambda store: tenure.memory(rate_error=None),
        lambda store: tenure.memory(holder="\ud800"),
    ],
)
def test_absurd_arguments_are_config_errors_that_can_be_printed(ask: Any) -> None:
    with pytest.raises(tenure.ConfigError) as error:
        ask(tenure.memory())
    str(error.value).encode()


def test_a_lease_is_neither_copied_nor_pickled() -> None:
    lease = tenure.memory().acquire("a", 30)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a lease cannot be"):
            duplicate(lease)
