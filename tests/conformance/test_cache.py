"""The SetCache port: one suite for every adapter, then what only Redis can do wrong."""

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from redis import Redis as SyncClient
from redis.asyncio import Redis as Client

from memory_service.adapters.cache_none import NoCache
from memory_service.adapters.cache_redis import RedisCache
from memory_service.ports import CachedSet, SetCache, StoreUnavailable
from tests.servers import Redis

DATABASE = 7
PATIENT_S = 10.0  # for what is not about timeouts, on a busy machine
AWKWARD_VALUES = [b"", b"\x00", b"\r\n$5\r\n", bytes(range(256)), "值".encode(), b"7", os.urandom(1 << 20)]


def url_of(server: Redis) -> str:
    return f"{server.url.rpartition('/')[0]}/{DATABASE}"


def key_of(user: str) -> str:
    return "user:memory:cache:v1:{" + user + "}"


def entry(version: int = 1, generation: str = "g1", **values: bytes) -> CachedSet:
    return CachedSet(generation, version, values)


@pytest.fixture
def user() -> str:
    return f"user/{uuid.uuid4()}"


class ClusterNode(Redis):
    """A Redis Cluster of one node that owns every slot."""

    name = "Redis"

    def _command(self) -> list[str]:
        return [*super()._command(), "--cluster-enabled", "yes"]


@pytest.fixture(scope="module")
def cluster_node() -> Iterator[ClusterNode]:
    with ClusterNode() as node:
        with SyncClient.from_url(node.url) as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            deadline = time.monotonic() + 20
            while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield node


