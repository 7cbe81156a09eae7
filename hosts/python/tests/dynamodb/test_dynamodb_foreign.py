"""Rows by others: clients that know only two attributes, and items that are no leases at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import tenure
from botocore.exceptions import ClientError
from dynamodb_help import Row, Rows, Sent, Stores, single_try, wall_ms
from engine_help import PATIENCE, Losses, eventually, held, reason
from engines.servers import Server

SKEW = 0.3


@pytest.fixture
def store(server: Server, stores: Stores) -> tenure.Store:
    return stores(single_try(server.endpoint))


@pytest.fixture
def bounded(server: Server, stores: Stores) -> tenure.Store:
    return stores(single_try(server.endpoint), max_clock_skew=SKEW)


@pytest.fixture(params=[False, True], ids=["new row", "with our version left behind"])
def theirs(request: pytest.FixtureRequest, store: tenure.Store, rows: Rows, name: str) -> Row:
    """The row of a client that knows no version."""
    known: dict[str, dict[str, Any]] = {}
    if request.param:
        with store.lease(name, ttl=30):
            pass
        known = {k: v for k, v in rows.of(name).items() if k != "leaseId"}
    expires = {"N": str(wall_ms() + 700)}
    return rows.put(name, **known, resourceId={"S": "theirs"}, leaseExpiration=expires)


def test_without_a_bound_it_cannot_be_judged(
    store: tenure.Store, rows: Rows, theirs: Row, name: str
) -> None:
    for wait in (0, 1.5):
        with pytest.raises(tenure.Busy) as busy:
            store.acquire(name, ttl=0.5, wait=wait)
        assert busy.value.because == "unjudgeable" and busy.value.holder == "theirs"
        assert "max_clock_skew" in str(busy.value)
    assert rows.of(name) == theirs


def test_with_a_bound_it_is_taken_once_it_is_over_by_more_than_that(
    bounded: tenure.Store, rows: Rows, theirs: Row, name: str
) -> None:
    ends_at = int(theirs["leaseExpiration"]["N"]) + SKEW * 1000
    with pytest.raises(tenure.Busy) as busy:
        bounded.acquire(name, ttl=2)
    assert busy.value.because == "held" and busy.value.holder == "theirs"
    assert busy.value.retry_after is not None and busy.value.retry_after <= 0.7 + SKEW + 0.01
    with bounded.lease(name, ttl=2, wait=PATIENCE) as lease:
        assert wall_ms() >= ends_at
        assert held(lease) and lease.fence == rows.fence(name) > int(theirs.get("fence", {"N": "0"})["N"])
    assert rows.free(name)


def test_the_takeover_names_all_that_was_read(
    server: Server, stores: Stores, rows: Rows, theirs: Row, name: str
) -> None:
    """Between our read and our write its holder renews, and only the expiry tells."""
    client = single_try(server.endpoint)
    store = stores(client, max_clock_skew=SKEW)
    with pytest.raises(tenure.Busy):
        store.acquire(name, ttl=2)
    time.sleep(0.7 + SKEW + 0.1)
    renewed: list[Row] = []

    def renew(params: dict[str, Any], **_: Any) -> None:
        if ":e0" in params["ExpressionAttributeValues"] and not renewed:
            shown = {k: v for k, v in theirs.items() if k != "leaseId"}
            renewed.append(rows.put(name, **(shown | {"leaseExpiration": {"N": str(wall_ms() + 60_000)}})))

    client.meta.events.register("provide-client-params.dynamodb.UpdateItem", renew)
    sent = Sent(client)
    with pytest.raises(tenure.Busy):
        store.acquire(name, ttl=2)
    assert renewed and rows.of(name) == renewed[0]
    takeover = next(p for _, p in sent.requests if ":e0" in p["ExpressionAttributeValues"])
    values, condition = takeover["ExpressionAttributeValues"], takeover["ConditionExpression"]
    assert values[":r0"] == theirs["resourceId"] and values[":e0"] == theirs["leaseExpiration"]
    if "version" in theirs:
        assert values[":v0"] == theirs["version"] and "#v = :v0" in condition
    else:
        assert "attribute_not_exists(#v)" in condition


def test_a_client_that_takes_our_row_over_is_heard_of(
    store: tenure.Store, rows: Rows, name: str
) -> None:
    told = Losses()
    lease = store.acquire(name, ttl=30, on_lost=told)
    ours = {k: v for k, v in rows.of(name).items() if k != "leaseId"}
    taken = rows.put(
        name, **(ours | {"resourceId": {"S": "theirs"}, "leaseExpiration": {"N": str(wall_ms() + 60_000)}})
    )
    with pytest.raises(tenure.Lost) as lost:
        lease.renew()
    assert lost.value.reason == "taken" and lost.value.by in (None, "theirs")
    lease.release()
    time.sleep(0.2)
    assert rows.of(name) == taken


def test_a_row_with_our_name_and_a_strange_version_is_not_ours(
    store: tenure.Store, rows: Rows, name: str
) -> None:
    row = rows.put(
        name,
        resourceId={"S": store.holder},
        leaseExpiration={"N": str(wall_ms() + 60_000)},
        leaseDuration={"N": "1000"},
        version={"S": "somebody else's"},
    )
    with pytest.raises(tenure.Busy) as busy:
        store.acquire(name, ttl=1, wait=1.5)
    assert busy.value.because == "unjudgeable"
    assert rows.of(name) == row


class Plain:
    """A client by the text alone: it writes if nobody is there, or the Unix time is over."""

    TTL_MS = 400

    def __init__(self, client: Any, name: str, me: str) -> None:
        self._client = client
        self._key = {"leaseId": {"S": name}}
        self._me = {"S": me}

    def acquire(self) -> int | None:
        """Until when, if it was acquired."""
        now = wall_ms()
        try:
            self._client.update_item(
                TableName="leases",
                Key=self._key,
                ConditionExpression="attribute_not_exists(resourceId) OR leaseExpiration < :now",
                UpdateExpression="SET resourceId = :me, leaseExpiration = :until",
                ExpressionAttributeValues={
                    ":me": self._me,
                    ":now": {"N": str(now)},
                    ":until": {"N": str(now + self.TTL_MS)},
                },
            )
        except ClientError as error:
            assert error.response["Error"]["Code"] == "ConditionalCheckFailedException"
            return None
        return now + self.TTL_MS

    def release(self) -> None:
        try:
            self._client.update_item(
                TableName="leases",
                Key=self._key,
                ConditionExpression="resourceId = :me",
                UpdateExpression="REMOVE resourceId, leaseExpiration",
                ExpressionAttributeValues={":me": self._me},
            )
        except ClientError as error:
            assert error.response["Error"]["Code"] == "ConditionalCheckFailedException"


def test_contention_with_clients_by_the_text_alone(
    server: Server, stores: Stores, rows: Rows, name: str
) -> None:
    inside = threading.Lock()
    who_is_inside: list[Callable[[], bool]] = []
    clashes: list[str] = []
    turns = {"ours": 0, "theirs": 0}
    failed: list[BaseException] = []
    stop_at = time.monotonic() + 5

    def guarded(who: str, is_valid: Callable[[], bool], seconds: float) -> None:
        if not inside.acquire(blocking=False):
            others = list(who_is_inside)
            # A thread that was not woken up in time to leave is no second holder.
            if is_valid() and any(other() for other in others):
                clashes.append(who)
            return
        who_is_inside.append(is_valid)
        turns[who] += 1
        time.sleep(seconds)
        who_is_inside.clear()
        inside.release()

    def ours() -> None:
        store = stores(single_try(server.endpoint), max_clock_skew=0.05, poll_interval=0.02)
        while time.monotonic() < stop_at:
            lease = store.try_acquire(name, ttl=0.4)
            if lease is None:
                time.sleep(0.005)
                continue
            # Some hold longer than a ttl, and live by renewals.
            seconds = 0.5 if turns["ours"] % 5 == 0 else 0.02
            guarded("ours", lambda: lease.remaining() > 0, seconds)
            lease.release()
            time.sleep(0.03)

    def theirs(number: int) -> None:
        plain = Plain(single_try(server.endpoint), name, f"plain-{number}")
        while time.monotonic() < stop_at:
            until = plain.acquire()
            if until is not None:
                guarded("theirs", lambda: wall_ms() <= until, 0.02)
                if turns["theirs"] % 3:
                    plain.release()
                # Otherwise it died: whoever comes next waits for its time.
            time.sleep(0.03)

    def watched(work: Any, *args: Any) -> None:
        try:
            work(*args)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=watched, args=(ours,)) for _ in range(2)]
    threads += [threading.Thread(target=watched, args=(theirs, number)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failed == [] and clashes == []
    assert turns["ours"] > 0 and turns["theirs"] > 0, turns


HELD: dict[str, dict[str, Any]] = {
    "resourceId": {"S": "theirs"},
    "leaseExpiration": {"N": "1"},
}
NO_LEASES: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "resourceId as a number": ("resourceId", HELD | {"resourceId": {"N": "5"}}),
    "leaseExpiration as a text": ("leaseExpiration", HELD | {"leaseExpiration": {"S": "2020-01-01T00:00:00Z"}}),
    "leaseExpiration below zero": ("leaseExpiration", HELD | {"leaseExpiration": {"N": "-5"}}),
    "leaseExpiration missing": ("leaseExpiration", {"resourceId": {"S": "theirs"}}),
    "resourceId missing": ("resourceId", {"leaseExpiration": {"N": "1"}}),
    "resourceId null": ("resourceId", HELD | {"resourceId": {"NULL": True}}),
    "fence as a text": ("fence", HELD | {"fence": {"S": "abc"}}),
    "version as bytes": ("version", HELD | {"version": {"B": b"\x00\x01"}}),
    "leaseDuration as a text": ("leaseDuration", HELD | {"leaseDuration": {"S": "20s"}}),
    "maxClockSkew as a list": ("maxClockSkew", HELD | {"maxClockSkew": {"L": []}}),
    "notBefore as a text": ("notBefore", {"version": {"S": "x"}, "notBefore": {"S": "soon"}}),
    "another lock's row": (
        "version",
        {
            "ownerName": {"S": "host"},
            "leaseDuration": {"N": "20000"},
            "recordVersionNumber": {"S": "0b0ee98a-3c42-4e2a-9e0e-4a2b1c0f0d3e"},
        },
    ),
    "the application's data": ("version", {"amount": {"N": "12.50"}, "customer": {"S": "Ann"}}),
}


@pytest.mark.parametrize("which", NO_LEASES)
@pytest.mark.parametrize("skew", [None, SKEW], ids=["observed", "bounded"])
def test_what_is_no_lease_is_an_error_and_stays_as_it_is(
    server: Server, stores: Stores, rows: Rows, which: str, skew: float | None, name: str
) -> None:
    attribute, item = NO_LEASES[which]
    row = rows.put(name, **item)
    store = stores(single_try(server.endpoint), max_clock_skew=skew)
    for wait in (0, 0.3):
        with pytest.raises(tenure.StoreError) as refused:
            store.acquire(name, ttl=1, wait=wait)
        assert not isinstance(refused.value, tenure.OutcomeUnknown)
        assert attribute in str(refused.value), str(refused.value)
    with pytest.raises(tenure.StoreError) as unread:
        store.status(name)
    assert attribute in str(unread.value)
    assert rows.of(name) == row
    rows.delete(name)


def test_a_row_that_became_something_else_under_a_lease_is_left_alone(
    store: tenure.Store, rows: Rows, name: str
) -> None:
    lease = store.acquire(name, ttl=0.6)
    row = rows.put(name, amount={"N": "12.50"})
    reason(lease)
    lease.release()
    time.sleep(0.1)
    assert rows.of(name) == row
    rows.delete(name)


def test_an_empty_row_is_free(bounded: tenure.Store, store: tenure.Store, rows: Rows, name: str) -> None:
    """A client by the text alone leaves it behind when it releases a row that it made."""
    for one in (store, bounded):
        rows.put(name)
        with one.lease(name, ttl=2) as lease:
            assert held(lease) and lease.fence == rows.fence(name)
        assert rows.free(name)


def test_a_fraction_of_a_millisecond_is_rounded_to_the_safe_side(
    bounded: tenure.Store, rows: Rows, name: str
) -> None:
    at = wall_ms() - int(SKEW * 1000) - 5_000
    rows.put(name, resourceId={"S": "theirs"}, leaseExpiration={"N": f"{at}.25"})
    with bounded.lease(name, ttl=2) as lease:
        assert held(lease)
    eventually(lambda: rows.free(name))
