"""Domain values as messages of the contract. Enums have the same numbers on both sides."""

from assembler_service.domain.coverage import Coverage
from assembler_service.domain.model import Message, Report
from assembler_service.service.assembling import Prompt
from assembler_service.service.encodings import Counted
from shared.gen.palimpsest.assembler.v1 import prompt_assembler_pb2 as pb
from shared.gen.palimpsest.assembler.v1 import prompt_pb2 as p
from shared.gen.palimpsest.assembler.v1 import report_pb2 as r


def prompt_answer(prompt: Prompt, *, dry_run: bool) -> pb.AssemblePromptResponse:
    """The answer of AssemblePrompt; in a dry run its report alone."""
    answer = pb.AssemblePromptResponse(report=report_message(prompt), prompt_id=prompt.id)
    if not dry_run:
        made = prompt.assembled
        answer.messages.extend(map(message_message, made.messages))
        answer.text = made.text
        answer.citations.extend(
            pb.Citation(n=one.n, source_id=one.source_id, title=one.title, uri=one.uri) for one in made.citations
        )
    return answer


def message_message(message: Message) -> p.Message:
    """One chat message."""
    return p.Message(
        role=message.role.value,
        content=message.content,
        tool_call_id=message.tool_call_id,
        tool_calls=[
            p.ToolCall(id=call.id, type=call.type, function=p.FunctionCall(name=call.name, arguments=call.arguments))
            for call in message.tool_calls
        ],
    )


def report_message(prompt: Prompt) -> r.PromptReport:
    """The receipt."""
    report: Report = prompt.assembled.report
    told = report.summary
    return r.PromptReport(
        total_tokens=report.total,
        limit_tokens=report.limit,
        blocks=[
            r.BlockReport(
                block=int(one.block),  # type: ignore[arg-type]
                given_tokens=one.given,
                kept_tokens=one.kept,
                cap_tokens=one.cap,
            )
            for one in report.blocks
        ],
        items=[
            r.ItemReport(
                block=int(one.block),  # type: ignore[arg-type]
                index=one.index,
                id=one.id,
                status=int(one.status),  # type: ignore[arg-type]
                reason=int(one.reason),  # type: ignore[arg-type]
                given_tokens=one.given,
                kept_tokens=one.kept,
            )
            for one in report.items
        ],
        summary=r.SummaryReport(
            used=told.used,
            cached=told.cached,
            tokens=told.tokens,
            covered_messages=told.covered_messages,
            reason=int(told.reason),  # type: ignore[arg-type]
        ),
        lookups=[
            r.LookupReport(
                name=one.name,
                status=int(one.status),  # type: ignore[arg-type]
                items=one.items,
                duration_ms=one.milliseconds,
                omitted=min(one.omitted, 2**31 - 1),
            )
            for one in prompt.lookups
        ],
        degraded=prompt.degraded,
        encoding=prompt.encoding,
    )


def counted_message(counted: Counted) -> pb.CountTokensResponse:
    """The answer of CountTokens."""
    return pb.CountTokensResponse(
        text_tokens=counted.texts,
        messages_tokens=counted.messages,
        encoding=counted.encoding,
        approximate=counted.approximate,
    )


def coverage_message(found: Coverage, citation_count: int) -> pb.ReportAnswerResponse:
    """The answer of ReportAnswer."""
    return pb.ReportAnswerResponse(
        citation_coverage=found.coverage,
        sentences=found.sentences,
        cited_sentences=found.cited_sentences,
        sources_cited=len(found.cited),
        sources_given=citation_count,
        cited=found.cited,
        invalid_citations=[min(n, 2**31 - 1) for n in found.invalid],
    )
