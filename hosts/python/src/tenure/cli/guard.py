"""Who kills the command if we cannot: a second process that knows until when the command may run.

Our own end closes its pipe, however we came to it; and if we are stopped or starved, it acts at the deadline it was
told last. It needs no cooperation of the kernel's parent-death signal, so it reaches grandchildren, and works on
macOS. Forked before there is any thread, since it goes on as Python.
"""

from __future__ import annotations

import math
import os
import select
import signal
import struct
from dataclasses import dataclass

from . import clock

_MESSAGE = struct.Struct("=qd")

# A pause does not count the time the machine sleeps, the deadline does.
_PAUSE = 1.0


@dataclass
class Guard:
    pid: int
    pipe: int
    _told: tuple[int, float] = (0, math.inf)

    def watch(self, group: int, deadline: float) -> None:
        """Kill `group` at `deadline`, and at once if this process ends before `stand_down`."""
        told_group, told_deadline = self._told
        if group != told_group or not math.isclose(deadline, told_deadline, rel_tol=0, abs_tol=0.01):
            self._tell(group, deadline)

    def stand_down(self) -> None:
        """There is nothing left to kill. Its id may soon be another's."""
        self._tell(0, math.inf)
        os.close(self.pipe)
        os.waitpid(self.pid, 0)

    def _tell(self, group: int, deadline: float) -> None:
        self._told = (group, deadline)
        try:
            os.write(self.pipe, _MESSAGE.pack(group, deadline))
        except OSError:
            # It was killed, or does not read any more. It is the second line only: the first does not give up.
            pass


def fork_guard() -> Guard:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _settle(reading)
            _guard(reading)
        finally:
            os._exit(0)
    os.close(reading)
    os.set_blocking(writing, False)
    return Guard(pid, writing)


def _settle(keep: int) -> None:
    """Leaves all that a signal to us, or a lock or a pipe of ours, would extend to it."""
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    for name in os.listdir("/dev/fd"):
        if int(name) > 2 and int(name) != keep:
            try:
                os.close(int(name))
            except OSError:
                # The one that listed the folder.
                pass


def _guard(pipe: int) -> None:
    group, deadline = 0, math.inf
    received = b""
    while True:
        pause = None if math.isinf(deadline) else min(_PAUSE, max(0.0, deadline - clock.now()))
        if select.select([pipe], [], [], pause)[0]:
            data = os.read(pipe, 65536)
            if not data:
                _kill(group)
                return
            received += data
            whole = len(received) - len(received) % _MESSAGE.size
            for group, deadline in _MESSAGE.iter_unpack(received[:whole]):
                pass
            received = received[whole:]
        if clock.now() >= deadline:
            _kill(group)
            deadline = math.inf


def _kill(group: int) -> None:
    if group > 0:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            pass
