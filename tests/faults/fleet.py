"""Worker processes of one run, what is done to them, and the history that they write."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .clocks import true_us
from .engine import Engine, Proxy
from .history import History, Row
from .worker import Settings

TESTS = Path(__file__).resolve().parents[1]
STOP_TIMEOUT = 10.0


@dataclass
class Process:
    """One incarnation of a worker, behind a network of its own."""

    settings: Settings
    proxy: Proxy
    popen: subprocess.Popen[bytes]
    stopped: bool = False

    @property
    def by(self) -> str:
        return self.settings.by

    def state(self) -> str:
        """One letter of the kernel's: `T` is stopped."""
        return Path(f"/proc/{self.popen.pid}/stat").read_text().rpartition(")")[2].split()[0]


@dataclass
class Fleet:
    """Starts workers, and ends all of them with the block, whatever happened to them meanwhile."""

    engine: Engine
    folder: Path
    names: list[str]
    ttl: float
    seed: int = 0
    processes: list[Process] = field(default_factory=list)
    past: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.history = self.folder / "history.jsonl"
        self._incarnations = itertools.count(1)
        self._file = os.open(self.history, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            process.popen.kill()
            process.popen.wait()
        for process in self.processes + self.past:
            process.proxy.close()
        os.close(self._file)

    def note(self, what: str, at_us: int | None = None, **fields: object) -> None:
        line = {"at": true_us() if at_us is None else at_us, "by": "test", "what": what, **fields}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    # --- what is done to workers ---

    def start(self, **settings: Any) -> Process:
        proxy = self.engine.proxy()
        # Rows of the same engine are reached by the same network.
        resource = proxy.port if self.engine.resource is self.engine.server else self.engine.resource.port
        number = next(self._incarnations)
        told = Settings(
            by=f"w{number}",
            history=str(self.history),
            engine=self.engine.protocol,
            port=proxy.port,
            resource_port=resource,
            names=self.names,
            ttl=self.ttl,
            seed=self.seed * 1000 + number,
            max_clock_skew=self.engine.max_clock_skew,
        )
        told = replace(told, **settings)
        with (self.folder / f"{told.by}.log").open("wb") as log:
            popen = subprocess.Popen(
                [sys.executable, "-m", "faults.worker", told.text()],
                env={**os.environ, "PYTHONPATH": str(TESTS)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        process = Process(told, proxy, popen)
        self.processes.append(process)
        return process

    def stop(self, process: Process) -> None:
        self.note("stop", worker=process.by)
        process.popen.send_signal(signal.SIGSTOP)
        process.stopped = True

    def resume(self, process: Process) -> None:
        self.note("resume", worker=process.by)
        process.popen.send_signal(signal.SIGCONT)
        process.stopped = False

    def kill(self, process: Process) -> None:
        """What it has sent already still arrives, late as it may be."""
        self.note("kill", worker=process.by)
        process.popen.kill()
        process.popen.wait()
        self.processes.remove(process)
        self.past.append(process)

    def end(self) -> None:
        """Tells all workers to release and end, and finds out whether one had ended by itself, or hangs."""
        died = [process.by for process in self.processes if process.popen.poll() is not None]
        for process in self.processes:
            process.popen.send_signal(signal.SIGTERM)
            process.popen.send_signal(signal.SIGCONT)
        slow = []
        for process in self.processes:
            try:
                process.popen.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                slow.append(process.by)
                process.popen.send_signal(signal.SIGUSR1)
                time.sleep(0.5)
        said = self.lines("crashed")
        assert not died and not slow and not said, f"died: {died}, do not end: {slow}, crashed: {said}\n{self.logs()}"

    # --- what is known of them ---

    def lines(self, *whats: str, **fields: object) -> list[dict[str, Any]]:
        """The lines of these kinds so far, with these fields."""
        every = [json.loads(text) for text in self.history.read_text().splitlines()]
        return [
            line for line in every if line["what"] in whats and all(line.get(k) == v for k, v in fields.items())
        ]

    def wait_for(self, *whats: str, within: float = 20, **fields: object) -> dict[str, Any]:
        """The first such line, once it is there."""
        found = eventually(lambda: self.lines(*whats, **fields), within, f"no {whats} {fields}")
        first: dict[str, Any] = found[0]
        return first

    def read(self) -> tuple[History, dict[str, Row]]:
        """For the checker. Rows are read from the resource itself, around all proxies."""
        rows = self.engine.rows()
        return History.read(self.history), {name: rows.row(name) for name in self.names}

    def logs(self) -> str:
        texts = [(path.name, path.read_text(errors="replace")) for path in sorted(self.folder.glob("w*.log"))]
        return "\n".join(f"{name}:\n{text}" for name, text in texts if text)


def eventually(condition: Callable[[], Any], within: float = 20, otherwise: str = "it has not come to pass") -> Any:
    """What it gives, once that is something."""
    deadline = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)
    return found
