"""Clients and tables that cannot work are refused, and clients that may wait too long are warned of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
import tenure
from botocore.config import Config
from dynamodb_help import Stores, as_it_comes, single_try
from engines.proxy import HttpProxy
from engines.servers import Server

AWS: dict[str, Any] = {"region_name": "eu-west-1", "aws_access_key_id": "test", "aws_secret_access_key": "test"}


def _asyncio_client(endpoint: str) -> Any:
    """As aiobotocore makes it: of a class of its own, with coroutines for methods."""

    async def update_item(self: Any, **_: Any) -> None:
        raise AssertionError("called")

    def plain(self: Any, **_: Any) -> Any:
        raise AssertionError("called")

    meta = SimpleNamespace(
        service_model=SimpleNamespace(service_name="dynamodb"),
        config=Config(connect_timeout=1, read_timeout=1),
    )
    methods = {"update_item": update_item, "get_item": plain, "meta": meta}
    base = type("AioBaseClient", (), {"__module__": "aiobotocore.client"})
    return type("DynamoDB", (base,), methods)()


WRONG: dict[str, tuple[Callable[[str], Any], str]] = {
    "resource": (lambda url: boto3.resource("dynamodb", endpoint_url=url, **AWS), "boto3.client('dynamodb')"),
    "table": (lambda url: boto3.resource("dynamodb", endpoint_url=url, **AWS).Table("leases"), "resource"),
    # It looks like a client, but wants values of Python, and would put a map where a text belongs.
    "client of a resource": (
        lambda url: boto3.resource("dynamodb", endpoint_url=url, **AWS).meta.client,
        "resource",
    ),
    "asyncio": (_asyncio_client, "asyncio"),
    "another service": (lambda url: boto3.client("s3", endpoint_url=url, **AWS), "dynamodb"),
    "streams": (lambda url: boto3.client("dynamodbstreams", endpoint_url=url, **AWS), "dynamodb"),
    "session": (lambda url: boto3.session.Session(), "dynamodb"),
    "none": (lambda url: None, "dynamodb"),
    "url": (lambda url: url, "dynamodb"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_client_fails_at_construction(line: HttpProxy, wrong: str) -> None:
    make, says = WRONG[wrong]
    with pytest.raises(tenure.ConfigError) as refused:
        tenure.dynamodb(make(line.endpoint), table="leases")
    assert refused.value.field == "client" and says in str(refused.value)
    assert line.log == []


def test_making_a_store_sends_nothing(line: HttpProxy, stores: Stores) -> None:
    stores(single_try(line.endpoint))
    assert line.log == []


def test_issue_patient_by_default(server: Server) -> None:
    with pytest.warns(tenure.TenureWarning, match=r"Config\(connect_timeout=2, read_timeout=2") as told:
        tenure.dynamodb(as_it_comes(server.endpoint), table="leases")
    assert len(told) == 1 and told[0].filename == __file__


def test_a_client_of_the_recommended_kind_is_not_warned_of(server: Server) -> None:
    config = Config(connect_timeout=2, read_timeout=2, retries={"total_max_attempts": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tenure.dynamodb(boto3.client("dynamodb", endpoint_url=server.endpoint, config=config, **AWS), table="leases")


@pytest.mark.parametrize("mode", ["legacy", "standard", "adaptive"])
def test_retries_of_every_mode_are_counted(server: Server, mode: Any) -> None:
    """Ten attempts of four seconds each are longer than any default ttl."""
    config = Config(connect_timeout=4, read_timeout=4, retries={"max_attempts": 9, "mode": mode})
    with pytest.warns(tenure.TenureWarning, match="up to 40 s"):
        tenure.dynamodb(boto3.client("dynamodb", endpoint_url=server.endpoint, config=config, **AWS), table="leases")


def test_a_missing_table(server: Server, stores: Stores, name: str) -> None:
    store = stores(single_try(server.endpoint), table="nowhere")
    for wait in (0, 5):
        with pytest.raises(tenure.ConfigError) as refused:
            store.acquire(name, ttl=30, wait=wait)
        assert refused.value.field == "table" and "nowhere" in refused.value.why
        assert refused.value.__cause__ is not None
    with pytest.raises(tenure.ConfigError):
        store.status(name)
    with pytest.raises(tenure.ConfigError):
        list(store.list())


@pytest.fixture(scope="module")
def other_keys(server: Server) -> Iterator[Callable[[str, str | None], str]]:
    """Tables whose keys are not a lease's."""
    client = single_try(server.endpoint)
    made: list[str] = []

    def make(kind: str, sort_key: str | None) -> str:
        table = f"keys-{kind}-{sort_key}"
        keys = [("id" if kind == "named" else "leaseId", "HASH"), *([(sort_key, "RANGE")] if sort_key else [])]
        client.create_table(
            TableName=table,
            KeySchema=[{"AttributeName": key, "KeyType": use} for key, use in keys],
            AttributeDefinitions=[
                {"AttributeName": key, "AttributeType": "N" if kind == "number" else "S"} for key, _ in keys
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        made.append(table)
        return table

    yield make
    for table in made:
        client.delete_table(TableName=table)


@pytest.mark.parametrize(("kind", "sort_key"), [("named", None), ("number", None), ("sorted", "sk")])
def test_a_table_with_another_key(
    server: Server,
    stores: Stores,
    other_keys: Callable[[str, str | None], str],
    kind: str,
    sort_key: str | None,
    name: str,
) -> None:
    table = other_keys(kind, sort_key)
    client = single_try(server.endpoint)
    with pytest.raises(tenure.ConfigError) as refused:
        stores(client, table=table).acquire(name, ttl=30)
    assert refused.value.field == "table" and "hash_key=" in refused.value.why
    assert client.scan(TableName=table)["Count"] == 0


@pytest.mark.parametrize("bound", [-1, "30", float("nan"), 30, True])
def test_a_bound_that_cannot_work(server: Server, stores: Stores, bound: Any, name: str) -> None:
    with pytest.raises(tenure.ConfigError) as refused:
        stores(single_try(server.endpoint), max_clock_skew=bound).acquire(name, ttl=30)
    assert refused.value.field == "max_clock_skew"


def test_a_table_without_a_name(server: Server) -> None:
    with pytest.raises(tenure.ConfigError) as refused:
        tenure.dynamodb(single_try(server.endpoint), table="")
    assert refused.value.field == "table"
