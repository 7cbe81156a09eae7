"""When a command under a lease is stopped, and when nothing of it is left.

All by our own clock. `lease.remaining()` asks nobody, so a store that hangs cannot delay the end of a command whose
lease runs out for just that reason.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import tenure

from . import clock, messages
from .child import Child
from .guard import Guard
from .signals import Signals
from .terminal import Terminal

# What a killed process may need to be gone, unless it hangs in the kernel.
_PATIENCE = 5.0
# What exits together with the command is not told to.
_SETTLE = 0.1
_POLL = 0.02


@dataclass(frozen=True)
class Limits:
    ttl: float
    grace: float
    """Between the request to end and the kill."""
    max_runtime: float

    @property
    def safety(self) -> float:
        """How long before the lease's end the kill is sent: a kill needs a moment, and so may we."""
        return max(0.05, min(0.5, self.ttl * 0.05))

    @property
    def longest_pause(self) -> float:
        # A pause does not count the time the machine sleeps, the lease does. And the guard wants to hear of renewals.
        return min(1.0, self.ttl / 10)


@dataclass(frozen=True)
class Ending:
    cause: Literal["exited", "lost", "max_runtime"]
    dead: bool
    """Nothing of the command is left. If not, nobody may have its lease before the ttl is over."""


class Supervisor:
    def __init__(
        self,
        child: Child,
        lease: tenure.Lease,
        limits: Limits,
        signals: Signals,
        guard: Guard,
        terminal: Terminal,
        say: messages.Messages,
    ) -> None:
        self._child = child
        self._lease = lease
        self._limits = limits
        self._signals = signals
        self._guard = guard
        self._terminal = terminal
        self._say = say
        self._began = clock.now()
        self._cause: Literal["exited", "lost", "max_runtime"] = "exited"
        self._exited_at = math.inf
        self._asked_at = math.inf
        self._killed_at = math.inf

    def run(self, env: Mapping[str, str]) -> Ending:
        """Starts the command; returns when all of it is dead, or is not although it was killed."""
        # The guard first: from the start on somebody knows until when it may run.
        self._watch()
        self._child.start(env)
        while True:
            self._judge()
            for number in self._signals.wait(self._pause()):
                # After a stop the lease may be over: judged before the command can go on.
                self._judge()
                self._forward(number)
            self._child.poll()
            self._follow_stop()
            if self._child.status is not None:
                self._exited_at = min(self._exited_at, clock.now())
                if not self._child.alive():
                    return self._ended(dead=True)
            if clock.now() - self._killed_at > _PATIENCE:
                return self._ended(dead=False)

    def _judge(self) -> None:
        """Stops the command if it is time to; repeats nothing."""
        now, remaining = self._watch()
        if self._killed_at < math.inf:
            return
        if self._lease.lost.is_set() or remaining <= self._limits.safety:
            # Somebody else may have it now, or any moment: no time to ask.
            self._stop("lost")
            self._kill()
        elif remaining <= self._limits.grace + self._limits.safety:
            self._stop("lost")
        elif now - self._began >= self._limits.max_runtime:
            self._stop("max_runtime")
        elif now - self._exited_at >= _SETTLE and self._asked_at == math.inf:
            self._say.note(f"{self._lease.name}: ending what the command left running")
            self._ask()
        if now - self._asked_at >= self._limits.grace:
            self._kill()

    def _watch(self) -> tuple[float, float]:
        now, remaining = clock.now(), self._lease.remaining()
        # Later than we do it ourselves: the guard is for when we do not.
        self._guard.watch(self._child.group, now + remaining - self._limits.safety / 2)
        return now, remaining

    def _pause(self) -> float:
        if self._child.status is not None or self._killed_at < math.inf:
            # No signal tells of the end of a grandchild.
            return _POLL
        now, limits = clock.now(), self._limits
        until = min(
            self._began + limits.max_runtime,
            now + self._lease.remaining() - limits.grace - limits.safety,
        )
        if self._asked_at < math.inf:
            until = min(self._asked_at + limits.grace, now + self._lease.remaining() - limits.safety)
        return min(until - now, limits.longest_pause)

    def _stop(self, cause: Literal["lost", "max_runtime"]) -> None:
        # What the command left behind when it had ended by itself does not change how it ended.
        if self._cause == "exited" and self._child.status is None:
            self._cause = cause
            if cause == "lost":
                self._say.error(f"{self._lease.name}: {lost_reason(self._lease)}, stopping the command")
            else:
                self._say.error(f"{self._lease.name}: the command has run for its maximum, stopping it")
        if self._asked_at == math.inf:
            self._ask()

    def _ask(self) -> None:
        self._asked_at = clock.now()
        # Nothing that was stopped may run on without a lease, not even to handle a signal.
        if not self._lease.lost.is_set() and self._lease.remaining() > self._limits.safety:
            self._child.terminate()

    def _kill(self) -> None:
        self._killed_at = clock.now()
        self._child.kill()

    def _forward(self, number: int) -> None:
        if number == signal.SIGCONT:
            # `fg` of our shell made us the foreground.
            self._terminal.give(self._child.group)
            self._child.stopped_by = None
        self._child.signal(number)

    def _follow_stop(self) -> None:
        """A command that was stopped from the terminal: its shell waits for us to stop as well."""
        stopped_by, self._child.stopped_by = self._child.stopped_by, None
        if stopped_by in (signal.SIGTTIN, signal.SIGTTOU):
            if self._terminal.give(self._child.group):
                self._child.signal(signal.SIGCONT)
        elif stopped_by == signal.SIGTSTP and self._terminal.take_back(self._child.group):
            self._say.note(f"{self._lease.name}: stopped; it is lost in {messages.seconds(self._lease.remaining())}")
            self._signals.stop_ourselves()
            self._judge()
            self._terminal.give(self._child.group)
            self._child.signal(signal.SIGCONT)

    def _ended(self, dead: bool) -> Ending:
        # It ended by itself, but we were not there in time to stop it: some of its work was not covered.
        if self._cause == "exited" and (self._lease.lost.is_set() or self._lease.remaining() <= 0):
            self._say.error(f"{self._lease.name}: {lost_reason(self._lease)} while the command ran")
            self._cause = "lost"
        return Ending(self._cause, dead)


def lost_reason(lease: tenure.Lease) -> str:
    return f"lost ({lease.lost_reason})" if lease.lost_reason else "not renewed in time"
