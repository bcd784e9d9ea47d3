"""PromptAssembler over gRPC: checks requests, calls the use case, turns its answer into messages.

Any authenticated caller may call it: it holds nothing of anybody's. What a lookup gives is MemoryService's to grant.
"""

from collections.abc import Collection
from typing import Any

from assembler_service.api.messages import counted_message, coverage_message, prompt_answer
from assembler_service.api.validation import MAX_TEXTS, SAID, Check
from assembler_service.domain.model import Request, Role
from assembler_service.service.answers import Answers
from assembler_service.service.assembling import Assembling, PromptCall
from assembler_service.service.desk import Desk
from assembler_service.service.encodings import Encodings
from shared.auth import current_principal
from shared.gen.palimpsest.assembler.v1 import prompt_assembler_pb2 as pb
from shared.gen.palimpsest.assembler.v1 import prompt_assembler_pb2_grpc as pb_grpc


class PromptApi(pb_grpc.PromptAssemblerServicer):
    """The servicer."""

    def __init__(
        self,
        *,
        assembling: Assembling,
        encodings: Encodings,
        answers: Answers,
        desk: Desk,
        known: Collection[str],
    ) -> None:
        """`known`: names of the encodings that may be asked for."""
        self._assembling = assembling
        self._encodings = encodings
        self._answers = answers
        self._desk = desk
        self._known = known

    async def AssemblePrompt(  # noqa: N802
        self, request: pb.AssemblePromptRequest, context: Any
    ) -> pb.AssemblePromptResponse:
        principal = current_principal()
        check = Check()
        wanted = None
        if request.HasField("lookup"):
            wanted = check.lookup(request.lookup)
            if request.memories:
                check.fail("memories", "must be empty where `lookup` is given: it recalls them")
            if request.history and request.lookup.session_id:
                check.fail("history", "must be empty where `lookup.session_id` is given: it names the history")
        options = check.options(request.options, self._known)
        call = PromptCall(
            caller=principal.user_id,
            request=Request(
                question=check.words("question", request.question),
                system_prompt=request.system_prompt,
                user_profile=request.user_profile,
                sources=check.sources(request.sources),
                computations=check.computations(request.computations),
                memories=check.memories(request.memories),
                history=check.messages("history", request.history),
                options=options,
            ),
            encoding=request.options.encoding,
            model=request.options.model,
            safety_margin=check.margin(request.options),
            lookup=wanted,
            dry_run=request.dry_run,
        )
        check.done()
        return prompt_answer(await self._assembling.prompt(call), dry_run=request.dry_run)

    async def CountTokens(self, request: pb.CountTokensRequest, context: Any) -> pb.CountTokensResponse:  # noqa: N802
        check = Check()
        texts = check.many("texts", request.texts, MAX_TEXTS)
        messages = check.messages("messages", request.messages, (Role.SYSTEM, *SAID))
        encoding = check.encoding("encoding", request.encoding, self._known)
        check.done()
        counted = await self._encodings.count(self._desk, list(texts), messages, encoding, request.model)
        return counted_message(counted)

    async def ReportAnswer(self, request: pb.ReportAnswerRequest, context: Any) -> pb.ReportAnswerResponse:  # noqa: N802
        check = Check()
        prompt_id = check.prompt_id("prompt_id", request.prompt_id)
        if request.citation_count < 0:
            check.fail("citation_count", "must be 0 or more")
        check.words("answer", request.answer)
        check.done()
        found = await self._answers.report(prompt_id, request.citation_count, request.answer)
        return coverage_message(found, request.citation_count)
