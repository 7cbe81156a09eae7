"""Engines as context managers: a process of our own on a loopback port, in memory, gone with the block.

    with redis_server("valkey91") as server:
        client = redis.Redis(port=server.port)
    with dynamodb_server() as server:
        client = boto3.client("dynamodb", endpoint_url=server.endpoint, ...)
"""

from __future__ import annotations

import ctypes
import http.client
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from . import fetch
from .ports import free_port

RedisKind = Literal["redis70", "redis86", "valkey91"]
REDIS_KINDS: tuple[RedisKind, ...] = ("redis70", "redis86", "valkey91")

START_TIMEOUT = 20.0
STOP_TIMEOUT = 5.0

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

# The kernel sends the death signal when the *thread* that forked ends, not its process. So all engines are
# forked by this one thread, which lives as long as the process: a test may start an engine from any thread.
_forker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine-forker")


class EngineError(RuntimeError):
    """An engine did not start; the message ends with what it printed."""


class Server:
    """One running engine. It keeps its port and its folder, whatever is done to its process."""

    def __init__(self, name: str, argv: list[str], port: int, folder: Path, answers: Callable[[Server], bool]) -> None:
        self.name = name
        self.port = port
        self._argv = argv
        self._folder = folder
        self._answers = answers
        self._process = self._started()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Asks it to end, and insists if it does not."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        # A paused process would not hear the request.
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """A crash: no time to write or to say anything."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Frozen: the port still takes connections, nothing answers."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """A new process on the same port. What was only in memory is gone."""
        self.stop()
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        log = self._folder / "engine.log"
        with log.open("ab") as output:
            process = _forker.submit(_fork, self._argv, self._folder, output.fileno()).result()
        self._process = process
        deadline = time.monotonic() + START_TIMEOUT
        while process.poll() is None:
            if self._answers(self):
                return process
            if time.monotonic() > deadline:
                self.kill()
                break
            time.sleep(0.01)
        printed = log.read_text(errors="replace")[-2000:]
        raise EngineError(f"{self.name} did not answer on port {self.port} (exit {process.returncode}):\n{printed}")


def _fork(argv: list[str], folder: Path, output: int) -> subprocess.Popen[bytes]:
    parent = os.getpid()

    def die_with_parent() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before the line above: then no signal is coming any more.
        if os.getppid() != parent:
            os._exit(1)

    return subprocess.Popen(
        argv,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        preexec_fn=die_with_parent,
        # Ctrl-C in a terminal must reach the test, not the engine under it.
        process_group=0,
    )


@contextmanager
def redis_server(kind: RedisKind = "redis86", *args: str) -> Iterator[Server]:
    """A Redis or Valkey without persistence. `args` come last, so they win: `"--appendonly", "yes"`."""
    command = fetch.command(kind)
    in_memory = ["--save", "", "--appendonly", "no"]

    def argv(port: int, folder: Path) -> list[str]:
        local = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--daemonize", "no"]
        return [*command, *local, *in_memory, *args]

    with _running(kind, argv, _redis_answers) as server:
        yield server


@contextmanager
def dynamodb_server(*args: str) -> Iterator[Server]:
    """A DynamoDB in memory, without tables. It takes any credentials and any region."""
    command = fetch.command("dynoxide")

    def argv(port: int, folder: Path) -> list[str]:
        return [*command, "--host", "127.0.0.1", "--port", str(port), "--log", "quiet", *args]

    with _running("dynoxide", argv, _dynamodb_answers) as server:
        yield server


@contextmanager
def _running(
    name: str, argv: Callable[[int, Path], list[str]], answers: Callable[[Server], bool]
) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as temporary:
        folder = Path(temporary)
        port = free_port()
        server = Server(name, argv(port, folder), port, folder, answers)
        try:
            yield server
        finally:
            server.stop()


def _redis_answers(server: Server) -> bool:
    """It is up, done loading, and not another process that took the port meanwhile."""
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=1) as connection:
            connection.sendall(b"INFO server\r\n")
            reply = connection.recv(65536)
    except OSError:
        return False
    process = re.search(rb"process_id:(\d+)", reply)
    # With a password set it will not tell, but it is up.
    return int(process[1]) == server.pid if process else reply.startswith(b"-NOAUTH")


def _dynamodb_answers(server: Server) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=1)
    try:
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": "DynamoDB_20120810.ListTables",
            "Authorization": "AWS4-HMAC-SHA256 Credential=test/20000101/local/dynamodb/aws4_request, "
            "SignedHeaders=host, Signature=0",
        }
        connection.request("POST", "/", b"{}", headers)
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
