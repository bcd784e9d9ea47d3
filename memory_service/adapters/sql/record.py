"""The users' rows on SQL: the head, its transactions, reads by user."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from sqlalchemy import Select, and_, bindparam, case, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from memory_service.adapters.sql.conversations import SqlConversationWrite
from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.extractions import finish
from memory_service.adapters.sql.outbox import enqueue_lines
from memory_service.adapters.sql.schema import idempotency, memory_head, user_memory
from memory_service.domain.model import Head, InvalidReason
from memory_service.ports import Clock
from memory_service.record import (
    IDEMPOTENCY_WINDOW,
    Counters,
    DuplicateContent,
    MemoryRow,
    Remembered,
    Retirement,
    RowFilter,
    UserWrite,
)

T = TypeVar("T")

MEMORY_COLUMNS = [c for c in user_memory.c if c.name != "active_marker"]
_WITHOUT_VECTOR = [c for c in MEMORY_COLUMNS if c.name != "embedding"]
_CHUNK = 500
"""Ids per IN list: far below SQLite's limit on variables."""
ACTIVE_STATE = 1
_FIELDS = [field.name for field in fields(MemoryRow)]


async def fetch_rows(connection: AsyncConnection, query: Select[Any]) -> list[MemoryRow]:
    """Runs a query over the columns of `user_memory`."""
    result = await connection.execute(query)
    names = list(result.keys())
    return [MemoryRow(**dict(zip(names, row, strict=True))) for row in result]


def _of_user(user_id: str, generation: str) -> Any:
    return and_(user_memory.c.user_id == user_id, user_memory.c.generation == generation)


def _active_query(user_id: str, generation: str, since: int | None) -> Select[Any]:
    query = select(*MEMORY_COLUMNS).where(_of_user(user_id, generation))
    if since is None:
        return query.where(user_memory.c.active_marker == 1)
    return query.where(user_memory.c.revision > since)


async def _rows(connection: AsyncConnection, user_id: str, generation: str, ids: Sequence[str]) -> list[MemoryRow]:
    found: list[MemoryRow] = []
    for start in range(0, len(ids), _CHUNK):
        query = select(*MEMORY_COLUMNS).where(
            _of_user(user_id, generation), user_memory.c.id.in_(ids[start : start + _CHUNK])
        )
        found += await fetch_rows(connection, query)
    return found


def _head_query(user_id: str) -> Select[Any]:
    c = memory_head.c
    return select(c.user_id, c.generation, c.version, c.embedding_space, c.reset_version).where(c.user_id == user_id)


