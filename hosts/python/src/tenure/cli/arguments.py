"""The words of the command line and what they may be."""

from __future__ import annotations

import argparse
import importlib.metadata
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import tenure

from .._durations import parse as parse_duration
from . import exit_codes, stores
from .break_ import break_
from .list_ import list_
from .messages import Messages
from .run import run
from .status import status
from .trace import show_trace

Command = Callable[[argparse.Namespace, Messages], int]

_EXAMPLES = """\
examples:
  tenure run nightly-report --ttl 30s -- ./report.sh
      The first lease needs no server: it is kept in a file of this machine.
  tenure run nightly-report --ttl 30s --min-hold 1m --skip-ok --store redis://cache.internal/0 -- ./report.sh
      From cron on many machines: one of them runs it, the others exit with 0.
  tenure run migrate --ttl 30s --wait 10m --store dynamodb://eu-central-1/leases -- ./migrate.sh
      Waits up to ten minutes for whoever migrates now.
  tenure status nightly-report; tenure list --json; tenure break nightly-report --yes

exit codes of run: the command's own, or
  75 busy    123 lease lost, command stopped    124 maximum runtime    128+n the command died of signal n
  64 usage   69 store unreachable               78 configuration       125 internal error
  126 cannot be executed                        127 not found
"""

_RUN_NOTES = """\
The command is one process group. It is stopped before the lease can end: TERM, and KILL after the grace or a moment
before the end. The lease is released when all of the group is dead. If tenure itself is killed, the group is killed
too. What leaves the group (a daemon) is not watched: let the resource check $TENURE_FENCE.

The command finds TENURE_NAME, TENURE_FENCE, TENURE_HOLDER, TENURE_TTL_MS and TENURE_ACQUIRED_UNIX_MS in its
environment. Durations need a unit: 500ms, 30s, 1m30s, 1h.

exit codes: the command's own, or
  75 busy    123 lease lost, command stopped    124 maximum runtime    128+n the command died of signal n
  64 usage   69 store unreachable               78 configuration       125 internal error
  126 cannot be executed                        127 not found
  130 interrupted while waiting

--report: outcome (exited, signaled, busy, lost, interrupted, …), child_status, exit_code, fence, holder, waited_ms,
held_ms, released, lost_reason.
"""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """All options, with the function to call as `act`. Exits by itself if they are not valid, or ask for help."""
    words = list(argv)
    command: list[str] | None = None
    # Not left to argparse, which would take options of the command for ours.
    if words[:1] == ["run"] and "--" in words:
        at = words.index("--")
        words, command = words[:at], words[at + 1 :]
    parser = _parser()
    options, unknown = parser.parse_known_args(words)
    if unknown:
        if options.act is run and command is None and not unknown[0].startswith("-"):
            parser.error("put -- before the command: tenure run NAME --ttl 30s -- COMMAND")
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if options.act is None:
        parser.print_help(sys.stderr)
        parser.exit(exit_codes.USAGE)
    if options.act is run:
        options.command = command
        _check_run(options, parser)
    return options


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(exit_codes.USAGE, f"tenure: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tenure",
        description="Runs a command while nobody else does: a lease with a ttl, renewed while the command runs.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tenure {importlib.metadata.version('tenure')}")
    parser.set_defaults(act=None, quiet=False)
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)

    def command(name: str, act: Command, says: str) -> _Parser:
        new = commands.add_parser(name, help=says, description=says[0].upper() + says[1:] + ".", allow_abbrev=False)
        new.set_defaults(act=act)
        stores.add_options(new)
        return new

    _run_options(command("run", run, "run a command under a lease"))

    one = command("status", status, "show who holds a name; exit 0 if it cannot be had, 3 if it is free")
    one.add_argument("name", metavar="NAME")
    one.add_argument("--json", action="store_true", help="one JSON object")

    many = command("list", list_, "show all names with a record")
    many.add_argument("prefix", metavar="PREFIX", nargs="?", default="")
    many.add_argument("--json", action="store_true", help="one JSON object a line")

    broken = command("break", break_, "free a name whose holder will not: a new record with the next fence")
    broken.add_argument("name", metavar="NAME")
    broken.add_argument("--yes", action="store_true", help="do it; without, only what would be broken is shown")
    broken.add_argument("--json", action="store_true", help="one JSON object")

    _trace_commands(commands)
    return parser


def _trace_commands(commands: Any) -> None:
    """These read a file, and no store."""
    traces = commands.add_parser("trace", help="read what a store recorded with trace=", allow_abbrev=False)
    kinds = traces.add_subparsers(metavar="COMMAND", parser_class=_Parser, required=True)
    show = kinds.add_parser(
        "show",
        help="print a trace as a timeline, and replay it",
        description="Prints a trace as a timeline, and replays it; exit 1 if that gives something else than was recorded.",
        allow_abbrev=False,
    )
    show.set_defaults(act=show_trace)
    show.add_argument("file", metavar="FILE")


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tenure run NAME --ttl 30s [options] -- COMMAND [ARGUMENT…]"
    parser.epilog = _RUN_NOTES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("name", metavar="NAME")
    add("--ttl", type=_duration_or_forever, required=True, metavar="TIME", help="how long a dead holder keeps the name")
    add(
        "--wait",
        type=_wait,
        default=0.0,
        metavar="TIME",
        help="how long to wait if somebody holds it: 0 (default), a time, or forever",
    )
    add("--grace", type=_duration, metavar="TIME", help="between TERM and KILL (default 5s, at most ttl/4)")
    add("--max-runtime", type=_duration, default=math.inf, metavar="TIME", help="stop the command after it, exit 124")
    add(
        "--min-hold",
        type=_duration_or_zero,
        default=0.0,
        metavar="TIME",
        help="keep the name at least that long, so that a late clock elsewhere does not run the same job again",
    )
    add("-E", "--busy-exit", type=_exit_code, default=exit_codes.BUSY, metavar="N", help="instead of 75")
    add("--skip-ok", action="store_true", help="exit 0 if it is busy")
    add("--lost-exit", type=_exit_code, default=exit_codes.LOST, metavar="N", help="instead of 123")
    add("--report", metavar="FILE", help="write one JSON object about what happened; - is stdout")
    add("-q", "--quiet", action="store_true", help="print errors only")


def _check_run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if not options.command:
        parser.error("put -- and a command after the options: tenure run NAME --ttl 30s -- COMMAND")
    if options.grace is None:
        options.grace = min(5.0, options.ttl / 4)
    elif options.grace >= options.ttl / 2:
        # TERM must not come before a renewal had its chance, and a second one if the first fails.
        parser.error("--grace must be less than half of --ttl, else there is no time to renew")


# --- types ----------------------------------------------------------------------------------------------------


def _duration(text: str) -> float:
    seconds = _duration_or_zero(text)
    if seconds == 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return seconds


def _duration_or_zero(text: str) -> float:
    # Nothing is nothing in every unit.
    if text.strip() == "0":
        return 0.0
    try:
        return parse_duration(text)
    except tenure.ConfigError as error:
        raise argparse.ArgumentTypeError(error.why) from error


def _duration_or_forever(text: str) -> float:
    return math.inf if text == "forever" else _duration(text)


def _wait(text: str) -> float:
    return math.inf if text == "forever" else _duration_or_zero(text)


def _exit_code(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 255:
        raise argparse.ArgumentTypeError(f"{text!r} is no exit code from 0 to 255")
    return int(text)
