"""How drafts of an extraction meet the memories that are there: all types, both persons, the order of what was said;
and what a failed extraction means for its job.
"""

from typing import Any

import numpy as np
import pytest

from memory_service.conversation_ports import ExtractionJob
from memory_service.domain.active_set import ActiveSet
from memory_service.domain.changes import Changes
from memory_service.domain.dedup import DedupPolicy
from memory_service.domain.extraction.parsing import Unparseable
from memory_service.domain.model import InvalidReason, Memory, MemoryType, Outcome, ReasonCode, Shard
from memory_service.domain.saving import Prepared, SavingPolicy, save
from memory_service.domain.space import make_space
from memory_service.ports import KeyMissing, StoreUnavailable
from memory_service.service.extraction_faults import ALONE, OWN_FAULTS, PATIENCE, TRIES, next_step
from memory_service.service.vault import Unreadable
from shared.llm import ModelTimeout, ModelUnavailable

FACT, PREFERENCE, CONTEXT = MemoryType.FACT, MemoryType.PREFERENCE, MemoryType.CONTEXT
DIM = 8
SPACE = make_space("m", np.zeros(DIM), np.zeros(DIM), ((-1.0, -1.0), (1.0, 1.0)), ((-1.0, -1.0), (1.0, 1.0)))
POLICY = SavingPolicy(dedup=DedupPolicy(), space=SPACE, max_active=200, grace=0, across_types=True)
NOW = 1_000


def vector(*numbers: float) -> Any:
    found = np.zeros(DIM, np.float32)
    found[: len(numbers)] = numbers
    return found / np.linalg.norm(found)


def memory(id: str, content: str, type: MemoryType = FACT, at: int = 1, **more: Any) -> Memory:
    return Memory(
        id=id,
        type=type,
        shard=more.pop("shard", Shard.GENERAL),
        content=content,
        created_at=at,
        valid_from=more.get("occurred_at", at),
        content_hash=f"{type}{content}".encode(),
        revision=1,
        space=SPACE.id,
        **{"vector": vector(1.0, len(id)), **more},
    )


def changes(*memories: Memory) -> Changes:
    return Changes(ActiveSet.of(memories, generation="g", version=1, space=SPACE.id), NOW, 2)


def draft(content: str, type: MemoryType = FACT, at: int = 500, **more: Any) -> Prepared:
    given = {name: more.pop(name) for name in ("supersedes", "newer", "other") if name in more}
    return Prepared(memory("new", content, type, at, **more), cut=False, **given)


@pytest.mark.parametrize("said", ["我喜欢喝美式咖啡", "用户喜欢喝美式咖啡。"])
def test_what_was_saved_in_the_turn_is_not_saved_again_in_the_other_person(said: str) -> None:
    now = changes(memory("a", said, PREFERENCE, shard=Shard.IDENTITY))
    verdict = save(now, draft("用户喜欢喝美式咖啡", vector=vector(0, 0, 1)), POLICY)
    assert (verdict.outcome, verdict.code, verdict.memory_id) == (Outcome.DUPLICATE, ReasonCode.EXACT, "a")
    assert not now.visible


def test_the_same_meaning_of_another_type_is_a_duplicate_by_either_vector() -> None:
    for more in ({"vector": vector(1, 0.1)}, {"vector": vector(0, 1), "other": vector(1, 0.1)}):
        now = changes(memory("a", "我喜欢喝茶", PREFERENCE, vector=vector(1)))
        verdict = save(now, draft("用户特别喜欢喝茶", **more), POLICY)
        assert (verdict.outcome, verdict.code) == (Outcome.DUPLICATE, ReasonCode.SAME_MEANING)


def test_likeness_never_replaces_a_memory_of_another_type() -> None:
    near = {"vector": vector(1, 0.6)}
    assert save(
        changes(memory("a", "用户住在上海", vector=vector(1))), draft("用户住在杭州", **near), POLICY
    ).superseded_ids
    other = save(changes(memory("a", "用户住在上海", CONTEXT, vector=vector(1))), draft("用户住在杭州", **near), POLICY)
    assert (other.outcome, other.superseded_ids) == (Outcome.ADDED, ())


def test_likeness_never_lets_an_older_turn_replace_a_newer_memory() -> None:
    now = changes(memory("a", "用户住在上海", at=600, vector=vector(1)))
    verdict = save(now, draft("用户住在杭州", at=500, vector=vector(1, 0.6)), POLICY)
    assert verdict.code is ReasonCode.OLDER
    assert list(now.current.memories) == ["a"]


