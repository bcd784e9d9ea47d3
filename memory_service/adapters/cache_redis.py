"""The cache of active sets on Redis: one hash per user, filled by one conditional script.

Owns the key, the layout of the hash and the translation of the driver's errors. Refuses to own what the values mean
(they are ciphertext) and whether a set is still true: the reader compares (generation, version) with the record.

Layout of `user:memory:cache:v1:{userId}` (literal braces, so that all keys of one user share a slot of Redis Cluster):
one field per memory id, and the fields `generation` and `version`. Works with Redis 6.2 and newer, cluster included.
"""

import asyncio
import contextlib
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisClusterException, RedisError, ResponseError
from redis.maint_notifications import MaintNotificationsConfig

from memory_service.ports import CachedSet, StoreUnavailable

T = TypeVar("T")

_STORE: Final = "cache"
_GENERATION: Final = b"generation"
_VERSION: Final = b"version"
_CONNECTIONS: Final = 64
_MAX_VERSION: Final = 1 << 53  # Lua compares versions as doubles

# KEYS[1]: the hash. ARGV: generation, version, TTL in seconds, then id, value, id, value ... A newer version of the
# same generation stays. The version is written last: a script that is stopped halfway leaves a set that nobody can
# read. HSET goes in pieces because Lua unpacks only some thousand values at once.
_FILL: Final = """
local key = KEYS[1]
if redis.call('TYPE', key).ok == 'hash' and redis.call('HGET', key, 'generation') == ARGV[1] then
  local there = tonumber(redis.call('HGET', key, 'version') or '')
  if there and there > tonumber(ARGV[2]) then return 0 end
end
redis.call('UNLINK', key)
for first = 4, #ARGV, 1000 do
  redis.call('HSET', key, unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
redis.call('HSET', key, 'generation', ARGV[1], 'version', ARGV[2])
redis.call('EXPIRE', key, ARGV[3])
return 1
"""
_FILL_SHA: Final = hashlib.sha1(_FILL.encode(), usedforsecurity=False).hexdigest()


class RedisCache:
    """`SetCache` on Redis. URL: `redis://`, `rediss://` (TLS), or with `+cluster` after the scheme for Redis Cluster.

    A call waits `timeout` seconds at most, for a connection and the answer together. One retry, at once, and only for a
    connection that broke: after a restart of the server the pool's old connections must not fail one call each.
    """

    def __init__(
        self,
        url: str,
        *,
        ttl_seconds: int = 7 * 24 * 3600,
        timeout: float = 0.2,
        cluster: bool = False,
    ) -> None:
        """Connects at the first call."""
        scheme, _, rest = url.partition("://")
        self._timeout = timeout
        self._ttl = ttl_seconds
        options: dict[str, Any] = {
            "decode_responses": False,
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "retry": Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
        }
        self._redis: Redis | RedisCluster
        if cluster or scheme.endswith("+cluster"):
            self._redis = RedisCluster.from_url(f"{scheme.removesuffix('+cluster')}://{rest}", **options)
        else:
            options["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
            pool = BlockingConnectionPool.from_url(url, max_connections=_CONNECTIONS, timeout=timeout, **options)
            self._redis = Redis.from_pool(pool)

    async def load(self, user_id: str) -> CachedSet | None:
        """See `SetCache.load`. What cannot be read is dropped, as far as that works."""
        with contextlib.suppress(_WrongTypeError):
            fields = await self._call(lambda: self._redis.hgetall(_key(user_id)))
            entry = _read(fields)
            if entry is not None or not fields:
                return entry
        with contextlib.suppress(StoreUnavailable):
            await self.drop(user_id)
        return None

    async def fill(self, user_id: str, entry: CachedSet) -> None:
        """See `SetCache.fill`. Raises ValueError for a memory id that is the name of one of our own fields, and for a
        version that is negative or above 2**53.
        """
        if not 0 <= entry.version <= _MAX_VERSION:
            raise ValueError(f"not a version: {entry.version}")
        arguments: list[bytes | str | int] = [entry.generation, entry.version, self._ttl]
        for memory_id, value in entry.values.items():
            if memory_id.encode() in (_GENERATION, _VERSION):
                raise ValueError(f"not a memory id: {memory_id}")
            arguments += (memory_id, value)
        await self._call(lambda: self._fill(_key(user_id), arguments))

    async def _fill(self, key: str, arguments: list[bytes | str | int]) -> None:
        try:
            await self._redis.evalsha(_FILL_SHA, 1, key, *arguments)
        except NoScriptError:  # the first fill since the server started
            await self._redis.eval(_FILL, 1, key, *arguments)

    async def drop(self, user_id: str) -> None:
        """See `SetCache.drop`."""
        await self._call(lambda: self._redis.unlink(_key(user_id)))

    async def ping(self) -> None:
        """See `SetCache.ping`."""
        await self._call(self._redis.ping)

    async def close(self) -> None:
        """See `SetCache.close`."""
        await self._redis.aclose()

    async def _call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Awaits `work()` for at most `timeout`; raises StoreUnavailable."""
        try:
            async with asyncio.timeout(self._timeout):
                return await work()
        except TimeoutError:
            raise StoreUnavailable(_STORE, f"no answer in {self._timeout} s") from None
        except ResponseError as error:
            kind = _WrongTypeError if str(error).startswith("WRONGTYPE") else StoreUnavailable
            raise kind(_STORE, str(error)[:300]) from error
        except (RedisError, RedisClusterException, OSError) as error:  # the second is no kind of the first
            raise StoreUnavailable(_STORE, repr(error)[:300]) from error


class _WrongTypeError(StoreUnavailable):
    """Something that is not a hash has our key."""


def _key(user_id: str) -> str:
    return f"user:memory:cache:v1:{{{user_id}}}"


def _read(fields: Mapping[Any, Any]) -> CachedSet | None:
    """The set that a hash holds, bytes to bytes; None if it is not one that we wrote."""
    own = dict(fields)
    generation, version = own.pop(_GENERATION, None), own.pop(_VERSION, None)
    if generation is None or version is None or not re.fullmatch(rb"[0-9]{1,16}", version):
        return None
    try:
        values = {memory_id.decode(): value for memory_id, value in own.items()}
        return CachedSet(generation.decode(), int(version), values)
    except UnicodeDecodeError:
        return None
