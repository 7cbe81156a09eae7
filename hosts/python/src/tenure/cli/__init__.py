"""The command line, `tenure`."""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from collections.abc import Sequence

import tenure

from . import exit_codes, failures
from .arguments import parse
from .messages import Messages


def main(argv: Sequence[str] | None = None) -> int:
    options = parse(sys.argv[1:] if argv is None else argv)
    say = Messages(options.quiet)
    _hear_libraries(say)
    try:
        code: int = options.act(options, say)
        sys.stdout.flush()
        return code
    except tenure.TenureError as error:
        failure = failures.explain(error, say.store)
        say.error(failure.text)
        return failure.code
    except BrokenPipeError:
        # `tenure list | head`: whoever read has enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return exit_codes.SIGNAL + signal.SIGPIPE
    except KeyboardInterrupt:
        return exit_codes.SIGNAL + signal.SIGINT
    except Exception as error:
        say.error(f"internal error: {type(error).__name__}: {error}")
        return exit_codes.INTERNAL


def _hear_libraries(say: Messages) -> None:
    """What they warn of comes as our own lines do: with our name, without secrets, and not with `-q`."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        say.note(str(message))

    warnings.showwarning = show
    logging.getLogger("tenure").addHandler(_Lines(say))
    # Without any handler Python would print what other libraries log.
    logging.getLogger().addHandler(logging.NullHandler())


class _Lines(logging.Handler):
    """Renewals that fail say here why a command is going to be stopped."""

    def __init__(self, say: Messages) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        # That a lease is lost, an error without a traceback, is said where the command is stopped.
        if record.levelno < logging.ERROR or record.exc_info:
            self._say.note(record.getMessage())
