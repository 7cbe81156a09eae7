"""A network that fails on purpose: a proxy between a client and an engine, told which request to spoil and how.

    with RedisProxy(server.port) as proxy:
        client = redis.Redis(port=proxy.port)
        proxy.arm(Fault(drop_reply, match="SET", contains="lease:a"))
        client.set("lease:a", "me", nx=True)      # applied by the engine, a connection error here
        assert proxy.count("SET") == 1

Each armed fault spoils its next `times` matching requests; all others pass untouched, byte for byte.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from .ports import free_port

_T = TypeVar("_T")

# Far above anything a lease sends: a head or line that long is a broken peer, not a request.
_LINE_LIMIT = 1 << 20


@dataclass(frozen=True)
class Action:
    """What happens to a request. Made by the names below."""

    kind: Literal["passed", "drop_request", "drop_reply", "delay", "delay_reply", "duplicate", "hang", "answer"]
    seconds: float = 0.0
    payload: bytes = b""


_PASS = Action("passed")

drop_request = Action("drop_request")
"""The engine never sees it; the connection closes."""

drop_reply = Action("drop_reply")
"""The engine carries it out and answers; the client sees its connection reset instead."""

duplicate = Action("duplicate")
"""The engine carries it out twice, one after the other; the client sees the first reply."""

hang = Action("hang")
"""The engine never sees it or anything later on this connection, which stays open and silent."""


def delay(seconds: float) -> Action:
    """The engine sees it late, and sees it even if the client has given up by then."""
    return Action("delay", seconds)


def delay_reply(seconds: float) -> Action:
    """The engine carries it out at once; its reply comes late."""
    return Action("delay_reply", seconds)


def answer(payload: bytes) -> Action:
    """The engine never sees it; the client gets these bytes: `answer(b"-LOADING not yet\\r\\n")`."""
    return Action("answer", payload=payload)


def answer_http(status: int, body: Mapping[str, Any]) -> Action:
    """The engine never sees it; the client gets this status and JSON body."""
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} -\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {len(content)}\r\n\r\n"
    return answer(head.encode() + content)


@dataclass(frozen=True)
class Fault:
    """An action and the requests it waits for."""

    action: Action
    match: str | None = None
    """The Redis command (`"EVALSHA"`) or DynamoDB operation (`"UpdateItem"`); None is any, a handshake too."""
    contains: str | None = None
    """Text that must be somewhere in the command's arguments (for EXEC: of the whole transaction) or in the
    body, which is compared as JSON without spaces."""
    times: int | None = 1
    """How many requests it spoils; None is every one until `disarm()`."""


@dataclass(frozen=True)
class Entry:
    """One request in the log."""

    at: float
    """When it arrived, on `time.monotonic()`."""
    operation: str
    outcome: str
    """`passed`, or the kind of the action that spoiled it; `unanswered` until then, for good if all broke first."""


@dataclass
class _Request:
    operation: str
    raw: bytes
    text: bytes
    """What `Fault.contains` looks at."""
    block: list[bytes] = field(default_factory=list)
    """For EXEC: its transaction from MULTI on, without which it cannot be repeated."""
    action: Action = _PASS
    entry: int = -1


class _HangUp(Exception):
    """The connection closes here, in order: what was written before still arrives."""


class _Proxy(ABC):
    """Listening, faults and log; a subclass knows where requests and replies begin and end."""

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port
        self.port = free_port()
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._log: list[Entry] = []
        self._listener: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=type(self).__name__, daemon=True)
        self._thread.start()
        self.up()

    # --- what a test does with it ---

    def arm(self, fault: Fault) -> None:
        """Adds a fault. Of several that match one request, the one armed first spoils it."""
        with self._lock:
            self._faults.append(fault)

    def disarm(self) -> None:
        """Forgets all faults. A connection that hangs goes on hanging."""
        with self._lock:
            self._faults.clear()

    @property
    def log(self) -> list[Entry]:
        """Every request so far, in order of arrival."""
        with self._lock:
            return list(self._log)

    def count(self, operation: str, outcome: str | None = None) -> int:
        """How many requests of this operation came, or came and ended in `outcome`."""
        return sum(e.operation == operation and outcome in (None, e.outcome) for e in self.log)

    def down(self) -> None:
        """The network is gone: connections are reset, new ones refused, delayed requests never arrive."""
        self._call(self._go_down())

    def up(self) -> None:
        """It is back, on the same port."""
        self._call(self._go_up())

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self.down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- connections ---

    def _call(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _go_up(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port, limit=_LINE_LIMIT)

    async def _go_down(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        connections = dict(self._connections)
        for task, client in connections.items():
            _reset(client)
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._listener is None:
            # Accepted by the kernel just before the network went down.
            _reset(writer)
            return
        task = self._loop.create_task(self._handle(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(self._connections.pop)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except _HangUp:
            pass
        except (ConnectionError, asyncio.IncompleteReadError):
            # Either side broke off in the middle: so does the proxy.
            _reset(writer)
        finally:
            writer.close()

    @abstractmethod
    async def _serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Carries one client's connection until it ends."""

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.upstream_port, limit=_LINE_LIMIT)

    # --- faults and log ---

    def _admit(self, request: _Request) -> None:
        """Logs a request on arrival and decides its fate."""
        with self._lock:
            request.action = self._take(request)
            request.entry = len(self._log)
            self._log.append(Entry(time.monotonic(), request.operation, "unanswered"))

    def _take(self, request: _Request) -> Action:
        for index, fault in enumerate(self._faults):
            if fault.match not in (None, request.operation):
                continue
            if fault.contains is not None and fault.contains.encode() not in request.text:
                continue
            if fault.times == 1:
                del self._faults[index]
            elif fault.times is not None:
                self._faults[index] = replace(fault, times=fault.times - 1)
            return fault.action
        return _PASS

    def _settle(self, request: _Request) -> None:
        """Always before the client can notice, so that a test which has seen its error finds the log complete."""
        with self._lock:
            self._log[request.entry] = replace(self._log[request.entry], outcome=request.action.kind)


