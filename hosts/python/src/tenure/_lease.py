"""The handle of one lease."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from . import _clock, _core
from ._durations import Duration, micros, micros_or_forever
from ._errors import Busy, ConfigError, checked, Lost, OutcomeUnknown, StoreError, TenureError
from ._observations import Observation
from ._signal import Signal

if TYPE_CHECKING:
    from ._keeper import Keeper
    from ._store import Store

_log = logging.getLogger("tenure")


class Lease:
    """An exclusive right over a name, that ends by itself.

    `name`; `holder`, who holds it: this process, readable in the store; `fence`, a number that strictly
    grows with every acquisition of the name (`None` where the store gives none), to be sent along with
    every protected write; `lost`, an event that is set as soon as it is known to be lost.

    Made by `Store.acquire`, `Store.try_acquire` and `Store.lease`. May be used from any thread.
    """

    def __init__(
        self,
        store: Store,
        core: _core.Lease,
        name: str,
        holder: str,
        call_timeout_us: int,
        on_lost: Callable[[Lost], object] | None,
        on_waiting: Callable[[str | None, float | None], object] | None,
    ) -> None:
        self._store = store
        self._core = core
        self._call_timeout_us = call_timeout_us
        self._on_lost = on_lost
        self._on_waiting = on_waiting
        self._lock = threading.Lock()
        self._changed = Signal()
        self._end: Lost | None = None
        self._answer: tuple[Any, ...] | None = None
        self._renewals = 0
        self._given_up = False
        self._told: str | None = None
        self._cause: BaseException | str | None = None
        self._hint = ""
        #: When the keeper will tick it next; the keeper's.
        self.due_us: int | None = None
        self.name = name
        #: Who holds it: this process, readable in the store.
        self.holder = holder
        #: Strictly grows with every acquisition of the name; `None` where the store gives none. Send
        #: it along with every protected write, and let the resource refuse smaller ones.
        self.fence: int | None = None
        #: Set as soon as the lease is known to be lost.
        self.lost: threading.Event = Signal()

    def __repr__(self) -> str:
        state = "held" if self.remaining() > 0 else self.lost_reason or "not held"
        return f"<tenure.Lease {self.name!r} {state} fence={self.fence}>"

    # Asking

    def remaining(self) -> float:
        """Seconds for which it is still held, by this process's clocks alone and with the margin for
        their error taken off; 0.0 once it is over, `inf` for a lock. Give it to every protected call
        as its time-out."""
        if self._end is not None:
            return 0.0
        grant = self._core.grant(*_clock.clocks())
        if grant is None:
            return 0.0
        return float("inf") if grant[1] is None else grant[1] / 1e6

    def check(self, min_remaining: Duration = 0) -> None:
        """Raises `Lost` unless it is held, and for at least so long (else with the reason `short`: it is
        held, but what is to be done would not fit). Cheap: no request is made."""
        needed = micros(min_remaining, "min_remaining") / 1e6
        remaining = self.remaining()
        if remaining > 0 and remaining >= needed:
            return
        if remaining == 0 and self._end is None:
            # The deadline passed just now: say so before anybody acts on it.
            self.tick(self._store.keeper)
        raise self._end or Lost(self.name, self.fence, "short" if remaining > 0 else "expired")

    @property
    def lost_reason(self) -> str | None:
        """Why it was lost, if it was."""
        return None if self._end is None else self._end.reason

    @property
    def last_error(self) -> BaseException | str | None:
        """Why the last request failed, as the client raised it or the store put it; `None` if it did
        not."""
        return self._cause

    # Acting

    def renew(self, ttl: Duration | None = None) -> None:
        """Renews it now, without waiting for the next regular renewal; with another `ttl` from here
        on, if one is given. Sets the time that is left, never adds to it.

        Raises `Lost`, or `StoreError` if the store did not take it (the lease stays held until its
        deadline, and goes on being renewed).
        """
        self._raise_if_over()
        new_ttl = None if ttl is None else (micros_or_forever(ttl, "ttl"),)
        before = self._renewals
        self._cause, self._hint = None, ""
        step = checked("ttl", self._core.renew, _clock.reading(), new_ttl)
        self._drive(step, lambda: self._renewals > before or self._end is not None)
        self._raise_if_over()
        if self._renewals == before:
            raise self._store_error("renew")

    def release(self) -> None:
        """Gives it up. Again, or after a loss, it does nothing.

        Raises `OutcomeUnknown` if the store did not confirm it in the time of two calls (a request
        that hangs takes the client's own time-out besides): the release goes on in the background,
        and the record ends with its ttl at the latest.
        """
        try:
            with self._lock:
                if self._given_up or self._end is not None:
                    return
                self._given_up = True
                self._end = Lost(self.name, self.fence, "released")
            step = self._core.release(_clock.reading())
        except BaseException:
            self._finish_giving_up()
            raise
        self._drive(step, lambda: self._told is not None or self._core.state() == "idle")
        nothing_left = self._told != "unconfirmed" and self._core.state() == "idle"
        # Released is not idle yet where an earlier request may still arrive.
        if self._told == "released" or nothing_left:
            _log.info("released %s", self.name, extra=self._extra())
            return
        raise OutcomeUnknown("release", self._cause)

    def hand_over(self, to: str) -> None:
        """Names a successor, by its holder id, which then takes the lease without a gap. It is no
        longer held here from now on, whatever happens.

        Raises `Lost` if it was not ours to hand over any more, `OutcomeUnknown` if the store did not
        confirm it in time.
        """
        self._raise_if_over()
        checked("to", _core.check_holder, to)
        try:
            with self._lock:
                self._raise_if_over()
                self._given_up = True
                self._end = Lost(self.name, self.fence, "released")
            step = self._core.hand_over(_clock.reading(), to)
        except BaseException:
            self._finish_giving_up()
            raise
        self._drive(step, lambda: self._told is not None)
        if self._told == "handed_over":
            return
        if self._told == "lost":
            raise Lost(self.name, self.fence, "expired")
        raise OutcomeUnknown("hand_over", self._cause)

    def __copy__(self) -> Lease:
        raise TypeError("a lease cannot be copied: there is one holder")

    def __deepcopy__(self, memo: object) -> Lease:
        raise TypeError("a lease cannot be copied: there is one holder")

    def __reduce__(self) -> str:
        raise TypeError("a lease cannot be pickled: it is held by this process; hand_over it")

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]:
        end = self._end
        if end is None and self.remaining() == 0:
            self.tick(self._store.keeper)
            end = self._end
        try:
            self.release()
        except StoreError as trouble:
            # The body is done and was protected; its outcome matters more than ours.
            _log.warning("%s: %s", self.name, trouble, extra=self._extra())
        if end is None or end.reason == "released":
            return False
        if error is None:
            raise end
        if error is not end and hasattr(error, "add_note"):
            error.add_note(f"tenure: {end}")
        return False

    # Driving: what follows is for the store and its keeper.

    def acquire(self, wait_us: int | None, observations: Any) -> None:
        """Acquires it, or raises why not."""
        if observations is not None and (seen := observations.load(self.name)) is not None:
            self._core.observe(_clock.reading(), tuple(seen))
        self._begin(lambda: self._core.acquire(_clock.reading(), wait_us), observations)

    def break_(self, identity: str, raw: Any) -> None:
        """Acquires it in place of exactly this record, or raises why not."""
        self._begin(lambda: self._core.break_(_clock.reading(), identity, raw), None)

    def _begin(self, ask: Callable[[], Any], observations: Any) -> None:
        try:
            self._drive_until(ask(), lambda: self._answer is not None, None)
            if observations is not None:
                self._keep_observation(observations)
        except BaseException:
            # Whatever interrupts it, nothing of ours is to stay behind.
            self._give_up()
            raise
        answer = self._answer
        assert answer is not None
        if answer[0] == "acquired":
            return
        if answer[0] == "cancelled":
            raise ConfigError("store", "was closed meanwhile")
        if answer[0] == "busy":
            _, because, retry_us, holder, fence = answer
            _log.debug("%s is busy: held by %s", self.name, holder, extra=self._extra())
            raise Busy(self.name, holder, fence, None if retry_us is None else retry_us / 1e6, because)
        raise self._store_error("acquire", unknown=answer[-1] == "unknown")

    def _keep_observation(self, observations: Any) -> None:
        seen = self._core.observation(*_clock.clocks())
        if seen is None:
            observations.forget(self.name)
        else:
            observations.save(self.name, Observation(*seen))

    def _give_up(self) -> None:
        with self._lock:
            self._given_up = True
            self._end = self._end or Lost(self.name, self.fence, "released")
        self._leave_to_keeper(self._core.cancel(_clock.reading()))

    def _finish_giving_up(self) -> None:
        """Whoever gave it up was interrupted, maybe before the core heard of it."""
        if self._given_up:
            self._leave_to_keeper(self._core.release(_clock.reading()))

    def _leave_to_keeper(self, step: Any) -> None:
        """Whoever carried a call of it was interrupted, so that no answer comes any more."""
        if self._is_forked():
            # What may have been applied is the parent's, which goes on with it.
            return
        call, event, wake_at = step
        if event is not None:
            self._hear(event)
        awaited = self._core.awaited()
        if call is None and awaited is not None:
            self._leave_to_keeper(self._core.unknown(_clock.reading(), awaited))
            return
        if call is not None:
            self._store.keeper.carry(self, call)
        self._store.keeper.keep(self, wake_at)

    def _drive(self, step: Any, done: Callable[[], bool]) -> None:
        """Bounded by the time of two calls; if it is interrupted, the keeper goes on."""
        try:
            self._drive_until(step, done, 2 * self._call_timeout_us)
        except BaseException:
            self._leave_to_keeper(self._core.tick(_clock.reading()))
            raise

    def _drive_until(self, step: Any, done: Callable[[], bool], timeout_us: int | None) -> None:
        """Carries out what the core asks for, in this thread, until `done`. What then remains is the
        keeper's."""
        until = None if timeout_us is None else _clock.mono_us() + timeout_us
        while True:
            wake_at = self._carry_all(step)
            if not done():
                now = _clock.mono_us()
                ends = [at for at in (wake_at, until) if at is not None]
                # Another thread may be carrying a call of this lease; its end is signalled.
                self._changed.wait(max(0.0, (min(ends) - now) / 1e6) if ends else None)
            if done() or (until is not None and _clock.mono_us() >= until):
                break
            if self._is_forked():
                # This is a child by now, and what was asked for is its parent's.
                self._raise_if_over()
            step = self._core.tick(_clock.reading())
        self._store.keeper.keep(self, wake_at)
        self._store.flush()

    def _carry_all(self, step: Any) -> int | None:
        while True:
            call, event, wake_at = step
            if event is not None:
                self._hear(event)
            if call is None:
                return wake_at  # type: ignore[no-any-return]
            step = self._carry(call)

    def _carry(self, call: Any) -> Any:
        call_id, _, request = call
        carried = self._store.carrier.carry(self._core, call_id, request)
        if carried.cause is not None:
            self._cause, self._hint = carried.cause, carried.hint
        return carried.step

    def tick(self, keeper: Keeper) -> None:
        """Time passed."""
        if self._store.is_foreign_process():
            return
        call, event, wake_at = self._core.tick(_clock.reading())
        if event is not None:
            self._hear(event)
        if call is not None:
            keeper.carry(self, call)
        keeper.keep(self, wake_at)
        self._store.flush()

    def carry_kept(self, keeper: Keeper, call: Any) -> None:
        """Carries out a call that the keeper had queued."""
        while call is not None:
            # The core may have given it up while it waited behind others.
            if self._core.awaited() != call[0]:
                return
            call, event, wake_at = self._carry(call)
            if event is not None:
                self._hear(event)
            keeper.keep(self, wake_at)

    def is_idle(self) -> bool:
        """Whether there is nothing more to do for it."""
        return self._core.state() == "idle"

    def is_undoing(self) -> bool:
        """Whether something that was given up may still have to be taken back."""
        return self._given_up and self._core.state() == "releasing"

    def _is_forked(self) -> bool:
        return self._end is not None and self._end.reason == "forked"

    def fork(self) -> None:
        """In a child process: the lease is the parent's."""
        self._lock = threading.Lock()
        self._changed = Signal()
        self.lost = Signal()
        self._given_up = True
        self._end = self._end or Lost(self.name, self.fence, "forked")
        self.lost.set()

    def _hear(self, event: tuple[Any, ...]) -> None:
        kind = event[0]
        lost: Lost | None = None
        with self._lock:
            if kind == "acquired":
                self._answer = event
                self.fence = event[1]
            elif kind in ("busy", "failed", "cancelled"):
                self._answer = event
            elif kind == "renewed":
                self._renewals += 1
                self._cause, self._hint = None, ""
            elif kind in ("released", "handed_over", "unconfirmed"):
                self._told = kind
            elif kind == "lost":
                self._told = kind
                if self._end is None:
                    lost = self._end = Lost(self.name, self.fence, event[1], event[3])
        self._changed.nudge()
        self._tell(kind, event, lost)

    def _tell(self, kind: str, event: tuple[Any, ...], lost: Lost | None) -> None:
        if kind == "acquired":
            _log.info("acquired %s", self.name, extra=self._extra())
        elif kind == "at_risk":
            _log.warning("%s is at risk: %s", self.name, self._cause, extra=self._extra())
        elif kind == "waiting" and self._on_waiting is not None:
            _, retry_us, holder, _ = event
            self._on_waiting(holder, None if retry_us is None else retry_us / 1e6)
        elif lost is not None:
            self.lost.set()
            _log.error("%s", lost, extra=self._extra())
            if self._on_lost is not None:
                # In a thread of its own: a callback must not keep other leases from being told.
                callback = self._on_lost
                threading.Thread(
                    target=lambda: callback(lost), name="tenure-lost", daemon=True
                ).start()

    def _extra(self) -> dict[str, Any]:
        return {"tenure_name": self.name, "tenure_fence": self.fence, "tenure_holder": self.holder}

    def _raise_if_over(self) -> None:
        if self._end is not None:
            raise self._end

    def _store_error(self, op: str, unknown: bool | None = None) -> TenureError:
        cause = self._cause
        if isinstance(cause, ConfigError):
            return cause
        if unknown or (unknown is None and cause is None):
            return OutcomeUnknown(op, cause)
        return StoreError(cause, self._hint)

