"""AdminService over gRPC."""

import hashlib
import json
from typing import Any

from memory_service.api.messages import timestamp
from memory_service.api.validation import Check
from memory_service.conversation_ports import ExtractionKey, ExtractionRow
from memory_service.record import Job, JobKind
from memory_service.service.admin import Admin
from memory_service.service.tunables import TunableRow
from shared.auth import Principal, require_scope
from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as pb
from shared.gen.palimpsest.memory.v1 import admin_service_pb2_grpc as pb_grpc
from shared.tokens import BadToken, TokenSigner

ADMIN = "memory:admin"
DEFAULT_PAGE, MAX_PAGE = 100, 1000
MAX_ACTOR = 128


class AdminApi(pb_grpc.AdminServiceServicer):
    """The servicer."""

    def __init__(self, admin: Admin, signer: TokenSigner) -> None:
        self._admin = admin
        self._signer = signer

    async def GetSettings(self, request: pb.GetSettingsRequest, context: Any) -> pb.GetSettingsResponse:  # noqa: N802
        require_scope(ADMIN)
        rows, etag = await self._admin.settings()
        return pb.GetSettingsResponse(settings=[_setting(row) for row in rows], etag=etag)

    async def UpdateSettings(  # noqa: N802
        self, request: pb.UpdateSettingsRequest, context: Any
    ) -> pb.UpdateSettingsResponse:
        principal = require_scope(ADMIN)
        check = Check()
        request_id = check.request_id(request.request_id)
        check.done()
        rows, etag = await self._admin.update_settings(
            dict(request.values), etag=request.etag, actor=_actor(principal), request_id=request_id
        )
        return pb.UpdateSettingsResponse(settings=[_setting(row) for row in rows], etag=etag)

    async def Reindex(self, request: pb.ReindexRequest, context: Any) -> pb.ReindexResponse:  # noqa: N802
        payload = {"reembed": True} if request.reembed else {}
        return pb.ReindexResponse(job=await self._start(JobKind.REINDEX, payload, request.request_id))

    async def Reconcile(self, request: pb.ReconcileRequest, context: Any) -> pb.ReconcileResponse:  # noqa: N802
        return pb.ReconcileResponse(job=await self._start(JobKind.RECONCILE, {}, request.request_id))

    async def _start(self, kind: JobKind, payload: dict[str, Any], given: str) -> pb.Job:
        principal = require_scope(ADMIN)
        check = Check()
        request_id = check.request_id(given)
        check.done()
        return _job(await self._admin.start(kind, payload, actor=_actor(principal), request_id=request_id))

    async def GetJob(self, request: pb.GetJobRequest, context: Any) -> pb.GetJobResponse:  # noqa: N802
        require_scope(ADMIN)
        check = Check()
        check.memory_id("id", request.id)
        check.done()
        return pb.GetJobResponse(job=_job(await self._admin.job(request.id)))

    async def ListFailedJobs(  # noqa: N802
        self, request: pb.ListFailedJobsRequest, context: Any
    ) -> pb.ListFailedJobsResponse:
        require_scope(ADMIN)
        check = Check()
        size = check.count("page_size", request.page_size, DEFAULT_PAGE, MAX_PAGE)
        after = self._key(check, "page_token", request.page_token) if request.page_token else None
        check.done()
        found = await self._admin.failed(after, size + 1)
        jobs = [self._failed(row) for row in found[:size]]
        return pb.ListFailedJobsResponse(jobs=jobs, next_page_token=jobs[-1].id if len(found) > size else "")

    async def RetryJobs(self, request: pb.RetryJobsRequest, context: Any) -> pb.RetryJobsResponse:  # noqa: N802
        require_scope(ADMIN)
        check = Check()
        if bool(request.ids) == request.all:
            check.fail("ids", "name some jobs, or set `all`; not both")
        if len(request.ids) > MAX_PAGE:
            check.fail("ids", f"has {len(request.ids):,} ids, at most {MAX_PAGE:,} are allowed")
        keys = [self._key(check, f"ids[{number}]", id) for number, id in enumerate(request.ids[:MAX_PAGE])]
        check.done()
        known = [key for key in keys if key is not None]
        return pb.RetryJobsResponse(retried=await self._admin.retry(None if request.all else known))

    def _failed(self, row: ExtractionRow) -> pb.FailedJob:
        named = json.dumps([row.user_id, row.generation, row.position]).encode()
        return pb.FailedJob(
            id=self._signer.sign("failed-job", (), named),
            user_id=row.user_id,
            session_id=row.session_id,
            turn=row.turn,
            error_code=row.error,
            attempts=row.attempts,
            created_at=timestamp(row.created_at),
            failed_at=timestamp(row.finished_at),
        )

    def _key(self, check: Check, field: str, id: str) -> ExtractionKey | None:
        """What an id of a job names. It is a page token too: where the last one of a page ends."""
        try:
            return ExtractionKey(*json.loads(self._signer.open("failed-job", (), id)))
        except BadToken:
            check.fail(field, "is not what ListFailedJobs answered")
            return None

    async def GetStats(self, request: pb.GetStatsRequest, context: Any) -> pb.GetStatsResponse:  # noqa: N802
        require_scope(ADMIN)
        stats = await self._admin.stats()
        return pb.GetStatsResponse(
            users=stats.totals["users"],
            active_memories=stats.totals["active"],
            retired_memories=stats.totals["retired"],
            unembedded_memories=stats.totals["unembedded"],
            outbox_rows=stats.outbox.rows,
            outbox_oldest_seconds=stats.outbox.oldest / 1_000_000,
            jobs=stats.jobs,
            stores=[pb.StoreStatus(name=s.name, kind=s.kind, up=s.up) for s in stats.stores],
            embedding_spaces=stats.spaces,
            extractions=stats.extractions.counts,
            extraction_oldest_seconds=stats.extractions.oldest / 1_000_000,
        )


def _actor(principal: Principal) -> str:
    """Who is kept as the author. A subject may be longer than a user id, and than what is kept: then a hash of it."""
    subject = principal.subject
    return subject if len(subject) <= MAX_ACTOR else f"sha256:{hashlib.sha256(subject.encode()).hexdigest()}"


def _setting(row: TunableRow) -> pb.Setting:
    return pb.Setting(name=row.name, value=row.value, default_value=row.default, description=row.description)


def _job(job: Job) -> pb.Job:
    return pb.Job(
        id=job.id,
        kind=int(job.kind),  # type: ignore[arg-type]
        state=int(job.state),  # type: ignore[arg-type]
        created_at=timestamp(job.created_at),
        finished_at=timestamp(job.finished_at),
        done=job.done,
        total=job.total,
        counts=job.counts,
        error=job.error,
    )
