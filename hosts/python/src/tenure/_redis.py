"""Redis and Valkey, by a redis-py client."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from . import _clock, _core
from ._carrier import Carried
from ._errors import ConfigError, StoreError
from ._status import Status, status_of
from ._store import Store, StoreOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


def redis(
    client: Any,
    *,
    prefix: str = "",
    fence: bool = True,
    **options: Unpack[StoreOptions],
) -> Store:
    """Leases in Redis or Valkey, by a redis-py client: `redis.Redis(...)`.

    The key of a lease is `prefix` and its name; what stands there excludes, and is excluded by, every
    lock that is a plain `SET key token NX PX`. With `fence`, one more key of the prefix
    (`tenure:fence`) counts the fencing numbers; where the user may not write it, or may neither run
    scripts nor `MULTI`, `lease.fence` is `None`.

    A single primary excludes; a failover can forget a lease that was acquired.
    """
    carrier = _Redis(client, prefix, fence)
    return Store(carrier, **options)


class _Redis:
    expiry = "store"
    max_clock_skew_us = 0
    per_claim = True
    patience_fix = (
        "redis.Redis(..., socket_timeout=2, socket_connect_timeout=2,"
        " retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0))"
    )

    def __init__(self, client: Any, prefix: str, fence: bool) -> None:
        _check_client(client)
        self._client = client
        self._prefix = prefix
        self._fence = fence
        self._fence_key = f"{prefix}tenure:fence"
        self._learned = _core.RedisClient(fence)
        self.patience_us, self._tries_once = _patience(client)

    def lease(self, config: _core.Config, name: str, holder: str) -> _core.Lease:
        key = self._prefix + name
        if key == self._fence_key:
            raise ConfigError("name", "is the key of the fences")
        return _core.Lease.redis(config, key, holder, self._learned, self._fence_key)

    def carry(self, core: _core.Lease, call_id: int, request: Any) -> Carried:
        cause: BaseException | None = None
        handled = sys.exc_info()[1]
        while True:
            if request is None:
                return Carried(core.unavailable(_clock.reading(), call_id, True), cause)
            commands, transaction = request
            try:
                replies, cause = self._send(commands, transaction)
            except Exception as error:
                if self._tries_once and _never_sent(error, handled):
                    return Carried(core.unavailable(_clock.reading(), call_id, False), error)
                return Carried(core.unknown(_clock.reading(), call_id), error)
            step = core.replies(_clock.reading(), call_id, replies)
            call = step[0]
            if call is None or call[0] != call_id:
                complaint = core.complaint()
                hint = _HINTS.get(complaint.split(" ")[0], "") if complaint else ""
                return Carried(step, (cause or complaint) if complaint else None, hint)
            # The server did not know that form of the request; there is another one.
            request = call[2]

    def _send(self, commands: Any, transaction: bool) -> tuple[list[Any], Exception | None]:
        """The replies, an error as `(text,)`, and the error that was among them."""
        if len(commands) == 1 and not transaction:
            try:
                reply = self._client.execute_command(*commands[0], NEVER_DECODE=True)
            except Exception as error:
                return [_error_reply(error)], error
            return [_plain(reply)], None
        # Not a transaction of redis-py's, which would decode what it answers.
        pipeline = self._client.pipeline(transaction=False)
        if transaction:
            commands = [("MULTI",), *commands, ("EXEC",)]
        try:
            for command in commands:
                pipeline.execute_command(*command, NEVER_DECODE=True)
            replies: Any = pipeline.execute(raise_on_error=False)
        except Exception as error:
            return [_error_reply(error)], error
        finally:
            pipeline.reset()
        if transaction:
            executed: Any = replies[-1]
            # Where it was not carried out, what was not understood says why.
            answered = isinstance(executed, list)
            replies = cast("list[Any]", executed) if answered else [_first_error(replies) or executed]
        return [_plain(reply) for reply in replies], _first_error(replies)

    def status(self, name: str) -> Status:
        _, status = next(self._statuses([self._prefix + name]))
        return status

    def list(self, prefix: str) -> Iterator[Status]:
        pattern = "".join(f"\\{c}" if c in "*?[]^\\" else c for c in self._prefix + prefix) + "*"
        cursor: Any = 0
        while True:
            try:
                cursor, keys = self._client.scan(cursor, match=pattern, count=500, _type="STRING")
            except Exception as error:
                raise StoreError(error) from error
            names = [_text(key) for key in keys]
            for _, status in self._statuses([name for name in names if name != self._fence_key]):
                if (status.held and not status.foreign) or status.resting:
                    yield status
            if int(cursor) == 0:
                return

    def _statuses(self, keys: Sequence[str]) -> Iterator[tuple[str, Status]]:
        pipeline = self._client.pipeline(transaction=False)
        for key in keys:
            pipeline.execute_command("GET", key, NEVER_DECODE=True)
            pipeline.execute_command("PTTL", key)
        try:
            replies: Any = pipeline.execute(raise_on_error=False) if keys else ()
        except Exception as error:
            raise StoreError(error) from error
        for key, get, pttl in zip(keys, replies[::2], replies[1::2]):
            try:
                shown = _core.redis_shown(key, _plain(get), _plain(pttl))
            except ValueError as error:
                raise StoreError(str(error), _HINTS.get(str(error).split(" ")[0], "")) from None
            raw = get if isinstance(get, bytes) else None
            yield key, status_of(key[len(self._prefix) :], shown, raw)

    def after_fork(self) -> None:
        # A lock in it may have been held by another thread of the parent.
        self._learned = _core.RedisClient(self._fence)

    def close(self) -> None:
        pass


_HINTS = {
    "NOPERM": "allow the user ~KEY +set, +eval and +evalsha (or +multi +exec +get +pttl +incr),"
    " and +delex or +delifeq",
    "WRONGTYPE": "the key holds something else than a lease; use another name or a prefix",
    "NOAUTH": "the client must authenticate",
    "WRONGPASS": "the password is wrong",
}

#: redis-py takes the code off the text of these.
_CODES = {
    "AskError": "ASK",
    "AuthenticationError": "NOAUTH",
    "AuthenticationWrongNumberOfArgsError": "NOAUTH",
    "BusyLoadingError": "LOADING",
    "ClusterCrossSlotError": "CROSSSLOT",
    "ClusterDownError": "CLUSTERDOWN",
    "ExecAbortError": "EXECABORT",
    "MasterDownError": "MASTERDOWN",
    "MovedError": "MOVED",
    "NoPermissionError": "NOPERM",
    "NoScriptError": "NOSCRIPT",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "TryAgainError": "TRYAGAIN",
}


def _first_error(replies: list[Any]) -> Exception | None:
    return next((reply for reply in replies if isinstance(reply, Exception)), None)


def _plain(reply: Any) -> Any:
    """A reply as the server gave it, whatever redis-py made of it."""
    if reply is True:
        return b"OK"
    if isinstance(reply, Exception):
        return _error_reply(reply)
    return reply


def _error_reply(error: Exception) -> tuple[str]:
    """The text of a reply that is an error. Raises what is none."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    code = next((_CODES[kind] for kind in kinds if kind in _CODES), None)
    if code is None and "ResponseError" not in kinds:
        raise error
    text = str(error)
    return (text if code is None or text.startswith(code) else f"{code} {text}",)


