"""The Upkeep port, on SQLite and MariaDB."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import event

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.record import SqlRecord
from memory_service.adapters.sql.upkeep import SqlUpkeep
from memory_service.record import MemoryRow, Remembered
from tests.records import (
    GENERATION,
    OTHER_GENERATION,
    SPACE,
    START,
    ManualClock,
    Place,
    head,
    memory_id,
    row,
)

GONE: dict[str, Any] = {"invalidated_at": START, "invalid_reason": 1}
EMBEDDED: dict[str, Any] = {"embedding": b"v", "embedding_space": SPACE}
FIRST = ("", "")


@pytest.fixture
def upkeep(database: Database) -> SqlUpkeep:
    return SqlUpkeep(database)


@pytest.fixture
def record(database: Database, clock: ManualClock) -> SqlRecord:
    return SqlRecord(database, clock)


async def put(record: SqlRecord, user: str, *rows: MemoryRow, space: str = SPACE) -> None:
    """A user with these rows, whatever generation they are of."""
    await record.write(head(user, space=space), lambda tx: tx.insert(rows))


async def scanned(upkeep: SqlUpkeep, after: tuple[str, str], limit: int) -> list[list[tuple[str, str]]]:
    return [[(one.user_id, one.id) for one in page] async for page in upkeep.scan_active(after, limit)]


async def test_a_scan_walks_present_active_rows_by_user_and_id(record: SqlRecord, upkeep: SqlUpkeep) -> None:
    for user in ("b", "a", "C"):
        await put(
            record,
            user,
            *(row(user=user, id=memory_id(n)) for n in (3, 1, 2)),
            row(user=user, id=memory_id(4), **GONE),
            row(user=user, id=memory_id(5), generation=OTHER_GENERATION),
        )
    everything = [(user, memory_id(n)) for user in ("C", "a", "b") for n in (1, 2, 3)]
    assert await scanned(upkeep, FIRST, 100) == [everything]
    assert await scanned(upkeep, FIRST, 4) == [everything[:4], everything[4:8], everything[8:]]
    assert await scanned(upkeep, ("a", memory_id(1)), 100) == [everything[4:]]
    assert await scanned(upkeep, ("a", memory_id(9)), 100) == [everything[6:]]
    assert await scanned(upkeep, ("b", memory_id(3)), 100) == []


async def test_a_scan_brings_whole_rows(record: SqlRecord, upkeep: SqlUpkeep) -> None:
    full = row(**EMBEDDED)
    await put(record, "u1", full)
    assert [page async for page in upkeep.scan_active(FIRST, 5)] == [[full]]


async def test_a_scan_ends_though_rows_come_and_go_under_it(record: SqlRecord, upkeep: SqlUpkeep) -> None:
    await put(record, "m", *(row(user="m") for _ in range(6)))
    seen: list[tuple[str, str]] = []
    async for page in upkeep.scan_active(FIRST, 2):
        seen += [(one.user_id, one.id) for one in page]
        if len(seen) == 2:
            await put(record, "a", row(user="a"))  # behind the walk
            await put(record, "z", row(user="z"))  # before it
    assert [user for user, _ in seen] == ["m"] * 6 + ["z"]


async def test_present_knows_active_rows_with_a_vector_in_this_space(record: SqlRecord, upkeep: SqlUpkeep) -> None:
    rows = {
        "good": row(**EMBEDDED),
        "bare": row(),
        "other space": row(embedding=b"v", embedding_space="space-b"),
        "retired": row(**EMBEDDED, **GONE),
        "destroyed": row(**EMBEDDED, generation=OTHER_GENERATION),
    }
    await put(record, "u1", *rows.values())
    await put(record, "u2", row(user="u2", **EMBEDDED))
    asked = [("u1", one.id) for one in rows.values()] + [("u2", rows["good"].id), ("u1", memory_id(0)), ("x", "y")]
    assert await upkeep.present(asked, SPACE) == {("u1", rows["good"].id): GENERATION}
    assert await upkeep.present([], SPACE) == {}
    thousands = [("u1", memory_id(n)) for n in range(100_000, 105_000)]
    assert list(await upkeep.present([*thousands, *asked], SPACE)) == [("u1", rows["good"].id)]


async def test_heads_in_another_space_come_by_user(record: SqlRecord, upkeep: SqlUpkeep) -> None:
    for user, space in (("c", "s1"), ("a", "s1"), ("b", "s2"), ("D", "s3")):
        await put(record, user, space=space)
    assert [one.user_id for one in await upkeep.heads_not_in("s2", "", 10)] == ["D", "a", "c"]
    assert [one.user_id for one in await upkeep.heads_not_in("s2", "", 2)] == ["D", "a"]
    assert await upkeep.heads_not_in("s2", "a", 10) == [head("c", space="s1")]
    assert await upkeep.spaces() == {"s1": 2, "s2": 1, "s3": 1}


async def test_users_with_an_expired_active_row_are_found(record: SqlRecord, upkeep: SqlUpkeep) -> None:
    await put(record, "now", row(user="now", expires_at=START), row(user="now", expires_at=START - 9))
    await put(record, "later", row(user="later", expires_at=START + 1))
    await put(record, "never", row(user="never"))
    await put(record, "retired", row(user="retired", expires_at=START, **GONE))
    await put(record, "destroyed", row(user="destroyed", expires_at=START, generation=OTHER_GENERATION))
    assert await upkeep.expired(START - 10, 10) == []
    assert await upkeep.expired(START, 10) == ["now"]
    assert sorted(await upkeep.expired(START + 1, 10)) == ["later", "now"]
    assert len(await upkeep.expired(START + 1, 1)) == 1


async def test_purge_forgets_old_outcomes_and_old_retired_rows(
    record: SqlRecord, upkeep: SqlUpkeep, clock: ManualClock
) -> None:
    active, old = row("a"), row("b", **GONE)
    young = row("c", invalidated_at=START + 5, invalid_reason=1)
    await put(record, "u1", active, old, young)

    async def remember(request_id: str) -> None:
        await record.write(head(), lambda tx: tx.remember_outcome("Save", request_id, Remembered(b"h" * 32, {})))

    async def remembered() -> list[bool]:
        found = [await record.write(head(), lambda tx, r=r: tx.recall_outcome("Save", r)) for r in ("r1", "r2")]  # type: ignore[misc]
        return [one is not None for one in found]

    await remember("r1")
    clock.advance(5)
    await remember("r2")
    assert await upkeep.purge(outcomes_before=START, retired_before=None) == 0
    assert await upkeep.purge(outcomes_before=START + 1, retired_before=None) == 1
    assert await remembered() == [False, True]
    assert len(await record.rows("u1", GENERATION, [active.id, old.id, young.id])) == 3, "None keeps them for ever"
    assert await upkeep.purge(outcomes_before=START, retired_before=START) == 0
    assert await upkeep.purge(outcomes_before=START, retired_before=START + 5) == 1
    found = await record.rows("u1", GENERATION, [active.id, old.id, young.id])
    assert {one.id for one in found} == {active.id, young.id}
    assert await upkeep.purge(outcomes_before=2**60, retired_before=2**60) == 2
    assert await record.rows("u1", GENERATION, [active.id, young.id]) == [active]


async def test_purge_works_through_many_rows(record: SqlRecord, upkeep: SqlUpkeep) -> None:
    await put(record, "u1", *(row(**GONE) for _ in range(2300)), row("stays"))
    assert await upkeep.purge(outcomes_before=0, retired_before=START + 1) == 2300
    assert (await upkeep.totals())["retired"] == 0
    assert len(await record.active_rows("u1", GENERATION)) == 1


async def test_purge_spares_a_row_that_is_brought_back_under_it(place: Place, clock: ManualClock) -> None:
    """The row is restored after the purge has found it and before it deletes it."""
    database, beside = place.open(timeout=20), SqlRecord(place.open(timeout=20), clock)
    gone = row("a", **GONE)
    await put(beside, "u1", gone)
    restored = asyncio.Event()

    def restore(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if statement.startswith("DELETE FROM user_memory") and not restored.is_set():
            restored.set()
            place._sql("UPDATE user_memory SET invalidated_at = 0, active_marker = 1, invalid_reason = 0")

    event.listen(database.engine.sync_engine, "before_cursor_execute", restore)
    await SqlUpkeep(database).purge(outcomes_before=0, retired_before=START + 1)
    assert restored.is_set()
    assert [one.id for one in await beside.active_rows("u1", GENERATION)] == [gone.id]


async def test_totals_count_users_and_rows(record: SqlRecord, upkeep: SqlUpkeep) -> None:
    assert dict(await upkeep.totals()) == {"users": 0, "active": 0, "retired": 0, "unembedded": 0}
    await put(record, "u1", row(), row(**EMBEDDED), row(**GONE), row(**GONE, **EMBEDDED))
    await put(record, "u2", row(user="u2"))
    await put(record, "u3")
    assert dict(await upkeep.totals()) == {"users": 3, "active": 3, "retired": 2, "unembedded": 2}
