"""An event that a signal handler may interrupt at any instant."""

from __future__ import annotations

import queue
import threading


class Signal(threading.Event):
    """As `threading.Event`; but where that one's lock could stay taken by a waiter whom an exception
    out of a signal handler hit just then, so that whoever sets it would wait for ever, this has none.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False
        self._waiters: list[queue.SimpleQueue[None]] = []

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
            waiter.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        if self._is_set:
            return True
        waiter: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._waiters.append(waiter)
        try:
            # It may have been set between the question and the place in the list.
            if not self._is_set:
                # No platform waits longer than that at once.
                waiter.get(timeout=None if timeout is None else min(timeout, 1e6))
        except queue.Empty:
            pass
        finally:
            self._waiters.remove(waiter)
        return self._is_set
