"""What can go wrong, with fields and never only text.

"Somebody holds it" (`Busy`) and "the store is down" (`StoreError`) are never the same class.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, TypeVar


class TenureError(Exception):
    """The base of all errors of this package."""

    def __init__(self, text: str, **fields: Any) -> None:
        super().__init__(text)
        self._fields = fields

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), {k: _picklable(v) for k, v in self._fields.items()}))


class Busy(TenureError):
    """Somebody else holds the name, and the wait is over.

    `because` is `held`; `resting` if it was released and its `min_hold` is not over; or
    `unjudgeable` if the record has only a Unix time and no `max_clock_skew` was declared.
    `retry_after` (seconds) is when the answer can change, if that is known.
    """

    def __init__(
        self,
        name: str,
        holder: str | None,
        fence: int | None,
        retry_after: float | None,
        because: str = "held",
    ) -> None:
        self.name = name
        self.holder = holder
        self.fence = fence
        self.retry_after = retry_after
        self.because = because
        if because == "resting":
            text = f"{name!r} was released, and its min_hold is not over"
        elif because == "unjudgeable":
            text = (
                f"{name!r} is held by {holder!r}, whose record says only by the Unix clock when it"
                " ends; declare max_clock_skew to judge it by that"
            )
        else:
            text = f"{name!r} is held by {holder!r}" if holder else f"{name!r} is held"
        if retry_after is not None:
            text += f" (may change in {retry_after:.3f} s)"
        super().__init__(
            text,
            name=name,
            holder=holder,
            fence=fence,
            retry_after=retry_after,
            because=because,
        )


class Lost(TenureError):
    """The lease is no longer held.

    `reason`: `expired`, `taken` (`by` says who), `missing` (the record is gone: broken by somebody,
    evicted, or forgotten by the store), `paused` (this
    process or its machine did not run), `unreachable` (the store took no renewal in time),
    `forked` (this is a child of the process that holds it), `released` (by ourselves), or `short`
    (held, but for less time than `check` was asked for).
    """

    def __init__(self, name: str, fence: int | None, reason: str, by: str | None = None) -> None:
        self.name = name
        self.fence = fence
        self.reason = reason
        self.by = by
        text = f"{name!r} is no longer held: {reason}" + (f" by {by!r}" if by else "")
        if reason == "short":
            text = f"{name!r} is not held for as long as was asked for"
        super().__init__(text, name=name, fence=fence, reason=reason, by=by)


class StoreError(TenureError):
    """The store could not or would not do what was asked. `cause` is its client's error; `hint`
    says what to do, where that is known."""

    def __init__(self, cause: BaseException | str | None, hint: str = "") -> None:
        self.cause = cause
        self.hint = hint
        text = _describe(cause) if cause is not None else "the store did not answer"
        super().__init__(f"{text}; {hint}" if hint else text, cause=cause, hint=hint)
        if isinstance(cause, BaseException):
            self.__cause__ = cause


class OutcomeUnknown(StoreError):
    """The store did not answer, so that what was asked may have taken effect, or may yet.

    What an unknown acquire may have left is undone in the background; a release that was not
    confirmed ends with the ttl at the latest.
    """

    def __init__(self, op: str, cause: BaseException | str | None) -> None:
        super().__init__(cause, f"the outcome of {op} is not known")
        self.op = op
        self._fields = {"op": op, "cause": cause}


class ConfigError(TenureError, ValueError):
    """Something was asked for that cannot work. Nothing was written."""

    def __init__(self, field: str, why: str) -> None:
        self.field = field
        self.why = why
        super().__init__(f"{field} {why}", field=field, why=why)


class TenureWarning(UserWarning):
    """Something that will work until it matters."""


_R = TypeVar("_R")


def checked(field: str, ask: Callable[..., _R], *arguments: Any) -> _R:
    """Asks the core, whose `ValueError(field, why)` becomes a `ConfigError`."""
    try:
        return ask(*arguments)
    except (TypeError, OverflowError, UnicodeError) as error:
        raise ConfigError(field, f"is not right: {ascii(str(error))}") from None
    except ValueError as error:
        if len(error.args) == 2:
            raise ConfigError(*error.args) from None
        raise


def _describe(cause: BaseException | str) -> str:
    if isinstance(cause, str):
        return cause
    return f"{type(cause).__name__}: {cause}"


def _picklable(value: Any) -> Any:
    # An error travels to another process (multiprocessing, Celery) even if its cause cannot.
    if not isinstance(value, BaseException):
        return value
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:
        return _describe(value)
    return value


def _rebuild(kind: type[TenureError], fields: dict[str, Any]) -> TenureError:
    return kind(**fields)
