"""The test bed itself, seen from real clients: engines that start and die, faults that do what their names say."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
import redis
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ReadTimeoutError
from redis.backoff import NoBackoff
from redis.retry import Retry

from engines.proxy import (
    Fault,
    HttpProxy,
    RedisProxy,
    answer,
    answer_http,
    delay,
    delay_reply,
    drop_reply,
    drop_request,
    duplicate,
    hang,
)
from engines.servers import REDIS_KINDS, EngineError, RedisKind, Server, dynamodb_server, redis_server

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def redis_client(port: int, protocol: int = 3, timeout: float = 5.0) -> redis.Redis:
    """A client that tells at once what happened to it."""
    return redis.Redis(
        port=port, protocol=protocol, socket_timeout=timeout, retry=Retry(NoBackoff(), 0), decode_responses=True
    )


def dynamodb_client(endpoint: str, timeout: float = 5.0) -> DynamoDBClient:
    return boto3.client(
        "dynamodb",
        endpoint_url=endpoint,
        region_name="eu-central-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=timeout, connect_timeout=timeout),
    )


def eventually(condition: Callable[[], object], within: float = 5.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def running(pid: int) -> bool:
    """Whether it is there and more than a zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# --- engines --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "version"), [("redis70", "7.0."), ("redis86", "8.6."), ("valkey91", "9.1.")], ids=REDIS_KINDS
)
def test_a_redis_starts_answers_and_stops(kind: RedisKind, version: str) -> None:
    with redis_server(kind) as server:
        info = redis_client(server.port).info("server")
        assert info.get("valkey_version", info["redis_version"]).startswith(version)
        assert info["process_id"] == server.pid
        pid = server.pid
    assert not running(pid)


def test_arguments_of_the_test_win() -> None:
    with redis_server("redis86", "--maxmemory", "3mb", "--appendonly", "yes") as server:
        client = redis_client(server.port)
        assert client.config_get("maxmemory") == {"maxmemory": str(3 << 20)}
        client.config_set("appendfsync", "always")
        client.set("kept", "1")
        server.kill()
        server.restart()
        assert redis_client(server.port).get("kept") == "1"


def test_a_server_with_a_password_counts_as_started() -> None:
    with redis_server("valkey91", "--requirepass", "secret") as server:
        with pytest.raises(redis.AuthenticationError):
            redis_client(server.port).ping()


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(EngineError, match="no-such-option"), redis_server("redis86", "--no-such-option", "1"):
        pass


def test_kill_and_restart_keep_the_port_and_lose_the_memory() -> None:
    with redis_server("redis70") as server:
        port, pid = server.port, server.pid
        client = redis_client(port)
        client.set("a", "1")
        server.kill()
        assert not running(pid)
        with pytest.raises(redis.ConnectionError):
            client.get("a")
        server.restart()
        assert server.port == port and server.pid != pid
        assert client.get("a") is None


def test_a_paused_server_is_silent_and_then_goes_on() -> None:
    with redis_server("redis86") as server:
        server.pause()
        with pytest.raises(redis.TimeoutError):
            redis_client(server.port, timeout=0.2).ping()
        server.resume()
        assert redis_client(server.port).ping()


def test_a_paused_server_can_be_stopped() -> None:
    with redis_server("redis86") as server:
        server.pause()
        server.stop()
        assert not running(server.pid)


def test_a_server_outlives_the_thread_that_started_it() -> None:
    opened = redis_server("redis86")
    started: list[Server] = []
    thread = threading.Thread(target=lambda: started.append(opened.__enter__()))
    thread.start()
    thread.join()
    try:
        time.sleep(0.2)
        assert redis_client(started[0].port).ping()
    finally:
        opened.__exit__(None, None, None)


