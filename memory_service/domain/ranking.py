"""Who qualifies for a recall and in what order.

Owns the rules of memory.md §3 point 4 and their weights. Refuses to search: similarities come from the dense leg on the
calibrated scale, keyword scores from `keywords`, both already restricted to what the caller may see.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.model import Leg, Micros

_DAY: Final = 86_400_000_000
_CLEAR_HIT: Final = 0.5
"""Score from which a hit is clear; a better one (the very text) does not drive out more of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingPolicy:
    """Thresholds and weights of recall. Similarities are on the calibrated scale, keyword scores relative (0 to 1)."""

    min_similarity: float = 0.30
    """A memory qualifies by meaning above this (exclusive)."""
    min_keyword: float = 0.35
    """A memory qualifies by keyword from this on (inclusive). Calibration pairs in sets of 50, keyword leg alone, right
    hits found / precision / queries that relate to nothing and find nothing: 0.20: 47 % / 58 % / 90 %,
    0.30: 41 % / 63 % / 97 %, 0.35: 40 % / 67 % / 98 %, 0.40: 36 % / 71 % / 99 %; without kinds at 0.35: 18 % / 65 %."""
    keyword_weight: float = 0.35
    """tests/evals/recall_dev_*.tsv, recall@5 / precision@5: 0.25, 0.30 and 0.35: 0.92 / 0.89, 0.40: 0.92 / 0.87; MADial
    recall@5 is 68 with each. A search in the past weighs words higher (`history_search`)."""
    vector_weight: float = 0.65
    identifier_keyword_weight: float = 0.7
    """Weights when the query carries an identifier (the source document's 0.7 / 0.3)."""
    identifier_vector_weight: float = 0.3
    relative_floor: float = 0.7
    """What scores (recency aside) less than this share of the best hit (of 0.5 where that is higher) is left out, but
    never one that shares an identifier; 0 = nothing is, as for a caller who sets his own `min_similarity`. Calibration
    pairs in sets of 50, precision / recall, and MADial recall@5: 0.5: 0.59 / 0.78, 63.9; 0.6: 0.62 / 0.77, 63.5;
    0.7: 0.66 / 0.76, 63.1; 0.8: 0.69 / 0.76, 58.3 (many a hit that counts as wrong in the pairs is right: the file
    names one memory of several)."""
    question_floor: float = 0.9
    """The same where the query is one question (`subjects.one_question`), which few memories answer.
    tests/evals/recall_dev_*.tsv, precision@5 / recall@5: 0.82: 0.77 / 0.93, 0.85: 0.81 / 0.93, 0.9: 0.89 / 0.92."""
    question_clear: float = 1.0
    """Score from which a hit is clear there."""
    other_subject: float = 0.6
    """Share of its score that a memory about somebody else keeps (`subjects.about_others`).
    Same data: 1: 0.85 / 0.90."""
    other_language: float = 0.7
    """The same for a memory in another language than the query. Memories are kept in their user's language, so one in
    the query's own is likelier meant; one in another still qualifies as before, and is found where it is the best. Same
    data: 1: 0.83 / 0.90."""
    recency_weight: float = 0.05
    """What a memory of this instant has over one of long ago."""
    recency_half_life_days: float = 30.0
    """After so many days half of that is left."""
    near_duplicate: float = 0.85
    """Likeness of two memories (dedup scale) from which the lesser one goes last; the caller's `similar` applies it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that may qualify. None = that leg does not know it (no vector; no word in common)."""

    id: str
    similarity: float | None
    keyword_score: float | None
    identifier_match: bool
    """It shares an identifying token with the query."""
    happened_at: Micros
    other_subject: bool = False
    """It is surely about somebody else than the query."""
    other_language: bool = False
    """It is in another language than the query."""
    attribute_match: bool = True
    """All constrained attributes are present and match; False = one is absent."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A hit. `meaning`, `keyword`: the ways by which it qualified."""

    id: str
    score: float
    similarity: float | None
    keyword_score: float | None
    meaning: bool
    keyword: bool

    def legs(self, dense: Leg) -> tuple[Leg, ...]:
        """The same as legs; `dense` is the one that was used for meaning."""
        return (*((dense,) if self.meaning else ()), *((Leg.KEYWORD,) if self.keyword else ()))