async def _swallow(reader: asyncio.StreamReader) -> None:
    """Reads on without looking, so that a client that leaves is noticed."""
    while await reader.read(65536):
        pass


def _reset(writer: asyncio.StreamWriter) -> None:
    """Closes with RST and without the bytes still waiting, as a crashed machine or a firewall would."""
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


# --- Redis ----------------------------------------------------------------------------------------------------


class RedisProxy(_Proxy):
    """Between a Redis client and its server: RESP2 and RESP3, pipelines, transactions, pub/sub."""

    def arm(self, fault: Fault) -> None:
        if fault.match in _SUBSCRIBING and fault.action.kind in ("drop_reply", "delay_reply", "duplicate"):
            raise ValueError(f"{fault.match} is confirmed by pushes: there is no reply for {fault.action.kind}")
        super().arm(fault)

    async def _serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        engine, forth = await self._connect()
        link = _RedisLink(self, client, back, engine, forth)
        try:
            # Two pumps, since a pipeline sends on before the first reply and a push comes without a request.
            async with asyncio.TaskGroup() as pumps:
                requests = pumps.create_task(link.pump_requests())
                await link.pump_replies()
                requests.cancel()
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            forth.close()


@dataclass
class _RedisLink:
    """One client's connection and its twin to the server."""

    proxy: RedisProxy
    client: asyncio.StreamReader
    back: asyncio.StreamWriter
    engine: asyncio.StreamReader
    forth: asyncio.StreamWriter
    waiting: deque[_Request] = field(default_factory=deque)
    """Requests without a reply yet, in the order in which the client expects the replies."""
    setup: list[bytes] = field(default_factory=list)
    """What made this connection what it is; a duplicate's connection must become the same first."""
    transaction: list[_Request] | None = None
    """What came since MULTI."""
    subscribed: bool = False

    async def pump_requests(self) -> None:
        while (request := await self.next_request()) is not None:
            self.follow(request)
            self.proxy._admit(request)
            if request.action is hang:
                self.proxy._settle(request)
                await _swallow(self.client)
                break
            if request.action.kind in _OWN_TURN:
                # Not before the replies that the client waits for already.
                self.waiting.append(request)
                await self.play_own_turns()
                continue
            if request.action.kind == "delay":
                await asyncio.sleep(request.action.seconds)
            if request.operation in _SUBSCRIBING:
                # Confirmed by pushes, which belong to no turn.
                self.subscribed = True
                self.proxy._settle(request)
            else:
                self.waiting.append(request)
            self.forth.write(request.raw)
            await self.forth.drain()
        # Only half a close: what was sent before it is still carried out, as without a proxy.
        self.forth.write_eof()

    async def next_request(self) -> _Request | None:
        try:
            return await _read_command(self.client)
        except (ConnectionError, asyncio.IncompleteReadError):
            # However the client left: its requests that are under way must still reach the engine and the log.
            return None

    async def pump_replies(self) -> None:
        while (reply := await _read_reply(self.engine)) is not None:
            if self.is_push(reply) or not self.waiting:
                await self.relay(reply)
                continue
            # It stays at the head until its reply is written: an answer of our own must not overtake it.
            request = self.waiting[0]
            if request.action.kind == "delay_reply":
                await asyncio.sleep(request.action.seconds)
            if request.action is duplicate:
                await self.repeat(request)
            self.waiting.popleft()
            self.proxy._settle(request)
            if request.action is drop_reply:
                _reset(self.back)
                return
            await self.relay(reply)
            await self.play_own_turns()

    async def play_own_turns(self) -> None:
        """Carries out what the proxy does itself, once it is at the head of the queue."""
        while self.waiting and self.waiting[0].action.kind in _OWN_TURN:
            request = self.waiting.popleft()
            self.proxy._settle(request)
            if request.action is drop_request:
                raise _HangUp
            await self.relay(request.action.payload)

    async def relay(self, reply: bytes) -> None:
        try:
            self.back.write(reply)
            await self.back.drain()
        except ConnectionError:
            pass  # The client has left, as `next_request` will find.

    async def repeat(self, request: _Request) -> None:
        engine, forth = await self.proxy._connect()
        try:
            for raw in [*self.setup, *(request.block or [request.raw])]:
                forth.write(raw)
                await forth.drain()
                await _read_reply(engine)
        finally:
            forth.close()

    def follow(self, request: _Request) -> None:
        """Keeps what a repetition needs: the connection's set-up, and a transaction as a whole."""
        match request.operation:
            case "HELLO" | "AUTH" | "SELECT":
                self.setup.append(request.raw)
            case "MULTI":
                self.transaction = [request]
            case "DISCARD":
                self.transaction = None
            case "EXEC" if self.transaction is not None:
                self.transaction.append(request)
                request.text = b" ".join(part.text for part in self.transaction)
                request.block = [part.raw for part in self.transaction]
                self.transaction = None
            case _ if self.transaction is not None:
                self.transaction.append(request)

    def is_push(self, reply: bytes) -> bool:
        if reply.startswith(b">"):
            return True
        # RESP2 has no type for pushes; only a subscribed connection gets them, as arrays that say what they are.
        return self.subscribed and reply.startswith(b"*") and not _PUSHES.isdisjoint(reply.split(b"\r\n", 3)[2:3])


