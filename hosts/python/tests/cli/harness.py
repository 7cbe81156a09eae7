"""`tenure` as its users run it: a process, its exit code, what it prints, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Far more than anything here takes: a test fails by its promise, not by a slow machine.
PATIENCE = 60.0


@dataclass
class Tenure:
    """Runs it with a home of its own, so that its default store and its observations are this test's."""

    home: Path
    store: str | None = None
    started: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    def env(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "AWS_"))}
        env |= {"XDG_STATE_HOME": str(self.home), "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        env |= {"AWS_EC2_METADATA_DISABLED": "true"}
        if self.store is not None:
            env["TENURE_STORE"] = self.store
        return env | dict(extra or {})

    def __call__(
        self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Result:
        done = subprocess.run(
            [*COMMAND, *args], input=stdin, capture_output=True, env=self.env(env), cwd=cwd, timeout=PATIENCE
        )
        return Result(done.returncode, done.stdout, done.stderr.decode())

    def start(self, *args: str, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[bytes]:
        """In the background. What still runs at the end of the test is killed."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([*COMMAND, *args], env=self.env(env), **(pipes | options))
        self.started.append(process)
        return process

    def at(self, store: str) -> Tenure:
        """The same, with another store."""
        return Tenure(self.home, store, self.started)

    def stop(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@dataclass(frozen=True)
class Result:
    code: int
    out: bytes
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


COMMAND = [sys.executable, "-m", "tenure.cli"]

# Says its pid once it is ready, and can then be stopped by SIGKILL only.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    time.sleep(0.01)
"""

# The same for SIGTERM and others: it leaves a line for each that it gets.
LISTENING = """
import os, signal, sys, time
def heard(number, frame):
    with open(sys.argv[2], "a") as file:
        file.write(signal.Signals(number).name + chr(10))
for name in sys.argv[3:]:
    signal.signal(getattr(signal, name), heard)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    time.sleep(0.01)
"""


def stubborn(pid_file: Path) -> list[str]:
    return [sys.executable, "-c", STUBBORN, str(pid_file)]


def listening(pid_file: Path, log: Path, *names: str) -> list[str]:
    return [sys.executable, "-c", LISTENING, str(pid_file), str(log), *names]


def sleeping(pid_file: Path) -> list[str]:
    """Ends at the first signal."""
    return listening(pid_file, pid_file)


def pid_in(file: Path) -> int:
    eventually(file.exists)
    return int(file.read_text())


def running(pid: int) -> bool:
    """Whether it can still act: a zombie cannot."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def eventually(condition: Callable[[], object], within: float = PATIENCE) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it has not come to pass"
        time.sleep(0.01)


@contextmanager
def stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)
