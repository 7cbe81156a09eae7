"""What an error is called, which exit code it has, and what it tells the user to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import tenure

from . import exit_codes, messages

# Fields that come from the command line itself, not from a store's settings.
_ARGUMENTS = frozenset({"name", "ttl", "wait", "min_hold"})


@dataclass(frozen=True)
class Failure:
    outcome: str
    code: int
    text: str


def explain(error: tenure.TenureError, where: str) -> Failure:
    """`where` is the store as it may be shown."""
    if isinstance(error, tenure.Busy):
        return Failure("busy", exit_codes.BUSY, messages.busy(error))
    if isinstance(error, tenure.Lost):
        return Failure("lost", exit_codes.LOST, f"{error.name} is lost: {error.reason}")
    if isinstance(error, tenure.ConfigError):
        if error.field in _ARGUMENTS:
            return Failure("usage", exit_codes.USAGE, str(error))
        return Failure("config", exit_codes.CONFIG, str(error))
    if _lacks_table(error):
        return Failure("config", exit_codes.CONFIG, f"{where} does not exist; --create-table creates it")
    if isinstance(error, tenure.StoreError):
        return Failure("store_unreachable", exit_codes.UNREACHABLE, f"{where}: {error}")
    return Failure("internal", exit_codes.INTERNAL, f"{type(error).__name__}: {error}")


def _lacks_table(error: BaseException | None) -> bool:
    """Also if the host's error has it as a cause only. botocore may not even be installed, so by its shape."""
    while error is not None:
        for found in (error, getattr(error, "cause", None)):
            response = getattr(found, "response", None)
            if isinstance(response, dict):
                code = cast("dict[str, dict[str, object]]", response).get("Error", {}).get("Code")
                if code == "ResourceNotFoundException":
                    return True
        error = error.__cause__
    return False
