"""Any embedding model behind an OpenAI-compatible endpoint (`POST <base>/embeddings`), behind the Embedder port.

Owns the check of what is answered: a provider that answers fewer vectors than asked, in another order, of another
length or with NaN must never shift or poison anybody's memories. Owns no centring (`domain.space`) and no breaker.

What it sends is text of users; `shared.openai_client` sees to it that it goes nowhere else. No error carries the
provider's answer: it may repeat the key.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from memory_service.adapters.text_limit import check_text, fitting
from memory_service.domain.model import Vector
from memory_service.ports import StoreUnavailable
from shared.openai_client import OpenAIConnection, WrongAnswer, told

BATCH = 64
"""Texts in one request."""
_RETRIES = 2
"""Of the client, on 408, 409, 429, 5xx and lost connections; the call's own timeout spans them all."""
_NO_LENGTH = 1e-12


class OpenAIEmbedder:
    """Embedder over HTTP. Bound to the event loop of its first call; the client is made then: importing it is slow.

    `timeout` is in seconds and bounds a whole call of the port, retries included. `max_tokens` is the model's limit:
    what is longer by estimate is cut before it is sent.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        model: str,
        dim: int,
        *,
        query_prefix: str = "",
        passage_prefix: str = "",
        timeout: float = 10.0,
        max_tokens: int = 7_000,
    ) -> None:
        self._connection = OpenAIConnection(base_url, api_key, timeout, retries=_RETRIES)
        self._model = model
        self._dim = dim
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix
        self._timeout = timeout
        self._max_tokens = max_tokens

    @property
    def model(self) -> str:
        """See the port."""
        return self._model

    @property
    def dim(self) -> int:
        """See the port."""
        return self._dim

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """See the port."""
        return await self._embed([self._passage_prefix + self._cut(text) for text in texts])

    async def embed_query(self, text: str) -> Vector:
        """See the port."""
        return (await self._embed([self._query_prefix + self._cut(text)]))[0]

    def cuts(self, text: str) -> bool:
        """See the port. An estimate by characters, the same that cuts."""
        return fitting(text, self._max_tokens) < len(text)

    async def ping(self) -> None:
        """See the port."""
        await self.embed_query("ping")

    async def close(self) -> None:
        """Closes the connections; calls in flight fail."""
        await self._connection.close()

    def _cut(self, text: str) -> str:
        check_text(text)
        return text[: fitting(text, self._max_tokens)]

    async def _embed(self, texts: list[str]) -> list[Vector]:
        found: list[Vector] = []
        try:
            async with asyncio.timeout(self._timeout):
                for start in range(0, len(texts), BATCH):
                    found.extend(await self._batch(texts[start : start + BATCH]))
        except Exception as error:
            # The chain is cut: what the client raises holds the request with its headers, and the provider's words.
            raise StoreUnavailable("embedding", f"{self._model}: {told(error)}") from None
        return found

    async def _batch(self, texts: list[str]) -> list[Vector]:
        try:
            return await self._ask(texts)
        except WrongAnswer:
            if len(texts) == 1:
                raise
        return [(await self._ask([text]))[0] for text in texts]

    async def _ask(self, texts: list[str]) -> list[Vector]:
        client = await self._connection.client()
        answer = await client.embeddings.create(model=self._model, input=texts, encoding_format="float")
        return _vectors(answer, len(texts), self._dim)


def _vectors(answer: Any, count: int, dim: int) -> list[Vector]:
    """The answer's vectors in the order of the texts, of length 1. Trusts nothing: the client does not check types."""
    data = getattr(answer, "data", None)
    if not isinstance(data, list) or len(data) != count:
        raise WrongAnswer(f"not {count} vectors")
    placed: dict[int, Vector] = {}
    for item in data:
        index = getattr(item, "index", None)
        try:
            vector = np.asarray(getattr(item, "embedding", None), dtype=np.float64)
        except (TypeError, ValueError):
            raise WrongAnswer("a vector is not numbers") from None
        if vector.shape != (dim,):
            raise WrongAnswer(f"a vector of shape {vector.shape}, wanted {dim} numbers")
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length < _NO_LENGTH:
            raise WrongAnswer("a vector is not finite or has no length")
        if type(index) is int and 0 <= index < count:
            placed[index] = (vector / length).astype(np.float32)
    if len(placed) != count:
        raise WrongAnswer("positions of vectors are missing or doubled")
    return [placed[index] for index in range(count)]
