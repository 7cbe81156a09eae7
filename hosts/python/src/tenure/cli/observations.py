"""What a short-lived command has seen of other holders, kept for the next one.

A store without a clock of its own, like DynamoDB, gives a dead holder away only by a record that does not change for
a ttl. A cron job with `--wait 0` looks once and is gone: only from run to run can it see that.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import cast

import tenure

from .. import _url

_KEPT_SECONDS = 7 * 24 * 3600
_KEPT_FILES = 4096


class FileObservations:
    """One small file per store and name. Losing any of them costs a later takeover, so no error here is one."""

    def __init__(self, folder: Path, store: str) -> None:
        self._folder = folder
        self._store = store
        self._pruned = False

    def load(self, name: str) -> tenure.Observation | None:
        try:
            content: object = json.loads(self._path(name).read_text())
        except (OSError, ValueError):
            return None
        if not isinstance(content, dict):
            return None
        kept = cast("dict[str, object]", content)
        values = kept.get("observation")
        # Another version of us may have kept other fields: what it meant is not guessed.
        if kept.get("fields") != list(tenure.Observation._fields) or not isinstance(values, list):
            return None
        if kept.get("store") != self._store or kept.get("name") != name:
            return None
        try:
            return tenure.Observation(*values)
        except (TypeError, ValueError):
            return None

    def save(self, name: str, observation: tenure.Observation) -> None:
        content = {
            "store": self._store,
            "name": name,
            "fields": list(tenure.Observation._fields),
            "observation": list(observation),
        }
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._prune()
            # Readable by us only, and whole or not there: two commands may write it at once.
            fd, temporary = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            try:
                with os.fdopen(fd, "w") as file:
                    json.dump(content, file)
                os.replace(temporary, self._path(name))
            except BaseException:
                os.unlink(temporary)
                raise
        except OSError:
            pass

    def forget(self, name: str) -> None:
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError:
            pass

    def _path(self, name: str) -> Path:
        # Names hold any characters, and have any length.
        return self._folder / (hashlib.sha256(f"{self._store}\0{name}".encode()).hexdigest()[:40] + ".json")

    def _prune(self) -> None:
        """Once per process: names that nobody asks for any more, and all beyond a bound, the oldest first."""
        if self._pruned:
            return
        self._pruned = True
        found: list[tuple[float, Path]] = []
        for path in self._folder.iterdir():
            try:
                found.append((path.stat().st_mtime, path))
            except OSError:
                continue
        found.sort(reverse=True)
        for number, (changed, path) in enumerate(found):
            if number >= _KEPT_FILES or changed < time.time() - _KEPT_SECONDS:
                path.unlink(missing_ok=True)


def keep_observations(store: tenure.Store, url: str) -> None:
    try:
        folder = _url.state_folder() / "observations"
    except tenure.ConfigError:
        # No home, no memory: it takes over from a dead holder only while it waits.
        return
    store.observations = FileObservations(folder, _url.identity(url))
