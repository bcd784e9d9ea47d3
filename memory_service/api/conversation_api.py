"""ConversationService over gRPC: checks rights and requests, calls the use case, turns its answer into messages."""

from datetime import tzinfo
from typing import Any

from memory_service.api.conversation_messages import (
    conversation_message,
    extraction_message,
    history_hit_message,
    session_message,
)
from memory_service.api.memory_api import READ, WRITE
from memory_service.api.messages import within_limit
from memory_service.api.validation import MAX_QUERY, Check
from memory_service.domain.conversation import ASSISTANT, ROLES, TOOL, Message, ToolCall
from memory_service.domain.model import Micros
from memory_service.ports import Clock
from memory_service.service.calls import Caller, Mutation
from memory_service.service.conversations import MAX_MESSAGES, Converse, NewSummary, Turn
from memory_service.service.history import HistoryQuestion, SearchHistory
from shared.auth import require_scope
from shared.errors import PermissionDenied
from shared.gen.palimpsest.memory.v1 import conversation_service_pb2 as pb
from shared.gen.palimpsest.memory.v1 import conversation_service_pb2_grpc as pb_grpc
from shared.tokens import BadToken, TokenSigner

MAX_TURN_MESSAGES = 200
MAX_CONTENT = 100_000
MAX_CALLS = 128
MAX_CALL_ID = 256
MAX_SUMMARY = 20_000
MAX_CHANNEL = 32
MAX_SESSIONS = 100
MAX_TOP_K = 100
MAX_PAGE = 1000
DEFAULT_MESSAGES = 20


