"""A text cut into tokens: words, values and Chinese characters, each with its kind.

Owns the order in which readings are tried at a place: identifiers, fixed expressions, numbers and dates, listed words
by longest match, and what is left by the word or the Chinese character. Leaves meaning to `phrasing`.
"""

import re
from enum import Enum
from typing import Final

from memory_service.domain.text import normalise
from memory_service.domain.wording import lexicon_en as en
from memory_service.domain.wording import lexicon_zh as zh
from memory_service.domain.wording.notations import Found, Quantity, read
from memory_service.domain.wording.tokens import CJK, Kind, Token
from memory_service.domain.wording.vocabulary import (
    CHINESE,
    LONGEST_CHINESE,
    chinese_token,
    english_token,
    name_token,
)
from memory_service.domain.wording.wordlists import words

_PHRASE: Final = re.compile(
    rf"(?:{'|'.join(re.escape(phrase) for phrase in sorted(en.PHRASES, key=len, reverse=True))})(?![a-z'])"
)
_LETTER: Final = r"[a-z\u00c0-\u024f]"
_WORD: Final = re.compile(
    rf"{_LETTER}+(?:['+#-](?!(?:s|m|re|ve|d|ll)(?![a-z])){_LETTER}+|\+\+|#)*|'(?:s|re|m|ve|d|ll)(?![a-z])"
)
_CODE: Final = re.compile(r"(?=[a-z0-9_-]*[a-z])(?=[a-z0-9_-]*\d)[a-z0-9]+(?:[-_][a-z0-9]+)*")
_MEASURED: Final = re.compile(r"\d+(?:am|pm|st|nd|rd|th|[a-z]{1,2}|min|mins|hrs?|secs?|kgs|lbs|usd|rmb)")
"""A number with its unit written close to it, which is no identifier."""
_PRODUCT: Final = re.compile(r"([a-z]{3,})(\d{1,3}(?:\.\d+)*)(?![a-z0-9])")
_ASKING: Final = re.compile(r"([\u4e00-\u9fff])[不没]\1")
_BREAK: Final = re.compile(r"[,.;:!?，。；：！？、\n()（）]")
_NICKNAME: Final = re.compile(rf"[小老阿][{''.join(sorted(zh.SURNAMES))}](?![\u4e00-\u9fff]?[区学时说组])")
_SIGNS: Final = {0x2019: "'", 0xFF1A: ":", 0xFF05: "%"}
_NOT: Final = (
    (re.compile(r"\bca(?:n't|nnot)\b", re.I), "can not"),
    (re.compile(r"\bwon't\b", re.I), "will not"),
    (re.compile(r"n't\b", re.I), " not"),
)
_QUANTITIES: Final = {
    Quantity.NUMBER: Kind.NUMBER,
    Quantity.ORDINAL: Kind.ORDINAL,
    Quantity.CODE: Kind.CODE,
    Quantity.DATE: Kind.DATE,
    Quantity.CLOCK: Kind.CLOCK,
}
_COMMON_PRODUCTS: Final = words("go swift excel react spark rust unity")
"""Products whose names are everyday words too."""


def scan(text: str) -> list[Token]:
    """All tokens of a text in their order, function words and negations included."""
    text = normalise(text).translate(_SIGNS)
    for pattern, written in _NOT:
        text = pattern.sub(written, text)
    lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    looks = _Looks.CHINESE if CJK.search(text) else _Looks.TITLE if _title(text) else _Looks.PROSE
    tokens: list[Token] = []
    at = 0
    while at < len(lower):
        if lower[at].isspace():
            at += 1
            continue
        at = _step(text, lower, at, looks, tokens)
    return tokens


class _Looks(Enum):
    PROSE = 1
    TITLE = 2
    CHINESE = 3


def _title(text: str) -> bool:
    """Headlines capitalise every word, shouting every letter; there, capitals say nothing."""
    if text.isupper():
        return True
    long = re.findall(r"[A-Za-z]{4,}", text)
    return len(long) > 3 and sum(word[0].isupper() for word in long) > 0.7 * len(long)


