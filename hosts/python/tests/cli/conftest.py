from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engines.servers import Server, dynamodb_server, redis_server
from harness import Tenure


@pytest.fixture
def tenure(tmp_path: Path) -> Iterator[Tenure]:
    """With the default store, a SQLite file."""
    runner = Tenure(tmp_path / "state")
    try:
        yield runner
    finally:
        runner.stop()


@pytest.fixture(scope="session")
def redis_engine() -> Iterator[Server]:
    with redis_server("redis86") as server:
        yield server


@pytest.fixture(scope="session")
def dynamodb_engine() -> Iterator[Server]:
    with dynamodb_server() as server:
        yield server


@pytest.fixture(scope="session")
def redis_url(redis_engine: Server) -> str:
    return f"redis://127.0.0.1:{redis_engine.port}/0"


@pytest.fixture(scope="session")
def dynamodb_url(dynamodb_engine: Server) -> str:
    return f"dynamodb://eu-central-1/leases?endpoint={dynamodb_engine.endpoint}"