@pytest.mark.parametrize("engine", ["redis_server('redis86')", "redis_server('redis70')", "dynamodb_server()"])
def test_an_engine_dies_with_its_test(engine: str) -> None:
    script = (
        "import os, signal\n"
        "from engines.servers import *\n"
        f"with {engine} as server:\n"
        "    print(server.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    tests = str(Path(__file__).resolve().parents[1])
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": tests}, capture_output=True)
    pid = int(done.stdout)
    eventually(lambda: not running(pid))


def test_a_dynamodb_starts_answers_and_stops(dynamodb: Server) -> None:
    with dynamodb_server() as server:
        pid = server.pid
        assert server.port != dynamodb.port
        assert dynamodb_client(server.endpoint).list_tables()["TableNames"] == []
        server.restart()
        assert dynamodb_client(server.endpoint).list_tables()["TableNames"] == []
    assert not running(pid) and not running(server.pid)


# --- Redis through the proxy ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def redis_engine() -> Iterator[Server]:
    with redis_server("redis86") as server:
        yield server


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request: pytest.FixtureRequest) -> int:
    chosen: int = request.param
    return chosen


@pytest.fixture
def wire(redis_engine: Server) -> Iterator[RedisProxy]:
    redis_client(redis_engine.port).flushall()
    with RedisProxy(redis_engine.port) as proxy:
        yield proxy


@pytest.fixture
def client(wire: RedisProxy, protocol: int) -> redis.Redis:
    client = redis_client(wire.port, protocol)
    client.ping()
    return client


@pytest.fixture
def direct(redis_engine: Server) -> redis.Redis:
    return redis_client(redis_engine.port)


def test_without_faults_all_passes(wire: RedisProxy, client: redis.Redis) -> None:
    assert client.set("a", "x" * 300_000, px=60_000)
    assert client.get("a") == "x" * 300_000
    assert client.get("none") is None
    client.hset("h", mapping={"a": "1", "b": "2"})
    assert client.hgetall("h") == {"a": "1", "b": "2"}
    assert client.eval("return {1, {'two', {3}}, false}", 0) == [1, ["two", [3]], None]
    assert client.config_get("max*")
    with pytest.raises(redis.ResponseError):
        client.lpush("a", "1")
    assert wire.count("SET") == wire.count("SET", "passed") == 1
    assert wire.count("GET") == 2
    assert {entry.outcome for entry in wire.log} == {"passed"}


def test_pipelines_and_transactions_keep_their_order(wire: RedisProxy, client: redis.Redis) -> None:
    with client.pipeline(transaction=False) as pipe:
        for number in range(500):
            pipe.echo(str(number))
        assert pipe.execute() == [str(number) for number in range(500)]
    with client.pipeline(transaction=True) as pipe:
        pipe.set("t", "1", nx=True)
        pipe.incr("t")
        pipe.get("t")
        assert pipe.execute() == [True, 2, "2"]
    assert wire.count("ECHO") == 500 and wire.count("EXEC") == 1


def test_published_messages_pass(wire: RedisProxy, client: redis.Redis, direct: redis.Redis) -> None:
    with client.pubsub() as channel:  # type: ignore[no-untyped-call]
        channel.subscribe("news", "more")
        for _ in range(2):
            assert (channel.get_message(timeout=5) or {})["type"] == "subscribe"
        direct.publish("news", "hello")
        assert (channel.get_message(timeout=5) or {})["data"] == "hello"
        channel.unsubscribe("news")
        assert (channel.get_message(timeout=5) or {})["type"] == "unsubscribe"
    assert wire.count("SUBSCRIBE", "passed") == 1


def test_a_reply_that_a_subscription_does_not_have_cannot_be_spoiled(wire: RedisProxy) -> None:
    with pytest.raises(ValueError, match="SUBSCRIBE"):
        wire.arm(Fault(drop_reply, match="SUBSCRIBE"))


def test_drop_request(wire: RedisProxy, client: redis.Redis, direct: redis.Redis) -> None:
    wire.arm(Fault(drop_request, match="SET"))
    with pytest.raises(redis.ConnectionError):
        client.set("a", "1")
    assert direct.get("a") is None
    assert client.set("a", "2")
    assert [e.outcome for e in wire.log if e.operation == "SET"] == ["drop_request", "passed"]