class ConversationApi(pb_grpc.ConversationServiceServicer):
    """The servicer."""

    def __init__(
        self, *, converse: Converse, search: SearchHistory, signer: TokenSigner, clock: Clock, home: tzinfo
    ) -> None:
        self._converse = converse
        self._search = search
        self._signer = signer
        self._clock = clock
        self._home = home

    async def AppendTurn(self, request: pb.AppendTurnRequest, context: Any) -> pb.AppendTurnResponse:  # noqa: N802
        caller = _caller(WRITE)
        check = Check()
        now = self._clock()
        turn = Turn(
            session_id=_session_id(check, request.session_id),
            messages=_messages(check, request, now),
            channel=check.identifier("channel", request.channel, MAX_CHANNEL),
            time_zone=str(check.zone("time_zone", request.time_zone, self._home)),
        )
        call = Mutation("AppendTurn", check.request_id(request.request_id), _append_arguments(request, self._home))
        check.done()
        done = await self._converse.append(caller, turn, call)
        return pb.AppendTurnResponse(
            turn=done.turn,
            messages=[
                pb.AppendedMessage(message_id=id, stored=stored, reason_code=int(rule) if rule else 0)  # type: ignore[arg-type]
                for id, stored, rule in done.messages
            ],
        )

    async def GetHistory(self, request: pb.GetHistoryRequest, context: Any) -> pb.GetHistoryResponse:  # noqa: N802
        caller = _caller(READ)
        check = Check()
        session_id = _session_id(check, request.session_id)
        budget = request.max_tokens if request.HasField("max_tokens") else None
        if budget is not None and budget < 0:
            check.fail("max_tokens", "must not be negative")
        default = DEFAULT_MESSAGES if budget is None else MAX_MESSAGES
        most = check.count("max_messages", request.max_messages, default, MAX_MESSAGES)
        check.done()
        found = await self._converse.history(caller, session_id, most, budget)
        if found.session is None:
            return pb.GetHistoryResponse()
        newest, _ = within_limit(conversation_message(message) for message in reversed(found.messages))
        session = found.session
        total = max(session.messages, found.messages[-1].seq if found.messages else 0)
        before = newest[-1].seq - 1 if newest else total
        return pb.GetHistoryResponse(
            messages=newest[::-1],
            summary=session.summary,
            summary_until=session.summary_until,
            turns=max(session.turns, found.messages[-1].turn if found.messages else 0),
            total_messages=total,
            omitted_messages=max(0, before - session.summary_until),
        )

    async def SearchHistory(  # noqa: N802
        self, request: pb.SearchHistoryRequest, context: Any
    ) -> pb.SearchHistoryResponse:
        caller = _caller(READ)
        check = Check()
        if len(request.session_ids) > MAX_SESSIONS:
            check.fail("session_ids", f"has {len(request.session_ids)} ids, at most {MAX_SESSIONS} are allowed")
        start, end = check.span("created_after", "created_before", request)
        question = HistoryQuestion(
            query=check.text("query", request.query, MAX_QUERY),
            top_k=check.count("top_k", request.top_k, 10, MAX_TOP_K),
            sessions=frozenset(_session_id(check, id, f"session_ids[{n}]") for n, id in enumerate(request.session_ids)),
            created_from=start,
            created_until=end,
        )
        check.done()
        found = await self._search.search(caller, question)
        hits, truncated = within_limit(history_hit_message(hit) for hit in found.hits)
        return pb.SearchHistoryResponse(
            hits=hits,
            degraded=bool(found.degraded),
            degraded_reasons=[int(reason) for reason in sorted(found.degraded)],  # type: ignore[misc]
            legs_used=[int(leg) for leg in found.legs_used],  # type: ignore[misc]
            truncated=truncated,
        )

    async def SaveSessionSummary(  # noqa: N802
        self, request: pb.SaveSessionSummaryRequest, context: Any
    ) -> pb.SaveSessionSummaryResponse:
        caller = _caller(WRITE)
        check = Check()
        session_id = _session_id(check, request.session_id)
        text = check.text("summary", request.summary, MAX_SUMMARY, required=True)
        if request.expected_until < 0:
            check.fail("expected_until", "must not be negative")
        if request.summary_until < max(1, request.expected_until):
            check.fail("summary_until", "must be at least 1, and not below expected_until")
        call = Mutation("SaveSessionSummary", check.request_id(request.request_id), _arguments(request))
        check.done()
        summary = NewSummary(
            session_id=session_id, text=text, until=request.summary_until, expected=request.expected_until
        )
        return pb.SaveSessionSummaryResponse(summary_until=await self._converse.save_summary(caller, summary, call))

    async def ListSessions(self, request: pb.ListSessionsRequest, context: Any) -> pb.ListSessionsResponse:  # noqa: N802
        caller = _caller(READ)
        check = Check()
        size = check.count("page_size", request.page_size, 50, MAX_PAGE, clamp=True)
        before = self._page_start(check, caller, request.page_token)
        check.done()
        rows = await self._converse.sessions(caller, before, size + 1)
        page, more = rows[:size], len(rows) > size
        return pb.ListSessionsResponse(
            sessions=[session_message(row) for row in page],
            next_page_token=self._signer.sign("sessions", (caller.user_id,), str(page[-1].changed).encode())
            if more
            else "",
        )

    def _page_start(self, check: Check, caller: Caller, token: str) -> int | None:
        if not token:
            return None
        try:
            return int(self._signer.open("sessions", (caller.user_id,), token))
        except BadToken:
            check.fail("page_token", "is not the next_page_token of an answer to this user")
            return None

    async def DeleteSession(  # noqa: N802
        self, request: pb.DeleteSessionRequest, context: Any
    ) -> pb.DeleteSessionResponse:
        caller = _caller(WRITE)
        check = Check()
        session_id = _session_id(check, request.session_id)
        call = Mutation("DeleteSession", check.request_id(request.request_id), _arguments(request))
        check.done()
        messages, memories = await self._converse.delete(caller, session_id, call)
        return pb.DeleteSessionResponse(deleted_messages=messages, deleted_memories=memories)

    async def GetExtraction(  # noqa: N802
        self, request: pb.GetExtractionRequest, context: Any
    ) -> pb.GetExtractionResponse:
        caller = _caller(READ)
        check = Check()
        session_id = _session_id(check, request.session_id)
        if request.turn < 0:
            check.fail("turn", "must not be negative")
        check.done()
        found = await self._converse.extraction(caller, session_id, request.turn)
        return pb.GetExtractionResponse(extraction=extraction_message(found))


