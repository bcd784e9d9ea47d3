"""What one transaction does, decided before a row is written: each decision sees the ones before it."""

from typing import Any

import numpy as np
import pytest

from memory_service.domain.active_set import ActiveSet
from memory_service.domain.changes import Changes
from memory_service.domain.model import InvalidReason, Memory, MemoryType, Shard
from tests.records import GENERATION, SPACE, START, digest, memory_id

NOW = START + 1000
REVISION = 8


def memory(number: int, **values: Any) -> Memory:
    given: dict[str, Any] = {
        "id": memory_id(number),
        "type": MemoryType.FACT,
        "shard": Shard.GENERAL,
        "content": f"memory {number}",
        "created_at": START,
        "valid_from": START,
        "content_hash": digest(f"memory {number}"),
        "revision": 1,
    }
    return Memory(**given | values)


def gone(number: int) -> Memory:
    return memory(
        number,
        invalidated_at=START + 5,
        invalid_reason=InvalidReason.SUPERSEDED,
        superseded_by=memory_id(99),
        valid_to=START + 5,
        access_count=3,
        last_accessed_at=START,
    )


def changes(*memories: Memory) -> Changes:
    active = ActiveSet.of(memories, generation=GENERATION, version=REVISION - 1, space=SPACE)
    return Changes(active, NOW, REVISION)


def test_at_first_nothing_is_to_be_seen() -> None:
    c = changes(memory(1))
    assert not c.visible
    c.accessed.append(memory_id(1))
    assert not c.visible, "counters alone are no change that a recall can see"
    assert c.current.version == REVISION - 1
    c.retire_expired()
    assert c.retire_all([], InvalidReason.CLEARED) == 0
    assert not c.visible


def test_an_insert_is_seen_by_what_follows() -> None:
    c = changes()
    new = c.insert(memory(1, revision=0))
    assert new.revision == REVISION
    assert c.memory(new.id) is c.inserted[new.id] is c.current.memories[new.id] is new
    assert c.current.by_hash == {new.content_hash: new.id}
    assert c.current.version == REVISION
    assert c.visible


def test_a_memory_inserted_as_retired_is_written_but_not_active() -> None:
    c = changes(memory(1))
    older = c.insert(gone(2))
    assert older.revision == REVISION
    assert older.superseded_by == memory_id(99)
    assert c.current.ids == (memory_id(1),)
    assert c.memory(older.id) is older
    assert c.visible


def test_a_retirement_says_why_when_and_for_whom() -> None:
    c = changes(memory(1), memory(2))
    ended = c.retire(memory_id(1), InvalidReason.EVICTED, superseded_by=memory_id(2), valid_to=START + 3)
    assert (ended.invalidated_at, ended.invalid_reason, ended.revision) == (NOW, InvalidReason.EVICTED, REVISION)
    assert (ended.superseded_by, ended.valid_to) == (memory_id(2), START + 3)
    assert c.retired == {ended.id: ended}
    assert c.memory(ended.id) is ended
    assert c.current.ids == (memory_id(2),)


@pytest.mark.parametrize("number", [1, 9])
def test_only_what_is_active_can_be_retired_or_amended(number: int) -> None:
    c = changes(memory(1))
    c.retire(memory_id(1), InvalidReason.INVALIDATED)
    with pytest.raises(KeyError):
        c.retire(memory_id(number), InvalidReason.INVALIDATED)
    with pytest.raises(KeyError):
        c.amend(memory_id(number), {"pinned": True})


def test_what_was_inserted_and_retired_is_written_once_as_retired() -> None:
    c = changes()
    new = c.insert(memory(1))
    ended = c.retire(new.id, InvalidReason.SUPERSEDED, superseded_by=memory_id(2))
    assert c.inserted == {new.id: ended}
    assert c.retired == {}
    assert len(c.current) == 0


def test_a_text_can_be_saved_again_after_its_row_was_retired() -> None:
    c = changes(memory(1))
    c.retire(memory_id(1), InvalidReason.INVALIDATED)
    c.insert(memory(2, content_hash=digest("memory 1")))
    assert c.current.by_hash == {digest("memory 1"): memory_id(2)}
    assert set(c.retired) == {memory_id(1)}
    assert set(c.inserted) == {memory_id(2)}


@pytest.mark.parametrize(
    ("successor_from", "until"), [(START + 7, START + 7), (START, NOW), (START - 7, NOW), (NOW + 7, NOW + 7)]
)
def test_a_superseded_memory_held_until_its_successor_began(successor_from: int, until: int) -> None:
    c = changes(memory(1, valid_from=START))
    successor = c.insert(memory(2, valid_from=successor_from))
    ended = c.supersede(memory_id(1), successor)
    assert (ended.superseded_by, ended.invalid_reason) == (successor.id, InvalidReason.SUPERSEDED)
    assert ended.valid_to == until
    assert ended.valid_to > ended.valid_from


