"""Clients, stores and rows for the tests against DynamoDB."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import boto3
import tenure
from engines.proxy import Action, answer_http
from stores import dynamodb_client

TABLE = "leases"

#: Makes a store of the shared table.
Stores = Callable[..., tenure.Store]
#: Makes a client for an endpoint.
Clients = Callable[..., Any]
#: An item as DynamoDB has it.
Row = dict[str, dict[str, Any]]

#: A client that sends everything once.
single_try: Clients = dynamodb_client


def as_it_comes(endpoint: str) -> Any:
    """As boto3 makes it: with retries of its own, and patient."""
    return boto3.client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name="eu-west-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


def error(code: str, status: int = 400) -> Action:
    """The engine says this."""
    kind = f"com.amazonaws.dynamodb.v20120810#{code}"
    return answer_http(status, {"__type": kind, "message": f"{code} of the test"})


class Rows:
    """The table, seen and changed by somebody else."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def get(self, name: str) -> Row | None:
        row: Row | None = self._client.get_item(
            TableName=TABLE, Key={"leaseId": {"S": name}}, ConsistentRead=True
        ).get("Item")
        return row

    def of(self, name: str) -> Row:
        row = self.get(name)
        assert row is not None
        return row

    def put(self, name: str, **attributes: dict[str, Any]) -> Row:
        """Gives it as it stands there, since numbers are kept in a form of their own."""
        self._client.put_item(TableName=TABLE, Item={"leaseId": {"S": name}, **attributes})
        return self.of(name)

    def delete(self, name: str) -> None:
        self._client.delete_item(TableName=TABLE, Key={"leaseId": {"S": name}})

    def free(self, name: str) -> bool:
        row = self.get(name)
        return row is None or "resourceId" not in row and "leaseExpiration" not in row

    def fence(self, name: str) -> int:
        return int(self.of(name)["fence"]["N"])

    def left_dead(self, store: tenure.Store, name: str, ttl: float) -> Row:
        """The row of a holder that died right after it acquired it."""
        lease = store.acquire(name, ttl=ttl)
        row = self.of(name)
        lease.release()
        self._client.put_item(TableName=TABLE, Item=row)
        return row


class Sent:
    """What a client sends, as its caller put it."""

    def __init__(self, client: Any) -> None:
        #: Operation and parameters.
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.at: list[float] = []
        client.meta.events.register("provide-client-params.dynamodb", self._note)

    def _note(self, params: dict[str, Any], event_name: str, **_: Any) -> None:
        self.requests.append((event_name.rpartition(".")[2], params))
        self.at.append(time.monotonic())

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.requests]

    def clear(self) -> None:
        self.requests.clear()
        self.at.clear()


def wall_ms() -> int:
    return time.time_ns() // 1_000_000
