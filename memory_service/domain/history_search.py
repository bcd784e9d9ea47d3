"""Searching past turns: how a message scores, what its neighbours lend it, and which ones are found.

Owns arithmetic over arrays in step with the messages, which stand session after session, each in order. Refuses to
embed, to read words and to know where a message came from. Similarities are on the calibrated recall scale, keyword
scores relative (0 to 1), NaN = not known.

Why neighbours lend: a question and its answer are different messages, and only one of them has the words one searches
for. Why words lend more than meaning: the words of a thing stand in one of a few turns about it, while their meanings
are alike anyway. LoCoMo part A (760 questions, bundled model), recall@10 of turns: 68.7 without, 72.2 with one share
for both, 74.6 with the shares below, 75.3 with the session's too; 74.0 to 75.6 for all shares half as large again.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


EASE: Final = 0.05
"""So much below the line of memories is the line of messages: a search in the past is asked for on purpose, while a
recall comes along with every question. LoCoMo part A: 73.4 without, 75.1 with it, 75.5 without any line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPolicy:
    """Thresholds and weights of a search in the past."""

    min_similarity: float = 0.30 - EASE
    """A message is found by meaning above this (exclusive)."""
    min_keyword: float = 0.35
    """A message is found by keyword from this on (inclusive)."""
    beside: float = 0.10
    """A message at most `REACH` away from one that is found by itself is found above this similarity."""
    keyword_weight: float = 0.55
    """Higher than for memories: a turn is found again by what was said in it. 0.40: 74.3, 0.60: 75.2."""
    identifier_keyword_weight: float = 0.7
    """Where the query carries an identifier."""
    lend_meaning: tuple[float, ...] = (0.15, 0.09)
    """Share of its score by meaning that a message lends to those 1, 2 ... away, before and after it."""
    lend_words: tuple[float, ...] = (0.40, 0.24)
    """The same for its score by keyword."""
    lend_session: float = 0.30
    """Share of the mean of its `SESSION_BEST` best messages that a session lends to each of its messages."""


REACH: Final = 2
SESSION_BEST: Final = 3


@dataclass(frozen=True, slots=True)
class Found:
    """A message that was found: its row, and its score."""

    row: int
    score: float


def best_of_pieces(cosines: Numbers, message_of: NDArray[np.int64], messages: int) -> Numbers:
    """(messages,) the highest of the similarities (pieces,) of each message's pieces; NaN where it has none."""
    best = np.full(messages, np.nan)
    np.fmax.at(best, message_of, cosines)
    return best


def search(
    similarities: Numbers | None,
    keyword: Numbers,
    session_of: NDArray[np.int64],
    policy: HistoryPolicy,
    *,
    fits: NDArray[np.bool_],
    top_k: int,
    has_identifier: bool = False,
    identified: NDArray[np.bool_] | None = None,
) -> list[Found]:
    """The at most `top_k` messages that relate to the query, best first; of equals the later one.

    All arrays are (n,): `similarities` None = no dense leg; `keyword` 0 where no word is shared; `session_of` a number
    per session, rising; `fits` = which may be answered (all of them lend); `identified` = shares an identifying token.
    """
    n = len(keyword)
    if n == 0:
        return []
    words = policy.identifier_keyword_weight if has_identifier else policy.keyword_weight
    likeness = np.full(n, np.nan) if similarities is None else similarities
    meaning = (1.0 - words) * np.nan_to_num(likeness, nan=0.0)
    said = words * keyword
    score = meaning + said
    score = score + _lent(np.maximum(meaning, 0.0), session_of, policy.lend_meaning)
    score += _lent(said, session_of, policy.lend_words)
    score += policy.lend_session * _session_best(np.maximum(meaning, 0.0) + said, session_of)
    found = np.flatnonzero(fits & _qualifies(likeness, keyword, session_of, identified, policy))
    order = np.lexsort((-found, -score[found]))[:top_k]
    return [Found(int(row), float(score[row])) for row in found[order]]


def _qualifies(
    likeness: Numbers,
    keyword: Numbers,
    session_of: NDArray[np.int64],
    identified: NDArray[np.bool_] | None,
    policy: HistoryPolicy,
) -> NDArray[np.bool_]:
    """(n,) which messages are found: by themselves, or beside one that is and not quite unrelated."""
    known = np.nan_to_num(likeness, nan=-1.0)
    alone = (known > policy.min_similarity) | ((keyword > 0) & (keyword >= policy.min_keyword))
    if identified is not None:
        alone |= identified
    found: NDArray[np.bool_] = alone | (around(alone, session_of) & (known > policy.beside))
    return found


def around(rows: NDArray[np.bool_], session_of: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(n,) which messages stand at most `REACH` away from one of these, within its session."""
    near: NDArray[np.bool_] = _lent(rows.astype(np.float64), session_of, (1.0,) * REACH) > 0
    return near


def _lent(values: Numbers, session_of: NDArray[np.int64], shares: tuple[float, ...]) -> Numbers:
    """(n,) what the messages before and after, within the session, lend to each."""
    lent = np.zeros(len(values))
    for distance, share in enumerate(shares, start=1):
        if share and distance < len(values):
            same = session_of[distance:] == session_of[:-distance]
            lent[distance:] += share * np.where(same, values[:-distance], 0.0)
            lent[:-distance] += share * np.where(same, values[distance:], 0.0)
    return lent


def _session_best(values: Numbers, session_of: NDArray[np.int64]) -> Numbers:
    """(n,) mean of the best few messages of each one's session (of all, where it has fewer)."""
    starts = np.flatnonzero(np.diff(session_of, prepend=session_of[0] - 1))
    lengths = np.diff(starts, append=len(values))
    order = np.lexsort((-values, session_of))
    rank = np.arange(len(values)) - np.repeat(starts, lengths)
    best = np.where(rank < SESSION_BEST, values[order], 0.0)
    means = np.add.reduceat(best, starts) / np.minimum(lengths, SESSION_BEST)
    spread: Numbers = np.repeat(means, lengths)
    return spread
