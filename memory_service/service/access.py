"""Access counts: gathered here, written to the record in batches, off the critical path.

Atomic additions, so that replicas do not overwrite each other; a crash loses at most the last batch. Nothing that was
cached carries a counter.
"""

import logging

from memory_service.domain.model import Micros
from memory_service.ports import Clock, StoreUnavailable
from memory_service.record import Counters, Record

log = logging.getLogger(__name__)

KEEP = 50_000
"""Rows gathered at most while the record is away; then the oldest are forgotten."""
BATCH = 500


class AccessLog:
    """Accesses that were not written yet, by (user, memory id)."""

    def __init__(self, record: Record, clock: Clock) -> None:
        self._record = record
        self._clock = clock
        self._waiting: dict[tuple[str, str], Counters] = {}
        self._writing: dict[tuple[str, str], Counters] = {}

    def add(self, user_id: str, memory_ids: list[str]) -> None:
        """Counts one access of each."""
        now = self._clock()
        for memory_id in memory_ids:
            self._merge((user_id, memory_id), 1, now)

    def _merge(self, key: tuple[str, str], count: int, last: Micros | None) -> None:
        before = self._waiting.pop(key, Counters(0, None))
        self._waiting[key] = Counters(before.count + count, max(last or 0, before.last or 0) or None)
        if len(self._waiting) > KEEP:
            del self._waiting[next(iter(self._waiting))]

    def waiting(self, user_id: str, memory_id: str) -> Counters:
        """What the record may not show of a row yet. What is being written may be there already: rather too much for a
        moment than too little, since it decides who is evicted."""
        both = [held.get((user_id, memory_id), Counters(0, None)) for held in (self._waiting, self._writing)]
        return Counters(sum(c.count for c in both), max(c.last or 0 for c in both) or None)

    async def flush(self) -> int:
        """Writes what is waiting; what cannot be written goes on waiting. Answers how many rows were written."""
        written = 0
        while self._waiting:
            batch = self._writing = {key: self._waiting.pop(key) for key in list(self._waiting)[:BATCH]}
            try:
                await self._record.touch(batch)
            except BaseException as error:
                for key, counters in batch.items():
                    self._merge(key, counters.count, counters.last)
                if isinstance(error, StoreUnavailable):
                    log.debug("access counts wait: %s", error)
                    return written
                raise
            finally:
                self._writing = {}
            written += len(batch)
        return written
