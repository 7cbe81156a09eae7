"""Clients that cannot work are refused at once, and those that may wait too long are warned of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.cluster
import tenure
from engine_help import held
from engines.proxy import RedisProxy
from engines.servers import Server
from redis_help import Stores, single_try


def _unconnected(kind: Any) -> Any:
    """Of a class that would look for its servers at once."""
    return kind.__new__(kind)


WRONG: dict[str, tuple[Callable[[int], Any], str]] = {
    "asyncio": (lambda port: redis.asyncio.Redis(port=port), "asyncio"),
    "asyncio cluster": (lambda port: _unconnected(redis.asyncio.cluster.RedisCluster), "asyncio"),
    "cluster": (lambda port: _unconnected(redis.cluster.RedisCluster), "cluster"),
    "pipeline": (lambda port: redis.Redis(port=port).pipeline(), "pipeline"),
    "transaction": (lambda port: redis.Redis(port=port).pipeline(transaction=True), "pipeline"),
    "pool": (lambda port: redis.ConnectionPool(port=port), "redis.Redis"),
    "class": (lambda port: redis.Redis, "redis.Redis"),
    "none": (lambda port: None, "redis.Redis"),
    "url": (lambda port: f"redis://127.0.0.1:{port}", "redis.Redis"),
}


@pytest.mark.parametrize("kind", ["redis86"], indirect=True)
@pytest.mark.parametrize("wrong", WRONG)
def test_issue_wrong_client_fails_at_construction(wire: RedisProxy, wrong: str) -> None:
    make, says = WRONG[wrong]
    with pytest.raises(tenure.ConfigError) as refused:
        tenure.redis(make(wire.port))
    assert refused.value.field == "client" and says in str(refused.value)
    assert wire.log == []


@pytest.mark.parametrize("kind", ["redis86"], indirect=True)
def test_making_a_store_sends_nothing(wire: RedisProxy, stores: Stores) -> None:
    stores(single_try(wire.port))
    assert wire.log == []


@pytest.mark.parametrize(
    "options",
    [
        {"socket_timeout": None, "retry": None},
        {"socket_timeout": None},
        {"socket_timeout": 60, "retry": None},
        {},
    ],
    ids=["endless", "endless with retries", "a minute", "as it comes"],
)
def test_issue_infinite_hang_by_default(options: dict[str, Any]) -> None:
    with pytest.warns(tenure.TenureWarning, match="socket_timeout=2, socket_connect_timeout=2") as told:
        tenure.redis(redis.Redis(**options))
    assert len(told) == 1 and told[0].filename == __file__


def test_a_client_of_the_recommended_kind_is_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tenure.redis(
            redis.Redis(
                socket_timeout=2,
                socket_connect_timeout=2,
                retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),
            )
        )


@pytest.mark.parametrize("kind", ["redis86"], indirect=True)
def test_a_ttl_that_the_client_may_sleep_through_is_warned_of(server: Server, stores: Stores) -> None:
    store = stores(single_try(server.port, socket_timeout=2))
    with pytest.warns(tenure.TenureWarning, match="socket_timeout") as told:
        store.acquire("a", ttl=1)
    assert told[0].filename == __file__
    with pytest.warns(tenure.TenureWarning) as again, stores(single_try(server.port)).lease("b", ttl=1):
        pass
    assert again[0].filename == __file__


@pytest.mark.parametrize("kind", ["redis86"], indirect=True)
@pytest.mark.parametrize("pool", [redis.ConnectionPool, redis.BlockingConnectionPool])
def test_pools_of_any_kind(
    server: Server, stores: Stores, pool: type[redis.ConnectionPool], key: str, direct: redis.Redis
) -> None:
    client = redis.Redis(connection_pool=pool(host="127.0.0.1", port=server.port, max_connections=2))
    store = stores(client)
    with store.lease("a", ttl=30) as lease:
        assert held(lease) and client.get("x") is None
    assert direct.exists(key) == 0
    client.close()


@pytest.mark.parametrize("kind", ["redis86"], indirect=True)
def test_a_single_connection_client(server: Server, stores: Stores, key: str, direct: redis.Redis) -> None:
    store = stores(single_try(server.port, single_connection_client=True))
    with store.lease("a", ttl=30) as lease:
        lease.renew()
    assert direct.exists(key) == 0


@pytest.mark.parametrize("kind", ["redis86"], indirect=True)
def test_a_store_leaves_the_client_open(server: Server, stores: Stores) -> None:
    client = single_try(server.port)
    stores(client).close()
    assert client.ping()