_OWN_TURN = ("answer", "drop_request")
_SUBSCRIBING = {"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"}
_PUSHES = {b"message", b"pmessage", b"smessage"} | {name.lower().encode() for name in _SUBSCRIBING}


async def _read_command(reader: asyncio.StreamReader) -> _Request | None:
    line = await _read_line(reader)
    if line is None:
        return None
    if not line.startswith(b"*"):
        words = line.split()
        return _Request(words[0].decode().upper() if words else "", line, line)
    raw, words = [line], []
    for _ in range(int(line[1:])):
        head = await reader.readuntil(b"\r\n")
        body = await reader.readexactly(int(head[1:]) + 2)
        raw += [head, body]
        words.append(body[:-2])
    return _Request(words[0].decode(errors="replace").upper() if words else "", b"".join(raw), b" ".join(words))


async def _read_reply(reader: asyncio.StreamReader) -> bytes | None:
    line = await _read_line(reader)
    return None if line is None else line + await _read_rest(reader, line)


async def _read_rest(reader: asyncio.StreamReader, line: bytes) -> bytes:
    """What belongs to the reply that begins with `line`."""
    match line[:1]:
        case b"$" | b"=" | b"!":
            length = int(line[1:])
            return await reader.readexactly(length + 2) if length >= 0 else b""
        case b"*" | b"~" | b">":
            items = int(line[1:])
        case b"%":
            items = 2 * int(line[1:])
        case b"|":
            # Attributes are not a reply: the reply they describe follows.
            items = 2 * int(line[1:]) + 1
        case _:
            return b""
    parts = []
    for _ in range(items):
        head = await reader.readuntil(b"\r\n")
        parts += [head, await _read_rest(reader, head)]
    return b"".join(parts)


