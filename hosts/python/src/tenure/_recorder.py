"""Writes a trace to its file."""

from __future__ import annotations

import os
import threading

from . import _core
from ._errors import ConfigError


class Recorder:
    """A trace, and the file that it goes to."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.trace = _core.Trace()
        self._lock = threading.Lock()
        try:
            # A trace has one beginning; another process must not write into it.
            self._file = open(path, "xb", buffering=0)
        except OSError as error:
            raise ConfigError("trace", f"cannot be written: {error}") from error

    def flush(self) -> None:
        """Writes what was recorded since the last time."""
        with self._lock:
            self._file.write(self.trace.take())