def _caller(scope: str) -> Caller:
    """The caller, who has the scope and sees every shard: a conversation is not divided by them."""
    principal = require_scope(scope)
    if principal.shards is not None:
        raise PermissionDenied(
            "A token that is restricted to shards may not call this: a conversation is not divided by them.",
            reason="SHARD_DENIED",
        )
    return Caller(principal.user_id)


def _session_id(check: Check, value: str, field: str = "session_id") -> str:
    if not value:
        check.fail(field, "is required: 1 to 128 characters of A-Z a-z 0-9 . _ : @ + = / | -")
    return check.identifier(field, value)


def _messages(check: Check, request: pb.AppendTurnRequest, now: Micros) -> list[Message]:
    if not 1 <= len(request.messages) <= MAX_TURN_MESSAGES:
        check.fail("messages", f"has {len(request.messages)} messages, 1 to {MAX_TURN_MESSAGES} are allowed")
    seen: set[str] = set()
    found = []
    for number, given in enumerate(request.messages[: MAX_TURN_MESSAGES + 1]):
        field = f"messages[{number}]"
        if given.message_id and given.message_id in seen:
            check.fail(f"{field}.message_id", "is that of an earlier message of the same turn")
        seen.add(given.message_id)
        found.append(_message(check, field, given, now))
    return found


def _message(check: Check, field: str, given: pb.ConversationMessage, now: Micros) -> Message:
    if given.role not in ROLES:
        check.fail(f"{field}.role", "must be user, assistant or tool")
    if given.tool_calls and given.role != ASSISTANT:
        check.fail(f"{field}.tool_calls", "are made by the role assistant only")
    if given.tool_call_id and given.role != TOOL:
        check.fail(f"{field}.tool_call_id", "belongs to the role tool only")
    if len(given.tool_calls) > MAX_CALLS:
        check.fail(f"{field}.tool_calls", f"has {len(given.tool_calls)} calls, at most {MAX_CALLS} are allowed")
    required = given.role != TOOL and not given.tool_calls
    created = check.instant(f"{field}.created_at", given, "created_at")
    return Message(
        message_id=check.identifier(f"{field}.message_id", given.message_id),
        role=given.role,
        content=check.text(f"{field}.content", given.content, MAX_CONTENT, required=required),
        created_at=now if created is None else created,
        tool_calls=tuple(
            _call(check, f"{field}.tool_calls[{n}]", call) for n, call in enumerate(given.tool_calls[:MAX_CALLS])
        ),
        tool_call_id=check.text(f"{field}.tool_call_id", given.tool_call_id, MAX_CALL_ID),
    )


def _call(check: Check, field: str, given: pb.ToolCall) -> ToolCall:
    return ToolCall(
        id=check.text(f"{field}.id", given.id, MAX_CALL_ID, required=True),
        type=check.text(f"{field}.type", given.type or "function", 32),
        name=check.text(f"{field}.function.name", given.function.name, MAX_CALL_ID, required=True),
        arguments=check.text(f"{field}.function.arguments", given.function.arguments, MAX_CONTENT),
    )


def _append_arguments(request: pb.AppendTurnRequest, home: tzinfo) -> bytes:
    """A turn's arguments for comparing two calls: defaults applied, what is ignored and the request id left out."""
    copy = pb.AppendTurnRequest()
    copy.CopyFrom(request)
    copy.time_zone = copy.time_zone or str(home)
    for message in copy.messages:
        message.seq = message.turn = 0
        for call in message.tool_calls:
            call.type = call.type or "function"
    return _arguments(copy)


def _arguments(request: Any) -> bytes:
    copy = type(request)()
    copy.CopyFrom(request)
    copy.request_id = ""
    return bytes(copy.SerializeToString(deterministic=True))
