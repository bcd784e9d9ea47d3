"""Where active sets come from: this process, the cache, the record; in this order, and none believed without a check.

The check is (generation, version) of the head, read from the record for every call: a lost invalidation can therefore
never serve a stale memory. What this process holds is brought up to date by the rows that changed since (their
revision); a set that was not checked for an hour is read anew, so that rows purged meanwhile cannot live on in it.
"""

import asyncio
import logging
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import numpy as np

from memory_service.domain.active_set import ActiveSet
from memory_service.domain.model import Head, Memory, MemoryType, Shard, Source
from memory_service.ports import CachedSet, Clock, SetCache, StoreUnavailable
from memory_service.record import MemoryRow, Record
from memory_service.service.vault import Unreadable, UserKey, open_memory

log = logging.getLogger(__name__)
Rows = Callable[[int | None], Awaitable[list[MemoryRow]]]

CODEC = 1
"""Form of a cached value; one of another form is a miss."""
KEEP_UNCHECKED = 3600 * 1_000_000
"""Microseconds after which a set that nobody asked for is not brought up to date but read anew."""


class ActiveSets:
    """Active sets of users, kept within `max_bytes`."""

    def __init__(self, record: Record, cache: SetCache, clock: Clock, *, max_bytes: int) -> None:
        self._record = record
        self._cache = cache
        self._clock = clock
        self._max_bytes = max_bytes
        self._bytes = 0
        self._sets: OrderedDict[str, tuple[ActiveSet, int]] = OrderedDict()
        self._loading: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def read(self, head: Head, key: UserKey) -> ActiveSet:
        """The set at this version or a later one, for a recall. Concurrent calls for one user load it once."""
        held = self._held(head)
        if held is not None and _serves(held, head):
            return held
        lock = self._loading.setdefault(head.user_id, asyncio.Lock())
        async with lock:
            held = self._held(head)
            if held is not None and _serves(held, head):
                return held

            def rows(since: int | None) -> Awaitable[list[MemoryRow]]:
                return self._record.active_rows(head.user_id, head.generation, since)

            if held is not None:
                return self.put(head.user_id, await _follow(held, head, key, rows))
            cached = await self._from_cache(head, key)
            if cached is not None:
                return self.put(head.user_id, cached)
            loaded = await _load(head, key, rows)
            await self._fill(head, key, loaded)
            return self.put(head.user_id, loaded)

    async def under_lock(self, head: Head, key: UserKey, rows: Rows) -> ActiveSet:
        """The set at exactly this version, for a write that holds the head; `rows` reads on its connection.

        Waits for no other reader: those may wait for a connection, and this call holds one.
        """
        held = self._held(head)
        if held is None or held.version > head.version:
            return await _load(head, key, rows)
        return held if held.version == head.version else await _follow(held, head, key, rows)

    def put(self, user_id: str, active: ActiveSet) -> ActiveSet:
        """Keeps a set, unless a newer one of its generation is held."""
        held = self._sets.pop(user_id, None)
        if held is not None:
            self._bytes -= held[0].size_bytes
            if held[0].generation == active.generation and held[0].version > active.version:
                active = held[0]
        self._sets[user_id] = (active, self._clock())
        self._bytes += active.size_bytes
        while self._bytes > self._max_bytes and len(self._sets) > 1:
            _, (dropped, _) = self._sets.popitem(last=False)
            self._bytes -= dropped.size_bytes
        return active

    async def changed(self, user_id: str) -> None:
        """Drops the cached set after a change. If the cache misses that, its version does not fit any more."""
        try:
            await self._cache.drop(user_id)
        except StoreUnavailable as error:
            log.debug("the cache was not told of a change: %s", error)

    def _held(self, head: Head) -> ActiveSet | None:
        """What this process holds and can be used as it is or brought up to date."""
        entry = self._sets.get(head.user_id)
        if entry is None:
            return None
        active, checked = entry
        usable = (
            active.generation == head.generation
            and active.space == head.space
            and active.version >= head.reset_version
            and self._clock() - checked < KEEP_UNCHECKED
        )
        if not usable:
            return None
        self._sets[head.user_id] = (active, self._clock())
        self._sets.move_to_end(head.user_id)
        return active

    async def _from_cache(self, head: Head, key: UserKey) -> ActiveSet | None:
        try:
            cached = await self._cache.load(head.user_id)
        except StoreUnavailable as error:
            log.debug("the cache was not read: %s", error)
            return None
        if cached is None or (cached.generation, cached.version) != (head.generation, head.version):
            return None
        try:
            memories = [_decode(key, id, value) for id, value in cached.values.items()]
        except (Unreadable, msgspec.MsgspecError, ValueError) as error:
            log.warning("a cached set is not readable and is read anew: %s", error)
            return None
        return ActiveSet.of(memories, generation=head.generation, version=head.version, space=head.space)

    async def _fill(self, head: Head, key: UserKey, active: ActiveSet) -> None:
        values = {id: _encode(key, memory) for id, memory in active.memories.items()}
        try:
            await self._cache.fill(head.user_id, CachedSet(head.generation, head.version, values))
        except StoreUnavailable as error:
            log.debug("the cache was not filled: %s", error)


def _serves(active: ActiveSet, head: Head) -> bool:
    """A set newer than the head that was read is as good: this process has seen a later commit."""
    return active.version >= head.version


async def _load(head: Head, key: UserKey, rows: Rows) -> ActiveSet:
    memories = [open_memory(key, row) for row in await rows(None)]
    return ActiveSet.of(memories, generation=head.generation, version=head.version, space=head.space)


async def _follow(held: ActiveSet, head: Head, key: UserKey, rows: Rows) -> ActiveSet:
    changed = [open_memory(key, row) for row in await rows(held.version)]
    return held.changed(changed, version=head.version)


def _encode(key: UserKey, memory: Memory) -> bytes:
    """A memory without its counters, packed and sealed: one ciphertext, one opening."""
    source = memory.source
    vector = b"" if memory.vector is None else memory.vector.astype("<f4").tobytes()
    fields: list[Any] = [
        CODEC,
        int(memory.type),
        int(memory.shard),
        memory.content,
        memory.created_at,
        memory.valid_from,
        memory.content_hash,
        memory.revision,
        memory.event_key,
        memory.time_slice,
        dict(memory.attributes),
        [source.session_id, source.message_id, source.quote, source.role, source.channel],
        memory.occurred_at,
        memory.pinned,
        memory.expires_at,
        memory.space,
        vector,
    ]
    return key.seal(memory.id, "cache", msgspec.msgpack.encode(fields))


def _decode(key: UserKey, id: str, value: bytes) -> Memory:
    fields = msgspec.msgpack.decode(key.open(id, "cache", value))
    if fields[0] != CODEC:
        raise ValueError(f"form {fields[0]}")
    _, type, shard, content, created, valid, content_hash, revision, event, slice_, attributes, source, *rest = fields
    occurred, pinned, expires, space, vector = rest
    return Memory(
        id=id,
        type=MemoryType(type),
        shard=Shard(shard),
        content=content,
        created_at=created,
        valid_from=valid,
        content_hash=content_hash,
        revision=revision,
        event_key=event,
        time_slice=slice_,
        attributes=attributes,
        source=Source(*source),
        occurred_at=occurred,
        pinned=pinned,
        expires_at=expires,
        space=space,
        vector=np.frombuffer(vector, dtype="<f4") if vector else None,
    )