def test_drop_reply(wire: RedisProxy, client: redis.Redis, direct: redis.Redis) -> None:
    wire.arm(Fault(drop_reply, match="SET"))
    with pytest.raises(redis.ConnectionError, match="reset"):
        client.set("a", "1")
    assert direct.get("a") == "1"
    assert client.get("a") == "1"


def test_drop_reply_of_a_transaction(wire: RedisProxy, client: redis.Redis, direct: redis.Redis) -> None:
    wire.arm(Fault(drop_reply, match="EXEC", contains="lease:b"))
    for name, spoiled in (("a", False), ("b", True)):
        pipe = client.pipeline()
        pipe.set(f"lease:{name}", "me", nx=True)
        pipe.incr("fence")
        if spoiled:
            with pytest.raises(redis.ConnectionError):
                pipe.execute()
        else:
            pipe.execute()
    assert direct.mget("lease:a", "lease:b", "fence") == ["me", "me", "2"]


def test_scripts_are_told_apart_by_their_arguments(wire: RedisProxy, client: redis.Redis) -> None:
    wire.arm(Fault(drop_request, match="EVALSHA", contains="lease:b"))
    script = client.register_script("return KEYS[1]")
    assert script(keys=["lease:a"]) == "lease:a"
    with pytest.raises(redis.ConnectionError):
        script(keys=["lease:b"])
    assert script(keys=["lease:b"]) == "lease:b"


def test_a_fault_spoils_as_many_requests_as_it_says(wire: RedisProxy, client: redis.Redis) -> None:
    wire.arm(Fault(answer(b"-LOADING not yet\r\n"), match="GET", times=2))
    for _ in range(2):
        with pytest.raises(redis.BusyLoadingError):
            client.get("a")
    assert client.get("a") is None
    wire.arm(Fault(answer(b"$2\r\nhi\r\n"), match="GET", times=None))
    assert [client.get("a") for _ in range(5)] == ["hi"] * 5
    wire.disarm()
    assert client.get("a") is None
    assert wire.count("GET", "answer") == 7 and wire.count("GET", "passed") == 2


def test_an_answer_keeps_its_place_in_a_pipeline(wire: RedisProxy, client: redis.Redis) -> None:
    wire.arm(Fault(delay_reply(0.2), match="ECHO", contains="first"))
    wire.arm(Fault(answer(b"$6\r\ncanned\r\n"), match="GET"))
    with client.pipeline(transaction=False) as pipe:
        pipe.echo("first")
        pipe.get("a")
        pipe.echo("last")
        assert pipe.execute() == ["first", "canned", "last"]


def test_delay(wire: RedisProxy, client: redis.Redis, direct: redis.Redis) -> None:
    wire.arm(Fault(delay(0.3), match="SET"))
    began = time.monotonic()
    client.set("a", "1")
    assert time.monotonic() - began >= 0.3


def test_a_delayed_request_arrives_although_the_client_has_left(
    wire: RedisProxy, protocol: int, direct: redis.Redis
) -> None:
    impatient = redis_client(wire.port, protocol, timeout=0.15)
    impatient.ping()
    wire.arm(Fault(delay(1.0), match="SET"))
    with pytest.raises(redis.TimeoutError):
        impatient.set("a", "1")
    assert direct.get("a") is None and wire.count("SET", "unanswered") == 1
    eventually(lambda: wire.count("SET", "delay"))
    assert direct.get("a") == "1"


def test_delay_reply(wire: RedisProxy, protocol: int, direct: redis.Redis) -> None:
    impatient = redis_client(wire.port, protocol, timeout=0.15)
    impatient.ping()
    wire.arm(Fault(delay_reply(1.0), match="SET"))
    with pytest.raises(redis.TimeoutError):
        impatient.set("a", "1")
    assert direct.get("a") == "1"
    assert impatient.get("a") == "1"  # not the late reply to SET: that connection is gone


