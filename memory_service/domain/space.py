"""Embedding spaces: how one model's vectors are centred, and what its cosines mean on the common similarity scale.

Owns the centring (one fixed mean per prefix is subtracted, then the vector is made unit length again), the two maps
from cosine to similarity, their file form and their check. Does not own how means and knots are found (`calibration`),
nor which vectors are compared: vectors of two spaces must never meet, and their ids are what tells them apart.

Why centre: a model's raw vectors share a large common part (length 0.90 of 1 for the bundled model), which puts
unrelated texts at a cosine of 0.75 to 0.85. After Mu and Viswanath, "All-but-the-Top" (ICLR 2018), of which only the
mean is taken: removing principal directions too measured worse here.
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

MAX_DIM = 16_384
KNOT_DECIMALS = 4
_FORMAT = 1
_MEAN_DECIMALS = 6
_NO_LENGTH = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingSpace:
    """Where vectors of one model live. Immutable; the id is derived from the content: another content, another id."""

    id: str
    """`<model>-<dim>-<8 hex digits>`, of [a-z0-9.-], at most 64 characters."""
    model: str
    """The embedder's name for its model."""
    dim: int
    passage_mean: Vector
    """(dim,), subtracted from raw passage vectors."""
    query_mean: Vector
    """(dim,), subtracted from raw query vectors."""
    recall_knots: Knots
    """Query to passage."""
    dedup_knots: Knots
    """Passage to passage."""

    def passage(self, raw: Vector) -> Vector:
        """Raw passage vector(s), (dim,) or (n, dim), to unit vectors of this space, float32. See `query`."""
        return _centre(raw, self.passage_mean)

    def query(self, raw: Vector) -> Vector:
        """Raw query vector(s), (dim,) or (n, dim), to unit vectors of this space, float32.

        One that equals the mean has no direction left and keeps its own. ValueError: another dimension, NaN, infinity.
        """
        return _centre(raw, self.query_mean)

    def recall_similarity(self, cosines: ArrayLike) -> NDArray[np.float64]:
        """Cosines of query and passage vectors, any shape, to the common scale, -1 to 1."""
        return _interpolate(cosines, self.recall_knots)

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
        content = _content(self.model, self.passage_mean, self.query_mean, self.recall_knots, self.dedup_knots)
        return json.dumps({"id": self.id, **content}, ensure_ascii=False, separators=(",", ":")) + "\n"

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
            means = [np.asarray(raw[name], dtype=np.float32) for name in ("passage_mean", "query_mean")]
            knots = [tuple((float(x), float(y)) for x, y in raw[name]) for name in ("recall_knots", "dedup_knots")]
            claimed = (str(raw["id"]), int(raw["dim"]))
            model = str(raw["model"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"embedding space: missing or malformed field: {error}") from None
        space = make_space(model, means[0], means[1], knots[0], knots[1])
        if claimed != (space.id, space.dim):
            raise ValueError(f"embedding space: file says {claimed[0]} but its content is {space.id}")
        return space


def make_space(
    model: str, passage_mean: Vector, query_mean: Vector, recall_knots: Knots, dedup_knots: Knots
) -> EmbeddingSpace:
    """A checked space with the id of its content. Means and knots are rounded as in the file form. ValueError."""
    if not model:
        raise ValueError("embedding space: the model has no name")
    means = [np.round(np.asarray(mean, dtype=np.float64), _MEAN_DECIMALS) for mean in (passage_mean, query_mean)]
    if means[0].ndim != 1 or means[0].shape != means[1].shape or not 1 <= means[0].size <= MAX_DIM:
        raise ValueError(f"embedding space: means of {means[0].shape} and {means[1].shape}, wanted one length twice")
    if not all(np.isfinite(mean).all() for mean in means):
        raise ValueError("embedding space: a mean is not finite")
    recall, dedup = _checked("recall", recall_knots), _checked("dedup", dedup_knots)
    passage, query = (mean.astype(np.float32) for mean in means)
    passage.flags.writeable = query.flags.writeable = False
    canonical = json.dumps(_content(model, passage, query, recall, dedup), sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:8]
    name = re.sub(r"[^a-z0-9.]+", "-", model.lower()).strip("-.")[:40] or "model"
    return EmbeddingSpace(f"{name}-{passage.size}-{digest}", model, int(passage.size), passage, query, recall, dedup)


@lru_cache(maxsize=1)
def bundled_space() -> EmbeddingSpace:
    """The space of the bundled model, from the file that ships with the package."""
    return EmbeddingSpace.from_json((resources.files("memory_service") / "data/space_bundled.json").read_text("utf-8"))


def _content(model: str, passage: Vector, query: Vector, recall: Knots, dedup: Knots) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "model": model,
        "dim": int(passage.size),
        "recall_knots": recall,
        "dedup_knots": dedup,
        "passage_mean": [round(float(x), _MEAN_DECIMALS) for x in passage],
        "query_mean": [round(float(x), _MEAN_DECIMALS) for x in query],
    }


def _checked(name: str, knots: Knots) -> Knots:
    rounded = tuple((round(float(x), KNOT_DECIMALS), round(float(y), KNOT_DECIMALS)) for x, y in knots)
    if len(rounded) < 2 or rounded[0] != (-1.0, -1.0) or rounded[-1] != (1.0, 1.0):
        raise ValueError(f"embedding space: {name} knots must run from (-1, -1) to (1, 1)")
    # Written so that NaN fails too.
    if not all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(rounded)):
        raise ValueError(f"embedding space: {name} knots must increase strictly")
    return rounded


def _centre(raw: Vector, mean: Vector) -> Vector:
    vectors = np.asarray(raw, dtype=np.float32)
    if vectors.ndim not in (1, 2) or vectors.shape[-1] != mean.size:
        raise ValueError(f"vector of shape {vectors.shape}, wanted {mean.size} numbers")
    if not np.isfinite(vectors).all():
        raise ValueError("vector is not finite")
    moved = vectors - mean
    length = np.linalg.norm(moved, axis=-1, keepdims=True)
    moved = np.where(length > _NO_LENGTH, moved, vectors)
    length = np.maximum(np.linalg.norm(moved, axis=-1, keepdims=True), np.finfo(np.float32).tiny)
    unit: Vector = np.divide(moved, length, dtype=np.float32)
    return unit


def _interpolate(values: ArrayLike, knots: Knots) -> NDArray[np.float64]:
    xs, ys = zip(*knots, strict=True)
    return np.asarray(np.interp(np.asarray(values, dtype=np.float64), xs, ys), dtype=np.float64)


def _turned(knots: Knots) -> Knots:
    return tuple((y, x) for x, y in knots)
