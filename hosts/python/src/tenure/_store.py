"""A store: where leases are acquired."""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Literal, ParamSpec, TypedDict, TypeVar, overload

from . import _clock, _core
from ._carrier import Carrier
from ._durations import Duration, micros, micros_or_forever
from ._errors import Busy, ConfigError, Lost, TenureWarning, checked
from ._keeper import Keeper
from ._lease import Lease
from ._observations import Observation, Observations
from ._recorder import Recorder
from ._status import Status

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Seconds that the end of the interpreter may wait for what is being undone.
_EXIT_PATIENCE = 2.0


class StoreOptions(TypedDict, total=False):
    """What every store can be told."""

    #: Who this process is; by default host, process id and random digits.
    holder: str | None
    #: By how much a clock may run fast or slow, as a share; 0.01 by default.
    rate_error: float
    #: The pace of renewals; a third of the ttl by default.
    renew_interval: Duration | None
    #: The longest sleep of a waiting contender; a tenth of the ttl by default, at most a second, or a
    #: tenth of one where the store itself ends leases.
    poll_interval: Duration | None
    #: After how long without an answer a request counts as unknown; a third of the ttl by default, at
    #: most five seconds.
    call_timeout: Duration | None
    #: A file that everything is recorded in that goes into the core; `tenure trace show` reads it.
    trace: str | os.PathLike[str] | None


