"""SearchHistory: finds past messages by meaning and by keyword, on the same scales as a recall.

The history set, validated against the record, decides what exists; the index only proposes. Refuses to rank: that is
`domain.history_search`.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.conversation import Message
from memory_service.domain.history_search import EASE, HistoryPolicy, around, search
from memory_service.domain.history_set import HistorySet
from memory_service.domain.keywords import asks_nothing, identifiers, rare_names
from memory_service.domain.kinds import keyword_scores
from memory_service.domain.model import Degraded, Head, Leg, Micros, Vector
from memory_service.ports import IndexQuery, StoreUnavailable, VectorIndex
from memory_service.record import Outbox, Record, VectorKind
from memory_service.service.calls import Caller
from memory_service.service.embedding import Embeddings
from memory_service.service.histories import Histories
from memory_service.service.stores import Stores, in_time
from memory_service.service.tunables import KEYWORD_ALONE, LiveTunables
from memory_service.service.vault import Keyring

log = logging.getLogger(__name__)

OVERFETCH = 8
"""Pieces asked of the index per wanted message: several may be of one message, and neighbours count too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryQuestion:
    """What to search for; empty or None = no restriction."""

    query: str
    top_k: int
    sessions: frozenset[str] = frozenset()
    created_from: Micros | None = None
    created_until: Micros | None = None


