from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import tenure
from engine_help import quiet as quiet
from engines.proxy import RedisProxy
from engines.servers import REDIS_KINDS, RedisKind, Server
from redis_help import Stores


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            # Short leases with patient clients: that is warned of, and tested for itself.
            item.add_marker(pytest.mark.filterwarnings("ignore::tenure.TenureWarning"))


@pytest.fixture(params=REDIS_KINDS)
def kind(request: pytest.FixtureRequest) -> RedisKind:
    chosen: RedisKind = request.param
    return chosen


@pytest.fixture
def server(engines: Callable[[RedisKind], Server], kind: RedisKind) -> Server:
    return engines(kind)


@pytest.fixture
def wire(server: Server) -> Iterator[RedisProxy]:
    """The network between our client and the server."""
    with RedisProxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def direct(server: Server) -> redis.Redis:
    """Somebody else's connection, which nothing spoils."""
    return redis.Redis(port=server.port)


@pytest.fixture
def stores(name: str) -> Iterator[Stores]:
    """Makes stores, each with this test's prefix and thereby with fences of its own."""
    made: list[tenure.Store] = []

    def make(client: redis.Redis, **options: Any) -> tenure.Store:
        made.append(tenure.redis(client, **({"prefix": f"{name}:"} | options)))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def key(name: str) -> str:
    """What stands in the store for the lease `a`."""
    return f"{name}:a"
