"""One case for each exit code, and the report that tells it from the command's own."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from engines.ports import free_port
from harness import COMMAND, Tenure, pid_in, sleeping, stubborn


def test_the_commands_own(tenure: Tenure) -> None:
    for code in (0, 1, 7, 75, 123, 255):
        assert tenure("run", "a", "--ttl", "30s", "--", "sh", "-c", f"exit {code}").code == code


def test_a_run_that_goes_well_says_nothing(tenure: Tenure) -> None:
    result = tenure("run", "a", "--ttl", "30s", "--", "echo", "hello")
    assert (result.code, result.out, result.err) == (0, b"hello\n", "")


def test_a_command_that_dies_of_a_signal(tenure: Tenure) -> None:
    result = tenure("run", "a", "--ttl", "30s", "--report", "-", "--", "sh", "-c", "kill -9 $$")
    assert result.code == 137
    assert (result.json()["outcome"], result.json()["child_status"]) == ("signaled", -9)


def test_busy_is_75_and_says_who(tenure: Tenure, tmp_path: Path) -> None:
    holder = tenure.start("run", "billing", "--ttl", "30s", "--report", str(tmp_path / "r"), "--", *sleeping(tmp_path / "pid"))
    pid_in(tmp_path / "pid")
    busy = tenure("run", "billing", "--ttl", "30s", "--report", "-", "--", "echo", "ran")
    assert busy.code == 75 and b"ran" not in busy.out
    report = busy.json()
    assert (report["outcome"], report["child_status"]) == ("busy", None)
    assert "billing is held by" in busy.err and report["holder"] in busy.err and "ends in" in busy.err
    assert len(busy.err.splitlines()) == 1
    assert tenure("run", "billing", "--ttl", "30s", "-E", "9", "--", "true").code == 9
    assert tenure("run", "billing", "--ttl", "30s", "--busy-exit", "10", "--", "true").code == 10
    quiet = tenure("run", "billing", "--ttl", "30s", "-q", "--skip-ok", "--", "true")
    assert (quiet.code, quiet.err) == (0, "")
    waited = tenure("run", "billing", "--ttl", "30s", "--wait", "300ms", "--report", "-", "--", "true")
    assert waited.code == 75 and waited.json()["waited_ms"] >= 300
    assert "waiting for billing" in waited.err
    holder.terminate()
    assert holder.wait() == 128 + signal.SIGTERM
    own = json.loads((tmp_path / "r").read_text())
    assert own["holder"] == report["holder"] and own["fence"] == report["fence"]


def test_a_wait_ends_when_it_is_free(tenure: Tenure, tmp_path: Path) -> None:
    holder = tenure.start("run", "a", "--ttl", "30s", "--", *sleeping(tmp_path / "pid"))
    pid_in(tmp_path / "pid")
    waiting = tenure.start("run", "a", "--ttl", "30s", "--wait", "forever", "--", "true")
    assert waiting.stderr is not None and b"waiting for a" in waiting.stderr.readline()
    holder.terminate()
    assert waiting.wait() == 0


def test_max_runtime_is_124_also_for_a_command_that_ignores_term(tenure: Tenure, tmp_path: Path) -> None:
    limits = ["--max-runtime", "500ms", "--grace", "200ms"]
    result = tenure("run", "a", "--ttl", "30s", *limits, "--report", "-", "--", *stubborn(tmp_path / "pid"))
    assert result.code == 124
    report = result.json()
    assert report["outcome"] == "max_runtime" and report["child_status"] == -9 and report["released"]
    assert report["held_ms"] >= 500


def test_lost_is_123(tenure: Tenure, tmp_path: Path) -> None:
    for expected, options in ((123, []), (42, ["--lost-exit", "42"])):
        (tmp_path / "pid").unlink(missing_ok=True)
        holder = tenure.start(
            "run", "a", "--ttl", "2s", *options, "--report", str(tmp_path / "r"), "--", *stubborn(tmp_path / "pid")
        )
        pid_in(tmp_path / "pid")
        assert tenure("break", "a", "--yes").code == 0
        assert holder.wait() == expected
        report = json.loads((tmp_path / "r").read_text())
        assert report["outcome"] == "lost" and report["lost_reason"] and not report["released"]


def test_cannot_execute_and_not_found(tenure: Tenure, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no program")
    result = tenure("run", "a", "--ttl", "30s", "--report", "-", "--", str(tmp_path / "file"))
    assert result.code == 126 and "Permission denied" in result.err
    assert (result.json()["outcome"], result.json()["child_status"]) == ("not_started", None)
    assert tenure("run", "a", "--ttl", "30s", "--", str(tmp_path / "none")).code == 127
    result = tenure("run", "a", "--ttl", "30s", "--", "no-such-program-anywhere")
    assert result.code == 127 and "no-such-program-anywhere: not found" in result.err
    # Found, but what it names as its interpreter is not.
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    assert tenure("run", "a", "--ttl", "30s", "--", str(script)).code == 127
    assert tenure("status", "a").code == 3


def test_a_store_that_does_not_answer_is_69(tenure: Tenure) -> None:
    nobody = free_port()
    for url in (f"redis://127.0.0.1:{nobody}/0", f"dynamodb://here/leases?endpoint=http://127.0.0.1:{nobody}"):
        result = tenure.at(url)("run", "a", "--ttl", "2s", "--report", "-", "--", "echo", "ran")
        assert (result.code, result.json()["outcome"]) == (69, "store_unreachable"), result.err
        assert b"ran" not in result.out and len(result.err.splitlines()) == 1
        assert tenure.at(url)("status", "a").code == 69


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "usage"),
        (["frobnicate"], "frobnicate"),
        (["run", "a", "--ttl", "30s"], "put --"),
        (["run", "a", "--ttl", "30s", "--"], "put --"),
        (["run", "a", "--", "true"], "--ttl"),
        (["run", "a", "--ttl", "30", "--", "true"], "did you mean 30s?"),
        (["run", "a", "--ttl", "0", "--", "true"], "more than 0"),
        (["run", "a", "--ttl", "soon", "--", "true"], "soon"),
        (["run", "a", "--ttl", "30s", "--wait", "10", "--", "true"], "did you mean 10s?"),
        (["run", "a", "--ttl", "30s", "--min-hold", "10", "--", "true"], "did you mean 10s?"),
        (["run", "a", "--ttl", "30s", "--grace", "30s", "--", "true"], "--grace"),
        (["run", "a", "--ttl", "30s", "--grace", "15s", "--", "true"], "--grace"),
        (["run", "a", "--ttl", "30s", "-E", "256", "--", "true"], "256"),
        (["run", "a", "--tt", "30s", "--", "true"], "--ttl"),
        (["run", "", "--ttl", "30s", "--", "true"], "name"),
    ],
)
def test_usage_is_64(tenure: Tenure, args: list[str], says: str) -> None:
    result = tenure(*args)
    assert (result.code, says in result.err) == (64, True), result.err


@pytest.mark.parametrize("words", [["--wait", "0"], ["--min-hold", "0"], ["--wait", "1m30s"], ["--ttl", "forever"]])
def test_durations_that_are_fine(tenure: Tenure, words: list[str]) -> None:
    assert tenure("run", "a", "--ttl", "30s", *words, "--", "true").code == 0


@pytest.mark.parametrize(
    "url",
    ["ftp://host/", "nonsense", "dynamodb://region", "dynamodb://region/t?x=1", "sqlite://", "sqlite://host/x", "redis://h:port/0"],
)
def test_a_bad_store_is_78(tenure: Tenure, url: str) -> None:
    result = tenure("run", "a", "--ttl", "30s", "--store", url, "--report", "-", "--", "true")
    assert (result.code, result.json()["outcome"]) == (78, "config"), result.err


def test_a_store_file_or_a_report_that_cannot_be_opened_is_78(tenure: Tenure, tmp_path: Path) -> None:
    assert tenure("status", "a", "--store-file", str(tmp_path / "none")).code == 78
    report = str(tmp_path / "none" / "report")
    result = tenure("run", "a", "--ttl", "30s", "--report", report, "--", "echo", "ran")
    assert result.code == 78 and result.out == b""


def test_a_signal_before_the_command_starts(tenure: Tenure, tmp_path: Path) -> None:
    holder = tenure.start("run", "a", "--ttl", "30s", "--", *sleeping(tmp_path / "pid"))
    pid_in(tmp_path / "pid")
    waiting = tenure.start("run", "a", "--ttl", "30s", "--wait", "forever", "--report", "-", "--", "echo", "ran")
    assert waiting.stderr is not None and b"waiting for a" in waiting.stderr.readline()
    waiting.terminate()
    out, err = waiting.communicate()
    assert waiting.returncode == 128 + signal.SIGTERM and b"Traceback" not in err
    assert json.loads(out)["outcome"] == "interrupted"
    holder.terminate()
    holder.wait()
    # It left nothing in the way.
    assert tenure("run", "a", "--ttl", "30s", "--", "true").code == 0


def test_nested_use_of_the_same_name_is_64_and_no_deadlock(tenure: Tenure) -> None:
    inner = [*("--", *COMMAND, "run"), "a", "--ttl", "30s", "--wait", "forever", "--", "true"]
    result = tenure("run", "a", "--ttl", "30s", *inner)
    assert result.code == 64 and "wait for itself" in result.err
    # Through another name in between too, but not for other names or other stores.
    between = ["--", *COMMAND, "run", "b", "--ttl", "30s"]
    assert tenure("run", "a", "--ttl", "30s", *between, *inner).code == 64
    assert tenure("run", "a", "--ttl", "30s", *between, "--", "true").code == 0
    elsewhere = ["--", *COMMAND, "run", "a", "--ttl", "30s", "--store", "memory:", "--", "true"]
    assert tenure("run", "a", "--ttl", "30s", *elsewhere).code == 0


def test_version_and_help(tenure: Tenure) -> None:
    assert tenure("--version").out.startswith(b"tenure ")
    assert b"examples:" in tenure("--help").out
    for command in ("run", "status", "list", "break"):
        result = tenure(command, "--help")
        assert result.code == 0 and b"sqlite:////absolute/path" in b" ".join(result.out.split())


def test_what_comes_after_the_dashes_is_the_commands(tenure: Tenure) -> None:
    result = tenure("run", "a", "--ttl", "30s", "--", "echo", "--ttl", "x", "--", "-q")
    assert result.out == b"--ttl x -- -q\n"
