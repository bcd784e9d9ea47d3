"""The outbox's part for conversations: gives the pieces of messages their vectors and writes them to their own index.

Owns also what one batch asks of an index (`Work`), for memories and pieces alike. A piece never changes: its row is
there or it is not, with a vector in the user's embedding space or without.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory_service.conversation_ports import Conversations, MessageRow, PieceRow
from memory_service.domain.model import Head, MemoryType, Shard, Vector
from memory_service.ports import IndexKey, IndexRow, KeyMissing, StoreUnavailable, VectorIndex
from memory_service.record import OutboxItem, Record, UserWrite
from memory_service.service.calls import Caller, Mutation
from memory_service.service.embedding import Embeddings
from memory_service.service.turns import open_message, open_piece, seal_piece
from memory_service.service.vault import Keyring, Unreadable, UserKey
from memory_service.service.writer import Writer

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Work:
    """What one batch asks of an index."""

    upserts: defaultdict[str, list[IndexRow]] = field(default_factory=lambda: defaultdict(list))
    """By embedding space."""
    deletes: list[IndexKey] = field(default_factory=list)
    settled: list[OutboxItem] = field(default_factory=list)
    """Lines that need nothing more than the index's part."""
    waiting: list[OutboxItem] = field(default_factory=list)
    """Lines that must wait: their model is away, or their row does not open."""

    async def tell(self, index: VectorIndex) -> None:
        """Does it. What moved to another space goes from the old one. StoreUnavailable."""
        for space, rows in self.upserts.items():
            await index.upsert(space, rows)
        others = await index.spaces() if self.deletes or self.upserts else []
        for space in others:
            moved = [IndexKey(r.user_id, r.memory_id) for s, rows in self.upserts.items() if s != space for r in rows]
            if self.deletes or moved:
                await index.delete(space, [*self.deletes, *moved])


def piece_index_row(row: PieceRow, vector: Vector) -> IndexRow:
    """What the index keeps of a piece; type and shard say nothing there."""
    return IndexRow(row.user_id, row.id, row.generation, MemoryType.CONTEXT, Shard.GENERAL, row.created_at, vector)


class PieceIndexer:
    """Looks after the pieces of messages."""

    def __init__(
        self,
        *,
        record: Record,
        conversations: Conversations,
        keyring: Keyring,
        writer: Writer,
        embeddings: Embeddings,
        index: VectorIndex | None,
    ) -> None:
        self._record = record
        self._conversations = conversations
        self._keyring = keyring
        self._writer = writer
        self._embeddings = embeddings
        self.index = index

    async def look(self, user_id: str, lines: Sequence[OutboxItem], work: Work) -> None:
        """Sorts a user's lines by what the rows say now; pieces without a vector get one."""
        head = await self._record.head(user_id)
        rows: dict[str, tuple[PieceRow, MessageRow]] = {}
        if head is not None:
            ids = [line.memory_id for line in lines]
            found = await self._conversations.pieces(user_id, head.generation, ids)
            rows = {piece.id: (piece, message) for piece, message in found}
        bare: list[tuple[OutboxItem, PieceRow, str]] = []
        for line in lines:
            if head is None or line.memory_id not in rows:
                work.deletes.append(IndexKey(user_id, line.memory_id))
                work.settled.append(line)
                continue
            piece, message = rows[line.memory_id]
            try:
                key = await self._keyring.get(user_id, head.generation)
                vector = open_piece(key, piece) if piece.embedding_space == head.space else None
                if vector is None:
                    bare.append((line, piece, open_message(key, message).content[piece.begins : piece.ends]))
                    continue
            except (Unreadable, KeyMissing) as error:
                log.error("piece %s cannot be indexed: %s", line.memory_id, error)
                work.waiting.append(line)
                continue
            work.upserts[head.space].append(piece_index_row(piece, vector))
            work.settled.append(line)
        if head is not None and bare:
            await self._embed(head, bare, work)

    async def _embed(self, head: Head, bare: Sequence[tuple[OutboxItem, PieceRow, str]], work: Work) -> None:
        try:
            vectors = await self._embeddings.passages(head.space, [text for _, _, text in bare])
        except StoreUnavailable as error:
            log.debug("pieces wait for their vectors: %s", error)
            work.waiting += [line for line, _, _ in bare]
            return
        made = {piece.id: vector for (_, piece, _), vector in zip(bare, vectors, strict=True)}
        if await self._store(head, made):
            work.upserts[head.space] += [piece_index_row(piece, made[piece.id]) for _, piece, _ in bare]
            work.settled += [line for line, _, _ in bare]
        else:
            work.waiting += [line for line, _, _ in bare]

    async def _store(self, head: Head, vectors: Mapping[str, Vector]) -> bool:
        """Stores vectors; False when the user has moved to another generation or space meanwhile."""

        async def store(tx: UserWrite, key: UserKey) -> Mapping[str, Any]:
            moved = (tx.head.generation, tx.head.space) != (head.generation, head.space)
            if not moved:
                sealed = {id: seal_piece(key, id, vector) for id, vector in vectors.items()}
                await tx.conversations.embed(sealed, head.space)
            return {"stored": not moved}

        outcome = await self._writer.beside(
            Caller(head.user_id), Mutation("embed"), store, new_in=self._embeddings.current
        )
        return bool(outcome["stored"])
