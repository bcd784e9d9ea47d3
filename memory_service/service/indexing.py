"""The outbox worker: makes the vector indexes agree with the record, one memory or piece of a message at a time.

A line of the outbox says which row to look at, never what to do: the worker reads the row and upserts or deletes. So
it may come late, twice or out of order. A memory that was saved while the embedding model was away gets its vector
here, and goes through the decision table then. Pieces of messages, which have an index of their own, are
`piece_indexing`'s.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from memory_service.domain.model import Head, InvalidReason, Memory, Outcome, ReasonCode, Vector
from memory_service.domain.saving import Prepared, judge
from memory_service.ports import IndexKey, IndexRow, KeyMissing, StoreUnavailable, VectorIndex
from memory_service.record import MemoryRow, Outbox, OutboxItem, Record, VectorKind
from memory_service.service.calls import Caller, Mutation
from memory_service.service.embedding import Embeddings
from memory_service.service.piece_indexing import PieceIndexer, Work
from memory_service.service.tunables import LiveTunables
from memory_service.service.vault import Keyring, Unreadable, UserKey, open_memory
from memory_service.service.writer import HeadMoved, Transaction, Writer
from shared.failpoints import reach

log = logging.getLogger(__name__)

BATCH = 256
PIECES = 64
SECOND = 1_000_000
LEASE = 60 * SECOND
IDLE_SECONDS = 1.0
"""How often the worker looks when nobody wakes it: lines of other replicas, and those put off."""


Look = Callable[[str, Sequence[OutboxItem], Work], Awaitable[None]]
"""Sorts a user's lines by what the rows say now."""


def index_row(key: UserKey, memory: Memory) -> IndexRow:
    """What the index keeps of a memory that has a vector."""
    if memory.vector is None:
        raise ValueError(f"memory {memory.id} has no vector")
    return IndexRow(
        key.user_id, memory.id, key.generation, memory.type, memory.shard, memory.happened_at, memory.vector
    )


