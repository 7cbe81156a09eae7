"""Repeats a vector: its inputs go into the binding, and what comes out is compared value by value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from tenure import _core

# Whatever JSON may hold; only the vectors say what that is.
Json = Any


class Mismatch(AssertionError):
    """The binding does not do what a vector says."""


def is_object(value: Json) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_list(value: Json) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


# --- values ---------------------------------------------------------------------------------------------------


def whole(number: int | str | None) -> int | None:
    """An integer; decimal text if a double could not hold it."""
    return None if number is None else int(number)


def sure(number: int | str) -> int:
    return int(number)


def raw_bytes(value: str | dict[str, str]) -> bytes:
    return value.encode() if isinstance(value, str) else bytes.fromhex(value["hex"])


def reply(value: Json) -> Json:
    """A reply of a Redis server, as a Python client shows it; an error as the binding wants it."""
    if is_list(value):
        return [reply(part) for part in value]
    if is_object(value):
        if "error" in value:
            return (value["error"],)
        return int(value["int"]) if "int" in value else raw_bytes(value)
    return value.encode() if isinstance(value, str) else value


def reading(now: Json) -> tuple[int, int | None, bytes]:
    return sure(now["mono_us"]), whole(now["wall_us"]), int(now["entropy"], 16).to_bytes(16, "big")


def row(value: Json) -> Json:
    return None if value is None else numbers(value)


def numbers(value: dict[str, Json]) -> tuple[Json, ...]:
    """The parts of an answer in their order, with integers for what has a unit and for fences."""
    return tuple(whole(part) if key.endswith("_us") or key == "fence" else part for key, part in value.items())


def raw(value: Json) -> Json:
    """What names a record: the texts of a row, or a value."""
    return tuple(value) if is_list(value) else None if value is None else raw_bytes(value)


def wanted_request(wire: str, request: Json, texts: dict[str, str]) -> Json:
    if request is None or wire == "local":
        return request
    if wire == "dynamodb":
        return request["operation"], request["parameters"]
    return [[argument(part, texts) for part in command] for command in request["commands"]], request["transaction"]


def argument(part: str | dict[str, str], texts: dict[str, str]) -> bytes:
    """An argument of a Redis command. Long texts stand in the vectors by a name."""
    return raw_bytes(texts.get(part, part) if isinstance(part, str) else part)


# --- steps ----------------------------------------------------------------------------------------------------


def config_of(config: Json) -> _core.Config:
    return _core.Config(
        config["expiry"],
        whole(config["ttl_us"]),
        sure(config["max_clock_skew_us"]),
        config["per_claim"],
        whole(config["renew_interval_us"]),
        whole(config["poll_interval_us"]),
        whole(config["call_timeout_us"]),
        config["rate_error_ppm"],
        sure(config["min_hold_us"]),
        None if config["clock"] is None else int(config["clock"], 16),
    )


def lease_of(scenario: Json) -> _core.Lease:
    config, lease = config_of(scenario["config"]), scenario["lease"]
    if scenario["wire"] == "dynamodb":
        sort_key = lease["sort_key"]
        return _core.Lease.dynamodb(
            config, lease["name"], lease["holder"], lease["hash_key"], None if sort_key is None else tuple(sort_key)
        )
    if scenario["wire"] == "redis":
        client = _core.RedisClient(lease["fence"])
        return _core.Lease.redis(config, lease["name"], lease["holder"], client, lease["fence_key"])
    return _core.Lease.local(config, lease["name"], lease["holder"])


def call(lease: _core.Lease, now: tuple[int, int | None, bytes], given: Json) -> Json:
    """The method of the binding that an input names, with its arguments."""
    inputs: dict[str, Callable[[], Json]] = {
        "acquire": lambda: lease.acquire(now, whole(given["wait_us"])),
        "renew": lambda: lease.renew(now, None if given["new_ttl"] is None else (whole(given["new_ttl"]["ttl_us"]),)),
        "release": lambda: lease.release(now),
        "cancel": lambda: lease.cancel(now),
        "hand_over": lambda: lease.hand_over(now, given["to"]),
        "break": lambda: lease.break_(now, given["identity"], raw(given["raw"])),
        "tick": lambda: lease.tick(now),
        "wake": lambda: lease.wake(now),
        "observe": lambda: lease.observe(now, observation(given["observation"])),
        "unknown": lambda: lease.unknown(now, given["call_id"]),
        "unavailable": lambda: lease.unavailable(now, given["call_id"], given["lasting"]),
        "item": lambda: lease.item(now, given["call_id"], given["how"], given["item"]),
        "error": lambda: lease.error(now, given["call_id"], given["code"], given["status"]),
        "replies": lambda: lease.replies(now, given["call_id"], reply(given["replies"])),
        "carried": lambda: lease.carried(now, given["call_id"]),
        "grant": lambda: lease.grant(now[0], now[1]),
        "observation": lambda: lease.observation(now[0], now[1]),
    }
    return inputs[given["method"]]()


def observation(value: Json) -> tuple[str, int, int, str | None, int, int | None]:
    return (
        value["identity"],
        sure(value["ttl_us"]),
        sure(value["proven_for_us"]),
        value["clock"],
        sure(value["mono_us"]),
        whole(value["wall_us"]),
    )


def carry_out(lease: _core.Lease, given: Json) -> Json:
    return lease.carry_out(
        given["call_id"],
        row(given["row"]),
        sure(given["store_us"]),
        sure(given["fence_floor"]),
        given["machine"],
        given["boot"],
    )


def same(what: str, got: Json, wanted: Json) -> None:
    # `True == 1`, so that the types are compared too.
    if repr(got) != repr(wanted) and (got != wanted or shape(got) != shape(wanted)):
        raise Mismatch(f"{what}: got {got!r}, wanted {wanted!r}")


def shape(value: Json) -> Json:
    """Of what types it is made."""
    if is_object(value):
        return {key: shape(part) for key, part in value.items()}
    if is_list(value):
        return [shape(part) for part in value]
    return value.__class__


def play(scenario: Json, texts: dict[str, str]) -> None:
    """Repeats a scenario. A `Mismatch` names the first step that is not as it was written down."""
    lease = lease_of(scenario)
    for number, step in enumerate(scenario["steps"], 1):
        where = f"{scenario['name']}, step {number} ({step['input']['method']})"
        try:
            play_step(lease, scenario["wire"], step, texts)
        except Mismatch as mismatch:
            raise Mismatch(f"{where}: {mismatch}") from None


def play_step(lease: _core.Lease, wire: str, step: Json, texts: dict[str, str]) -> None:
    given, expected = step["input"], step["expected"]
    carries = given["method"] == "carry_out"
    try:
        got = carry_out(lease, given) if carries else call(lease, reading(step["now"]), given)
    except ValueError as error:
        # An error that is not about a field of ours is told in the binding's own words.
        wanted = tuple(expected.get("error", {"unexpected": error}).values())
        return same("error", error.args if wanted else (), wanted)
    if "error" in expected:
        raise Mismatch(f"no error: {expected['error']!r}")
    for answer in ("row", "grant", "observation"):
        if answer in expected:
            wanted = expected[answer]
            return same(answer, got, None if wanted is None else numbers(wanted))
    made, event, wake_at = got
    wanted_call = expected["call"]
    if wanted_call is not None:
        request = wanted_request(wire, wanted_call["request"], texts)
        wanted_call = (wanted_call["id"], sure(wanted_call["give_up_at_us"]), request)
    same("call", made, wanted_call)
    same("event", event, None if expected["event"] is None else numbers(expected["event"]))
    same("wake_at_us", wake_at, whole(expected["wake_at_us"]))
    same("state", lease.state(), expected["state"])
    same("complaint", lease.complaint(), expected.get("complaint"))
    if made is not None:
        same("awaited", lease.awaited(), made[0])
    return None
