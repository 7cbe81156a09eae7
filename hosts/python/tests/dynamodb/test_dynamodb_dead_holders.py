"""A holder that was killed: taken over as soon as its time is proven to be over, and never before."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tenure
from dynamodb_help import Rows, Stores, single_try, wall_ms
from engine_help import PATIENCE, held
from engines.servers import Server

HOLDS = """
import sys, time, tenure
from stores import dynamodb_client
skew = float(sys.argv[4]) or None
store = tenure.dynamodb(dynamodb_client(sys.argv[1]), table="leases", max_clock_skew=skew)
lease = store.acquire(sys.argv[2], ttl=float(sys.argv[3]))
print(lease.fence, flush=True)
time.sleep(600)
"""

#: One try by a process of its own, with what earlier ones saw.
TRIES = """
import json, os, sys, tenure
from stores import dynamodb_client

class File:
    def load(self, name):
        try:
            with open(sys.argv[3]) as file:
                seen = json.load(file).get(name)
        except FileNotFoundError:
            return None
        return None if seen is None else tenure.Observation(*seen)

    def save(self, name, observation):
        with open(sys.argv[3], "w") as file:
            json.dump({name: list(observation)}, file)

    def forget(self, name):
        if os.path.exists(sys.argv[3]):
            os.remove(sys.argv[3])

store = tenure.dynamodb(dynamodb_client(sys.argv[1]), table="leases")
store.observations = File()
lease = store.try_acquire(sys.argv[2], ttl=float(sys.argv[4]))
print(lease.fence if lease else 0, flush=True)
if lease:
    lease.release()
