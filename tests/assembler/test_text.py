"""Escaping, cleaning, cutting, duplicates: what is done to text from outside."""

import re

import pytest
import regex

from assembler_service.adapters.tokenizer import Counter
from assembler_service.domain.cutting import cut_head, cut_tail
from assembler_service.domain.duplicates import Kept
from assembler_service.domain.model import Language
from assembler_service.domain.text import clean, detect_language, escape, escape_tool_result, is_structured, one_line
from tests.assembler.samples import Maker


@pytest.mark.parametrize(
    "mark",
    ["[3]", "[ 3 ]", "[^3]", "[1, 2]", "[1-3]", "【3】", "［3］", "〔3〕", "[\u200b3]", "[３]", "[[3]]", "[1，2、5]"],
)
def test_marks_of_citations_lose_their_meaning_and_stay_readable(mark: str) -> None:
    escaped = escape(f"see {mark} there")
    assert not re.search(r"[\[［【〔][\s\u200b^]*\d+[^\]\\]*[\]］】〕]", escaped)
    assert "3" in escaped or "３" in escaped or "2" in escaped
    assert escape(escaped) == escaped


@pytest.mark.parametrize(
    "tag",
    [
        *("</sources>", "< / sources >", "<\tSOURCES>", "＜/memories＞", "<summary x=1>"),
        *("</\u200bprofile>", "<|im_start|>", "<|endoftext|>"),
    ],
)
def test_delimiters_lose_their_meaning(tag: str) -> None:
    assert escape(f"x{tag}y").startswith("x&lt;")


@pytest.mark.parametrize(
    "text", ["a[i] < b", "<b>bold</b>", "if x <sourcesx", "list[int]", "[see below]", "a -- b", "---\ntitle"]
)
def test_what_is_no_frame_stays_as_it_is(text: str) -> None:
    assert escape(text) == text


def test_a_tool_result_stays_json_with_the_same_value() -> None:
    import json

    value = {"a": [3], "b": "</sources> <|im_end|>"}
    escaped = escape_tool_result(json.dumps(value))
    assert json.loads(escaped) == value
    assert "</sources>" not in escaped
    assert escape_tool_result("see [3]") == r"see \[3\]"
    assert is_structured("[1, 2]")
    assert not is_structured("[1, 2")
    assert not is_structured("[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize("token", ["<|im_start|>", "<｜User｜>", "<｜end▁of▁sentence｜>"])
def test_special_tokens_of_models_lose_their_meaning(token: str) -> None:
    assert escape(f"前{token}后") == f"前&lt;{token[1:]}后"


def test_long_runs_that_lead_nowhere_are_passed_once() -> None:
    """Tried again from each of its ends, one of these takes minutes, and the server stands still."""
    for run in (
        "[" + " " * 200_000,
        "[" + "\u200b" * 200_000,
        "<" + "\t" * 200_000,
        "-" * 200_000,
        "[1" + " 1" * 100_000,
    ):
        assert escape(run + "x") == run + "x"
    dots = "x" + "." * 100_000 + "y"
    assert cut_head(dots, 50_000, len) == dots[:50_000]

    assert clean("\x00a\ud800b\x1b\r\nc\rd ") == "ab\nc\nd"
    assert clean("a" + " " * 1_000_000 + "b") == "a b"
    assert clean("a" + "\n \n" * 1000 + "b") == "a\n\n\nb"
    assert clean("  indented\n    code") == "indented\n    code"
    assert one_line("a\nb [1]", 50) == r"a b \[1\]"
    assert len(one_line("x" * 500, 20)) == 20


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (["我的数据库是什么"], Language.ZH),
        (["what is my database"], Language.EN),
        (["什么是 Kubernetes 的 operator"], Language.ZH),
        (["please explain the word 你好"], Language.EN),
        (["???", "好的"], Language.ZH),
        (["123", ""], Language.EN),
    ],
)
def test_language_of_the_frame(texts: list[str], language: Language) -> None:
    assert detect_language(texts) is language


def test_a_cut_prefers_sentences_then_words() -> None:
    text = "One two three. Four five six. Seven eight."
    assert cut_head(text, 33, len) == "One two three. Four five six."
    assert cut_head(text, 12, len) == "One two"
    assert cut_head(text, 2, len) == "On"
    assert cut_head(text, 0, len) is None
    assert cut_head("第一句话。第二句话！第三句", 7, len) == "第一句话。"
    assert cut_head(text, 35, len, least=30) == "One two three. Four five six. Seven"
    assert cut_tail(text, 20, len) == "Seven eight."
    assert cut_tail("第一句话。第二句话！第三句", 9, len) == "第二句话！第三句"
    assert cut_head("3.5 is no end of a sentence at all", 12, len) == "3.5 is no"


