"""One worker process: contends for all its names for as long as it lives, and works while it holds one.

    python -m faults.worker '{"engine": "redis", "port": 6379, …}'

Each name has a thread of its own, so that every worker alive is a contender for every name. What it holds, it
holds for a while: it seals the guarded row of that name, and then adds to it, one element after the other,
until it has had enough, is refused, hears that it lost the lease, or cannot tell what became of a write. In
the last case a copy of that write may still be on its way, with this very fence, and only the seal of the next
holder stops it: so it goes no further with this lease.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import logging
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from typing import Any

import tenure

from .clients import LEASES_TABLE, dynamodb_client, redis_client, rows_at
from .clocks import Clocks, Skew, true_us
from .resource import Refused

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Settings:
    """What a test tells a worker."""

    by: str
    history: str
    engine: str
    """`redis`, `dynamodb` or `bounded`."""
    port: int
    resource_port: int
    names: list[str]
    ttl: float
    seed: int
    skew: Skew = field(default_factory=Skew)
    retries: bool = False
    """The client sends a request again by itself, as clients do when nobody tells them otherwise."""
    hold: float = 1.5
    """The longest time that it works at once, in seconds."""
    careless: float = 0.0
    """In how many of its holds it does not check before it acts: there the fence alone protects the row."""
    idle: bool = False
    """It holds, and does nothing with it."""
    fenced: bool = True
    sealed: bool = True
    stops: bool = False
    """It stops itself, as SIGSTOP from outside would, between the check and the act of its first write."""
    max_clock_skew: float = 0.0

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Settings:
        fields = json.loads(text)
        return cls(**{**fields, "skew": Skew(**fields["skew"])})


class Troubles(threading.local):
    """What befell the requests of this thread, which carries out its acquires itself. (A lease tells only its last
    trouble, and forgets it with its first renewal.)"""

    failed = False
    given_up = False
    """After a time-out, so that it may still be on its way."""

    def watch(self, store: tenure.Store) -> None:
        carry = store.carrier.carry

        def watched(core: Any, call_id: int, request: Any) -> Any:
            carried = carry(core, call_id, request)
            if carried.cause is not None:
                self.failed = True
                self.given_up = self.given_up or "Timeout" in type(carried.cause).__name__
            return carried

        store.carrier.carry = watched  # type: ignore[method-assign]


class Worker:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clocks = Clocks(settings.skew)
        self.clocks.install()
        self._history = os.open(settings.history, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._elements = 0
        self._elements_lock = threading.Lock()
        self._stops_left = int(settings.stops)
        self.ending = threading.Event()
        self.store = _store(settings)
        self.troubles = Troubles()
        self.troubles.watch(self.store)
        self.rows = rows_at(settings.engine, settings.resource_port)

    def note(self, what: str, at_us: int | None = None, **fields: object) -> None:
        """One line, in one write: a kill leaves none in part."""
        line = {"at": true_us() if at_us is None else at_us, "by": self.settings.by, "what": what, **fields}
        os.write(self._history, json.dumps(line).encode() + b"\n")

    def run(self) -> None:
        """Until it is told to end; then it releases what it holds."""
        threads = [threading.Thread(target=self._contend, args=[name], name=name) for name in self.settings.names]
        threads.append(threading.Thread(target=self._step_clocks, name="steps"))
        for thread in threads:
            thread.start()
        signal.sigwait([signal.SIGTERM])
        self.ending.set()
        for thread in threads:
            thread.join()

    def _step_clocks(self) -> None:
        choose = random.Random(f"{self.settings.seed} steps")
        while not self.ending.wait(choose.uniform(0.5, 3)) and true_us() < self.settings.skew.steps_until_us:
            by_us = int(choose.uniform(-5, 5) * 3600e6)
            with self.clocks.stepping(by_us) as at_us:
                self.note("stepped", at_us, by_us=by_us)

    def _contend(self, name: str) -> None:
        choose = random.Random(f"{self.settings.seed} {name}")
        while not self.ending.is_set():
            wait = choose.choice([0, 0.3, 3 * self.settings.ttl])
            self.note("asked", name=name)
            self.troubles.failed = self.troubles.given_up = False
            try:
                lease = self.store.acquire(name, self.settings.ttl, wait=wait)
            except tenure.Busy as busy:
                self.note("busy", name=name, holder=busy.holder, because=busy.because)
                self.ending.wait(choose.uniform(0.01, 0.05))
                continue
            except tenure.StoreError as error:
                self.note("error", name=name, error=type(error).__name__, cause=str(error.cause))
                self.ending.wait(choose.uniform(0.01, 0.05))
                continue
            _Hold(self, name, lease, choose).work()

    def element(self) -> str:
        with self._elements_lock:
            self._elements += 1
            return f"{self.settings.by}.{self._elements}"

    def stop_here(self) -> None:
        if self._stops_left:
            self._stops_left -= 1
            # To this thread: by the process's id another one may take it, and this one would act before it stops.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


class _Hold:
    """From a grant to its release."""

    def __init__(self, worker: Worker, name: str, lease: tenure.Lease, choose: random.Random) -> None:
        self._worker = worker
        self._name = name
        self._lease = lease
        self._choose = choose
        self._told_lost = False
        assert lease.fence is not None
        self._fence: int = lease.fence

    def work(self) -> None:
        settings = self._worker.settings
        at_us, until_us = self._worker.clocks.proof_until_us(self._lease.remaining)
        mended = self._worker.troubles.failed
        # A client that sends again by itself does not tell of its first time-out.
        clean = not self._worker.troubles.given_up and not settings.retries
        record = self._record()
        self._note(
            "granted",
            at_us,
            until=until_us,
            holder=self._lease.holder,
            record=record,
            clean=clean or settings.engine != "redis",
            mended=mended,
        )
        until = time.monotonic() + self._choose.uniform(settings.hold / 4, settings.hold)
        careless = self._choose.random() < settings.careless
        if settings.sealed and not settings.idle and not self._sealed():
            until = 0
        while time.monotonic() < until and not self._worker.ending.is_set():
            if not (self._check() if settings.idle else self._add(careless)):
                break
            if self._choose.random() < 0.05:
                self._renew()
            self._worker.ending.wait(self._choose.uniform(0.01, 0.08))
        self._check()
        self._release()

    def _sealed(self) -> bool:
        """Before the first read: what an earlier holder still sends must not land after it."""
        for _ in range(3):
            if not self._check():
                return False
            try:
                self._worker.rows.seal(self._name, self._fence)
            except Refused:
                self._note("refused", element="")
                self._check()
                return False
            except Exception:
                continue
            return True
        return False

    def _add(self, careless: bool) -> bool:
        """Whether there is more to do with this lease."""
        if not self._check() and not careless:
            return False
        try:
            elements = self._worker.rows.read(self._name)
        except Exception as error:
            self._note("unread", cause=repr(error))
            return True
        if not self._check() and not careless:
            return False
        element = self._worker.element()
        self._note("acting", element=element)
        self._worker.stop_here()
        settings = self._worker.settings
        try:
            self._worker.rows.write(self._name, self._fence, settings.by, [*elements, element], settings.fenced)
        except Refused:
            self._note("refused", element=element)
            return False
        except Exception as error:
            self._note("unknown", element=element, cause=repr(error))
            return False
        self._note("acked", element=element)
        return True

    def _check(self) -> bool:
        lease = self._lease
        reasons: list[str] = []

        def remaining() -> float:
            try:
                lease.check()
            except tenure.Lost as lost:
                reasons.append(lost.reason)
                return 0
            return lease.remaining()

        at_us, until_us = self._worker.clocks.proof_until_us(remaining)
        if until_us:
            self._note("held", at_us, until=until_us)
            if self._told_lost:
                raise AssertionError("what was lost is held again")
            return True
        if reasons and not self._told_lost:
            self._told_lost = True
            self._note("lost", at_us, reason=reasons[0])
        return False

    def _renew(self) -> None:
        try:
            self._lease.renew()
        except (tenure.Lost, tenure.StoreError) as error:
            self._note("unrenewed", error=type(error).__name__)

    def _release(self) -> None:
        self._note("releasing")
        try:
            self._lease.release()
        except tenure.OutcomeUnknown as error:
            self._note("unconfirmed", cause=str(error.cause))
            return
        # After a loss there was nothing to release, and nothing was.
        if self._lease.lost_reason == "released":
            self._note("released")

    def _record(self) -> str:
        """What stands in the store for this very grant."""
        if self._worker.settings.engine != "redis":
            # A copy of an acquire would have a fence of its own.
            return str(self._fence)
        try:
            status = self._worker.store.status(self._name)
            self._lease.check()
        except (tenure.StoreError, tenure.Lost):
            return ""
        return record_of(status.raw) if status.holder == self._lease.holder else ""

    def _note(self, what: str, at_us: int | None = None, **fields: object) -> None:
        self._worker.note(what, at_us, name=self._name, fence=self._fence, **fields)


def record_of(raw: Any) -> str:
    return raw.decode() if isinstance(raw, bytes) else str(raw or "")


def _store(settings: Settings) -> tenure.Store:
    if settings.engine == "redis":
        return tenure.redis(redis_client(settings.port, settings.retries))
    client = dynamodb_client(settings.port, settings.retries)
    skew = settings.max_clock_skew if settings.engine == "bounded" else None
    return tenure.dynamodb(client, table=LEASES_TABLE, max_clock_skew=skew)


class _Crash(logging.Handler):
    """What fails in a thread of the library is logged there, for others to go on: nothing does."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self._worker = worker

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._worker.note("crashed", cause=self.format(record))


def main() -> None:
    # The test that started it may die without a word.
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    # A test that finds it hanging asks where.
    faulthandler.register(signal.SIGUSR1)
    # Waited for, instead of handled at any instant. All threads inherit it.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    warnings.simplefilter("ignore", tenure.TenureWarning)
    worker = Worker(Settings.parse(sys.argv[1]))
    logging.getLogger("tenure").addHandler(_Crash(worker))

    def crashed(failed: threading.ExceptHookArgs) -> None:
        told = "".join(traceback.format_exception(failed.exc_type, failed.exc_value, failed.exc_traceback))
        worker.note("crashed", cause=told)
        os._exit(3)

    threading.excepthook = crashed
    worker.note("started", pid=os.getpid())
    worker.run()
    worker.store.close()


if __name__ == "__main__":
    main()
