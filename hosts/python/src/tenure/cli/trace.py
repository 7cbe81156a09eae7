"""`tenure trace show`: what went into the leases of a process, and what that led to."""

from __future__ import annotations

import argparse

import tenure

from .. import _core
from . import exit_codes, messages


def show_trace(options: argparse.Namespace, say: messages.Messages) -> int:
    try:
        with open(options.file, "rb") as file:
            lines, differences = _core.trace_lines(file.read())
    except (OSError, ValueError) as error:
        raise tenure.ConfigError("FILE", f"cannot be shown: {error}") from error
    for line in lines:
        print(line)
    if differences:
        say.error(f"{differences} outputs are not what was recorded")
        return exit_codes.DIFFERENT
    return exit_codes.OK
