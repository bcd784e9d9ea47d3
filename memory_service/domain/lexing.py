"""Words, values and Chinese characters of a text, each with its kind. Chinese and English, also mixed.

Owns the reading of a text: what is a value (numbers, dates, names, negation, poles of an attitude, sides, subjects ...),
what is content and what adds nothing, and three turns of phrase that move words without moving meaning (passive voice,
"which is ...", double negation). Refuses to compare (`values`, `state`). Reading is a heuristic over closed word lists
(`lexicon_en`, `lexicon_zh`); it never fails, and where it understands too little the comparison finds "uncertain".
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from memory_service.domain import lexicon_en as en
from memory_service.domain import lexicon_zh as zh
from memory_service.domain.numerals import Found, Quantity, read
from memory_service.domain.text import normalise


class Kind(Enum):
    """What a token says; the value is its name for people."""

    NUMBER = "numbers"
    ORDINAL = "ordinals"
    CODE = "identifiers"
    DATE = "dates"
    CLOCK = "times"
    NAME = "names"
    SELF = "the user"
    KIN = "subjects"
    SIDE = "directions"
    QUALITY = "qualities"
    TENSE = "tenses"
    MODAL = "modal verbs"
    AMOUNT = "frequencies"
    POLE = "attitudes"
    WORD = "words"
    MANNER = "manners"
    PREPOSITION = "prepositions"
    NEGATION = "negations"
    COPULA = "copula"
    FUNCTION = "function words"
    BREAK = "breaks"


@dataclass(frozen=True, slots=True)
class Token:
    """One word, value or Chinese character. Equal `key` and kind: the same to a comparison.

    `negated`: an odd number of negations bears on it. `sign`: of a POLE, with the negation worked in. `soft`: a "one"
    that is little more than an article.
    """

    kind: Kind
    key: str
    surface: str
    negated: bool = False
    sign: int = 0
    unit: str = ""
    soft: bool = False


_ZH: Final[dict[str, tuple[Kind, str]]] = (
    {w: (Kind.WORD, zh.SYNONYMS.get(w, w)) for w in [*zh.KEPT, *zh.SYNONYMS, *zh.LIVE]}
    | {w: (Kind.WORD, w) for names in (zh.STATUS[0], zh.STATUS[1], zh.COMPANIES, zh.LANGUAGES) for w in names}
    | {w: (Kind.FUNCTION, w) for w in zh.FUNCTION}
    | {w: (Kind.AMOUNT, k) for w, k in zh.AMOUNT.items()}
    | {w: (Kind.MODAL, k) for w, k in zh.MODAL.items()}
    | {w: (Kind.TENSE, k) for w, k in zh.TENSE.items()}
    | {w: (Kind.SIDE, k) for w, k in zh.SIDES.items()}
    | {w: (Kind.QUALITY, k) for w, k in zh.QUALITIES.items()}
    | {w: (Kind.KIN, k) for w, k in zh.KIN.items()}
    | {w: (Kind.POLE, axis) for w, (axis, _) in zh.POLES.items()}
    | {w: (Kind.NEGATION, w) for w in zh.NEGATORS}
    | {w: (Kind.SELF, "self") for w in zh.SELF}
    | {w: (Kind.COPULA, "=") for w in ("是", "为")}
    | {w: (Kind.WORD, "favourite") for w in ("最喜欢", "最爱", "最喜爱")}
    | {w: (Kind.WORD, zh.SYNONYMS.get(w, w)) for w in zh.SLOT_MARKS if w not in ("最喜欢", "最爱", "最喜爱", "唯一", "当前")}
)
_ZH_READ_AS: Final = zh.POSITIVE_DOUBLES
_ZH_LONGEST: Final = max(len(word) for word in [*_ZH, *_ZH_READ_AS])
_PHRASE: Final = re.compile(
    rf"(?:{'|'.join(re.escape(p) for p in sorted(en.PHRASES, key=len, reverse=True))})(?![a-z'])"
)
_WORD: Final = re.compile(r"[a-z\u00c0-\u024f]+(?:['+#-](?!(?:s|m|re|ve|d|ll)(?![a-z]))[a-z\u00c0-\u024f]+|\+\+|#)*|'s|'re|'m|'ve|'d|'ll")
_CODE: Final = re.compile(r"(?=[a-z0-9_-]*[a-z])(?=[a-z0-9_-]*\d)[a-z0-9]+(?:[-_][a-z0-9]+)*")
_MEASURED: Final = re.compile(r"\d+(?:am|pm|st|nd|rd|th|[a-z]{1,2}|min|mins|hrs?|secs?|kgs|lbs|usd|rmb)|\d{4}-\d{1,2}-\d{1,2}")
_PRODUCT: Final = re.compile(r"([a-z]{3,})(\d{1,3}(?:\.\d+)*)(?![a-z0-9])")
CJK: Final = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_ASKING: Final = re.compile(r"([\u4e00-\u9fff])[不没]\1")
_BREAK: Final = re.compile(r"[,.;:!?，。；：！？、\n()（）]")
_NICKNAME: Final = re.compile(rf"[小老阿][{zh.SURNAMES}](?![\u4e00-\u9fff]?[区学时说组])")
_NOT: Final = ((re.compile(r"\bca(?:n't|nnot)\b", re.I), "can not"), (re.compile(r"\bwon't\b", re.I), "will not"), (re.compile(r"n't\b", re.I), " not"))  # fmt: skip
_QUANTITIES: Final = {
    Quantity.NUMBER: Kind.NUMBER,
    Quantity.ORDINAL: Kind.ORDINAL,
    Quantity.CODE: Kind.CODE,
    Quantity.DATE: Kind.DATE,
    Quantity.CLOCK: Kind.CLOCK,
}
_IRREGULAR: Final = {
    form: base
    for base, forms in {
        "ride": "ridden rode", "eat": "eaten ate", "drive": "driven drove", "write": "written wrote", "take": "taken took",
        "break": "broken broke", "give": "given gave", "speak": "spoken spoke", "sing": "sung sang", "see": "seen saw",
        "do": "done", "make": "made", "feed": "fed", "hold": "held", "build": "built", "send": "sent", "throw": "thrown threw",
        "wear": "worn wore", "draw": "drawn drew", "buy": "bought", "go": "went gone", "come": "came", "find": "found",
        "tell": "told", "say": "said", "sell": "sold", "meet": "met", "pay": "paid", "run": "ran", "drink": "drank drunk",
        "blow": "blown blew", "grow": "grown grew", "know": "known knew", "shoot": "shot", "catch": "caught", "teach": "taught",
        "bring": "brought", "leave": "left_behind", "lead": "led", "swim": "swam", "spend": "spent", "win": "won", "begin": "began",
        "live": "lives", "use": "uses", "potato": "potatoes", "wolf": "wolves", "knife": "knives",
    }.items()
    for form in forms.split()
}  # fmt: skip
PARTICIPLES: Final = frozenset(_IRREGULAR) | frozenset("cut put read set hit shut let thrown".split())
"""Participles that do not end in -ed (some past forms among them)."""
_KEEP_LY: Final = frozenset("family only early daily weekly monthly yearly italy july fly reply apply supply rely ally".split())


def stem(word: str) -> str:
    """A Latin word without its endings of number and tense; equal for forms of one word, not itself a word."""
    word = _IRREGULAR.get(word, word)
    if len(word) > 4 and word.endswith(("ies", "ied")):
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us", "is")):
            word = word[: -len(ending)]
            if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    return word.removesuffix("e") if len(word) > 3 else word


def scan(text: str) -> list[Token]:
    """All tokens of a text in their order, function words and negations included."""
    text = normalise(text).translate({0x2019: "'", 0xFF1A: ":", 0xFF05: "%"})
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
    """Headlines capitalise every word; there, capitals say nothing."""
    words = re.findall(r"[A-Za-z]{4,}", text)
    return len(words) > 3 and sum(word[0].isupper() for word in words) > 0.7 * len(words)


def _step(text: str, lower: str, at: int, looks: "_Looks", out: list[Token]) -> int:
    """Reads what stands at a place, appends its tokens and answers where the next begins."""
    if (code := _code(lower, at)) is not None:
        out.extend(code)
        return at + sum(len(token.surface) for token in code)
    if (not at or not lower[at - 1].isalpha()) and (phrase := _PHRASE.match(lower, at)):
        out.extend(_latin(part, part, named=False) for part in en.PHRASES[phrase[0]].split())
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
        out.append(_latin(match[0], surface, named=_named(text, at, surface, looks)))
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
        return [Token(Kind.NAME, en.SYNONYMS.get(name, name), name), Token(Kind.NUMBER, version, version)]
    match = _CODE.match(lower, at)
    if match is None or _MEASURED.fullmatch(match[0]):
        return None
    if match[0] in en.PRODUCTS:
        return [Token(Kind.NAME, en.SYNONYMS.get(match[0], match[0]), match[0])]
    if re.fullmatch(r"v\d+|\d+-[a-z]+", match[0]):
        return None
    return [Token(Kind.CODE, match[0], match[0])]


def _quantity(found: Found, surface: str) -> Token:
    return Token(_QUANTITIES[found.sort], found.key, surface.strip(), unit=found.unit, soft=found.soft)


def _longest(lower: str, at: int) -> str:
    for length in range(min(_ZH_LONGEST, len(lower) - at), 0, -1):
        part = lower[at : at + length]
        if (part in _ZH or part in _ZH_READ_AS) and not _overlaps(lower, at, part):
            return part
    return ""


def _overlaps(lower: str, at: int, part: str) -> bool:
    """不同 in 不同意, 不过 in 不过敏: the word that a negation seems to begin belongs to the next one."""
    if len(part) != 2 or part[0] not in "不没无别未":
        return False
    return any(lower[at + 1 : at + 1 + length] in _ZH for length in (2, 3))


def _chinese(lower: str, at: int, word: str, out: list[Token]) -> int:
    if asking := _ASKING.match(lower, at):
        out.append(Token(Kind.TENSE, "if", asking[0]))
        return asking.end()
    if len(word) < 2 and (nickname := _NICKNAME.match(lower, at)):
        out.append(Token(Kind.NAME, nickname[0], nickname[0]))
        return nickname.end()
    if word in _ZH_READ_AS:
        _read_as(_ZH_READ_AS[word], word, out)
    elif word:
        out.append(_chinese_word(word))
    else:
        out.append(Token(Kind.WORD, zh.SYNONYMS.get(lower[at], lower[at]), lower[at]))
    return at + max(1, len(word))


def _read_as(reading: str, word: str, out: list[Token]) -> None:
    if reading in ("不能", "没有"):
        out.append(Token(Kind.NEGATION, "不", word))
        out.append(_chinese_word("能") if reading == "不能" else Token(Kind.WORD, "有", word))
    elif reading:
        out.append(_chinese_word(reading) if reading in _ZH else Token(Kind.WORD, reading, word))


def _chinese_word(word: str) -> Token:
    kind, key = _ZH[word]
    return Token(kind, key, word, sign=zh.POLES[word][1] if kind is Kind.POLE else 0)


def _named(text: str, at: int, surface: str, looks: "_Looks") -> bool:
    """Whether a Latin word is a proper name by its looks: it stands in Chinese, or has capitals that a sentence does
    not ask for.
    """
    if surface.lower() in en.PRODUCTS and surface.lower() not in ("go", "swift", "excel", "react", "spark", "rust", "unity"):
        return True
    if looks is _Looks.CHINESE:
        return len(surface) > 1 or surface.isupper()
    if surface.lower() in en.SELF or not any(c.isupper() for c in surface):
        return False
    inner = any(c.isupper() for c in surface[1:])
    if looks is _Looks.TITLE:
        return inner
    starts = not text[:at].strip() or text[:at].rstrip()[-1] in ".!?\n:;"
    return inner or not starts


def _latin(lower: str, surface: str, *, named: bool) -> Token:
    word = lower.removesuffix("'s")
    if word in ("a", "an") and not named:
        return Token(Kind.NUMBER, "1", surface, soft=True)
    key = en.SYNONYMS.get(word, word)
    if named and word not in en.SELF:
        return Token(Kind.NAME, key, surface)
    for kind, known in _EN_KINDS:
        if word in known:
            return Token(kind, known[word], surface, sign=en.POLES[word][1] if kind is Kind.POLE else 0)
    if word.endswith("ly") and len(word) > 4 and word not in _KEEP_LY:
        return Token(Kind.MANNER, key, surface)
    if word in _CUES:
        return Token(Kind.WORD, _CUES[word], surface)
    root = stem(word)
    return Token(Kind.WORD, _SYNONYMS.get(root, root), surface)


_SYNONYMS: Final = {stem(word): stem(first) for word, first in en.SYNONYMS.items()}
_CUES: Final = (
    dict.fromkeys(en.LIVE, "live") | dict.fromkeys(en.WORK, "work") | dict.fromkeys(("favourite", "favorite"), "favourite")
    | dict.fromkeys(("as", "named"), "") | {"as": "as", "named": "named", "use": "use", "uses": "use", "using": "use"}
)  # fmt: skip
_EN_KINDS: Final[list[tuple[Kind, dict[str, str]]]] = [
    (Kind.COPULA, dict.fromkeys("is are am be".split(), "=")),
    (Kind.FUNCTION, dict.fromkeys(en.FUNCTION, "")),
    (Kind.SELF, dict.fromkeys(en.SELF, "self")),
    (Kind.NEGATION, {word: word for word in en.NEGATORS}),
    (Kind.POLE, {word: axis for word, (axis, _) in en.POLES.items()}),
    (Kind.TENSE, en.TENSE),
    (Kind.MODAL, en.MODAL),
    (Kind.AMOUNT, en.AMOUNT),
    (Kind.KIN, en.KIN),
    (Kind.SIDE, en.SIDES),
    (Kind.QUALITY, en.QUALITIES),
    (Kind.PREPOSITION, {word: word for word in en.PREPOSITIONS}),
]


