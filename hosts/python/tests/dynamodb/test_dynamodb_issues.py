"""What other lock libraries were reported for: each as it should be."""

from __future__ import annotations

import threading
import time

import pytest
import tenure
from dynamodb_help import Rows, Sent, Stores, single_try
from engine_help import PATIENCE, Losses, eventually, held, in_background, interrupted, reason
from engines.proxy import Action, Fault, HttpProxy, delay, delay_reply, drop_reply, duplicate
from engines.servers import Server


@pytest.fixture
def store(line: HttpProxy, stores: Stores) -> tenure.Store:
    return stores(single_try(line.endpoint, read_timeout=20))


def unanswered(line: HttpProxy) -> bool:
    return any(entry.outcome == "unanswered" for entry in line.log)


def test_issue_own_renewal_applied_and_response_lost(
    store: tenure.Store, line: HttpProxy, rows: Rows, name: str
) -> None:
    told = Losses()
    lease = store.acquire(name, ttl=30, on_lost=told)
    first = rows.of(name)["version"]
    line.arm(Fault(drop_reply, match="UpdateItem", times=2))
    lease.renew()
    assert held(lease) and told.told == []
    assert rows.of(name)["version"] != first and rows.fence(name) == lease.fence
    lease.release()
    assert rows.free(name)


def test_issue_sdk_retry_finds_its_own_first_attempt(
    server: Server, line: HttpProxy, stores: Stores, rows: Rows, name: str
) -> None:
    """The client library sends the very same request again, which is refused because of the first."""
    client = single_try(line.endpoint, retries={"total_max_attempts": 3})
    sent = Sent(client)
    store = stores(client)
    line.arm(Fault(drop_reply, match="UpdateItem"))
    lease = store.acquire(name, ttl=30)
    assert lease.fence == rows.fence(name)
    line.arm(Fault(drop_reply, match="UpdateItem"))
    lease.renew()
    line.arm(Fault(drop_reply, match="UpdateItem"))
    lease.release()
    assert rows.free(name)
    assert line.count("UpdateItem", "drop_reply") == 3
    # At most one request more than the client's own for each of them.
    assert len(sent.requests) <= 6


def test_issue_validity_counts_from_the_first_sending(
    line: HttpProxy, stores: Stores, name: str
) -> None:
    client = single_try(line.endpoint, read_timeout=0.4, retries={"total_max_attempts": 3})
    line.arm(Fault(delay_reply(1.5), match="UpdateItem"))
    began = time.monotonic()
    lease = stores(client, call_timeout=5).acquire(name, ttl=10)
    assert began + 10 >= time.monotonic() + lease.remaining()


def test_issue_lock_returned_already_expired(
    store: tenure.Store, line: HttpProxy, rows: Rows, name: str
) -> None:
    line.arm(Fault(delay_reply(0.8), match="UpdateItem"))
    with pytest.raises(tenure.StoreError):
        store.acquire(name, ttl=0.5)
    eventually(lambda: rows.free(name), within=5)


@pytest.mark.parametrize("slow", [delay_reply(0.5), delay(0.5)], ids=lambda action: action.kind)
def test_issue_cancelled_acquire_leaves_an_orphan(
    store: tenure.Store, line: HttpProxy, slow: Action, rows: Rows, name: str
) -> None:
    line.arm(Fault(slow, match="UpdateItem"))
    with interrupted(lambda: unanswered(line)):
        store.acquire(name, ttl=600)
    eventually(lambda: not unanswered(line))
    eventually(lambda: rows.free(name), within=10)


@pytest.mark.parametrize("slow", [delay_reply(0.5), delay(600)], ids=lambda action: action.kind)
def test_issue_cancelled_release_leaves_an_orphan(
    store: tenure.Store, line: HttpProxy, slow: Action, rows: Rows, name: str
) -> None:
    lease = store.acquire(name, ttl=600)
    line.arm(Fault(slow, match="UpdateItem"))
    with interrupted(lambda: unanswered(line)):
        lease.release()
    lease.release()
    eventually(lambda: rows.free(name), within=10)


@pytest.mark.parametrize("late", [delay(0.4), delay_reply(0.4)], ids=lambda action: action.kind)
def test_issue_release_racing_a_renewal(
    store: tenure.Store, line: HttpProxy, late: Action, rows: Rows, name: str
) -> None:
    told = Losses()
    lease = store.acquire(name, ttl=30, on_lost=told)
    line.arm(Fault(late, match="UpdateItem"))

    def renew() -> None:
        try:
            lease.renew()
        except tenure.Lost as lost:
            assert lost.reason == "released"

    with in_background(renew):
        eventually(lambda: unanswered(line))
        lease.release()
    eventually(lambda: rows.free(name), within=5)
    assert told.told == [] and not lease.lost.is_set()
    # And nothing after that.
    time.sleep(0.1)
    before = len(line.log)
    time.sleep(0.5)
    assert len(line.log) == before


def test_issue_no_fencing(server: Server, line: HttpProxy, stores: Stores, rows: Rows, name: str) -> None:
    """A holder that was cut off and does not know it: what it does carries a number that is outdated."""
    first = stores(single_try(line.endpoint)).acquire(name, ttl=0.6)
    line.down()
    with stores(single_try(server.endpoint)).lease(name, ttl=30, wait=PATIENCE) as second:
        assert first.fence is not None and second.fence is not None and second.fence > first.fence
        assert first.remaining() == 0
        value = rows.of(name)
        line.up()
        first.release()
        with pytest.raises(tenure.Lost):
            first.renew()
        time.sleep(0.3)
        # Nothing of the second one's was touched.
        assert rows.of(name) == value and held(second)


