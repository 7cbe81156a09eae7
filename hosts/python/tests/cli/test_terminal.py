"""At a terminal: the command reads from it, Ctrl-C and Ctrl-Z are its own, and it goes back afterwards."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import COMMAND, PATIENCE, Tenure, eventually, pid_in, running, sleeping

READER = [sys.executable, "-c", "print('ready'); print('got', input())"]


class Session:
    """A process with a terminal of its own."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                os.execve(shutil.which(argv[0]) or argv[0], argv, env)
            finally:
                os._exit(99)
        self._shown = ""
        self._status: int | None = None

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def sees(self, text: str) -> str:
        """Waits for it, and gives and forgets all up to there."""
        deadline = time.monotonic() + PATIENCE
        while text not in self._shown:
            assert time.monotonic() < deadline, f"{text!r} is not in {self._shown!r}"
            if select.select([self._fd], [], [], 0.1)[0]:
                try:
                    self._shown += os.read(self._fd, 4096).decode(errors="replace")
                except OSError:
                    # How a pty says that its last user is gone.
                    assert text in self._shown, f"{text!r} is not in {self._shown!r}"
        seen, _, self._shown = self._shown.partition(text)
        return seen + text

    def wait(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while self._status is None:
            assert time.monotonic() < deadline, f"it goes on; it showed {self._shown!r}"
            if select.select([self._fd], [], [], 0.05)[0]:
                try:
                    self._shown += os.read(self._fd, 4096).decode(errors="replace")
                except OSError:
                    time.sleep(0.01)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def close(self) -> None:
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)


@pytest.fixture
def sessions(tenure: Tenure) -> Iterator[list[Session]]:
    opened: list[Session] = []
    try:
        yield opened
    finally:
        for session in opened:
            session.close()


def at_terminal(tenure: Tenure, sessions: list[Session], argv: list[str]) -> Session:
    env = tenure.env({"TERM": "dumb", "PS1": "prompt> ", "HISTFILE": ""})
    sessions.append(Session(argv, env))
    return sessions[-1]


def run(*command: str) -> list[str]:
    return [*COMMAND, "run", "a", "--ttl", "30s", "--", *command]


def test_the_command_reads_from_the_terminal(tenure: Tenure, sessions: list[Session]) -> None:
    session = at_terminal(tenure, sessions, run(*READER))
    session.sees("ready")
    session.type("hello\n")
    session.sees("got hello")
    assert session.wait() == 0


def test_ctrl_c_is_the_commands(tenure: Tenure, sessions: list[Session], tmp_path: Path) -> None:
    session = at_terminal(tenure, sessions, run(*sleeping(tmp_path / "pid")))
    pid = pid_in(tmp_path / "pid")
    # The terminal is given to the command's group a moment before it starts.
    session.type("\x03")
    assert session.wait() == 128 + signal.SIGINT
    assert not running(pid)
    assert tenure("status", "a").code == 3


def test_afterwards_the_terminal_is_its_shells_again(tenure: Tenure, sessions: list[Session]) -> None:
    script = f"{shlex.join(run(*READER))}; read line; echo shell got $line"
    session = at_terminal(tenure, sessions, ["sh", "-c", script])
    session.sees("ready")
    session.type("one\n")
    session.sees("got one")
    session.type("two\n")
    session.sees("shell got two")
    assert session.wait() == 0


def test_in_a_pipeline_the_command_gets_the_terminal_when_it_asks(tenure: Tenure, sessions: list[Session]) -> None:
    session = at_terminal(tenure, sessions, ["sh", "-c", f"{shlex.join(run(*READER))} | cat"])
    eventually(lambda: tenure("status", "a").code == 0)
    session.type("hello\n")
    session.sees("got hello")
    assert session.wait() == 0


def test_ctrl_z_stops_and_fg_goes_on(tenure: Tenure, sessions: list[Session]) -> None:
    session = at_terminal(tenure, sessions, ["bash", "--norc", "--noprofile", "-i"])
    session.sees("prompt> ")
    session.type(shlex.join(run(*READER)) + "\n")
    session.sees("\nready")
    session.type("\x1a")
    session.sees("Stopped")
    session.sees("prompt> ")
    session.type("echo in the shell\n")
    session.sees("\nin the shell")
    session.type("fg\n")
    session.sees("run a")
    session.type("hello\n")
    session.sees("got hello")
    session.sees("prompt> ")
    session.type("exit $?\n")
    assert session.wait() == 0


def test_what_ctrl_z_stopped_does_not_outlive_its_lease(
    tenure: Tenure, sessions: list[Session], tmp_path: Path
) -> None:
    session = at_terminal(tenure, sessions, ["bash", "--norc", "--noprofile", "-i"])
    session.sees("prompt> ")
    line = [*COMMAND, "run", "a", "--ttl", "2s", "--", *sleeping(tmp_path / "pid")]
    session.type(shlex.join(line) + "\n")
    pid = pid_in(tmp_path / "pid")
    session.type("\x1a")
    session.sees("Stopped")
    assert tenure("run", "a", "--ttl", "2s", "--wait", "30s", "--", "true").code == 0
    assert not running(pid)
    session.sees("prompt> ")
    session.type("fg\n")
    session.sees("run a")
    session.sees("prompt> ")
    session.type("exit $?\n")
    assert session.wait() == 123
