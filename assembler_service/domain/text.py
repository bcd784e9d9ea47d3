"""Text from outside, made safe: what has no place in a prompt, what could break its frame, which language it is in.

Owns cleaning, escaping and the language guess. The question and the system prompt are never escaped: they are the
caller's own. Refuses to judge what a text says.
"""

import json
import re
import unicodedata
from collections.abc import Iterable
from typing import Final

import regex

from assembler_service.domain.model import Language

TAGS: Final = (
    *("sources", "computations", "memories", "profile", "summary"),
    *("conversation", "previous-summary", "对话", "此前的摘要"),
)
"""Names of the delimiters of blocks, and of those in the summariser's prompt. What looks like one in a text from
outside is escaped.
"""

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_WIDE_GAP: Final = re.compile(r"[^\S\n]{64,}")
_BLANKS: Final = " " * 64
_TALL_GAP: Final = re.compile(r"\n(?:[^\S\n]*\n){3,}")
# Possessive, here and below: what a repetition took it never gives back. A long run that leads nowhere would otherwise
# be tried from each of its ends, and 100,000 blanks after a "[" would stand the whole server still for minutes.
_GAP: Final = r"[\s\u200b-\u200f\u2060\ufeff]*+"  # blanks, and what cannot be seen
_MARK: Final = re.compile(rf"[\[［【〔]({_GAP}(?:\^{_GAP})?\d++(?:[\s,，、;；\-–—~～]++\d++)*+{_GAP})[\]］】〕]")
_TAG: Final = re.compile(rf"[<＜](?={_GAP}(?:[/／]{_GAP})?(?:{'|'.join(TAGS)})\b)", re.IGNORECASE)
_SPECIAL: Final = re.compile(r"<(?=[|｜][^|｜<>\s]{1,40}[|｜]>)")
_NOTES: Final = re.compile(
    r"【(较早对话摘要)】|\[(summary of the earlier conversation)\]|(?<!-)-{3,}+(?=\s*+[（(])", re.IGNORECASE
)
_SPEAKER: Final = re.compile(r"^(?=(?:system|user|assistant|tool(?: [^\n]{1,200})?):[^\S\n]*+$)", re.MULTILINE)
"""Before a line that reads like the heading of a message in the rendered text."""
_HAN: Final = regex.compile(r"\p{Han}")
_WORD: Final = regex.compile(r"[\p{L}--\p{Han}][\p{L}\p{M}]*", regex.V1)
_LANGUAGE_SAMPLE: Final = 4000
"""Letters looked at for the language; more say nothing new."""


def without_surrogates(text: str) -> str:
    """Drops lone surrogates: they have no UTF-8 and would be U+FFFD at the other end."""
    return text if text.isascii() else _SURROGATES.sub("", text)


def clean(text: str) -> str:
    """Text from outside as data: no surrogates, no control characters but tab and line ends, gaps of 64 blanks and of
    more than three line ends shortened, trimmed.
    """
    if text.isprintable() and _BLANKS not in text:  # one line, and nothing in it to clean: most memories
        return text.strip()
    text = _CONTROLS.sub("", without_surrogates(text).replace("\r\n", "\n").replace("\r", "\n"))
    return _TALL_GAP.sub("\n\n\n", _WIDE_GAP.sub(" ", text)).strip()


def escape(text: str) -> str:
    r"""Takes from a text everything the frame could be mistaken for, and leaves it readable.

    `[3]`, `【3】` and their like become `\[3\]`, a block's delimiter or a model's special token `&lt;…`, headings of
    the summary lose their brackets. Escaping twice is escaping once.
    """
    if "[" in text or "【" in text or "［" in text or "〔" in text:
        text = _MARK.sub(r"\\[\1\\]", text)
    if "<" in text or "＜" in text:
        text = _SPECIAL.sub("&lt;", _TAG.sub("&lt;", text))
    if "【" in text or "[" in text or "---" in text:
        text = _NOTES.sub(lambda found: found[1] or found[2] or "- -", text)
    return text


def escape_tool_result(text: str) -> str:
    """Like `escape`, but JSON stays JSON with the same value: only delimiters in its strings are escaped."""
    if not is_structured(text):
        return escape(text)
    return _SPECIAL.sub(r"\\u003c", _TAG.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def not_a_heading(text: str) -> str:
    r"""A text within the rendered one: a line in it that reads like the heading of a message (`user:`) is `\user:`."""
    return _SPEAKER.sub(r"\\", text) if ":" in text else text


def one_line(text: str, limit: int) -> str:
    """A heading from outside: cleaned, escaped, on one line, at most `limit` characters."""
    flat = " ".join(escape(clean(text)).split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def is_structured(text: str) -> bool:
    """True for a JSON object or array: it is never cut in the middle of a value."""
    if not text or text[0] + text[-1] not in ("{}", "[]"):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def letters(text: str) -> tuple[int, int]:
    """Han characters and words of other scripts in the first 4,000 characters."""
    sample = text[:_LANGUAGE_SAMPLE]
    han = 0 if sample.isascii() else len(_HAN.findall(sample))
    return han, len(_WORD.findall(sample))


def detect_language(texts: Iterable[str]) -> Language:
    """The language of the first text that has letters; English where none has.

    A Chinese word has about two characters, so Chinese is what has at least as many pairs of Han characters as words.
    """
    for text in texts:
        han, words = letters(text)
        if han or words:
            return Language.ZH if han >= 2 * words or (han >= 4 and han >= words) else Language.EN
    return Language.EN


def comparable(text: str) -> str:
    """The form in which two texts are the same text: NFKC, case folded, white space as one blank."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
