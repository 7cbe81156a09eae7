"""What a store shows of a name, for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import _clock


@dataclass(frozen=True)
class Status:
    """A record as it was read. Not a promise: it may have changed since."""

    name: str
    held: bool
    #: Who holds it.
    holder: str | None
    #: The fencing number in the record, where the store keeps one there.
    fence: int | None
    #: Seconds for which it stays valid after each write; `None` if unknown or for ever.
    ttl: float | None
    #: Seconds until it ends if nobody renews it, as far as the store says; `None` if unknown or
    #: never.
    expires_in: float | None
    #: Released, but not to be acquired yet (`min_hold`).
    resting: bool
    #: Written by something else than this library.
    foreign: bool
    #: Names exactly this record, for `break_`.
    identity: str = field(repr=False)
    raw: Any = field(repr=False, default=None)


def status_of(name: str, shown: Any, raw: Any) -> Status:
    """From what the core shows."""
    holder, fence, ttl_us, left_us, expires_at_ms, resting, foreign, identity = shown
    expires_in: float | None = None
    if left_us is not None:
        expires_in = left_us / 1e6
    elif expires_at_ms is not None:
        expires_in = max(0.0, (expires_at_ms * 1000 - _clock.wall_us()) / 1e6)
    return Status(
        name=name,
        held=holder is not None,
        holder=holder,
        fence=fence,
        ttl=None if ttl_us is None else ttl_us / 1e6,
        expires_in=expires_in,
        resting=resting,
        foreign=foreign,
        identity=identity,
        raw=raw,
    )
