"""Clocks that are wrong, for the lease of one process. The history keeps to the true one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tenure import _clock


def true_us() -> int:
    """The clock that all processes of this machine share, and that goes on while one is stopped."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


@dataclass(frozen=True)
class Skew:
    """How the clocks of one process are wrong."""

    rate_ppm: int = 0
    """Both clocks go faster by this share; within the declared `rate_error`, unless a test means to cheat."""
    mono_us: int = 0
    wall_us: int = 0
    """By how much they are ahead."""
    steps_until_us: int = 0
    """Until then the wall clock jumps by hours now and then, to and fro."""


class Clocks:
    """What a process takes for the time. Steps and proofs exclude each other, so that the history says which of
    them came first."""

    def __init__(self, skew: Skew) -> None:
        self.skew = skew
        self._began_us = true_us()
        self._wall_at_start_us = time.time_ns() // 1000
        self._stepped_us = 0
        self._lock = threading.Lock()

    def install(self) -> None:
        """The library reads its clocks in one place only."""
        if self.skew == Skew():
            return
        _clock.mono_us = self._mono_us
        _clock.wall_us = self._wall_us
        # Nobody else has these clocks.
        _clock.clock_id = lambda: None

    def proof_until_us(self, remaining: Callable[[], float]) -> tuple[int, int]:
        """The true time now, and until when that much remains: 0 if nothing does."""
        with self._lock:
            now = true_us()
            left_us = remaining() * 1e6
            return now, now + int(left_us / self._rate) if left_us > 0 else 0

    @contextmanager
    def stepping(self, by_us: int) -> Iterator[int]:
        """The block writes down the true time that it gets; then the wall clock jumps."""
        with self._lock:
            yield true_us()
            self._stepped_us += by_us

    @property
    def _rate(self) -> float:
        return 1 + self.skew.rate_ppm / 1e6

    def _elapsed_us(self) -> int:
        return int((true_us() - self._began_us) * self._rate)

    def _mono_us(self) -> int:
        return self._began_us + self.skew.mono_us + self._elapsed_us()

    def _wall_us(self) -> int:
        return self._wall_at_start_us + self.skew.wall_us + self._stepped_us + self._elapsed_us()
