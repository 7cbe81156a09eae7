"""Events that a signal handler may interrupt at any instant, and waits that end when they should."""

from __future__ import annotations

import threading

#: No platform waits longer than that at once, in seconds.
_LONGEST = 1e6


class Nudge:
    """Wakes the one thread that waits for it, or, if none does, the next wait.

    A lock that is given back by whoever wakes. Giving and taking are one step each, which no signal
    handler can split. (`queue.SimpleQueue` would be the obvious choice, but its `get` with a time-out
    waits for ever if that has passed by the time it has looked: a microsecond is enough.)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def give(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            # One is there already.
            pass

    def take(self, timeout: float | None = None) -> bool:
        """Waits for one, for at most so many seconds. True if there was one."""
        return self._lock.acquire(timeout=-1 if timeout is None else min(timeout, _LONGEST))


class Signal(threading.Event):
    """As `threading.Event`; but where that one's lock could stay taken by a waiter whom an exception
    out of a signal handler hit just then, so that whoever sets it would wait for ever, this has none.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False
        self._waiters: list[Nudge] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self.nudge()

    def clear(self) -> None:
        self._is_set = False

    def nudge(self) -> None:
        """Ends every wait, without being set by that."""
        for waiter in tuple(self._waiters):
            waiter.give()

    def wait(self, timeout: float | None = None) -> bool:
        if self._is_set:
            return True
        waiter = Nudge()
        self._waiters.append(waiter)
        try:
            # It may have been set between the question and the place in the list.
            if not self._is_set:
                waiter.take(None if timeout is None else max(timeout, 0.0))
        finally:
            self._waiters.remove(waiter)
        return self._is_set
