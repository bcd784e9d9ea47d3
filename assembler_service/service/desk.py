"""Where prompts are worked on: a few threads, so that the event loop goes on serving while one is counted.

Counting is done by tiktoken without the interpreter's lock, so threads do use more than one core.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

INLINE_CHARS: Final = 2_000
"""Up to so many characters of material the work is done at once: it takes 2 ms at most (measured), hardly more than
handing it over and waiting for the loop to come round."""


class Desk:
    """The threads. Work in progress is not ended by a cancellation; nobody waits for it then."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="prompt")

    async def run(self, chars: int, work: Callable[[], T]) -> T:
        """What `work` answers or raises. `chars`: about how much text it looks at."""
        if chars <= INLINE_CHARS:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Waits for nothing: what has not begun is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)
