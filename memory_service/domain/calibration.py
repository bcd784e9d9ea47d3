"""Makes an embedding space for a model from labelled pairs: means, the lines on the two scales, and a report.

Owns the file of labelled pairs (its form and check) and the rules that turn vectors into an `EmbeddingSpace`. Pure:
embedding the texts, reading files and printing are the caller's. Nothing here knows the evaluation sets, and nothing of
them may go into a pair file.

The rules (n = `SET_SIZE` memories of one user):
- means: of all distinct passages and of all distinct queries of the file.
- recall 0.30: the cosine at which related and unrelated pairs part best (largest sum of both shares on the right side),
  raised where needed until `EMPTY_FLOOR` of the queries that relate to nothing find nothing among n memories. The best
  of n grows with n, so pairs alone would set the line too low.
- dedup 0.75: the lowest cosine that at most `UPDATE_ERROR` of the `different` pairs exceed.
- dedup 0.85: the lowest cosine that at most `SAME_ERROR` of all pairs which are not `same` exceed. Cosine cannot part
  `same` from `changed` (another value reads more alike than a paraphrase): the decision table's guards do that.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, comb

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.model import Vector
from memory_service.domain.space import (
    KNOT_DECIMALS,
    RECALL_LINE,
    SAME_LINE,
    UPDATE_LINE,
    EmbeddingSpace,
    Knots,
    make_space,
)

SET_SIZE = 50
EMPTY_FLOOR = 0.90
UPDATE_ERROR = 0.10
SAME_ERROR = 0.03
STRONG_RECALL = 0.80
"""Recall similarity given to the strongest tenth of the related pairs."""
MIN_PAIRS = 20
"""Fewer pairs of any label than this say nothing about a line."""

LABELS: Mapping[str, frozenset[str]] = {
    "recall": frozenset({"related", "unrelated"}),
    "dedup": frozenset({"same", "changed", "different"}),
    "corpus": frozenset({"passage", "query"}),
}
_GAP = 1e-3

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
    """Makes the space of `model` from raw vectors of `texts_of(pairs)`.

    ValueError: too few pairs of a label, or a model whose vectors do not part the labels at all.
    """
    _require_enough(pairs)
    texts = texts_of(pairs)
    passage_mean = _mean([passages[text] for text in texts.passages])
    query_mean = _mean([queries[text] for text in texts.queries])
    plain: Knots = ((-1.0, -1.0), (1.0, 1.0))
    centred = make_space(model, passage_mean, query_mean, plain, plain)
    found = _Measured.of(
        pairs,
        {text: centred.passage(passages[text]) for text in texts.passages},
        {text: centred.query(queries[text]) for text in texts.queries},
    )
    space = make_space(model, passage_mean, query_mean, _recall_knots(found), _dedup_knots(found))
    return Calibration(space, _recall_report(space, found), _dedup_report(space, found))


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """Cosines of the labelled pairs, and of every query that relates to nothing with every memory of recall pairs."""

    related: Cosines
    unrelated: Cosines
    same: Cosines
    changed: Cosines
    different: Cosines
    strangers: Cosines
    """(queries, memories)."""

    @staticmethod
    def of(pairs: Sequence[LabelledPair], passages: Mapping[str, Vector], queries: Mapping[str, Vector]) -> "_Measured":
        def cosines(label: str) -> Cosines:
            chosen = [pair for pair in pairs if pair.label == label]
            left = queries if chosen[0].task == "recall" else passages
            return np.asarray([left[pair.a] @ passages[pair.b] for pair in chosen], dtype=np.float64)

        related = {pair.a for pair in pairs if pair.label == "related"}
        strange = dict.fromkeys(pair.a for pair in pairs if pair.label == "unrelated" and pair.a not in related)
        memories = dict.fromkeys(pair.b for pair in pairs if pair.task == "recall")
        crossed = np.stack([queries[text] for text in strange]) @ np.stack([passages[text] for text in memories]).T
        return _Measured(
            related=cosines("related"),
            unrelated=cosines("unrelated"),
            same=cosines("same"),
            changed=cosines("changed"),
            different=cosines("different"),
            strangers=crossed.astype(np.float64),
        )

    def empties(self, line: float) -> float:
        """Expected share of the strangers that find nothing above `line` among `SET_SIZE` memories drawn at random."""
        count = self.strangers.shape[1]
        drawn = min(SET_SIZE, count)
        hits = (self.strangers > line).sum(axis=1)
        return float(np.mean([comb(count - int(k), drawn) / comb(count, drawn) for k in hits]))


def _mean(vectors: Sequence[Vector]) -> Vector:
    total: Vector = np.add.reduce(np.stack(vectors).astype(np.float64), axis=0)
    return (total / len(vectors)).astype(np.float32)


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
    quiet = _lowest(found.strangers, lambda line: found.empties(line) >= EMPTY_FLOOR)
    line = max(best, quiet)
    zero, strong = float(np.median(found.unrelated)), float(np.quantile(found.related, 0.9))
    if not (zero + _GAP < line and line + _GAP < strong < 1 - _GAP):
        raise ValueError("the model does not part related from unrelated pairs")
    return ((-1.0, -1.0), (zero, 0.0), (line, RECALL_LINE), (strong, STRONG_RECALL), (1.0, 1.0))


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