def test_what_comes_back_is_as_if_it_had_stayed_and_counts_as_an_access() -> None:
    c = changes(memory(1))
    back = c.revive(gone(2))
    assert back.active
    assert (back.invalid_reason, back.superseded_by, back.valid_to) == (InvalidReason.NONE, None, None)
    assert (back.access_count, back.last_accessed_at, back.revision) == (4, NOW, REVISION)
    assert c.revived == {back.id: back}
    assert c.current.memories[back.id] is c.memory(back.id) is back
    assert c.visible


def test_amendments_gather_by_row() -> None:
    c = changes(memory(1))
    c.amend(memory_id(1), {"pinned": True})
    vector = np.ones(3, np.float32)
    after = c.amend(memory_id(1), {"attributes": {"a": "b"}, "vector": vector, "space": SPACE})
    assert c.amended == {memory_id(1): {"pinned": True, "attributes": {"a": "b"}, "vector": vector, "space": SPACE}}
    assert after.pinned
    assert after.revision == REVISION
    assert c.current.memories[memory_id(1)] is after
    assert c.current.embedded.tolist() == [True]


def test_an_amended_insert_is_one_insert() -> None:
    c = changes()
    c.insert(memory(1))
    after = c.amend(memory_id(1), {"pinned": True})
    assert c.inserted == {memory_id(1): after}
    assert c.amended == {}


def test_what_was_amended_and_then_retired_is_both() -> None:
    """A vector that comes late shows that the row is a duplicate: it is kept with the row all the same."""
    c = changes(memory(1), memory(2))
    vector = np.ones(3, np.float32)
    c.amend(memory_id(1), {"vector": vector, "space": SPACE})
    ended = c.retire(memory_id(1), InvalidReason.DUPLICATE, superseded_by=memory_id(2))
    assert ended.vector is vector
    assert set(c.amended) == set(c.retired) == {memory_id(1)}
    found = c.memory(memory_id(1))
    assert found is not None
    assert found.vector is vector


def test_what_came_back_and_was_amended_is_known_as_it_is_now() -> None:
    c = changes()
    back = c.revive(gone(1))
    c.amend(back.id, {"pinned": True})
    found = c.memory(back.id)
    assert found is not None
    assert found.pinned
    assert found.active


def test_expired_memories_are_retired_before_any_decision() -> None:
    c = changes(memory(1, expires_at=NOW), memory(2, expires_at=NOW + 1), memory(3, expires_at=START), memory(4))
    c.retire_expired()
    assert {one.id: (one.invalid_reason, one.valid_to) for one in c.retired.values()} == {
        memory_id(1): (InvalidReason.EXPIRED, NOW),
        memory_id(3): (InvalidReason.EXPIRED, START),
    }
    assert set(c.current.ids) == {memory_id(2), memory_id(4)}


def test_many_are_retired_at_once_as_one_by_one() -> None:
    all_at_once, one_by_one = changes(*map(memory, range(6))), changes(*map(memory, range(6)))
    ids = [memory_id(n) for n in (0, 2, 5)]
    assert all_at_once.retire_all(ids, InvalidReason.CLEARED) == 3
    for id in ids:
        one_by_one.retire(id, InvalidReason.CLEARED)
    for a, b in zip(all_at_once.retired.values(), one_by_one.retired.values(), strict=True):
        assert (a.id, a.invalidated_at, a.invalid_reason, a.valid_to, a.revision) == (
            b.id,
            b.invalidated_at,
            b.invalid_reason,
            b.valid_to,
            b.revision,
        )
    assert set(all_at_once.current.ids) == set(one_by_one.current.ids)
    assert all_at_once.current.version == REVISION


def test_nothing_is_known_of_what_is_not_there() -> None:
    assert changes(memory(1)).memory(memory_id(2)) is None


def test_the_snapshot_it_began_with_stays_as_it_was() -> None:
    c = changes(memory(1), memory(2))
    began = c.current
    c.retire(memory_id(1), InvalidReason.CLEARED)
    c.insert(memory(3))
    c.amend(memory_id(2), {"pinned": True})
    assert began.ids == (memory_id(1), memory_id(2))
    assert not began.memories[memory_id(2)].pinned
    assert (began.version, c.current.version) == (REVISION - 1, REVISION)
