"""Reading and correcting what is there: get, list, update, invalidate, restore, clear."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from memory_service.domain.model import InvalidReason, Memory, MemoryType, Micros, Outcome, Shard
from memory_service.domain.saving import Draft, Prepared, judge, save
from memory_service.record import Record, RowFilter
from memory_service.service.calls import Caller, Freshness, Mutation
from memory_service.service.embedding import Embeddings
from memory_service.service.remember import Remember, not_active
from memory_service.service.stores import Stores
from memory_service.service.vault import Keyring, open_memory
from memory_service.service.writer import HeadMoved, Plan, Transaction, Writer, Written
from shared.errors import Aborted, FailedPrecondition, NotFound

MAX_CONFLICTS = 5
"""Memories that one RestoreMemory may retire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which memories to list or clear; empty or None = no restriction."""

    types: frozenset[MemoryType] = frozenset()
    shards: frozenset[Shard] = frozenset()
    session_id: str = ""
    created_from: Micros | None = None
    created_until: Micros | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """What to change of a memory. `fields` names which of the values count."""

    id: str
    etag: str
    fields: frozenset[str]
    content: str = ""
    pinned: bool = False
    attributes: Mapping[str, str]
    expires_at: Micros | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curated:
    """What a correction answers."""

    memory: Memory | None
    freshness: Freshness
    superseded_ids: tuple[str, ...] = ()
    evicted_ids: tuple[str, ...] = ()
    index_pending: bool = False


def etag(memory: Memory) -> str:
    """A memory's etag."""
    return str(memory.revision)


