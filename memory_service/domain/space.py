"""Embedding spaces: how one model's vectors are centred, and what its cosines mean on the common similarity scale.

Owns the centring (one fixed mean per prefix is subtracted, the language axis is taken out, then the vector is made unit
length again), the share of the asking axis that every passage gets, the two maps from cosine to similarity, their file
form and their check. Does not own how means and knots are found (`calibration`),
nor which vectors are compared: vectors of two spaces must never meet, and their ids are what tells them apart.

Why centre: a model's raw vectors share a large common part (length 0.90 of 1 for the bundled model), which puts
unrelated texts at a cosine of 0.75 to 0.85. After Mu and Viswanath, "All-but-the-Top" (ICLR 2018), of which only the
mean is taken: removing principal directions too measured worse here.

Why the language axis goes: it makes texts of one language alike. With it, not one of the 24 Chinese questions about
English memories (and the reverse) of the pair file lies above the line of qualification, without it half of them.

Why the asking axis: questions about oneself part from questions about the world whatever they are about. A passage has
the same share of it as every other, so it changes neither the order of the memories for one query nor what two passages
are to each other; it only moves the line for a query.

Why the query map: a question and its answer use other words for one thing (wine and vineyard, 上班 and 公司), and which
directions stand in for which is the same for all users. A linear map of low rank, learnt from the pairs of the file,
brings a question to where its answer lies; passages stay, so nothing that is stored depends on it.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memory_service.domain.model import Vector

Knots: TypeAlias = tuple[tuple[float, float], ...]
"""Points (cosine, similarity) of a piecewise linear map, both strictly increasing, from (-1, -1) to (1, 1)."""

RECALL_LINE = 0.30
"""Recall similarity at which related and unrelated part; a memory must lie above it."""
UPDATE_LINE = 0.75
"""Dedup similarity from which on two texts are one statement, maybe with another value."""
SAME_LINE = 0.85
"""Dedup similarity from which on two texts mean the same."""

OF_SELF = 0.12
"""Cosine that a query has ahead which speaks of the one who asks, as the form of the words tells more surely than the
asking axis does. tests/evals/recall_dev_*.tsv, recall@5 / precision@5 / correct empties / questions about oneself whose
answer was taken out of the memories and that find nothing: 0: 0.80 / 0.90 / 0.90 / 0.59, 0.08: 0.91 / 0.90 / 0.92 /
0.21, 0.10: 0.92 / 0.89 / 0.96 / 0.16, 0.12: 0.92 / 0.89 / 0.96 / 0.10, 0.15: 0.93 / 0.87 / 0.96 / 0.07."""

MAX_DIM = 16_384
KNOT_DECIMALS = 4
MAX_RANK = 64
_FORMAT = 3
_VECTORS = ("passage_mean", "query_mean", "language_axis", "asking")
_MATRICES = ("query_reads", "query_writes")
_MEAN_DECIMALS = 6
_NO_LENGTH = 1e-6
_LOOSE = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingSpace:
    """Where vectors of one model live. Immutable; the id is derived from the content: another content, another id."""

    id: str
    """`<model>-<dim>-<8 hex digits>`, of [a-z0-9.-], at most 64 characters."""
    model: str
    """The embedder's name for its model."""
    dim: int
    passage_mean: Vector
    """(dim,), subtracted from raw passage vectors; may be a share of their mean."""
    query_mean: Vector
    """(dim,), subtracted from raw query vectors."""
    language_axis: Vector
    """(dim,), unit length: the direction in which two languages part, taken out of all vectors; zero = none."""
    asking: Vector
    """(dim,): what every passage gets in the direction in which queries that ask for memories part from others, in
    place of its own part; zero = nothing. Orthogonal to `language_axis`."""
    query_reads: Vector
    """(rank, dim): a centred query q becomes q + (q @ query_reads.T) @ query_writes, then unit; rank 0 = no map."""
    query_writes: Vector
    """(rank, dim)"""
    recall_knots: Knots
    """Query to passage."""
    dedup_knots: Knots
    """Passage to passage."""

    def passage(self, raw: Vector) -> Vector:
        """Raw passage vector(s), (dim,) or (n, dim), to unit vectors of this space, float32. See `query`."""
        centred = _centre(raw, self.passage_mean, self.language_axis, self.asking)
        return _unit(centred + self.asking, centred)

    def query(self, raw: Vector) -> Vector:
        """Raw query vector(s), (dim,) or (n, dim), to unit vectors of this space, float32.

        One of which nothing is left keeps its own direction. ValueError: another dimension, NaN, infinity.
        """
        return self._mapped(_centre(raw, self.query_mean, self.language_axis))

    def _mapped(self, centred: Vector) -> Vector:
        if not len(self.query_reads):
            return centred
        # Products and sums instead of matrix products, as in `_centre`.
        read = (centred[..., np.newaxis, :] * self.query_reads).sum(axis=-1)
        written = (read[..., np.newaxis] * self.query_writes).sum(axis=-2)
        return _unit(centred + written, centred)

    def recall_similarity(self, cosines: ArrayLike, *, of_self: bool = False) -> NDArray[np.float64]:
        """Cosines of query and passage vectors, any shape, to the common scale, -1 to 1.

        `of_self`: the query speaks of the one who asks (`subjects.of_self`), which is what memories are about.
        """
        return _interpolate(np.asarray(cosines) + (OF_SELF if of_self else 0.0), self.recall_knots)

    def dedup_similarity(self, cosines: ArrayLike) -> NDArray[np.float64]:
        """Cosines of two passage vectors, any shape, to the common scale, -1 to 1."""
        return _interpolate(cosines, self.dedup_knots)

    def raw_recall(self, similarity: float) -> float:
        """The cosine that `recall_similarity` maps to this similarity."""
        return float(_interpolate(similarity, _turned(self.recall_knots)))

    def raw_dedup(self, similarity: float) -> float:
        """The cosine that `dedup_similarity` maps to this similarity."""
        return float(_interpolate(similarity, _turned(self.dedup_knots)))

    def to_json(self) -> str:
        """The file form; `from_json` of it gives an equal space with the same id."""
        content = _content(self.model, self._vectors(), self.recall_knots, self.dedup_knots)
        return json.dumps({"id": self.id, **content}, ensure_ascii=False, separators=(",", ":")) + "\n"

    def _vectors(self) -> dict[str, Vector]:
        return {name: getattr(self, name) for name in (*_VECTORS, *_MATRICES)}

    @staticmethod
    def from_json(text: str) -> "EmbeddingSpace":
        """Reads and checks the file form. ValueError names what is wrong; the id must fit the content."""
        try:
            raw: Any = json.loads(text)
        except ValueError as error:
            raise ValueError(f"embedding space: not JSON: {error}") from None
        if not isinstance(raw, dict) or raw.get("format") != _FORMAT:
            raise ValueError(f"embedding space: not an object of format {_FORMAT}")
        try:
            vectors = {name: np.asarray(raw[name], dtype=np.float32) for name in _VECTORS}
            query_map = tuple(np.asarray(raw[name], dtype=np.float32) for name in _MATRICES)
            knots = [tuple((float(x), float(y)) for x, y in raw[name]) for name in ("recall_knots", "dedup_knots")]
            claimed = (str(raw["id"]), int(raw["dim"]))
            model = str(raw["model"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"embedding space: missing or malformed field: {error}") from None
        space = make_space(
            model, recall_knots=knots[0], dedup_knots=knots[1], query_map=(query_map[0], query_map[1]), **vectors
        )
        if claimed != (space.id, space.dim):
            raise ValueError(f"embedding space: file says {claimed[0]} but its content is {space.id}")
        return space


def make_space(
    model: str,
    passage_mean: Vector,
    query_mean: Vector,
    recall_knots: Knots,
    dedup_knots: Knots,
    *,
    language_axis: Vector | None = None,
    asking: Vector | None = None,
    query_map: tuple[Vector, Vector] | None = None,
) -> EmbeddingSpace:
    """A checked space with the id of its content. Vectors and knots are rounded as in the file form. ValueError.

    `query_map` is (query_reads, query_writes), None = none.
    """
    if not model:
        raise ValueError("embedding space: the model has no name")
    given = [passage_mean, query_mean, language_axis, asking]
    found = [np.asarray(np.zeros_like(passage_mean) if one is None else one, dtype=np.float64) for one in given]
    if found[0].ndim != 1 or len({one.shape for one in found}) > 1 or not 1 <= found[0].size <= MAX_DIM:
        raise ValueError(f"embedding space: vectors of {[one.shape for one in found]}, wanted one length")
    if not all(np.isfinite(one).all() for one in found):
        raise ValueError("embedding space: a mean or an axis is not finite")
    length = float(np.linalg.norm(found[2]))
    if (length and abs(length - 1) > _LOOSE) or abs(float(found[2] @ found[3])) > _LOOSE:
        raise ValueError("embedding space: the language axis is not of unit length, or asking not orthogonal to it")
    recall, dedup = _checked("recall", recall_knots), _checked("dedup", dedup_knots)
    found += _checked_map(query_map, found[0].size)
    vectors = {
        name: np.round(one, _MEAN_DECIMALS).astype(np.float32)
        for name, one in zip((*_VECTORS, *_MATRICES), found, strict=True)
    }
    for vector in vectors.values():
        vector.flags.writeable = False
    canonical = json.dumps(_content(model, vectors, recall, dedup), sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:8]
    dim = int(vectors["passage_mean"].size)
    name = re.sub(r"[^a-z0-9.]+", "-", model.lower()).strip("-.")[:40] or "model"
    return EmbeddingSpace(
        id=f"{name}-{dim}-{digest}", model=model, dim=dim, recall_knots=recall, dedup_knots=dedup, **vectors
    )


@lru_cache(maxsize=1)
def bundled_space() -> EmbeddingSpace:
    """The space of the bundled model, from the file that ships with the package."""
    return EmbeddingSpace.from_json((resources.files("memory_service") / "data/space_bundled.json").read_text("utf-8"))


def _content(model: str, vectors: dict[str, Vector], recall: Knots, dedup: Knots) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "model": model,
        "dim": int(vectors["passage_mean"].size),
        "recall_knots": recall,
        "dedup_knots": dedup,
        **{name: np.round(vector.astype(np.float64), _MEAN_DECIMALS).tolist() for name, vector in vectors.items()},
    }


