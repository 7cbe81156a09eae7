"""`tenure list`: which names have a record."""

from __future__ import annotations

import argparse

from . import exit_codes, messages, stores
from .status import print_json


def list_(options: argparse.Namespace, say: messages.Messages) -> int:
    with stores.chosen(options, say).open() as store:
        for found in store.list(options.prefix):
            if options.json:
                print_json(found)
            else:
                print(f"{found.name}\t{messages.status(found)}", flush=True)
    return exit_codes.OK
