"""Where history sets come from: this process, brought up to date from the record for every search.

What is held is checked against (uid, turns) of every session, read from the record: a session that was deleted, or
deleted and begun anew, is never searched, and a turn that was answered is found by the next search on every replica.
Only turns that are new are read. Pieces that have no vector yet are embedded here as well, as far as it goes: a search
does not wait for the outbox worker.
"""

import asyncio
import logging
import weakref
from collections import OrderedDict, defaultdict

from memory_service.conversation_ports import Conversations, MessageRow, PieceRow
from memory_service.domain.history_set import HeldMessage, HeldSession, HistorySet, Piece
from memory_service.domain.model import Head, Vector
from memory_service.ports import StoreUnavailable
from memory_service.service.embedding import Embeddings
from memory_service.service.stores import in_time
from memory_service.service.turns import open_message, open_piece
from memory_service.service.vault import UserKey

log = logging.getLogger(__name__)

LOOK_AGAIN = 500
"""Pieces without a vector that a search asks the record for."""
EMBED_HERE = 32
"""Pieces that a search embeds itself, the latest first; 5 to 10 ms each with the bundled model."""


class Histories:
    """History sets of users, kept within `max_bytes`."""

    def __init__(self, conversations: Conversations, embeddings: Embeddings, *, max_bytes: int) -> None:
        self._conversations = conversations
        self._embeddings = embeddings
        self._max_bytes = max_bytes
        self._bytes = 0
        self._sets: OrderedDict[str, HistorySet] = OrderedDict()
        self._loading: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def read(self, head: Head, key: UserKey) -> HistorySet:
        """The user's messages, every turn that was answered before this call among them. Concurrent calls for one user
        read what is new once."""
        lock = self._loading.setdefault(head.user_id, asyncio.Lock())
        async with lock:
            held = self._sets.get(head.user_id)
            if held is None or (held.generation, held.space) != (head.generation, head.space):
                held = HistorySet(head.generation, head.space)
            held = await self._followed(head, key, held)
            return self._keep(head.user_id, await self._embedded(head, key, held))

    def _keep(self, user_id: str, held: HistorySet) -> HistorySet:
        before = self._sets.pop(user_id, None)
        self._bytes += held.size_bytes - (before.size_bytes if before else 0)
        self._sets[user_id] = held
        while self._bytes > self._max_bytes and len(self._sets) > 1:
            _, dropped = self._sets.popitem(last=False)
            self._bytes -= dropped.size_bytes
        return held

    async def _followed(self, head: Head, key: UserKey, held: HistorySet) -> HistorySet:
        states = await self._conversations.states(head.user_id, head.generation)
        gone = [id for id, session in held.sessions.items() if states.get(id, ("", 0))[0] != session.uid]
        new: dict[str, HeldSession] = {}
        for id, (uid, turns) in states.items():
            before = held.sessions.get(id)
            if before is None or before.uid != uid:
                before = HeldSession(uid, 0, ())
            if before.turns < turns:
                rows = await self._conversations.since(head.user_id, head.generation, id, before.turns)
                new[id] = await asyncio.to_thread(_grown, before, key, head.space, *rows)
        if not new and not gone:
            return held
        # In a thread: reading the words of a thousand messages takes a second.
        return await asyncio.to_thread(held.changed, new, gone)

    async def _embedded(self, head: Head, key: UserKey, held: HistorySet) -> HistorySet:
        """Takes over the vectors that were made since, and makes some that are missing."""
        if not held.bare:
            return held
        ids = [piece.id for piece, _ in held.bare[:LOOK_AGAIN]]
        found: dict[str, Vector] = {}
        for row, _ in await self._conversations.pieces(head.user_id, head.generation, ids):
            vector = _vector(key, row, head.space)
            if vector is not None:
                found[row.id] = vector
        missing = [(piece, message) for piece, message in held.bare if piece.id not in found][:EMBED_HERE]
        if missing:
            texts = [message.content[piece.begins : piece.ends] for piece, message in missing]
            try:
                vectors = await in_time("embedding", self._embeddings.passages(head.space, texts))
                found.update(zip((piece.id for piece, _ in missing), vectors, strict=True))
            except StoreUnavailable as error:
                log.debug("pieces are searched by keyword only: %s", error)
        return held.with_vectors(found)


def _vector(key: UserKey, row: PieceRow, space: str) -> Vector | None:
    return open_piece(key, row) if row.embedding_space == space else None


def _grown(
    before: HeldSession, key: UserKey, space: str, messages: list[MessageRow], pieces: list[PieceRow]
) -> HeldSession:
    """A session with its new turns."""
    parts: defaultdict[int, list[Piece]] = defaultdict(list)
    for row in pieces:
        parts[row.seq].append(Piece(row.id, row.begins, row.ends, _vector(key, row, space)))
    new = [HeldMessage(open_message(key, row), tuple(parts[row.seq])) for row in messages]
    turns = messages[-1].turn if messages else before.turns
    return HeldSession(before.uid, max(before.turns, turns), (*before.messages, *new))