class Store:
    """One store, by the client that you already have.

    Made by `tenure.dynamodb`, `tenure.redis`, `tenure.sqlite` and `tenure.memory`. Opens no
    connection by itself, and closes none that it did not open.
    """

    def __init__(
        self,
        carrier: Carrier,
        *,
        holder: str | None = None,
        rate_error: float = 0.01,
        renew_interval: Duration | None = None,
        poll_interval: Duration | None = None,
        call_timeout: Duration | None = None,
        trace: str | os.PathLike[str] | None = None,
    ) -> None:
        if holder is not None:
            checked("holder", _core.check_holder, holder)
        self.carrier = carrier
        self.keeper = Keeper()
        #: Where evidence is kept for later tries; in memory, unless something is put here that
        #: outlives the process.
        self.observations: Observations = _Remembered()
        self._fixed_holder = holder
        self._holder = holder or _clock.new_holder()
        self._rate_error_ppm = _ppm(rate_error)
        self._renew_interval_us = _optional(renew_interval, "renew_interval")
        self._poll_interval_us = _optional(poll_interval, "poll_interval")
        self._call_timeout_us = _optional(call_timeout, "call_timeout")
        # Where nothing tells whose clock it is, it is this process's alone.
        self._clock_id = _clock.clock_id() or int.from_bytes(os.urandom(16), "big")
        self._recorder = None if trace is None else Recorder(trace)
        self._pid = os.getpid()
        self._closed = False
        self._warned = False
        self._leases: weakref.WeakSet[Lease] = weakref.WeakSet()
        self._leases_lock = threading.Lock()
        _stores.add(self)
        if carrier.patience_us is None or carrier.patience_us > _DEFAULT_TTL_US:
            self._warn("30 s")

    def acquire(
        self,
        name: str,
        ttl: Duration,
        *,
        wait: Duration = 0,
        min_hold: Duration = 0,
        on_lost: Callable[[Lost], object] | None = None,
        on_waiting: Callable[[str | None, float | None], object] | None = None,
    ) -> Lease:
        """Acquires a name, and keeps it renewed until it is released or lost.

        `ttl` says how long the record outlives its holder (`"forever"`: until it is released or
        broken). `wait` says how long to go on while somebody else holds it; the default is one try,
        which still takes over a lease whose holder is proven dead. `min_hold`: a release before that
        time frees the name only then, so that a short job does not run twice on machines whose
        clocks differ. `on_lost` is called, in a thread of its own, if it is lost; `on_waiting`
        (holder, seconds until that may change) whenever somebody is found in the way.

        Raises `Busy`, `StoreError` (`OutcomeUnknown` if no answer came), or `ConfigError`.
        """
        lease = self._new_lease(name, ttl, min_hold, on_lost, on_waiting)
        lease.acquire(micros_or_forever(wait, "wait"), self.observations)
        return lease

    def try_acquire(
        self,
        name: str,
        ttl: Duration,
        *,
        min_hold: Duration = 0,
        on_lost: Callable[[Lost], object] | None = None,
    ) -> Lease | None:
        """As `acquire` with one try; `None` if somebody else holds it."""
        try:
            return self.acquire(name, ttl, min_hold=min_hold, on_lost=on_lost)
        except Busy:
            return None

    def lease(
        self,
        name: str,
        ttl: Duration,
        *,
        wait: Duration = 0,
        min_hold: Duration = 0,
        on_lost: Callable[[Lost], object] | None = None,
    ) -> Scope:
        """A scope that holds the name: `with store.lease("report", ttl=30) as lease:`.

        Leaving it releases the lease, and raises `Lost` if it was lost meanwhile and the body did not
        fail already.
        """
        options = {"wait": wait, "min_hold": min_hold, "on_lost": on_lost}
        return Scope(lambda: self.acquire(name, ttl, **options))  # type: ignore[arg-type]

    @overload
    def exclusive(
        self,
        name: str,
        ttl: Duration,
        *,
        wait: Duration = 0,
        min_hold: Duration = 0,
        on_busy: Literal["raise"] = "raise",
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...

    @overload
    def exclusive(
        self,
        name: str,
        ttl: Duration,
        *,
        wait: Duration = 0,
        min_hold: Duration = 0,
        on_busy: Literal["skip"],
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R | None]]: ...

    def exclusive(
        self,
        name: str,
        ttl: Duration,
        *,
        wait: Duration = 0,
        min_hold: Duration = 0,
        on_busy: Literal["raise", "skip"] = "raise",
    ) -> Callable[[Callable[_P, _R]], Callable[_P, _R | None]]:
        """A decorator: the function runs only while the name is held.

        `{argument}` in the name stands for an argument of the call. With `on_busy="skip"` the call
        gives `None` while somebody else holds it.
        """
        if on_busy not in ("raise", "skip"):
            raise ConfigError("on_busy", f"must be 'raise' or 'skip', not {on_busy!r}")

        def decorate(function: Callable[_P, _R]) -> Callable[_P, _R | None]:
            if (
                inspect.iscoroutinefunction(function)
                or inspect.isgeneratorfunction(function)
                or inspect.isasyncgenfunction(function)
            ):
                # Its body runs after the call, when the lease is released again.
                raise ConfigError("function", "must be a plain one, no coroutine and no generator")
            signature = inspect.signature(function)

            @functools.wraps(function)
            def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _R | None:
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                full_name = name.format(**bound.arguments)
                try:
                    lease = self.acquire(full_name, ttl, wait=wait, min_hold=min_hold)
                except Busy:
                    if on_busy == "skip":
                        return None
                    raise
                with lease:
                    return function(*args, **kwargs)

            return guarded

        return decorate

    @property
    def holder(self) -> str:
        """Who this process is in the store; what another one hands over to."""
        return self._holder

    def status(self, name: str) -> Status:
        """What stands there, without contending for it."""
        checked("name", _core.check_name, name)
        return self.carrier.status(name)

    def list(self, prefix: str = "") -> Iterator[Status]:
        """All names that begin so and are held or resting, page by page."""
        return self.carrier.list(prefix)

    def break_(self, status: Status) -> Status:
        """Takes the name from exactly the record that `status` shows, and frees it.

        The fence grows, and the holder hears that it lost the lease at its next renewal. Only safe if
        the holder is known to be dead, or the resource refuses smaller fences. Raises `Busy` if
        another record stands there by now.
        """
        if not status.held and not status.resting:
            return status
        ttl = 10 + 10 * self.carrier.max_clock_skew_us / 1e6
        lease = self._new_lease(status.name, ttl, 0, None, None, briefly=True)
        lease.break_(status.identity, status.raw)
        lease.release()
        return self.carrier.status(status.name)

    def close(self) -> None:
        """Releases what is held, as far as the store answers, and ends the threads."""
        if self._closed:
            return
        self._closed = True
        with self._leases_lock:
            leases = list(self._leases)
        for lease in leases:
            try:
                lease.release()
            except Exception as error:
                warnings.warn(f"{lease.name}: {error}", TenureWarning, stacklevel=2)
        self.keeper.close()
        self.carrier.close()
        self.flush()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def flush(self) -> None:
        """Writes what was recorded to the trace's file, if there is one."""
        if self._recorder is not None:
            self._recorder.flush()

    def is_foreign_process(self) -> bool:
        """Whether this is a fork of the process that the store was made in."""
        return self._pid != os.getpid()

    def _new_lease(
        self,
        name: str,
        ttl: Duration,
        min_hold: Duration,
        on_lost: Callable[[Lost], object] | None,
        on_waiting: Callable[[str | None, float | None], object] | None,
        briefly: bool = False,
    ) -> Lease:
        if self._closed:
            raise ConfigError("store", "is closed")
        checked("name", _core.check_name, name)
        ttl_us = micros_or_forever(ttl, "ttl")
        config = checked(
            "ttl",
            _core.Config,
            self.carrier.expiry,
            ttl_us,
            self.carrier.max_clock_skew_us,
            self.carrier.per_claim,
            # An interval that was chosen for long leases does not fit one that is only broken.
            None if briefly else self._renew_interval_us,
            self._poll_interval_us,
            self._call_timeout_us,
            self._rate_error_ppm,
            micros(min_hold, "min_hold"),
            self._clock_id,
        )
        patience = self.carrier.patience_us
        if ttl_us is not None and (patience is None or patience > ttl_us):
            self._warn(f"the ttl of {name!r}")
        core = self.carrier.lease(config, name, self._holder)
        if self._recorder is not None:
            core.record(self._recorder.trace)
        lease = Lease(self, core, name, self._holder, config.call_timeout_us, on_lost, on_waiting)
        with self._leases_lock:
            self._leases.add(lease)
        return lease

    def _warn(self, what: str) -> None:
        if self._warned:
            return
        self._warned = True
        patience = self.carrier.patience_us
        waits = "for ever" if patience is None else f"up to {patience / 1e6:g} s"
        warnings.warn(
            f"the client may wait {waits} for one answer, longer than {what}: a renewal that hangs"
            f" so long costs the lease. Make it with {self.carrier.patience_fix}",
            TenureWarning,
            stacklevel=_depth_of_caller(),
        )

    def finish(self, until: float) -> None:
        """At the end of the interpreter: what may be left of given-up acquires is undone, as far as
        there is time."""
        with self._leases_lock:
            leases = list(self._leases)
        while leases and time.monotonic() < until:
            leases = [lease for lease in leases if lease.is_undoing()]
            if leases:
                time.sleep(0.005)
        self.keeper.close()
        self.flush()

    def disown(self) -> None:
        """In a child process, before anything that may fail: no lease of the parent's is ours."""
        for lease in list(self._leases):
            lease.fork()

    def fork(self) -> None:
        """In a child process: nothing else of the parent's is ours either."""
        self._leases_lock = threading.Lock()
        if isinstance(self.observations, _Remembered):
            # Another thread of the parent may have been writing there.
            self.observations = _Remembered()
        self._leases = weakref.WeakSet()
        self.keeper = Keeper()
        # The file is the parent's.
        self._recorder = None
        self._pid = os.getpid()
        self._holder = self._fixed_holder or _clock.new_holder()
        self.carrier.after_fork()


