"""Engines that keep what they acknowledged over a crash, and one that does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import tenure
from engines.proxy import HttpProxy, RedisProxy
from engines.servers import REDIS_KINDS, RedisKind, Server, dynamodb_server, redis_server

from .clients import LEASES_TABLE, create_tables, dynamodb_client, redis_client, rows_at
from .resource import Resource

Proxy = RedisProxy | HttpProxy
PATIENCE = 5.0
"""Of the clients of a test itself, which no fault spoils."""

# Durable also against a loss of power, though a test only kills the process.
_KEEPS = ("--appendonly", "yes", "--appendfsync", "always")


@dataclass(frozen=True)
class Engine:
    """A store of leases under test, and where the guarded rows are."""

    kind: str
    server: Server
    resource: Server
    max_clock_skew: float = 0.0

    @property
    def protocol(self) -> str:
        """What workers are told that it is."""
        return "redis" if self.kind in REDIS_KINDS else self.kind

    def proxy(self) -> Proxy:
        """A network of its own for one worker."""
        if self.protocol == "redis":
            return RedisProxy(self.server.port)
        return HttpProxy(self.server.port)

    def store(self, port: int | None = None) -> tenure.Store:
        """For a test itself: around all proxies, or through the one at this port."""
        port = port or self.server.port
        if self.protocol == "redis":
            return tenure.redis(redis_client(port, timeout=PATIENCE))
        return tenure.dynamodb(dynamodb_client(port, timeout=PATIENCE), table=LEASES_TABLE)

    def rows(self) -> Resource:
        return rows_at(self.protocol, self.resource.port, timeout=PATIENCE)


@contextmanager
def durable(kind: str) -> Iterator[Engine]:
    """Leases and rows in one engine, which has both again after a restart."""
    if kind in REDIS_KINDS:
        with redis_server(_redis(kind), *_KEEPS) as server:
            yield Engine(kind, server, server)
        return
    # Its working folder is its own, and stays over a restart.
    with dynamodb_server("--db-path", "tables.sqlite") as server:
        create_tables(server.port)
        yield Engine(kind, server, server, 0.3 if kind == "bounded" else 0.0)


@contextmanager
def forgetful(kind: str) -> Iterator[Engine]:
    """An engine that has nothing after a restart, fences included. The rows are in another one, which stays:
    what is to be seen is whether fences still protect them."""
    with redis_server(_redis(kind)) as server, redis_server(_redis(kind)) as resource:
        yield Engine(kind, server, resource)


def _redis(kind: str) -> RedisKind:
    return next(known for known in REDIS_KINDS if known == kind)
