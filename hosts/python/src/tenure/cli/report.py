"""The `--report`: what happened, for programs. An exit code alone may be the command's own."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import tenure


@dataclass
class Report:
    name: str
    outcome: str = "internal"
    """`exited`, `signaled`, `lost`, `max_runtime`, `busy`, `interrupted` (by a signal, before the command started),
    `not_started` (no such command), `store_unreachable`, `usage`, `config` or `internal`."""
    exit_code: int | None = None
    child_status: int | None = None
    """The command's exit code, or minus the signal it died of; null if it never ran."""
    holder: str | None = None
    """Ours; if busy, the one in the way."""
    fence: int | None = None
    waited_ms: int | None = None
    held_ms: int | None = None
    lost_reason: str | None = None
    released: bool = False
    """The store has confirmed that the name is free again."""


@contextmanager
def reporting(path: str | None, report: Report) -> Generator[None, None, None]:
    """Writes the report at the end, however that comes. Whether it can be written shows before anything is done."""
    if path is None:
        yield
        return
    if path == "-":
        try:
            yield
        finally:
            sys.stdout.write(_line(report))
            sys.stdout.flush()
        return
    try:
        file = open(path, "w", encoding="utf-8")
    except OSError as error:
        raise tenure.ConfigError("--report", f"cannot be written: {error}") from error
    with file:
        try:
            yield
        finally:
            file.write(_line(report))


def _line(report: Report) -> str:
    return json.dumps(asdict(report)) + "\n"