async def _read_line(reader: asyncio.StreamReader) -> bytes | None:
    """A line, or None where the peer has said all."""
    try:
        return await reader.readuntil(b"\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise
        return None


# --- HTTP -----------------------------------------------------------------------------------------------------


class HttpProxy(_Proxy):
    """Between a DynamoDB client and its endpoint: HTTP/1.1 with keep-alive and content lengths."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        while (request := await _read_http_request(client)) is not None:
            self._admit(request)
            action = request.action
            if action is hang:
                self._settle(request)
                return await _swallow(client)
            if action is drop_request:
                self._settle(request)
                raise _HangUp
            if action.kind == "answer":
                reply = action.payload
            else:
                if action.kind == "delay":
                    await asyncio.sleep(action.seconds)
                reply = await self._exchange(request)
            if action.kind == "delay_reply":
                await asyncio.sleep(action.seconds)
            if action is duplicate:
                await self._exchange(request)
            self._settle(request)
            if action is drop_reply:
                return _reset(back)
            back.write(reply)
            await back.drain()

    async def _exchange(self, request: _Request) -> bytes:
        # A fresh connection each time: a kept one may have died with an engine that was restarted meanwhile,
        # and that would be a fault which nobody armed.
        engine, forth = await self._connect()
        try:
            forth.write(request.raw)
            await forth.drain()
            reply = await _read_http(engine)
        finally:
            forth.close()
        if reply is None:
            raise ConnectionResetError("the engine closed the connection without a reply")
        head, body = reply
        return head + body


async def _read_http_request(reader: asyncio.StreamReader) -> _Request | None:
    message = await _read_http(reader)
    if message is None:
        return None
    head, body = message
    target = _header(head, b"x-amz-target")
    # `DynamoDB_20120810.UpdateItem`; a request without a target is named by its first line: `GET /`.
    operation = target.rpartition(b".")[2] if target else head.partition(b" HTTP/")[0]
    return _Request(operation.decode(errors="replace"), head + body, _compact(body))


def _compact(body: bytes) -> bytes:
    """JSON without spaces: clients differ in where they put them, and a test wants to match them all."""
    try:
        return json.dumps(json.loads(body), separators=(",", ":"), ensure_ascii=False).encode()
    except ValueError:
        return body


async def _read_http(reader: asyncio.StreamReader) -> tuple[bytes, bytes] | None:
    """Head and body of a request or reply, or None where the peer has said all."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise
        return None
    length = _header(head, b"content-length")
    return head, await reader.readexactly(int(length)) if length else b""


def _header(head: bytes, name: bytes) -> bytes | None:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.lower() == name:
            return value.strip()
    return None
