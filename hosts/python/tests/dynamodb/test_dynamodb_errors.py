"""Errors that say neither yes nor no: a renewal goes on, an acquire says that it could not be done."""

from __future__ import annotations

import time

import pytest
import tenure
from dynamodb_help import Rows, Stores, error, single_try
from engine_help import eventually, held
from engines.proxy import Action, Fault, HttpProxy, answer_http

REFUSED = {
    "ThrottlingException": error("ThrottlingException"),
    "ProvisionedThroughputExceededException": error("ProvisionedThroughputExceededException"),
    "RequestLimitExceeded": error("RequestLimitExceeded"),
    "TransactionConflictException": error("TransactionConflictException"),
}
UNCLEAR = {
    "InternalServerError": error("InternalServerError", 500),
    "ServiceUnavailable": error("ServiceUnavailable", 503),
}
LASTING = {
    "AccessDeniedException": error("AccessDeniedException"),
    "ExpiredTokenException": error("ExpiredTokenException"),
    "ValidationException": error("ValidationException"),
}
ALL = REFUSED | UNCLEAR | LASTING


@pytest.fixture
def store(line: HttpProxy, stores: Stores) -> tenure.Store:
    return stores(single_try(line.endpoint), call_timeout=0.25)


@pytest.mark.parametrize("said", ALL.values(), ids=ALL)
def test_a_renewal_goes_on(
    store: tenure.Store, line: HttpProxy, said: Action, rows: Rows, name: str
) -> None:
    """Whatever was said: permissions and tables may be back before the deadline."""
    with store.lease(name, ttl=3, on_lost=print) as lease:
        version = rows.of(name)["version"]
        line.arm(Fault(said, match="UpdateItem", times=3))
        try:
            lease.renew()
        except tenure.StoreError as failed:
            assert not isinstance(failed, tenure.Busy)
        eventually(lambda: line.count("UpdateItem", "answer") == 3)
        eventually(lambda: rows.of(name)["version"] != version)
        assert held(lease) and lease.fence == rows.fence(name)
    assert rows.free(name)


@pytest.mark.parametrize("said", (REFUSED | LASTING).values(), ids=REFUSED | LASTING)
def test_a_try_fails_and_is_not_busy(
    store: tenure.Store, line: HttpProxy, said: Action, rows: Rows, name: str
) -> None:
    line.arm(Fault(said, match="UpdateItem", times=None))
    with pytest.raises(tenure.StoreError) as failed:
        store.acquire(name, ttl=30)
    assert not isinstance(failed.value, tenure.OutcomeUnknown)
    assert "of the test" in str(failed.value.cause)
    # It is known that nothing was written, so that there is nothing to undo.
    assert [entry.operation for entry in line.log] == ["UpdateItem"]
    assert rows.get(name) is None


@pytest.mark.parametrize("said", UNCLEAR.values(), ids=UNCLEAR)
def test_a_try_that_may_have_been_carried_out_says_so(
    store: tenure.Store, line: HttpProxy, said: Action, rows: Rows, name: str
) -> None:
    line.arm(Fault(said, match="UpdateItem", times=None))
    with pytest.raises(tenure.OutcomeUnknown) as failed:
        store.acquire(name, ttl=30)
    assert failed.value.op == "acquire" and "of the test" in str(failed.value.cause)
    line.disarm()
    with store.lease(name, ttl=30) as lease:
        assert held(lease)
    assert rows.free(name)


@pytest.mark.parametrize("said", (REFUSED | UNCLEAR).values(), ids=REFUSED | UNCLEAR)
def test_a_try_that_may_wait_outlasts_it(
    store: tenure.Store, line: HttpProxy, said: Action, rows: Rows, name: str
) -> None:
    line.arm(Fault(said, match="UpdateItem", times=3))
    with store.lease(name, ttl=30, wait=20) as lease:
        assert held(lease) and lease.fence == rows.fence(name)
    assert rows.free(name)


@pytest.mark.parametrize("said", (REFUSED | UNCLEAR).values(), ids=REFUSED | UNCLEAR)
def test_a_release_outlasts_it(
    store: tenure.Store, line: HttpProxy, said: Action, rows: Rows, name: str
) -> None:
    lease = store.acquire(name, ttl=30)
    line.arm(Fault(said, match="UpdateItem", times=3))
    lease.release()
    assert rows.free(name)


def test_missing_permissions_are_named(store: tenure.Store, line: HttpProxy, name: str) -> None:
    line.arm(Fault(error("AccessDeniedException"), match="UpdateItem", times=None))
    with pytest.raises(tenure.StoreError) as refused:
        store.acquire(name, ttl=30)
    assert "dynamodb:UpdateItem" in refused.value.hint and "dynamodb:GetItem" in refused.value.hint


def test_an_answer_without_attributes_is_no_crash(
    store: tenure.Store, line: HttpProxy, rows: Rows, name: str
) -> None:
    """Some proxies answer everything with an empty body."""
    line.arm(Fault(answer_http(200, {}), match="UpdateItem"))
    try:
        lease = store.acquire(name, ttl=30)
    except tenure.StoreError:
        return
    lease.release()


def test_issue_one_throttled_lease_starves_the_rest(
    line: HttpProxy, stores: Stores, rows: Rows, name: str
) -> None:
    store = stores(single_try(line.endpoint))
    leases = [store.acquire(f"{name}-{number}", ttl=2) for number in range(20)]
    line.arm(Fault(error("ThrottlingException"), match="UpdateItem", contains=f'"S":"{name}-7"', times=3))
    time.sleep(2.2)
    assert all(held(lease) for lease in leases)
    assert line.count("UpdateItem", "answer") == 3
    # Each at its own pace, not more often because another one had trouble.
    assert line.count("UpdateItem", "passed") <= 20 + 20 * 4
    store.close()
    assert all(rows.free(lease.name) for lease in leases)
