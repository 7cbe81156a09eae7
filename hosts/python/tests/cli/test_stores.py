"""Every kind of store, from its URL; what is shown of a URL; and a store that goes away."""

from __future__ import annotations

import json
import signal
import stat
import tempfile
from pathlib import Path

import pytest
from engines.proxy import HttpProxy, RedisProxy
from engines.servers import Server, redis_server
from harness import Tenure, pid_in, running, sleeping, stubborn

SECRET = "hunter2/with@odd:characters"
QUOTED = "hunter2%2Fwith%40odd%3Acharacters"


def test_the_default_is_a_file_of_this_user(tenure: Tenure) -> None:
    assert tenure("run", "a", "--ttl", "30s", "--", "true").code == 0
    folder = tenure.home / "tenure"
    assert (folder / "leases.sqlite").exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_sqlite_urls(tenure: Tenure, tmp_path: Path) -> None:
    assert tenure("run", "a", "--ttl", "30s", "--store", f"sqlite:///{tmp_path}/abs.db", "--", "true").code == 0
    assert (tmp_path / "abs.db").exists()
    assert tenure("run", "a", "--ttl", "30s", "--store", "sqlite:///rel.db", "--", "true", cwd=tmp_path).code == 0
    assert (tmp_path / "rel.db").exists()


def test_memory(tenure: Tenure) -> None:
    assert tenure.at("memory:")("run", "a", "--ttl", "30s", "--", "sh", "-c", "exit 3").code == 3


def test_redis(tenure: Tenure, redis_url: str, redis_engine: Server, tmp_path: Path) -> None:
    _holds_against_another(tenure.at(redis_url), tmp_path)
    # Another database is another place.
    assert tenure.at(f"redis://127.0.0.1:{redis_engine.port}/1")("list").out == b""


def test_redis_by_socket(tenure: Tenure, tmp_path: Path) -> None:
    # Not in the test's own folder: the path of a socket must be short.
    with tempfile.TemporaryDirectory() as folder, redis_server("redis86", "--unixsocket", f"{folder}/s"):
        _holds_against_another(tenure.at(f"unix://{folder}/s?db=2"), tmp_path)


def test_dynamodb_with_and_without_its_table(tenure: Tenure, dynamodb_engine: Server, tmp_path: Path) -> None:
    there = tenure.at(f"dynamodb://eu-central-1/made-on-demand?endpoint={dynamodb_engine.endpoint}")
    missing = there("run", "a", "--ttl", "30s", "--", "true")
    assert missing.code == 78 and "--create-table" in missing.err, missing.err
    assert there("status", "a").code == 78
    for _ in range(2):
        assert there("run", "a", "--ttl", "30s", "--create-table", "--", "true").code == 0
    _holds_against_another(there, tmp_path)


def test_only_dynamodb_has_tables(tenure: Tenure) -> None:
    result = tenure("run", "a", "--ttl", "30s", "--create-table", "--", "true")
    assert result.code == 78 and "DynamoDB" in result.err


def _holds_against_another(tenure: Tenure, tmp_path: Path) -> None:
    holder = tenure.start("run", "a", "--ttl", "30s", "--", *sleeping(tmp_path / "pid"))
    pid_in(tmp_path / "pid")
    assert tenure("run", "a", "--ttl", "30s", "--", "true").code == 75
    assert tenure("status", "a").code == 0
    holder.send_signal(signal.SIGTERM)
    assert holder.wait() == 128 + signal.SIGTERM
    assert tenure("run", "a", "--ttl", "30s", "--", "true").code == 0
    assert tenure("status", "a").code == 3


# --- credentials ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def locked_url() -> object:
    with redis_server("redis86", "--requirepass", SECRET) as server:
        yield f"redis://:{QUOTED}@127.0.0.1:{server.port}/0"


