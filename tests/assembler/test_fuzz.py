"""The promise on random requests: never over the budget, never an exception, never a broken frame or message."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from assembler_service.adapters.tokenizer import Counter, Tokenizer
from assembler_service.domain.assemble import assemble, needs_summary
from assembler_service.domain.model import (
    Assembled,
    Block,
    CountTokens,
    FixedPartsTooLarge,
    Message,
    Options,
    Overflow,
    Request,
    Role,
    Status,
    Summary,
    SummaryNeed,
)
from tests.assembler.samples import Maker, prompt_tokens, tokens

REQUESTS = 10_000
_FRAME = re.compile(r"<(/?)(sources|computations|memories|profile|summary)>")


def attempt(request: Request, count: CountTokens, summary: Summary | None = None) -> Assembled | None:
    """The prompt, or None where its fixed parts are rightly refused."""
    try:
        return assemble(request, count, summary)
    except FixedPartsTooLarge as error:
        refused = error
    assert sum(refused.parts.values()) > refused.limit == request.options.limit
    assert set(refused.parts) == {"system_prompt", "question", "frame"}
    return None


def check_pairs(messages: Sequence[Message]) -> None:
    """Every tool message answers a call of the message before the run of tool messages, and every call is answered."""
    open_calls: list[str] = []
    for message in messages:
        if message.role is Role.TOOL:
            assert message.tool_call_id in open_calls
            open_calls.remove(message.tool_call_id)
        else:
            assert not open_calls
            open_calls = [call.id for call in message.tool_calls]
    assert not open_calls


def check(request: Request, made: Assembled, encoding: str = "o200k_base") -> None:
    """Everything that holds for any prompt."""
    limit = request.options.total_max_tokens * (1 - request.options.safety_margin)
    assert prompt_tokens(made.messages, encoding) == made.report.total <= limit
    assert tokens(made.text, encoding) <= limit
    assert sum(block.kept for block in made.report.blocks) == made.report.total
    assert all(block.kept >= 0 for block in made.report.blocks)
    question = "".join(sign for sign in request.question if not "\ud800" <= sign <= "\udfff")
    assert made.messages[-1].role is Role.USER
    assert made.messages[-1].content.endswith(question)
    system = made.messages[0]
    assert system.role is Role.SYSTEM
    prompt = "".join(sign for sign in request.system_prompt if not "\ud800" <= sign <= "\udfff").rstrip()
    assert system.content.startswith(prompt)
    check_frame(system.content[len(prompt) :], made)
    check_pairs(made.messages[1:-1])
    for message in made.messages:
        assert "\ufffd" not in message.content.encode().decode()
    caps = {block.block: block.kept for block in made.report.blocks if block.cap is not None and block.kept > block.cap}
    if request.options.overflow is Overflow.STRICT:
        assert not caps
        aux = sum(
            b.kept
            for b in made.report.blocks
            if b.block in (Block.COMPUTATIONS, Block.MEMORIES, Block.HISTORY, Block.SUMMARY)
        )
        assert aux <= request.options.aux_total_tokens


def check_frame(frame: str, made: Assembled) -> None:
    """Delimiters open and close in turn, each block once; numbers are those of the citations, in order."""
    marks = _FRAME.findall(frame)
    assert [closing for closing, _ in marks] == ["", "/"] * (len(marks) // 2)
    names = [name for _, name in marks]
    assert names[::2] == names[1::2]
    assert len(set(names)) == len(names) // 2
    numbered = [int(n) for n in re.findall(r"\[\s*(\d+)\s*\]", frame)]
    assert numbered == [citation.n for citation in made.citations] == list(range(1, len(made.citations) + 1))


def test_ten_thousand_random_requests(count: Counter) -> None:
    assembled = 0
    for seed in range(REQUESTS):
        request = Maker(seed).request()
        made = attempt(request, count)
        if made is not None:
            check(request, made)
            assembled += 1
    assert assembled > REQUESTS * 0.7


def test_random_requests_in_the_other_encoding(tokenizer: Tokenizer) -> None:
    count = tokenizer.counter("cl100k_base")
    for seed in range(20_000, 20_500):
        request = Maker(seed).request()
        made = attempt(request, count)
        if made is not None:
            check(request, made, "cl100k_base")


def test_random_requests_with_a_summary(count: Counter) -> None:
    used = 0
    for seed in range(30_000, 31_000):
        maker = Maker(seed)
        request = maker.request()
        text = maker.text(60)
        try:
            need = needs_summary(request, count)
        except FixedPartsTooLarge:
            continue
        made = attempt(request, count, Summary(text, cached=True))
        assert made is not None
        check(request, made)
        report = made.report.summary
        assert not report.used or isinstance(need, SummaryNeed)
        if report.used and isinstance(need, SummaryNeed):
            used += 1
            assert report.covered_messages == len(need.covered) > 0
            assert len(made.messages) - 2 <= len(request.history) - report.covered_messages
            history = sum(b.kept for b in made.report.blocks if b.block in (Block.HISTORY, Block.SUMMARY))
            assert request.options.overflow is Overflow.ELASTIC or history <= request.options.history_max_tokens
    assert used > 30


def test_same_request_same_bytes(tokenizer: Tokenizer) -> None:
    """Also with counts that were never cached."""
    forgetful = Tokenizer(cache_entries=2).counter()
    for seed in range(200):
        request = Maker(seed).request()
        assert attempt(request, tokenizer.counter()) == attempt(request, forgetful)


ORDER = (Block.PROFILE, Block.HISTORY, Block.MEMORIES, Block.SOURCES, Block.COMPUTATIONS, Block.MEMORIES, Block.HISTORY)


def ranks(request: Request) -> dict[tuple[Block, int], tuple[tuple[float, ...], tuple[float, ...]]]:
    """Where every item comes in the order of filling: the first and the last time it is tried."""
    places: dict[tuple[Block, int], tuple[tuple[float, ...], tuple[float, ...]]] = {(Block.PROFILE, 0): ((0,), (0,))}
    for index, source in enumerate(request.sources):
        score = source.score if source.score == source.score else float("-inf")
        places[Block.SOURCES, index] = ((3, -score, index), (3, -score, index))
    for index, computation in enumerate(request.computations):
        places[Block.COMPUTATIONS, index] = ((4, -computation.priority, index), (4, -computation.priority, index))
    for index, memory in enumerate(request.memories):
        when = memory.created_at if memory.created_at is not None else float("-inf")
        key = (-memory.score, -when, index)
        places[Block.MEMORIES, index] = ((2, *key), (7, *key))
    for index in range(len(request.history)):
        places[Block.HISTORY, index] = ((1, -index), (6, 0))
    return places


def losses(seed: int, overflow: Overflow, count: CountTokens) -> tuple[int, list[tuple[Block, int]]]:
    """A random request with two budgets: how many items only the smaller one has, and those of them for which the
    larger one has gained nothing that comes before them.
    """
    maker = Maker(seed)
    request = replace(
        maker.request(), options=Options(overflow=overflow, total_max_tokens=maker.random.randint(80, 1500))
    )
    larger = replace(
        request,
        options=replace(
            request.options, total_max_tokens=request.options.total_max_tokens + maker.random.randint(1, 300)
        ),
    )
    small, large = attempt(request, count), attempt(larger, count)
    if small is None or large is None:
        assert small is None
        return 0, []
    place = ranks(request)
    before = {(item.block, item.index): item for item in small.report.items}
    after = {(item.block, item.index): item for item in large.report.items}
    gained = [key for key, item in after.items() if item.kept > before[key].kept]
    lost = [
        key for key, item in before.items() if item.status is not Status.DROPPED and after[key].status is Status.DROPPED
    ]
    return len(lost), [key for key in lost if not any(place[other][0] < place[key][1] for other in gained)]


@pytest.mark.parametrize("overflow", list(Overflow))
def test_a_larger_budget_loses_an_item_only_to_one_that_comes_before_it(count: Counter, overflow: Overflow) -> None:
    lost = 0
    for seed in range(40_000, 40_800):
        items, unexplained = losses(seed, overflow, count)
        assert unexplained == [], seed
        lost += items
    assert lost > 0
