"""Evidence that outlives a process."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Observation(NamedTuple):
    """That a record stood unchanged, and for how long. Plain values, so that it can be stored."""

    identity: str
    ttl_us: int
    proven_for_us: int
    clock: str | None
    mono_us: int
    wall_us: int | None


class Observations(Protocol):
    """Where a store keeps them, so that a process that lives shorter than a ttl can take a dead
    holder's lease over all the same."""

    def load(self, name: str) -> Observation | None:
        """The last one of this name."""
        ...

    def save(self, name: str, observation: Observation) -> None:
        """Keeps it for a later process."""
        ...

    def forget(self, name: str) -> None:
        """It is of no more use."""
        ...
