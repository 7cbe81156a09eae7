"""Clients of the engines: quick to give up, since what hangs for as long as a ttl costs the lease."""

from __future__ import annotations

from typing import Any

import boto3
import redis
from botocore.config import Config
from redis.backoff import ConstantBackoff, NoBackoff
from redis.retry import Retry

from .resource import DynamoDbRows, RedisRows, Resource

LEASES_TABLE = "leases"
TIMEOUT = 0.4
"""Of one try, in seconds."""


def redis_client(port: int, retries: bool = False, timeout: float = TIMEOUT) -> redis.Redis:
    retry = Retry(ConstantBackoff(0.02), 2) if retries else Retry(NoBackoff(), 0)
    return redis.Redis(port=port, socket_timeout=timeout, socket_connect_timeout=timeout, retry=retry)


def dynamodb_client(port: int, retries: bool = False, timeout: float = TIMEOUT) -> Any:
    return boto3.client(
        "dynamodb",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="eu-west-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(
            connect_timeout=timeout,
            read_timeout=timeout,
            retries={"total_max_attempts": 3 if retries else 1},
            max_pool_connections=20,
        ),
    )


def rows_at(engine: str, port: int, timeout: float = TIMEOUT) -> Resource:
    """Its client sends everything once: a copy sent again could land after a later write of the same fence."""
    if engine == "redis":
        return RedisRows(redis_client(port, timeout=timeout))
    return DynamoDbRows(dynamodb_client(port, timeout=timeout))


def create_tables(port: int) -> None:
    client = dynamodb_client(port, timeout=5)
    client.create_table(
        TableName=LEASES_TABLE,
        KeySchema=[{"AttributeName": "leaseId", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "leaseId", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    DynamoDbRows(client).create()
