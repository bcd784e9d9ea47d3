"""What time alone brings: expiries, old outcomes, rows past their retention, access counts, the scheduled reconcile."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from memory_service.ports import Clock, StoreUnavailable
from memory_service.record import IDEMPOTENCY_WINDOW, JobKind, Jobs, Outbox, Upkeep
from memory_service.service.access import AccessLog
from memory_service.service.calls import Caller, Mutation
from memory_service.service.embedding import Embeddings
from memory_service.service.tunables import DAY, HOUR, LiveTunables
from memory_service.service.work import JobRunner
from memory_service.service.writer import Transaction, Writer

log = logging.getLogger(__name__)

SWEEP_SECONDS = 60.0
FLUSH_SECONDS = 1.0
KEEP_JOBS = 30 * DAY
USERS = 200
SECOND = 1_000_000


class Sweeper:
    """Runs the upkeep that nobody asks for."""

    def __init__(
        self,
        *,
        upkeep: Upkeep,
        outbox: Outbox,
        jobs: Jobs,
        runner: JobRunner,
        writer: Writer,
        embeddings: Embeddings,
        tunables: LiveTunables,
        access: AccessLog,
        clock: Clock,
        visibility: int,
        reconcile_hours: float,
    ) -> None:
        self._upkeep = upkeep
        self._outbox = outbox
        self._jobs = jobs
        self._runner = runner
        self._writer = writer
        self._embeddings = embeddings
        self._tunables = tunables
        self._access = access
        self._clock = clock
        self._visibility = visibility
        self._reconcile_every = int(reconcile_hours * HOUR)

    async def flush_for_ever(self) -> None:
        """Writes access counts every second."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            try:
                await self._access.flush()
            except Exception:
                log.exception("access counts could not be written and wait")

    async def run(self) -> None:
        """Sweeps for ever."""
        while True:
            try:
                await self.sweep()
            except StoreUnavailable as error:
                log.warning("the sweep waits: %s", error)
            except Exception:
                log.exception("the sweep failed and goes on")
            await asyncio.sleep(SWEEP_SECONDS)

    async def sweep(self) -> None:
        """Once."""
        now = self._clock()
        await self._expire(now)
        await self._outbox.purge(now - self._visibility)
        days = self._tunables.now.retention.retired_days
        await self._upkeep.purge(
            outcomes_before=now - IDEMPOTENCY_WINDOW, retired_before=now - days * DAY if days else None
        )
        await self._jobs.purge(now - KEEP_JOBS)
        if self._reconcile_every:
            # One job for each period, whichever replica is first to ask.
            period = f"scheduled-{now // self._reconcile_every}"
            await self._runner.ask(JobKind.RECONCILE, {}, "scheduler", period)

    async def _expire(self, now: int) -> None:
        async def nothing(_: Transaction) -> Mapping[str, Any]:
            return {}  # every write retires what has expired before it does anything else

        while users := await self._upkeep.expired(now, USERS):
            for user_id in users:
                await self._writer.run(Caller(user_id), Mutation("expire"), nothing, new_in=self._embeddings.current)
            if len(users) < USERS:
                return
