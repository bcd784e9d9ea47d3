"""The Record port: what one caller at a time may rely on, on SQLite and MariaDB. See also `test_record_concurrency.py`
(many callers) and `test_record_faults.py` (what breaks under them).
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import pytest

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.outbox import SqlOutbox
from memory_service.adapters.sql.record import SqlRecord
from memory_service.domain.model import Head, InvalidReason, MemoryType, Shard
from memory_service.record import (
    IDEMPOTENCY_WINDOW,
    Counters,
    DuplicateContent,
    MemoryRow,
    Record,
    Remembered,
    Retirement,
    RowFilter,
    UserWrite,
)
from tests.records import (
    GENERATION,
    HOUR,
    OTHER_GENERATION,
    SECOND,
    START,
    ManualClock,
    Place,
    digest,
    head,
    memory_id,
    row,
)

T = TypeVar("T")
Work = Callable[[UserWrite], Awaitable[T]]
UNTOUCHED = Remembered(b"a" * 32, {})


@pytest.fixture
def record(database: Database, clock: ManualClock) -> Record:
    return SqlRecord(database, clock)


async def put(record: Record, *rows: MemoryRow) -> None:
    """Inserts rows, each under its own user and generation, with no other effect."""
    for one in rows:

        async def work(tx: UserWrite, one: MemoryRow = one) -> None:
            await tx.insert([one])

        proposal = head(one.user_id, one.generation)
        assert (await record.head(one.user_id) or proposal).generation == one.generation
        await record.write(proposal, work)


async def write(record: Record, method: str, *args: Any, user: str = "u1", **kwargs: Any) -> Any:
    """Calls one method of UserWrite in a transaction of its own."""
    return await record.write(head(user), lambda tx: getattr(tx, method)(*args, **kwargs))


def ids(rows: Sequence[MemoryRow]) -> list[str]:
    return [one.id for one in rows]


async def one_row(record: Record, id: str, user: str = "u1", generation: str = GENERATION) -> MemoryRow:
    [found] = await record.rows(user, generation, [id])
    return found


# Heads and transactions


async def test_a_user_nobody_wrote_for_has_nothing(record: Record) -> None:
    assert await record.head("nobody") is None
    assert await record.active_rows("nobody", GENERATION) == []
    assert await record.rows("nobody", GENERATION, ["x"]) == []
    assert await record.page("nobody", GENERATION, RowFilter(), None, 10) == []


async def test_the_first_write_makes_the_head_and_later_proposals_do_not_count(record: Record) -> None:
    async def taken(tx: UserWrite) -> Head:
        return tx.head

    first = Head("u1", GENERATION, 3, "space-a", 2)
    assert await record.write(first, taken) == first
    assert await record.write(Head("u1", OTHER_GENERATION, 9, "space-b", 9), taken) == first
    assert await record.head("u1") == first


async def test_a_write_commits_all_tables_at_once_and_answers_what_work_answered(
    record: Record, place: Place, clock: ManualClock
) -> None:
    new = row("one")

    async def work(tx: UserWrite) -> str:
        await tx.insert([new])
        await tx.enqueue([new.id])
        await tx.set_head(version=1)
        await tx.remember_outcome("Save", "r1", Remembered(b"h" * 32, {"id": new.id}))
        return "done"

    assert await record.write(head(), work) == "done"
    elsewhere = place.open()
    other = SqlRecord(elsewhere, clock)
    assert await other.active_rows("u1", GENERATION) == [new]
    assert await other.head("u1") == head(version=1)
    assert await SqlOutbox(elsewhere, clock).recent("u1") == {new.id}
    assert await write(other, "recall_outcome", "Save", "r1") == Remembered(b"h" * 32, {"id": new.id})


async def test_a_work_that_raises_leaves_nothing_in_any_table(record: Record, place: Place) -> None:
    class Own(Exception):
        pass

    async def work(tx: UserWrite) -> None:
        new = row("one")
        await tx.insert([new])
        await tx.enqueue([new.id])
        await tx.set_head(version=1)
        await tx.remember_outcome("Save", "r1", UNTOUCHED)
        raise Own

    with pytest.raises(Own):
        await record.write(head(), work)
    for table in ("memory_head", "user_memory", "vector_outbox", "idempotency"):
        assert await place.sql(f"SELECT COUNT(*) FROM {table}") == [(0,)]


async def test_a_work_that_raises_undoes_changes_of_rows_that_were_there(record: Record) -> None:
    old = row("old")
    await put(record, old)

    async def work(tx: UserWrite) -> None:
        await tx.retire([Retirement(id=old.id, reason=InvalidReason.CLEARED, at=START)], 2)
        await tx.set_head(version=2, space="space-b", reset=True)
        raise LookupError

    with pytest.raises(LookupError):
        await record.write(head(), work)
    assert await record.active_rows("u1", GENERATION) == [old]
    assert await record.head("u1") == head()


async def test_reads_in_a_transaction_see_what_it_wrote(record: Record) -> None:
    old, new = row("old", access_count=4, last_accessed_at=START), row("new")
    await put(record, old)

    async def work(tx: UserWrite) -> None:
        await tx.insert([new])
        await tx.retire([Retirement(id=old.id, reason=InvalidReason.EVICTED, at=START + 1)], 2)
        assert await tx.active_rows() == [new]
        assert ids(await tx.active_rows(since=1)) == [old.id]
        assert await tx.counters() == {new.id: Counters(0, None)}
        assert {one.id: one.invalidated_at for one in await tx.rows([old.id, new.id])} == {
            old.id: START + 1,
            new.id: 0,
        }

    await record.write(head(), work)


async def test_set_head_writes_version_space_and_reset_version(record: Record) -> None:
    await write(record, "set_head", version=4)
    assert await record.head("u1") == Head("u1", GENERATION, 4, "space-a", 0)
    await write(record, "set_head", version=5, space="space-b", reset=True)
    assert await record.head("u1") == Head("u1", GENERATION, 5, "space-b", 5)
    await write(record, "set_head", version=6)
    assert await record.head("u1") == Head("u1", GENERATION, 6, "space-b", 5)


# Rows


async def test_every_column_comes_back_as_it_was_written(record: Record) -> None:
    full = MemoryRow(
        user_id="Firma/agent-7/alice@example.org|x=1",
        id=memory_id(7),
        generation=GENERATION,
        type=3,
        shard=5,
        content_hmac=bytes(range(224, 256)),
        content=bytes(range(256)) * 40,
        created_at=2**53 + 1,
        valid_from=-1,
        revision=2**40,
        event_key="2026-11-30",
        attributes=b"\x00\xff' \\\" %s :x ?",
        quote=b"\xf0\x9f\x90\xac",
        embedding=b"\x00" * 6144,
        embedding_space="bundled/e5@1",
        session_id="S1",
        message_id="m:1",
        role="assistant",
        channel="web",
        occurred_at=0,
        last_accessed_at=START,
        access_count=2**40,
        pinned=True,
        time_slice="2026W48",
        valid_to=START,
        invalidated_at=START,
        invalid_reason=2,
        superseded_by=memory_id(8),
        expires_at=START,
    )
    assert all(getattr(full, f.name) != f.default for f in fields(MemoryRow)), "a default proves nothing"
    bare = row("bare", user=full.user_id)
    await put(record, full, bare)
    found = {one.id: one for one in await record.rows(full.user_id, GENERATION, [full.id, bare.id])}
    assert found == {full.id: full, bare.id: bare}
    assert type(found[full.id].content) is bytes
    assert found[full.id].pinned is True


async def test_the_largest_memory_fits(record: Record) -> None:
    large = row("large", content=b"x" * (8000 * 4 + 28), attributes=b"y" * 20_000, quote=b"z" * 2028)
    await put(record, large)
    assert await one_row(record, large.id) == large


async def test_two_active_rows_of_one_content_cannot_be(record: Record) -> None:
    first = row("coffee")
    await put(record, first)
    with pytest.raises(DuplicateContent):
        await put(record, row("coffee"))
    assert await record.active_rows("u1", GENERATION) == [first]


async def test_a_batch_with_one_duplicate_is_not_written_at_all(record: Record) -> None:
    first = row("coffee")
    await put(record, first)
    with pytest.raises(DuplicateContent):
        await write(record, "insert", [row("tea"), row("coffee"), row("milk")])
    assert await record.active_rows("u1", GENERATION) == [first]


async def test_retired_rows_never_block_a_content(record: Record) -> None:
    first, second, third = row("coffee"), row("coffee"), row("coffee", invalidated_at=START, invalid_reason=2)
    await put(record, first)
    await write(record, "retire", [Retirement(id=first.id, reason=InvalidReason.INVALIDATED, at=START)], 2)
    await put(record, second, third)
    await write(record, "retire", [Retirement(id=second.id, reason=InvalidReason.INVALIDATED, at=START)], 3)
    assert await record.active_rows("u1", GENERATION) == []
    assert len(await record.rows("u1", GENERATION, [first.id, second.id, third.id])) == 3


async def test_a_content_may_be_active_once_per_user(record: Record) -> None:
    await put(record, row("coffee", user="u1"), row("coffee", user="u2"))
    assert len(await record.active_rows("u1", GENERATION)) == len(await record.active_rows("u2", GENERATION)) == 1


async def test_contents_differ_in_any_byte(record: Record) -> None:
    lower, upper = b"a" * 32, b"A" * 32  # one key under a collation that folds case
    padded, space, zero = b"a" * 31 + b"\x00", b"a" * 31 + b" ", b"a" * 31 + b"0"
    hmacs = [lower, upper, padded, space, zero]
    await put(record, *(row(content_hmac=hmac) for hmac in hmacs))
    assert {one.content_hmac for one in await record.active_rows("u1", GENERATION)} == set(hmacs)


async def test_nothing_to_insert_is_no_error(record: Record) -> None:
    await write(record, "insert", [])
    await write(record, "retire", [], 1)
    await write(record, "enqueue", [])
    assert await write(record, "rows", []) == []


async def test_retire_ends_active_rows_and_says_why(record: Record) -> None:
    gone, replaced, stays = row("a"), row("b"), row("c")
    await put(record, gone, replaced, stays)
    retirements = [
        Retirement(id=gone.id, reason=InvalidReason.EVICTED, at=START + 1),
        Retirement(
            id=replaced.id, reason=InvalidReason.SUPERSEDED, at=START + 2, superseded_by=stays.id, valid_to=START - 5
        ),
        Retirement(id=memory_id(0), reason=InvalidReason.CLEARED, at=START),
    ]
    await write(record, "retire", retirements, 7)
    assert await one_row(record, gone.id) == replace(gone, invalidated_at=START + 1, invalid_reason=3, revision=7)
    assert await one_row(record, replaced.id) == replace(
        replaced, invalidated_at=START + 2, invalid_reason=2, superseded_by=stays.id, valid_to=START - 5, revision=7
    )
    assert await record.active_rows("u1", GENERATION) == [stays]


async def test_retire_leaves_what_is_retired_as_it_is(record: Record) -> None:
    gone = row("a", invalidated_at=START, invalid_reason=2, superseded_by=memory_id(9), valid_to=START, revision=3)
    await put(record, gone)
    await write(record, "retire", [Retirement(id=gone.id, reason=InvalidReason.CLEARED, at=START + 9)], 8)
    assert await one_row(record, gone.id) == gone


async def test_writes_touch_no_row_of_another_user_or_generation(record: Record) -> None:
    shared_id = memory_id(77)
    mine, others = row("mine", id=shared_id), row("others", id=shared_id, user="u2")
    await put(record, mine, others)
    await write(record, "retire", [Retirement(id=shared_id, reason=InvalidReason.CLEARED, at=START)], 2, user="u2")
    await write(record, "amend", shared_id, 3, {"pinned": True}, user="u2")
    await write(record, "revive", shared_id, 4, START, user="u2")
    assert await one_row(record, shared_id) == mine
    old = row("old", user="u3", generation=OTHER_GENERATION)

    async def foreign_generation(tx: UserWrite) -> None:
        await tx.insert([old])  # as a destroyed generation leaves it
        await tx.retire([Retirement(id=old.id, reason=InvalidReason.CLEARED, at=START)], 2)
        await tx.amend(old.id, 2, {"pinned": True})
        await tx.revive(old.id, 2, START)
        assert await tx.rows([old.id]) == []
        assert await tx.active_rows() == []
        assert await tx.counters() == {}

    await record.write(head("u3"), foreign_generation)
    assert await record.rows("u3", OTHER_GENERATION, [old.id]) == [old]


async def test_revive_makes_a_row_active_again_and_counts_as_an_access(record: Record) -> None:
    gone = row(
        "a",
        invalidated_at=START,
        invalid_reason=2,
        superseded_by=memory_id(9),
        valid_to=START,
        revision=3,
        access_count=4,
        last_accessed_at=START - HOUR,
    )
    await put(record, gone)
    await write(record, "revive", gone.id, 9, START + 5)
    assert await record.active_rows("u1", GENERATION) == [
        replace(
            gone,
            invalidated_at=0,
            invalid_reason=0,
            superseded_by=None,
            valid_to=None,
            revision=9,
            access_count=5,
            last_accessed_at=START + 5,
        )
    ]


async def test_revive_beside_an_equal_active_row_is_refused(record: Record) -> None:
    gone, present = row("a", invalidated_at=START, invalid_reason=3), row("a")
    await put(record, gone, present)
    with pytest.raises(DuplicateContent):
        await write(record, "revive", gone.id, 2, START)
    assert await record.active_rows("u1", GENERATION) == [present]
    assert await one_row(record, gone.id) == gone


async def test_amend_sets_columns_of_one_row_in_place(record: Record) -> None:
    mine, beside = row("a", attributes=b"x", expires_at=START), row("b")
    await put(record, mine, beside)
    values: dict[str, Any] = {
        "pinned": True,
        "attributes": None,
        "expires_at": None,
        "embedding": b"\x00\xff",
        "embedding_space": "s",
    }
    await write(record, "amend", mine.id, 5, values)
    assert await one_row(record, mine.id) == replace(mine, revision=5, **values)
    assert await one_row(record, beside.id) == beside


async def test_since_answers_what_changed_active_or_not(record: Record) -> None:
    old, changed = row("a", revision=1), row("b", revision=3)
    gone = row("c", revision=4, invalidated_at=START, invalid_reason=1)
    await put(record, old, changed, gone)
    assert ids(await record.active_rows("u1", GENERATION)) == [old.id, changed.id]
    assert set(ids(await record.active_rows("u1", GENERATION, since=1))) == {changed.id, gone.id}
    assert ids(await record.active_rows("u1", GENERATION, since=3)) == [gone.id]
    assert await record.active_rows("u1", GENERATION, since=4) == []


async def test_reads_never_cross_users_or_generations(record: Record) -> None:
    same = memory_id(500)
    await put(record, row("a", id=same), row("b", id=same, user="u2"))
    assert [one.user_id for one in await record.rows("u1", GENERATION, [same])] == ["u1"]
    assert [one.user_id for one in await record.active_rows("u2", GENERATION)] == ["u2"]
    assert [one.user_id for one in await record.page("u2", GENERATION, RowFilter(active=None), None, 9)] == ["u2"]
    for user in ("u1", "U1", "u", "u%", "u_"):
        assert await record.rows(user, OTHER_GENERATION, [same]) == []
        assert await record.active_rows(user, OTHER_GENERATION) == []
        assert await record.active_rows(user, OTHER_GENERATION, since=0) == []
        assert await record.page(user, OTHER_GENERATION, RowFilter(active=None), None, 9) == []
    assert await record.rows("u%", GENERATION, [same]) == []


@pytest.mark.parametrize("user", ["' OR '1'='1", 'a" or true or "', "u1\\", "%", "u1;DROP TABLE user_memory", ":user"])
async def test_a_hostile_name_is_only_a_name(record: Record, user: str) -> None:
    mine, theirs = row("a"), row("b", user=user)
    await put(record, mine, theirs)
    assert await record.active_rows(user, GENERATION) == [theirs]
    assert await record.active_rows("u1", GENERATION) == [mine]
    assert await record.rows("u1", GENERATION, [user]) == []


# Collation and identity


async def test_identifiers_compare_by_bytes(record: Record) -> None:
    users = ["Alice", "alice", "ALICE", "álice", "alicE", "ALİCE", "ａlice"]
    await put(record, *(row(f"of {user}", user=user, id=memory_id(1)) for user in users))
    for user in users:
        assert [one.content_hmac for one in await record.active_rows(user, GENERATION)] == [digest(f"of {user}")]
        found = await record.head(user)
        assert found is not None
        assert found.user_id == user


async def test_sessions_and_ids_of_memories_compare_by_bytes(record: Record) -> None:
    first, second = row("a", id="ID-A", session_id="S1"), row("b", id="id-a", session_id="s1")
    await put(record, first, second)
    assert await record.rows("u1", GENERATION, ["ID-A"]) == [first]
    assert ids(await record.page("u1", GENERATION, RowFilter(session_id="s1"), None, 9)) == ["id-a"]


async def test_trailing_blanks_are_one_key_on_mariadb_so_no_identifier_may_have_them(
    record: Record, place: Place
) -> None:
    """`utf8mb4_bin` pads. The alphabet of identifiers (contract.md) has no blank; this pins down why."""
    await put(record, row("a", user="s1"))
    found = await record.head("s1 ")
    assert (found is None) == place.is_sqlite


# Pages


async def test_a_page_goes_by_falling_id_below_before_without_vectors(record: Record) -> None:
    rows = [row(f"t{n}", embedding=b"v", embedding_space="s") for n in range(7)]
    await put(record, *rows)
    newest_first = ids(rows)[::-1]
    first = await record.page("u1", GENERATION, RowFilter(), None, 3)
    assert ids(first) == newest_first[:3]
    assert first[0] == replace(rows[-1], embedding=None)
    second = await record.page("u1", GENERATION, RowFilter(), first[-1].id, 3)
    third = await record.page("u1", GENERATION, RowFilter(), second[-1].id, 3)
    assert ids(first) + ids(second) + ids(third) == newest_first
    assert await record.page("u1", GENERATION, RowFilter(), third[-1].id, 3) == []


async def test_a_page_of_active_rows_leaves_out_expired_ones(record: Record, clock: ManualClock) -> None:
    lives, gone = row("a", expires_at=START + SECOND), row("b", invalidated_at=START, invalid_reason=1)
    await put(record, lives, gone)
    assert ids(await record.page("u1", GENERATION, RowFilter(), None, 9)) == [lives.id]
    assert ids(await record.page("u1", GENERATION, RowFilter(active=False), None, 9)) == [gone.id]
    clock.advance(SECOND)
    assert await record.page("u1", GENERATION, RowFilter(), None, 9) == []
    assert ids(await record.page("u1", GENERATION, RowFilter(active=False), None, 9)) == [gone.id, lives.id]
    assert ids(await record.page("u1", GENERATION, RowFilter(active=None), None, 9)) == [gone.id, lives.id]
    assert ids(await record.active_rows("u1", GENERATION)) == [lives.id], "only a write can retire it"


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (RowFilter(), "abcd"),
        (RowFilter(types=frozenset({MemoryType.FACT})), "bd"),
        (RowFilter(types=frozenset({MemoryType.FACT, MemoryType.CONTEXT})), "bcd"),
        (RowFilter(shards=frozenset({Shard.IDENTITY, Shard.EMOTION})), "cd"),
        (RowFilter(session_id="s2"), "b"),
        (RowFilter(session_id="s3"), ""),
        (RowFilter(created_from=START + 1), "bcd"),
        (RowFilter(created_until=START + 1), "a"),
        (RowFilter(created_from=START + 1, created_until=START + 3), "bc"),
        (RowFilter(types=frozenset({MemoryType.FACT}), shards=frozenset({Shard.EMOTION})), "d"),
    ],
)
async def test_a_page_keeps_to_its_filter(record: Record, which: RowFilter, expected: str) -> None:
    rows = {
        "a": row("a", type=1, shard=1, session_id="s1", created_at=START),
        "b": row("b", type=2, shard=1, session_id="s2", created_at=START + 1),
        "c": row("c", type=3, shard=2, session_id="s1", created_at=START + 2),
        "d": row("d", type=2, shard=5, session_id="s1", created_at=START + 3),
    }
    await put(record, *rows.values())
    assert set(ids(await record.page("u1", GENERATION, which, None, 9))) == {rows[name].id for name in expected}


# Access counters


async def test_touch_adds_and_keeps_the_later_time(record: Record) -> None:
    fresh, seen = row("a"), row("b", access_count=5, last_accessed_at=START)
    gone = row("c", access_count=1, invalidated_at=START, invalid_reason=1)
    theirs = row("d", user="u2")
    await put(record, fresh, seen, gone, theirs)
    await record.touch(
        {
            ("u1", fresh.id): Counters(2, START + 1),
            ("u1", seen.id): Counters(3, START - 1),
            ("u1", gone.id): Counters(1, START),
            ("u2", theirs.id): Counters(4, None),
            ("u1", memory_id(0)): Counters(1, START),
        }
    )
    assert await one_row(record, fresh.id) == replace(fresh, access_count=2, last_accessed_at=START + 1)
    assert await one_row(record, seen.id) == replace(seen, access_count=8, last_accessed_at=START)
    assert await one_row(record, gone.id) == replace(gone, access_count=2, last_accessed_at=START)
    assert await one_row(record, theirs.id, "u2") == replace(theirs, access_count=4)
    await record.touch({("u1", seen.id): Counters(0, START + 9)})
    assert await one_row(record, seen.id) == replace(seen, access_count=8, last_accessed_at=START + 9)
    assert await record.head("u1") == head(), "counters alone are no change that a recall can see"


async def test_touching_nothing_is_no_error(record: Record) -> None:
    await record.touch({})


# Outcomes of calls with a request id


async def test_an_outcome_is_remembered_for_its_user_rpc_and_id(record: Record) -> None:
    kept = Remembered(bytes(range(32)), {"results": [{"memory": "喜欢 🐬", "similarity": 0.5, "matched": None}]})
    await write(record, "remember_outcome", "Save", "r1", kept)
    assert await write(record, "recall_outcome", "Save", "r1") == kept
    assert await write(record, "recall_outcome", "Save", "r2") is None
    assert await write(record, "recall_outcome", "Update", "r1") is None
    assert await write(record, "recall_outcome", "Save", "r1", user="u2") is None


async def test_an_outcome_is_forgotten_after_its_window_and_can_be_replaced(record: Record, clock: ManualClock) -> None:
    first, second = Remembered(b"1" * 32, {"n": 1}), Remembered(b"2" * 32, {"n": 2})
    await write(record, "remember_outcome", "Save", "r1", first)
    clock.advance(IDEMPOTENCY_WINDOW - 1)
    assert await write(record, "recall_outcome", "Save", "r1") == first
    clock.advance(1)
    assert await write(record, "recall_outcome", "Save", "r1") is None
    await write(record, "remember_outcome", "Save", "r1", second)
    assert await write(record, "recall_outcome", "Save", "r1") == second


async def test_an_outcome_is_of_its_generation(record: Record, place: Place) -> None:
    await write(record, "remember_outcome", "Save", "r1", UNTOUCHED)
    await place.sql(f"UPDATE memory_head SET generation = '{OTHER_GENERATION}'")
    assert await write(record, "recall_outcome", "Save", "r1") is None


async def test_an_outcome_of_a_full_batch_fits(record: Record) -> None:
    ids_of_batch = {"memories": [memory_id(n) for n in range(3000)]}
    await write(record, "remember_outcome", "BatchSave", "r1", Remembered(b"x" * 32, ids_of_batch))
    assert (await write(record, "recall_outcome", "BatchSave", "r1")).outcome == ids_of_batch


# Many at once


async def test_ten_thousand_rows_are_read_listed_retired_and_queued_at_once(
    record: Record, database: Database, clock: ManualClock
) -> None:
    rows = [row() for _ in range(10_000)]
    all_ids = ids(rows)

    async def save(tx: UserWrite) -> None:
        await tx.insert(rows)
        await tx.enqueue(all_ids)

    await record.write(head(), save, seconds=60)
    assert await SqlOutbox(database, clock).recent("u1") == set(all_ids)
    assert set(ids(await record.rows("u1", GENERATION, all_ids))) == set(all_ids)
    retirements = [Retirement(id=id, reason=InvalidReason.CLEARED, at=START) for id in all_ids]

    async def clear(tx: UserWrite) -> None:
        await tx.retire(retirements, 2)
        await tx.enqueue(all_ids)
        await tx.set_head(version=2)

    await record.write(head(), clear, seconds=60)
    assert await record.active_rows("u1", GENERATION) == []
    assert len(await record.active_rows("u1", GENERATION, since=1)) == 10_000


async def test_ping_asks_the_tables(record: Record) -> None:
    await record.ping()
