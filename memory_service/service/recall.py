"""Recall: embed the query, score by meaning and by keyword, rank, and never answer what the record does not hold.

The active set, validated against the head, decides what exists; the index only proposes. What the index may not show
yet is scored exactly, so that a save is visible to the next recall on every replica.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.active_set import ActiveSet
from memory_service.domain.constraints import AttributeFilter, Match, matches
from memory_service.domain.keywords import asks_nothing, identifiers, rare_names
from memory_service.domain.kinds import keyword_scores
from memory_service.domain.model import Degraded, Head, Leg, Memory, MemoryType, Micros, Shard, Vector
from memory_service.domain.ranking import Candidate, Ranked, RankingPolicy, rank, shortlist
from memory_service.domain.subjects import about_others, chinese, of_self, one_question
from memory_service.ports import Clock, IndexHit, IndexQuery, StoreUnavailable, VectorIndex
from memory_service.record import Outbox, Record
from memory_service.service.access import AccessLog
from memory_service.service.active import ActiveSets
from memory_service.service.calls import Caller, Freshness
from memory_service.service.embedding import Embeddings
from memory_service.service.stores import Stores, in_time
from memory_service.service.tunables import LiveTunables
from memory_service.service.vault import Keyring
from shared.telemetry import Telemetry

log = logging.getLogger(__name__)

OVERFETCH = 4
"""Index hits asked for per wanted hit: some fall to conditions that only the record knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to recall; empty or None = no restriction."""

    query: str
    top_k: int
    types: frozenset[MemoryType] = frozenset()
    shards: frozenset[Shard] = frozenset()
    attributes: tuple[AttributeFilter, ...] = ()
    strict: bool = False
    happened_from: Micros | None = None
    happened_until: Micros | None = None
    min_similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory and why it was found."""

    memory: Memory
    score: float
    similarity: float | None
    keyword_score: float | None
    legs: tuple[Leg, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What a recall answers."""

    hits: Sequence[Hit]
    freshness: Freshness
    degraded: frozenset[Degraded] = frozenset()
    legs_used: tuple[Leg, ...] = ()


@dataclass(slots=True)
class _Dense:
    """What the dense leg found: (n,) similarities on the calibrated scale, NaN where it says nothing."""

    similarities: NDArray[np.float64] | None = None
    leg: Leg = Leg.EXACT
    degraded: set[Degraded] = field(default_factory=set)


class Recall:
    """RecallMemories."""

    def __init__(
        self,
        *,
        record: Record,
        keyring: Keyring,
        active: ActiveSets,
        embeddings: Embeddings,
        index: VectorIndex | None,
        outbox: Outbox,
        tunables: LiveTunables,
        access: AccessLog,
        stores: Stores,
        telemetry: Telemetry,
        clock: Clock,
    ) -> None:
        self._record = record
        self._keyring = keyring
        self._active = active
        self._embeddings = embeddings
        self._index = index
        self._outbox = outbox
        self._tunables = tunables
        self._access = access
        self._stores = stores
        self._clock = clock
        self._stale = telemetry.meter.create_counter(
            "recall.stale_vectors", unit="1", description="Index hits that the record does not hold as active."
        )

    async def recall(self, caller: Caller, question: Question) -> Recalled:
        """The memories that relate to the question, best first. StoreUnavailable("record") when the record is away."""
        head = await self._record.head(caller.user_id)
        if head is None:
            return Recalled(hits=(), freshness=Freshness("", 0), legs_used=(Leg.EXACT, Leg.KEYWORD))
        key = await self._keyring.get(caller.user_id, head.generation)
        active = await self._active.read(head, key)
        freshness = Freshness(active.generation, active.version)
        fits = self._fitting(active, caller, question)
        if asks_nothing(question.query) or not fits.any():
            return Recalled(hits=(), freshness=freshness, degraded=self._known_down())
        question = replace(question, shards=caller.within(question.shards) or frozenset())
        dense = await self._dense(head, active, question, fits)
        hits = self._ranked(active, question, fits, dense)
        self._access.add(caller.user_id, [hit.memory.id for hit in hits])
        return Recalled(
            hits=hits,
            freshness=freshness,
            degraded=frozenset(dense.degraded) | self._known_down(),
            legs_used=((dense.leg,) if dense.similarities is not None else ()) + (Leg.KEYWORD,),
        )

    def _known_down(self) -> frozenset[Degraded]:
        return frozenset({Degraded.CACHE} if self._stores.down("cache") else ())

    def _fitting(self, active: ActiveSet, caller: Caller, question: Question) -> NDArray[np.bool_]:
        return active.mask(
            types=question.types,
            shards=caller.within(question.shards),
            happened_from=question.happened_from,
            happened_until=question.happened_until,
            now=self._clock(),
        )

    async def _dense(self, head: Head, active: ActiveSet, question: Question, fits: NDArray[np.bool_]) -> _Dense:
        space = self._embeddings.space(head.space)
        try:
            vector = await in_time("embedding", self._embeddings.query(head.space, question.query))
        except StoreUnavailable as error:
            log.debug("recall by keyword only: %s", error)
            return _Dense(degraded={Degraded.EMBEDDING})
        if space is None:
            return _Dense(degraded={Degraded.EMBEDDING})
        dense = _Dense()
        cosines = active.cosines(vector)
        recall = self._tunables.now.recall
        if self._index is not None and (recall.dense_leg == "index" or len(active) > recall.exact_limit):
            try:
                found = await self._search(self._index, head, question, vector)
                near = await self._proposed(found, head, active, question, fits)
                cosines = np.where(near & fits, cosines, np.nan)
                dense.leg = Leg.INDEX
            except StoreUnavailable as error:
                log.debug("meaning is compared exactly: %s", error)
                dense.degraded.add(Degraded.INDEX)
        likeness = space.recall_similarity(cosines, of_self=of_self(question.query))
        dense.similarities = np.where(fits, likeness, np.nan)
        return dense

    async def _search(self, index: VectorIndex, head: Head, question: Question, vector: Vector) -> list[IndexHit]:
        if self._stores.index_down:
            raise StoreUnavailable("index", "not asked: it did not answer when it was last asked")
        query = IndexQuery(
            user_id=head.user_id,
            generation=head.generation,
            vector=vector,
            limit=OVERFETCH * question.top_k + 20,
            types=question.types,
            shards=question.shards,
            happened_from=question.happened_from,
            happened_until=question.happened_until,
        )
        return await in_time("index", index.search(head.space, query))

    async def _proposed(
        self,
        found: Sequence[IndexHit],
        head: Head,
        active: ActiveSet,
        question: Question,
        fits: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """(n,) which memories the index proposes, with those it may not show yet. What is not active goes back to the
        outbox: the record decides what becomes of its vector. StoreUnavailable when the index has lost all it had."""
        stale = [(head.user_id, hit.memory_id) for hit in found if hit.memory_id not in active.memories]
        if stale:
            self._stale.add(len(stale))
            await self._outbox.enqueue(stale)
        near = {hit.memory_id for hit in found} | await self._outbox.recent(head.user_id)
        if not found and any(fits[row] and active.embedded[row] for id, row in active.rows.items() if id not in near):
            raise StoreUnavailable("index", "it has no vector of a user who has some")
        if question.attributes:
            # The index knows no attributes: what they select counts however many others are nearer.
            given = question.attributes
            near.update(id for id, m in active.memories.items() if matches(given, m.attributes) is Match.MATCH)
        return np.fromiter((id in near for id in active.ids), np.bool_, len(active))

    def _ranked(self, active: ActiveSet, question: Question, fits: NDArray[np.bool_], dense: _Dense) -> list[Hit]:
        policy = self._tunables.now.ranking(question.min_similarity, keyword_alone=dense.similarities is None)
        row_of = active.rows
        by_form = identifiers(question.query)
        named = by_form | rare_names(question.query, active.keywords)
        scores = {id: s for id, s in keyword_scores(question.query, active.keywords).items() if fits[row_of[id]]}
        identified = {id for id in active.keywords.holding(named) if fits[row_of[id]]} if named else set()
        single, in_chinese = one_question(question.query), chinese(question.query)
        another = about_others(question.query)
        candidates = []
        for row in shortlist(row_of, dense.similarities, scores, identified, policy):
            memory = active.memories[active.ids[row]]
            match = matches(question.attributes, memory.attributes)
            if match is Match.MISMATCH or (match is Match.LACKS and question.strict):
                continue
            similarity = None if dense.similarities is None else float(dense.similarities[row])
            candidates.append(
                Candidate(
                    id=memory.id,
                    similarity=None if similarity is None or np.isnan(similarity) else similarity,
                    keyword_score=scores.get(memory.id),
                    identifier_match=memory.id in identified,
                    happened_at=memory.happened_at,
                    other_subject=single and another(memory.content),
                    other_language=in_chinese != chinese(memory.content),
                    attribute_match=match is Match.MATCH,
                )
            )
        near = self._near_duplicates(active, policy)
        ranked = rank(candidates, policy, self._clock(), question.top_k, bool(by_form), near, one_question=single)
        return [_hit(active, found, dense.leg) for found in ranked]

    def _near_duplicates(self, active: ActiveSet, policy: RankingPolicy) -> Callable[[str, str], bool] | None:
        """Tells whether two memories say about the same, as the dedup scale has it."""
        space = self._embeddings.space(active.space)
        if space is None:
            return None
        floor, row_of = space.raw_dedup(policy.near_duplicate), active.rows

        def similar(one: str, other: str) -> bool:
            a, b = row_of[one], row_of[other]
            return bool(active.embedded[a] and active.embedded[b] and active.matrix[a] @ active.matrix[b] >= floor)

        return similar


def _hit(active: ActiveSet, found: Ranked, dense: Leg) -> Hit:
    return Hit(active.memories[found.id], found.score, found.similarity, found.keyword_score, found.legs(dense))
