"""What a store has to be able to do: carry out the calls of the core, and be looked at.

A carrier translates between the core and one client. It decides nothing about leases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from . import _core
    from ._status import Status

#: `(call, event, wake_at_us)`, as the core gives it; a call is `(id, give_up_at_us, request)`.
Step = tuple[Any, Any, Any]


class Carried(NamedTuple):
    """How a call ended."""

    step: Step
    #: What the client raised, or the words of the store, if it did not do what was asked.
    cause: BaseException | str | None = None
    #: What to do about it, where that is known.
    hint: str = ""


class Carrier(Protocol):
    """One store, by one client."""

    #: Who may say that a record is over: `observed`, `bounded` or `store`.
    expiry: str
    #: The bound on clock differences, for `bounded`.
    max_clock_skew_us: int
    #: Whether a version covers a whole claim (a store that compares one value).
    per_claim: bool
    #: The longest that the client may wait for one answer, in microseconds; `None` for ever.
    patience_us: int | None
    #: The line of code that shortens it.
    patience_fix: str

    def lease(self, config: _core.Config, name: str, holder: str) -> _core.Lease:
        """A contender for a name."""
        ...

    def carry(self, core: _core.Lease, call_id: int, request: Any) -> Carried:
        """Carries one call out. Never raises what the client raises."""
        ...

    def status(self, name: str) -> Status:
        """What stands there."""
        ...

    def list(self, prefix: str) -> Iterator[Status]:
        """All names that begin so, and are held or resting."""
        ...

    def after_fork(self) -> None:
        """In a child process: gives up what must not be shared with its parent."""
        ...

    def close(self) -> None:
        """Gives up what the carrier itself opened; never the user's client."""
        ...
