"""The store goes away while a lease is held: that is told in time, before anybody else can have it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import boto3
import pytest
import tenure
from botocore.config import Config
from botocore.exceptions import EndpointConnectionError
from dynamodb_help import Clients, Rows, Stores, as_it_comes, single_try
from engine_help import PATIENCE, SLACK, Losses, eventually, held, reason
from engines.proxy import Fault, HttpProxy, hang
from engines.servers import Server, dynamodb_server
from stores import create_table

TTL = 1.0
#: A fifth of the ttl: time enough to look at a row that must not be over yet.
MARGIN = {"rate_error": 0.1}


def endless(endpoint: str) -> Any:
    """A client that waits for an answer far longer than any lease lasts."""
    return single_try(endpoint, read_timeout=600, connect_timeout=600)


@pytest.mark.parametrize(
    ("client", "outage", "skew"),
    [
        (single_try, "down", None),
        (single_try, "hang", None),
        (single_try, "hang", 0.2),
        (as_it_comes, "down", 0.2),
        (as_it_comes, "hang", None),
        (endless, "hang", None),
    ],
)
def test_a_loss_is_told_at_the_deadline_and_before_the_row_is_over(
    line: HttpProxy, stores: Stores, rows: Rows, outage: str, client: Clients, skew: float | None, name: str
) -> None:
    told = Losses()
    store = stores(client(line.endpoint), max_clock_skew=skew, **MARGIN)
    lease = store.acquire(name, ttl=TTL, on_lost=told)
    if outage == "down":
        line.down()
    else:
        line.arm(Fault(hang, match="UpdateItem", times=None))
    # What was under way before may have been answered still.
    time.sleep(0.05)
    over_at = time.monotonic() + lease.remaining()
    ends_at = int(rows.of(name)["leaseExpiration"]["N"]) / 1000 - (skew or 0)
    assert held(lease)
    assert reason(lease) == "unreachable"
    eventually(lambda: told.told)
    assert over_at - 0.05 <= told.at[0] <= over_at + SLACK
    # Nobody else could have acquired it before: not by its time, and not by one that is off by the bound.
    assert told.wall_at[0] < ends_at
    began = time.monotonic()
    lease.release()
    assert time.monotonic() - began < SLACK
    time.sleep(0.1)
    assert [lost.reason for lost in told.told] == ["unreachable"]


def test_leaving_the_scope_says_that_it_was_lost(line: HttpProxy, stores: Stores, rows: Rows, name: str) -> None:
    store = stores(single_try(line.endpoint))
    with pytest.raises(tenure.Lost) as lost, store.lease(name, ttl=0.6) as lease:
        line.down()
        assert lease.lost.wait(PATIENCE)
    assert lost.value.reason == "unreachable" and lost.value.fence == lease.fence
    line.up()
    with store.lease(name, ttl=0.6, wait=PATIENCE) as again:
        assert held(again) and again.fence is not None and lease.fence is not None
        assert again.fence > lease.fence
    assert rows.free(name)


def test_an_outage_shorter_than_the_lease_is_outlasted(
    line: HttpProxy, stores: Stores, rows: Rows, name: str
) -> None:
    store = stores(single_try(line.endpoint))
    with store.lease(name, ttl=2) as lease:
        line.down()
        time.sleep(1.0)
        assert held(lease)
        line.up()
        time.sleep(1.5)
        assert held(lease)
    assert rows.free(name)


def test_a_release_that_cannot_be_sent_goes_on_in_the_background(
    line: HttpProxy, stores: Stores, rows: Rows, name: str
) -> None:
    store = stores(single_try(line.endpoint), call_timeout=0.2)
    lease = store.acquire(name, ttl=600)
    line.down()
    with pytest.raises(tenure.OutcomeUnknown) as unknown:
        lease.release()
    assert unknown.value.op == "release" and isinstance(unknown.value.cause, EndpointConnectionError)
    assert lease.remaining() == 0
    line.up()
    eventually(lambda: rows.free(name), within=10)
    lease.release()


def test_an_acquire_that_cannot_be_sent_is_not_busy(
    line: HttpProxy, stores: Stores, rows: Rows, name: str
) -> None:
    store = stores(single_try(line.endpoint), call_timeout=0.2)
    line.down()
    with pytest.raises(tenure.StoreError) as failed:
        store.acquire(name, ttl=30)
    assert isinstance(failed.value.cause, EndpointConnectionError)
    line.up()
    with store.lease(name, ttl=30) as lease:
        assert held(lease)
    assert rows.free(name)


def test_an_acquire_may_wait_for_the_store(line: HttpProxy, stores: Stores, name: str) -> None:
    store = stores(single_try(line.endpoint))
    line.down()
    threading.Timer(0.5, line.up).start()
    with store.lease(name, ttl=30, wait=PATIENCE) as lease:
        assert held(lease)


@pytest.mark.parametrize("freeze", [True, False], ids=["paused", "killed"])
def test_a_server_that_stops(stores: Stores, freeze: bool, name: str) -> None:
    with dynamodb_server() as server:
        create_table(single_try(server.endpoint), "leases")
        told = Losses()
        lease = stores(single_try(server.endpoint)).acquire(name, ttl=TTL, on_lost=told)
        stop: Callable[[], None] = server.pause if freeze else server.kill
        stop()
        time.sleep(0.05)
        over_at = time.monotonic() + lease.remaining()
        assert reason(lease) == "unreachable"
        eventually(lambda: told.told)
        assert over_at - 0.05 <= told.at[0] <= over_at + SLACK


def test_a_table_that_is_deleted_under_a_lease(server: Server, stores: Stores, name: str) -> None:
    client = single_try(server.endpoint)
    create_table(client, "short-lived")
    lease = stores(client, table="short-lived").acquire(name, ttl=TTL)
    client.delete_table(TableName="short-lived")
    with pytest.raises((tenure.StoreError, tenure.ConfigError)):
        lease.renew()
    # It may come back before the deadline.
    assert held(lease)
    assert reason(lease) == "unreachable"


def test_no_credentials_is_no_free_lease(
    stores: Stores, server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    config = Config(retries={"total_max_attempts": 1})
    client = boto3.session.Session().client(
        "dynamodb", endpoint_url=server.endpoint, region_name="eu-west-1", config=config
    )
    with pytest.raises(tenure.StoreError, match="credentials") as failed:
        stores(client).acquire(name, ttl=30)
    assert not isinstance(failed.value, tenure.OutcomeUnknown)
