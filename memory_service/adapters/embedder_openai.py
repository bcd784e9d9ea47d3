"""Any embedding model behind an OpenAI-compatible endpoint (`POST <base>/embeddings`), behind the Embedder port.

Owns the check of what is answered: a provider that answers fewer vectors than asked, in another order, of another
length or with NaN must never shift or poison anybody's memories. Owns no centring (`domain.space`) and no breaker.

What it sends is text of users, to the configured address and nowhere else: proxies and keys of the environment are not
looked at, redirects are not followed. No error carries the provider's answer: it may repeat the key.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_service.adapters.text_limit import check_text, fitting
from memory_service.domain.model import Vector
from memory_service.ports import StoreUnavailable

if TYPE_CHECKING:
    from openai import AsyncOpenAI

BATCH = 64
"""Texts in one request."""
_RETRIES = 2
"""Of the client, on 408, 409, 429, 5xx and lost connections; the call's own timeout spans them all."""
_NO_LENGTH = 1e-12


class _WrongAnswerError(Exception):
    """The provider answered something that is not one vector per text."""


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
        self._base_url = base_url
        self._api_key = api_key
        self._model = model
        self._dim = dim
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix
        self._timeout = timeout
        self._max_tokens = max_tokens
        self._client: AsyncOpenAI | None = None
        self._making = asyncio.Lock()
        self._closed = False

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
        self._closed = True
        if self._client is not None:
            await self._client.close()

    def _cut(self, text: str) -> str:
        check_text(text)
        return text[: fitting(text, self._max_tokens)]

    async def _embed(self, texts: list[str]) -> list[Vector]:
        if self._closed:
            raise StoreUnavailable("embedding", "the client is closed")
        found: list[Vector] = []
        try:
            async with asyncio.timeout(self._timeout):
                for start in range(0, len(texts), BATCH):
                    found.extend(await self._batch(texts[start : start + BATCH]))
        except Exception as error:
            # The chain is cut: what the client raises holds the request with its headers, and the provider's words.
            raise StoreUnavailable("embedding", f"{self._model}: {_told(error)}") from None
        return found

    async def _batch(self, texts: list[str]) -> list[Vector]:
        try:
            return await self._ask(texts)
        except _WrongAnswerError:
            if len(texts) == 1:
                raise
        return [(await self._ask([text]))[0] for text in texts]

    async def _ask(self, texts: list[str]) -> list[Vector]:
        client = await self._connected()
        answer = await client.embeddings.create(model=self._model, input=texts, encoding_format="float")
        return _vectors(answer, len(texts), self._dim)

    async def _connected(self) -> "AsyncOpenAI":
        async with self._making:
            if self._client is None:
                self._client = await asyncio.to_thread(_client, self._base_url, self._api_key, self._timeout)
            return self._client


def _client(base_url: str, api_key: str, timeout: float) -> "AsyncOpenAI":
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Omit

    return AsyncOpenAI(
        base_url=base_url,
        api_key=api_key or "none",  # an endpoint without keys ignores it; empty would be read from the environment
        timeout=timeout,
        max_retries=_RETRIES,
        default_headers={"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()},  # type: ignore[dict-item]
        http_client=DefaultAsyncHttpxClient(trust_env=False, follow_redirects=False, timeout=timeout),
    )


def _vectors(answer: Any, count: int, dim: int) -> list[Vector]:
    """The answer's vectors in the order of the texts, of length 1. Trusts nothing: the client does not check types."""
    data = getattr(answer, "data", None)
    if not isinstance(data, list) or len(data) != count:
        raise _WrongAnswerError(f"not {count} vectors")
    placed: dict[int, Vector] = {}
    for item in data:
        index = getattr(item, "index", None)
        try:
            vector = np.asarray(getattr(item, "embedding", None), dtype=np.float64)
        except (TypeError, ValueError):
            raise _WrongAnswerError("a vector is not numbers") from None
        if vector.shape != (dim,):
            raise _WrongAnswerError(f"a vector of shape {vector.shape}, wanted {dim} numbers")
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length < _NO_LENGTH:
            raise _WrongAnswerError("a vector is not finite or has no length")
        if type(index) is int and 0 <= index < count:
            placed[index] = (vector / length).astype(np.float32)
    if len(placed) != count:
        raise _WrongAnswerError("positions of vectors are missing or doubled")
    return [placed[index] for index in range(count)]


def _told(error: Exception) -> str:
    """What may be said of a failure: our own words, or the kind of the client's error and its status."""
    if isinstance(error, _WrongAnswerError):
        return f"wrong answer: {error}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    status = getattr(error, "status_code", None)
    return type(error).__name__ + (f", status {status}" if isinstance(status, int) else "")
