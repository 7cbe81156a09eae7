"""What all tests of this host share: real engines, fresh names, and an eye on threads."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure._store import _stores

sys.path.insert(0, str(Path(__file__).parent))

from engines.servers import REDIS_KINDS, dynamodb_server, redis_server  # noqa: E402

from stores import create_table, dynamodb_client, redis_client  # noqa: E402

#: Every store that a lease can be kept in, on the engines that are kept in this folder's cache.
STORES = ["memory", "sqlite", "dynamodb", "bounded", *REDIS_KINDS]

_names = itertools.count()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return f"{request.node.originalname}-{os.getpid()}-{next(_names)}"


@pytest.fixture(scope="session")
def engines() -> Iterator[Callable[[str], Any]]:
    """Starts an engine when it is first asked for; all end with the session."""
    started: dict[str, Any] = {}
    with ExitStack() as stack:

        def start(kind: str) -> Any:
            if kind not in started:
                server = dynamodb_server() if kind == "dynamodb" else redis_server(kind)
                started[kind] = stack.enter_context(server)
                if kind == "dynamodb":
                    create_table(dynamodb_client(started[kind].endpoint), "leases")
            return started[kind]

        yield start


#: Makes a new store of the kind under test, as another process would have it.
Opener = Callable[..., tenure.Store]


@pytest.fixture(params=STORES)
def opener(
    request: pytest.FixtureRequest, engines: Callable[[str], Any], tmp_path: Path
) -> Iterator[Opener]:
    """Makes stores of one kind; all share what is kept in it."""
    kind = request.param
    with ExitStack() as stack:
        shared: list[Any] = []

        def open_store(**options: Any) -> tenure.Store:
            if kind == "memory":
                store = tenure.memory(**options)
                # Another store of the same process sees the same rows.
                shared.append(store.carrier)
                store.carrier = shared[0]
            elif kind == "sqlite":
                store = tenure.sqlite(tmp_path / "leases.sqlite", **options)
            elif kind in ("dynamodb", "bounded"):
                client = dynamodb_client(engines("dynamodb").endpoint)
                skew = {"max_clock_skew": 0.1} if kind == "bounded" else {}
                store = tenure.dynamodb(client, table="leases", **skew, **options)
            else:
                store = tenure.redis(redis_client(engines(kind).port), **options)
            stack.callback(store.close)
            return store

        yield open_store


@pytest.fixture
def store(opener: Opener) -> tenure.Store:
    """One store of each kind."""
    return opener()


@pytest.fixture(autouse=True)
def no_thread_fails() -> Iterator[None]:
    """An exception in a thread is nobody's to catch: there must be none."""
    failures: list[Any] = []
    before = threading.excepthook
    threading.excepthook = failures.append
    try:
        with warnings.catch_warnings():
            # Tests use ttls that are shorter than any sensible time-out of a client.
            warnings.simplefilter("ignore", tenure.TenureWarning)
            yield
    finally:
        threading.excepthook = before
        # What a test leaves held is not to be renewed while others count threads and requests.
        for left in list(_stores):
            left.keeper.close()
    assert not failures, failures
