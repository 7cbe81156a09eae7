"""Which clock the command line counts by."""

from __future__ import annotations

import time

# It goes on while the machine sleeps, as leases do. On macOS the monotonic clock of the kernel does that, though
# not the one behind `time.monotonic`.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds since some moment that is the same for all processes of this boot."""
    return time.clock_gettime(_CLOCK)
