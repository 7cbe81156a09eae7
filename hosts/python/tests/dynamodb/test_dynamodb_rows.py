"""What stands in the table, attribute by attribute."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import tenure
from dynamodb_help import Row, Rows, Stores, single_try, wall_ms
from engine_help import held
from engines.servers import Server
from stores import create_table


@pytest.fixture
def store(server: Server, stores: Stores) -> tenure.Store:
    return stores(single_try(server.endpoint))


@pytest.fixture
def bounded(server: Server, stores: Stores) -> tenure.Store:
    return stores(single_try(server.endpoint), max_clock_skew=0.5)


def expires_in(row: Row) -> float:
    return (int(row["leaseExpiration"]["N"]) - wall_ms()) / 1000


def test_held_and_released(store: tenure.Store, rows: Rows, name: str) -> None:
    lease = store.acquire(name, ttl=30)
    row = rows.of(name)
    assert set(row) == {"leaseId", "resourceId", "leaseExpiration", "leaseDuration", "version", "fence"}
    assert row["leaseId"] == {"S": name}
    assert row["resourceId"] == {"S": store.holder} == {"S": lease.holder}
    assert row["leaseDuration"] == {"N": "30000"} and 20 < expires_in(row) <= 30.001
    assert row["fence"] == {"N": str(lease.fence)}
    assert set(row["version"]) == {"S"}
    # What is left says no more than how far the fences got.
    lease.release()
    after = rows.of(name)
    assert set(after) == {"leaseId", "leaseDuration", "version", "fence"}
    assert after["version"] == row["version"] and after["fence"] == row["fence"]


def test_every_write_has_a_version_of_its_own(store: tenure.Store, rows: Rows, name: str) -> None:
    versions = []
    lease = store.acquire(name, ttl=30)
    fence = rows.of(name)["fence"]
    versions.append(rows.of(name)["version"]["S"])
    for ttl in (None, 20):
        lease.renew(ttl)
        row = rows.of(name)
        assert row["fence"] == fence and row["resourceId"] == {"S": store.holder}
        versions.append(row["version"]["S"])
    assert row["leaseDuration"] == {"N": "20000"} and expires_in(row) <= 20.001
    lease.release()
    with store.lease(name, ttl=30):
        versions.append(rows.of(name)["version"]["S"])
    assert len(set(versions)) == 4


def test_fences_grow_by_one_while_the_row_stands(store: tenure.Store, rows: Rows, name: str) -> None:
    fences = []
    for _ in range(3):
        with store.lease(name, ttl=30) as lease:
            fences.append(lease.fence or 0)
    assert fences == [fences[0], fences[0] + 1, fences[0] + 2]


def test_fences_grow_over_a_row_that_was_deleted(store: tenure.Store, rows: Rows, name: str) -> None:
    with store.lease(name, ttl=30) as first:
        pass
    rows.delete(name)
    time.sleep(0.01)
    with store.lease(name, ttl=30) as second:
        assert first.fence is not None and second.fence is not None and second.fence > first.fence


def test_min_hold(store: tenure.Store, rows: Rows, name: str) -> None:
    lease = store.acquire(name, ttl=30, min_hold=1)
    acquired_at = wall_ms()
    lease.release()
    row = rows.of(name)
    assert set(row) == {"leaseId", "leaseDuration", "version", "fence", "notBefore"}
    assert abs(int(row["notBefore"]["N"]) - (acquired_at + 1000)) < 500
    assert 0 < int(row["leaseDuration"]["N"]) <= 1000
    with pytest.raises(tenure.Busy) as busy:
        store.acquire(name, ttl=30)
    assert busy.value.because == "resting" and busy.value.holder is None
    with store.lease(name, ttl=30, wait=20):
        assert wall_ms() >= int(row["notBefore"]["N"])
        assert "notBefore" not in rows.of(name)
    assert "notBefore" not in rows.of(name)


def test_a_bounded_holder_says_so_and_an_unbounded_one_takes_it_back(
    store: tenure.Store, bounded: tenure.Store, rows: Rows, name: str
) -> None:
    with bounded.lease(name, ttl=30) as lease:
        assert rows.of(name)["maxClockSkew"] == {"N": "500"}
        # Those who judge by the Unix clock alone will not wait longer.
        assert lease.remaining() <= 30 - 0.5
    with store.lease(name, ttl=30):
        assert "maxClockSkew" not in rows.of(name)


def test_a_lock(store: tenure.Store, rows: Rows, name: str) -> None:
    lease = store.acquire(name, ttl="forever")
    deadline = time.monotonic() + 10
    while rows.of(name)["leaseDuration"] != {"N": "0"}:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # Decades away, for those who know no other sign.
    assert expires_in(rows.of(name)) > 50 * 365 * 86_400
    assert lease.remaining() == float("inf")
    with pytest.raises(tenure.Busy) as busy:
        store.acquire(name, ttl=30)
    assert busy.value.retry_after is None
    lease.release()
    assert rows.free(name)


def test_other_attributes_of_a_row_of_ours_survive(store: tenure.Store, rows: Rows, name: str) -> None:
    with store.lease(name, ttl=30):
        pass
    rows.put(**{k: v for k, v in rows.of(name).items() if k != "leaseId"}, name=name, note={"S": "kept"})
    with store.lease(name, ttl=30) as lease:
        assert held(lease) and rows.of(name)["note"] == {"S": "kept"}
    assert rows.of(name)["note"] == {"S": "kept"}


@pytest.fixture(scope="module")
def sorted_table(server: Server) -> Iterator[str]:
    client = single_try(server.endpoint)
    create_table(client, "sorted", sort_key="kind")
    yield "sorted"
    client.delete_table(TableName="sorted")


def test_a_table_with_a_sort_key(server: Server, stores: Stores, sorted_table: str, name: str) -> None:
    client = single_try(server.endpoint)
    key = {"leaseId": {"S": name}, "kind": {"S": "lease"}}
    store = stores(client, table=sorted_table, sort_key=("kind", "lease"))
    other = stores(client, table=sorted_table, sort_key=("kind", "other"))
    client.put_item(TableName=sorted_table, Item={"leaseId": {"S": name}, "kind": {"S": "data"}, "x": {"N": "1"}})
    with store.lease(name, ttl=30) as lease, other.lease(name, ttl=30) as neighbour:
        row = client.get_item(TableName=sorted_table, Key=key)["Item"]
        assert row["resourceId"] == {"S": store.holder} and row["kind"] == {"S": "lease"}
        lease.renew()
        assert held(lease) and held(neighbour)
        with pytest.raises(tenure.Busy):
            store.acquire(name, ttl=30)
        assert store.status(name).holder == store.holder
    assert client.scan(TableName=sorted_table)["Count"] == 3


def test_issue_names_that_would_collide_if_joined(server: Server, stores: Stores, sorted_table: str) -> None:
    client = single_try(server.endpoint)
    first = stores(client, table=sorted_table, sort_key=("kind", "c"))
    second = stores(client, table=sorted_table, sort_key=("kind", "bc"))
    with first.lease("ab", ttl=30) as one, second.lease("a", ttl=30) as two:
        assert held(one) and held(two)


def test_another_hash_key(server: Server, stores: Stores, name: str) -> None:
    client = single_try(server.endpoint)
    client.create_table(
        TableName="otherwise",
        KeySchema=[{"AttributeName": "LockID", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "LockID", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    try:
        with stores(client, table="otherwise", hash_key="LockID").lease(name, ttl=30) as lease:
            assert held(lease)
            [row] = client.scan(TableName="otherwise")["Items"]
            assert row["LockID"] == {"S": name} and "leaseId" not in row
    finally:
        client.delete_table(TableName="otherwise")


def test_what_the_application_may_check_in_its_own_transaction(
    server: Server, store: tenure.Store, rows: Rows, name: str
) -> None:
    """Holder and fence stay as they are over renewals, so that a renewal between does not undo it."""
    lease = store.acquire(name, ttl=30)
    row = rows.of(name)
    lease.renew()
    client = single_try(server.endpoint)
    check = {
        "TableName": "leases",
        "Key": {"leaseId": {"S": name}},
        "ConditionExpression": "resourceId = :me AND fence = :fence",
        "ExpressionAttributeValues": {":me": row["resourceId"], ":fence": row["fence"]},
    }
    put = {"TableName": "leases", "Item": {"leaseId": {"S": f"{name}-guarded"}}}
    client.transact_write_items(TransactItems=[{"ConditionCheck": check}, {"Put": put}])
    lease.release()
    with store.lease(name, ttl=30), pytest.raises(client.exceptions.TransactionCanceledException):
        client.transact_write_items(TransactItems=[{"ConditionCheck": check}, {"Put": put}])