def _never_sent(error: Exception, handled: BaseException | None) -> bool:
    """Whether nothing has left, by what led to this error. What the caller was handling already when
    it called us did not."""
    cause: BaseException | None = error
    while cause is not None and cause is not handled:
        # What cannot be reached has got nothing; a time-out says less than that.
        if isinstance(cause, ConnectionRefusedError) or type(cause).__name__ == "gaierror":
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _text(key: Any) -> str:
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)


def _check_client(client: Any) -> None:
    kind = f"{type(client).__module__}.{type(client).__qualname__}"
    modules = {base.__module__ for base in type(client).__mro__}
    if any("asyncio" in module for module in modules):
        raise ConfigError("client", f"is for asyncio ({kind}); this store wants redis.Redis")
    if any("cluster" in module for module in modules):
        raise ConfigError(
            "client", f"is for a cluster ({kind}), where the fences would be in another slot"
        )
    if (
        isinstance(client, type)
        or not callable(getattr(client, "execute_command", None))
        or not callable(getattr(client, "pipeline", None))
    ):
        raise ConfigError("client", f"must be a redis.Redis, not {kind}")
    if any(module.startswith("redis.client") for module in modules) and hasattr(client, "watching"):
        raise ConfigError("client", "is a pipeline; pass the client itself")


def _patience(client: Any) -> tuple[int | None, bool]:
    kwargs: Any = getattr(getattr(client, "connection_pool", None), "connection_kwargs", {})
    retry = kwargs.get("retry")
    retries = getattr(retry, "_retries", 0) if retry is not None else 0
    connect, read = kwargs.get("socket_connect_timeout"), kwargs.get("socket_timeout")
    if read is None or retries < 0:
        return None, retries == 0
    return round(max(read, connect or read) * (retries + 1) * 1e6), retries == 0
