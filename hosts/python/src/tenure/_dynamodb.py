"""DynamoDB, by a boto3 client."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _clock, _core
from ._carrier import Carried
from ._durations import Duration, micros
from ._errors import ConfigError, StoreError
from ._status import Status, status_of
from ._store import Store, StoreOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


def dynamodb(
    client: Any,
    *,
    table: str,
    hash_key: str = "leaseId",
    sort_key: tuple[str, str] | None = None,
    max_clock_skew: Duration | None = None,
    **options: Unpack[StoreOptions],
) -> Store:
    """Leases in a DynamoDB table, by a boto3 client: `boto3.client("dynamodb")`.

    The table has a hash key of type S (`leaseId` unless told otherwise) and maybe a sort key, of
    which every lease has this value: `sort_key=("sk", "lease")`.

    `max_clock_skew` declares by how much the Unix clocks of any two machines may differ. It lets a
    try take a dead holder's lease over at once, instead of watching it for a ttl first, and is needed
    where clients that know only `resourceId` and `leaseExpiration` use the table too. Every process
    should declare the same.
    """
    carrier = _DynamoDb(client, table, hash_key, sort_key, max_clock_skew)
    return Store(carrier, **options)


class _DynamoDb:
    per_claim = False
    patience_fix = (
        "boto3.client('dynamodb', config=botocore.config.Config(connect_timeout=2, read_timeout=2,"
        " retries={'total_max_attempts': 2}))"
    )

    def __init__(
        self,
        client: Any,
        table: str,
        hash_key: str,
        sort_key: tuple[str, str] | None,
        max_clock_skew: Duration | None,
    ) -> None:
        _check_client(client)
        if not table:
            raise ConfigError("table", "must not be empty")
        self._client = client
        self._table = table
        self._hash_key = hash_key
        self._sort_key = sort_key
        self.expiry = "observed" if max_clock_skew is None else "bounded"
        self.max_clock_skew_us = (
            0 if max_clock_skew is None else micros(max_clock_skew, "max_clock_skew")
        )
        self.patience_us, self._tries_once = _patience(client)

    def lease(self, config: _core.Config, name: str, holder: str) -> _core.Lease:
        return _core.Lease.dynamodb(config, name, holder, self._hash_key, self._sort_key)

    def carry(self, core: _core.Lease, call_id: int, request: Any) -> Carried:
        if request is None:
            return Carried(core.unavailable(_clock.reading(), call_id, True), "it cannot be put")
        operation, parameters = request
        try:
            if operation == "UpdateItem":
                reply = self._client.update_item(TableName=self._table, **parameters)
                step = core.item(_clock.reading(), call_id, "applied", reply.get("Attributes"))
            else:
                reply = self._client.get_item(TableName=self._table, **parameters)
                step = core.item(_clock.reading(), call_id, "found", reply.get("Item"))
        except Exception as error:
            return self._failed(core, call_id, error)
        complaint = core.complaint()
        return Carried(step, complaint, _NO_LEASE if complaint else "")

    def _failed(self, core: _core.Lease, call_id: int, error: Exception) -> Carried:
        response: Any = getattr(error, "response", None) or {}
        if "Error" not in response:
            if type(error).__name__ in _NEVER_SENT and self._tries_once:
                return Carried(core.unavailable(_clock.reading(), call_id, False), error)
            if type(error).__name__ in _CANNOT_BE_SENT:
                return Carried(core.unavailable(_clock.reading(), call_id, True), error)
            return Carried(core.unknown(_clock.reading(), call_id), error)
        code = str(response["Error"].get("Code", ""))
        if code == "ConditionalCheckFailedException":
            step = core.item(_clock.reading(), call_id, "refused", response.get("Item"))
            complaint = core.complaint()
            return Carried(step, complaint, _NO_LEASE if complaint else "")
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        step = core.error(_clock.reading(), call_id, code, status)
        return Carried(step, *self._explain(code, error))

    def _explain(self, code: str, error: Exception) -> tuple[Exception, str]:
        if code == "ResourceNotFoundException":
            why = (
                f"{self._table!r} does not exist in this account and region; make one with a hash"
                f" key {self._hash_key!r} of type S (tenure run --create-table does)"
            )
            return _caused(ConfigError("table", why), error), ""
        if code == "ValidationException" and "key" in str(error).lower():
            why = (
                f"{self._table!r} has another key than {self._hash_key!r} of type S"
                f"{' and ' + repr(self._sort_key[0]) if self._sort_key else ''}; say"
                " which with hash_key= and sort_key="
            )
            return _caused(ConfigError("table", why), error), ""
        if code in ("AccessDeniedException", "UnrecognizedClientException"):
            return error, (
                f"allow dynamodb:UpdateItem and dynamodb:GetItem on the table {self._table!r}"
            )
        return error, ""

    def status(self, name: str) -> Status:
        key = {self._hash_key: {"S": name}}
        if self._sort_key is not None:
            key[self._sort_key[0]] = {"S": self._sort_key[1]}
        reply = self._read("get_item", Key=key, ConsistentRead=True)
        return self._status(name, reply.get("Item"))

    def list(self, prefix: str) -> Iterator[Status]:
        parameters: dict[str, Any] = {}
        if prefix:
            parameters = {
                "FilterExpression": "begins_with(#k, :prefix)",
                "ExpressionAttributeNames": {"#k": self._hash_key},
                "ExpressionAttributeValues": {":prefix": {"S": prefix}},
            }
        while True:
            page = self._read("scan", **parameters)
            for item in page.get("Items", ()):
                try:
                    status = self._status(item[self._hash_key]["S"], item)
                except StoreError:
                    # Not a lease: not ours to list.
                    continue
                if status.held or status.resting:
                    yield status
            if "LastEvaluatedKey" not in page:
                return
            parameters["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _status(self, name: str, item: Any) -> Status:
        try:
            shown, raw = _core.dynamodb_shown(
                name, self._hash_key, self._sort_key, item, _clock.wall_us()
            )
        except ValueError as error:
            raise StoreError(f"the row {name!r}: {error}", _NO_LEASE) from None
        return status_of(name, shown, raw)

    def _read(self, operation: str, **parameters: Any) -> Any:
        try:
            return getattr(self._client, operation)(TableName=self._table, **parameters)
        except Exception as error:
            response: Any = getattr(error, "response", None) or {}
            cause, hint = self._explain(str(response.get("Error", {}).get("Code", "")), error)
            if isinstance(cause, ConfigError):
                raise cause from error
            raise StoreError(cause, hint) from error

    def after_fork(self) -> None:
        # botocore opens a connection of its own in the child.
        pass

    def close(self) -> None:
        pass


_NO_LEASE = "a row that is no lease is never a free one"

#: botocore's errors by which no request has left, if it was not tried before.
_NEVER_SENT = ("EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError")
#: And those by which none ever will.
_CANNOT_BE_SENT = (
    "NoCredentialsError",
    "NoRegionError",
    "ParamValidationError",
    "PartialCredentialsError",
)


def _caused(error: ConfigError, cause: Exception) -> ConfigError:
    error.__cause__ = cause
    return error


def _check_client(client: Any) -> None:
    kind = f"{type(client).__module__}.{type(client).__qualname__}"
    update_item = getattr(client, "update_item", None)
    if hasattr(client, "meta") and hasattr(client.meta, "client"):
        raise ConfigError("client", f"is a boto3 resource ({kind}); pass boto3.client('dynamodb')")
    service = getattr(getattr(getattr(client, "meta", None), "service_model", None), "service_name", "")
    if not callable(update_item) or service != "dynamodb":
        raise ConfigError("client", f"must be boto3.client('dynamodb'), not {kind}")
    if inspect.iscoroutinefunction(update_item) or "aiobotocore" in kind + str(type(client).__mro__):
        raise ConfigError("client", f"is for asyncio ({kind}); this store wants boto3's own client")
    if _translates(client):
        raise ConfigError(
            "client", "is that of a boto3 resource, which puts values otherwise; pass boto3.client('dynamodb')"
        )


def _translates(client: Any) -> bool:
    """Whether it takes values of Python instead of DynamoDB's, as the client of a resource does."""
    key = {"name": {"S": "lease"}}
    parameters = {"TableName": "leases", "Key": key.copy()}
    try:
        client.meta.events.emit(
            "before-parameter-build.dynamodb.GetItem",
            params=parameters,
            model=client.meta.service_model.operation_model("GetItem"),
            context={},
        )
    except Exception:
        # A handler of somebody's that wants a real request: nothing is known by that.
        return False
    return parameters["Key"] != key


def _patience(client: Any) -> tuple[int | None, bool]:
    config = client.meta.config
    retries: Any = config.retries or {}
    # `max_attempts` counts the retries, `total_max_attempts` the first try too.
    attempts: int = retries.get("total_max_attempts") or retries.get("max_attempts", 4) + 1
    timeouts = (config.connect_timeout, config.read_timeout)
    if None in timeouts:
        return None, attempts == 1
    return round(max(timeouts) * attempts * 1e6), attempts == 1
