"""Vectors for texts: the models of the embedding spaces in use, and a bounded memory of what was embedded lately.

Vectors of two spaces never mix: every call names the space it wants, which is the one of the user's head. The old model
stays here beside the new one until every user has moved.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from memory_service.domain.model import Vector
from memory_service.domain.space import EmbeddingSpace
from memory_service.domain.subjects import told
from memory_service.ports import Embedder, StoreUnavailable

KEEP = 20_000
"""Vectors kept; 384 numbers of 4 bytes and their keys make about 35 MB."""


@dataclass(frozen=True, slots=True)
class SpaceModel:
    """An embedding space and the model that fills it."""

    space: EmbeddingSpace
    embedder: Embedder


class Embeddings:
    """The models by embedding space; `current` is the one new users begin in."""

    def __init__(self, current: SpaceModel, *previous: SpaceModel) -> None:
        self.current = current.space.id
        self._models = {model.space.id: model for model in (*previous, current)}
        self._kept: OrderedDict[tuple[str, str, bytes], Vector] = OrderedDict()
        self._running: dict[tuple[str, str, bytes], asyncio.Task[Vector]] = {}

    def space(self, space_id: str) -> EmbeddingSpace | None:
        """The space, or None when no configured model fills it."""
        model = self._models.get(space_id)
        return model.space if model else None

    def cuts(self, space_id: str, text: str) -> bool:
        """True when a vector of this text would be of a part only."""
        model = self._models.get(space_id)
        return model.embedder.cuts(text) if model else False

    async def passages(self, space_id: str, texts: Sequence[str]) -> list[Vector]:
        """Unit vectors of texts to remember, in order. StoreUnavailable when the model is away."""
        model = self._model(space_id)
        keys = [_key(space_id, "passage", text) for text in texts]
        # Held here: what is kept may be forgotten while the model works.
        found = {key: self._kept[key] for key in keys if key in self._kept}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            raw = await model.embedder.embed_passages([told(text) for text in missing.values()])
            for key, vector in zip(missing, raw, strict=True):
                found[key] = model.space.passage(vector)
                self._keep(key, found[key])
        return [found[key] for key in keys]

    async def query(self, space_id: str, text: str) -> Vector:
        """Unit vector of a query. Equal queries at the same time embed once. StoreUnavailable as above."""
        model = self._model(space_id)

        async def embed() -> Vector:
            return model.space.query(await model.embedder.embed_query(text))

        return await self._once(_key(space_id, "query", text), embed)

    async def _once(self, key: tuple[str, str, bytes], embed: Callable[[], Awaitable[Vector]]) -> Vector:
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept
        task = self._running.get(key)
        if task is None:
            task = asyncio.ensure_future(embed())
            self._running[key] = task
            task.add_done_callback(lambda done: self._embedded(key, done))
        # Shielded: one caller's deadline must not take the vector from the others who wait for it.
        return await asyncio.shield(task)

    def _embedded(self, key: tuple[str, str, bytes], task: "asyncio.Task[Vector]") -> None:
        del self._running[key]
        if not task.cancelled() and task.exception() is None:
            self._keep(key, task.result())

    def _keep(self, key: tuple[str, str, bytes], vector: Vector) -> None:
        self._kept[key] = vector
        if len(self._kept) > KEEP:
            self._kept.popitem(last=False)

    def _model(self, space_id: str) -> SpaceModel:
        model = self._models.get(space_id)
        if model is None:
            raise StoreUnavailable("embedding", f"no model is configured for the embedding space {space_id}")
        return model

    async def close(self) -> None:
        """Ends what is running and closes the models."""
        for task in list(self._running.values()):
            task.cancel()
        for model in self._models.values():
            await model.embedder.close()


def _key(space_id: str, prefix: str, text: str) -> tuple[str, str, bytes]:
    return space_id, prefix, hashlib.blake2b(text.encode(), digest_size=16).digest()
