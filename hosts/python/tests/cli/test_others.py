"""`status`, `list` and `break`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from harness import COMMAND, Tenure, pid_in, running, sleeping


@pytest.fixture(params=["sqlite", "redis", "dynamodb"])
def anywhere(tenure: Tenure, request: pytest.FixtureRequest, tmp_path: Path) -> Tenure:
    kind: str = request.param
    if kind == "sqlite":
        return tenure
    # The engine is shared, the names are not: each test has its own.
    url: str = request.getfixturevalue(f"{kind}_url")
    if kind == "dynamodb":
        assert tenure.at(url)("run", "-q", "other", "--ttl", "30s", "--create-table", "--", "true").code == 0
    return tenure.at(url)


def hold(tenure: Tenure, name: str, pid_file: Path) -> subprocess.Popen[bytes]:
    process = tenure.start("run", name, "--ttl", "30s", "--", *sleeping(pid_file))
    pid_in(pid_file)
    return process


def test_status(anywhere: Tenure, tmp_path: Path) -> None:
    assert anywhere("status", "status").code == 3
    holder = hold(anywhere, "status", tmp_path / "pid")
    told = anywhere("status", "status")
    assert told.code == 0 and b"status is held by" in told.out
    found = anywhere("status", "status", "--json").json()
    assert found["held"] and found["holder"].encode() in told.out and found["ttl"] in (30, None)
    holder.terminate()
    holder.wait()
    told = anywhere("status", "status", "--json")
    assert told.code == 3 and not told.json()["held"]


def test_status_of_a_minimum_hold(anywhere: Tenure) -> None:
    assert anywhere("run", "rest", "--ttl", "60s", "--min-hold", "60s", "--", "true").code == 0
    told = anywhere("status", "rest")
    assert told.code == 0 and b"resting" in told.out, told.out
    busy = anywhere("run", "rest", "--ttl", "60s", "--", "true")
    assert busy.code == 75 and "rests" in busy.err


def test_list(anywhere: Tenure, tmp_path: Path) -> None:
    first = hold(anywhere, "list/a", tmp_path / "a")
    second = hold(anywhere, "list/b", tmp_path / "b")
    other = hold(anywhere, "elsewhere", tmp_path / "c")
    names = {json.loads(line)["name"] for line in anywhere("list", "list/", "--json").out.splitlines()}
    assert names == {"list/a", "list/b"}
    held = {json.loads(line)["name"]: json.loads(line)["held"] for line in anywhere("list", "--json").out.splitlines()}
    assert held["list/a"] and held["list/b"] and held["elsewhere"]
    text = anywhere("list", "list/").out.decode()
    assert "list/a\theld by" in text and "list/b\theld by" in text and "elsewhere" not in text
    for process in (first, second, other):
        process.terminate()
        process.wait()


def test_a_list_that_nobody_reads_to_its_end(tenure: Tenure) -> None:
    assert tenure("run", "a", "--ttl", "60s", "--min-hold", "60s", "--", "true").code == 0
    process = subprocess.Popen(
        [*COMMAND, "list"], env=tenure.env(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


def test_break_frees_and_the_holder_hears_of_it(anywhere: Tenure, tmp_path: Path) -> None:
    holder = hold(anywhere, "break", tmp_path / "pid")
    before = anywhere("status", "break", "--json").json()
    shown = anywhere("break", "break")
    assert shown.code == 64 and "--yes" in shown.err
    assert before["holder"] in shown.err and "ends" in shown.err and "known to be dead" in shown.err
    # Redis counts fences beside the records.
    assert before["fence"] is None or f"fence {before['fence']}" in shown.err
    assert anywhere("status", "break", "--json").json()["holder"] == before["holder"]
    done = anywhere("break", "break", "--yes", "--json")
    assert done.code == 0 and before["holder"] in done.err
    change = done.json()
    assert change["broken"] and change["before"]["holder"] == before["holder"] and not change["after"]["held"]
    after = anywhere("run", "break", "--ttl", "30s", "--wait", "30s", "--report", "-", "--", "true")
    assert after.code == 0 and after.json()["fence"] > (before["fence"] or 0)
    assert holder.wait() == 123
    assert not running(pid_in(tmp_path / "pid"))


def test_there_may_be_nothing_to_break(anywhere: Tenure) -> None:
    result = anywhere("break", "nothing", "--json")
    assert result.code == 0 and not result.json()["broken"] and "free" in result.err
