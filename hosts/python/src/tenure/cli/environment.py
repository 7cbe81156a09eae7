"""What the command finds in its environment, and what a nested `tenure run` reads there."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping

import tenure

from .. import _url

STORE = "TENURE_STORE"
# Which names of which stores the processes above hold, as digests: neither is told to whom it does not concern.
_HELD = "TENURE_HELD"


def for_command(outer: Mapping[str, str], lease: tenure.Lease, ttl: float, url: str) -> dict[str, str]:
    env = dict(outer)
    # An outer lease's values must not stay where this one has none.
    for name in ("TENURE_FENCE", "TENURE_TTL_MS"):
        env.pop(name, None)
    if _url.has_password(env.get(STORE, "")):
        del env[STORE]
    env["TENURE_NAME"] = lease.name
    env["TENURE_HOLDER"] = lease.holder
    env["TENURE_ACQUIRED_UNIX_MS"] = str(int(time.time() * 1000))
    if lease.fence is not None:
        env["TENURE_FENCE"] = str(lease.fence)
    if not math.isinf(ttl):
        env["TENURE_TTL_MS"] = str(int(ttl * 1000))
    env[_HELD] = ",".join([*_held(outer), _digest(url, lease.name)])
    return env


def is_held_above(outer: Mapping[str, str], url: str, name: str) -> bool:
    """Whether a process above us holds `name`, which would have us wait for ourselves."""
    return _digest(url, name) in _held(outer)


def _held(env: Mapping[str, str]) -> list[str]:
    return [entry for entry in env.get(_HELD, "").split(",") if entry]


def _digest(url: str, name: str) -> str:
    return hashlib.sha256(f"{_url.identity(url)}\0{name}".encode()).hexdigest()[:16]
