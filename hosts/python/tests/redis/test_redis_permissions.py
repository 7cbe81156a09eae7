"""Users who may not do everything: leases by what they may do, and otherwise a clear error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import tenure
from engine_help import eventually, held
from engines.servers import RedisKind, Server
from redis_help import Stores, single_try

#: With `SET … IFEQ`, by which a lease needs no script.
NATIVE: tuple[RedisKind, ...] = ("redis86", "valkey91")


@pytest.fixture
def user(server: Server, direct: redis.Redis, name: str) -> Iterator[Callable[..., redis.Redis]]:
    """The client of a user with these rules."""
    login = f"user-{name}"

    def make(*rules: str, **options: Any) -> redis.Redis:
        command: Callable[..., object] = direct.execute_command
        command("ACL", "SETUSER", login, "reset", "on", ">secret", *rules)
        return single_try(server.port, username=login, password="secret", **options)

    yield make
    direct.acl_deluser(login)


def _whole_life(stores: Stores, client: redis.Redis, key: str, direct: redis.Redis, fenced: bool) -> None:
    store = stores(client)
    fences: list[int | None] = []
    for _ in range(2):
        lease = store.acquire("a", ttl=1)
        fences.append(lease.fence)
        with pytest.raises(tenure.Busy):
            stores(client).acquire("a", ttl=1)
        lease.renew()
        lease.renew(2)
        assert held(lease) and direct.pttl(key) > 1_000
        lease.release()
        # Without a command that deletes it ends within a millisecond.
        eventually(lambda: direct.exists(key) == 0, within=1)
    if fenced:
        assert None not in fences and fences[0] < fences[1]  # type: ignore[operator]
    else:
        assert fences == [None, None]
    direct.set(key, "theirs")
    with pytest.raises(tenure.Busy):
        store.acquire("a", ttl=1)
    assert direct.get(key) == b"theirs"
    direct.delete(key)


def _nothing_of(direct: redis.Redis, key: str) -> bool:
    return direct.exists(key, key[:-1] + "tenure:fence") == 0


@pytest.mark.parametrize("kind", NATIVE, indirect=True)
@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "decoded"])
def test_issue_no_eval_permission(
    user: Callable[..., redis.Redis], stores: Stores, key: str, direct: redis.Redis, decode: bool
) -> None:
    client = user("~*", "+@all", "-@scripting", decode_responses=decode)
    _whole_life(stores, client, key, direct, fenced=True)


@pytest.mark.parametrize("kind", NATIVE, indirect=True)
@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "decoded"])
def test_a_binary_value_is_in_the_way_of_a_user_without_scripts(
    user: Callable[..., redis.Redis], stores: Stores, key: str, direct: redis.Redis, decode: bool
) -> None:
    store = stores(user("~*", "+@all", "-@scripting", decode_responses=decode))
    direct.set(key, b"\xff\xfe\x00theirs", px=60_000)
    with pytest.raises(tenure.Busy):
        store.acquire("a", ttl=1)
    direct.delete(key)
    with store.lease("a", ttl=1) as lease:
        assert held(lease)


@pytest.mark.parametrize("kind", NATIVE, indirect=True)
def test_a_user_who_may_only_write_has_leases_without_fences(
    user: Callable[..., redis.Redis], stores: Stores, key: str, direct: redis.Redis
) -> None:
    _whole_life(stores, user("%W~*", "+@all"), key, direct, fenced=False)


@pytest.mark.parametrize("kind", NATIVE, indirect=True)
def test_the_least_that_a_user_needs(
    user: Callable[..., redis.Redis], stores: Stores, kind: RedisKind, key: str, direct: redis.Redis
) -> None:
    delete = "+delex" if kind == "redis86" else "+delifeq"
    client = user(f"~{key}", "+set", "+get", "+pttl", delete)
    _whole_life(stores, client, key, direct, fenced=False)


@pytest.mark.parametrize("kind", NATIVE, indirect=True)
def test_a_user_who_may_not_delete_natively(
    user: Callable[..., redis.Redis], stores: Stores, kind: RedisKind, key: str, direct: redis.Redis
) -> None:
    delete = "-delex" if kind == "redis86" else "-delifeq"
    _whole_life(stores, user("~*", "+@all", delete), key, direct, fenced=True)
    # What is left is a write that ends at once.
    _whole_life(stores, user("~*", "+@all", delete, "-@scripting"), key, direct, fenced=True)


def test_a_user_who_may_not_write_the_counter_has_no_fence(
    user: Callable[..., redis.Redis], stores: Stores, kind: RedisKind, key: str, direct: redis.Redis
) -> None:
    """Better a lease without a number than none."""
    _whole_life(stores, user(f"~{key}", "+@all"), key, direct, fenced=False)


@pytest.mark.parametrize(
    "rules",
    [("~*",), ("~other", "+@all"), ("%R~*", "+@all"), ("~*", "+get", "+pttl")],
    ids=["no commands", "other keys", "read only", "reading commands"],
)
def test_a_user_without_permission_is_told_which(
    user: Callable[..., redis.Redis],
    stores: Stores,
    key: str,
    direct: redis.Redis,
    rules: tuple[str, ...],
) -> None:
    store = stores(user(*rules))
    with pytest.raises(tenure.StoreError) as refused:
        store.acquire("a", ttl=1)
    assert not isinstance(refused.value, tenure.OutcomeUnknown)
    assert "+set" in refused.value.hint and isinstance(refused.value.cause, redis.ResponseError)
    assert _nothing_of(direct, key)


def test_a_wrong_password_is_no_free_lease(
    server: Server, stores: Stores, key: str, direct: redis.Redis
) -> None:
    store = stores(single_try(server.port, username="nobody", password="not-this-one"))
    with pytest.raises(tenure.StoreError) as refused:
        store.acquire("a", ttl=1)
    assert "not-this-one" not in str(refused.value)
    assert _nothing_of(direct, key)


def test_a_permission_taken_away_costs_the_lease_at_its_deadline_only(
    user: Callable[..., redis.Redis], stores: Stores, key: str, direct: redis.Redis
) -> None:
    store = stores(user("~*", "+@all"))
    lease = store.acquire("a", ttl=1)
    user("~nothing", "+@all")
    with pytest.raises(tenure.StoreError):
        lease.renew()
    assert held(lease)
    user("~*", "+@all")
    lease.renew()
    assert held(lease)
    lease.release()
    eventually(lambda: direct.exists(key) == 0)
