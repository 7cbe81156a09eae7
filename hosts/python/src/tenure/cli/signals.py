"""How signals reach us: as an exception while we wait for the lease, as a wake-up once the command runs."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType, TracebackType

FORWARDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
    signal.SIGTSTP,
    signal.SIGWINCH,
)
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


class Interrupted(BaseException):
    """A signal asked us to end before the command had started."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """From entering to leaving: no signal that can be caught ends this process."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._interrupting = True

    def __enter__(self) -> Signals:
        for number in FORWARDED:
            # Whoever started us under nohup does not want the command to hear of it either. Stopping and going
            # on stays as it is until there is a command to stop.
            if number not in (signal.SIGTSTP, signal.SIGCONT) and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._heard)
        # A handler that does nothing, since only a signal with a handler wakes us.
        signal.signal(signal.SIGCHLD, self._heard)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The handlers stay: what is left to do is to report and to exit, and that is not to be interrupted.
        self._interrupting = False

    def forward(self) -> None:
        """From now on signals are for the command: `wait` hands them out."""
        # What came while we waited was not meant for a command that did not run yet. Forgotten first: an ending
        # signal from here on is either raised or handed out, never swallowed.
        self.wait(0)
        self._interrupting = False
        for number in (signal.SIGTSTP, signal.SIGCONT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._heard)

    def wake(self) -> None:
        """Ends the current or the next `wait`, from any thread."""
        try:
            os.write(self._writing, b"\0")
        except BlockingIOError:
            # Full, so it ends anyway.
            pass

    def wait(self, seconds: float) -> list[int]:
        """The signals to forward, after `seconds` at the latest."""
        if not select.select([self._reading], [], [], max(0.0, seconds))[0]:
            return []
        heard = os.read(self._reading, 4096)
        return [number for number in heard if number in FORWARDED]

    def stop_ourselves(self) -> None:
        """Returns when we go on."""
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # The whole pipeline: a shell counts a job as stopped when all of it is.
        os.killpg(os.getpgrp(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self._interrupting and number in _ENDING:
            # One is enough: a second one must not interrupt the clearing up after the first.
            self._interrupting = False
            raise Interrupted(number)
