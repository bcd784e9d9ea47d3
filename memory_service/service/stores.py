"""Which stores are up, as far as this process knows: for health, for `degraded`, for GetStats."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from memory_service.ports import StoreUnavailable
from shared.context import time_left

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Store:
    """A store this server uses: what it is, how it is asked, and what it answered last."""

    name: str
    kind: str
    ping: Callable[[], Awaitable[None]] | None = None
    """None = it is never asked for its own sake: it is in this process, or every call of it costs money."""
    failing: Callable[[], bool] = lambda: False
    """True while its breaker keeps calls from it: known at the first failing calls, before the next ping."""
    answered: bool = True

    @property
    def up(self) -> bool:
        """False when it is known to be away."""
        return self.answered and not self.failing()


class Stores:
    """The stores, asked every so often. A failing call tells the store's breaker at once; this only follows."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self.all = list(stores)
        self._by_name = {store.name: store for store in stores}

    def down(self, name: str) -> bool:
        """True when the store is configured and known to be away."""
        store = self._by_name.get(name)
        return store is not None and not store.up

    @property
    def index_down(self) -> bool:
        """True when there is a vector index and it is known to be away."""
        return self.down("index")

    async def ask(self, timeout: float) -> None:
        """Asks every store once, all at the same time."""
        await asyncio.gather(*(self._ask(store, timeout) for store in self.all))

    async def _ask(self, store: Store, timeout: float) -> None:
        if store.ping is None:
            return
        before = store.answered
        try:
            async with asyncio.timeout(timeout):
                await store.ping()
            store.answered = True
        except (StoreUnavailable, TimeoutError) as error:
            store.answered = False
            if before:
                log.warning("%s (%s) is away: %s", store.name, store.kind, error)
        if store.answered and not before:
            log.info("%s (%s) is back", store.name, store.kind)

    async def watch(self, seconds: float, changed: Callable[[], None]) -> None:
        """Asks for ever; `changed` is called after each round."""
        while True:
            await self.ask(seconds)
            changed()
            await asyncio.sleep(seconds)


async def in_time(store: str, work: Awaitable[T]) -> T:
    """Awaits what a derived store or a model answers, for at most half of the time that the call in progress has left:
    the rest is for an answer without it. StoreUnavailable(store) then, while the work goes on to an end of its own:
    whether the store is away is for its breaker to learn, and a caller in a hurry proves nothing.
    """
    left = time_left()
    if left is None:
        return await work
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=left / 2)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not task.done():
        task.add_done_callback(lambda late: late.cancelled() or late.exception())  # or it is logged as never looked at
        raise StoreUnavailable(store, f"no answer in the {left / 2:.1f} s that this call could wait")
    return task.result()