def test_superseding_moves_to_a_memory_that_says_it_already() -> None:
    now = changes(
        memory("a", "用 MySQL 8", vector=vector(0, 1)), memory("b", "项目用 PostgreSQL", CONTEXT, vector=vector(1))
    )
    verdict = save(now, draft("项目用的是 PostgreSQL", vector=vector(1, 0.1), supersedes=("a",)), POLICY)
    assert (verdict.outcome, verdict.memory_id, verdict.superseded_ids) == (Outcome.DUPLICATE, "b", ("a",))
    assert now.retired["a"].superseded_by == "b"


def test_an_update_that_is_near_its_target_is_an_update() -> None:
    now = changes(memory("a", "用户养了一只猫", vector=vector(1)))
    verdict = save(now, draft("用户养了一只叫咪咪的猫", vector=vector(1, 0.05), supersedes=("a",)), POLICY)
    assert (verdict.outcome, verdict.superseded_ids) == (Outcome.REPLACED, ("a",))


def test_what_was_said_before_something_newer_is_kept_as_superseded() -> None:
    now = changes(memory("a", "用 Oracle", at=1), memory("b", "用 PostgreSQL", at=600))
    verdict = save(now, draft("用 MySQL 8", newer=("b",), supersedes=("a",)), POLICY)
    assert (verdict.outcome, verdict.code, verdict.superseded_ids) == (Outcome.ADDED, ReasonCode.OLDER, ("a",))
    assert list(now.current.memories) == ["b"]
    kept = now.inserted["new"]
    assert (kept.invalid_reason, kept.superseded_by) == (InvalidReason.SUPERSEDED, "b")
    assert now.retired["a"].superseded_by == "new"


def job(attempts: int = 1, created_at: int = 0) -> ExtractionJob:
    return ExtractionJob(
        user_id="u",
        generation="g",
        position=1,
        session_id="s",
        turn=1,
        time_zone="UTC",
        created_at=created_at,
        attempts=attempts,
        lease=1,
    )


def step(error: Exception, attempts: int = 1, now: int = 10, answered_at: int = 0) -> tuple[str, bool]:
    code, delay = next_step(job(attempts), error, now=now, answered_at=answered_at)
    assert delay is None or delay > 0
    return code, delay is not None


@pytest.mark.parametrize(
    ("error", "code", "again"),
    [
        (ModelUnavailable("x"), "MODEL_UNAVAILABLE", True),
        (ModelUnavailable("x", status=429), "MODEL_429", True),
        (ModelUnavailable("x", status=500), "MODEL_500", True),
        (ModelUnavailable("x", status=401), "MODEL_401", True),
        (ModelUnavailable("x", status=400), "MODEL_400", True),
        (ModelTimeout("x"), "MODEL_TIMEOUT", True),
        (StoreUnavailable("embedding", "x"), "EMBEDDING_UNAVAILABLE", True),
        (KeyMissing("k1"), "KEY_MISSING", True),
        (Unreadable("x"), "UNREADABLE", False),
        (Unparseable("NOT_JSON", "x"), "PARSE_FAILED", False),
        (Unparseable("WRONG_SHAPE", "x"), "PARSE_FAILED", False),
        (Unparseable("TRUNCATED", "x"), "ANSWER_TRUNCATED", False),
        (Unparseable("EMPTY", "x"), "ANSWER_EMPTY", False),
        (Unparseable("REFUSED", "x"), "ANSWER_REFUSED", False),
        (RuntimeError("x"), "INTERNAL", True),
    ],
)
def test_what_a_failure_means(error: Exception, code: str, again: bool) -> None:
    assert step(error) == (code, again)


def test_a_model_that_is_away_is_waited_for() -> None:
    away = ModelUnavailable("x", status=503)
    assert step(away, attempts=TRIES * 10, now=PATIENCE - 1)[1]
    assert step(away, attempts=TRIES - 1, now=PATIENCE * 2)[1]
    assert not step(away, attempts=TRIES, now=PATIENCE + 1)[1]


def test_a_turn_that_fails_alone_is_given_up() -> None:
    late = ModelTimeout("x")
    assert step(late, attempts=ALONE)[1]
    assert not step(late, attempts=ALONE, answered_at=5)[1]
    assert step(ModelUnavailable("x", status=429), attempts=ALONE, answered_at=5)[1]
    assert not step(ModelUnavailable("x", status=400), attempts=OWN_FAULTS)[1]
    assert not step(RuntimeError("x"), attempts=OWN_FAULTS)[1]


def test_it_is_tried_later_each_time_and_not_before_the_endpoint_wants_it() -> None:
    delays = [next_step(job(n), ModelUnavailable("x"), now=0, answered_at=0)[1] or 0 for n in (1, 4, 9, 2000)]
    assert 500_000 <= delays[0] <= 1_500_000 < 4_000_000 <= delays[1] <= 12_000_000
    assert delays[3] <= 450_000_000
    asked = next_step(job(), ModelUnavailable("x", status=429, retry_after=60), now=0, answered_at=0)
    assert asked == ("MODEL_429", 60_000_000)
