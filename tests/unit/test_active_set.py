"""The snapshot of a user's active memories: arrays in step with ids, whatever changes."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from memory_service.domain.active_set import NEVER, ActiveSet
from memory_service.domain.keywords import tokens
from memory_service.domain.model import InvalidReason, Memory, MemoryType, Shard, Vector
from tests.records import GENERATION, SPACE, START, digest, memory_id

DIM = 4


def unit(*values: float) -> Vector:
    vector = np.array(values, np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def memory(number: int, content: str = "", **values: Any) -> Memory:
    content = content or f"memory {number}"
    given: dict[str, Any] = {
        "id": memory_id(number),
        "type": MemoryType.FACT,
        "shard": Shard.GENERAL,
        "content": content,
        "created_at": START + number,
        "valid_from": START,
        "content_hash": digest(content),
        "revision": 1,
        "space": SPACE,
        "vector": unit(1, number, 0, 1),
    }
    return Memory(**given | values)


def retired(one: Memory) -> Memory:
    return replace(one, invalidated_at=START, invalid_reason=InvalidReason.INVALIDATED)


def active_set(*memories: Memory, version: int = 1) -> ActiveSet:
    return ActiveSet.of(memories, generation=GENERATION, version=version, space=SPACE)


def in_step(active: ActiveSet) -> None:
    """Everything the snapshot says of a memory stands at its place."""
    n = len(active)
    assert set(active.ids) == set(active.memories) == set(active.rows)
    lengths = (active.matrix, active.embedded, active.types, active.shards, active.happened, active.expires)
    assert [len(array) for array in lengths] == [n] * 6
    assert len(active.by_hash) == len(active.keywords) == n
    for id, one in active.memories.items():
        row = active.rows[id]
        assert active.ids[row] == id
        assert active.by_hash[one.content_hash] == id
        assert (active.types[row], active.shards[row]) == (one.type, one.shard)
        assert (active.happened[row], active.expires[row]) == (one.happened_at, one.expires_at or NEVER)
        usable = one.vector is not None and one.space == active.space
        assert active.embedded[row] == usable
        if one.vector is not None and usable:
            assert np.array_equal(active.matrix[row], one.vector)
        assert id in active.keywords.holding(tokens(one.content))
    fresh = ActiveSet.of(
        active.memories.values(), generation=active.generation, version=active.version, space=active.space
    )
    assert active.size_bytes == fresh.size_bytes


def test_an_empty_set_answers_nothing() -> None:
    empty = active_set()
    in_step(empty)
    assert len(empty) == empty.size_bytes == 0
    assert empty.cosines(unit(1, 0, 0, 0)).shape == (0,)
    assert empty.mask(types=frozenset({MemoryType.FACT}), shards=frozenset(), now=START).shape == (0,)


def test_a_set_is_of_its_generation_version_and_space() -> None:
    active = active_set(memory(1), version=7)
    assert (active.generation, active.version, active.space) == (GENERATION, 7, SPACE)
    assert active.changed([], version=9).version == 9


def test_retired_memories_are_left_out() -> None:
    active = active_set(memory(1), retired(memory(2)))
    in_step(active)
    assert active.ids == (memory_id(1),)


def test_a_change_puts_in_replaces_and_takes_out() -> None:
    before = active_set(memory(1), memory(2), memory(3))
    after = before.changed(
        [replace(memory(2), pinned=True, expires_at=START + 5), retired(memory(1)), memory(4)], version=2
    )
    in_step(after)
    assert set(after.ids) == {memory_id(n) for n in (2, 3, 4)}
    assert after.memories[memory_id(2)].pinned
    assert digest("memory 1") not in after.by_hash


def test_snapshots_in_use_stay_as_they_are() -> None:
    before = active_set(memory(1), memory(2))
    ids, matrix = before.ids, before.matrix.copy()
    before.changed([retired(memory(1)), memory(3), replace(memory(2), vector=unit(0, 0, 0, 1))], version=2)
    in_step(before)
    assert before.ids == ids
    assert np.array_equal(before.matrix, matrix)
    assert before.version == 1


def test_of_several_rows_of_one_memory_the_last_counts() -> None:
    active = active_set(memory(1))
    assert len(active.changed([retired(memory(1)), memory(1)], version=2)) == 1
    assert len(active.changed([memory(1), retired(memory(1))], version=2)) == 0
    in_step(active.changed([memory(2), replace(memory(2), pinned=True)], version=2))


def test_a_text_saved_again_after_its_row_was_retired_belongs_to_the_new_row() -> None:
    old, new = memory(1, "espresso"), memory(2, "espresso")
    for rows in ([retired(old), new], [new, retired(old)]):
        after = active_set(old).changed(rows, version=2)
        in_step(after)
        assert after.by_hash == {digest("espresso"): new.id}


def test_taking_out_what_is_not_there_changes_nothing() -> None:
    after = active_set(memory(1)).changed([retired(memory(9))], version=2)
    in_step(after)
    assert after.ids == (memory_id(1),)


def test_memories_without_a_vector_of_this_space_have_no_cosine() -> None:
    active = active_set(
        memory(1, vector=unit(1, 0, 0, 0)),
        memory(2, vector=None, space=None),
        memory(3, vector=unit(1, 0), space="space-b"),
        memory(4, vector=unit(0, 1, 0, 0)),
    )
    in_step(active)
    cosines = active.cosines(unit(1, 1, 0, 0))
    assert cosines.dtype == np.float32
    assert np.isnan(cosines).tolist() == [False, True, True, False]
    assert cosines[[0, 3]] == pytest.approx([2**-0.5] * 2)


@pytest.mark.parametrize("first", [None, unit(1, 0, 0, 0)])
def test_the_first_vector_may_come_late(first: Vector | None) -> None:
    bare = memory(1, vector=None, space=None)
    active = active_set(bare)
    assert np.isnan(active.cosines(unit(1, 0, 0, 0))).all()
    late = active.changed([replace(bare, vector=first, space=SPACE if first is not None else None)], version=2)
    in_step(late)
    assert np.isnan(late.cosines(unit(1, 0, 0, 0))).tolist() == [first is None]


def test_vectors_may_all_go_and_come_back() -> None:
    active = active_set(memory(1)).changed([retired(memory(1))], version=2).changed([memory(2)], version=3)
    in_step(active)
    assert active.cosines(unit(1, 2, 0, 1)) == pytest.approx([1.0])


def test_a_mask_keeps_what_fits_all_conditions() -> None:
    active = active_set(
        memory(1, type=MemoryType.PREFERENCE, shard=Shard.EMOTION, occurred_at=100),
        memory(2, type=MemoryType.FACT, shard=Shard.EMOTION, occurred_at=200),
        memory(3, type=MemoryType.FACT, shard=Shard.GENERAL, expires_at=START),
    )

    def fits(**conditions: Any) -> list[bool]:
        found: list[bool] = active.mask(**conditions).tolist()
        return found

    assert fits() == [True, True, True]
    assert fits(types=frozenset({MemoryType.FACT})) == [False, True, True]
    assert fits(types=frozenset()) == [True, True, True], "no types = all"
    assert fits(shards=frozenset({Shard.EMOTION})) == [True, True, False]
    assert fits(shards=frozenset()) == [False, False, False], "no shards = none"
    assert fits(happened_from=200) == [False, True, True], "from is inclusive; created_at stands in for occurred_at"
    assert fits(happened_until=200) == [True, False, False], "until is exclusive"
    assert fits(now=START - 1) == [True, True, True]
    assert fits(now=START) == [True, True, False], "expired in that very moment"
    assert fits(types=frozenset({MemoryType.FACT}), shards=frozenset({Shard.EMOTION}), now=START) == [
        False,
        True,
        False,
    ]


def test_any_history_of_changes_ends_where_reading_anew_does() -> None:
    rng = random.Random(7)
    active, model = active_set(), dict[str, Memory]()
    for version in range(2, 120):
        rows = []
        for _ in range(rng.randrange(4)):
            number = rng.randrange(25)
            vector = rng.choice([None, unit(*(rng.random() + 0.01 for _ in range(DIM)))])
            one = memory(
                number,
                f"{rng.choice(['coffee', '咖啡', 'tea'])} {number} v{version}",
                vector=vector,
                space=SPACE if vector is not None else None,
                expires_at=rng.choice([None, START + version]),
            )
            rows.append(one if rng.random() < 0.6 else retired(one))
        for row in rows:
            model.pop(row.id, None)
            if row.active:
                model[row.id] = row
        active = active.changed(rows, version=version)
        assert active.memories.keys() == model.keys()
        assert {one.content for one in active.memories.values()} == {one.content for one in model.values()}
        in_step(active)
