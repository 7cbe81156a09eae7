"""Which store a command line means: `--store`, `--store-file`, `$TENURE_STORE` or this machine's own."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

import tenure

from .. import _url
from . import environment
from .messages import Messages
from .observations import keep_observations


@dataclass(frozen=True)
class Place:
    url: str
    create_table: bool

    def open(self, ttl: float | None = None) -> tenure.Store:
        store = _url.open_store(self.url, ttl=ttl, create_table=self.create_table)
        keep_observations(store, self.url)
        return store


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("store", f"One of {_url.FORMS}")
    one = group.add_mutually_exclusive_group()
    one.add_argument(
        "--store",
        metavar="URL",
        help="where leases are kept: sqlite:///relative/path, sqlite:////absolute/path, "
        "dynamodb://region/table[?endpoint=http://…], any URL of redis-py. Default: $TENURE_STORE, or a SQLite file "
        "of this user on this machine",
    )
    one.add_argument(
        "--store-file",
        metavar="FILE",
        help="a file with that URL. For one with a password: `ps` shows arguments to everybody, and the command "
        "does not get a $TENURE_STORE that has one",
    )
    group.add_argument("--create-table", action="store_true", help="create the DynamoDB table if it is missing")


def chosen(options: argparse.Namespace, say: Messages) -> Place:
    url = _chosen_url(options, say)
    say.hide(_url.secrets(url))
    say.store = _url.masked(url)
    return Place(url, options.create_table)


def _chosen_url(options: argparse.Namespace, say: Messages) -> str:
    if options.store is not None:
        url: str = options.store
        if _url.has_password(url):
            say.error("--store has a password, which `ps` shows to everybody; use --store-file or $TENURE_STORE")
        return url
    if options.store_file is not None:
        try:
            url = Path(options.store_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            raise tenure.ConfigError("--store-file", f"cannot be read: {error}") from error
        if not url or "\n" in url:
            raise tenure.ConfigError("--store-file", "must have one line, the store's URL")
        return url
    return os.environ.get(environment.STORE) or _url.default_url()