def test_issue_close_stops_at_the_first_failing_release(
    line: HttpProxy, stores: Stores, rows: Rows, name: str
) -> None:
    store = stores(single_try(line.endpoint), call_timeout=0.3)
    names = [f"{name}-{number}" for number in range(3)]
    leases = [store.acquire(each, ttl=30) for each in names]
    line.arm(Fault(drop_reply, match="UpdateItem", contains=f'"S":"{names[1]}"', times=None))
    with pytest.warns(tenure.TenureWarning, match=names[1]):
        store.close()
    assert rows.free(names[0]) and rows.free(names[2])
    assert all(lease.remaining() == 0 for lease in leases)


def test_issue_keeping_did_not_restart_for_the_next_lease(
    store: tenure.Store, rows: Rows, name: str
) -> None:
    for pause in (0.0, 0.05, 0.15):
        with store.lease(name, ttl=0.6):
            time.sleep(pause)
    with store.lease(name, ttl=0.6) as lease:
        time.sleep(0.8)
        assert held(lease)
    # Nor after all threads had nothing to do and ended.
    eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("tenure-") and t.is_alive()])
    with store.lease(name, ttl=0.6) as lease:
        time.sleep(0.8)
        assert held(lease)
    assert rows.free(name)


def test_issue_losing_a_race_is_an_error_instead_of_waiting_on(
    server: Server, stores: Stores, rows: Rows, name: str
) -> None:
    fences: list[int] = []
    failed: list[BaseException] = []
    inside = threading.Lock()

    def contend() -> None:
        try:
            store = stores(single_try(server.endpoint), poll_interval=0.02)
            with store.lease(name, ttl=20, wait=PATIENCE) as lease:
                assert inside.acquire(blocking=False)
                fences.append(lease.fence or 0)
                inside.release()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=contend) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failed == []
    assert fences == list(range(fences[0], fences[0] + 20))
    assert rows.free(name)


def test_issue_a_wait_respects_its_own_end(
    server: Server, stores: Stores, name: str
) -> None:
    with stores(single_try(server.endpoint)).lease(name, ttl=30):
        began = time.monotonic()
        with pytest.raises(tenure.Busy):
            stores(single_try(server.endpoint)).acquire(name, ttl=30, wait=0.5)
        assert 0.49 <= time.monotonic() - began < 0.5 + 2


def test_issue_scoped_lock_swallows_the_error_of_its_body(
    store: tenure.Store, line: HttpProxy, rows: Rows, name: str
) -> None:
    with pytest.raises(KeyError, match="of the body"), store.lease(name, ttl=30):
        raise KeyError("of the body")
    assert rows.free(name)
    with pytest.raises(KeyError, match="of the body"), store.lease(name, ttl=1):
        line.down()
        raise KeyError("of the body")


def test_issue_unconditional_unlock_frees_the_successor(
    server: Server, store: tenure.Store, stores: Stores, rows: Rows, name: str
) -> None:
    first = store.acquire(name, ttl=30)
    rows.delete(name)
    second = stores(single_try(server.endpoint), renew_interval=10).acquire(name, ttl=30)
    row = rows.of(name)
    for act in (first.renew, first.release):
        try:
            act()
        except tenure.Lost as lost:
            assert lost.reason == "taken"
        assert rows.of(name) == row
    # Nor does one that was refused clean up what is not its own.
    with pytest.raises(tenure.Busy):
        store.acquire(name, ttl=30)
    assert rows.of(name) == row and held(second)


def test_issue_same_holder_name_in_two_processes(
    server: Server, stores: Stores, rows: Rows, name: str
) -> None:
    """A name that was given twice by mistake: the versions tell them apart."""
    first = stores(single_try(server.endpoint), holder="the-same")
    second = stores(single_try(server.endpoint), holder="the-same")
    lease = first.acquire(name, ttl=30)
    with pytest.raises(tenure.Busy):
        second.acquire(name, ttl=30)
    row = rows.of(name)
    second.close()
    assert rows.of(name) == row and held(lease)


def test_issue_cut_network_is_told_before_the_end(
    line: HttpProxy, stores: Stores, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level("WARNING", logger="tenure")
    told = Losses()
    lease = stores(single_try(line.endpoint)).acquire(name, ttl=1, on_lost=told)
    line.down()
    assert reason(lease) == "unreachable"
    eventually(lambda: told.told)
    risks = [record.created for record in caplog.records if "at risk" in record.getMessage()]
    assert len(risks) == 1 and risks[0] < told.wall_at[0]


def test_issue_duplicates_everywhere(
    store: tenure.Store, line: HttpProxy, rows: Rows, name: str
) -> None:
    line.arm(Fault(duplicate, match="UpdateItem", times=None))
    fences = []
    for _ in range(3):
        with store.lease(name, ttl=30) as lease:
            lease.renew()
            lease.renew(20)
            assert held(lease) and lease.fence == rows.fence(name)
            fences.append(lease.fence)
        assert rows.free(name)
    assert fences == sorted(set(fences))