class Indexer:
    """Works the outbox off."""

    def __init__(
        self,
        *,
        record: Record,
        outbox: Outbox,
        keyring: Keyring,
        writer: Writer,
        embeddings: Embeddings,
        tunables: LiveTunables,
        index: VectorIndex | None,
        pieces: PieceIndexer,
        wake: asyncio.Event,
    ) -> None:
        self._record = record
        self._outbox = outbox
        self._keyring = keyring
        self._writer = writer
        self._embeddings = embeddings
        self._tunables = tunables
        self._index = index
        self._pieces = pieces
        self._wake = wake

    async def run(self) -> None:
        """Works for ever; what fails is tried again, later each time."""
        while True:
            try:
                busy = await self.step()
            except StoreUnavailable as error:
                log.warning("the outbox waits: %s", error)
                busy = False
            except Exception:
                log.exception("the outbox worker failed and goes on")
                busy = False
            if not busy:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_SECONDS):
                        await self._wake.wait()
                self._wake.clear()

    async def step(self) -> bool:
        """A batch of memories and one of pieces; answers whether there was something to do.

        Memories first, and few pieces at a time: a long message must not hold up what was saved meanwhile.
        """
        memories = await self._batch(VectorKind.MEMORY, BATCH, self._look, self._index)
        pieces = await self._batch(VectorKind.PIECE, PIECES, self._pieces.look, self._pieces.index)
        return memories or pieces

    async def _batch(self, kind: VectorKind, limit: int, look: Look, index: VectorIndex | None) -> bool:
        """Lines of one kind; answers whether there were some, and none that must wait."""
        items = await self._outbox.claim(limit, LEASE, kind)
        if not items:
            return False
        await reach("index.claimed")
        work = Work()
        by_user: defaultdict[str, list[OutboxItem]] = defaultdict(list)
        for item in items:
            by_user[item.user_id].append(item)
        for user_id, lines in by_user.items():
            await look(user_id, lines, work)
        try:
            if index is not None:
                await work.tell(index)
        except StoreUnavailable as error:
            log.warning("vectors wait for the index: %s", error)
            await self._postpone(work.settled)
        else:
            await reach("index.written")
            if work.settled:
                await self._outbox.settle(work.settled)
        await self._postpone(work.waiting)
        return not work.waiting

    async def _postpone(self, items: Sequence[OutboxItem]) -> None:
        by_delay: defaultdict[int, list[OutboxItem]] = defaultdict(list)
        for item in items:
            by_delay[min(2**item.attempts, 30) * SECOND].append(item)
        for delay, some in by_delay.items():
            await self._outbox.postpone(some, delay)

    async def _look(self, user_id: str, lines: Sequence[OutboxItem], work: Work) -> None:
        """Sorts a user's lines by what the rows say now."""
        head = await self._record.head(user_id)
        rows: dict[str, MemoryRow] = {}
        if head is not None:
            found = await self._record.rows(user_id, head.generation, [line.memory_id for line in lines])
            rows = {row.id: row for row in found}
        bare: list[tuple[OutboxItem, Memory]] = []
        for line in lines:
            row = rows.get(line.memory_id)
            if head is None or row is None or row.invalidated_at:
                work.deletes.append(IndexKey(user_id, line.memory_id))
                work.settled.append(line)
                continue
            try:
                key = await self._keyring.get(user_id, head.generation)
                memory = open_memory(key, row)
            except (Unreadable, KeyMissing) as error:
                # One row that does not open must not hold up everybody's vectors.
                log.error("memory %s cannot be indexed: %s", line.memory_id, error)
                work.waiting.append(line)
                continue
            if memory.vector is None or memory.space != head.space:
                bare.append((line, memory))
            else:
                work.upserts[head.space].append(index_row(key, memory))
                work.settled.append(line)
        if head is not None and bare:
            await self._embed(head, bare, work)

    async def _embed(self, head: Head, bare: Sequence[tuple[OutboxItem, Memory]], work: Work) -> None:
        """Gives rows their vectors; each comes back through the outbox, with its vector, to be indexed."""
        memories = [memory for _, memory in bare]
        try:
            vectors = await self._embeddings.passages(head.space, [memory.content for memory in memories])
        except StoreUnavailable as error:
            log.debug("rows wait for their vectors: %s", error)
            work.waiting += [line for line, _ in bare]
            return
        for (line, _), memory, vector in zip(bare, memories, vectors, strict=True):
            try:
                await self._attach(head, memory.id, vector)
            except HeadMoved:
                work.waiting.append(line)
                continue
            if self._index is None:
                # Nothing was enqueued for it then, and nothing is left to do.
                work.settled.append(line)

    async def _attach(self, head: Head, id: str, vector: Vector) -> None:
        """Stores a vector that comes late, and makes up for the comparison that was not made."""
        caller = Caller(head.user_id)
        space = head.space

        async def plan(tx: Transaction) -> Mapping[str, Any]:
            memory = tx.changes.current.memories.get(id)
            if memory is None or memory.space == space:
                return {}
            late = tx.changes.amend(id, {"vector": vector, "space": space})
            policy = self._tunables.now.saving(self._embeddings.space(space), None)
            decision = judge(tx.changes.current, Prepared(late, self._embeddings.cuts(space, late.content)), policy)
            matched = tx.changes.current.memories.get(decision.matched_id or "")
            if matched is not None:
                _compare(tx, late, matched, decision.outcome, decision.code)
            return {}

        await self._writer.run(caller, Mutation("attach"), plan, new_in=space, prepared_for=space)


def _compare(tx: Transaction, late: Memory, matched: Memory, outcome: Outcome, code: ReasonCode) -> None:
    """What the decision table says of a row whose vector came late. Of two that contradict, the later one stays."""
    if outcome is Outcome.DUPLICATE:
        if not late.pinned:
            tx.changes.retire(late.id, InvalidReason.DUPLICATE, superseded_by=matched.id)
    elif outcome is Outcome.REPLACED or code is ReasonCode.OLDER:
        older, newer = (late, matched) if _before(late, matched, code) else (matched, late)
        if older.pinned and not newer.pinned:
            newer = tx.changes.amend(newer.id, {"pinned": True})
        tx.changes.supersede(older.id, newer)


def _before(late: Memory, matched: Memory, code: ReasonCode) -> bool:
    if code is ReasonCode.OLDER:
        return True
    if late.occurred_at is not None and matched.occurred_at is not None:
        return late.occurred_at < matched.occurred_at
    return late.created_at < matched.created_at
