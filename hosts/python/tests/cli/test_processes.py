"""The command as a process: nothing of it outlives its lease, whatever happens to us."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest
from harness import Tenure, eventually, listening, pid_in, running, sleeping, stopped, stubborn


def with_grandchild(tmp_path: Path) -> list[str]:
    """A shell that waits for a stubborn process of its own."""
    return ["sh", "-c", f"{shlex.join(stubborn(tmp_path / 'grandchild'))} & echo $$ > {tmp_path}/pid; wait"]


def test_standard_input_passes_untouched(tenure: Tenure) -> None:
    data = os.urandom(1 << 20)
    assert tenure("run", "a", "--ttl", "30s", "--", "cat", stdin=data).out == data


def test_the_environment_of_the_command(tenure: Tenure) -> None:
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    before = time.time()
    result = tenure("run", "a b", "--ttl", "1m30s", "--", sys.executable, "-c", code, env={"TENURE_FENCE": "999", "X": "y\udc80"})
    env = result.json()
    assert env["TENURE_NAME"] == "a b" and env["TENURE_TTL_MS"] == "90000" and env["TENURE_HOLDER"]
    assert env["TENURE_FENCE"].isdigit() and env["TENURE_FENCE"] != "999"
    assert before * 1000 - 1 <= int(env["TENURE_ACQUIRED_UNIX_MS"]) <= time.time() * 1000
    assert env["X"] == "y\udc80"
    again = tenure("run", "a b", "--ttl", "30s", "--", sys.executable, "-c", code).json()
    assert int(again["TENURE_FENCE"]) > int(env["TENURE_FENCE"])


def test_signals_of_the_command_are_as_it_would_find_them_without_us(tenure: Tenure) -> None:
    # Python ignores SIGPIPE for itself; `yes` must still die of it.
    result = tenure("run", "a", "--ttl", "30s", "--", "sh", "-c", "yes | head -1; kill -PIPE $$")
    assert result.code == 128 + signal.SIGPIPE
    masks = tenure("run", "a", "--ttl", "30s", "--", "grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status").out
    assert {line.split()[1].strip(b"0") for line in masks.splitlines()} == {b""}


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGTSTP", "SIGWINCH"])
def test_signals_are_forwarded(tenure: Tenure, tmp_path: Path, name: str) -> None:
    log = tmp_path / "log"
    wrapper = tenure.start("run", "a", "--ttl", "30s", "--", *listening(tmp_path / "pid", log, name))
    pid = pid_in(tmp_path / "pid")
    wrapper.send_signal(getattr(signal, name))
    eventually(lambda: log.exists() and log.read_text() == f"{name}\n")
    assert wrapper.poll() is None and running(pid)
    wrapper.send_signal(signal.SIGTERM if name != "SIGTERM" else signal.SIGINT)
    assert wrapper.wait() == 128 + (signal.SIGTERM if name != "SIGTERM" else signal.SIGINT)
    assert not running(pid)


def test_a_signal_ignored_by_our_parent_stays_ignored(tenure: Tenure, tmp_path: Path) -> None:
    wrapper = tenure.start(
        "run", "a", "--ttl", "30s", "--", *sleeping(tmp_path / "pid"),
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    pid = pid_in(tmp_path / "pid")
    wrapper.send_signal(signal.SIGHUP)
    os.kill(pid, signal.SIGHUP)
    wrapper.terminate()
    assert wrapper.wait() == 128 + signal.SIGTERM


def test_term_to_us_ends_the_command_and_releases(tenure: Tenure, tmp_path: Path) -> None:
    wrapper = tenure.start("run", "a", "--ttl", "60s", "--report", str(tmp_path / "r"), "--", *sleeping(tmp_path / "pid"))
    pid = pid_in(tmp_path / "pid")
    wrapper.terminate()
    assert wrapper.wait() == 128 + signal.SIGTERM
    assert not running(pid)
    assert json.loads((tmp_path / "r").read_text())["released"]
    assert tenure("run", "a", "--ttl", "60s", "--", "true").code == 0


def test_what_the_command_leaves_running_ends_before_the_release(tenure: Tenure, tmp_path: Path) -> None:
    pid_file = tmp_path / "grandchild"
    leaves = f"{shlex.join(stubborn(pid_file))} & while ! test -e {pid_file}; do sleep 0.01; done; exit 5"
    result = tenure("run", "a", "--ttl", "60s", "--grace", "200ms", "--report", "-", "--", "sh", "-c", leaves)
    assert result.code == 5 and "left running" in result.err
    assert not running(pid_in(pid_file))
    assert result.json()["released"] and result.json()["outcome"] == "exited"


def test_kill_to_us_ends_the_command_and_its_grandchildren(tenure: Tenure, tmp_path: Path) -> None:
    wrapper = tenure.start("run", "a", "--ttl", "2s", "--report", str(tmp_path / "r"), "--", *with_grandchild(tmp_path))
    child, grandchild = pid_in(tmp_path / "pid"), pid_in(tmp_path / "grandchild")
    fence = json.loads(tenure("status", "a", "--json").out)["fence"]
    wrapper.kill()
    wrapper.wait()
    eventually(lambda: not running(child) and not running(grandchild))
    # Nobody released it, so the next one waits for its ttl, and is told apart by its fence.
    after = tenure("run", "a", "--ttl", "2s", "--wait", "30s", "--report", "-", "--", "true")
    assert after.code == 0 and after.json()["fence"] > fence


def test_while_we_wait_nothing_of_the_command_outlives_us(tenure: Tenure, tmp_path: Path) -> None:
    holder = tenure.start("run", "a", "--ttl", "30s", "--", *sleeping(tmp_path / "pid"))
    pid_in(tmp_path / "pid")
    waiting = tenure.start("run", "a", "--ttl", "30s", "--wait", "forever", "--", *sleeping(tmp_path / "other"))
    assert waiting.stderr is not None and b"waiting for a" in waiting.stderr.readline()
    forked = _children(waiting.pid)
    assert forked
    waiting.kill()
    eventually(lambda: not any(running(pid) for pid in forked))
    holder.terminate()
    holder.wait()
    assert not (tmp_path / "other").exists()


def test_a_stopped_wrapper_does_not_let_the_command_outlive_the_lease(tenure: Tenure, tmp_path: Path) -> None:
    wrapper = tenure.start("run", "a", "--ttl", "2s", "--", *with_grandchild(tmp_path))
    child, grandchild = pid_in(tmp_path / "pid"), pid_in(tmp_path / "grandchild")
    with stopped(wrapper):
        # What runs second is the witness: it must not find the first one alive.
        witness = f"! kill -0 {grandchild} 2>&- || grep -q 'State:.Z' /proc/{grandchild}/status"
        after = tenure("run", "a", "--ttl", "2s", "--wait", "30s", "--", "sh", "-c", witness)
        assert after.code == 0, after.err
        assert not running(child) and not running(grandchild)
    assert wrapper.wait() == 123


def test_killed_together_with_its_guard_the_command_still_dies(tenure: Tenure, tmp_path: Path) -> None:
    wrapper = tenure.start("run", "a", "--ttl", "30s", "--", *stubborn(tmp_path / "pid"))
    pid = pid_in(tmp_path / "pid")
    for guard in _children(wrapper.pid):
        if guard != pid:
            os.kill(guard, signal.SIGKILL)
    wrapper.kill()
    eventually(lambda: not running(pid))


def test_without_its_guard_a_run_ends_as_ever(tenure: Tenure, tmp_path: Path) -> None:
    wrapper = tenure.start("run", "a", "--ttl", "2s", "--", *sleeping(tmp_path / "pid"))
    pid = pid_in(tmp_path / "pid")
    for guard in _children(wrapper.pid):
        if guard != pid:
            os.kill(guard, signal.SIGKILL)
    # Past some renewals, which it would have been told of.
    time.sleep(2.5)
    wrapper.terminate()
    assert wrapper.wait() == 128 + signal.SIGTERM
    assert tenure("run", "a", "--ttl", "2s", "--", "true").code == 0


def test_nothing_of_ours_is_left_after_a_run(tenure: Tenure, tmp_path: Path) -> None:
    # A pipe that all of them inherit: it ends when the last of them does.
    reading, writing = os.pipe()
    wrapper = tenure.start("run", "a", "--ttl", "30s", "--", "true", pass_fds=[writing])
    os.close(writing)
    wrapper.wait()
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_a_command_may_take_longer_than_its_ttl(tenure: Tenure, tmp_path: Path) -> None:
    wrapper = tenure.start("run", "a", "--ttl", "1s", "--", *sleeping(tmp_path / "pid"))
    pid_in(tmp_path / "pid")
    for _ in range(8):
        assert tenure("run", "a", "--ttl", "1s", "--wait", "500ms", "--", "true").code == 75
    wrapper.terminate()
    assert wrapper.wait() == 128 + signal.SIGTERM


def test_many_at_once_never_overlap(tenure: Tenure, tmp_path: Path) -> None:
    # Each fails if it finds the folder that another one has made and not yet removed.
    alone = f"mkdir {tmp_path}/alone && sleep 0.05 && rmdir {tmp_path}/alone"
    many = [
        tenure.start("run", "a", "--ttl", "30s", "--wait", "forever", "-q", "--", "sh", "-c", alone) for _ in range(12)
    ]
    assert [process.wait() for process in many] == [0] * 12


def test_of_many_cron_jobs_one_runs(tenure: Tenure, tmp_path: Path) -> None:
    """Also if some come so late that the first has long ended: that is what the minimum hold is for."""
    for number in range(3):
        log = tmp_path / f"log{number}"
        job = ["--ttl", "60s", "--min-hold", "60s", "--skip-ok", "-q", "--", "sh", "-c", f"echo ran >> {log}"]
        jobs = [tenure.start("run", f"job{number}", *job) for _ in range(8)]
        assert [process.wait() for process in jobs] == [0] * 8
        assert log.read_text() == "ran\n"


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
