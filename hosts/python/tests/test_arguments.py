"""Bad input is refused with a typed error that says what to do, before anything is written."""

from __future__ import annotations

import math
import pickle
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tenure


@pytest.mark.parametrize(
    "ttl",
    [0, 0.0, -1, math.nan, math.inf, 0.009, 0.0005, 2**53, "30", "", "soon", "-1s", None, [], True],
)
def test_a_ttl_that_cannot_work_is_refused(store: tenure.Store, name: str, ttl: Any) -> None:
    with pytest.raises(tenure.ConfigError) as error:
        store.acquire(name, ttl)
    assert error.value.field == "ttl"
    assert not store.status(name).held


@pytest.mark.parametrize("ttl", [0.01, 1, timedelta(milliseconds=250), "1m30s", "500ms", "forever"])
def test_a_ttl_of_any_form_works(ttl: Any) -> None:
    tenure.memory().acquire("a", ttl).release()


@pytest.mark.parametrize("bad", ["", "x" * 2049])
def test_a_name_that_stores_cannot_hold_is_refused(store: tenure.Store, bad: str) -> None:
    with pytest.raises(tenure.ConfigError) as error:
        store.acquire(bad, 30)
    assert error.value.field == "name"


def test_the_longest_name_and_names_of_any_script_work(store: tenure.Store, name: str) -> None:
    for good in (name.ljust(2048, "x"), f"{name} ключ/鍵 {{}}*?[a]\\", f"{name}'\";--"):
        with store.lease(good, 30):
            assert store.status(good).held
        assert not store.status(good).held


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"renew_interval": 20}, "renew_interval"),
        ({"poll_interval": 0}, "poll_interval"),
        ({"call_timeout": 0}, "call_timeout"),
        ({"rate_error": 0.5}, "rate_error"),
        ({"rate_error": -1}, "rate_error"),
        ({"holder": "a b"}, "holder"),
        ({"holder": ""}, "holder"),
    ],
)
def test_settings_that_cannot_work_are_refused(options: Any, field: str) -> None:
    with pytest.raises(tenure.ConfigError) as error:
        tenure.memory(**options).acquire("a", 30)
    assert error.value.field == field


@pytest.mark.parametrize("wait", [-1, math.nan, "10", "soon"])
def test_a_wait_that_makes_no_sense_is_refused(wait: Any) -> None:
    with pytest.raises(tenure.ConfigError) as error:
        tenure.memory().acquire("a", 30, wait=wait)
    assert error.value.field == "wait"


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("not a database, but long enough to be mistaken for one" * 100)
    with pytest.raises(tenure.ConfigError):
        tenure.sqlite(path)
    with pytest.raises(tenure.ConfigError):
        tenure.sqlite(tmp_path / "no" / "such" / "folder" / "file")
    with pytest.raises(tenure.ConfigError):
        tenure.sqlite(":memory:")


@pytest.mark.parametrize(
    "error",
    [
        tenure.Busy("a", "b", 3, 1.5, "resting"),
        tenure.Lost("a", 3, "taken", "b"),
        tenure.StoreError(OSError("down"), "start it"),
        tenure.StoreError("WRONGTYPE"),
        tenure.OutcomeUnknown("acquire", TimeoutError("slow")),
        tenure.ConfigError("ttl", "must be at least 10 ms"),
    ],
)
def test_errors_survive_pickling_with_their_fields(error: tenure.TenureError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    fields = {k: v for k, v in vars(error).items() if not k.startswith("_") and k != "cause"}
    assert fields == {k: v for k, v in vars(copy).items() if not k.startswith("_") and k != "cause"}


def test_an_error_whose_cause_cannot_be_pickled_can_be() -> None:
    class Local(Exception):
        def __init__(self) -> None:
            super().__init__("held by a lock")
            self.lock = threading.Lock()

    copy = pickle.loads(pickle.dumps(tenure.StoreError(Local())))
    assert "held by a lock" in str(copy)


def test_busy_and_store_errors_are_never_the_same_class() -> None:
    assert not issubclass(tenure.Busy, tenure.StoreError)
    assert not issubclass(tenure.StoreError, tenure.Busy)
    assert issubclass(tenure.OutcomeUnknown, tenure.StoreError)
