"""Which store a URL means, and what of that URL may be shown.

The clients are made here with the two settings a lease depends on: no reply is awaited longer than a fraction of
the ttl, and the client repeats nothing by itself. A request that a client silently sends again, after its lease
has long been judged, is a request nobody decided to send.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import tenure

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

REDIS_SCHEMES = ("redis", "rediss", "unix")

FORMS = "redis://host:6379/0, rediss://…, unix://…, dynamodb://region/table, sqlite:///path or memory:"

# Without a ttl (a status, a list) there is nothing to be in time for, only somebody who waits.
_PATIENCE = 5.0
_TABLE_SECONDS = 120


def open_store(url: str, *, ttl: float | None = None, create_table: bool = False) -> tenure.Store:
    """The store at `url`. Nothing is sent yet, but for the table when `create_table` asks for one."""
    parts = _split(url)
    if create_table and parts.scheme != "dynamodb":
        raise tenure.ConfigError("--create-table", f"is for DynamoDB only, not for {masked(url)}")
    if parts.scheme in REDIS_SCHEMES:
        return _redis(url, _timeout(ttl))
    if parts.scheme == "dynamodb":
        return _dynamodb(url, parts, _timeout(ttl), create_table)
    if parts.scheme == "sqlite":
        return tenure.sqlite(str(_sqlite_path(url, parts)))
    if parts.scheme == "memory":
        return tenure.memory()
    raise tenure.ConfigError("store", f"must be {FORMS}, not {masked(url)!r}")


def default_url() -> str:
    """A SQLite file of this user on this machine, so that the first lease needs no server."""
    folder = state_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise tenure.ConfigError("store", f"has no default place: {error}") from error
    return f"sqlite:///{folder / 'leases.sqlite'}"


def state_folder() -> Path:
    """Where this user's programs keep what outlives them but is not worth a backup."""
    chosen = os.environ.get("XDG_STATE_HOME", "")
    # The base directory specification says to ignore a relative one.
    if os.path.isabs(chosen):
        return Path(chosen) / "tenure"
    try:
        return Path.home() / ".local" / "state" / "tenure"
    except RuntimeError as error:
        why = "has no default place, as this user has no home; set XDG_STATE_HOME"
        raise tenure.ConfigError("store", why) from error


def masked(url: str) -> str:
    """`url` as it may be printed."""
    # Up to the last `@`: a password that was not percent-encoded may hold any character of a URL's syntax.
    url = re.sub(r"^([^:/?#]+://[^:/?#@]*):.*@", r"\1:***@", url, flags=re.DOTALL)
    return re.sub(r"([?&][^=&]*password[^=&]*=)[^&]*", r"\1***", url, flags=re.IGNORECASE)


def has_password(url: str) -> bool:
    return masked(url) != url


def secrets(url: str) -> list[str]:
    """What must not appear in any message: a client's own error text may quote its address."""
    found = re.findall(r"^[^:/?#]+://[^:/?#@]*:(.*)@", url, flags=re.DOTALL)
    found += re.findall(r"[?&][^=&]*password[^=&]*=([^&]*)", url, flags=re.IGNORECASE)
    return [text for secret in found for text in {secret, unquote(secret)} if text]


def identity(url: str) -> str:
    """The same for two URLs of one store, also if they log in differently; it tells nothing about either."""
    parts = _split(url)
    if parts.scheme in REDIS_SCHEMES:
        query = parse_qs(parts.query)
        if parts.scheme == "unix":
            place = f"unix:{parts.path}/{query.get('db', ['0'])[0]}"
        else:
            database = query.get("db", [parts.path.strip("/") or "0"])[0]
            place = f"redis:{parts.hostname or 'localhost'}:{_port(url, parts) or 6379}/{database}"
    elif parts.scheme == "sqlite":
        place = f"sqlite:{_sqlite_path(url, parts).resolve()}"
    else:
        place = url
    return hashlib.sha256(place.encode()).hexdigest()[:16]