class Curate:
    """The use cases on memories that exist."""

    def __init__(
        self,
        *,
        record: Record,
        keyring: Keyring,
        writer: Writer,
        remember: Remember,
        embeddings: Embeddings,
        stores: Stores,
    ) -> None:
        self._record = record
        self._keyring = keyring
        self._writer = writer
        self._remember = remember
        self._embeddings = embeddings
        self._stores = stores

    async def get(self, caller: Caller, id: str) -> Memory:
        """One memory, active or retired. NotFound."""
        head = await self._record.head(caller.user_id)
        rows = await self._record.rows(caller.user_id, head.generation, [id]) if head else []
        if head is None or not rows or not caller.sees(Shard(rows[0].shard)):
            raise not_found(id)
        return open_memory(await self._keyring.get(caller.user_id, head.generation), rows[0])

    async def page(
        self, caller: Caller, which: Selection, active: bool | None, before: str | None, limit: int
    ) -> tuple[list[Memory], Freshness]:
        """Memories by falling id (newest first), below `before`."""
        head = await self._record.head(caller.user_id)
        if head is None:
            return [], Freshness("", 0)
        freshness = Freshness(head.generation, head.version)
        shards = caller.within(which.shards)
        if shards is not None and not shards:
            return [], freshness
        rows_of = RowFilter(
            types=which.types,
            shards=shards or frozenset(),
            session_id=which.session_id,
            active=active,
            created_from=which.created_from,
            created_until=which.created_until,
        )
        rows = await self._record.page(caller.user_id, head.generation, rows_of, before, limit)
        key = await self._keyring.get(caller.user_id, head.generation)
        return [open_memory(key, row) for row in rows], freshness

    async def update(self, caller: Caller, change: Amendment, call: Mutation) -> Curated:
        """Changes a memory; a new content makes a new one that supersedes it."""
        await self._has_memories(caller, change.id)
        if "content" in change.fields:
            return await self._rewrite(caller, change, call)

        async def plan(tx: Transaction) -> Mapping[str, Any]:
            memory = await self._mine(tx, caller, change.id, change.etag)
            if not memory.active:
                raise not_active(memory.id, memory.superseded_by)
            values = {name: getattr(change, name) for name in change.fields}
            values = {name: value for name, value in values.items() if value != getattr(memory, name)}
            if values:
                tx.changes.amend(memory.id, values)
            if values.get("pinned"):
                self._remember.check_pins(tx)
            return {"memories": [memory.id], "id": memory.id}

        return self._curated(await self._writer.run(caller, call, plan, new_in=self._embeddings.current))

    async def _rewrite(self, caller: Caller, change: Amendment, call: Mutation) -> Curated:
        async def plan_in(space: str) -> Plan:
            [vector] = await self._remember.embed(space, [change.content])

            async def plan(tx: Transaction) -> Mapping[str, Any]:
                old = await self._mine(tx, caller, change.id, change.etag)
                if not old.active:
                    raise not_active(old.id, old.superseded_by)
                draft = _successor(old, change)
                prepared = self._remember.prepare(draft, vector, space, tx.key, tx.changes.now)
                # The day or week of the event is the old memory's: the words are corrected, not the event.
                kept = replace(
                    prepared.memory,
                    event_key=old.event_key,
                    time_slice=old.time_slice,
                    content_hash=self._remember.content_hash(tx.key, draft, old.event_key),
                )
                policy = self._remember.policy(caller, space)
                verdict = save(tx.changes, Prepared(kept, prepared.cut, (old.id,), inherits_pin=False), policy)
                self._settle(tx, verdict.memory_id or "", draft, change)
                if draft.pinned and not old.pinned:
                    self._remember.check_pins(tx)
                evicted = await self._remember.evict(caller, tx, policy, verdict.memory_id)
                return {
                    "memories": [verdict.memory_id],
                    "id": verdict.memory_id,
                    "superseded": list(verdict.superseded_ids),
                    "evicted": evicted,
                }

            return plan

        return self._curated(await self._in_space(caller, call, plan_in))

    def _settle(self, tx: Transaction, id: str, draft: Draft, change: Amendment) -> None:
        """Where the new text was there already, the other masked values still have to be set on that memory."""
        if id in tx.changes.inserted:
            return
        memory = tx.changes.current.memories[id]
        values = {name: getattr(draft, name) for name in change.fields - {"content"}}
        values = {name: value for name, value in values.items() if value != getattr(memory, name)}
        if values:
            tx.changes.amend(id, values)

    async def invalidate(self, caller: Caller, id: str, etag_seen: str, call: Mutation) -> Curated:
        """Retires a memory; one that is retired already stays as it is."""
        await self._has_memories(caller, id)

        async def plan(tx: Transaction) -> Mapping[str, Any]:
            memory = await self._mine(tx, caller, id, etag_seen)
            if memory.active:
                tx.changes.retire(id, InvalidReason.INVALIDATED)
            else:
                tx.extra[id] = memory
            return {"memories": [id], "id": id}

        return self._curated(await self._writer.run(caller, call, plan, new_in=self._embeddings.current))

    async def restore(
        self, caller: Caller, id: str, etag_seen: str, retire_conflicting: bool, call: Mutation
    ) -> Curated:
        """Brings a retired memory back through the decision table."""
        memory = await self.get(caller, id)

        async def plan_in(space: str) -> Plan:
            vector = memory.vector if memory.space == space else None
            if vector is None and not memory.active:
                [vector] = await self._remember.embed(space, [memory.content])

            async def plan(tx: Transaction) -> Mapping[str, Any]:
                present = await self._mine(tx, caller, id, etag_seen)
                if present.active:
                    return {"memories": [id], "id": id}
                if present.expired(tx.changes.now):
                    raise FailedPrecondition(f"Memory {id} has expired.", reason="MEMORY_EXPIRED")
                back = replace(present, vector=vector, space=space if vector is not None else None)
                gone = self._make_way(tx, caller, back, space, retire_conflicting)
                tx.changes.revive(back)
                if back.pinned:
                    self._remember.check_pins(tx)
                evicted = await self._remember.evict(caller, tx, self._remember.policy(caller, space), id)
                return {"memories": [id], "id": id, "superseded": gone, "evicted": evicted}

            return plan

        return self._curated(await self._in_space(caller, call, plan_in))

    def _make_way(self, tx: Transaction, caller: Caller, back: Memory, space: str, retire: bool) -> list[str]:
        """Ends the active memories that equal or contradict one that comes back, or names the first in an error."""
        gone: list[str] = []
        policy = self._remember.policy(caller, space)
        while len(gone) < MAX_CONFLICTS:
            prepared = Prepared(back, self._embeddings.cuts(space, back.content))
            decision = judge(tx.changes.current, prepared, policy)
            if decision.matched_id is None or (decision.outcome is Outcome.ADDED and not _is_older(decision)):
                return gone
            if not retire:
                raise FailedPrecondition(
                    # Not the reason: it quotes the memory, and the caller may write without being allowed to read.
                    f"Memory {decision.matched_id} is active and equals or contradicts it.",
                    reason="CONFLICTING_MEMORY",
                    metadata={"conflicting_id": decision.matched_id},
                )
            tx.changes.supersede(decision.matched_id, back)
            gone.append(decision.matched_id)
        return gone

    async def clear(self, caller: Caller, which: Selection, call: Mutation) -> tuple[int, Freshness]:
        """Retires all active memories that match."""

        async def plan(tx: Transaction) -> Mapping[str, Any]:
            ids = [m.id for m in tx.changes.current.memories.values() if _selected(m, caller, which)]
            return {"cleared": tx.changes.retire_all(ids, InvalidReason.CLEARED)}

        if await self._record.head(caller.user_id) is None:
            return 0, Freshness("", 0)
        written = await self._writer.run(caller, call, plan, new_in=self._embeddings.current)
        return int(written.outcome["cleared"]), written.freshness

    async def _in_space(self, caller: Caller, call: Mutation, plan_in: Any) -> Written:
        for _ in range(3):
            head = await self._record.head(caller.user_id)
            space = head.space if head else self._embeddings.current
            try:
                plan = await plan_in(space)
                return await self._writer.run(caller, call, plan, new_in=space, prepared_for=space)
            except HeadMoved:
                continue
        raise Aborted("The embedding model is being changed; try again.", reason="SPACE_MOVED")

    async def _has_memories(self, caller: Caller, id: str) -> None:
        """NotFound where the user has no head: a correction does not make one."""
        if await self._record.head(caller.user_id) is None:
            raise not_found(id)

    async def _mine(self, tx: Transaction, caller: Caller, id: str, etag_seen: str) -> Memory:
        memory = await tx.load(id)
        if memory is None or not caller.sees(memory.shard):
            raise not_found(id)
        if etag_seen and etag_seen != etag(memory):
            raise Aborted(
                f"Memory {id} was changed since etag {etag_seen} was read; read it again.", reason="ETAG_MISMATCH"
            )
        return memory

    def _curated(self, written: Written) -> Curated:
        id = str(written.outcome["id"])
        memory = written.memories.get(id)
        return Curated(
            memory=memory,
            freshness=written.freshness,
            superseded_ids=tuple(written.outcome.get("superseded", ())),
            evicted_ids=tuple(written.outcome.get("evicted", ())),
            index_pending=self._stores.index_down or (memory is not None and memory.active and memory.space is None),
        )


def not_found(id: str) -> NotFound:
    """The error for an id that is not the caller's, whoever's it is."""
    return NotFound(f"There is no memory {id}.", reason="MEMORY_NOT_FOUND")


def _is_older(decision: Any) -> bool:
    return bool(decision.code.name == "OLDER")


def _successor(old: Memory, change: Amendment) -> Draft:
    """The draft of a corrected memory: what the mask does not name is the old one's; its quote proves it no more."""
    fields = change.fields
    return Draft(
        type=old.type,
        content=change.content,
        shard=old.shard,
        attributes=change.attributes if "attributes" in fields else old.attributes,
        source=replace(old.source, quote=""),
        occurred_at=old.occurred_at,
        pinned=change.pinned if "pinned" in fields else old.pinned,
        expires_at=change.expires_at if "expires_at" in fields else old.expires_at,
    )


def _selected(memory: Memory, caller: Caller, which: Selection) -> bool:
    shards = caller.within(which.shards)
    return (
        (not which.types or memory.type in which.types)
        and (shards is None or memory.shard in shards)
        and (not which.session_id or memory.source.session_id == which.session_id)
        and (which.created_from is None or memory.created_at >= which.created_from)
        and (which.created_until is None or memory.created_at < which.created_until)
    )