class _Remembered:
    """The last observations of this process, so that one try after the other sees a ttl pass."""

    _MOST = 1024

    def __init__(self) -> None:
        self._seen: dict[str, Observation] = {}
        self._lock = threading.Lock()

    def load(self, name: str) -> Observation | None:
        return self._seen.get(name)

    def save(self, name: str, observation: Observation) -> None:
        with self._lock:
            self._seen.pop(name, None)
            self._seen[name] = observation
            if len(self._seen) > self._MOST:
                del self._seen[next(iter(self._seen))]

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)


class Scope:
    """Holds a lease for the length of a `with` block. May be entered again, and from many threads."""

    def __init__(self, acquire: Callable[[], Lease]) -> None:
        self._acquire = acquire
        self._entered: list[tuple[int, Lease]] = []

    def __enter__(self) -> Lease:
        lease = self._acquire()
        self._entered.append((threading.get_ident(), lease))
        return lease

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        entered = self._entered
        # The last one that this thread entered; or of any, since some frameworks leave a block in
        # another thread than they entered it.
        mine = [entry for entry in entered if entry[0] == threading.get_ident()]
        entry = (mine or entered)[-1]
        entered.remove(entry)
        return entry[1].__exit__(kind, error, trace)


_DEFAULT_TTL_US = 30_000_000
_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _depth_of_caller() -> int:
    """For a warning to show the line outside of this package that led here."""
    package = os.path.dirname(__file__)
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == package:
        depth, frame = depth + 1, frame.f_back
    return depth


def _optional(value: Duration | None, field: str) -> int | None:
    return None if value is None else micros(value, field)


def _ppm(rate_error: float) -> int:
    ppm = rate_error * 1e6 if isinstance(rate_error, (int, float)) else -1
    if not 0 <= ppm <= 1e9:
        raise ConfigError("rate_error", f"must be a share such as 0.01, not {rate_error!r}")
    return round(ppm)


def _after_fork() -> None:
    stores = list(_stores)
    for store in stores:
        store.disown()
    for store in stores:
        store.fork()


def _at_exit() -> None:
    until = time.monotonic() + _EXIT_PATIENCE
    for store in list(_stores):
        store.finish(until)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
