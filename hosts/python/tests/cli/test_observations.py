"""What one command saw and the next one needs."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from pathlib import Path

from harness import Tenure, eventually, pid_in, running, sleeping

from tenure import Observation
from tenure.cli.observations import FileObservations

SEEN = Observation(*("x" if kind == "str" else 1 for kind in map(str, Observation.__annotations__.values())))


def test_they_come_back(tmp_path: Path) -> None:
    kept = FileObservations(tmp_path / "new" / "folder", "store")
    assert kept.load("a") is None
    kept.save("a", SEEN)
    assert kept.load("a") == SEEN
    assert FileObservations(tmp_path / "new" / "folder", "store").load("a") == SEEN
    for other in ("b", "A", "a ", "../a", "x" * 10_000, "\0", "\N{SNOWMAN}"):
        assert kept.load(other) is None
        kept.save(other, SEEN)
        assert kept.load(other) == SEEN
        kept.forget(other)
        assert kept.load(other) is None
    assert FileObservations(tmp_path / "new" / "folder", "other").load("a") is None
    kept.forget("never there")


def test_only_their_user_can_read_them(tmp_path: Path) -> None:
    kept = FileObservations(tmp_path / "folder", "store")
    kept.save("a", SEEN)
    (file,) = (tmp_path / "folder").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o700
    assert "a" not in file.stem.split("-")


def test_what_is_not_ours_is_ignored(tmp_path: Path) -> None:
    kept = FileObservations(tmp_path, "store")
    kept.save("a", SEEN)
    (file,) = tmp_path.iterdir()
    whole = file.read_text()
    good = json.loads(whole)
    spoiled = [
        "", "null", "[]", "{}", "\0" * 100, whole[: len(whole) // 2],
        json.dumps({**good, "name": "b"}), json.dumps({**good, "store": "other"}), json.dumps({**good, "fields": ["x"]}),
        json.dumps({**good, "observation": good["observation"][1:]}), json.dumps({**good, "observation": None}),
    ]  # fmt: skip
    for text in spoiled:
        file.write_text(text)
        assert kept.load("a") is None
    file.write_bytes(b"\xff\xfe\xff")
    assert kept.load("a") is None
    kept.save("a", SEEN)
    assert kept.load("a") == SEEN


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = FileObservations(tmp_path / "file" / "folder", "store")
    kept.save("a", SEEN)
    assert kept.load("a") is None
    kept.forget("a")


def test_old_ones_go(tmp_path: Path) -> None:
    FileObservations(tmp_path, "store").save("old", SEEN)
    FileObservations(tmp_path, "store").save("new", SEEN)
    (old,) = [path for path in tmp_path.iterdir() if json.loads(path.read_text())["name"] == "old"]
    month_ago = time.time() - 30 * 24 * 3600
    os.utime(old, (month_ago, month_ago))
    FileObservations(tmp_path, "store").save("newer", SEEN)
    kept = FileObservations(tmp_path, "store")
    assert [kept.load(name) for name in ("old", "new", "newer")] == [None, SEEN, SEEN]


def test_their_number_has_a_bound(tmp_path: Path) -> None:
    for number in range(4200):
        (tmp_path / f"{number}.json").write_text("{}")
    FileObservations(tmp_path, "store").save("a", SEEN)
    assert len(list(tmp_path.iterdir())) <= 4097
    assert FileObservations(tmp_path, "store").load("a") == SEEN


def test_a_cron_job_that_never_waits_takes_over_from_a_dead_holder(
    tenure: Tenure, dynamodb_url: str, tmp_path: Path
) -> None:
    tenure = tenure.at(dynamodb_url)
    ttl = 3.0
    run = ["run", "cron", "--ttl", f"{ttl:.0f}s", "--create-table", "--report", "-", "--"]
    holder = tenure.start(*run, *sleeping(tmp_path / "pid"))
    child = pid_in(tmp_path / "pid")
    fence = tenure("status", "cron", "--json").json()["fence"]
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    eventually(lambda: not running(child))

    first_sight: float | None = None
    while True:
        began = time.monotonic()
        result = tenure(*run, "true")
        if result.code == 0:
            break
        assert result.code == 75, result.err
        first_sight = first_sight or time.monotonic()
        # The first try after the ttl and its margins must be the one; this one came later.
        assert began < first_sight + 1.5 * ttl, "it was not taken over"
        time.sleep(ttl / 3)
    assert first_sight is not None and time.monotonic() > first_sight + ttl
    assert result.json()["fence"] > fence


def test_without_what_was_seen_before_no_look_can_tell(tenure: Tenure, dynamodb_url: str, tmp_path: Path) -> None:
    tenure = tenure.at(dynamodb_url)
    run = ["run", "forgetful", "--ttl", "1s", "--create-table", "--"]
    holder = tenure.start(*run, *sleeping(tmp_path / "pid"))
    pid_in(tmp_path / "pid")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    for number in range(4):
        assert tenure(*run, "true", env={"XDG_STATE_HOME": str(tmp_path / str(number))}).code == 75
        time.sleep(0.7)
