"""Keeps the leases of one store: renews them in time, and tells in time when one is lost.

Two threads, started when the first lease needs them and ended when none does. One only watches the
clock; it never waits for a store, so that a lease is told to be lost at its deadline even while a
call hangs. The other one carries out the calls of all leases.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from . import _clock

if TYPE_CHECKING:
    from ._lease import Lease

_log = logging.getLogger("tenure")

#: Seconds that a thread waits for work before it ends.
_IDLE = 2.0


class Keeper:
    """The clock and the hands of a store's leases."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakes = threading.Condition(self._lock)
        self._work = threading.Condition(self._lock)
        # (due_us, tie, lease): an early tick is harmless, so that nothing is ever taken out.
        self._due: list[tuple[int, int, Lease]] = []
        self._ties = itertools.count()
        self._calls: deque[tuple[Lease, Any]] = deque()
        self._watching = False
        self._working = False
        self._closed = False

    def keep(self, lease: Lease, wake_at_us: int | None) -> None:
        """Ticks this lease then, or before."""
        if wake_at_us is None:
            return
        with self._lock:
            if self._closed or (lease.due_us is not None and lease.due_us <= wake_at_us):
                return
            lease.due_us = wake_at_us
            heapq.heappush(self._due, (wake_at_us, next(self._ties), lease))
            if not self._watching:
                self._watching = True
                self._start(self._watch, "tenure-watch")
            elif self._due[0][2] is lease:
                self._wakes.notify()

    def carry(self, lease: Lease, call: Any) -> None:
        """Has a call carried out."""
        with self._lock:
            if self._closed:
                return
            self._calls.append((lease, call))
            if not self._working:
                self._working = True
                self._start(self._carry_calls, "tenure-renew")
            else:
                self._work.notify()

    def close(self) -> None:
        """Ends the threads once they are through with what they do. Nothing is kept any more."""
        with self._lock:
            self._closed = True
            self._due.clear()
            self._calls.clear()
            self._wakes.notify_all()
            self._work.notify_all()

    @staticmethod
    def _start(target: Any, name: str) -> None:
        threading.Thread(target=target, name=name, daemon=True).start()

    def _watch(self) -> None:
        while (lease := self._next_due()) is not None:
            try:
                lease.tick(self)
            except Exception:
                # A lease that cannot be ticked still ends by itself; the others go on.
                _log.exception("tenure: keeping %r failed", lease.name)

    def _next_due(self) -> Lease | None:
        with self._lock:
            while not self._closed:
                wait = _IDLE
                if self._due:
                    due_us, _, lease = self._due[0]
                    wait = (due_us - _clock.mono_us()) / 1e6
                    if wait <= 0:
                        heapq.heappop(self._due)
                        if lease.due_us == due_us:
                            lease.due_us = None
                        return lease
                # A waiting thread cannot wait longer than the platform's longest time-out.
                if not self._wakes.wait(min(wait, 3600.0)) and not self._due:
                    break
            self._watching = False
            return None

    def _carry_calls(self) -> None:
        while (task := self._next_call()) is not None:
            lease, call = task
            try:
                lease.carry_kept(self, call)
            except Exception:
                _log.exception("tenure: a call for %r failed", lease.name)

    def _next_call(self) -> tuple[Lease, Any] | None:
        with self._lock:
            while not self._closed:
                if self._calls:
                    return self._calls.popleft()
                if not self._work.wait(_IDLE) and not self._calls:
                    break
            self._working = False
            return None
