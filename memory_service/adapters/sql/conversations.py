"""Conversations on SQL: what a transaction writes of them, how they are read, and the walks over all pieces."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Select, and_, bindparam, delete, func, insert, or_, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.outbox import enqueue_lines
from memory_service.adapters.sql.schema import extraction, memory_head, message, message_piece, session, user_memory
from memory_service.conversation_ports import Deleted, ExtractionState, MessageRow, NewTurn, PieceRow, SessionRow
from memory_service.domain.model import Head
from memory_service.ports import Clock
from memory_service.record import VectorKind

R = TypeVar("R", SessionRow, MessageRow, PieceRow)
_CHUNK = 500
_s, _m, _p, _h = session.c, message.c, message_piece.c, memory_head.c
_PRESENT = and_(_h.user_id == _p.user_id, _h.generation == _p.generation)
_LEAN_SESSION = [c for c in _s if c.name != "summary"]


async def _fetch(connection: AsyncConnection, query: Select[Any], of: type[R]) -> list[R]:
    result = await connection.execute(query)
    names = list(result.keys())
    return [of(**dict(zip(names, row, strict=True))) for row in result]


def _own(table: Any, user_id: str, generation: str, session_id: str | None = None) -> Any:
    own = and_(table.c.user_id == user_id, table.c.generation == generation)
    return own if session_id is None else and_(own, table.c.session_id == session_id)


def _values(row: SessionRow | MessageRow | PieceRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__slots__}


class SqlConversationWrite:
    """ConversationWrite on the connection of a transaction that holds the head."""

    def __init__(self, database: Database, connection: AsyncConnection, head: Head, clock: Clock) -> None:
        self._database = database
        self._connection = connection
        self._head = head
        self._clock = clock

    def _own(self, table: Any, session_id: str | None = None) -> Any:
        return _own(table, self._head.user_id, self._head.generation, session_id)

    async def session(self, session_id: str) -> SessionRow | None:
        found = await _fetch(self._connection, select(session).where(self._own(session, session_id)), SessionRow)
        return found[0] if found else None

    async def known_ids(self, session_id: str, message_ids: Sequence[str]) -> set[str]:
        query = select(_m.message_id).where(self._own(message, session_id), _m.message_id.in_(message_ids))
        return set((await self._connection.execute(query)).scalars())

    async def append(self, turn: NewTurn) -> int:
        now = self._clock()
        which = _h.user_id == self._head.user_id
        await self._connection.execute(
            update(memory_head).where(which).values(position=_h.position + 1, last_active_at=now)
        )
        position = int((await self._connection.execute(select(_h.position).where(which))).scalar_one())
        row = _values(turn.session) | {"changed": position}
        moving = ("turns", "messages", "channel", "last_turn_at", "changed")
        statement = self._database.upsert(session, row, {name: row[name] for name in moving})
        await self._connection.execute(statement)
        await self._connection.execute(insert(message), [_values(row) for row in turn.messages])
        if turn.pieces:
            await self._connection.execute(insert(message_piece), [_values(row) for row in turn.pieces])
            keys = [(piece.user_id, piece.id) for piece in turn.pieces]
            await enqueue_lines(self._database, self._connection, keys, now, VectorKind.PIECE)
        if turn.extract:
            await self._connection.execute(insert(extraction), self._job(turn, position, now))
        return position

    def _job(self, turn: NewTurn, position: int, now: int) -> dict[str, Any]:
        return {
            "user_id": self._head.user_id,
            "generation": self._head.generation,
            "position": position,
            "session_id": turn.session.session_id,
            "turn": turn.session.turns,
            "time_zone": turn.time_zone,
            "state": int(ExtractionState.PENDING),
            "lease": 0,
            "due_at": now,
            "attempts": 0,
            "error": "",
            "prompt_version": "",
            "model": "",
            "created_at": turn.session.last_turn_at,
        }

    async def save_summary(self, session_id: str, sealed: bytes, until: int) -> None:
        await self._connection.execute(
            update(session).where(self._own(session, session_id)).values(summary=sealed, summary_until=until)
        )

    async def delete(self, session_id: str) -> Deleted:
        now, counts = self._clock(), {}
        pieces = (await self._connection.execute(select(_p.id).where(self._own(message_piece, session_id)))).scalars()
        memories = (
            await self._connection.execute(select(user_memory.c.id).where(self._own(user_memory, session_id)))
        ).scalars()
        for found, kind in ((pieces, VectorKind.PIECE), (memories, VectorKind.MEMORY)):
            keys = [(self._head.user_id, id) for id in found]
            await enqueue_lines(self._database, self._connection, keys, now, kind)
        for table in (extraction, message_piece, message, session, user_memory):
            result = await self._connection.execute(delete(table).where(self._own(table, session_id)))
            counts[table.name] = result.rowcount
        return Deleted(counts["message"], counts["user_memory"])

    async def embed(self, vectors: Mapping[str, bytes], space: str) -> None:
        if not vectors:
            return
        statement = (
            update(message_piece)
            .where(self._own(message_piece), _p.id == bindparam("piece"))
            .values(embedding=bindparam("vector"), embedding_space=bindparam("space"))
        )
        rows = [{"piece": id, "vector": sealed, "space": space} for id, sealed in sorted(vectors.items())]
        await self._connection.execute(statement, rows)

    async def piece_ids(self) -> list[str]:
        query = select(_p.id).where(self._own(message_piece))
        return list((await self._connection.execute(query)).scalars())

    async def enqueue(self, piece_ids: Sequence[str]) -> None:
        keys = [(self._head.user_id, id) for id in piece_ids]
        await enqueue_lines(self._database, self._connection, keys, self._clock(), VectorKind.PIECE)


class SqlConversations:
    """Conversations and PieceUpkeep on a Database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def session(self, user_id: str, generation: str, session_id: str) -> SessionRow | None:
        query = select(session).where(_own(session, user_id, generation, session_id))
        found = await self._database.read(partial(_fetch, query=query, of=SessionRow))
        return found[0] if found else None

    async def sessions(self, user_id: str, generation: str, before: int | None, limit: int) -> list[SessionRow]:
        query = select(*_LEAN_SESSION).where(_own(session, user_id, generation))
        if before is not None:
            query = query.where(_s.changed < before)
        query = query.order_by(_s.changed.desc()).limit(limit)
        return await self._database.read(partial(_fetch, query=query, of=SessionRow))

    async def states(self, user_id: str, generation: str) -> dict[str, tuple[str, int]]:
        query = select(_s.session_id, _s.uid, _s.turns).where(_own(session, user_id, generation))

        async def work(connection: AsyncConnection) -> dict[str, tuple[str, int]]:
            return {row.session_id: (row.uid, row.turns) for row in await connection.execute(query)}

        return await self._database.read(work)

    async def newest(
        self, user_id: str, generation: str, session_id: str, limit: int, before_turn: int | None = None
    ) -> list[MessageRow]:
        query = select(message).where(_own(message, user_id, generation, session_id))
        if before_turn is not None:
            query = query.where(_m.turn < before_turn)
        query = query.order_by(_m.seq.desc()).limit(limit)
        return (await self._database.read(partial(_fetch, query=query, of=MessageRow)))[::-1]

    async def turn(self, user_id: str, generation: str, session_id: str, turn: int) -> list[MessageRow]:
        query = select(message).where(_own(message, user_id, generation, session_id), _m.turn == turn)
        return await self._database.read(partial(_fetch, query=query.order_by(_m.seq), of=MessageRow))

    async def since(
        self, user_id: str, generation: str, session_id: str, after_turn: int
    ) -> tuple[list[MessageRow], list[PieceRow]]:
        new = and_(_own(message, user_id, generation, session_id), _m.turn > after_turn)
        rows = await self._database.read(
            partial(_fetch, query=select(message).where(new).order_by(_m.seq), of=MessageRow)
        )
        if not rows:
            return [], []
        pieces = select(message_piece).where(
            _own(message_piece, user_id, generation, session_id), _p.seq >= rows[0].seq, _p.seq <= rows[-1].seq
        )
        ordered = pieces.order_by(_p.seq, _p.number)
        return rows, await self._database.read(partial(_fetch, query=ordered, of=PieceRow))

    async def piece_ids(self, user_id: str, generation: str) -> list[str]:
        query = select(_p.id).where(_own(message_piece, user_id, generation))

        async def work(connection: AsyncConnection) -> list[str]:
            return list((await connection.execute(query)).scalars())

        return await self._database.read(work)

    async def pieces(self, user_id: str, generation: str, ids: Sequence[str]) -> list[tuple[PieceRow, MessageRow]]:
        of_piece = and_(_m.user_id == _p.user_id, _m.generation == _p.generation, _m.session_id == _p.session_id)
        joined = and_(of_piece, _m.seq == _p.seq)
        split = len(_p)

        async def work(connection: AsyncConnection, some: Sequence[str]) -> list[tuple[PieceRow, MessageRow]]:
            query = (
                select(*_p, *_m)
                .select_from(message_piece.join(message, joined))
                .where(_own(message_piece, user_id, generation), _p.id.in_(some))
            )
            rows = (await connection.execute(query)).all()
            return [
                (
                    PieceRow(**dict(zip(_p.keys(), row[:split], strict=True))),
                    MessageRow(**dict(zip(_m.keys(), row[split:], strict=True))),
                )
                for row in rows
            ]

        found: list[tuple[PieceRow, MessageRow]] = []
        for start in range(0, len(ids), _CHUNK):
            found += await self._database.read(partial(work, some=ids[start : start + _CHUNK]))
        return found

    async def scan_pieces(self, after: tuple[str, str], limit: int) -> AsyncIterator[list[PieceRow]]:
        user, piece = after
        while True:
            behind = or_(_p.user_id > user, and_(_p.user_id == user, _p.id > piece))
            query = (
                select(message_piece)
                .join(memory_head, _PRESENT)
                # The first condition is implied by the second, and is the one the primary key can serve.
                .where(_p.user_id >= user, behind)
                .order_by(_p.user_id, _p.id)
                .limit(limit)
            )
            rows = await self._database.read(partial(_fetch, query=query, of=PieceRow))
            if not rows:
                return
            yield rows
            user, piece = rows[-1].user_id, rows[-1].id

    async def present_pieces(self, keys: Sequence[tuple[str, str]], space: str) -> dict[tuple[str, str], str]:
        found: dict[tuple[str, str], str] = {}

        async def work(connection: AsyncConnection, some: Sequence[tuple[str, str]]) -> None:
            query = (
                select(_p.user_id, _p.id, _p.generation)
                .join(memory_head, _PRESENT)
                .where(tuple_(_p.user_id, _p.id).in_(some), _p.embedding_space == space)
            )
            found.update({(row.user_id, row.id): row.generation for row in await connection.execute(query)})

        for start in range(0, len(keys), 300):
            await self._database.read(partial(work, some=keys[start : start + 300]))
        return found

    async def piece_count(self) -> int:
        async def work(connection: AsyncConnection) -> int:
            return int((await connection.execute(select(func.count()).select_from(message_piece))).scalar_one())

        return await self._database.read(work)
