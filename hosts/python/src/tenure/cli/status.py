"""`tenure status`: may this name be had?"""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any

import tenure

from . import exit_codes, messages, stores


def status(options: argparse.Namespace, say: messages.Messages) -> int:
    with stores.chosen(options, say).open() as store:
        found = store.status(options.name)
    if options.json:
        print_json(found)
    else:
        print(f"{found.name} is {messages.status(found)}")
    return exit_codes.FREE if is_free(found) else exit_codes.OK


def is_free(found: tenure.Status) -> bool:
    return not (found.held or found.resting or found.foreign)


def print_json(found: tenure.Status) -> None:
    """One object a line, so that a long list can be read while it comes."""
    sys.stdout.write(json.dumps(as_json(found)) + "\n")


def as_json(found: tenure.Status) -> dict[str, Any]:
    return {
        "name": found.name,
        "held": found.held,
        "holder": found.holder,
        "fence": found.fence,
        "ttl": _number(found.ttl),
        "expires_in": _number(found.expires_in),
        "resting": found.resting,
        "foreign": found.foreign,
    }


def _number(value: float | None) -> float | None:
    # JSON has no infinity; what never ends has no number.
    return None if value is None or math.isinf(value) else value