class SqlUserWrite:
    """UserWrite on one connection with its transaction begun and the head taken."""

    def __init__(self, database: Database, connection: AsyncConnection, head: Head, clock: Clock) -> None:
        self._database = database
        self._connection = connection
        self._head = head
        self._clock = clock

    @property
    def head(self) -> Head:
        return self._head

    @property
    def conversations(self) -> SqlConversationWrite:
        return SqlConversationWrite(self._database, self._connection, self._head, self._clock)

    def _own(self) -> Any:
        return _of_user(self._head.user_id, self._head.generation)

    async def active_rows(self, since: int | None = None) -> list[MemoryRow]:
        return await fetch_rows(self._connection, _active_query(self._head.user_id, self._head.generation, since))

    async def rows(self, ids: Sequence[str]) -> list[MemoryRow]:
        return await _rows(self._connection, self._head.user_id, self._head.generation, ids)

    async def counters(self) -> dict[str, Counters]:
        c = user_memory.c
        query = select(c.id, c.access_count, c.last_accessed_at).where(self._own(), c.active_marker == 1)
        return {
            row.id: Counters(row.access_count, row.last_accessed_at) for row in await self._connection.execute(query)
        }

    async def insert(self, rows: Sequence[MemoryRow]) -> None:
        if not rows:
            return
        # Not `asdict`: it copies every value deeply, which took longer than the INSERT.
        values = [
            {name: getattr(row, name) for name in _FIELDS} | {"active_marker": None if row.invalidated_at else 1}
            for row in rows
        ]
        try:
            await self._connection.execute(insert(user_memory), values)
        except IntegrityError as error:
            raise DuplicateContent from error

    async def retire(self, retirements: Sequence[Retirement], revision: int) -> None:
        alike: dict[tuple[InvalidReason, int, str | None, int | None], list[str]] = {}
        for r in retirements:
            alike.setdefault((r.reason, r.at, r.superseded_by, r.valid_to), []).append(r.id)
        for (reason, at, successor, valid_to), ids in alike.items():
            for start in range(0, len(ids), _CHUNK):
                which = and_(
                    self._own(), user_memory.c.id.in_(ids[start : start + _CHUNK]), user_memory.c.active_marker == 1
                )
                await self._connection.execute(
                    update(user_memory)
                    .where(which)
                    .values(
                        active_marker=None,
                        invalidated_at=at,
                        invalid_reason=int(reason),
                        superseded_by=successor,
                        valid_to=valid_to,
                        revision=revision,
                    )
                )

    async def revive(self, id: str, revision: int, now: int) -> None:
        values = {
            "active_marker": 1,
            "invalidated_at": 0,
            "invalid_reason": 0,
            "superseded_by": None,
            "valid_to": None,
            "access_count": user_memory.c.access_count + 1,
            "last_accessed_at": now,
            "revision": revision,
        }
        try:
            await self._connection.execute(
                update(user_memory).where(self._own(), user_memory.c.id == id).values(values)
            )
        except IntegrityError as error:
            raise DuplicateContent from error

    async def amend(self, id: str, revision: int, values: Mapping[str, Any]) -> None:
        await self._connection.execute(
            update(user_memory).where(self._own(), user_memory.c.id == id).values(revision=revision, **values)
        )

    async def enqueue(self, ids: Sequence[str]) -> None:
        keys = [(self._head.user_id, id) for id in ids]
        await enqueue_lines(self._database, self._connection, keys, self._clock())

    async def finish_extraction(
        self, position: int, lease: int, outcome: bytes, prompt_version: str, model: str
    ) -> bool:
        values = {"outcome": outcome, "prompt_version": prompt_version, "model": model, "finished_at": self._clock()}
        return await finish(self._connection, self._head, position, lease, values)

    async def set_head(self, *, version: int, space: str | None = None, reset: bool = False) -> None:
        values: dict[str, Any] = {"version": version, "last_active_at": self._clock()}
        if space is not None:
            values["embedding_space"] = space
        if reset:
            values["reset_version"] = version
        await self._connection.execute(
            update(memory_head).where(memory_head.c.user_id == self._head.user_id).values(values)
        )

    def _outcome_key(self, rpc: str, request_id: str) -> Any:
        c = idempotency.c
        return and_(
            c.user_id == self._head.user_id,
            c.generation == self._head.generation,
            c.rpc == rpc,
            c.request_id == request_id,
        )

    async def recall_outcome(self, rpc: str, request_id: str) -> Remembered | None:
        c = idempotency.c
        query = select(c.args_hmac, c.outcome).where(
            self._outcome_key(rpc, request_id), c.created_at > self._clock() - IDEMPOTENCY_WINDOW
        )
        row = (await self._connection.execute(query)).one_or_none()
        return None if row is None else Remembered(bytes(row.args_hmac), json.loads(row.outcome))

    async def remember_outcome(self, rpc: str, request_id: str, outcome: Remembered) -> None:
        values = {
            "args_hmac": outcome.args_hmac,
            "outcome": json.dumps(dict(outcome.outcome)),
            "created_at": self._clock(),
        }
        key = {
            "user_id": self._head.user_id,
            "generation": self._head.generation,
            "rpc": rpc,
            "request_id": request_id,
        }
        # A line older than the window may still be there.
        await self._connection.execute(self._database.upsert(idempotency, key | values, values))