def shortlist(
    row_of: Mapping[str, int],
    similarities: NDArray[np.floating] | None,
    keyword_scores: Mapping[str, float],
    identified: Collection[str],
    policy: RankingPolicy,
) -> list[int]:
    """Rows of the memories that qualify, ascending, without an object for any that does not.

    `similarities` is (n,), NaN where there is no vector, in step with the rows; None = no dense leg. Ids that are in no
    row are passed over.
    """
    rows: set[int] = set()
    if similarities is not None:
        rows.update(np.flatnonzero(similarities > policy.min_similarity).tolist())
    rows.update(row_of[id_] for id_, score in keyword_scores.items() if score >= policy.min_keyword and id_ in row_of)
    rows.update(row_of[id_] for id_ in identified if id_ in row_of)
    return sorted(rows)


def rank(  # noqa: PLR0917 - the last two are mostly passed by name
    candidates: Sequence[Candidate],
    policy: RankingPolicy,
    now: Micros,
    top_k: int,
    has_identifier: bool,
    similar: Callable[[str, str], bool] | None = None,
    *,
    one_question: bool = False,
) -> list[Ranked]:
    """The at most `top_k` hits, best first; candidates that do not qualify are dropped.

    Order: those with all constrained attributes before those that lack one; within each, near-duplicates of a better
    hit (`similar(better, lesser)`) after the others; then by score, then the newer, then the id. Score = weighted sum
    of similarity (0 without a vector), keyword score and recency.
    """
    judged = [hit for candidate in candidates if (hit := _judge(candidate, policy, has_identifier)) is not None]
    share, clear = (policy.relative_floor, _CLEAR_HIT)
    if one_question and share > 0:
        share, clear = max(share, policy.question_floor), policy.question_clear
    line = share * min(max((relevance for _, relevance in judged), default=0.0), clear)
    hits = [
        (candidate, _hit(candidate, relevance, policy, now))
        for candidate, relevance in judged
        if candidate.identifier_match or policy.relative_floor <= 0 or relevance >= line
    ]
    hits.sort(key=lambda hit: (not hit[0].attribute_match, -hit[1].score, -hit[0].happened_at, hit[0].id))
    if similar is None:
        return [ranked for _, ranked in hits[:top_k]]
    best: list[Ranked] = []
    for matching in (True, False):
        distinct: list[Ranked] = []
        repeats: list[Ranked] = []
        for candidate, ranked in hits:
            if candidate.attribute_match is not matching:
                continue
            if len(best) + len(distinct) >= top_k:
                break
            better = (*best, *distinct)
            (repeats if any(similar(other.id, ranked.id) for other in better) else distinct).append(ranked)
        best += distinct + repeats
    return best[:top_k]


def _judge(candidate: Candidate, policy: RankingPolicy, has_identifier: bool) -> tuple[Candidate, float] | None:
    """The candidate with its weighted sum of similarity and keyword score, if it qualifies."""
    if not (_by_meaning(candidate, policy) or _by_keyword(candidate, policy)):
        return None
    vector_weight = policy.identifier_vector_weight if has_identifier else policy.vector_weight
    keyword_weight = policy.identifier_keyword_weight if has_identifier else policy.keyword_weight
    relevance = vector_weight * (candidate.similarity or 0.0) + keyword_weight * (candidate.keyword_score or 0.0)
    if candidate.identifier_match:
        return candidate, relevance
    if candidate.other_subject:
        relevance *= policy.other_subject
    if candidate.other_language:
        relevance *= policy.other_language
    return candidate, relevance


def _by_meaning(candidate: Candidate, policy: RankingPolicy) -> bool:
    return candidate.similarity is not None and candidate.similarity > policy.min_similarity


def _by_keyword(candidate: Candidate, policy: RankingPolicy) -> bool:
    score = candidate.keyword_score
    return candidate.identifier_match or (score is not None and 0 < score >= policy.min_keyword)


def _hit(candidate: Candidate, relevance: float, policy: RankingPolicy, now: Micros) -> Ranked:
    age_days = max(0, now - candidate.happened_at) / _DAY
    return Ranked(
        id=candidate.id,
        score=relevance + policy.recency_weight * 0.5 ** (age_days / policy.recency_half_life_days),
        similarity=candidate.similarity,
        keyword_score=candidate.keyword_score,
        meaning=_by_meaning(candidate, policy),
        keyword=_by_keyword(candidate, policy),
    )
