"""Random requests and an independent way of counting: tiktoken itself on the messages, without our counter.

The generator is seeded; the same seed gives the same request on every machine.
"""

import json
import random
from collections.abc import Sequence

import tiktoken

from assembler_service.adapters.tokenizer import load_encoding
from assembler_service.domain.model import (
    Computation,
    HistoryStrategy,
    Language,
    Layout,
    MemoryItem,
    MemoryType,
    Message,
    Options,
    Overflow,
    Request,
    Role,
    Source,
    ToolCall,
)

ENCODINGS: dict[str, tiktoken.Encoding] = {}

SENTENCE_EN = "the budget of a prompt is shared by sources memory and history while users ask about deploys and MySQL 8"
WORDS_EN = SENTENCE_EN.split()
WORDS_ZH = "用户 数据库 今天 预算 部署 我们 需要 一个 方案 历史 模型 ， 。 ？ ！ ；".split(" ")  # noqa: SIM905
ODD = (
    *(
        "😀",
        "👩‍👩‍👧‍👦",
        "🇨🇳🇩🇪",
        "👍🏽",
        "é",
        "ā́",
        "‼️",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    ),
    *("<|endoftext|>", "<|im_start|>system", "</sources>", "< / memories >", "<summary>", "---（以下为最近原文）---"),
    *("[3]", "[ 12 ]", "【3】", "[1, 2]", "【较早对话摘要】", '{"a": [3]}', "/etc/passwd"),
    *("\x00", "\u200b", "\u202e", "\t", "\r\n", "\n\n\n\n\n", "\u0301\u0301\u0301", "\ud800"),
    *("a" * 300, " " * 200, "^" * 120, "𠮷𠮷", "ﷺ", "한국어 문장입니다.", "日本語の文です。"),
)


def encoding(name: str = "o200k_base") -> tiktoken.Encoding:
    """tiktoken's encoding, loaded once."""
    if name not in ENCODINGS:
        ENCODINGS[name] = load_encoding(name)
    return ENCODINGS[name]


def tokens(text: str, name: str = "o200k_base") -> int:
    """What tiktoken says."""
    return len(encoding(name).encode(text, disallowed_special=()))


def prompt_tokens(messages: Sequence[Message], name: str = "o200k_base") -> int:
    """The whole prompt as the OpenAI cookbook counts it: 3 a message, every value, 3 for the answer's beginning."""
    total = 3
    for message in messages:
        total += 3 + tokens(message.role.value, name) + tokens(message.content, name)
        if message.tool_calls:
            shape = [
                {"id": c.id, "type": c.type, "function": {"name": c.name, "arguments": c.arguments}}
                for c in message.tool_calls
            ]
            total += tokens(json.dumps(shape, ensure_ascii=False), name)
        if message.tool_call_id:
            total += tokens(message.tool_call_id, name)
    return total


class Maker:
    """Makes random requests from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, most: int = 60) -> str:
        """A text of up to `most` parts, in one of several characters."""
        pick = self.random
        kind = pick.random()
        length = pick.choice((0, 1, 3, 10, most, pick.randint(0, most)))
        if kind < 0.35:
            return "".join(pick.choice(WORDS_ZH) for _ in range(length))
        if kind < 0.7:
            return " ".join(pick.choice(WORDS_EN) + pick.choice(("", "", "", ".", ",", "\n")) for _ in range(length))
        parts = [pick.choice(ODD if pick.random() < 0.4 else WORDS_ZH + WORDS_EN) for _ in range(length // 2)]
        return pick.choice(("", " ")).join(parts)

    def history(self) -> tuple[Message, ...]:
        """Turns with tool calls, and now and then what does not belong."""
        pick = self.random
        messages: list[Message] = []
        for turn in range(pick.choice((0, 1, 2, 5, 12))):
            if pick.random() < 0.95:
                messages.append(Message(Role.USER, self.text(40)))
            for round_ in range(pick.choice((0, 0, 0, 1, 2))):
                ids = [f"call_{turn}_{round_}_{n}" for n in range(pick.randint(1, 3))]
                calls = tuple(ToolCall(i, "search", json.dumps({"q": self.text(5)})) for i in ids)
                messages.append(Message(Role.ASSISTANT, pick.choice(("", self.text(5))), tool_calls=calls))
                for call_id in ids:
                    if pick.random() < 0.93:
                        result = pick.choice((self.text(30), json.dumps({"rows": [self.text(5), 3, [4]]})))
                        messages.append(Message(Role.TOOL, result, tool_call_id=call_id))
            if pick.random() < 0.05:
                messages.append(Message(Role.TOOL, "lost", tool_call_id="nobody"))
            if pick.random() < 0.95:
                messages.append(Message(Role.ASSISTANT, self.text(60)))
        return tuple(messages)

    def options(self) -> Options:
        """Any budget: the defaults, tiny ones, zeros."""
        pick = self.random
        if pick.random() < 0.2:
            return Options()
        return Options(
            total_max_tokens=pick.choice((60, 120, 200, 400, 800, 1500, 3000, 6000, 100_000, pick.randint(0, 3000))),
            aux_total_tokens=pick.choice((0, 100, 500, 2500)),
            computations_max_tokens=pick.choice((0, 50, 1500)),
            memory_max_tokens=pick.choice((0, 40, 100, 600)),
            history_max_tokens=pick.choice((0, 50, 300, 1000)),
            summary_max_tokens=pick.choice((0, 100, 300)),
            verbatim_turns=pick.choice((0, 1, 6)),
            sources_max_tokens=pick.choice((None, 0, 200, 3000)),
            sources_top_k=pick.choice((None, 0, 3)),
            min_source_score=pick.choice((None, None, 0.3)),
            history_strategy=pick.choice(tuple(HistoryStrategy)),
            safety_margin=pick.choice((0.0, 0.1, 0.33)),
            language=pick.choice(tuple(Language)),
            layout=pick.choice(tuple(Layout)),
            overflow=pick.choice(tuple(Overflow)),
        )

    def source(self, n: int) -> Source:
        """One source; now and then its score is no number."""
        score = self.random.choice((self.random.random(), 0.5, float("nan")))
        return Source(self.text(120), f"s{n}", self.text(4), "https://example.org", score)

    def computation(self) -> Computation:
        """One computation of a few paragraphs."""
        text = "\n\n".join(self.text(20) for _ in range(self.random.randint(0, 4)))
        return Computation(text, self.text(3), self.random.randint(-1, 2))

    def memory(self) -> MemoryItem:
        """One memory, dated or not."""
        pick = self.random
        when = pick.choice((None, 1_760_000_000_000_000))
        return MemoryItem(self.text(12), pick.choice(tuple(MemoryType)), pick.random(), when)

    def request(self) -> Request:
        """A whole request."""
        pick = self.random
        return Request(
            question=self.text(20) or "?",
            system_prompt=self.text(20),
            user_profile=pick.choice(("", self.text(60))),
            sources=tuple(self.source(n) for n in range(pick.choice((0, 1, 4, 10)))),
            computations=tuple(self.computation() for _ in range(pick.choice((0, 0, 1, 3)))),
            memories=tuple(self.memory() for _ in range(pick.choice((0, 1, 5, 15)))),
            history=self.history(),
            options=self.options(),
        )
