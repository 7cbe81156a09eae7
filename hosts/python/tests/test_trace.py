"""What a store records can be shown, and gives the same when it is replayed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure import _core


def record(opener: Any, name: str, path: Path) -> bytes:
    with opener(trace=path) as store, opener() as other:
        with store.lease(name, 0.5) as lease:
            assert other.try_acquire(name, 1) is None
            time.sleep(0.7)
            lease.check()
            lease.renew(2)
        with other.lease(name, 30):
            assert store.try_acquire(name, 1) is None
    return path.read_bytes()


def test_a_trace_replays_to_what_was_recorded(opener: Any, name: str, tmp_path: Path) -> None:
    lines, differences = _core.trace_lines(record(opener, name, tmp_path / "trace"))
    assert differences == 0
    text = "\n".join(lines)
    for expected in ("Acquire", "Acquired", "Renewed", "Released", "Busy", name):
        assert expected in text


def test_a_trace_is_shown_as_a_timeline(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with tenure.memory(trace=trace) as store, store.lease("report", 30):
        pass

    def show() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tenure.cli", "trace", "show", str(trace)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    shown = show()
    assert shown.returncode == 0, shown.stderr
    assert "report" in shown.stdout and "Released" in shown.stdout
    whole = trace.read_bytes()
    # One that was cut off is shown as far as it goes.
    trace.write_bytes(whole[:-3])
    shown = show()
    assert shown.returncode == 0 and "ends within a frame" in shown.stdout
    # One that another core made says so.
    trace.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    shown = show()
    assert shown.returncode == 1 and "not what was recorded" in shown.stdout
    trace.write_bytes(b"no trace")
    assert show().returncode == 78


def test_a_trace_is_not_written_over(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text("mine")
    with pytest.raises(tenure.ConfigError):
        tenure.memory(trace=trace)
    assert trace.read_text() == "mine"
