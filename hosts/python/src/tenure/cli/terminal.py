"""Who may read from the terminal, if there is one: the command while it runs, our shell else.

A terminal has one foreground group. The command has a group of its own, so at a terminal it would be stopped at its
first read, and Ctrl-C would pass it by.
"""

from __future__ import annotations

import os
import signal


class Terminal:
    def __init__(self) -> None:
        try:
            self._fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError:
            self._fd = -1
        self._given = False
        if self._fd >= 0:
            # Taking the terminal back from the background would stop us.
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    @property
    def ours(self) -> bool:
        """Whether it is this process's group that the terminal listens to."""
        return self._foreground() == os.getpgrp()

    def give_at_start(self, group: int) -> None:
        # Only if nobody else of our pipeline needs it: `tenure run … | less` leaves it to less. A command that
        # reads from it all the same is stopped, and gets it then.
        if os.isatty(0) and os.isatty(1):
            self.give(group)

    def give(self, group: int) -> bool:
        """Lets `group` have it, if it is ours to give."""
        if not self.ours or not self._set(group):
            return False
        self._given = True
        return True

    def take_back(self, group: int) -> bool:
        """False if `group` did not have it. It stays with a third one that took it meanwhile."""
        if not self._given:
            return False
        self._given = False
        if self._foreground() in (group, 0):
            self._set(os.getpgrp())
        return True

    def _foreground(self) -> int:
        if self._fd < 0:
            return -1
        try:
            return os.tcgetpgrp(self._fd)
        except OSError:
            return -1

    def _set(self, group: int) -> bool:
        try:
            os.tcsetpgrp(self._fd, group)
        except OSError:
            # It hung up, or the group is gone.
            return False
        return True
