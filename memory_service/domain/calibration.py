"""Makes an embedding space for a model from labelled pairs: means, the lines on the two scales, and a report.

Owns the file of labelled pairs (its form and check) and the rules that turn vectors into an `EmbeddingSpace`. Pure:
embedding the texts, reading files and printing are the caller's. Nothing here knows the evaluation sets, and nothing of
them may go into a pair file.

The rules (n = `SET_SIZE` memories of one user):
- query mean: of all distinct queries of the file.
- language axis: from the mean passage of one language to that of the other (the two with most passages; one: no axis).
- asking axis: from the mean of the queries that relate to nothing to the mean of those that relate to something, both
  centred; a passage gets `ASKING` of it. Whatever is measured of a query below is measured with an axis that was made
  without it and its neighbours in the file (`FOLDS`): an axis flatters what it was made from.
- query map: the ridge regression of the passages of the related pairs on their queries, both less their means, drawn
  to the map that changes nothing (`DRAW`), of which the `RANK` strongest directions are kept. Less their means, for
  else it learns that questions are asked about memories, and brings every question nearer to every memory. Made without
  the fold, like the asking axis.
- passage mean: `PASSAGE_SHARE` of the mean of all distinct passages. What is left of it lies in the direction of
  statements, so that a message that states something finds memories too, not only a question.
- recall 0.30: the cosine at which related and unrelated pairs part best (largest sum of both shares on the right side),
  raised where needed until `EMPTY_FLOOR` of the queries that relate to nothing find nothing among n memories of their
  language. The best of n grows with n, so pairs alone would set the line too low. From there straight to 1.
- dedup 0.75: the lowest cosine that at most `UPDATE_ERROR` of the `different` pairs exceed.
- dedup 0.85: the lowest cosine that at most `SAME_ERROR` of all pairs which are not `same` exceed. Cosine cannot part
  `same` from `changed` (another value reads more alike than a paraphrase): the decision table's guards do that.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, comb

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.model import Vector
from memory_service.domain.space import (
    KNOT_DECIMALS,
    OF_SELF,
    RECALL_LINE,
    SAME_LINE,
    UPDATE_LINE,
    EmbeddingSpace,
    Knots,
    make_space,
)
from memory_service.domain.subjects import of_self

SET_SIZE = 50
EMPTY_FLOOR = 0.90
UPDATE_ERROR = 0.20
SAME_ERROR = 0.15
"""Cosine only proposes here; the guards of the decision table tell another value, event or subject. Own dedup pairs:
distinct lost / changed replaced / same recognised; STS-B and SICK: not equivalent lost / equivalent recognised
(tests/evals/dedup_eval.py). 0.10, 0.03: 0 / 69 % / 76 %; 0.4 % / 48 %. 0.20, 0.10: 0 / 84 % / 80 %; 0.6 % / 53 %.
0.20, 0.15: 0 / 84 % / 84 %; 0.8 % / 57 %."""
PASSAGE_SHARE = 0.7
"""Related pairs whose query is a message and not a question, above the line / same or changed memories above different
ones (AUC) / MADial recall@5 with floors, at an equal share of correct empties: 1: 53 % / 0.963 / 49.8,
0.8: 62 % / 0.963 / 59.1, 0.7: 68 % / 0.958 / 62.6, 0.6: 68 % / 0.949 / 65.0. The share of all related pairs above the
line does not decide: it is 68 % with each."""
ASKING = 0.15
"""Pairs of the file in sets of 50 of one language, found by both legs (without kinds) at 0.92 correct empties,
precision / recall: 0: 0.65 / 0.63, 0.1: 0.60 / 0.68, 0.2: 0.55 / 0.70, 0.3: 0.50 / 0.70. More finds more for a question
about oneself, right and wrong."""
DRAW = 6.0
"""tests/evals/recall_dev_*.tsv, recall@5 / precision@5 / correct empties, all else equal: 1: 0.92 / 0.85 / 0.94,
3: 0.92 / 0.88 / 0.96, 6: 0.92 / 0.89 / 0.96. A softmax or logistic loss by gradient measured no better, nor did half as
many pairs again."""
RANK = 16
"""8, 16, 32, 64 and 128 measure alike."""
FOLDS = 5
MIN_PAIRS = 20
"""Fewer pairs of any label than this say nothing about a line."""

LABELS: Mapping[str, frozenset[str]] = {
    "recall": frozenset({"related", "unrelated"}),
    "dedup": frozenset({"same", "changed", "different"}),
    "corpus": frozenset({"passage", "query"}),
}
_GAP = 1e-3
PLAIN: Knots = ((-1.0, -1.0), (1.0, 1.0))

Cosines = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """One line of the pair file. `recall`: a query and a memory; `dedup`: two memories; `corpus`: a alone."""

    task: str
    label: str
    lang: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class PairTexts:
    """The distinct texts of a pair file that have to be embedded, in order of appearance."""

    passages: tuple[str, ...]
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecallRow:
    """What a line at `similarity` does to the file's queries. Shares, 0 to 1."""

    similarity: float
    cosine: float
    recall: float
    """Related pairs above the line."""
    precision: float
    """Related ones among the labelled pairs above the line; 1 when there is none."""
    empties: float
    """Queries that relate to nothing and find nothing among `SET_SIZE` memories."""


