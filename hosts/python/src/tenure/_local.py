"""Stores that this host keeps itself: a row is read, the core carries the call out on it, and it is
kept again, in one step that nobody else can enter."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _clock, _core
from ._carrier import Carried
from ._status import Status, status_of
from ._store import Store, StoreOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


def memory(**options: Unpack[StoreOptions]) -> Store:
    """Leases between the threads of this process; for tests, and for programs that will have a real
    store elsewhere."""
    return Store(_Memory(), **options)


class _Memory:
    expiry = "store"
    max_clock_skew_us = 0
    per_claim = False
    patience_us: int | None = 0
    patience_fix = ""
    #: One clock, which never starts again within a process.
    _here = ("1", "1")

    def __init__(self) -> None:
        self._rows: dict[str, Any] = {}
        self._lock = threading.Lock()

    def lease(self, config: _core.Config, name: str, holder: str) -> _core.Lease:
        return _core.Lease.local(config, name, holder)

    def carry(self, core: _core.Lease, call_id: int, request: Any) -> Carried:
        name = request
        with self._lock:
            row = core.carry_out(
                call_id,
                self._rows.get(name),
                _clock.mono_us(),
                _clock.wall_us(),
                *self._here,
            )
            if row is not None:
                self._rows[name] = row
        return Carried(core.carried(_clock.reading(), call_id))

    def status(self, name: str) -> Status:
        with self._lock:
            row = self._rows.get(name)
        return status_of(name, _core.local_shown(row, _clock.mono_us(), *self._here), None)

    def list(self, prefix: str) -> Iterator[Status]:
        with self._lock:
            names = sorted(name for name in self._rows if name.startswith(prefix))
        for name in names:
            status = self.status(name)
            if status.held or status.resting:
                yield status

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._rows = {}

    def close(self) -> None:
        pass