def _step(text: str, lower: str, at: int, looks: "_Looks", out: list[Token]) -> int:
    """Reads what stands at a place, appends its tokens and answers where the next begins."""
    if (code := _code(lower, at)) is not None:
        out.extend(code)
        return at + sum(len(token.surface) for token in code)
    if (not at or not lower[at - 1].isalpha()) and (phrase := _PHRASE.match(lower, at)):
        out.extend(english_token(part, part, named=False) for part in en.PHRASES[phrase[0]].split())
        return phrase.end()
    found = read(lower, at)
    word = _longest(lower, at)
    if found is not None and found.end - at >= len(word) and not (len(word) == found.end - at > 1):
        out.append(_quantity(found, text[at : found.end]))
        return found.end
    if CJK.match(lower, at):
        return _chinese(lower, at, word, out)
    if match := _WORD.match(lower, at):
        surface = text[at : match.end()]
        out.append(english_token(match[0].removesuffix("'s"), surface, named=_named(text, at, surface, looks)))
        return match.end()
    if _BREAK.match(lower, at):
        out.append(Token(Kind.BREAK, "|", text[at]))
    elif lower[at].isalnum() or ord(lower[at]) > 0x2FFF:
        out.append(Token(Kind.WORD, lower[at], text[at]))
    return at + 1


def _code(lower: str, at: int) -> list[Token] | None:
    if at and (lower[at - 1].isascii() and (lower[at - 1].isalnum() or lower[at - 1] == ".")):
        return None
    if product := _PRODUCT.match(lower, at):
        name, version = product[1], product[2]
        return [name_token(name, name), Token(Kind.NUMBER, version, version)]
    match = _CODE.match(lower, at)
    if match is None or _MEASURED.fullmatch(match[0]):
        return None
    if match[0] in en.PRODUCTS:
        return [name_token(match[0], match[0])]
    if re.fullmatch(r"v\d+|\d+-[a-z]+", match[0]):
        return None
    return [Token(Kind.CODE, match[0], match[0])]


def _quantity(found: Found, surface: str) -> Token:
    return Token(_QUANTITIES[found.sort], found.key, surface.strip(), unit=found.unit, soft=found.soft)


def _longest(lower: str, at: int) -> str:
    for length in range(min(LONGEST_CHINESE, len(lower) - at), 0, -1):
        part = lower[at : at + length]
        if (part in CHINESE or part in zh.READ_AS) and not _overlaps(lower, at, part):
            return part
    return ""


def _overlaps(lower: str, at: int, part: str) -> bool:
    """不同 in 不同意, 不过 in 不过敏: the word that a negation seems to begin belongs to the next one."""
    if len(part) != 2 or part[0] not in "不没无别未":
        return False
    return any(lower[at + 1 : at + 1 + length] in CHINESE for length in (2, 3))


def _chinese(lower: str, at: int, word: str, out: list[Token]) -> int:
    if asking := _ASKING.match(lower, at):
        out.append(Token(Kind.TENSE, "if", asking[0]))
        return asking.end()
    if len(word) < 2 and (nickname := _NICKNAME.match(lower, at)):
        out.append(Token(Kind.NAME, nickname[0], nickname[0]))
        return nickname.end()
    if word in zh.READ_AS:
        _read_as(zh.READ_AS[word], word, out)
    elif word:
        out.append(chinese_token(word))
    else:
        out.append(Token(Kind.WORD, zh.SYNONYMS.get(lower[at], lower[at]), lower[at]))
    return at + max(1, len(word))


def _read_as(reading: str, word: str, out: list[Token]) -> None:
    if reading in ("不能", "没有"):
        out.append(Token(Kind.NEGATION, "不", word))
        reading = reading[1:]
    if reading:
        out.append(chinese_token(reading) if reading in CHINESE else Token(Kind.WORD, reading, reading))


def _named(text: str, at: int, surface: str, looks: "_Looks") -> bool:
    """Whether a Latin word is a proper name by its looks: it stands in Chinese, or has capitals that a sentence does
    not ask for.
    """
    if surface.lower() in en.PRODUCTS and surface.lower() not in _COMMON_PRODUCTS:
        return True
    if looks is _Looks.CHINESE:
        return len(surface) > 1 or surface.isupper()
    if surface.lower() in en.SELF or not any(c.isupper() for c in surface):
        return False
    inner = any(c.isupper() for c in surface[1:])
    if looks is _Looks.TITLE:
        return inner and not surface.isupper()
    starts = not text[:at].strip() or text[:at].rstrip()[-1] in ".!?\n:;"
    return inner or not starts