def _checked_map(query_map: tuple[Vector, Vector] | None, dim: int) -> list[NDArray[np.float64]]:
    given = query_map or (np.empty((0, dim)), np.empty((0, dim)))
    # An empty list of a file has no second length.
    found = [
        np.asarray(one, dtype=np.float64).reshape(-1, dim) if np.size(one) == 0 else np.asarray(one) for one in given
    ]
    if any(one.ndim != 2 or one.shape != found[0].shape or one.shape[1] != dim for one in found):
        raise ValueError(f"embedding space: a query map of {[one.shape for one in found]}, wanted two of (rank, {dim})")
    if len(found[0]) > MAX_RANK or not all(np.isfinite(one).all() for one in found):
        raise ValueError(f"embedding space: the query map is not finite or of a rank above {MAX_RANK}")
    return [one.astype(np.float64) for one in found]


def _checked(name: str, knots: Knots) -> Knots:
    rounded = tuple((round(float(x), KNOT_DECIMALS), round(float(y), KNOT_DECIMALS)) for x, y in knots)
    if len(rounded) < 2 or rounded[0] != (-1.0, -1.0) or rounded[-1] != (1.0, 1.0):
        raise ValueError(f"embedding space: {name} knots must run from (-1, -1) to (1, 1)")
    # Written so that NaN fails too.
    if not all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(rounded)):
        raise ValueError(f"embedding space: {name} knots must increase strictly")
    return rounded


