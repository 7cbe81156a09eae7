"""Clients and stores for the tests against Redis and Valkey."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis
import tenure
from stores import redis_client

#: Makes a store with this test's prefix, and thereby with fences of its own.
Stores = Callable[..., tenure.Store]
#: Makes a client for a port.
Clients = Callable[..., redis.Redis]


#: A client that sends everything once.
single_try: Clients = redis_client


def as_it_comes(port: int, **options: Any) -> redis.Redis:
    """As redis-py makes it: with retries of its own."""
    return redis.Redis(port=port, **options)


def ends_at_ms(direct: redis.Redis, key: str) -> int:
    """When the server will have forgotten it, by its Unix clock."""
    return int(direct.pexpiretime(key))


def warm(store: tenure.Store) -> None:
    """Lets it learn what the server can do, by a lease of no interest."""
    with store.lease("warm", ttl=30) as lease:
        lease.renew()
