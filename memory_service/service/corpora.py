"""What has vectors: the memories, and the pieces of messages; each with its rows in the record and an index of its own.

Owns what rebuilding and reconciling need to know of either. Refuses to walk: `work` does.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from memory_service.conversation_ports import PieceRow, PieceUpkeep
from memory_service.ports import IndexRow, KeyMissing, VectorIndex
from memory_service.record import MemoryRow, Outbox, Upkeep, VectorKind
from memory_service.service.indexing import index_row
from memory_service.service.piece_indexing import piece_index_row
from memory_service.service.turns import open_piece
from memory_service.service.vault import Keyring, Unreadable, open_memory

log = logging.getLogger(__name__)


class Corpus(Protocol):
    """Rows with vectors. A row has `user_id`, `id`, `generation` and `embedding_space`."""

    name: str
    index: VectorIndex

    def scan(self, after: tuple[str, str], limit: int) -> AsyncIterator[list[Any]]:
        """All rows that belong into the index by (user, id), in pages, from behind `after`."""
        ...

    async def present(self, keys: Sequence[tuple[str, str]], space: str) -> dict[tuple[str, str], str]:
        """Which of these are such rows with a vector in this space: their generation."""
        ...

    async def entry(self, row: Any) -> IndexRow | None:
        """What the index keeps of a row; None where it has no vector, or does not open."""
        ...

    async def count(self) -> int:
        """How many rows there are, about."""
        ...

    async def enqueue(self, keys: Sequence[tuple[str, str]]) -> None:
        """Asks for these to be looked at."""
        ...


class MemoryCorpus:
    """The active memories."""

    name = "memory"

    def __init__(self, *, upkeep: Upkeep, outbox: Outbox, keyring: Keyring, index: VectorIndex) -> None:
        self._upkeep = upkeep
        self._outbox = outbox
        self._keyring = keyring
        self.index = index

    def scan(self, after: tuple[str, str], limit: int) -> AsyncIterator[list[MemoryRow]]:
        return self._upkeep.scan_active(after, limit)

    async def present(self, keys: Sequence[tuple[str, str]], space: str) -> dict[tuple[str, str], str]:
        return await self._upkeep.present(keys, space)

    async def entry(self, row: MemoryRow) -> IndexRow | None:
        if row.embedding is None:
            return None
        try:
            key = await self._keyring.get(row.user_id, row.generation)
            return index_row(key, open_memory(key, row))
        except (Unreadable, KeyMissing) as error:
            log.error("memory %s cannot be indexed: %s", row.id, error)
            return None

    async def count(self) -> int:
        return (await self._upkeep.totals())["active"]

    async def enqueue(self, keys: Sequence[tuple[str, str]]) -> None:
        await self._outbox.enqueue(keys)


class PieceCorpus:
    """The pieces of messages."""

    name = "piece"

    def __init__(self, *, upkeep: PieceUpkeep, outbox: Outbox, keyring: Keyring, index: VectorIndex) -> None:
        self._upkeep = upkeep
        self._outbox = outbox
        self._keyring = keyring
        self.index = index

    def scan(self, after: tuple[str, str], limit: int) -> AsyncIterator[list[PieceRow]]:
        return self._upkeep.scan_pieces(after, limit)

    async def present(self, keys: Sequence[tuple[str, str]], space: str) -> dict[tuple[str, str], str]:
        return await self._upkeep.present_pieces(keys, space)

    async def entry(self, row: PieceRow) -> IndexRow | None:
        try:
            key = await self._keyring.get(row.user_id, row.generation)
            vector = open_piece(key, row)
        except (Unreadable, KeyMissing) as error:
            log.error("piece %s cannot be indexed: %s", row.id, error)
            return None
        return None if vector is None else piece_index_row(row, vector)

    async def count(self) -> int:
        return await self._upkeep.piece_count()

    async def enqueue(self, keys: Sequence[tuple[str, str]]) -> None:
        await self._outbox.enqueue(keys, VectorKind.PIECE)
