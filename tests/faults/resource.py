"""Guarded rows: a resource that refuses a smaller fence, in the same engine as the leases or in another one.

A row has a fence, a set of elements that a worker reads, adds to and writes back whole, and the list of all
writes in the order in which they were accepted. The condition on the fence and the write are one step. Nothing
but the fence protects the set: there is no version that a write would compare.
"""

from __future__ import annotations

from typing import Any, Protocol

from .history import Effect, Row

ROWS_TABLE = "rows"


class Refused(Exception):
    """The row has a larger fence."""


class Resource(Protocol):
    """Rows of one engine, by one client. Whatever else than `Refused` is raised, the outcome is unknown."""

    def seal(self, name: str, fence: int) -> None:
        """Raises the row's fence."""

    def read(self, name: str) -> list[str]:
        """The elements."""

    def write(self, name: str, fence: int, by: str, elements: list[str], fenced: bool = True) -> None:
        """Replaces the elements, of which the last one is new."""

    def row(self, name: str) -> Row:
        """All of it, for the checker."""


_GUARD = """
local fence, elements, effect, fenced = unpack(ARGV)
-- Numbers below 2^53 are exact, and so are fences, which count microseconds since 1970.
if fenced == '1' and tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') > tonumber(fence) then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', fence)
if effect ~= '' then
  redis.call('HSET', KEYS[1], 'elements', elements)
  redis.call('RPUSH', KEYS[2], effect)
end
return 1
"""


class RedisRows:
    def __init__(self, client: Any) -> None:
        self._client = client

    def seal(self, name: str, fence: int) -> None:
        self._guarded(name, fence, "", "", True)

    def read(self, name: str) -> list[str]:
        found = self._client.hget(f"row:{name}", "elements")
        return found.decode().split() if found else []

    def write(self, name: str, fence: int, by: str, elements: list[str], fenced: bool = True) -> None:
        self._guarded(name, fence, " ".join(elements), _effect(fence, by, elements), fenced)

    def row(self, name: str) -> Row:
        effects = self._client.lrange(f"effects:{name}", 0, -1)
        return _row(name, self.read(name), [effect.decode() for effect in effects])

    def _guarded(self, name: str, fence: int, elements: str, effect: str, fenced: bool) -> None:
        keys = [f"row:{name}", f"effects:{name}"]
        done = self._client.eval(_GUARD, 2, *keys, str(fence), elements, effect, str(int(fenced)))
        if done == 0:
            raise Refused(name)


class DynamoDbRows:
    def __init__(self, client: Any) -> None:
        self._client = client

    def create(self) -> None:
        self._client.create_table(
            TableName=ROWS_TABLE,
            KeySchema=[{"AttributeName": "name", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "name", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )

    def seal(self, name: str, fence: int) -> None:
        self._update(name, True, "SET fence = :fence", {":fence": {"N": str(fence)}})

    def read(self, name: str) -> list[str]:
        return self._item(name).get("elements", {"S": ""})["S"].split()  # type: ignore[no-any-return]

    def write(self, name: str, fence: int, by: str, elements: list[str], fenced: bool = True) -> None:
        values = {
            ":fence": {"N": str(fence)},
            ":elements": {"S": " ".join(elements)},
            ":none": {"L": []},
            ":effect": {"L": [{"S": _effect(fence, by, elements)}]},
        }
        effects = "effects = list_append(if_not_exists(effects, :none), :effect)"
        self._update(name, fenced, f"SET fence = :fence, elements = :elements, {effects}", values)

    def row(self, name: str) -> Row:
        effects = self._item(name).get("effects", {"L": []})["L"]
        return _row(name, self.read(name), [effect["S"] for effect in effects])

    def _item(self, name: str) -> Any:
        reply = self._client.get_item(TableName=ROWS_TABLE, Key={"name": {"S": name}}, ConsistentRead=True)
        return reply.get("Item", {})

    def _update(self, name: str, fenced: bool, expression: str, values: dict[str, Any]) -> None:
        parameters: dict[str, Any] = {
            "TableName": ROWS_TABLE,
            "Key": {"name": {"S": name}},
            "UpdateExpression": expression,
            "ExpressionAttributeValues": values,
        }
        if fenced:
            parameters["ConditionExpression"] = "attribute_not_exists(fence) OR fence <= :fence"
        try:
            self._client.update_item(**parameters)
        except self._client.exceptions.ConditionalCheckFailedException as error:
            raise Refused(name) from error


def _effect(fence: int, by: str, elements: list[str]) -> str:
    return f"{fence} {by} {elements[-1]}"


def _row(name: str, elements: list[str], effects: list[str]) -> Row:
    parts = [effect.split() for effect in effects]
    return Row(frozenset(elements), tuple(Effect(name, int(fence), by, element) for fence, by, element in parts))