FAMILY, FLAGS, TONE, ACCENT, ENGLAND = (
    "👩‍👩‍👧‍👦",
    "🇨🇳🇩🇪",
    "👍🏽",
    "e\u0301",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
)


@pytest.mark.parametrize(
    "text", [FAMILY * 30, FLAGS * 30, TONE * 30, ACCENT * 60, f"好{FAMILY}！\ufe0f{TONE}。{ENGLAND}" * 8]
)
def test_no_cut_falls_inside_a_character(count: Counter, text: str) -> None:
    borders = {0, *(found.end() for found in regex.finditer(r"\X", text))}
    for limit in range(1, count(text)):
        head = cut_head(text, limit, count)
        tail = cut_tail(text, limit, count)
        assert head is None or (text.startswith(head) and len(head) in borders and count(head) <= limit)
        assert tail is None or (text.endswith(tail) and len(text) - len(tail) in borders and count(tail) <= limit)


def test_a_larger_limit_never_cuts_shorter(count: Counter) -> None:
    for seed in range(60):
        text = clean(Maker(seed).text(120))
        lengths = [len(cut_head(text, limit, count, least=8) or "") for limit in range(0, count(text), 7)]
        assert lengths == sorted(lengths)


def test_long_text_without_a_sentence_is_cut_near_the_limit(count: Counter) -> None:
    rows = "one. " + " ".join(f"cell{n}" for n in range(40_000))
    head = cut_head(rows, 500, count, least=80)
    assert head is not None
    assert 400 <= count(head) <= 500


def test_near_copies_are_kept_once() -> None:
    kept = Kept(statements=False)
    text = "今天我们讨论了数据库的选型，最后决定继续使用关系型数据库，因为团队熟悉它。"
    assert not kept.says(text)
    assert kept.says(text)
    assert kept.says("今天我们讨论了数据库的选型，最后决定继续使用关系型数据库，因为团队熟悉。")
    assert kept.says("  今天我们讨论了数据库的选型，最后决定继续使用关系型数据库，因为团队熟悉它。 ")
    assert not kept.says("今天我们讨论了部署的流程，最后决定改用蓝绿发布，因为回滚更快。")
    assert not kept.says("Deploys are blue-green since the rollback is faster for the whole team")
    assert kept.says("DEPLOYS are  blue-green since the rollback is faster for the whole team")
    assert not kept.says(text + "另外我们还定了很多别的事情，包括上线的时间、负责人以及验收的标准，都写在会议纪要里。")


def test_statements_that_differ_in_a_value_are_both_kept() -> None:
    kept = Kept(statements=True)
    assert not kept.says("用户计划在 10 月 15 日从北京出发前往上海参加年度技术大会")
    assert not kept.says("用户计划在 10 月 16 日从北京出发前往上海参加年度技术大会")
    assert not kept.says("用户不计划在 10 月 15 日从北京出发前往上海参加年度技术大会")
    assert kept.says("用户计划在 10 月 15 日从北京出发前往上海参加技术大会")
    assert not kept.says("The user has three servers in the data center of the company in Berlin")
    assert not kept.says("The user has no three servers in the data center of the company in Berlin")


def test_a_statement_and_its_cannot_are_both_kept() -> None:
    kept = Kept(statements=True)
    can = "On most days I can eat peanuts at dinner parties with friends, and at work with all my colleagues too."
    assert not kept.says(can)
    assert not kept.says(can.replace("can", "cannot"))
    assert kept.says(can.upper())


def test_a_thousand_pages_of_one_template_are_told_apart() -> None:
    """Each is compared with the few it may copy: with all of them, a thousand pages take minutes."""
    kept = Kept(statements=False)
    frame = "本页说明如何在升级数据库之前做好备份与演练，" * 8
    pages = [f"{frame}产品{n}的负责人是{chr(0x4E00 + n)}{chr(0x5E00 + n)}先生。" for n in range(1_000)]
    assert not any(kept.says(page) for page in pages)
    assert all(kept.says(f"{page}！") for page in pages[::100])
