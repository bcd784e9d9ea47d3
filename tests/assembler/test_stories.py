"""The stories of the design: a conversation that grows, and a full Chinese prompt."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest

from assembler_service.adapters.tokenizer import Counter
from assembler_service.domain.assemble import assemble, needs_summary
from assembler_service.domain.model import (
    Assembled,
    Block,
    Computation,
    CountTokens,
    Layout,
    MemoryItem,
    MemoryType,
    Message,
    Options,
    Request,
    Role,
    Source,
    Summary,
    SummaryNeed,
)
from tests.assembler.samples import prompt_tokens, tokens
from tests.assembler.test_fuzz import check

TOPICS = [
    "索引的选择",
    "缓存的失效",
    "连接池的大小",
    "备份的频率",
    "分库分表",
    "读写分离",
    "慢查询",
    "监控告警",
    "权限管理",
    "数据迁移",
]


def paragraph(topic: str, sentences: int, start: int = 0) -> str:
    return "".join(
        f"关于{topic}的第{start + n}点，团队需要结合业务的规模与成本来综合考虑并记录结论。" for n in range(sentences)
    )


def turn(n: int) -> tuple[Message, Message]:
    topic = TOPICS[n % len(TOPICS)]
    return (
        Message(Role.USER, f"第{n}轮：{paragraph(topic, 4, n)}应该怎么做？"),
        Message(Role.ASSISTANT, f"第{n}轮回答：{paragraph(topic, 8, n)}[1][2]"),
    )


def sources(many: int, sentences: int) -> tuple[Source, ...]:
    return tuple(
        Source(
            paragraph(TOPICS[n % 10], sentences, 100 * n), f"s{n}", f"资料{n}", f"https://example.org/{n}", 1 - n / 20
        )
        for n in range(many)
    )


def computation(n: int) -> Computation:
    return Computation("\n\n".join(paragraph(f"指标{n}{k}", 4) for k in range(5)), f"统计{n}")


def memory(n: int) -> MemoryItem:
    text = f"用户在项目{n}里负责{TOPICS[n % 10]}，并记录过经验{n}"
    return MemoryItem(text, MemoryType(n % 3 + 1), 1 - n / 100, 1_760_000_000_000_000 + n)


@dataclass(frozen=True)
class Step:
    """One turn of a conversation: what is asked, the prompt of the assembler, and its size without one."""

    request: Request
    made: Assembled
    plain: int


def growing(turns: int, count: CountTokens) -> Iterator[Step]:
    """A conversation over the same six chunks. Without the assembler they drift into the middle, behind the history."""
    system, chunks = "你是数据库顾问，只依据资料回答。", sources(6, 20)
    history: list[Message] = []
    for n in range(turns):
        question = f"第{n}个问题：{TOPICS[n % 10]}的结论是什么？"
        request = Request(question=question, system_prompt=system, sources=chunks, history=tuple(history))
        plain = [
            Message(Role.SYSTEM, system),
            *history,
            Message(Role.SYSTEM, "".join(s.text for s in chunks)),
            Message(Role.USER, question),
        ]
        yield Step(request, assemble(request, count), prompt_tokens(plain))
        history += turn(n)


def test_a_conversation_of_twenty_turns_never_outgrows_the_budget(count: Counter) -> None:
    """Without the assembler the sources drift into the middle and the prompt grows with every turn."""
    plain_sizes, sizes = [], []
    for n, step in enumerate(growing(20, count)):
        request, made = step.request, step.made
        check(request, made)
        assert made.messages[0].content.startswith(f"{request.system_prompt}\n\n<sources>\n")
        assert len(made.citations) == 6
        assert made.messages[-1].content.endswith(request.question)
        if n:
            assert made.messages[-2].role is Role.ASSISTANT
            assert f"第{n - 1}轮回答" in made.messages[-2].content
        sizes.append(prompt_tokens(made.messages))
        plain_sizes.append(step.plain)
    assert plain_sizes[-1] > 8000  # long enough to bite
    assert all(later > earlier for earlier, later in pairwise(plain_sizes))
    assert max(sizes) <= 6000
    assert max(sizes[5:]) - min(sizes[5:]) < 500


@pytest.mark.parametrize("layout", list(Layout))
def test_forty_chinese_turns_with_everything(count: Counter, layout: Layout) -> None:
    question = "综合以上资料，下一步应该先做什么？请给出理由。"
    request = Request(
        question=question,
        system_prompt="你是一名严谨的数据库顾问。" * 10,
        user_profile="职业：后端工程师\n城市：杭州\n偏好：简洁",
        sources=sources(12, 16),
        computations=tuple(computation(n) for n in range(2)),
        memories=tuple(memory(n) for n in range(30)),
        history=tuple(message for n in range(40) for message in turn(n)),
        options=Options(layout=layout),
    )
    made = assemble(request, count)
    check(request, made)
    assert prompt_tokens(made.messages) <= 6000
    assert tokens(made.text) <= 6000
    assert made.report.total > 5500
    after = made.messages[0].content.removeprefix(request.system_prompt).lstrip()
    assert after.startswith("<sources>" if layout is Layout.SOURCES_FIRST else "<profile>")
    assert made.messages[-1].content.endswith(question)
    assert made.messages[-3].content.startswith("第39轮")
    assert made.messages[-2].content.endswith(r"结论。\[1\]\[2\]")
    assert {b.block for b in made.report.blocks if b.kept} >= {
        Block.SOURCES,
        Block.MEMORIES,
        Block.HISTORY,
        Block.PROFILE,
    }
    assert isinstance(needs_summary(request, count), SummaryNeed) or made.report.summary.reason.name == "NO_ROOM"
    told = assemble(request, count, Summary("用户与助手讨论了数据库的多个方面。"))
    check(request, told)
