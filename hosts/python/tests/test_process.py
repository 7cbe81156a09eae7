"""Forks, ends of the interpreter, pauses, and a thousand leases."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tenure


def run(code: str, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_a_forked_child_holds_nothing_of_its_parents(opener: Any, name: str) -> None:
    store = opener()
    lease = store.acquire(name, 1)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            verdict = []
            verdict.append(lease.remaining() == 0 and lease.lost.is_set())
            try:
                lease.check()
                verdict.append(False)
            except tenure.Lost as lost:
                verdict.append(lost.reason == "forked")
            lease.release()
            verdict.append(store.holder != lease.holder)
            # Its own leases are its own.
            own = store.acquire(f"{name}-child", 0.5)
            time.sleep(1)
            own.check()
            own.release()
            os.write(write, repr(verdict).encode())
        except BaseException as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert pipe.read() == "[True, True, True]"
    os.waitpid(pid, 0)
    # The parent still holds it, and still renews it.
    time.sleep(0.5)
    lease.check()
    lease.release()


@pytest.mark.parametrize("ending", ["pass", "sys.exit(3)", "raise KeyError('x')"])
def test_the_end_of_the_interpreter_is_quick_and_quiet(tmp_path: Path, ending: str) -> None:
    path = str(tmp_path / "leases.sqlite")
    began = time.monotonic()
    result = run(
        f"""
        import sys, tenure
        store = tenure.sqlite(sys.argv[1])
        held = [store.acquire(f"a{{i}}", 5) for i in range(5)]
        {ending}
        """,
        path,
    )
    assert time.monotonic() - began < 20
    assert result.returncode == {"pass": 0, "sys.exit(3)": 3}.get(ending, 1)
    if ending == "raise KeyError('x')":
        assert "KeyError" in result.stderr and "tenure" not in result.stderr.split("Error")[0]
    else:
        assert result.stderr == ""
    # What was not released ends with its ttl, since a thread may still be at work on it.
    assert tenure.sqlite(path).status("a0").held


def test_a_stopped_process_knows_that_it_lost_before_its_next_step(tmp_path: Path) -> None:
    path = str(tmp_path / "leases.sqlite")
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                """
                import sys, tenure
                lease = tenure.sqlite(sys.argv[1]).acquire("a", 1)
                print(lease.fence, flush=True)
                sys.stdin.readline()
                print(lease.remaining())
                try:
                    lease.check()
                except tenure.Lost as lost:
                    print(lost.reason)
                """
            ),
            path,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None and child.stdout is not None
    fence = int(child.stdout.readline())
    os.kill(child.pid, signal.SIGSTOP)
    with tenure.sqlite(path).acquire("a", 5, wait=10) as lease:
        assert lease.fence is not None and lease.fence > fence
        os.kill(child.pid, signal.SIGCONT)
        rest, _ = child.communicate("go on\n", timeout=20)
        assert rest.split() == ["0.0", "paused"]


def test_sqlite_excludes_processes(tmp_path: Path) -> None:
    """Many processes count up a file that only the holder may touch."""
    path, counter = str(tmp_path / "leases.sqlite"), tmp_path / "counter"
    counter.write_text("0")
    code = """
        import pathlib, sys, tenure
        store = tenure.sqlite(sys.argv[1])
        counter = pathlib.Path(sys.argv[2])
        for _ in range(20):
            with store.lease("counter", 10, wait=60):
                counter.write_text(str(int(counter.read_text()) + 1))
        """
    workers = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), path, str(counter)])
        for _ in range(4)
    ]
    assert [worker.wait(120) for worker in workers] == [0] * 4
    assert counter.read_text() == "80"


def test_a_sqlite_row_of_another_start_is_free_and_of_another_machine_an_error(
    tmp_path: Path,
) -> None:
    import sqlite3

    path = tmp_path / "leases.sqlite"
    store = tenure.sqlite(path)
    held = store.acquire("a", 1000)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE tenure_leases SET boot = ?", ("1" * 32,))
    store.keeper.close()
    # An earlier start of this machine: whoever held it is gone.
    other = tenure.sqlite(path)
    lease = other.acquire("a", 1000)
    assert lease.fence is not None and held.fence is not None and lease.fence > held.fence
    with sqlite3.connect(path) as database:
        database.execute("UPDATE tenure_leases SET machine = ?", ("2" * 32,))
    other.keeper.close()
    with pytest.raises(tenure.StoreError, match="another machine"):
        tenure.sqlite(path).acquire("a", 1000)


def test_a_thousand_leases_are_renewed_by_one_thread(
    opener: Any, name: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = request.node.callspec.params["opener"]
    store = opener()
    # A minute where it costs requests; elsewhere long enough for every one to be renewed.
    seconds = 60.0 if kind in ("dynamodb", "redis86") else 6.0
    before = set(threading.enumerate())
    leases = [store.acquire(f"{name}/{i}", 2 * seconds if seconds < 15 else 30) for i in range(1000)]
    cpu, began = time.process_time(), time.monotonic()
    seen: set[str] = set()
    while time.monotonic() < began + seconds:
        time.sleep(0.1)
        new = [t.name for t in threading.enumerate() if t not in before]
        seen.update(new)
        assert len(new) <= 2, new
    cpu, held = time.process_time() - cpu, time.monotonic() - began
    for lease in leases:
        lease.check()
    assert seen == {"tenure-renew", "tenure-watch"}
    with capsys.disabled():
        print(f"\n1,000 leases held for {held:.0f} s on {kind}: {1000 * cpu / held:.1f} ms of CPU a second")
    store.close()
