"""What a lease sends: one request for each decision."""

from __future__ import annotations

import time

import pytest
import tenure
from dynamodb_help import Rows, Sent, Stores, error, single_try, wall_ms
from engine_help import held, in_background
from engines.proxy import Fault, HttpProxy
from engines.servers import Server

ALL_OLD = {"ReturnValues": "ALL_NEW", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def test_acquire_renew_and_release_are_one_update_each(
    line: HttpProxy, stores: Stores, name: str
) -> None:
    client = single_try(line.endpoint)
    sent = Sent(client)
    store = stores(client)
    lease = store.acquire(name, ttl=30)
    assert sent.operations == ["UpdateItem"]
    lease.renew()
    assert sent.operations == ["UpdateItem"] * 2
    lease.release()
    assert sent.operations == ["UpdateItem"] * 3
    # And on the network no more than that.
    assert [entry.operation for entry in line.log] == ["UpdateItem"] * 3
    for _, parameters in sent.requests:
        assert ALL_OLD.items() <= parameters.items() and parameters["ConditionExpression"]
        assert parameters["Key"] == {"leaseId": {"S": name}}


def test_a_refused_try_is_one_update(
    server: Server, line: HttpProxy, stores: Stores, name: str
) -> None:
    with stores(single_try(server.endpoint)).lease(name, ttl=30) as lease:
        with pytest.raises(tenure.Busy) as busy:
            stores(single_try(line.endpoint)).acquire(name, ttl=30)
        assert [entry.operation for entry in line.log] == ["UpdateItem"]
        assert busy.value.holder == lease.holder and busy.value.fence == lease.fence
        assert busy.value.retry_after is not None and 29 < busy.value.retry_after < 32


def test_a_waiting_contender_polls_by_cheap_reads_at_its_pace(
    server: Server, stores: Stores, name: str
) -> None:
    client = single_try(server.endpoint)
    sent = Sent(client)
    contender = stores(client, poll_interval=0.2)
    lease = stores(single_try(server.endpoint)).acquire(name, ttl=30)

    def wait() -> None:
        contender.acquire(name, ttl=30, wait=60).release()

    with in_background(wait):
        time.sleep(1.2)
        lease.release()
    polls = [parameters for operation, parameters in sent.requests if operation == "GetItem"]
    # A refused try, then reads, then the write that the last one made worth while, then the release.
    assert sent.operations == ["UpdateItem", *["GetItem"] * len(polls), "UpdateItem", "UpdateItem"]
    assert 1 <= len(polls) and not any(parameters.get("ConsistentRead") for parameters in polls)
    # Half the interval is jitter.
    gaps = [after - before for before, after in zip(sent.at[1:-2], sent.at[2:-2])]
    assert all(gap >= 0.099 for gap in gaps), gaps


def test_a_takeover_is_one_update_that_names_the_row_as_it_was_read(
    server: Server, stores: Stores, rows: Rows, name: str
) -> None:
    row = rows.left_dead(stores(single_try(server.endpoint)), name, ttl=0.5)
    client = single_try(server.endpoint)
    sent = Sent(client)
    lease = stores(client).acquire(name, ttl=30, wait=60)
    assert held(lease)
    assert sent.operations.count("UpdateItem") == 2 and sent.operations[-1] == "UpdateItem"
    takeover = sent.requests[-1][1]
    assert takeover["ConditionExpression"] == "#r = :r0 AND #e = :e0 AND #v = :v0"
    values = takeover["ExpressionAttributeValues"]
    as_read = [values[":r0"], values[":e0"], values[":v0"]]
    assert as_read == [row["resourceId"], row["leaseExpiration"], row["version"]]
    assert lease.fence == int(row["fence"]["N"]) + 1


def test_every_condition_is_positive(server: Server, stores: Stores, rows: Rows, name: str) -> None:
    """`<>` and `NOT` pass on a row that is missing, and would create half of one."""
    client = single_try(server.endpoint)
    sent = Sent(client)
    for options in ({}, {"max_clock_skew": 0.1}):
        store = stores(client, **options)
        lease = store.acquire(name, ttl=2, min_hold=0.01)
        lease.renew()
        lease.renew(3)
        lease.release()
        time.sleep(0.05)
        store.acquire(name, ttl=2).hand_over("somebody")
        rows.delete(name)
        rows.left_dead(store, name, ttl=0.5)
        store.acquire(name, ttl=2, wait=30).release()
        rows.delete(name)
    conditions = {parameters["ConditionExpression"] for op, parameters in sent.requests if op == "UpdateItem"}
    assert len(conditions) >= 4
    assert not [text for text in conditions if "<>" in text or "NOT " in text.upper()]
    # Fixed text: names and values go by placeholders.
    assert not [text for text in conditions if name in text or "leaseId" in text or store.holder in text]


def test_nothing_is_resurrected_in_half(
    server: Server, stores: Stores, rows: Rows, name: str
) -> None:
    store = stores(single_try(server.endpoint))
    for act in ("renew", "release"):
        lease = store.acquire(name, ttl=30)
        rows.delete(name)
        if act == "renew":
            with pytest.raises(tenure.Lost) as lost:
                lease.renew()
            assert lost.value.reason == "missing"
        lease.release()
        assert rows.get(name) is None


def test_an_engine_that_does_not_show_what_refused_is_asked_once(
    server: Server, line: HttpProxy, stores: Stores, name: str
) -> None:
    client = single_try(line.endpoint)
    sent = Sent(client)
    store = stores(client)
    with stores(single_try(server.endpoint)).lease(name, ttl=30) as lease:
        line.arm(Fault(error("ConditionalCheckFailedException"), match="UpdateItem"))
        with pytest.raises(tenure.Busy) as busy:
            store.acquire(name, ttl=30)
        assert busy.value.holder == lease.holder
        assert sent.operations == ["UpdateItem", "GetItem"]
        assert sent.requests[1][1]["ConsistentRead"] is True


def test_a_renewal_refused_without_a_reason_is_looked_up(
    server: Server, line: HttpProxy, stores: Stores, rows: Rows, name: str
) -> None:
    lease = stores(single_try(line.endpoint)).acquire(name, ttl=30)
    rows.put(
        name,
        resourceId={"S": "somebody"},
        leaseExpiration={"N": str(wall_ms() + 60_000)},
    )
    line.arm(Fault(error("ConditionalCheckFailedException"), match="UpdateItem"))
    with pytest.raises(tenure.Lost) as lost:
        lease.renew()
    assert lost.value.reason == "taken"
    lease.release()
    assert rows.of(name)["resourceId"] == {"S": "somebody"}