@dataclass(frozen=True, slots=True)
class HistoryHit:
    """A message and why it was found."""

    message: Message
    score: float
    similarity: float | None
    keyword_score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What a search answers."""

    hits: Sequence[HistoryHit] = ()
    degraded: frozenset[Degraded] = frozenset()
    legs_used: tuple[Leg, ...] = ()


@dataclass(slots=True)
class _Dense:
    similarities: NDArray[np.float64] | None = None
    leg: Leg = Leg.EXACT
    degraded: set[Degraded] = field(default_factory=set)


class SearchHistory:
    """SearchHistory."""

    def __init__(
        self,
        *,
        record: Record,
        keyring: Keyring,
        histories: Histories,
        embeddings: Embeddings,
        index: VectorIndex | None,
        outbox: Outbox,
        tunables: LiveTunables,
        stores: Stores,
    ) -> None:
        self._record = record
        self._keyring = keyring
        self._histories = histories
        self._embeddings = embeddings
        self._index = index
        self._outbox = outbox
        self._tunables = tunables
        self._stores = stores

    async def search(self, caller: Caller, question: HistoryQuestion) -> Searched:
        """The messages that relate to the question, best first. StoreUnavailable("record")."""
        head = await self._record.head(caller.user_id)
        if head is None or asks_nothing(question.query):
            return Searched(legs_used=(Leg.EXACT, Leg.KEYWORD) if head is None else ())
        key = await self._keyring.get(caller.user_id, head.generation)
        held = await self._histories.read(head, key)
        fits = _fitting(held, question)
        if not fits.any():
            return Searched()
        dense = await self._dense(head, held, question)
        legs = ((dense.leg,) if dense.similarities is not None else ()) + (Leg.KEYWORD,)
        return Searched(
            hits=self._found(held, question, fits, dense), degraded=frozenset(dense.degraded), legs_used=legs
        )

    async def _dense(self, head: Head, held: HistorySet, question: HistoryQuestion) -> _Dense:
        space = self._embeddings.space(head.space)
        try:
            vector = await in_time("embedding", self._embeddings.query(head.space, question.query))
        except StoreUnavailable as error:
            log.debug("the past is searched by keyword only: %s", error)
            return _Dense(degraded={Degraded.EMBEDDING})
        if space is None:
            return _Dense(degraded={Degraded.EMBEDDING})
        dense = _Dense()
        cosines = (held.matrix @ vector).astype(np.float64) if len(held.piece_ids) else np.zeros(0)
        recall = self._tunables.now.recall
        many = recall.dense_leg == "index" or len(held.piece_ids) > recall.exact_limit
        # The index knows no sessions: what is asked of some of them is compared exactly.
        if self._index is not None and many and not question.sessions:
            try:
                near = await self._proposed(self._index, head, held, question, vector)
                cosines = np.where(near, cosines, np.nan)
                dense.leg = Leg.INDEX
            except StoreUnavailable as error:
                log.debug("meaning is compared exactly: %s", error)
                dense.degraded.add(Degraded.INDEX)
        dense.similarities = held.similarities(space.recall_similarity(cosines))
        return dense

    async def _proposed(
        self, index: VectorIndex, head: Head, held: HistorySet, question: HistoryQuestion, vector: Vector
    ) -> NDArray[np.bool_]:
        """(pieces,) which the index proposes, with those it may not show yet and those of the messages around. What is
        not there any more goes back to the outbox. StoreUnavailable when the index has lost all it had."""
        if self._stores.index_down:
            raise StoreUnavailable("index", "not asked: it did not answer when it was last asked")
        query = IndexQuery(
            user_id=head.user_id,
            generation=head.generation,
            vector=vector,
            limit=OVERFETCH * question.top_k + 40,
            happened_from=question.created_from,
            happened_until=question.created_until,
        )
        hits = await in_time("index", index.search(head.space, query))
        known = set(held.piece_ids) | {piece.id for piece, _ in held.bare}
        stale = [(head.user_id, hit.memory_id) for hit in hits if hit.memory_id not in known]
        if stale:
            await self._outbox.enqueue(stale, VectorKind.PIECE)
        near = {hit.memory_id for hit in hits} | await self._outbox.recent(head.user_id, VectorKind.PIECE)
        if not hits and any(id not in near for id in held.piece_ids):
            raise StoreUnavailable("index", "it has no vector of a user who has some")
        proposed = np.fromiter((id in near for id in held.piece_ids), np.bool_, len(held.piece_ids))
        messages = np.zeros(len(held), np.bool_)
        messages[held.message_of[proposed]] = True
        return proposed | around(messages, held.session_of)[held.message_of]

    def _found(
        self, held: HistorySet, question: HistoryQuestion, fits: NDArray[np.bool_], dense: _Dense
    ) -> list[HistoryHit]:
        keyword = held.by_key(keyword_scores(question.query, held.keywords))
        by_form = identifiers(question.query)
        named = by_form | rare_names(question.query, held.keywords)
        identified = held.by_key(dict.fromkeys(held.keywords.holding(named), 1.0)) > 0 if named else None
        recall = self._tunables.now.recall
        floor = recall.min_keyword if dense.similarities is not None else min(recall.min_keyword, KEYWORD_ALONE)
        found = search(
            dense.similarities,
            keyword,
            held.session_of,
            HistoryPolicy(min_similarity=recall.min_similarity - EASE, min_keyword=floor),
            fits=fits,
            top_k=question.top_k,
            has_identifier=bool(by_form),
            identified=identified,
        )
        return [_hit(held, one.row, one.score, keyword, dense.similarities) for one in found]


def _fitting(held: HistorySet, question: HistoryQuestion) -> NDArray[np.bool_]:
    """(n,) which messages may be answered."""
    fits = np.ones(len(held), np.bool_)
    if question.sessions:
        fits &= np.fromiter((m.session_id in question.sessions for m in held.messages), np.bool_, len(held))
    if question.created_from is not None:
        fits &= held.created >= question.created_from
    if question.created_until is not None:
        fits &= held.created < question.created_until
    return fits


def _hit(
    held: HistorySet,
    row: int,
    score: float,
    keyword: NDArray[np.float64],
    similarities: NDArray[np.float64] | None,
) -> HistoryHit:
    similarity = None if similarities is None or np.isnan(similarities[row]) else float(similarities[row])
    return HistoryHit(held.messages[row], score, similarity, float(keyword[row]) or None)
