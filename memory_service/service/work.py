"""Long work as durable jobs: rebuilding the index, reconciling it, and moving users to another embedding model.

A job keeps a bookmark in the record after every page, so that a crash or a restart costs one page. Only one worker has
a job at a time: its lease token goes with every bookmark.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from uuid_utils import uuid7

from memory_service.ports import Clock, IndexKey, IndexRow, StoreUnavailable
from memory_service.record import Job, JobKind, Jobs, JobState, Upkeep
from memory_service.service.corpora import Corpus
from memory_service.service.embedding import Embeddings
from memory_service.service.reembed import Reembed

log = logging.getLogger(__name__)

PAGE = 500
SECOND = 1_000_000
LEASE = 60 * SECOND
LONGEST_WAIT = 30 * SECOND
MAX_ATTEMPTS = 20
IDLE_SECONDS = 2.0


class LeaseLost(Exception):
    """Another worker has the job now."""


@dataclass(slots=True)
class Progress:
    """A job in hand: what is done, and how it is told."""

    job: Job
    jobs: Jobs
    report: Callable[[Job], None]

    async def advance(self, n: int, cursor: Mapping[str, Any], **counts: int) -> None:
        """Notes that n more are done, up to this bookmark. LeaseLost."""
        summed = dict(Counter(dict(self.job.counts)) + Counter(counts))
        self.job = replace(self.job, done=self.job.done + n, cursor=cursor, counts=summed)
        if not await self.jobs.progress(self.job, LEASE):
            raise LeaseLost
        self.report(self.job)

    async def expect(self, total: int) -> None:
        """Notes how much there is to do."""
        self.job = replace(self.job, total=total)
        await self.advance(0, self.job.cursor)


class JobRunner:
    """Claims jobs and runs them."""

    def __init__(
        self,
        *,
        jobs: Jobs,
        upkeep: Upkeep,
        embeddings: Embeddings,
        reembed: Reembed,
        corpora: Sequence[Corpus],
        clock: Clock,
    ) -> None:
        self._jobs = jobs
        self._upkeep = upkeep
        self._embeddings = embeddings
        self._reembed = reembed
        self._corpora = corpora
        """Empty = there is no index."""
        self._clock = clock

    async def ask(self, kind: JobKind, payload: Mapping[str, Any], actor: str, request_id: str = "") -> Job:
        """Puts a job into the record; a worker will find it."""
        job = Job(id=str(uuid7()), kind=kind, state=JobState.PENDING, payload=payload, created_at=self._clock())
        return await self._jobs.create(job, actor, request_id)

    async def run(self) -> None:
        """Works for ever."""
        while True:
            try:
                busy = await self.step()
            except StoreUnavailable as error:
                log.warning("jobs wait: %s", error)
                busy = False
            except Exception:
                log.exception("the job worker failed and goes on")
                busy = False
            if not busy:
                await asyncio.sleep(IDLE_SECONDS)

    async def step(self, job_id: str | None = None, report: Callable[[Job], None] = lambda job: None) -> bool:
        """Runs one due job, or this one; answers whether there was one."""
        job = await self._jobs.claim(LEASE, job_id)
        if job is None:
            return False
        progress = Progress(job, self._jobs, report)
        try:
            await self._work(progress)
            done = replace(progress.job, state=JobState.SUCCEEDED, error="")
        except LeaseLost:
            log.info("job %s is another worker's now", job.id)
            return True
        except StoreUnavailable as error:
            log.warning("job %s waits: %s", job.id, error)
            if job.attempts < MAX_ATTEMPTS:
                # Soon at first: a collection that is just being made is there in some seconds.
                delay = min(SECOND << job.attempts, LONGEST_WAIT)
                await self._jobs.postpone(progress.job, delay, f"waiting for a store: {error.store}")
                return True
            done = replace(progress.job, state=JobState.FAILED, error=f"gave up waiting for a store: {error.store}")
        except Exception:
            log.exception("job %s failed", job.id)
            done = replace(progress.job, state=JobState.FAILED, error="internal error; the log of the server has it")
        await self._jobs.finish(done)
        report(done)
        return True

    async def _work(self, progress: Progress) -> None:
        if progress.job.payload.get("reembed"):
            await self._reembed_all(progress)
        if progress.job.kind is JobKind.REINDEX:
            await self._rebuild(progress)
        await self._reconcile(progress)

    async def _reembed_all(self, progress: Progress) -> None:
        if progress.job.cursor.get("phase", "reembed") != "reembed":
            return
        user = str(progress.job.cursor.get("user", ""))
        while heads := await self._upkeep.heads_not_in(self._embeddings.current, user, 50):
            for head in heads:
                n = await self._reembed.move(head.user_id)
                user = head.user_id
                await progress.advance(0, {"phase": "reembed", "user": user}, reembedded=n)

    async def _expect_all(self, progress: Progress) -> None:
        await progress.expect(sum([await corpus.count() for corpus in self._corpora]))

    async def _rebuild(self, progress: Progress) -> None:
        """Writes every vector of the record into its index, without the embedding model."""
        if not self._corpora or progress.job.cursor.get("phase") == "reconcile":
            return
        if not progress.job.total:
            await self._expect_all(progress)
        begun = str(progress.job.cursor.get("corpus", "")) if progress.job.cursor.get("phase") == "rebuild" else ""
        for corpus in self._corpora:
            after = ("", "")
            if begun:
                if corpus.name != begun:
                    continue  # done before the crash
                after, begun = (str(progress.job.cursor["user"]), str(progress.job.cursor["memory"])), ""
            async for rows in corpus.scan(after, PAGE):
                n = await _write(corpus, rows)
                last = {"user": rows[-1].user_id, "memory": rows[-1].id}
                await progress.advance(len(rows), {"phase": "rebuild", "corpus": corpus.name, **last}, upserted=n)

    async def _reconcile(self, progress: Progress) -> None:
        """Both ways: what an index holds and the record does not goes; what it lacks comes, through the outbox."""
        if not self._corpora:
            return
        in_use = {*await self._upkeep.spaces(), self._embeddings.current}
        if progress.job.kind is JobKind.RECONCILE:
            progress.job = replace(progress.job, done=0)
            await self._expect_all(progress)
        for corpus in self._corpora:
            present: dict[str, np.ndarray[Any, Any]] = {}
            for space in await corpus.index.spaces():
                if space in in_use:
                    present[space] = await _walk_index(corpus, space, progress)
                else:
                    await corpus.index.drop(space)
            # The walk over the index is not kept, so this phase begins anew after a crash.
            async for rows in corpus.scan(("", ""), PAGE):
                lacking = [row for row in rows if not _holds(present.get(row.embedding_space or ""), _mark(row))]
                await corpus.enqueue([(row.user_id, row.id) for row in lacking])
                done = len(rows) if progress.job.kind is JobKind.RECONCILE else 0
                await progress.advance(done, {"phase": "reconcile"}, missing=len(lacking))


async def _write(corpus: Corpus, rows: Sequence[Any]) -> int:
    """Writes the vectors of some rows; answers how many had one."""
    by_space: dict[str, list[IndexRow]] = {}
    for row in rows:
        if row.embedding_space is not None and (entry := await corpus.entry(row)) is not None:
            by_space.setdefault(row.embedding_space, []).append(entry)
    for space, entries in by_space.items():
        await corpus.index.upsert(space, entries)
    return sum(map(len, by_space.values()))


async def _walk_index(corpus: Corpus, space: str, progress: Progress) -> "np.ndarray[Any, Any]":
    """Removes vectors without a row of their generation and space; answers the marks of all others."""
    marks: list[int] = []
    async for page in corpus.index.scan(space):
        keys = [(key.user_id, key.memory_id) for key, _ in page]
        present = await corpus.present(keys, space)
        orphans = [key for key, generation in page if present.get((key.user_id, key.memory_id)) != generation]
        await _remove(corpus, space, orphans)
        gone = set(orphans)
        marks += [hash((key.user_id, key.memory_id)) for key, _ in page if key not in gone]
        await progress.advance(0, progress.job.cursor, removed=len(orphans))
    return np.sort(np.array(marks, np.int64))


async def _remove(corpus: Corpus, space: str, orphans: Sequence[IndexKey]) -> None:
    """Deletes, then asks for a second look: a row may have come back between the scan and now."""
    if orphans:
        await corpus.index.delete(space, orphans)
        await corpus.enqueue([(key.user_id, key.memory_id) for key in orphans])


def _mark(row: Any) -> int:
    """64 bits that stand for a row: 8 bytes a vector, so that ten million fit in memory."""
    return hash((row.user_id, row.id))


def _holds(marks: "np.ndarray[Any, Any] | None", mark: int) -> bool:
    if marks is None or not len(marks):
        return False
    at = int(np.searchsorted(marks, mark))
    return at < len(marks) and bool(marks[at] == mark)
