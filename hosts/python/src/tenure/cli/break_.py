"""`tenure break`: takes a lease from a holder that will not give it back."""

from __future__ import annotations

import argparse
import json

import tenure

from . import exit_codes, messages, stores
from .status import as_json, is_free

_WARNING = (
    "a live holder hears that it has lost it, but not at once. It is only safe if the resource checks fences, "
    "or the holder is known to be dead"
)
_FOREIGN_WARNING = "whoever wrote it need not hear of it. It is only safe if that program is known to be dead"


def break_(options: argparse.Namespace, say: messages.Messages) -> int:
    with stores.chosen(options, say).open() as store:
        before = store.status(options.name)
        if is_free(before):
            say.note(f"{before.name} is free, there is nothing to break")
            _print(options, before, None)
            return exit_codes.OK
        say.note(f"{before.name} is {messages.status(before)}")
        say.note(f"breaking it: {_FOREIGN_WARNING if before.foreign else _WARNING}")
        if not options.yes:
            say.error("nothing is broken yet; add --yes to do it")
            return exit_codes.USAGE
        try:
            # Exactly what was shown: if it has changed since, it is not what the user decided about.
            after = store.break_(before)
        except tenure.Busy as busy:
            say.error(f"not broken, it has changed meanwhile: {messages.busy(busy)}")
            return exit_codes.BUSY
    if not options.json:
        print(f"{after.name} is broken: {messages.status(after)}")
    _print(options, before, after)
    return exit_codes.OK


def _print(options: argparse.Namespace, before: tenure.Status, after: tenure.Status | None) -> None:
    if options.json:
        change = {"broken": after is not None, "before": as_json(before), "after": after and as_json(after)}
        print(json.dumps(change))