def test_duplicate(wire: RedisProxy, client: redis.Redis, direct: redis.Redis) -> None:
    wire.arm(Fault(duplicate, match="INCRBY"))
    assert client.incrby("n", 1) == 1
    assert direct.get("n") == "2"


def test_duplicate_of_a_transaction_in_another_database(
    wire: RedisProxy, redis_engine: Server, protocol: int
) -> None:
    other = redis.Redis(port=wire.port, db=3, protocol=protocol)
    wire.arm(Fault(duplicate, match="EXEC"))
    pipe = other.pipeline()
    pipe.set("k", "1", nx=True)
    pipe.incr("n")
    assert pipe.execute() == [True, 1]
    assert redis.Redis(port=redis_engine.port, db=3).get("n") == b"2"


def test_hang(wire: RedisProxy, protocol: int, direct: redis.Redis) -> None:
    patient = redis_client(wire.port, protocol, timeout=0.3)
    patient.ping()
    wire.arm(Fault(hang, match="SET"))
    with pytest.raises(redis.TimeoutError):
        patient.set("a", "1")
    assert direct.get("a") is None
    assert patient.set("a", "2")


def test_down_and_up(wire: RedisProxy, client: redis.Redis) -> None:
    wire.down()
    for _ in range(2):
        with pytest.raises(redis.ConnectionError):
            client.ping()
    wire.up()
    assert client.ping()


def test_what_is_delayed_when_the_network_goes_down_is_lost(
    wire: RedisProxy, client: redis.Redis, direct: redis.Redis
) -> None:
    wire.arm(Fault(delay(0.2), match="SET"))
    failed = threading.Event()

    def attempt() -> None:
        with pytest.raises(redis.ConnectionError):
            client.set("a", "1")
        failed.set()

    threading.Thread(target=attempt).start()
    eventually(lambda: wire.count("SET"))
    wire.down()
    assert failed.wait(5)
    time.sleep(0.3)
    assert direct.get("a") is None and wire.count("SET", "unanswered") == 1


def test_an_engine_that_dies_cuts_its_clients() -> None:
    with redis_server("valkey91") as server, RedisProxy(server.port) as proxy:
        client = redis_client(proxy.port)
        client.ping()
        server.kill()
        for _ in range(2):
            with pytest.raises(redis.ConnectionError):
                client.ping()
        server.restart()
        assert client.ping()


def test_a_blocked_client_that_leaves_takes_nothing(wire: RedisProxy, direct: redis.Redis) -> None:
    impatient = redis_client(wire.port, timeout=0.2)
    with pytest.raises(redis.TimeoutError):
        impatient.blpop(["queue"], timeout=5)
    eventually(lambda: direct.info("clients")["blocked_clients"] == 0)
    direct.lpush("queue", "1")
    assert direct.llen("queue") == 1


