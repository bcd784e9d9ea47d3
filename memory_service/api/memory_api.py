"""MemoryService over gRPC: checks rights and requests, calls the use case, turns its answer into messages."""

import hashlib
from datetime import tzinfo
from typing import Any

from memory_service.api.messages import hit_message, memory_message, saved_message, within_limit
from memory_service.api.validation import MAX_QUERY, Check, canonical
from memory_service.domain.model import MemoryType, Shard
from memory_service.ports import Clock
from memory_service.service.calls import Caller, Freshness, Mutation
from memory_service.service.curate import Amendment, Curate, Curated, Selection
from memory_service.service.recall import Question, Recall
from memory_service.service.remember import Remember
from shared.auth import Principal, require_scope
from shared.errors import PermissionDenied
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from shared.gen.palimpsest.memory.v1 import memory_service_pb2_grpc as pb_grpc
from shared.tokens import BadToken, TokenSigner

READ, WRITE = "memory:read", "memory:write"
MAX_BATCH = 100
MAX_TOP_K = 100
MAX_PAGE = 1000
UPDATABLE = ("content", "pinned", "attributes", "expires_at")
_STATES = {0: True, 1: True, 2: False, 3: None}


def caller_of(principal: Principal) -> Caller:
    """The caller's user and the shards it may see; names that no shard has grant nothing."""
    if principal.shards is None:
        return Caller(principal.user_id)
    known = {shard.name: shard for shard in Shard}
    return Caller(principal.user_id, frozenset(known[name] for name in principal.shards if name in known))


