"""Stored conversations as a use case: what is asked for, what of it is history, and what becomes of a new summary."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from assembler_service.adapters.tokenizer import Tokenizer
from assembler_service.domain.model import (
    HistoryStrategy,
    MemoryItem,
    Message,
    Options,
    Overflow,
    Request,
    Status,
    Summary,
    SummaryReason,
)
from assembler_service.domain.text import escape
from assembler_service.ports import LookupFailed, LookupStatus, NewSummary, StoredHistory, SummaryMoved
from assembler_service.service.assembling import Prompt, PromptCall
from assembler_service.service.lookups import Wanted
from assembler_service.service.sessions import MAX_MESSAGES, MAX_SUMMARY, STORE_SECONDS, Sessions
from shared.config import TelemetrySettings
from shared.context import deadline_at, time_left
from shared.telemetry import Telemetry
from tests.assembler.test_service_assembling import Remembered, Summaries, use_case, within
from tests.assembler.test_stories import turn

STORED = "用户要把 order-api 迁移到 MySQL 8，演练的工单是 OPS-77。"
GROWN = f"{STORED}之后逐轮讨论了数据库的多个方面。"
QUESTION = "下一步是什么？"


@dataclass
class Stored:
    """A conversation of so many turns of two messages, of which the first `until` messages are summed up."""

    turns: int
    until: int = 0
    shown: int = MAX_MESSAGES
    """At most so many messages are answered, as MemoryService does."""
    asked: list[tuple[str, int, int | None, float]] = field(default_factory=list)
    saved: list[NewSummary] = field(default_factory=list)
    fail: Callable[[], None] = lambda: None
    fail_save: Callable[[], None] = lambda: None
    left_at_save: float | None = None

    def _said(self) -> list[tuple[int, Message]]:
        return list(enumerate((message for n in range(self.turns) for message in turn(n)), start=1))

    async def history(
        self, session_id: str, max_messages: int, max_tokens: int | None, seconds: float
    ) -> StoredHistory:
        self.asked.append((session_id, max_messages, max_tokens, seconds))
        self.fail()
        said = self._said()
        most = self.shown if max_tokens is None else min(self.shown, 2 * (max_tokens // 400))
        newest = said[-most:] if most else []
        before = newest[0][0] - 1 if newest else len(said)
        return StoredHistory(
            messages=tuple(newest),
            total=len(said),
            summary=STORED if self.until else "",
            until=self.until,
            omitted=max(0, before - self.until),
        )

    async def save_summary(self, summary: NewSummary, seconds: float) -> None:
        self.left_at_save = time_left()
        self.fail_save()
        self.saved.append(summary)

    async def close(self) -> None:
        """Nothing to end."""


def raising(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


async def prompt(
    tokenizer: Tokenizer,
    stored: Stored | None,
    summarizer: Summaries | SummaryReason = SummaryReason.NO_MODEL,
    *,
    memories: Remembered | None = None,
    dry_run: bool = False,
    **options: Any,
) -> Prompt:
    call = PromptCall(
        caller="alice",
        request=Request(question=QUESTION, options=Options(**options)),
        lookup=Wanted(top_k=3, session_id="s1"),
        dry_run=dry_run,
    )
    return await within(20, use_case(tokenizer, summarizer, memories or Remembered(), stored), call)


async def test_what_comes_after_the_stored_summary_is_the_history(tokenizer: Tokenizer) -> None:
    stored = Stored(turns=10, until=16)
    made = await prompt(tokenizer, stored)
    assert [message.content for message in made.assembled.messages[1:-1]] == [
        escape(message.content) for n in (8, 9) for message in turn(n)
    ]
    assert STORED in made.assembled.messages[0].content
    summary = made.assembled.report.summary
    assert (summary.used, summary.cached, summary.covered_messages) == (True, True, 16)
    [(session_id, most, tokens, seconds)] = stored.asked
    assert (session_id, most) == ("s1", MAX_MESSAGES)
    assert tokens is not None
    assert tokens > Options().history_max_tokens
    assert seconds <= 1.0
    assert [(one.name, one.status, one.items, one.omitted) for one in made.lookups] == [
        ("memories", LookupStatus.OK, 0, 0),
        ("history", LookupStatus.OK, 4, 0),
    ]
    assert not made.degraded


async def test_a_conversation_that_is_not_there_is_empty(tokenizer: Tokenizer) -> None:
    stored = Stored(turns=0)
    made = await prompt(tokenizer, stored)
    assert len(made.assembled.messages) == 2
    assert len(stored.asked) == 1
    assert not made.degraded
    assert made.assembled.report.summary.reason is SummaryReason.NOT_NEEDED


async def test_the_next_summary_is_made_of_the_last_one_and_the_turns_cut_off_and_stored(tokenizer: Tokenizer) -> None:
    stored, summaries = Stored(turns=20, until=20), Summaries(lambda: Summary(GROWN))
    made = await prompt(tokenizer, stored, summaries)
    [(caller, need, _)] = summaries.asked
    assert caller == "alice"
    assert need.previous == STORED
    assert need.covered[0] == turn(10)[0]
    [saved] = stored.saved
    assert saved == NewSummary(session_id="s1", text=GROWN, until=20 + len(need.covered), expected=20)
    assert GROWN in made.assembled.messages[0].content
    assert made.assembled.report.summary.covered_messages == saved.until
    assert not made.degraded


async def test_the_first_summary_has_none_before_it(tokenizer: Tokenizer) -> None:
    stored, summaries = Stored(turns=20), Summaries(lambda: Summary(GROWN))
    await prompt(tokenizer, stored, summaries)
    [(_, need, _)] = summaries.asked
    assert need.previous == ""
    [saved] = stored.saved
    assert (saved.until, saved.expected) == (len(need.covered), 0)


async def test_all_turns_since_the_summary_are_had_however_many(tokenizer: Tokenizer) -> None:
    stored, summaries = Stored(turns=100, until=2), Summaries(lambda: Summary(GROWN))
    made = await prompt(tokenizer, stored, summaries)
    assert [tokens is None for _, _, tokens, _ in stored.asked] == [False, True]
    [(_, need, _)] = summaries.asked
    assert need.covered[0] == turn(1)[0]
    assert made.lookups[1].items == 198
    assert not made.degraded


async def test_a_hole_is_said_and_never_summed_up(tokenizer: Tokenizer) -> None:
    stored, summaries = Stored(turns=30, until=10, shown=40), Summaries(lambda: Summary(GROWN))
    made = await prompt(tokenizer, stored, summaries)
    assert made.lookups[1].status is LookupStatus.OK
    assert made.lookups[1].omitted == 10
    assert made.degraded
    assert not summaries.asked
    assert not stored.saved
    summary = made.assembled.report.summary
    assert (summary.used, summary.covered_messages, summary.reason) == (True, 10, SummaryReason.INCOMPLETE)
    assert made.assembled.messages[-2].content == escape(turn(29)[1].content)


async def test_where_the_rest_cannot_be_had_the_newest_turns_are_used(tokenizer: Tokenizer) -> None:
    stored = Stored(turns=100)

    def fail() -> None:
        if len(stored.asked) > 1:
            raise LookupFailed(LookupStatus.TIMEOUT)

    stored.fail = fail
    made = await prompt(tokenizer, stored)
    assert made.lookups[1].status is LookupStatus.OK
    assert made.lookups[1].omitted > 0
    assert made.degraded
    assert made.assembled.messages[-2].content == escape(turn(99)[1].content)


async def test_with_truncate_the_words_count_and_no_summary_does(tokenizer: Tokenizer) -> None:
    stored, summaries = Stored(turns=100, until=198), Summaries()
    made = await prompt(tokenizer, stored, summaries, history_strategy=HistoryStrategy.TRUNCATE)
    assert len(stored.asked) == 1
    assert not summaries.asked
    assert STORED not in made.assembled.text
    assert len(made.assembled.messages) > 4, "turns that the summary tells as well"
    assert made.assembled.report.summary.reason is SummaryReason.DISABLED
    assert not made.degraded


async def test_a_larger_budget_asks_for_more(tokenizer: Tokenizer) -> None:
    stored = Stored(turns=4)
    await prompt(tokenizer, stored)
    await prompt(tokenizer, stored, history_max_tokens=8_000)
    await prompt(tokenizer, stored, overflow=Overflow.ELASTIC, total_max_tokens=100_000)
    await prompt(tokenizer, stored, overflow=Overflow.ELASTIC, total_max_tokens=2**31 - 1)
    tokens = [tokens for _, _, tokens, _ in stored.asked if tokens is not None]
    assert tokens == sorted(set(tokens))
    assert tokens[-1] < 2**31


@pytest.mark.parametrize("status", list(LookupStatus)[1:4])
async def test_a_conversation_that_cannot_be_read_leaves_its_block_out(
    tokenizer: Tokenizer, status: LookupStatus
) -> None:
    stored = Stored(turns=4, fail=raising(LookupFailed(status)))
    remembered = Remembered(lambda: (MemoryItem("我用 MySQL 8", score=0.9),))
    made = await prompt(tokenizer, stored, Summaries(), memories=remembered)
    assert [(one.name, one.status) for one in made.lookups] == [("memories", LookupStatus.OK), ("history", status)]
    assert made.degraded
    assert "我用 MySQL 8" in made.assembled.text
    assert len(made.assembled.messages) == 2


async def test_memories_that_cannot_be_had_leave_the_conversation(tokenizer: Tokenizer) -> None:
    def fail() -> list[MemoryItem]:
        raise LookupFailed(LookupStatus.TIMEOUT)

    made = await prompt(tokenizer, Stored(turns=2), memories=Remembered(fail))
    assert [one.status for one in made.lookups] == [LookupStatus.TIMEOUT, LookupStatus.OK]
    assert len(made.assembled.messages) == 6


async def test_a_deployment_without_conversations_says_so(tokenizer: Tokenizer) -> None:
    made = await prompt(tokenizer, None)
    assert made.lookups[1].status is LookupStatus.ERROR
    assert made.degraded


async def test_both_are_asked_at_once(tokenizer: Tokenizer) -> None:
    """Each waits for the other: one after the other, neither would end."""
    both = asyncio.Barrier(2)

    class Slow(Stored):
        async def history(self, *arguments: Any) -> StoredHistory:
            await both.wait()
            return await super().history(*arguments)

    class SlowMemories(Remembered):
        async def recall(self, *arguments: Any) -> Any:
            await both.wait()
            return await super().recall(*arguments)

    async with asyncio.timeout(20):
        made = await prompt(tokenizer, Slow(turns=1), memories=SlowMemories())
    assert all(one.status is LookupStatus.OK for one in made.lookups)


async def test_a_dry_run_stores_nothing_and_shows_the_stored_summary(tokenizer: Tokenizer) -> None:
    stored, summaries = Stored(turns=20, until=20), Summaries()
    made = await prompt(tokenizer, stored, summaries, dry_run=True)
    assert not summaries.asked
    assert not stored.saved
    summary = made.assembled.report.summary
    assert (summary.used, summary.covered_messages, summary.reason) == (True, 20, SummaryReason.DISABLED)
    assert not made.degraded
    assert any(item.status is Status.DROPPED for item in made.assembled.report.items)


FAULTS = [SummaryMoved(), *(LookupFailed(status) for status in list(LookupStatus)[1:4]), RuntimeError("secret")]


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
async def test_a_summary_that_cannot_be_stored_is_used_all_the_same(
    tokenizer: Tokenizer, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    stored = Stored(turns=20, fail_save=raising(fault))
    made = await prompt(tokenizer, stored, Summaries(lambda: Summary(GROWN)))
    assert GROWN in made.assembled.text
    assert not made.degraded
    assert ("was not stored" in caplog.text) == (not isinstance(fault, SummaryMoved))
    assert "secret" not in caplog.text


async def test_storing_has_its_own_time_and_takes_what_memory_service_takes() -> None:
    stored = Stored(turns=1)
    sessions = Sessions(stored, Telemetry(TelemetrySettings()))
    with deadline_at(asyncio.get_running_loop().time() + 20):
        session = await sessions.read("s1", Options(), 1.0)
    with deadline_at(asyncio.get_running_loop().time() - 1):
        await sessions.keep(session, 2).store("好\x85的")
        assert time_left() == 0
    assert stored.saved == [NewSummary(session_id="s1", text="好 的", until=2, expected=0)]
    assert stored.left_at_save == pytest.approx(STORE_SECONDS, abs=1)
    await sessions.keep(replace(session), 1).store("长" * (MAX_SUMMARY + 1))
    assert len(stored.saved) == 1