@dataclass(frozen=True, slots=True)
class DedupRow:
    """What a line at `similarity` does to pairs of memories. Shares, 0 to 1, at or above the line."""

    similarity: float
    cosine: float
    same: float
    changed: float
    different: float
    precision: float
    """Pairs that are `same` or `changed` among all at or above the line; 1 when there is none."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A space and how well it parts the pairs it was made from. Figures of the file itself flatter a little."""

    space: EmbeddingSpace
    recall: tuple[RecallRow, ...]
    dedup: tuple[DedupRow, ...]


def parse_pairs(text: str) -> tuple[LabelledPair, ...]:
    """Reads the pair file: tab separated, header `task label lang a b`, lines that start with # left out.

    ValueError names the line of an unknown task or label, a missing text, or a pair that is there twice.
    """
    pairs: dict[LabelledPair, None] = {}
    header = False
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.rstrip("\r").split("\t")
        if line.startswith("#") or not line.strip():
            continue
        if not header:
            if fields != ["task", "label", "lang", "a", "b"]:
                raise ValueError(f"line {number}: wanted the header task, label, lang, a, b")
            header = True
            continue
        pair = LabelledPair(*fields) if len(fields) == 5 else None
        if pair is None or pair.label not in LABELS.get(pair.task, ()):
            raise ValueError(f"line {number}: wanted five fields with a known task and label")
        if not pair.a.strip() or bool(pair.b.strip()) == (pair.task == "corpus"):
            raise ValueError(f"line {number}: a text is missing, or a corpus line has two")
        if pair in pairs:
            raise ValueError(f"line {number}: the pair is there twice")
        pairs[pair] = None
    return tuple(pairs)


def texts_of(pairs: Iterable[LabelledPair]) -> PairTexts:
    """What `calibrate` needs vectors of."""
    passages: dict[str, None] = {}
    queries: dict[str, None] = {}
    for pair in pairs:
        if pair.task == "recall":
            queries[pair.a] = passages[pair.b] = None
        elif pair.task == "dedup":
            passages[pair.a] = passages[pair.b] = None
        else:
            (queries if pair.label == "query" else passages)[pair.a] = None
    return PairTexts(tuple(passages), tuple(queries))


def calibrate(
    model: str, pairs: Sequence[LabelledPair], passages: Mapping[str, Vector], queries: Mapping[str, Vector]
) -> Calibration:
    """Makes the space of `model` from raw vectors of `texts_of(pairs)`, those of passages made of `told(text)`.

    ValueError: too few pairs of a label, or a model whose vectors do not part the labels at all.
    """
    _require_enough(pairs)
    texts = _Texts(pairs, passages, queries)
    found = _measured(texts)
    space = texts.space(model, None, _recall_knots(found), _dedup_knots(found))
    return Calibration(space, _recall_report(space, found), _dedup_report(space, found))


