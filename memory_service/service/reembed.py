"""Moving a user to another embedding space.

All vectors of a user, of memories and of pieces of messages, change in one transaction with the head: before it every
draft and query uses the old model, after it the new one, and no two spaces ever meet. The slow part, embedding, is done
before the head is taken.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from memory_service.conversation_ports import Conversations
from memory_service.domain.model import Head, Vector
from memory_service.ports import StoreUnavailable
from memory_service.record import MemoryRow, Record, UserWrite
from memory_service.service.active import ActiveSets
from memory_service.service.embedding import Embeddings
from memory_service.service.turns import open_message, seal_piece
from memory_service.service.vault import Keyring, UserKey, open_memory, seal_vector
from memory_service.service.writer import Writer

log = logging.getLogger(__name__)

BATCH = 64
ATTEMPTS = 10
FLIP_SECONDS = 120.0
"""Longest the transaction may hold one user's head: about 10,000 rows at 5 ms, doubled."""


class Reembed:
    """Re-embeds users."""

    def __init__(
        self,
        *,
        record: Record,
        conversations: Conversations,
        keyring: Keyring,
        writer: Writer,
        active: ActiveSets,
        embeddings: Embeddings,
    ) -> None:
        self._record = record
        self._conversations = conversations
        self._keyring = keyring
        self._writer = writer
        self._active = active
        self._embeddings = embeddings

    async def move(self, user_id: str) -> int:
        """Moves a user to the current space; answers how many vectors changed. StoreUnavailable("embedding")."""
        vectors: dict[str, Vector] = {}
        for _ in range(ATTEMPTS):
            head = await self._record.head(user_id)
            if head is None or head.space == self._embeddings.current:
                return 0
            key = await self._keyring.get(user_id, head.generation)
            rows = await self._record.active_rows(user_id, head.generation)
            await self._embed(key, [row for row in rows if row.id not in vectors], vectors)
            await self._embed_pieces(head, key, vectors)
            moved = await self._flip(head, key, vectors)
            if moved is not None:
                await self._active.changed(user_id)
                return moved
        raise StoreUnavailable("embedding", "the user's memories changed faster than they could be embedded")

    async def _embed(self, key: UserKey, rows: Sequence[MemoryRow], vectors: dict[str, Vector]) -> None:
        for start in range(0, len(rows), BATCH):
            some = rows[start : start + BATCH]
            texts = [open_memory(key, row).content for row in some]
            found = await self._embeddings.passages(self._embeddings.current, texts)
            vectors.update(zip((row.id for row in some), found, strict=True))

    async def _embed_pieces(self, head: Head, key: UserKey, vectors: dict[str, Vector]) -> None:
        ids = [id for id in await self._conversations.piece_ids(head.user_id, head.generation) if id not in vectors]
        for start in range(0, len(ids), BATCH):
            found = await self._conversations.pieces(head.user_id, head.generation, ids[start : start + BATCH])
            texts = [open_message(key, message).content[piece.begins : piece.ends] for piece, message in found]
            made = await self._embeddings.passages(self._embeddings.current, texts)
            vectors.update(zip((piece.id for piece, _ in found), made, strict=True))

    async def _flip(self, head: Head, key: UserKey, vectors: dict[str, Vector]) -> int | None:
        """Writes all vectors and the head's space at once; None when a memory came meanwhile that has none yet."""
        space = self._embeddings.current

        async def work(tx: UserWrite) -> int | None:
            if tx.head.generation != head.generation or tx.head.space != head.space:
                return None
            rows = await tx.active_rows()
            pieces = await tx.conversations.piece_ids()
            if any(id not in vectors for id in [*(row.id for row in rows), *pieces]):
                return None
            version = tx.head.version + 1
            for row in rows:
                memory = replace(open_memory(key, row), vector=vectors[row.id], space=space)
                await tx.amend(row.id, version, seal_vector(key, memory))
            await tx.enqueue([row.id for row in rows])
            await tx.conversations.embed({id: seal_piece(key, id, vectors[id]) for id in pieces}, space)
            await tx.conversations.enqueue(pieces)
            await tx.set_head(version=version, space=space, reset=True)
            return len(rows) + len(pieces)

        async with self._writer.turn(head.user_id):
            return await self._record.write(head, work, seconds=FLIP_SECONDS)