# --- DynamoDB through the proxy -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[Server]:
    with dynamodb_server() as server:
        dynamodb_client(server.endpoint).create_table(
            TableName="leases",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield server


@pytest.fixture
def line(dynamodb: Server) -> Iterator[HttpProxy]:
    dynamodb_client(dynamodb.endpoint).delete_item(TableName="leases", Key={"id": {"S": "a"}})
    with HttpProxy(dynamodb.port) as proxy:
        yield proxy


def add_one(client: DynamoDBClient, name: str = "a") -> int:
    reply = client.update_item(
        TableName="leases",
        Key={"id": {"S": name}},
        UpdateExpression="ADD n :one",
        ExpressionAttributeValues={":one": {"N": "1"}},
        ReturnValues="ALL_NEW",
    )
    return int(reply["Attributes"]["n"]["N"])


def value(server: Server) -> int:
    reply = dynamodb_client(server.endpoint).get_item(
        TableName="leases", Key={"id": {"S": "a"}}, ConsistentRead=True
    )
    return int(reply["Item"]["n"]["N"]) if "Item" in reply else 0


def test_http_without_faults_all_passes(line: HttpProxy) -> None:
    client = dynamodb_client(line.endpoint)
    assert [add_one(client) for _ in range(20)] == list(range(1, 21))
    with pytest.raises(ClientError) as refused:
        client.put_item(
            TableName="leases",
            Item={"id": {"S": "a"}},
            ConditionExpression="attribute_not_exists(id)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    assert refused.value.response["Error"]["Code"] == "ConditionalCheckFailedException"
    assert "Item" in refused.value.response
    assert line.count("UpdateItem", "passed") == 20 and line.count("PutItem", "passed") == 1


def test_http_drop_request(line: HttpProxy, dynamodb: Server) -> None:
    client = dynamodb_client(line.endpoint)
    line.arm(Fault(drop_request, match="UpdateItem"))
    with pytest.raises(ConnectionClosedError):
        add_one(client)
    assert value(dynamodb) == 0
    assert add_one(client) == 1


def test_http_drop_reply(line: HttpProxy, dynamodb: Server) -> None:
    client = dynamodb_client(line.endpoint)
    line.arm(Fault(drop_reply, match="UpdateItem", contains='"S":"a"'))
    with pytest.raises(ConnectionClosedError):
        for name in ("b", "a"):
            add_one(client, name)
    assert value(dynamodb) == 1
    assert [e.outcome for e in line.log] == ["passed", "drop_reply"]


def test_http_a_delayed_request_arrives_although_the_client_has_left(line: HttpProxy, dynamodb: Server) -> None:
    line.arm(Fault(delay(1.0), match="UpdateItem"))
    with pytest.raises(ReadTimeoutError):
        add_one(dynamodb_client(line.endpoint, timeout=0.15))
    assert value(dynamodb) == 0
    eventually(lambda: line.count("UpdateItem", "delay"))
    assert value(dynamodb) == 1


def test_http_delay_reply(line: HttpProxy, dynamodb: Server) -> None:
    line.arm(Fault(delay_reply(1.0), match="UpdateItem"))
    with pytest.raises(ReadTimeoutError):
        add_one(dynamodb_client(line.endpoint, timeout=0.3))
    assert value(dynamodb) == 1


def test_http_duplicate(line: HttpProxy, dynamodb: Server) -> None:
    line.arm(Fault(duplicate, match="UpdateItem"))
    assert add_one(dynamodb_client(line.endpoint)) == 1
    assert value(dynamodb) == 2


def test_http_hang(line: HttpProxy, dynamodb: Server) -> None:
    line.arm(Fault(hang, match="UpdateItem"))
    client = dynamodb_client(line.endpoint, timeout=0.3)
    with pytest.raises(ReadTimeoutError):
        add_one(client)
    assert value(dynamodb) == 0


def test_http_answer(line: HttpProxy, dynamodb: Server) -> None:
    throttled = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"
    line.arm(Fault(answer_http(400, {"__type": throttled, "message": "slow down"}), match="UpdateItem"))
    client = dynamodb_client(line.endpoint)
    with pytest.raises(ClientError) as error:
        add_one(client)
    assert error.value.response["Error"]["Code"] == "ProvisionedThroughputExceededException"
    assert value(dynamodb) == 0
    assert add_one(client) == 1


def test_http_down_and_up(line: HttpProxy) -> None:
    client = dynamodb_client(line.endpoint)
    add_one(client)
    line.down()
    with pytest.raises((ConnectionClosedError, EndpointConnectionError)):
        add_one(client)
    with pytest.raises(EndpointConnectionError):
        add_one(client)
    line.up()
    assert add_one(client) == 2


def test_http_an_engine_that_restarts_is_found_again() -> None:
    with dynamodb_server() as server, HttpProxy(server.port) as line:
        client = dynamodb_client(line.endpoint)
        client.list_tables()
        server.kill()
        with pytest.raises(ConnectionClosedError):
            client.list_tables()
        server.restart()
        assert client.list_tables()["TableNames"] == []
