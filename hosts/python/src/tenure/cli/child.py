"""The command: one process group, from before it starts until nothing of it is left.

The process is forked before there is a store, hence before there is any thread, and waits to be told to become the
command. What it does between fork and exec is then safe, as it is not in `subprocess` once threads run; and the
parent-death signal, which the kernel ties to the *thread* that forked, is tied to the main one.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from . import exit_codes

_PR_SET_PDEATHSIG = 1


class Child:
    def __init__(self, pid: int, go: int, failure: int) -> None:
        self.group = pid
        """The id of its group, and of its first process."""
        self.status: int | None = None
        """How it ended: its exit code, or minus the signal."""
        self.stopped_by: int | None = None
        """The signal that stopped it, until it goes on."""
        self.exec_error: OSError | None = None
        self.started = False
        self._go = go
        self._failure = failure

    def start(self, env: Mapping[str, str]) -> None:
        self.started = True
        with os.fdopen(self._go, "wb") as go:
            try:
                go.write(json.dumps(dict(env)).encode())
                go.flush()
            except BrokenPipeError:
                # Somebody killed it meanwhile; its status says so.
                pass

    def dismiss(self) -> None:
        """It is not needed: it never becomes the command."""
        os.close(self._go)
        os.close(self._failure)
        self.kill()
        self._reap(0)

    def poll(self) -> None:
        """Learns what has become of it, without waiting."""
        while self.status is None and self._reap(os.WNOHANG | os.WUNTRACED):
            pass
        if self.status is not None and self._failure >= 0:
            # Its end closed the pipe, so this does not wait.
            number = os.read(self._failure, 16)
            os.close(self._failure)
            self._failure = -1
            if number:
                self.exec_error = OSError(int(number), os.strerror(int(number)))

    def signal(self, number: int) -> None:
        try:
            os.killpg(self.group, number)
        except (ProcessLookupError, PermissionError):
            # Gone, or another user's by now; whether anything is left, `alive` asks separately.
            pass

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)
        # A stopped process would not hear it.
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def alive(self) -> bool:
        """Whether any process of the group can still act."""
        if self.status is None:
            return True
        # As process 1 of a container we are the parent of what it left behind.
        self._reap_orphans()
        try:
            os.killpg(self.group, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return _acts(self.group)

    def _reap(self, flags: int) -> bool:
        try:
            pid, status = os.waitpid(self.group, flags)
        except ChildProcessError:
            self.status = exit_codes.INTERNAL
            return True
        if pid == 0:
            return False
        if os.WIFSTOPPED(status):
            self.stopped_by = os.WSTOPSIG(status)
        else:
            self.status = os.waitstatus_to_exitcode(status)
        return True

    def _reap_orphans(self) -> None:
        try:
            while os.waitpid(-self.group, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def exists(command: str) -> bool:
    """Whether there is such a program. Whether it can run, only running it shows."""
    if os.sep in command:
        return os.path.lexists(command)
    return shutil.which(command, mode=os.F_OK) is not None


def cannot_execute(error: OSError) -> int:
    return exit_codes.NOT_FOUND if error.errno in (errno.ENOENT, errno.ENOTDIR) else exit_codes.CANNOT_EXECUTE


def fork_child(argv: list[str], close: Sequence[int] = ()) -> Child:
    """A process in its own group that will become `argv`. `close` is what only we may keep open."""
    die_with_parent = _parent_death_signal()
    parent = os.getpid()
    go, tell_go = os.pipe()
    failure, tell_failure = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            _forget_python()
            for fd in (tell_go, failure, *close):
                os.close(fd)
            die_with_parent()
            # If the parent has died before that line, no signal is coming any more.
            if os.getppid() == parent:
                _become(argv, go, tell_failure)
        finally:
            os._exit(exit_codes.INTERNAL)
    try:
        # Both do it: whoever comes first, the group exists when either goes on.
        os.setpgid(pid, pid)
    except OSError:
        pass
    os.close(go)
    os.close(tell_failure)
    return Child(pid, tell_go, failure)


def _become(argv: list[str], go: int, failure: int) -> None:
    with os.fdopen(go, "rb") as told:
        # Half a message is none: we died while writing it.
        message = told.read()
    try:
        env = json.loads(message)
    except ValueError:
        return
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        os.write(failure, str(error.errno or errno.ENOEXEC).encode())


def _forget_python() -> None:
    """The signals as a program expects to find them, but for those that our own parent ignores."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _parent_death_signal() -> Callable[[], object]:
    """What has the kernel kill the calling process when its parent ends. macOS has nothing like it, only the guard."""
    if sys.platform != "linux":
        return lambda: None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _acts(group: int) -> bool:
    """False if all of the group that is left are zombies, which a container's first process may never reap."""
    states = [state for state, its_group in _processes() if its_group == group]
    return not states or any(state not in "ZX" for state in states)


def _processes() -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name before it, in brackets, may hold anything, brackets too.
            state, _parent, group, *_ = stat.read_text(errors="replace").rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        found.append((state, int(group)))
    return found
