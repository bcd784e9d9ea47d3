"""What the operator asks for: settings, jobs, counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_service.conversation_ports import ExtractionKey, ExtractionRow, Extractions, ExtractionStats
from memory_service.record import Job, JobKind, Jobs, Outbox, OutboxStats, Upkeep
from memory_service.service.calls import request_reused
from memory_service.service.stores import Store, Stores
from memory_service.service.tunables import LiveTunables, TunableRow
from memory_service.service.work import JobRunner
from shared.errors import NotFound


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts over the whole installation."""

    totals: Mapping[str, int]
    outbox: OutboxStats
    jobs: Mapping[str, int]
    spaces: Mapping[str, int]
    stores: Sequence[Store]
    extractions: ExtractionStats


class Admin:
    """The use cases of AdminService."""

    def __init__(
        self,
        *,
        tunables: LiveTunables,
        jobs: Jobs,
        runner: JobRunner,
        upkeep: Upkeep,
        outbox: Outbox,
        stores: Stores,
        extractions: Extractions,
        wake: Callable[[], None],
    ) -> None:
        """`wake` is called when there are turns to extract again."""
        self._tunables = tunables
        self._jobs = jobs
        self._runner = runner
        self._upkeep = upkeep
        self._outbox = outbox
        self._stores = stores
        self._extractions = extractions
        self._wake = wake

    async def settings(self) -> tuple[list[TunableRow], str]:
        """The tunables as they are in the record now."""
        await self._tunables.refresh()
        return self._tunables.rows()

    async def update_settings(
        self, values: Mapping[str, str], *, etag: str, actor: str, request_id: str
    ) -> tuple[list[TunableRow], str]:
        """Changes tunables; see LiveTunables.update."""
        return await self._tunables.update(values, etag=etag, actor=actor, request_id=request_id)

    async def start(self, kind: JobKind, payload: Mapping[str, Any], *, actor: str, request_id: str) -> Job:
        """Puts a job into the record."""
        job = await self._runner.ask(kind, payload, actor, request_id)
        if job.payload != payload:
            raise request_reused()
        return job

    async def job(self, id: str) -> Job:
        """A job. NotFound."""
        job = await self._jobs.get(id)
        if job is None:
            raise NotFound(f"There is no job {id}.", reason="JOB_NOT_FOUND")
        return job

    async def failed(self, after: ExtractionKey | None, limit: int) -> list[ExtractionRow]:
        """Dead letters of the extraction, from behind one of them."""
        return await self._extractions.failed(after, limit)

    async def retry(self, keys: Sequence[ExtractionKey] | None) -> int:
        """Has dead letters (None = all) tried again; answers how many."""
        count = await self._extractions.retry(keys)
        if count:
            self._wake()
        return count

    async def stats(self) -> Stats:
        """Counts, taken one after the other: they need not agree to the row."""
        return Stats(
            await self._upkeep.totals(),
            await self._outbox.stats(),
            await self._jobs.counts(),
            await self._upkeep.spaces(),
            self._stores.all,
            await self._extractions.stats(),
        )