# --- the kinds ------------------------------------------------------------------------------------------------


def _redis(url: str, timeout: float) -> tenure.Store:
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise _missing("redis", "redis") from error
    _port(url, urlsplit(url))
    try:
        client = Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - its options are not typed
            url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=Retry(NoBackoff(), 0)
        )
        return tenure.redis(client)
    except (ValueError, TypeError):
        # Not its text: it may quote the URL, password and all.
        raise tenure.ConfigError("store", f"{masked(url)} is not understood by redis-py") from None


def _dynamodb(url: str, parts: SplitResult, timeout: float, create: bool) -> tenure.Store:
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        raise _missing("boto3", "dynamodb") from error
    table = unquote(parts.path.strip("/"))
    query = parse_qs(parts.query)
    unknown = sorted(query.keys() - {"endpoint"})
    if not table or "/" in table or unknown:
        why = f"must be dynamodb://region/table[?endpoint=http://…], not {masked(url)}"
        raise tenure.ConfigError("store", why)
    settings = Config(connect_timeout=timeout, read_timeout=timeout, retries={"total_max_attempts": 1})
    endpoint = query.get("endpoint", [None])[0]
    try:
        client: DynamoDBClient = boto3.client(  # pyright: ignore[reportUnknownMemberType] - typed for this service only
            "dynamodb", region_name=parts.netloc or None, endpoint_url=endpoint, config=settings
        )
    except (BotoCoreError, ValueError) as error:
        raise tenure.ConfigError("store", f"{masked(url)} cannot be used: {error}") from error
    if create:
        _create_table(client, table)
    return tenure.dynamodb(client, table=table)


def _create_table(client: DynamoDBClient, table: str) -> None:
    """Creates the table unless it exists, and returns when it can be used. Several may do so at once."""
    from botocore.exceptions import BotoCoreError, ClientError, WaiterError

    try:
        try:
            client.create_table(
                TableName=table,
                KeySchema=[{"AttributeName": "leaseId", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "leaseId", "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )
        except client.exceptions.ResourceInUseException:
            pass
        every = 1
        client.get_waiter("table_exists").wait(
            TableName=table, WaiterConfig={"Delay": every, "MaxAttempts": _TABLE_SECONDS // every}
        )
    except WaiterError as error:
        raise tenure.StoreError(error) from error
    except ClientError as error:
        raise tenure.ConfigError("--create-table", f"failed for {table}: {error}") from error
    except BotoCoreError as error:
        raise tenure.StoreError(error) from error


def _sqlite_path(url: str, parts: SplitResult) -> Path:
    # Three slashes and a relative path, four and an absolute one: as everybody knows it from SQLAlchemy.
    path = unquote(parts.path[1:])
    if parts.netloc or parts.query or not path or not url.startswith("sqlite:///"):
        why = f"must be sqlite:///relative/path or sqlite:////absolute/path, not {masked(url)!r}"
        raise tenure.ConfigError("store", why)
    return Path(path)


# --- helpers --------------------------------------------------------------------------------------------------


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise tenure.ConfigError("store", f"must be {FORMS}, not {masked(url)!r}") from None


def _port(url: str, parts: SplitResult) -> int | None:
    try:
        return parts.port
    except ValueError:
        # Its text quotes what it took for the port, which may be a piece of a password.
        why = "has a port that is no number; in a password, / ? # and @ must be percent-encoded"
        raise tenure.ConfigError("store", f"{masked(url)} {why}") from None


def _timeout(ttl: float | None) -> float:
    """Low enough that a request that hangs leaves time for others before the lease ends."""
    if ttl is None or math.isinf(ttl):
        return _PATIENCE
    return max(0.05, min(2.0, ttl / 5))


def _missing(package: str, extra: str) -> tenure.ConfigError:
    return tenure.ConfigError("store", f"needs the package {package}: pip install 'tenure[{extra}]'")
