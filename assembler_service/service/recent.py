"""Values that are kept for a while: bounded in number, and gone from memory when their time is over, asked for or not.

For one event loop. Owns no text's meaning.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """At most `entries` values, each for `seconds`; the oldest gives way. `clock` answers seconds, never backwards."""

    def __init__(self, entries: int, seconds: float, clock: Callable[[], float]) -> None:
        self._entries = entries
        self._seconds = seconds
        self._clock = clock
        self._held: dict[K, tuple[float, V]] = {}  # oldest first: all stay equally long
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: K) -> V | None:
        """The value, or None where there is none or its time is over."""
        found = self._held.get(key)
        return None if found is None or found[0] <= self._clock() else found[1]

    def put(self, key: K, value: V) -> None:
        """Keeps a value, in place of one that was kept under the same key."""
        if self._seconds <= 0:
            return
        self._held.pop(key, None)
        self._held[key] = (self._clock() + self._seconds, value)
        if len(self._held) > self._entries:
            del self._held[next(iter(self._held))]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._sweep)

    def drop(self, key: K) -> None:
        """Keeps it no longer."""
        self._held.pop(key, None)

    def clear(self) -> None:
        """Keeps nothing."""
        self._held.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        now = self._clock()
        while self._held and next(iter(self._held.values()))[0] <= now:
            del self._held[next(iter(self._held))]
        self._timer = None
        if self._held:
            wait = next(iter(self._held.values()))[0] - now
            self._timer = asyncio.get_running_loop().call_later(wait, self._sweep)