class MemoryApi(pb_grpc.MemoryServiceServicer):
    """The servicer."""

    def __init__(
        self,
        *,
        remember: Remember,
        recall: Recall,
        curate: Curate,
        signer: TokenSigner,
        clock: Clock,
        home: tzinfo,
    ) -> None:
        self._remember = remember
        self._recall = recall
        self._curate = curate
        self._signer = signer
        self._clock = clock
        self._home = home

    async def SaveMemory(self, request: pb.SaveMemoryRequest, context: Any) -> pb.SaveMemoryResponse:  # noqa: N802
        principal = require_scope(WRITE)
        check = Check()
        draft = check.draft("", request, self._clock(), self._home)
        call = Mutation("SaveMemory", check.request_id(request.request_id), canonical(request, self._home))
        check.done()
        caller = caller_of(principal)
        self._may_write(caller, [("shard", draft.shard)])
        [saved], freshness = await self._remember.save(caller, [draft], call)
        return saved_message(saved, self._fresh(caller, freshness), readable=READ in principal.scopes)

    async def BatchSaveMemories(  # noqa: N802
        self, request: pb.BatchSaveMemoriesRequest, context: Any
    ) -> pb.BatchSaveMemoriesResponse:
        principal = require_scope(WRITE)
        check = Check()
        if not 1 <= len(request.drafts) <= MAX_BATCH:
            check.fail("drafts", f"has {len(request.drafts)} drafts, 1 to {MAX_BATCH} are allowed")
        now = self._clock()
        drafts = [check.draft(f"drafts[{n}].", draft, now, self._home) for n, draft in enumerate(request.drafts)]
        call = Mutation("BatchSaveMemories", check.request_id(request.request_id), canonical(request, self._home))
        check.done()
        caller = caller_of(principal)
        self._may_write(caller, [(f"drafts[{n}].shard", draft.shard) for n, draft in enumerate(drafts)])
        results, freshness = await self._remember.save(caller, drafts, call)
        token, readable = self._fresh(caller, freshness), READ in principal.scopes
        return pb.BatchSaveMemoriesResponse(results=[saved_message(s, token, readable=readable) for s in results])

    async def RecallMemories(  # noqa: N802
        self, request: pb.RecallMemoriesRequest, context: Any
    ) -> pb.RecallMemoriesResponse:
        caller = caller_of(require_scope(READ))
        check = Check()
        start, end = check.span("occurred_after", "occurred_before", request)
        floor = request.min_similarity if request.HasField("min_similarity") else None
        if floor is not None and not -1 <= floor <= 1:
            check.fail("min_similarity", "must be -1 to 1")
        question = Question(
            query=check.text("query", request.query, MAX_QUERY),
            top_k=check.count("top_k", request.top_k, 5, MAX_TOP_K),
            types=check.kinds("types", request.types, MemoryType),
            shards=check.kinds("shards", request.shards, Shard),
            attributes=check.filters(request.attribute_filters),
            strict=request.strict,
            happened_from=start,
            happened_until=end,
            min_similarity=floor,
        )
        self._check_freshness(check, caller, request.freshness)
        check.done()
        found = await self._recall.recall(caller, question)
        hits, truncated = within_limit(hit_message(hit) for hit in found.hits)
        return pb.RecallMemoriesResponse(
            hits=hits,
            degraded=bool(found.degraded),
            degraded_reasons=[int(reason) for reason in sorted(found.degraded)],  # type: ignore[misc]
            legs_used=[int(leg) for leg in found.legs_used],  # type: ignore[misc]
            truncated=truncated,
            freshness=self._fresh(caller, found.freshness),
        )

    async def GetMemory(self, request: pb.GetMemoryRequest, context: Any) -> pb.GetMemoryResponse:  # noqa: N802
        caller = caller_of(require_scope(READ))
        check = Check()
        check.memory_id("id", request.id)
        check.done()
        return pb.GetMemoryResponse(memory=memory_message(await self._curate.get(caller, request.id), self._clock()))

    async def ListMemories(self, request: pb.ListMemoriesRequest, context: Any) -> pb.ListMemoriesResponse:  # noqa: N802
        caller = caller_of(require_scope(READ))
        check = Check()
        which = self._selection(check, request)
        size = check.count("page_size", request.page_size, 50, MAX_PAGE, clamp=True)
        if request.state not in _STATES:
            check.fail("state", "must be ACTIVE, RETIRED or ANY")
        self._check_freshness(check, caller, request.freshness)
        binding = (caller.user_id, _arguments(request))
        before = self._page_start(check, binding, request.page_token)
        check.done()
        found, freshness = await self._curate.page(caller, which, _STATES[request.state], before, size + 1)
        now = self._clock()
        page, cut = within_limit(memory_message(memory, now) for memory in found[:size])
        more = cut or len(found) > size
        return pb.ListMemoriesResponse(
            memories=page,
            next_page_token=self._signer.sign("page", binding, page[-1].id.encode()) if more else "",
            freshness=self._fresh(caller, freshness),
        )

    async def UpdateMemory(self, request: pb.UpdateMemoryRequest, context: Any) -> pb.UpdateMemoryResponse:  # noqa: N802
        principal = require_scope(WRITE)
        check = Check()
        given, paths = request.memory, list(request.update_mask.paths)
        check.memory_id("memory.id", given.id)
        if not paths:
            check.fail("update_mask", f"is required: one or more of {', '.join(UPDATABLE)}")
        for path in paths:
            if path not in UPDATABLE:
                check.fail("update_mask", f"'{path[:64]}' cannot be changed, only {', '.join(UPDATABLE)} can")
        if "content" in paths:
            check.text("memory.content", given.content, 8000, required=True)
            if given.content and not given.content.strip():
                check.fail("memory.content", "must hold more than white space")
        expires = check.instant("memory.expires_at", given, "expires_at") if "expires_at" in paths else None
        if expires is not None and expires <= self._clock():
            check.fail("memory.expires_at", "must lie in the future")
        change = Amendment(
            id=given.id,
            etag=given.etag,
            fields=frozenset(paths),
            content=given.content,
            pinned=given.pinned,
            attributes=check.attributes("memory.attributes", given.attributes) if "attributes" in paths else {},
            expires_at=expires,
        )
        call = Mutation("UpdateMemory", check.request_id(request.request_id), canonical(request, self._home))
        check.done()
        caller = caller_of(principal)
        done = await self._curate.update(caller, change, call)
        return pb.UpdateMemoryResponse(
            memory=self._shown(principal, done),
            superseded_ids=done.superseded_ids,
            evicted_ids=done.evicted_ids,
            index_pending=done.index_pending,
            freshness=self._fresh(caller, done.freshness),
        )

    async def InvalidateMemory(  # noqa: N802
        self, request: pb.InvalidateMemoryRequest, context: Any
    ) -> pb.InvalidateMemoryResponse:
        principal = require_scope(WRITE)
        call = self._mutation_of_one("InvalidateMemory", request)
        caller = caller_of(principal)
        done = await self._curate.invalidate(caller, request.id, request.etag, call)
        return pb.InvalidateMemoryResponse(
            memory=self._shown(principal, done), freshness=self._fresh(caller, done.freshness)
        )

    async def RestoreMemory(  # noqa: N802
        self, request: pb.RestoreMemoryRequest, context: Any
    ) -> pb.RestoreMemoryResponse:
        principal = require_scope(WRITE)
        call = self._mutation_of_one("RestoreMemory", request)
        caller = caller_of(principal)
        done = await self._curate.restore(caller, request.id, request.etag, request.retire_conflicting, call)
        return pb.RestoreMemoryResponse(
            memory=self._shown(principal, done),
            superseded_ids=done.superseded_ids,
            evicted_ids=done.evicted_ids,
            freshness=self._fresh(caller, done.freshness),
        )

    async def ClearMemories(  # noqa: N802
        self, request: pb.ClearMemoriesRequest, context: Any
    ) -> pb.ClearMemoriesResponse:
        caller = caller_of(require_scope(WRITE))
        check = Check()
        which = self._selection(check, request)
        call = Mutation("ClearMemories", check.request_id(request.request_id), canonical(request, self._home))
        check.done()
        count, freshness = await self._curate.clear(caller, which, call)
        return pb.ClearMemoriesResponse(cleared_count=count, freshness=self._fresh(caller, freshness))

    def _selection(self, check: Check, request: pb.ListMemoriesRequest | pb.ClearMemoriesRequest) -> Selection:
        start, end = check.span("created_after", "created_before", request)
        return Selection(
            types=check.kinds("types", request.types, MemoryType),
            shards=check.kinds("shards", request.shards, Shard),
            session_id=check.identifier("session_id", request.session_id),
            created_from=start,
            created_until=end,
        )

    def _mutation_of_one(self, rpc: str, request: pb.InvalidateMemoryRequest | pb.RestoreMemoryRequest) -> Mutation:
        check = Check()
        check.memory_id("id", request.id)
        call = Mutation(rpc, check.request_id(request.request_id), canonical(request, self._home))
        check.done()
        return call

    def _may_write(self, caller: Caller, shards: list[tuple[str, Shard]]) -> None:
        for field, shard in shards:
            if not caller.sees(shard):
                raise PermissionDenied(
                    f"{field}: this token has no right to the shard {shard.name}.",
                    reason="SHARD_DENIED",
                    metadata={"shard": shard.name},
                )

    def _shown(self, principal: Principal, done: Curated) -> Any:
        readable = done.memory is not None and READ in principal.scopes
        return memory_message(done.memory) if readable and done.memory is not None else None

    def _fresh(self, caller: Caller, freshness: Freshness) -> str:
        payload = f"{freshness.generation}:{freshness.version}".encode()
        return self._signer.sign("freshness", (caller.user_id,), payload)

    def _check_freshness(self, check: Check, caller: Caller, token: str) -> None:
        """Reads go to the primary record, so whatever state it names is there; it must only be this user's."""
        if token:
            try:
                self._signer.open("freshness", (caller.user_id,), token)
            except BadToken:
                check.fail("freshness", "is not a token that an answer to this user carried")

    def _page_start(self, check: Check, binding: tuple[str, str], token: str) -> str | None:
        if not token:
            return None
        try:
            return self._signer.open("page", binding, token).decode()
        except BadToken:
            check.fail("page_token", "is not the next_page_token of an answer to this user and these arguments")
            return None


def _arguments(request: pb.ListMemoriesRequest) -> str:
    """What a page token is bound to: everything but the token itself, the page's size and the freshness."""
    copy = pb.ListMemoriesRequest()
    copy.CopyFrom(request)
    copy.page_token, copy.page_size, copy.freshness = "", 0, ""
    return hashlib.sha256(copy.SerializeToString(deterministic=True)).hexdigest()