def test_a_password_reaches_neither_arguments_nor_messages_nor_the_command(
    tenure: Tenure, locked_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "store"
    file.write_text(locked_url + "\n")
    everything = "cat /proc/self/environ /proc/$PPID/cmdline /proc/$PPID/task/*/children; ls -l /proc/self/fd"
    run = ["run", "a", "--ttl", "30s"]
    for result in (
        tenure(*run, "--store-file", str(file), "--report", "-", "--", "sh", "-c", everything),
        tenure.at(locked_url)(*run, "--report", "-", "--", "sh", "-c", everything),
    ):
        assert result.code == 0 and result.err == ""
        assert b"TENURE_NAME" in result.out
        assert b"hunter2" not in result.out and b"TENURE_STORE=" not in result.out


def test_a_store_without_password_stays_for_nested_use(tenure: Tenure, redis_url: str) -> None:
    result = tenure.at(redis_url)("run", "a", "--ttl", "30s", "--", "printenv", "TENURE_STORE")
    assert result.out.decode().strip() == redis_url


def test_a_password_in_an_argument_is_warned_of(tenure: Tenure, locked_url: str) -> None:
    result = tenure("run", "a", "--ttl", "30s", "--store", locked_url, "--", "true")
    assert result.code == 0 and "--store-file" in result.err and "hunter2" not in result.err


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2@127.0.0.1:1/0",
        "redis://me:hunter2@127.0.0.1:1/0",
        "redis://127.0.0.1:1/0?password=hunter2",
        "redis://me:hunter2/hunter2@127.0.0.1:1/0",
        "redis://me:hunter2@127.0.0.1:hunter2/0",
        "redis://me:hunter2@127.0.0.1:1/0?nonsense=1",
        "ftp://me:hunter2@host/",
        "sqlite://me:hunter2@host/",
        "dynamodb://me:hunter2@region/",
        "redis://[me:hunter2@host",
    ],
)
def test_whatever_is_wrong_with_a_url_its_password_is_not_shown(tenure: Tenure, url: str) -> None:
    for args in (["run", "a", "--ttl", "2s", "--report", "-", "--", "true"], ["status", "a"], ["list"]):
        result = tenure.at(url)(*args)
        assert result.code in (69, 78), result.err
        # As a port it is no password to anybody, and still not worth showing.
        assert "hunter2" not in result.err and b"hunter2" not in result.out
        assert "Traceback" not in result.err


def test_a_wrong_password_is_not_shown_either(tenure: Tenure, locked_url: str) -> None:
    result = tenure.at(locked_url.replace("hunter2", "hunter3"))("run", "a", "--ttl", "30s", "--", "true")
    assert result.code in (69, 78) and "hunter" not in result.err


# --- a store that goes away -----------------------------------------------------------------------------------


def test_redis_that_goes_away(tenure: Tenure, redis_engine: Server, redis_url: str, tmp_path: Path) -> None:
    with RedisProxy(redis_engine.port) as wire:
        behind = tenure.at(f"redis://127.0.0.1:{wire.port}/0")
        _dead_before_another_can_acquire(behind, wire, tenure.at(redis_url), tmp_path)


def test_dynamodb_that_goes_away(tenure: Tenure, dynamodb_engine: Server, dynamodb_url: str, tmp_path: Path) -> None:
    with HttpProxy(dynamodb_engine.port) as wire:
        behind = tenure.at(f"dynamodb://eu-central-1/leases?endpoint={wire.endpoint}")
        _dead_before_another_can_acquire(behind, wire, tenure.at(dynamodb_url), tmp_path, "--create-table")


def test_redis_that_hangs(tenure: Tenure, tmp_path: Path) -> None:
    with redis_server("valkey91") as server:
        holder = tenure.at(f"redis://127.0.0.1:{server.port}/0").start(
            "run", "a", "--ttl", "2s", "--report", str(tmp_path / "r"), "--", *stubborn(tmp_path / "pid")
        )
        pid = pid_in(tmp_path / "pid")
        server.pause()
        assert holder.wait() == 123
        assert not running(pid)
        server.resume()


def _dead_before_another_can_acquire(
    behind: Tenure, wire: RedisProxy | HttpProxy, direct: Tenure, tmp_path: Path, *options: str
) -> None:
    holder = behind.start(
        "run", "gone", "--ttl", "3s", *options, "--report", str(tmp_path / "r"), "--", *stubborn(tmp_path / "pid")
    )
    pid = pid_in(tmp_path / "pid")
    witness = f"! kill -0 {pid} 2>&- || grep -q 'State:.Z' /proc/{pid}/status"
    other = direct.start("run", "gone", "--ttl", "3s", "--wait", "forever", "--report", "-", "--", "sh", "-c", witness)
    assert other.stderr is not None and b"waiting for gone" in other.stderr.readline()
    wire.down()
    out, err = other.communicate()
    assert other.returncode == 0, err
    assert holder.wait() == 123
    report = json.loads((tmp_path / "r").read_text())
    assert report["outcome"] == "lost" and report["lost_reason"] and report["child_status"] == -9
    assert json.loads(out)["fence"] > report["fence"]
