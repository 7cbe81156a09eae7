"""Clients of the engines, as a careful user would make them."""

from __future__ import annotations

from typing import Any

import boto3
import redis
from botocore.config import Config
from redis.backoff import NoBackoff
from redis.retry import Retry


def redis_client(port: int, **options: Any) -> redis.Redis:
    """A client that waits two seconds at most, and leaves retries to the lease."""
    settings: dict[str, Any] = {
        "socket_timeout": 2,
        "socket_connect_timeout": 2,
        "retry": Retry(NoBackoff(), 0),
    }
    return redis.Redis(port=port, **{**settings, **options})


def dynamodb_client(endpoint: str, **config: Any) -> Any:
    """The same for a table."""
    settings: dict[str, Any] = {
        "connect_timeout": 2,
        "read_timeout": 2,
        "retries": {"total_max_attempts": 1},
    }
    return boto3.client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name="eu-west-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(**{**settings, **config}),
    )


def create_table(client: Any, table: str, sort_key: str | None = None) -> None:
    """A table for leases."""
    keys = [("leaseId", "HASH"), *([(sort_key, "RANGE")] if sort_key else [])]
    client.create_table(
        TableName=table,
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
        BillingMode="PAY_PER_REQUEST",
    )