class _Texts:
    """The texts of a pair file with raw vectors, languages and folds."""

    def __init__(
        self, pairs: Sequence[LabelledPair], passages: Mapping[str, Vector], queries: Mapping[str, Vector]
    ) -> None:
        texts = texts_of(pairs)
        self.pairs = pairs
        self.passages = {text: passages[text] for text in texts.passages}
        self.queries = {text: queries[text] for text in texts.queries}
        self.lang: dict[str, str] = {}
        for pair in pairs:
            for text in (pair.a, pair.b):
                self.lang.setdefault(text, pair.lang)
        self.asking = tuple(dict.fromkeys(pair.a for pair in pairs if pair.label == "related"))
        self.strange = tuple(
            dict.fromkeys(pair.a for pair in pairs if pair.label == "unrelated" and pair.a not in set(self.asking))
        )
        self.memories = tuple(dict.fromkeys(pair.b for pair in pairs if pair.task == "recall"))
        self.fold = {**self._folds(self.asking), **self._folds(self.strange)}

    def _folds(self, texts: Sequence[str]) -> dict[str, int]:
        """Fold of each text: blocks in order of the file within a language, for the languages run parallel there."""
        found: dict[str, int] = {}
        for lang in {self.lang[text] for text in texts}:
            same = [text for text in texts if self.lang[text] == lang]
            found.update((text, at * FOLDS // len(same)) for at, text in enumerate(same))
        return found

    def space(self, model: str, without: int | None, recall: Knots = PLAIN, dedup: Knots = PLAIN) -> EmbeddingSpace:
        """The space whose asking axis is made of all queries but those of one fold."""
        means = PASSAGE_SHARE * _mean(self.passages.values()), _mean(self.queries.values())
        axis = self._language_axis()
        centred = make_space(model, *means, PLAIN, PLAIN, language_axis=axis)
        sides = [
            centred.query(np.stack([self.queries[text] for text in some if self.fold[text] != without])).mean(axis=0)
            for some in (self.asking, self.strange)
        ]
        asking = _unit(sides[0].astype(np.float64) - sides[1])
        asking = ASKING * _unit(asking - (asking @ axis) * axis)
        axes = make_space(model, *means, PLAIN, PLAIN, language_axis=axis, asking=asking)
        query_map = self._query_map(axes, without)
        return make_space(model, *means, recall, dedup, language_axis=axis, asking=asking, query_map=query_map)

    def _query_map(self, space: EmbeddingSpace, without: int | None) -> tuple[Vector, Vector]:
        """W = argmin |Q W - P|² + DRAW |W - 1|² over the related pairs less their means; the part added to 1."""
        pairs = [pair for pair in self.pairs if pair.label == "related" and self.fold[pair.a] != without]
        asked = space.query(np.stack([self.queries[pair.a] for pair in pairs])).astype(np.float64)
        found = space.passage(np.stack([self.passages[pair.b] for pair in pairs])).astype(np.float64)
        asked, found = asked - asked.mean(axis=0), found - found.mean(axis=0)
        square = asked.T @ asked + DRAW * np.eye(space.dim)
        left, strength, right = np.linalg.svd(np.linalg.solve(square, asked.T @ (found - asked)))
        rank = min(RANK, space.dim)
        return (left[:, :rank] * strength[:rank]).T, right[:rank]

    def _language_axis(self) -> Vector:
        count = Counter(self.lang[text] for text in self.passages)
        means = [
            _mean([vector for text, vector in self.passages.items() if self.lang[text] == lang])
            for lang, number in sorted(count.most_common(2))
            if number >= MIN_PAIRS
        ]
        return _unit(means[1] - means[0]) if len(means) == 2 else np.zeros_like(_mean(self.passages.values()))


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """Cosines of the labelled pairs, and of every query that relates to nothing with every memory of its language."""

    related: Cosines
    unrelated: Cosines
    same: Cosines
    changed: Cosines
    different: Cosines
    strangers: tuple[Cosines, ...]
    """(memories,) for each query."""

    def empties(self, line: float) -> float:
        """Expected share of the strangers that find nothing above `line` among `SET_SIZE` memories drawn at random."""
        return float(np.mean([_missed(len(cosines), int((cosines > line).sum())) for cosines in self.strangers]))

    @property
    def quiet(self) -> float:
        """The lowest line that keeps `EMPTY_FLOOR`."""
        return _lowest(np.concatenate(self.strangers), lambda line: self.empties(line) >= EMPTY_FLOOR)


def _missed(count: int, hits: int) -> float:
    drawn = min(SET_SIZE, count)
    return comb(count - hits, drawn) / comb(count, drawn)


def _measured(texts: _Texts) -> _Measured:
    spaces = [texts.space("draft", fold) for fold in range(FOLDS)]
    passages = [{text: space.passage(raw) for text, raw in texts.passages.items()} for space in spaces]
    queries = {text: spaces[texts.fold.get(text, 0)].query(raw) for text, raw in texts.queries.items()}

    def cosines(label: str) -> Cosines:
        chosen = [pair for pair in texts.pairs if pair.label == label]
        pairs = (
            (queries[pair.a], passages[texts.fold[pair.a]][pair.b])
            if pair.task == "recall"
            else (passages[0][pair.a], passages[0][pair.b])
            for pair in chosen
        )
        ahead = (_ahead(pair) for pair in chosen)
        near = [float(one @ other) + more for (one, other), more in zip(pairs, ahead, strict=True)]
        return np.asarray(near, dtype=np.float64)

    crossed = []
    for query in texts.strange:
        stored = passages[texts.fold[query]]
        near = [stored[text] for text in texts.memories if texts.lang[text] == texts.lang[query]]
        cosines_of = (np.stack(near or list(stored.values())) @ queries[query]).astype(np.float64)
        crossed.append(cosines_of + (OF_SELF if of_self(query) else 0.0))
    return _Measured(
        related=cosines("related"),
        unrelated=cosines("unrelated"),
        same=cosines("same"),
        changed=cosines("changed"),
        different=cosines("different"),
        strangers=tuple(crossed),
    )


def _ahead(pair: LabelledPair) -> float:
    return OF_SELF if pair.task == "recall" and of_self(pair.a) else 0.0


def _mean(vectors: Iterable[Vector]) -> Vector:
    total: Vector = np.mean(np.stack(list(vectors)).astype(np.float64), axis=0)
    return total


def _unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector


def _require_enough(pairs: Sequence[LabelledPair]) -> None:
    for task in ("recall", "dedup"):
        for label in sorted(LABELS[task]):
            count = sum(pair.label == label for pair in pairs)
            if count < MIN_PAIRS:
                raise ValueError(f"{count} pairs are {label}; a line needs at least {MIN_PAIRS}")
    related = {pair.a for pair in pairs if pair.label == "related"}
    strange = {pair.a for pair in pairs if pair.label == "unrelated"} - related
    if len(strange) < MIN_PAIRS:
        raise ValueError(f"{len(strange)} queries relate to nothing; a line needs at least {MIN_PAIRS}")


def _lowest(candidates: Cosines, holds: Callable[[float], bool]) -> float:
    """The smallest candidate for which `holds`, which stays true above it, rounded up like a knot; 1 if none."""
    ordered = np.unique(candidates)
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(float(ordered[middle])) else (middle + 1, high)
    unit = 10**KNOT_DECIMALS
    return ceil(float(ordered[low]) * unit) / unit if low < len(ordered) else 1.0


def _recall_knots(found: _Measured) -> Knots:
    candidates = np.unique(np.concatenate([found.related, found.unrelated]))
    parting = [(found.related > line).mean() + (found.unrelated <= line).mean() for line in candidates]
    best = float(candidates[int(np.argmax(parting))])
    line = max(best, found.quiet)
    zero = float(np.median(found.unrelated))
    if not (zero + _GAP < line < 1 - _GAP and (found.related > line).mean() > 2 * (found.unrelated > line).mean()):
        raise ValueError("the model does not part related from unrelated pairs")
    return ((-1.0, -1.0), (zero, 0.0), (line, RECALL_LINE), (1.0, 1.0))


def _dedup_knots(found: _Measured) -> Knots:
    other = np.concatenate([found.changed, found.different])
    update = _lowest(found.different, lambda line: (found.different > line).mean() <= UPDATE_ERROR)
    same = _lowest(other, lambda line: (other > line).mean() <= SAME_ERROR)
    if not (update > 0 and update + _GAP < same < 1 - _GAP):
        raise ValueError("the model does not part same from different statements")
    return ((-1.0, -1.0), (0.0, 0.0), (update, UPDATE_LINE), (same, SAME_LINE), (1.0, 1.0))


def _recall_report(space: EmbeddingSpace, found: _Measured) -> tuple[RecallRow, ...]:
    rows = []
    for similarity in (0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8):
        line = space.raw_recall(similarity)
        right, wrong = int((found.related > line).sum()), int((found.unrelated > line).sum())
        precision = right / (right + wrong) if right + wrong else 1.0
        rows.append(RecallRow(similarity, line, right / len(found.related), precision, found.empties(line)))
    return tuple(rows)


def _dedup_report(space: EmbeddingSpace, found: _Measured) -> tuple[DedupRow, ...]:
    rows = []
    for similarity in (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95):
        line = space.raw_dedup(similarity)
        counts = [int((cosines >= line).sum()) for cosines in (found.same, found.changed, found.different)]
        shares = [count / size for count, size in zip(counts, _sizes(found), strict=True)]
        precision = (counts[0] + counts[1]) / sum(counts) if sum(counts) else 1.0
        rows.append(DedupRow(similarity, line, shares[0], shares[1], shares[2], precision))
    return tuple(rows)


def _sizes(found: _Measured) -> tuple[int, int, int]:
    return len(found.same), len(found.changed), len(found.different)
