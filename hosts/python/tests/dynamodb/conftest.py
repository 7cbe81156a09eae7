from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tenure
from dynamodb_help import TABLE, Rows, Stores, single_try
from engine_help import quiet as quiet
from engines.proxy import HttpProxy
from engines.servers import Server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            # Short leases with patient clients: that is warned of, and tested for itself.
            item.add_marker(pytest.mark.filterwarnings("ignore::tenure.TenureWarning"))


@pytest.fixture(scope="session")
def server(engines: Callable[[str], Server]) -> Server:
    return engines("dynamodb")


@pytest.fixture
def line(server: Server) -> Iterator[HttpProxy]:
    """The network between our client and the server."""
    with HttpProxy(server.port) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def rows(server: Server) -> Rows:
    """The table by somebody else's client, which nothing spoils."""
    return Rows(single_try(server.endpoint))


@pytest.fixture
def stores() -> Iterator[Stores]:
    made: list[tenure.Store] = []

    def make(client: Any, **options: Any) -> tenure.Store:
        made.append(tenure.dynamodb(client, **({"table": TABLE} | options)))
        return made[-1]

    yield make
    for store in made:
        store.close()