@pytest.fixture(
    params=[
        "none",
        pytest.param("redis", marks=pytest.mark.servers),
        pytest.param("cluster", marks=pytest.mark.servers),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def cache(kind: str, request: pytest.FixtureRequest) -> AsyncIterator[SetCache]:
    built: SetCache
    if kind == "none":
        built = NoCache()
    elif kind == "redis":
        built = RedisCache(url_of(request.getfixturevalue("redis_server")), timeout=PATIENT_S)
    else:
        node = request.getfixturevalue("cluster_node")
        built = RedisCache(node.url.replace("redis://", "redis+cluster://").rpartition("/")[0], timeout=PATIENT_S)
    yield built
    await built.close()


async def holds(cache: SetCache, kind: str, user: str, expected: CachedSet | None) -> None:
    """A cache may forget; what it answers must be `expected`, and one that is meant to remember must answer it."""
    answer = await cache.load(user)
    assert answer == (None if kind == "none" else expected)


async def test_a_set_comes_back_as_it_was(cache: SetCache, kind: str, user: str) -> None:
    assert await cache.load(user) is None
    whole = CachedSet("0f" * 16, 12, {f"id-{number}": value for number, value in enumerate(AWKWARD_VALUES)})
    await cache.fill(user, whole)
    await holds(cache, kind, user, whole)
    assert await cache.load(user + "1") is None
    assert await cache.load(user.upper()) is None


async def test_a_fill_replaces_the_whole_set(cache: SetCache, kind: str, user: str) -> None:
    await cache.fill(user, entry(1, a=b"1", b=b"2"))
    await cache.fill(user, entry(2, b=b"3"))
    await holds(cache, kind, user, entry(2, b=b"3"))
    await cache.fill(user, entry(2, c=b"4"))  # the same version again
    await holds(cache, kind, user, entry(2, c=b"4"))


async def test_an_empty_set_is_a_set(cache: SetCache, kind: str, user: str) -> None:
    await cache.fill(user, entry(1, a=b"1"))
    await cache.fill(user, entry(2))
    await holds(cache, kind, user, entry(2))


async def test_an_older_fill_that_comes_late_changes_nothing(cache: SetCache, kind: str, user: str) -> None:
    await cache.fill(user, entry(10, a=b"new"))
    await cache.fill(user, entry(9, a=b"old", b=b"retired"))
    await holds(cache, kind, user, entry(10, a=b"new"))
    await asyncio.gather(*(cache.fill(user, entry(version, a=b"%d" % version)) for version in (11, 30, 12, 29, 10)))
    await holds(cache, kind, user, entry(30, a=b"30"))


async def test_another_generation_always_replaces(cache: SetCache, kind: str, user: str) -> None:
    await cache.fill(user, entry(10, a=b"of a key that is gone"))
    await cache.fill(user, entry(1, "g2", b=b"new"))
    await holds(cache, kind, user, entry(1, "g2", b=b"new"))


async def test_drop_is_idempotent_and_one_users(cache: SetCache, kind: str, user: str) -> None:
    await cache.fill(user, entry(5, a=b"1"))
    await cache.fill(user + "1", entry(1, b=b"2"))
    await cache.drop(user)
    await cache.drop(user)
    assert await cache.load(user) is None
    await holds(cache, kind, user + "1", entry(1, b=b"2"))
    await cache.fill(user, entry(1, a=b"1"))  # nothing is remembered of the version that was dropped
    await holds(cache, kind, user, entry(1, a=b"1"))


async def test_five_thousand_fields(cache: SetCache, kind: str, user: str) -> None:
    whole = CachedSet("g", 1 << 40, {str(uuid.uuid4()): os.urandom(200) for _ in range(5_000)})
    await cache.fill(user, whole)
    await holds(cache, kind, user, whole)


async def test_a_reader_never_sees_half_a_fill(cache: SetCache, kind: str, user: str) -> None:
    def version_of(version: int) -> CachedSet:
        return CachedSet("g", version, {f"m{number}": b"%d" % version for number in range(1_500)})

    async def write() -> None:
        for version in range(1, 30):
            await cache.fill(user, version_of(version))

    writer = asyncio.create_task(write())
    seen = 0
    while not writer.done():
        if (answer := await cache.load(user)) is not None:
            seen += 1
            assert answer == version_of(answer.version)
        await asyncio.sleep(0)
    await writer
    assert seen > 0 or kind == "none"
    await holds(cache, kind, user, version_of(29))


async def test_cancelled_calls_mix_no_replies_up(cache: SetCache, kind: str, user: str) -> None:
    users = [f"{user}-{number}" for number in range(20)]
    for name in users:
        await cache.fill(name, entry(1, owner=name.encode(), bulk=os.urandom(20_000)))
    for delay in (0.0, 0.0005, 0.001, 0.002, 0.004):
        calls = [asyncio.create_task(cache.load(users[number % 20])) for number in range(100)]
        await asyncio.sleep(delay)
        for call in calls[::2]:
            call.cancel()
        for number, answer in enumerate(await asyncio.gather(*calls, return_exceptions=True)):
            assert answer is None or isinstance(answer, asyncio.CancelledError | CachedSet)
            if isinstance(answer, CachedSet):
                assert answer.values["owner"] == users[number % 20].encode()
    for name in users:
        answer = await cache.load(name)
        assert kind == "none" or (answer is not None and answer.values["owner"] == name.encode())


async def test_ping(cache: SetCache) -> None:
    await cache.ping()


# -- Redis only --------------------------------------------------------------------------------------------------------


@pytest.fixture
async def client(redis_server: Redis) -> AsyncIterator[Client]:
    async with Client.from_url(url_of(redis_server)) as built:
        yield built


@pytest.fixture
async def redis_cache(redis_server: Redis) -> AsyncIterator[RedisCache]:
    built = RedisCache(url_of(redis_server), timeout=PATIENT_S)
    yield built
    await built.close()


async def test_the_hash_is_laid_out_as_documented(redis_cache: RedisCache, client: Client, user: str) -> None:
    await redis_cache.fill(user, entry(3, a=b"1"))
    assert await client.hgetall(key_of(user)) == {b"generation": b"g1", b"version": b"3", b"a": b"1"}
    assert await client.ttl(key_of(user)) in range(7 * 86_400 - 60, 7 * 86_400 + 1)


async def test_every_fill_sets_the_ttl_anew_and_a_refused_one_does_not(
    redis_server: Redis, client: Client, user: str
) -> None:
    cache = RedisCache(url_of(redis_server), ttl_seconds=100, timeout=PATIENT_S)
    await cache.fill(user, entry(3, a=b"1"))
    await client.expire(key_of(user), 10)
    await cache.fill(user, entry(2, a=b"1"))
    assert await client.ttl(key_of(user)) <= 10
    await cache.fill(user, entry(3, a=b"2"))
    assert await client.ttl(key_of(user)) in range(90, 101)
    await client.pexpire(key_of(user), 1)
    await asyncio.sleep(0.05)
    assert await cache.load(user) is None
    await cache.close()


UNREADABLE: dict[str, Callable[[Client, str], Awaitable[object]]] = {
    "a string": lambda client, key: client.set(key, b"value"),
    "a list": lambda client, key: client.rpush(key, b"value"),
    "no version": lambda client, key: client.hset(key, mapping={"generation": "g1", "a": b"1"}),
    "no generation": lambda client, key: client.hset(key, mapping={"version": "1", "a": b"1"}),
    "a version in words": lambda client, key: client.hset(key, mapping={"generation": "g1", "version": "one"}),
    "an empty version": lambda client, key: client.hset(key, mapping={"generation": "g1", "version": ""}),
    "a negative version": lambda client, key: client.hset(key, mapping={"generation": "g1", "version": "-1"}),
    "a version of Arabic digits": lambda client, key: client.hset(key, mapping={"generation": "g1", "version": "١"}),
    "a generation that is no text": lambda client, key: client.hset(
        key, mapping={b"generation": b"\xff", b"version": b"1"}
    ),
    "an id that is no text": lambda client, key: client.hset(
        key, mapping={b"generation": b"g1", b"version": b"1", b"\xff": b"1"}
    ),
}


@pytest.mark.parametrize("what", UNREADABLE)
async def test_what_cannot_be_read_is_a_miss_and_goes(
    redis_cache: RedisCache, client: Client, user: str, what: str
) -> None:
    await UNREADABLE[what](client, key_of(user))
    assert await redis_cache.load(user) is None
    assert await client.exists(key_of(user)) == 0
    await UNREADABLE[what](client, key_of(user))
    await redis_cache.fill(user, entry(1, a=b"1"))
    assert await redis_cache.load(user) == entry(1, a=b"1")
    await UNREADABLE["a string"](client, key_of(user))
    await redis_cache.drop(user)
    assert await client.exists(key_of(user)) == 0


@pytest.mark.parametrize(
    "wrong",
    [entry(-1), entry(1 << 54), CachedSet("g1", 1, {"version": b"2"}), CachedSet("g1", 1, {"generation": b"g2"})],
)
async def test_what_could_not_be_read_back_is_refused(redis_cache: RedisCache, user: str, wrong: CachedSet) -> None:
    with pytest.raises(ValueError, match="not a"):
        await redis_cache.fill(user, wrong)
    assert await redis_cache.load(user) is None


async def test_a_server_that_forgot_the_script_is_told_again(
    redis_cache: RedisCache, client: Client, user: str
) -> None:
    await redis_cache.fill(user, entry(1, a=b"1"))
    await client.script_flush()
    await redis_cache.fill(user, entry(2, a=b"2"))
    assert await redis_cache.load(user) == entry(2, a=b"2")


async def test_more_callers_than_connections_wait(redis_cache: RedisCache, user: str) -> None:
    await redis_cache.fill(user, entry(1, a=b"1"))
    answers = await asyncio.gather(*(redis_cache.load(user) for _ in range(500)))
    assert answers == [entry(1, a=b"1")] * 500


async def test_a_server_that_does_not_answer_is_unavailable_soon_and_comes_back(redis_server: Redis, user: str) -> None:
    hasty = RedisCache(url_of(redis_server), timeout=0.2)
    try:
        await hasty.fill(user, entry(1, a=b"1"))
        for away, back in ((redis_server.pause, redis_server.resume), (redis_server.kill, redis_server.start)):
            await asyncio.to_thread(away)
            started = time.monotonic()
            try:
                for call in (hasty.load(user), hasty.fill(user, entry(2)), hasty.drop(user), hasty.ping()):
                    with pytest.raises(StoreUnavailable) as caught:
                        await call
                    assert caught.value.store == "cache"
                assert time.monotonic() - started < 2.6  # what the driver's own retries took for one call
            finally:
                await asyncio.to_thread(back)
            await recovered(hasty, user)
            await hasty.fill(user, entry(3, a=b"1"))
            assert await hasty.load(user) == entry(3, a=b"1")
            await hasty.drop(user)
    finally:
        await hasty.close()


async def test_a_cluster_that_was_away_comes_back(cluster_node: ClusterNode, user: str) -> None:
    cache = RedisCache(cluster_node.url.rpartition("/")[0], cluster=True, timeout=1.0)
    await cache.fill(user, entry(1, a=b"1"))
    await asyncio.to_thread(cluster_node.kill)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await cache.load(user)
    await asyncio.to_thread(cluster_node.start)
    await recovered(cache, user)
    await cache.fill(user, entry(2, a=b"1"))
    assert await cache.load(user) == entry(2, a=b"1")
    await cache.close()


async def recovered(cache: SetCache, user: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            await cache.load(user)
            return
        except StoreUnavailable:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)


async def test_a_restart_costs_no_call(redis_server: Redis, user: str) -> None:
    """Connections of the pool that broke meanwhile are replaced within the call that meets them."""
    cache = RedisCache(url_of(redis_server), timeout=PATIENT_S)
    await asyncio.gather(*(cache.ping() for _ in range(20)))
    await asyncio.to_thread(redis_server.restart)
    assert await asyncio.gather(*(cache.load(user) for _ in range(40))) == [None] * 40
    await cache.close()


async def test_nobody_listening_and_a_wrong_password_are_unavailable(redis_server: Redis, free_port: int) -> None:
    for url in (f"redis://127.0.0.1:{free_port}/0", f"redis://nobody:wrong@127.0.0.1:{redis_server.port}/0"):
        cache = RedisCache(url, timeout=2.0)
        with pytest.raises(StoreUnavailable) as caught:
            await cache.load("user")
        assert caught.value.store == "cache"
        await cache.close()
    cluster = RedisCache(f"redis+cluster://127.0.0.1:{free_port}", timeout=2.0)
    with pytest.raises(StoreUnavailable):
        await cluster.load("user")
    await cluster.close()
