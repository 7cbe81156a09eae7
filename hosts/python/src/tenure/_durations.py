"""Durations as people write them, and as the core counts them."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Union

from ._errors import ConfigError

#: Seconds, a `timedelta`, or a text such as `30s`, `1m30s`, `500ms`.
Duration = Union[float, int, timedelta, str]

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d)")


def parse(text: str, field: str = "duration") -> float:
    """Seconds of a text such as `1m30s`. A number without a unit is refused."""
    stripped = text.strip()
    parts = _PART.findall(stripped)
    if parts and "".join(number + unit for number, unit in parts) == stripped:
        return math.fsum(float(number) * _UNITS[unit] for number, unit in parts)
    if re.fullmatch(r"\d+(\.\d+)?", stripped):
        why = f"needs a unit; did you mean {stripped}s?"
    else:
        why = f"{text!r} is no duration; write it as 30s, 1m30s or 500ms"
    raise ConfigError(field, why)


def micros(value: Duration, field: str) -> int:
    """Microseconds of a duration of any form; never negative, never NaN."""
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        seconds = parse(value, field)
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(field, f"must be seconds, a timedelta or a text such as '30s', not {value!r}")
    else:
        try:
            seconds = float(value)
        except OverflowError:
            seconds = math.inf
    if math.isnan(seconds) or seconds < 0:
        raise ConfigError(field, f"must not be {value!r}")
    if seconds > 1e12:
        raise ConfigError(field, "is too long; what never ends is 'forever'")
    return round(seconds * 1e6)


def micros_or_forever(value: Duration, field: str) -> int | None:
    """As `micros`; `None` for the text `forever`."""
    return None if value == "forever" else micros(value, field)
