"""The vectors of `tests/vectors/`, which the core wrote down, repeated by the binding value by value."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from vectors_help import Json, Mismatch, config_of, is_list, is_object, play, whole

from tenure import _core

FOLDER = Path(__file__).resolve().parents[4] / "tests" / "vectors"
FILES: dict[str, Json] = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))}


def scenarios() -> Iterator[Any]:
    for name, file in FILES.items():
        for scenario in file.get("scenarios", []):
            yield pytest.param(scenario, file.get("texts", {}), id=f"{name}: {scenario['name']}")


@pytest.mark.parametrize(("scenario", "texts"), list(scenarios()))
def test_the_binding_does_what_the_core_did(scenario: Json, texts: dict[str, str]) -> None:
    play(scenario, texts)


def refused_with(action: Callable[[], object]) -> Json:
    try:
        action()
    except ValueError as error:
        field, why = error.args
        return {"field": field, "why": why}
    return None


@pytest.mark.parametrize("vector", FILES["refusals"]["configs"], ids=lambda vector: json.dumps(vector["config"]))
def test_settings_are_refused_as_the_core_refuses_them(vector: Json) -> None:
    expected = vector["expected"]
    assert refused_with(lambda: config_of(vector["config"])) == expected.get("error")
    if "error" not in expected:
        assert config_of(vector["config"]).call_timeout_us == whole(expected["call_timeout_us"])


@pytest.mark.parametrize("vector", FILES["refusals"]["names"])
def test_names_are_refused_as_the_core_refuses_them(vector: Json) -> None:
    assert refused_with(lambda: _core.check_name(vector["name"])) == vector["expected"]["error"]


@pytest.mark.parametrize("vector", FILES["refusals"]["holders"])
def test_holder_ids_are_refused_as_the_core_refuses_them(vector: Json) -> None:
    assert refused_with(lambda: _core.check_holder(vector["holder"])) == vector["expected"]["error"]


# --- the replay can fail --------------------------------------------------------------------------------------


def leaves(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value that has no parts."""
    if is_object(value):
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    elif is_list(value):
        for at, part in enumerate(value):
            yield from leaves(part, (*path, at))
    else:
        yield path


def with_another(scenario: Json, step: int, path: tuple[Any, ...]) -> Json:
    """The scenario with one value of what it expects changed a little."""
    changed = copy.deepcopy(scenario)
    place = changed["steps"][step]["expected"]
    for key in path[:-1]:
        place = place[key]
    old = place[path[-1]]
    place[path[-1]] = something(path) if old is None else other(old)
    return changed


def something(path: tuple[Any, ...]) -> Json:
    """Something in place of nothing."""
    if path == ("call",):
        return {"id": 1, "give_up_at_us": 1, "request": None}
    return {"kind": "released"} if path[-1] in {"event", "row", "grant", "observation"} else 1


def other(value: bool | int | str) -> bool | int | str:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else f"{value}1"


@pytest.mark.parametrize("name", [name for name, file in FILES.items() if "scenarios" in file])
def test_no_value_of_a_vector_can_change_without_notice(name: str) -> None:
    file = FILES[name]
    texts = file.get("texts", {})
    tried = 0
    for scenario in file["scenarios"][:6]:
        for step, vector in enumerate(scenario["steps"]):
            for path in leaves(vector["expected"]):
                with pytest.raises(Mismatch):
                    play(with_another(scenario, step, path), texts)
                tried += 1
    assert tried > 100


def test_there_are_vectors_for_every_wire() -> None:
    wires = {scenario["wire"] for file in FILES.values() for scenario in file.get("scenarios", [])}
    assert wires == {"dynamodb", "local", "redis"}
    assert all(scenario["steps"] for file in FILES.values() for scenario in file.get("scenarios", []))
