"""SQLite: leases between the processes of one machine, in one file, without a server."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _clock, _core
from ._carrier import Carried
from ._errors import ConfigError, StoreError
from ._status import Status, status_of
from ._store import Store, StoreOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


def sqlite(path: str | os.PathLike[str], **options: Unpack[StoreOptions]) -> Store:
    """Leases in a SQLite file, for the processes of one machine.

    They end by the machine's own clock since its start, which all its processes share and nobody can
    set; after a restart of the machine every name is free. A file that was written on another machine,
    or lies on a network file system, is refused.
    """
    if str(path) == ":memory:":
        raise ConfigError("path", "must be a file; leases of one process are in tenure.memory()")
    return Store(_Sqlite(Path(path)), **options)


_TABLE = """
CREATE TABLE IF NOT EXISTS tenure_leases (
    name TEXT PRIMARY KEY,
    holder TEXT,                -- who holds it, if anybody does
    offered INTEGER NOT NULL,   -- named by a hand-over
    version TEXT NOT NULL,      -- of the attempt that wrote the row
    ttl_us INTEGER NOT NULL,    -- -1 for ever
    ends_at_us INTEGER NOT NULL,-- by the machine's clock since its start
    fence INTEGER NOT NULL,     -- never gets smaller
    machine TEXT NOT NULL,      -- whose clock that is
    boot TEXT NOT NULL          -- and since which start
) WITHOUT ROWID
"""
_READ = (
    "SELECT holder, offered, version, ttl_us, ends_at_us, fence, machine, boot"
    " FROM tenure_leases WHERE name = ?"
)
_WRITE = "INSERT OR REPLACE INTO tenure_leases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_LIST = "SELECT name FROM tenure_leases WHERE substr(name, 1, length(?1)) = ?1 ORDER BY name"

#: Seconds to wait for another process's transaction, each of which takes a fraction of a millisecond.
#: The core tries again after that.
_BUSY_TIMEOUT = 0.25
#: Seconds to try to open a file that others are opening.
_OPEN_TIMEOUT = 10.0


class _Sqlite:
    expiry = "store"
    max_clock_skew_us = 0
    per_claim = False
    patience_us: int | None = 0
    patience_fix = ""

    def __init__(self, path: Path) -> None:
        machine, boot = _clock.machine(), _clock.boot()
        if boot is None:
            raise ConfigError(
                "path", "cannot be used: this system does not tell one start of the machine from another"
            )
        # Without an identity of the machine, one start of it is all that is known.
        self._here = (machine or boot, boot)
        self._path = path.absolute()
        self._lock = threading.Lock()
        _refuse_network(self._path)
        self._file: tuple[int, int] = (0, 0)
        self._database: sqlite3.Connection | None = self._open()
        _carriers.add(self)

    def _open(self) -> sqlite3.Connection:
        until = time.monotonic() + _OPEN_TIMEOUT
        while True:
            try:
                return self._try_open()
            except sqlite3.Error as error:
                # Others that open a new file at this moment are in the way of its journal's mode, for
                # which SQLite does not wait by itself.
                if "locked" in str(error) and time.monotonic() < until:
                    time.sleep(0.01)
                    continue
                raise ConfigError("path", f"{str(self._path)!r} cannot be used: {error}") from error

    def _try_open(self) -> sqlite3.Connection:
        database = sqlite3.connect(
            self._path, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        try:
            # A crash of the machine frees every lease anyway, so no write has to reach the disk.
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute(_TABLE)
            self._file = self._identity()
        except BaseException:
            database.close()
            raise
        return database

    def _identity(self) -> tuple[int, int]:
        found = os.stat(self._path)
        return found.st_dev, found.st_ino

    def _opened(self) -> sqlite3.Connection:
        """The database, with no transaction open; the lock is held."""
        database = self._database
        if database is not None:
            try:
                same = self._identity() == self._file
            except FileNotFoundError:
                same = False
            if not same:
                # Deleted or replaced: others are in another file by now, so we go there too, and
                # what we held is found missing.
                database.close()
                database = None
            elif database.in_transaction:
                # An exception out of a signal handler may leave one behind at any instant.
                database.execute("ROLLBACK")
        if database is None:
            database = self._database = self._open()
        return database

    def lease(self, config: _core.Config, name: str, holder: str) -> _core.Lease:
        return _core.Lease.local(config, name, holder)

    def carry(self, core: _core.Lease, call_id: int, request: Any) -> Carried:
        name = request
        sent = False
        try:
            with self._lock:
                database = self._opened()
                try:
                    database.execute("BEGIN IMMEDIATE")
                    row = core.carry_out(
                        call_id,
                        self._row(database, name),
                        _clock.boot_us(),
                        _clock.wall_us(),
                        *self._here,
                    )
                    if row is not None:
                        database.execute(_WRITE, (name, *row))
                    sent = True
                    database.execute("COMMIT")
                except BaseException:
                    if database.in_transaction:
                        database.execute("ROLLBACK")
                        sent = False
                    raise
        except sqlite3.OperationalError as error:
            if sent:
                return Carried(core.unknown(_clock.reading(), call_id), error)
            lasting = "locked" not in str(error) and "busy" not in str(error)
            return Carried(core.unavailable(_clock.reading(), call_id, lasting), error)
        except (sqlite3.Error, ValueError, ConfigError, OSError) as error:
            return Carried(core.unavailable(_clock.reading(), call_id, True), error)
        return Carried(core.carried(_clock.reading(), call_id))

    def status(self, name: str) -> Status:
        try:
            with self._lock:
                row = self._row(self._opened(), name)
            shown = _core.local_shown(row, _clock.boot_us(), *self._here)
        except (sqlite3.Error, ValueError, OSError) as error:
            raise StoreError(error) from error
        return status_of(name, shown, None)

    def list(self, prefix: str) -> Iterator[Status]:
        try:
            with self._lock:
                names = [name for (name,) in self._opened().execute(_LIST, (prefix,))]
        except sqlite3.Error as error:
            raise StoreError(error) from error
        for name in names:
            status = self.status(name)
            if status.held or status.resting:
                yield status

    @staticmethod
    def _row(database: sqlite3.Connection, name: str) -> Any:
        row = database.execute(_READ, (name,)).fetchone()
        return None if row is None else (row[0], bool(row[1]), *row[2:])

    def before_fork(self) -> None:
        """SQLite's connections, and what it knows of their file, must not be there in a child."""
        self._lock.acquire()
        if self._database is not None:
            self._database.close()
            self._database = None

    def forked(self) -> None:
        """In the parent: opened again at the next call."""
        self._lock.release()

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None


_carriers: weakref.WeakSet[_Sqlite] = weakref.WeakSet()
_forking: list[_Sqlite] = []


def _before_fork() -> None:
    _forking[:] = list(_carriers)
    for carrier in _forking:
        carrier.before_fork()


def _forked() -> None:
    for carrier in _forking:
        carrier.forked()


os.register_at_fork(before=_before_fork, after_in_parent=_forked)

_NETWORK = ("nfs", "cifs", "smb", "9p", "ceph", "gluster", "lustre", "afs", "sshfs", "gpfs", "beegfs")


def _refuse_network(path: Path) -> None:
    """File locks of network file systems lie, and other machines would come in."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        folder = str(path.parent.resolve())
    except OSError:
        return
    best, kind = "", ""
    for mount in mounts:
        left, _, right = mount.partition(" - ")
        point = left.split(" ")[4].replace("\\040", " ")
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split(" ")[0]
    if any(name in kind.lower() for name in _NETWORK):
        raise ConfigError("path", f"{str(path)!r} lies on a network file system ({kind})")