class SqlRecord:
    """Record on a Database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def head(self, user_id: str) -> Head | None:
        async def work(connection: AsyncConnection) -> Head | None:
            row = (await connection.execute(_head_query(user_id))).one_or_none()
            return None if row is None else Head(*row)

        return await self._database.read(work)

    async def active_rows(self, user_id: str, generation: str, since: int | None = None) -> list[MemoryRow]:
        return await self._database.read(lambda c: fetch_rows(c, _active_query(user_id, generation, since)))

    async def rows(self, user_id: str, generation: str, ids: Sequence[str]) -> list[MemoryRow]:
        return await self._database.read(lambda c: _rows(c, user_id, generation, ids))

    async def page(
        self, user_id: str, generation: str, which: RowFilter, before: str | None, limit: int
    ) -> list[MemoryRow]:
        c = user_memory.c
        query = select(*_WITHOUT_VECTOR).where(_of_user(user_id, generation))
        if which.types:
            query = query.where(c.type.in_([int(t) for t in which.types]))
        if which.shards:
            query = query.where(c.shard.in_([int(s) for s in which.shards]))
        if which.session_id:
            query = query.where(c.session_id == which.session_id)
        if which.active is True:
            query = query.where(c.active_marker == 1, or_(c.expires_at.is_(None), c.expires_at > self._clock()))
        elif which.active is False:
            query = query.where(or_(c.active_marker.is_(None), c.expires_at <= self._clock()))
        if which.created_from is not None:
            query = query.where(c.created_at >= which.created_from)
        if which.created_until is not None:
            query = query.where(c.created_at < which.created_until)
        if before is not None:
            query = query.where(c.id < before)
        query = query.order_by(c.id.desc()).limit(limit)
        return await self._database.read(lambda connection: fetch_rows(connection, query))

    async def write(
        self, proposal: Head, work: Callable[[UserWrite], Awaitable[T]], *, seconds: float | None = None
    ) -> T:
        async def run(connection: AsyncConnection) -> T:
            head = await self._take_head(connection, proposal)
            return await work(SqlUserWrite(self._database, connection, head, self._clock))

        return await self._database.transaction(run, seconds)

    async def _take_head(self, connection: AsyncConnection, proposal: Head) -> Head:
        """Locks the user's head: the one that is there, in one statement, else a new one."""
        taken = _head_query(proposal.user_id).with_for_update()
        if proposal.version > 0:  # it was there when it was read
            row = (await connection.execute(taken)).one_or_none()
            if row is not None:
                return Head(*row)
        values = {
            "user_id": proposal.user_id,
            "state": ACTIVE_STATE,
            "generation": proposal.generation,
            "version": proposal.version,
            "reset_version": proposal.reset_version,
            "embedding_space": proposal.space,
            "last_active_at": self._clock(),
        }
        version = {} if self._database.is_sqlite else {"version": memory_head.c.version}
        await connection.execute(self._database.upsert(memory_head, values, version))
        return Head(*(await connection.execute(taken)).one())

    async def touch(self, accesses: Mapping[tuple[str, str], Counters]) -> None:
        if not accesses:
            return
        c = user_memory.c
        last = bindparam("last", type_=c.last_accessed_at.type)
        statement = (
            update(user_memory)
            .where(c.user_id == bindparam("user"), c.id == bindparam("memory"))
            .values(
                access_count=c.access_count + bindparam("more", type_=c.access_count.type),
                last_accessed_at=case((func.coalesce(c.last_accessed_at, 0) < last, last), else_=c.last_accessed_at),
            )
        )
        # In order of key, so that two batches never wait for each other in a circle.
        values = [
            {"user": user, "memory": memory, "more": counters.count, "last": counters.last or 0}
            for (user, memory), counters in sorted(accesses.items())
        ]
        await self._database.transaction(lambda connection: connection.execute(statement, values))

    async def ping(self) -> None:
        await self._database.read(lambda connection: connection.execute(select(memory_head.c.version).limit(1)))

    async def close(self) -> None:
        await self._database.close()
