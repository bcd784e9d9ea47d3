"""What the longer commands do: calibrate, reindex, reconcile, rotate keys. They show progress and can be run again."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import grpc
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from memory_service.adapters.keys import add_key
from memory_service.adapters.sql.keys import SqlKeyStore
from memory_service.adapters.sql.migrate import is_current
from memory_service.compose import (
    application,
    databases,
    embedder,
    infrastructure,
    key_provider,
    now_micros,
    open_keyring,
)
from memory_service.domain.calibration import Calibration, LabelledPair, parse_pairs, texts_of
from memory_service.domain.calibration import calibrate as calibrated
from memory_service.domain.model import Vector
from memory_service.domain.subjects import told
from memory_service.main import data_folder
from memory_service.ports import Embedder, StoreUnavailable
from memory_service.record import Job, JobKind, JobState
from memory_service.service.vault import Keyring
from memory_service.settings import MemorySettings
from shared.auth import mint_dev_token
from shared.channel import open_channel
from shared.config import ConfigError
from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as pb
from shared.gen.palimpsest.memory.v1 import admin_service_pb2_grpc as pb_grpc
from shared.grpc_errors import details_of
from shared.telemetry import Telemetry

OPERATOR = "operator"
POLL_SECONDS = 0.3
EMBED_BATCH = 16


Show = Callable[[int, int], None]
"""Told how many rows are done, of how many (0 = not known yet)."""
Ended = tuple[JobState, dict[str, int], str]
"""How a job ended: its state, its counts, and why it failed."""


class CommandFailed(Exception):
    """A command could not be done; the text says why, in one line."""


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TaskProgressColumn(show_speed=True),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console,
    )


async def long_work(settings: MemorySettings, kind: str, *, reembed: bool, bearer: str, console: Console) -> None:
    """Runs a job here, or asks the running server where it owns the embedded stores, and shows how it goes."""
    started = time.monotonic()
    with _bar(console) as bar:
        task = bar.add_task(kind, total=None, rate="")

        def show(done: int, total: int) -> None:
            rate = done / max(0.001, time.monotonic() - started)
            bar.update(task, completed=done, total=total or None, rate=f"{rate:,.0f} rows/s")

        try:
            with data_folder(settings):
                state, counts, error = await _here(settings, kind, reembed, show)
        except ConfigError:
            if not settings.embedded:
                raise
            # The running server holds the data folder: it does the work.
            state, counts, error = await _there(settings, kind, reembed, bearer, show)
    if state != JobState.SUCCEEDED:
        raise CommandFailed(f"{kind} did not end well: {error or 'another worker has it now; GetJob tells'}")
    told = ", ".join(f"{n:,} {name}" for name, n in sorted(counts.items())) or "nothing to do"
    print(f"{kind}: {told} in {time.monotonic() - started:.1f} s")


async def _here(settings: MemorySettings, kind: str, reembed: bool, show: Show) -> Ended:
    async with contextlib.AsyncExitStack() as stack:
        infra = infrastructure(settings, Telemetry(settings.telemetry), stack)
        if not (await is_current(infra.database, "record") and await is_current(infra.key_database, "keys")):
            raise CommandFailed("the schema of the record is older than this version: run `memory-service migrate`")
        runner = (await application(infra)).runner
        payload = {"reembed": True} if reembed else {}
        job = await runner.ask(JobKind[kind.upper()], payload, OPERATOR)
        while True:
            await runner.step(job.id, lambda now: show(now.done, now.total))
            now = await infra.jobs.get(job.id)
            if now is None or now.state in (JobState.SUCCEEDED, JobState.FAILED):
                break
            await asyncio.sleep(POLL_SECONDS)
        found: Job = now or job
        return found.state, dict(found.counts), found.error


async def _there(settings: MemorySettings, kind: str, reembed: bool, bearer: str, show: Show) -> Ended:
    metadata = _credentials(settings, bearer)
    async with open_channel(settings.listen) as channel:
        stub: Any = pb_grpc.AdminServiceStub(channel)
        try:
            if kind == "reindex":
                job = (await stub.Reindex(pb.ReindexRequest(reembed=reembed), metadata=metadata)).job
            else:
                job = (await stub.Reconcile(pb.ReconcileRequest(), metadata=metadata)).job
            while job.state in (pb.JOB_STATE_PENDING, pb.JOB_STATE_RUNNING):
                await asyncio.sleep(POLL_SECONDS)
                job = (await stub.GetJob(pb.GetJobRequest(id=job.id), metadata=metadata)).job
                show(job.done, job.total)
        except grpc.aio.AioRpcError as error:
            reason = details_of(error).reason
            if not reason:  # these are not words of ours
                raise CommandFailed(
                    f"the data folder {settings.data_dir} is in use, but no server answers on {settings.listen}: "
                    "set PALIMPSEST_LISTEN as the running server has it"
                ) from error
            raise CommandFailed(
                f"the running server on {settings.listen} answers {reason}: {error.details()}"
            ) from error
    return JobState(int(job.state)), dict(job.counts), job.error


async def failed_jobs(settings: MemorySettings, *, retry: bool, bearer: str) -> None:
    """Asks the running server for the dead letters of the extraction; with `retry`, has them tried again."""
    metadata = _credentials(settings, bearer)
    async with open_channel(settings.listen) as channel:
        stub: Any = pb_grpc.AdminServiceStub(channel)
        try:
            if retry:
                answer = await stub.RetryJobs(pb.RetryJobsRequest(all=True), metadata=metadata)
                print(f"{answer.retried:,} turns wait for their extraction again")
                return
            token, count = "", 0
            while True:
                page = await stub.ListFailedJobs(pb.ListFailedJobsRequest(page_token=token), metadata=metadata)
                for job in page.jobs:
                    when = job.failed_at.ToDatetime().isoformat(timespec="seconds")
                    print(f"{when}Z {job.error_code} user {job.user_id} session {job.session_id} turn {job.turn}")
                token, count = page.next_page_token, count + len(page.jobs)
                if not token:
                    break
        except grpc.aio.AioRpcError as error:
            reason = details_of(error).reason
            problem = f"answers {reason}: {error.details()}" if reason else "does not answer"
            raise CommandFailed(f"the server on {settings.listen} {problem}") from error
    print(f"{count:,} turns were given up" + ("; --retry has them tried again" if count else ""))


def _credentials(settings: MemorySettings, bearer: str) -> tuple[tuple[str, str], ...]:
    if bearer:
        return (("authorization", f"Bearer {bearer}"),)
    if settings.auth.mode == "dev":
        return (("x-user-id", OPERATOR),)
    if settings.auth.secret is None:
        raise CommandFailed("the server must be asked, and that needs a token with memory:admin: give --token")
    made = mint_dev_token(settings.auth, sub=OPERATOR, scopes=["memory:admin"], ttl=3600)
    return (("authorization", f"Bearer {made}"),)


def calibrate(settings: MemorySettings, out: Path, pairs: Path | None, console: Console) -> None:
    """Embeds the labelled pairs with the configured model, writes its space and prints the report."""
    if not out.parent.is_dir() or out.is_dir():
        raise CommandFailed(f"{out} cannot be written: it must be a file in a folder that exists")
    shipped = resources.files("memory_service").joinpath("data/calibration_pairs.tsv")
    try:
        text = pairs.read_text(encoding="utf-8") if pairs else shipped.read_text(encoding="utf-8")
        labelled = parse_pairs(text)
    except (OSError, ValueError) as error:
        raise CommandFailed(f"the pair file cannot be used: {error}") from error
    try:
        found = asyncio.run(_calibrated(settings, labelled, console))
        out.write_text(found.space.to_json(), encoding="utf-8")
    except StoreUnavailable as error:
        raise CommandFailed(f"the embedding model does not answer: {error}") from error
    except ValueError as error:
        raise CommandFailed(f"no space can be made of these pairs: {error}") from error
    except OSError as error:
        raise CommandFailed(f"{out} cannot be written: {error.strerror}") from error
    _print_report(found)
    print(f"{found.space.id} written to {out}")


async def _calibrated(settings: MemorySettings, pairs: Sequence[LabelledPair], console: Console) -> Calibration:
    texts = texts_of(pairs)
    model: Embedder = embedder(settings.embedding, settings.embedding.dim)
    passages: dict[str, Vector] = {}
    queries: dict[str, Vector] = {}
    try:
        with _bar(console) as bar:
            task = bar.add_task("embedding", total=len(texts.passages) + len(texts.queries), rate="")
            for some in _batches(texts.passages):
                passages.update(zip(some, await model.embed_passages([told(text) for text in some]), strict=True))
                bar.advance(task, len(some))
            for query in texts.queries:
                queries[query] = await model.embed_query(query)
                bar.advance(task)
    finally:
        await model.close()
    return calibrated(model.model, pairs, passages, queries)


def _print_report(found: Calibration) -> None:
    """Precision and recall of the two scales at some thresholds, in percent; the lines in use are marked."""
    console = Console()
    recall = Table(title="recall: query and memory", box=None)
    for heading in ("similarity", "cosine", "related found", "precision", "correct empties"):
        recall.add_column(heading, justify="right")
    for row in found.recall:
        shares = (row.recall, row.precision, row.empties)
        recall.add_row(f"{row.similarity:.2f}", f"{row.cosine:.3f}", *(f"{100 * share:.1f}" for share in shares))
    dedup = Table(title="dedup: two memories, share at or above", box=None)
    for heading in ("similarity", "cosine", "same", "changed", "different", "precision"):
        dedup.add_column(heading, justify="right")
    for line in found.dedup:
        shares4 = (line.same, line.changed, line.different, line.precision)
        dedup.add_row(f"{line.similarity:.2f}", f"{line.cosine:.3f}", *(f"{100 * share:.1f}" for share in shares4))
    console.print(recall)
    console.print(dedup)


def _batches(texts: Sequence[str]) -> list[list[str]]:
    return [list(texts[start : start + EMBED_BATCH]) for start in range(0, len(texts), EMBED_BATCH)]


async def rotate_keys(settings: MemorySettings, console: Console) -> None:
    """Adds a key to the key file (keys from the environment: takes the current one) and re-wraps all data keys."""
    with data_folder(settings):
        async with contextlib.AsyncExitStack() as stack:
            _, database = databases(settings, stack)
            store = SqlKeyStore(database, now_micros)
            if not await is_current(database, "keys"):
                raise CommandFailed("the schema is older than this version: run `memory-service migrate`")
            keyring = await open_keyring(settings, store)
            if not settings.keys.keys and not await keyring.outdated():
                name = add_key(settings.key_file)
                print(f"{name} was added to {settings.key_file}; back the file up, memories hang on it")
            keyring = Keyring(store, key_provider(settings, create=False))
            total = await keyring.outdated()
            with _bar(console) as bar:
                task = bar.add_task("data keys", total=total, rate="")
                done = await keyring.rotate(lambda n: bar.advance(task, n))
    print(f"{done:,} data keys are wrapped by the current key now")
