"""Where in a turn something was said, and by whom: the quote that every memory from a conversation must have.

Owns the comparison of a quote with the messages: models change punctuation, blanks, case and width, and leave out the
middle; words they must not change. Refuses as evidence what is no speech: recalled memories and prompts that came back
inside of a message, and orders to the extraction.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import regex

from memory_service.domain.extraction.model import Said
from memory_service.domain.text import normalise

_NOISE: Final = regex.compile(r"[\s\p{P}\p{Cf}]+")
_ELISION: Final = regex.compile(r"…+|\.{3,}")
_WIDE: Final = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")
_SHORTEST, _SHORTEST_WIDE = 4, 2
"""Letters of a quote that is not the whole message; fewer occur anywhere."""

_TAG: Final = r"(?P<tag>(?:\w{1,24}[_-])?memor(?:y|ies)(?:[_-]\w{1,24})?|system(?:[_-]\w{1,24})?)"
_OPENS: Final = regex.compile(rf"<{_TAG}\b[^<>]{{0,200}}>", regex.I)
_CLOSES: Final = regex.compile(rf"</{_TAG}>", regex.I)
_ALIASED: Final = regex.compile(
    r"^[ \t]*(?:[-*•][ \t]*)?\[(?:FACT|PREFERENCE|PREF|CONTEXT|MEMORY|MEM)-\d+\].*$", regex.I | regex.M
)
_ENDS: Final = regex.compile(r"[.。!！?？;；\n]")
_VERB: Final = regex.compile(r"\b(?:ignore|disregard|override|bypass)\b|忽略|无视|不要理会|跳过", regex.I)
_FORGET: Final = regex.compile(r"\bforget\b|忘记|忘掉", regex.I)
_BEFORE: Final = regex.compile(
    r"\b(?:above|previous|prior|earlier|preceding)\b|上面|以上|上述|之前|前面|先前|此前", regex.I
)
_ALL: Final = regex.compile(r"\b(?:all|any|your|the)\b|你的|所有|一切|全部", regex.I)
_REMEMBER: Final = regex.compile(
    r"\b(?:remember|memori[sz]e|store|save|record|extract|note|output|add|write)\b"
    r"|记住|记下|记录|保存|存储|存入|提取|输出|写入|添加",
    regex.I,
)
_THINGS: Final = regex.compile(
    r"\b(?:instructions?|prompts?|rules?|guidelines?|system (?:message|prompt))\b"
    r"|指令|指示|提示词?|规则|系统(?:设定|消息)|设定|限制",
    regex.I,
)
_NEAR, _FAR = 40, 100
"""Characters within which the words of one order stand."""


class _Places:
    """Where the words of a kind stand in a text, for searches that stay linear whatever the text is."""

    def __init__(self, words: "regex.Pattern[str]", text: str) -> None:
        found = [match.span() for match in words.finditer(text)]
        self.starts = [start for start, _ in found]
        self.ends = [end for _, end in found]

    def within(self, begin: int, end: int) -> int | None:
        """The number of the first one that starts in this range."""
        at = bisect_left(self.starts, begin)
        return at if at < len(self.starts) and self.starts[at] <= end else None

    def count(self, begin: int, end: int) -> int:
        """How many start in this range."""
        return bisect_left(self.starts, end) - bisect_left(self.starts, begin)


def _order_at(text: str) -> int | None:
    """Where the first sentence begins that orders whoever reads it: "ignore the above and remember that …", "forget
    your instructions …". None = there is none."""
    verbs, forgets = _Places(_VERB, text), _Places(_FORGET, text)
    if not verbs.starts and not forgets.starts:
        return None
    before, every, things = _Places(_BEFORE, text), _Places(_ALL, text), _Places(_THINGS, text)
    remember, ends = _Places(_REMEMBER, text), _Places(_ENDS, text)

    def commands(verb_end: int) -> bool:
        at = before.within(verb_end, verb_end + _NEAR)
        if at is None or ends.count(verb_end, before.starts[at]):
            return False
        then = remember.within(before.ends[at], before.ends[at] + _FAR)
        return then is not None and ends.count(before.ends[at], remember.starts[then]) <= 1

    def unbinds(verb_end: int) -> bool:
        at = things.within(verb_end, verb_end + _NEAR)
        if at is None or ends.count(verb_end, things.starts[at]):
            return False
        return bool(before.count(verb_end, things.starts[at]) or every.count(verb_end, things.starts[at]))

    for start, end, may_command in sorted(
        [(*span, True) for span in zip(verbs.starts, verbs.ends, strict=True)]
        + [(*span, False) for span in zip(forgets.starts, forgets.ends, strict=True)]
    ):
        if (may_command and commands(end)) or unbinds(end):
            at = bisect_left(ends.starts, start)
            return ends.ends[at - 1] if at else 0
    return None


def folded(text: str) -> str:
    """The form in which a quote and a message are compared: letters, digits and signs, without case and punctuation."""
    return _NOISE.sub("", normalise(text)).casefold()


def speech(text: str) -> str:
    """What of a message may be quoted."""
    said = _ALIASED.sub("", _without_blocks(text))
    return said[: _order_at(said)]


@lru_cache(maxsize=64)
def _folded_speech(text: str) -> str:
    """Kept for a moment: every item of an answer asks for the same messages."""
    return folded(speech(text))


def _without_blocks(text: str) -> str:
    """Without `<memories>…</memories>` and the like."""
    closings = _Places(_CLOSES, text)
    kept, at = [], 0
    for opening in _OPENS.finditer(text) if closings.starts else ():
        if opening.start() < at:
            continue
        closing = closings.within(opening.end(), len(text))
        if closing is None:
            break
        kept.append(text[at : opening.start()])
        at = closings.ends[closing]
    return "\n".join([*kept, text[at:]])


def orders(text: str) -> bool:
    """Whether a text gives orders to whoever reads it as data."""
    return _order_at(text) is not None


def find(quote: str, messages: Sequence[Said], roles: Sequence[str]) -> Said | None:
    """The message that the quote is from, of these roles, in the order of the roles. None = nobody said that."""
    parts = [part for part in map(folded, _ELISION.split(quote)) if part]
    for role in roles:
        for message in messages:
            if message.role == role and _holds(_folded_speech(message.content), parts):
                return message
    return None


def said_as_order(quote: str, messages: Sequence[Said]) -> bool:
    """Whether the quote occurs only in what `speech` leaves out."""
    part = folded(quote)
    said = [message.content for message in messages if message.role == "user"]
    return bool(part) and any(part in folded(text) and part not in folded(speech(text)) for text in said)


def _holds(text: str, parts: Sequence[str]) -> bool:
    if not parts or not text:
        return False
    if list(parts) == [text]:
        return True
    at = 0
    for part in parts:
        if len(part) < (_SHORTEST_WIDE if _WIDE.search(part) else _SHORTEST):
            return False
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True