"""


def _script(text: str, *args: str) -> list[str]:
    tests = str(Path(__file__).resolve().parents[1])
    return [sys.executable, "-W", "ignore", "-c", f"import sys; sys.path.insert(0, {tests!r})\n{text}", *args]


def killed_holder(server: Server, name: str, ttl: float, skew: float = 0) -> int:
    """Of a process that acquired it and died; its fence."""
    command = _script(HOLDS, server.endpoint, name, str(ttl), str(skew))
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            fence = int(process.stdout.readline())
        finally:
            process.kill()
    return fence


def test_issue_non_blocking_try_never_takes_a_dead_lock(
    server: Server, stores: Stores, rows: Rows, name: str
) -> None:
    ttl = 1.2
    store = stores(single_try(server.endpoint))
    dead = killed_holder(server, name, ttl)
    first_at = time.monotonic()
    last_failed_at = first_at
    lease = None
    while lease is None:
        assert time.monotonic() < first_at + PATIENCE, "it is never taken over"
        last_failed_at = time.monotonic()
        lease = store.try_acquire(name, ttl=30)
        time.sleep(0 if lease else ttl / 3)
    # Not before its ttl was seen to pass, and at the first try after that.
    over_at = first_at + ttl * 1.02 + 0.002
    assert last_failed_at >= first_at + ttl
    assert time.monotonic() <= over_at + ttl / 3 + 1
    assert held(lease) and lease.fence == dead + 1
    lease.release()
    assert rows.free(name)


def test_one_that_waits(server: Server, stores: Stores, rows: Rows, name: str) -> None:
    ttl = 1.0
    dead = killed_holder(server, name, ttl)
    began = time.monotonic()
    with stores(single_try(server.endpoint)).lease(name, ttl=30, wait=PATIENCE) as lease:
        assert ttl <= time.monotonic() - began <= ttl * 1.02 + 0.2 + 2
        assert lease.fence == dead + 1 == rows.fence(name)


def test_issue_short_lived_processes_cannot_see_a_ttl_pass(
    server: Server, rows: Rows, name: str, tmp_path: Path
) -> None:
    ttl = 1.5
    dead = killed_holder(server, name, ttl)
    command = _script(TRIES, server.endpoint, name, str(tmp_path / "seen"), "30")
    began = time.monotonic()
    tries = 0
    while True:
        fence = int(subprocess.run(command, capture_output=True, check=True).stdout)
        tries += 1
        if fence:
            break
        seen = json.loads((tmp_path / "seen").read_text())[name]
        assert seen[1] == ttl * 1e6
        assert time.monotonic() < began + PATIENCE, "it is never taken over"
    assert time.monotonic() >= began + ttl and tries > 1
    assert fence == dead + 1
    # Of no more use.
    assert not (tmp_path / "seen").exists()
    assert rows.free(name)


def test_an_observation_of_another_record_proves_nothing(
    server: Server, stores: Stores, rows: Rows, name: str
) -> None:
    class Old:
        def load(self, _: str) -> tenure.Observation | None:
            return tenure.Observation("0" * 32, 1_000, 10**9, None, 0, None)

        def save(self, _: str, observation: tenure.Observation) -> None: ...

        def forget(self, _: str) -> None: ...

    store = stores(single_try(server.endpoint))
    row = rows.left_dead(store, name, ttl=30)
    store.observations = Old()
    with pytest.raises(tenure.Busy):
        store.acquire(name, ttl=30)
    assert rows.of(name) == row


def test_issue_must_watch_a_full_lease_even_if_it_died_days_ago(
    server: Server, stores: Stores, rows: Rows, name: str
) -> None:
    """With a declared bound the first try takes it, without having seen anything before."""
    dead = killed_holder(server, name, ttl=1.0, skew=0.2)
    ends_at = int(rows.of(name)["leaseExpiration"]["N"])
    store = stores(single_try(server.endpoint), max_clock_skew=0.2)
    with pytest.raises(tenure.Busy):
        store.acquire(name, ttl=2)
    time.sleep(max(0, ends_at + 200 - wall_ms()) / 1000 + 0.1)
    new = stores(single_try(server.endpoint), max_clock_skew=0.2)
    with new.lease(name, ttl=2) as lease:
        assert lease.fence == dead + 1
    assert rows.free(name)


def test_a_bound_does_not_judge_a_holder_who_declared_none(
    server: Server, stores: Stores, rows: Rows, name: str
) -> None:
    row = rows.left_dead(stores(single_try(server.endpoint)), name, ttl=0.6)
    time.sleep(0.6 + 0.2)
    with pytest.raises(tenure.Busy):
        stores(single_try(server.endpoint), max_clock_skew=0.1).acquire(name, ttl=2)
    assert rows.of(name) == row


def test_a_holder_with_a_larger_bound_is_waited_for_by_his(
    server: Server, stores: Stores, rows: Rows, name: str
) -> None:
    row = rows.left_dead(stores(single_try(server.endpoint), max_clock_skew=3), name, ttl=5)
    expires_at = int(row["leaseExpiration"]["N"])
    shown = {k: v for k, v in row.items() if k != "leaseId"}
    moved = rows.put(name, **(shown | {"leaseExpiration": {"N": str(expires_at - 6_000)}}))
    with pytest.raises(tenure.Busy):
        stores(single_try(server.endpoint), max_clock_skew=0.1).acquire(name, ttl=2)
    assert rows.of(name) == moved
    time.sleep(max(0, expires_at - 6_000 + 3_000 - wall_ms()) / 1000 + 0.1)
    with stores(single_try(server.endpoint), max_clock_skew=0.1).lease(name, ttl=2) as lease:
        assert held(lease)


def test_issue_every_contender_is_served_after_a_kill(
    server: Server, stores: Stores, rows: Rows, name: str
) -> None:
    dead = killed_holder(server, name, 0.8)
    fences = []
    for _ in range(3):
        with stores(single_try(server.endpoint)).lease(name, ttl=30, wait=PATIENCE) as lease:
            fences.append(lease.fence)
    assert fences == [dead + 1, dead + 2, dead + 3]
    assert rows.free(name)