def _centre(raw: Vector, mean: Vector, *axes: Vector) -> Vector:
    """Unit vectors without the mean and without any part along the axes, which are orthogonal and of any length."""
    vectors = np.asarray(raw, dtype=np.float32)
    if vectors.ndim not in (1, 2) or vectors.shape[-1] != mean.size:
        raise ValueError(f"vector of shape {vectors.shape}, wanted {mean.size} numbers")
    if not np.isfinite(vectors).all():
        raise ValueError("vector is not finite")
    moved = vectors - mean
    for axis in axes:
        if squared := float(axis @ axis):
            # Not a matrix product: its rounding would differ between one vector and a batch.
            moved = moved - (moved * axis).sum(axis=-1, keepdims=True) * (axis / np.float32(squared))
    return _unit(moved, vectors)


def _unit(vectors: Vector, otherwise: Vector) -> Vector:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    kept = np.where(length > _NO_LENGTH, vectors, otherwise)
    length = np.maximum(np.linalg.norm(kept, axis=-1, keepdims=True), np.finfo(np.float32).tiny)
    unit: Vector = np.divide(kept, length, dtype=np.float32)
    return unit


def _interpolate(values: ArrayLike, knots: Knots) -> NDArray[np.float64]:
    xs, ys = zip(*knots, strict=True)
    return np.asarray(np.interp(np.asarray(values, dtype=np.float64), xs, ys), dtype=np.float64)


def _turned(knots: Knots) -> Knots:
    return tuple((y, x) for x, y in knots)
