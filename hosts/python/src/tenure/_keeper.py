"""Keeps the leases of one store: renews them in time, and tells in time when one is lost.

Two threads, started when the first lease needs them and ended when none does. One only watches the
clock; it never waits for a store, so that a lease is told to be lost at its deadline even while a
call hangs. The other one carries out the calls of all leases.

A signal handler may raise at any instant of the main thread. So what the threads share is guarded by
plain locks, which `with` takes and gives back in one step each, and signalled by a `Nudge`, which is one
step too; a `Condition` is neither.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _clock
from ._signal import Nudge

if TYPE_CHECKING:
    from ._lease import Lease

_log = logging.getLogger("tenure")

#: Seconds that a thread waits for work before it ends.
_IDLE = 2.0
#: Below so many entries the schedule is not worth tidying.
_FEW = 256


class Keeper:
    """The clock and the hands of a store's leases."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # (due_us, tie, lease). An entry whose lease is due at another time by now is void.
        self._due: list[tuple[int, int, Lease]] = []
        self._ties = itertools.count()
        self._tidy_at = _FEW
        self._look = Nudge()
        self._calls: deque[tuple[Lease, Any]] = deque()
        self._work = Nudge()
        self._watching = False
        self._working = False
        self._closed = False

    def keep(self, lease: Lease, wake_at_us: int | None) -> None:
        """Ticks this lease then, or before; with `None`, not at all until it is asked for again."""
        with self._lock:
            if wake_at_us is None or self._closed:
                if lease.is_idle():
                    lease.due_us = None
                return
            if lease.due_us is not None and lease.due_us <= wake_at_us:
                return
            lease.due_us = wake_at_us
            heapq.heappush(self._due, (wake_at_us, next(self._ties), lease))
            if len(self._due) > self._tidy_at:
                self._due = [entry for entry in self._due if entry[2].due_us == entry[0]]
                heapq.heapify(self._due)
                self._tidy_at = max(_FEW, 2 * len(self._due))
            if not self._watching:
                self._start(self._watch, "tenure-watch")
                self._watching = True
            elif self._due[0][2] is lease:
                self._look.give()

    def carry(self, lease: Lease, call: Any) -> None:
        """Has a call carried out."""
        with self._lock:
            if self._closed:
                return
            if not self._working:
                self._start(self._carry_calls, "tenure-renew")
                self._working = True
            self._calls.append((lease, call))
            self._work.give()

    def close(self) -> None:
        """Ends the threads once they are through with what they do. Nothing is kept any more."""
        with self._lock:
            self._closed = True
            self._due.clear()
            self._look.give()
            self._work.give()

    @staticmethod
    def _start(target: Callable[[], None], name: str) -> None:
        threading.Thread(target=target, name=name, daemon=True).start()

    def _watch(self) -> None:
        while not self._closed:
            with self._lock:
                lease, wait = self._next_due()
            if lease is None:
                # No platform waits longer than an hour at once for sure.
                nudged = self._look.take(_IDLE if wait is None else min(wait, 3600.0))
                if not nudged and wait is None and self._ends_watch():
                    return
                continue
            try:
                lease.tick(self)
            except Exception:
                # A lease that cannot be ticked still ends by itself; the others go on.
                _log.exception("tenure: keeping %r failed", lease.name)

    def _ends_watch(self) -> bool:
        with self._lock:
            self._watching = bool(self._due)
            return not self._watching

    def _ends_work(self) -> bool:
        with self._lock:
            self._working = bool(self._calls)
            return not self._working

    def _next_due(self) -> tuple[Lease | None, float | None]:
        while self._due:
            due_us, _, lease = self._due[0]
            wait = (due_us - _clock.mono_us()) / 1e6
            if lease.due_us != due_us:
                heapq.heappop(self._due)
            elif wait > 0:
                return None, wait
            else:
                heapq.heappop(self._due)
                lease.due_us = None
                return lease, 0.0
        return None, None

    def _carry_calls(self) -> None:
        while not self._closed:
            if not self._calls:
                if not self._work.take(_IDLE) and self._ends_work():
                    return
                continue
            lease, call = self._calls.popleft()
            try:
                lease.carry_kept(self, call)
            except Exception:
                _log.exception("tenure: a call for %r failed", lease.name)
