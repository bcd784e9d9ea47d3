"""AssemblePrompt as a use case, with a summariser and memories that behave as each test wants."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from assembler_service.adapters.tokenizer import Tokenizer, encoding_for
from assembler_service.domain.assemble import assemble
from assembler_service.domain.model import (
    CountTokens,
    HistoryStrategy,
    MemoryItem,
    Message,
    Options,
    Request,
    Role,
    Summary,
    SummaryNeed,
    SummaryReason,
)
from assembler_service.ports import Conversations, Keep, LookupFailed, LookupStatus, Recollection, Summarizer
from assembler_service.service.assembling import NO_FAILURE, Assembling, Prompt, PromptCall
from assembler_service.service.desk import INLINE_CHARS, Desk
from assembler_service.service.encodings import Encodings
from assembler_service.service.lookups import QUERY_BYTES, Lookups, Wanted, query_of
from assembler_service.service.measures import Measures
from assembler_service.service.sessions import Sessions
from shared.config import TelemetrySettings
from shared.context import deadline_at
from shared.telemetry import Telemetry
from tests.assembler.samples import prompt_tokens
from tests.assembler.test_stories import sources, turn

TOLD = "用户与助手逐轮讨论了数据库的多个方面，并记录了结论。"
LONG = Request(
    question="下一步是什么？",
    sources=sources(3, 4),
    history=tuple(message for n in range(20) for message in turn(n)),
)


@dataclass
class Summaries:
    """A summariser that answers what it is told to, and notes what it was asked."""

    answer: Callable[[], Summary] = lambda: Summary(TOLD)
    asked: list[tuple[str, SummaryNeed, float]] = field(default_factory=list)

    async def summarize(
        self, caller: str, need: SummaryNeed, count: CountTokens, seconds: float, keep: Keep | None = None
    ) -> Summary:
        self.asked.append((caller, need, seconds))
        made = self.answer()
        if keep is not None and made.text:
            await keep.store(made.text)
        return made

    async def close(self) -> None:
        """Nothing to end."""


@dataclass
class Remembered:
    """Memories that answer what they are told to."""

    answer: Callable[[], Sequence[MemoryItem]] = tuple
    asked: list[tuple[Recollection, float]] = field(default_factory=list)

    async def recall(self, wanted: Recollection, seconds: float) -> Sequence[MemoryItem]:
        self.asked.append((wanted, seconds))
        return self.answer()

    async def close(self) -> None:
        """Nothing to end."""


def use_case(
    tokenizer: Tokenizer,
    summarizer: Summarizer | SummaryReason = SummaryReason.NO_MODEL,
    memories: Remembered | None = None,
    conversations: Conversations | None = None,
) -> Assembling:
    telemetry = Telemetry(TelemetrySettings())
    sessions = Sessions(conversations, telemetry)
    return Assembling(
        encodings=Encodings(tokenizer.counter, encoding_for),
        lookups=Lookups(memories, sessions, 1.0, telemetry),
        sessions=sessions,
        summarizer=summarizer,
        summary_seconds=2.0,
        desk=Desk(1),
        measures=Measures(telemetry),
        telemetry=telemetry,
        new_id=lambda: "p1",
    )


async def within(seconds: float, work: Assembling, call: PromptCall) -> Prompt:
    """The prompt of a call that has so much time."""
    with deadline_at(asyncio.get_running_loop().time() + seconds):
        return await work.prompt(call)


async def test_a_summary_is_asked_for_once_and_placed(tokenizer: Tokenizer) -> None:
    summaries = Summaries()
    made = await within(20, use_case(tokenizer, summaries), PromptCall(caller="alice", request=LONG))
    [(caller, need, seconds)] = summaries.asked
    assert caller == "alice"
    assert need.covered == LONG.history[: len(need.covered)]
    assert 0 < seconds <= 2.0
    report = made.assembled.report
    assert report.summary.used
    assert report.summary.covered_messages == len(need.covered)
    assert TOLD in made.assembled.text
    assert not made.degraded
    assert prompt_tokens(made.assembled.messages) == report.total <= report.limit


@pytest.mark.parametrize("reason", list(SummaryReason)[1:])
async def test_a_summary_that_is_not_had_changes_the_reason_alone(tokenizer: Tokenizer, reason: SummaryReason) -> None:
    plain = assemble(LONG, tokenizer.counter(), Summary(reason=reason))
    made = await within(
        20,
        use_case(tokenizer, Summaries(lambda: Summary(reason=reason))),
        PromptCall(caller="alice", request=LONG),
    )
    assert made.assembled == plain
    assert made.assembled.report.summary.reason is reason
    assert made.degraded == (reason not in NO_FAILURE)


async def test_a_summary_that_is_too_long_after_all_is_left_out(tokenizer: Tokenizer) -> None:
    made = await within(
        20,
        use_case(tokenizer, Summaries(lambda: Summary("很长的摘要。" * 500))),
        PromptCall(caller="alice", request=LONG),
    )
    assert not made.assembled.report.summary.used
    assert made.assembled.report.summary.reason is SummaryReason.OVER_CAP
    assert made.degraded


async def test_without_time_nobody_is_asked(tokenizer: Tokenizer) -> None:
    summaries = Summaries()
    made = await within(0.01, use_case(tokenizer, summaries), PromptCall(caller="alice", request=LONG))
    assert not summaries.asked
    assert made.assembled.report.summary.reason is SummaryReason.TIMEOUT
    assert made.degraded


async def test_the_summariser_gets_no_more_than_what_the_call_has_left(tokenizer: Tokenizer) -> None:
    summaries = Summaries()
    work = use_case(tokenizer, summaries)
    await within(20, work, PromptCall(caller="alice", request=LONG))  # counts are warm from here on
    await within(1.0, work, PromptCall(caller="alice", request=LONG))
    assert summaries.asked[1][2] < 1.0


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (PromptCall(caller="a", request=LONG, dry_run=True), SummaryReason.DISABLED),
        (PromptCall(caller="a", request=Request(question="你好？")), SummaryReason.NOT_NEEDED),
        (
            PromptCall(
                caller="a",
                request=Request(
                    question="你好？",
                    history=LONG.history,
                    options=Options(history_strategy=HistoryStrategy.TRUNCATE),
                ),
            ),
            SummaryReason.DISABLED,
        ),
        (
            PromptCall(
                caller="a",
                request=Request(question="你好？", history=LONG.history, options=Options(summary_max_tokens=10)),
            ),
            SummaryReason.NO_ROOM,
        ),
    ],
    ids=["dry run", "fits", "truncate", "no room"],
)
async def test_where_no_summary_is_wanted_nobody_is_asked(
    tokenizer: Tokenizer, call: PromptCall, reason: SummaryReason
) -> None:
    summaries = Summaries()
    made = await within(20, use_case(tokenizer, summaries), call)
    assert not summaries.asked
    assert made.assembled.report.summary.reason is reason
    assert not made.degraded


@pytest.mark.parametrize("reason", [SummaryReason.NO_MODEL, SummaryReason.DISABLED])
async def test_a_deployment_without_summaries_says_why(tokenizer: Tokenizer, reason: SummaryReason) -> None:
    made = await within(20, use_case(tokenizer, reason), PromptCall(caller="alice", request=LONG))
    assert made.assembled.report.summary.reason is reason
    assert not made.degraded


async def test_memories_take_their_place_in_the_prompt(tokenizer: Tokenizer) -> None:
    remembered = Remembered(lambda: (MemoryItem("我用 MySQL 8", score=0.9),))
    call = PromptCall(caller="alice", request=Request(question="数据库？"), lookup=Wanted(top_k=3))
    made = await within(1.0, use_case(tokenizer, memories=remembered), call)
    assert "我用 MySQL 8" in made.assembled.text
    [(wanted, seconds)] = remembered.asked
    assert wanted == Recollection(query="数据库？", top_k=3)
    assert seconds <= 0.5  # half of what the call has


@pytest.mark.parametrize("status", list(LookupStatus)[1:4])
async def test_a_lookup_that_fails_is_only_reported(tokenizer: Tokenizer, status: LookupStatus) -> None:
    def fail() -> Sequence[MemoryItem]:
        raise LookupFailed(status)

    call = PromptCall(caller="alice", request=LONG, lookup=Wanted(top_k=3, profile=True))
    made = await within(20, use_case(tokenizer, memories=Remembered(fail)), call)
    assert [(one.name, one.status) for one in made.lookups] == [
        ("memories", status),
        ("profile", LookupStatus.UNSUPPORTED),
    ]
    assert made.degraded
    assert made.assembled == assemble(LONG, tokenizer.counter(), Summary(reason=SummaryReason.NO_MODEL))


def test_a_long_question_is_asked_by_its_beginning_and_its_end() -> None:
    query = query_of(f"帮我看这份日志：{'出错 ' * 10_000}，数据库是哪个版本？")
    assert len(query.encode()) <= QUERY_BYTES + 1
    assert query.startswith("帮我看这份日志")
    assert query.endswith("数据库是哪个版本？")
    assert query_of("版本\x00是\x85多少\ufffe？\n") == "版本 是 多少 ？\n"
    assert query_of("长" * (QUERY_BYTES // 3)) == "长" * (QUERY_BYTES // 3)
    assert "\ufffd" not in query_of("字a" * 5_000)


async def test_long_work_is_done_beside_the_loop(tokenizer: Tokenizer) -> None:
    desk = Desk(1)
    assert await desk.run(INLINE_CHARS, threading.get_ident) == threading.get_ident()
    assert await desk.run(INLINE_CHARS + 1, threading.get_ident) != threading.get_ident()
    encodings = Encodings(tokenizer.counter, encoding_for)
    assert encodings.chars("cl100k_base", 1) > INLINE_CHARS  # loading it is no short work
    encodings.counter("cl100k_base")
    assert encodings.chars("cl100k_base", 1) == 1
    desk.close()


async def test_messages_are_counted_with_their_overhead(tokenizer: Tokenizer) -> None:
    messages = [Message(Role.SYSTEM, "你好"), Message(Role.USER, "数据库是什么？")]
    counted = await Encodings(tokenizer.counter, encoding_for).count(Desk(1), [], messages, "", "gpt-4")
    assert counted.messages == prompt_tokens(messages, "cl100k_base")
    assert (counted.encoding, counted.approximate) == ("cl100k_base", False)
