"""The ports of conversations, on SQLite and MariaDB: what a transaction writes, what is read, the walks over pieces."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from memory_service.adapters.sql.conversations import SqlConversations
from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.extractions import SqlExtractions
from memory_service.adapters.sql.outbox import SqlOutbox
from memory_service.adapters.sql.record import SqlRecord
from memory_service.conversation_ports import Deleted, MessageRow, NewTurn, PieceRow, SessionRow
from memory_service.record import UserWrite, VectorKind
from tests.records import (
    GENERATION,
    OTHER_GENERATION,
    SECOND,
    SPACE,
    START,
    ManualClock,
    Place,
    head,
    memory_id,
    row,
)

TABLES = ("session", "message", "message_piece", "extraction")


@pytest.fixture
def record(database: Database, clock: ManualClock) -> SqlRecord:
    return SqlRecord(database, clock)


@pytest.fixture
def conversations(database: Database) -> SqlConversations:
    return SqlConversations(database)


@pytest.fixture
def outbox(database: Database, clock: ManualClock) -> SqlOutbox:
    return SqlOutbox(database, clock)


def session(id: str = "s", user: str = "u1", generation: str = GENERATION, **values: Any) -> SessionRow:
    fields: dict[str, Any] = {
        "uid": f"uid-{id}",
        "turns": 1,
        "messages": 1,
        "channel": "web",
        "created_at": START,
        "last_turn_at": START,
        "changed": 0,
    }
    return SessionRow(user_id=user, generation=generation, session_id=id, **fields | values)


def message(seq: int, of: SessionRow, **values: Any) -> MessageRow:
    fields: dict[str, Any] = {
        "turn": of.turns,
        "message_id": f"m{seq}",
        "role": "user",
        "content": f"sealed {seq} 🐬".encode(),
        "created_at": START + seq,
    }
    return MessageRow(
        user_id=of.user_id, generation=of.generation, session_id=of.session_id, seq=seq, **fields | values
    )


def piece(id: int, of: MessageRow, **values: Any) -> PieceRow:
    fields: dict[str, Any] = {"number": 0, "begins": 0, "ends": 9, "created_at": of.created_at}
    return PieceRow(
        user_id=of.user_id,
        id=memory_id(id),
        generation=of.generation,
        session_id=of.session_id,
        seq=of.seq,
        **fields | values,
    )


def turn(of: SessionRow, messages: Sequence[MessageRow] = (), pieces: Sequence[PieceRow] = (), **more: Any) -> NewTurn:
    return NewTurn(session=of, messages=messages or [message(of.messages, of)], pieces=pieces, time_zone="UTC", **more)


async def append(record: SqlRecord, *turns: NewTurn) -> list[int]:
    """Appends turns, each in a transaction of its user; answers their positions."""
    positions = []
    for one in turns:

        async def work(tx: UserWrite, one: NewTurn = one) -> int:
            return await tx.conversations.append(one)

        positions.append(await record.write(head(one.session.user_id, one.session.generation), work))
    return positions


async def write(record: SqlRecord, method: str, *args: Any, user: str = "u1") -> Any:
    """Calls one method of ConversationWrite in a transaction of its own."""
    return await record.write(head(user), lambda tx: getattr(tx.conversations, method)(*args))


async def count(place: Place, table: str) -> int:
    [(found,)] = await place.sql(f"SELECT COUNT(*) FROM {table}")
    return int(found)


async def test_nothing_is_there_at_first(record: SqlRecord, conversations: SqlConversations) -> None:
    assert await conversations.session("u1", GENERATION, "s") is None
    assert await conversations.sessions("u1", GENERATION, None, 10) == []
    assert await conversations.states("u1", GENERATION) == {}
    assert await conversations.newest("u1", GENERATION, "s", 10) == []
    assert await conversations.turn("u1", GENERATION, "s", 1) == []
    assert await conversations.since("u1", GENERATION, "s", 0) == ([], [])
    assert await conversations.pieces("u1", GENERATION, []) == []
    assert await conversations.pieces("u1", GENERATION, [memory_id(1)]) == []
    assert await conversations.piece_ids("u1", GENERATION) == []
    assert await conversations.piece_count() == 0
    assert await write(record, "session", "s") is None
    assert await write(record, "known_ids", "s", ["m"]) == set()
    assert await write(record, "delete", "s") == Deleted(0, 0)
    await write(record, "embed", {}, SPACE)
    await write(record, "embed", {memory_id(1): b"x"}, SPACE)
    await write(record, "enqueue", [])


async def test_a_turn_comes_back_as_it_was_written(record: SqlRecord, conversations: SqlConversations) -> None:
    of = session(turns=1, messages=2)
    first = message(1, of, content="密".encode() * 60_000, tool_data=b"calls", role="assistant")
    second = message(2, of, message_id="M1")
    parts = [piece(2, first, number=1, begins=9, ends=20), piece(1, first), piece(3, second, embedding=b"v")]
    assert await append(record, turn(of, [first, second], parts)) == [1]
    assert await conversations.session("u1", GENERATION, "s") == replace(of, changed=1)
    assert await conversations.newest("u1", GENERATION, "s", 10) == [first, second]
    assert await conversations.turn("u1", GENERATION, "s", 1) == [first, second]
    rows, pieces = await conversations.since("u1", GENERATION, "s", 0)
    assert rows == [first, second]
    assert pieces == [parts[1], parts[0], parts[2]]
    found = await conversations.pieces("u1", GENERATION, [memory_id(1), memory_id(3), memory_id(9)])
    assert sorted(found, key=lambda one: one[0].id) == [(parts[1], first), (parts[2], second)]
    assert sorted(await conversations.piece_ids("u1", GENERATION)) == [memory_id(n) for n in (1, 2, 3)]
    assert await write(record, "known_ids", "s", ["m1", "M1", "m2", "m9"]) == {"m1", "M1"}


async def test_positions_count_the_users_turns_over_sessions(
    record: SqlRecord, conversations: SqlConversations
) -> None:
    one, two = session("a"), session("b")
    later = replace(one, turns=2, messages=2, channel="app", last_turn_at=START + 9)
    assert await append(record, turn(one), turn(two), turn(later)) == [1, 2, 3]
    assert await append(record, turn(session("a", "u2"))) == [1], "every user counts for himself"
    assert await conversations.states("u1", GENERATION) == {"a": ("uid-a", 2), "b": ("uid-b", 1)}
    assert await conversations.session("u1", GENERATION, "a") == replace(later, changed=3)
    listed = await conversations.sessions("u1", GENERATION, None, 10)
    assert [(found.session_id, found.changed) for found in listed] == [("a", 3), ("b", 2)]
    assert [found.session_id for found in await conversations.sessions("u1", GENERATION, 3, 10)] == ["b"]
    assert [found.session_id for found in await conversations.sessions("u1", GENERATION, None, 1)] == ["a"]


async def test_a_turn_that_fails_leaves_nothing(record: SqlRecord, place: Place) -> None:
    of = session()

    async def work(tx: UserWrite) -> None:
        await tx.conversations.append(turn(of, pieces=[piece(1, message(1, of))]))
        raise LookupError

    with pytest.raises(LookupError):
        await record.write(head(), work)
    assert [await count(place, table) for table in (*TABLES, "vector_outbox")] == [0] * 5
    assert await append(record, turn(of)) == [1], "its position was not used up"


async def test_turns_at_once_get_different_positions(place: Place, clock: ManualClock) -> None:
    records = [SqlRecord(place.open(timeout=60), clock) for _ in range(1 if place.is_sqlite else 2)]

    async def one(number: int) -> int:
        [position] = await append(records[number % len(records)], turn(session(f"s{number}")))
        return position

    assert sorted(await asyncio.gather(*(one(n) for n in range(20)))) == list(range(1, 21))


async def test_the_newest_messages_are_answered_oldest_first(
    record: SqlRecord, conversations: SqlConversations
) -> None:
    for n in range(1, 6):
        of = session(turns=n, messages=2 * n)
        await append(record, turn(of, [message(2 * n - 1, of), message(2 * n, of)]))
    assert [m.seq for m in await conversations.newest("u1", GENERATION, "s", 3)] == [8, 9, 10]
    assert [m.seq for m in await conversations.newest("u1", GENERATION, "s", 3, before_turn=4)] == [4, 5, 6]
    assert [m.seq for m in await conversations.turn("u1", GENERATION, "s", 3)] == [5, 6]
    assert [m.seq for m in (await conversations.since("u1", GENERATION, "s", 4))[0]] == [9, 10]


async def test_only_rows_of_the_generation_and_user_are_there(
    record: SqlRecord, conversations: SqlConversations
) -> None:
    mine, theirs = session("s"), session("s", "u2")
    await append(record, turn(mine, pieces=[piece(1, message(1, mine))]), turn(theirs))
    for user, generation in (("u1", OTHER_GENERATION), ("u3", GENERATION), ("U1", GENERATION)):
        assert await conversations.session(user, generation, "s") is None
        assert await conversations.states(user, generation) == {}
        assert await conversations.newest(user, generation, "s", 9) == []
        assert await conversations.pieces(user, generation, [memory_id(1)]) == []
    assert await write(record, "delete", "S") == Deleted(0, 0), "ids compare by bytes"
    assert await write(record, "delete", "s") == Deleted(1, 0)
    assert await conversations.session("u2", GENERATION, "s") == replace(theirs, changed=1)


async def test_a_summary_is_stored_and_listed_without_its_text(
    record: SqlRecord, conversations: SqlConversations
) -> None:
    of = session(messages=9)
    await append(record, turn(of))
    await write(record, "save_summary", "s", b"sealed", 7)
    found = await conversations.session("u1", GENERATION, "s")
    assert found == replace(of, changed=1, summary=b"sealed", summary_until=7)
    [listed] = await conversations.sessions("u1", GENERATION, None, 9)
    assert listed == replace(found, summary=None)
    await append(record, turn(replace(found, turns=2, messages=10)))
    kept = await conversations.session("u1", GENERATION, "s")
    assert kept is not None
    assert (kept.summary, kept.summary_until, kept.turns) == (b"sealed", 7, 2)


async def test_pieces_get_their_vectors(record: SqlRecord, conversations: SqlConversations, outbox: SqlOutbox) -> None:
    of = session()
    first = message(1, of)
    await append(record, turn(of, [first], [piece(1, first), piece(2, first, number=1)]))
    claimed = await outbox.claim(10, SECOND)
    assert {(item.memory_id, item.kind) for item in claimed} == {
        (memory_id(1), VectorKind.PIECE),
        (memory_id(2), VectorKind.PIECE),
    }
    assert await outbox.recent("u1", VectorKind.PIECE) == {memory_id(1), memory_id(2)}
    assert await outbox.recent("u1") == set(), "they are no memories"
    await write(record, "embed", {memory_id(2): b"vector", memory_id(7): b"of nothing"}, "space-b")
    _, pieces = await conversations.since("u1", GENERATION, "s", 0)
    assert [(p.embedding, p.embedding_space) for p in pieces] == [(None, None), (b"vector", "space-b")]
    await outbox.settle(claimed)
    await write(record, "enqueue", [memory_id(1)])
    assert [(i.memory_id, i.kind) for i in await outbox.claim(9, SECOND)] == [(memory_id(1), VectorKind.PIECE)]


async def test_an_outbox_line_keeps_its_kind(outbox: SqlOutbox, clock: ManualClock) -> None:
    await outbox.enqueue([("u1", "a")])
    await outbox.enqueue([("u1", "b"), ("u1", "c")], VectorKind.PIECE)
    assert [item.memory_id for item in await outbox.claim(1, SECOND, VectorKind.PIECE)] in (["b"], ["c"])
    assert [item.memory_id for item in await outbox.claim(9, SECOND, VectorKind.MEMORY)] == ["a"]
    assert len(await outbox.claim(9, SECOND, VectorKind.PIECE)) == 1
    assert await outbox.claim(9, SECOND) == []
    clock.advance(SECOND)
    kinds = {item.memory_id: item.kind for item in await outbox.claim(9, SECOND)}
    assert kinds == {"a": VectorKind.MEMORY, "b": VectorKind.PIECE, "c": VectorKind.PIECE}


async def test_deleting_takes_everything_of_the_session_and_no_more(
    record: SqlRecord, conversations: SqlConversations, outbox: SqlOutbox, place: Place
) -> None:
    gone, kept = session("gone"), session("kept")
    from_gone = row("a", session_id="gone")
    retired = row("b", session_id="gone", invalidated_at=START, superseded_by=from_gone.id)
    from_kept, from_nowhere = row("c", session_id="kept"), row("d")
    await append(
        record,
        turn(gone, pieces=[piece(9001, message(1, gone))]),
        turn(kept, pieces=[piece(9002, message(1, kept))]),
    )
    await record.write(head(), lambda tx: tx.insert([from_gone, retired, from_kept, from_nowhere]))
    await outbox.settle(await outbox.claim(10, SECOND))
    assert await write(record, "delete", "gone") == Deleted(1, 2)
    assert [await count(place, table) for table in TABLES] == [1] * 4
    assert set(await conversations.states("u1", GENERATION)) == {"kept"}
    rows = await record.rows("u1", GENERATION, [r.id for r in (from_gone, retired, from_kept, from_nowhere)])
    assert {r.id for r in rows} == {from_kept.id, from_nowhere.id}
    asked = {(item.memory_id, item.kind) for item in await outbox.claim(10, SECOND)}
    assert asked == {
        (memory_id(9001), VectorKind.PIECE),
        (from_gone.id, VectorKind.MEMORY),
        (retired.id, VectorKind.MEMORY),
    }
    assert await write(record, "delete", "gone") == Deleted(0, 0)


async def test_an_extraction_whose_session_was_deleted_cannot_be_finished(
    record: SqlRecord, database: Database, clock: ManualClock
) -> None:
    await append(record, turn(session()))
    [job] = await SqlExtractions(database, clock).claim(60 * SECOND)
    await write(record, "delete", "s")
    done = await record.write(head(), lambda tx: tx.finish_extraction(job.position, job.lease, b"o", "p1", "m"))
    assert done is False


# Walks


async def test_the_walk_shows_present_pieces_in_order(record: SqlRecord, conversations: SqlConversations) -> None:
    for number, user in enumerate(("u2", "u1", "u3"), start=1):
        of = session(user=user)
        first = message(1, of)
        parts = [piece(10 * number + n, first, number=n) for n in range(3)]
        await append(record, turn(of, [first], parts))
    # u3 begins anew: the rows of its old generation do not exist any more.
    await record._database.transaction(
        lambda c: c.exec_driver_sql(f"UPDATE memory_head SET generation = '{OTHER_GENERATION}' WHERE user_id = 'u3'")
    )
    pages = [page async for page in conversations.scan_pieces(("", ""), 2)]
    assert [(p.user_id, p.id) for page in pages for p in page] == [
        *(("u1", memory_id(20 + n)) for n in range(3)),
        *(("u2", memory_id(10 + n)) for n in range(3)),
    ]
    assert all(len(page) <= 2 for page in pages)
    rest = [p.id async for page in conversations.scan_pieces(("u1", memory_id(22)), 9) for p in page]
    assert rest == [memory_id(10 + n) for n in range(3)]


async def test_present_pieces_have_a_vector_in_the_space(record: SqlRecord, conversations: SqlConversations) -> None:
    of = session()
    first = message(1, of)
    await append(record, turn(of, [first], [piece(n, first, number=n) for n in (1, 2, 3)]))
    await write(record, "embed", {memory_id(1): b"v"}, SPACE)
    await write(record, "embed", {memory_id(2): b"v"}, "other")
    asked = [("u1", memory_id(n)) for n in (1, 2, 3, 4)] + [("u2", memory_id(1))]
    assert await conversations.present_pieces(asked, SPACE) == {("u1", memory_id(1)): GENERATION}
    assert await conversations.piece_count() == 3
