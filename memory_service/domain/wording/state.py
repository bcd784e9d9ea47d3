"""Whether two statements are one statement with another state value: what makes layer 3 retire a memory.

Owns the positive evidence that memory.md §2 asks for: a version of a product in use, a quantity of a standing state,
the polarity of a preference or of a habit, the value of an attribute of which there is one at a time (residence,
employer, the user's name, a favourite, a tool in a role ...). Everything else must be equal in both texts. Whatever is
not proven here is not a change of state: numbers of orders, dates, persons, amounts of purchases, single events.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from memory_service.domain.wording import lexicon_en as en
from memory_service.domain.wording import lexicon_zh as zh
from memory_service.domain.wording.phrasing import Phrase
from memory_service.domain.wording.places import interchangeable, level
from memory_service.domain.wording.stemming import stem
from memory_service.domain.wording.tokens import CJK, Kind, Token
from memory_service.domain.wording.units import MONEY
from memory_service.domain.wording.wordlists import words

_HABITS: Final = words("daily weekly monthly yearly usually always 每 每天 每周 每月 每年 通常 总是")


def state_change(a: Phrase, b: Phrase) -> str:
    """What changed, in a few words with the two values ("version 8 → 9"); empty when no change of state is certain."""
    if a.event or b.event or any(t.kind is Kind.TENSE and t.key not in ("wish", "想") for t in (*a.core, *b.core)):
        return ""
    return _one_token(a, b) or _slot(a, b)


def _one_token(a: Phrase, b: Phrase) -> str:
    """Changes that leave every other token as it is; "a" and "one" may come or go."""
    for left, right in ((a.core, b.core), (_without_articles(a), _without_articles(b))):
        if len(left) == len(right):
            pairs = [(x, y) for x, y in zip(left, right, strict=True) if _unlike(x, y)]
            if len(pairs) == 1:
                old, new = pairs[0]
                return _polarity(a, old, new) or _number(a, old, new) or _status(a, old, new)
    return ""


def _without_articles(phrase: Phrase) -> list[Token]:
    return [token for token in phrase.core if not token.soft]


def _unlike(x: Token, y: Token) -> bool:
    return x.key != y.key or x.negated != y.negated or x.sign != y.sign


def _polarity(a: Phrase, old: Token, new: Token) -> str:
    if old.key != new.key or old.kind is not new.kind or _has(a, en.EVENT_NOUNS, zh.EVENT_NOUNS):
        return ""
    if old.kind is Kind.POLE:
        return f"preference {_affirmed(old)} → {_affirmed(new)}" if old.sign * new.sign < 0 else ""
    return f"{_affirmed(old)} → {_affirmed(new)}"


def _affirmed(token: Token) -> str:
    negation = "" if not token.negated else "不" if CJK.match(token.surface) else "not "
    return negation + token.surface


@lru_cache(maxsize=8192)
def _has(phrase: Phrase, latin: frozenset[str], chinese: frozenset[str]) -> bool:
    """Whether one of these words is said. Chinese words of the lists may be several tokens long."""
    words = [t.surface.lower() for t in phrase.tokens]
    joined = "".join(words)
    return any(w in latin or w.removesuffix("s") in latin for w in words) or any(
        w in words if len(w) == 1 else w in joined for w in chinese
    )


def _number(a: Phrase, old: Token, new: Token) -> str:
    if old.kind is not Kind.NUMBER or new.kind is not Kind.NUMBER or old.unit != new.unit or old.negated or new.negated:
        return ""
    at = next(i for i, t in enumerate(a.tokens) if t is old or (t.key == old.key and t.kind is Kind.NUMBER))
    before = a.tokens[at - 1] if at else None
    if before is not None and before.kind is Kind.NAME and not old.unit and not _has(a, en.EVENT_NOUNS, zh.EVENT_NOUNS):
        product = before.surface.lower() in en.PRODUCTS or _has(a, en.USE_VERBS, zh.USE_VERBS)
        named = before.surface.lower() not in en.ID_NOUNS
        return f"version {old.surface} → {new.surface}" if product and named else ""
    if _identifies(a, at) or _has(a, en.EVENT_NOUNS | en.EVENT_VERBS, zh.EVENT_NOUNS | zh.EVENT_VERBS):
        return ""
    money = old.unit in MONEY
    standing = _has(a, en.SLOTS, zh.SLOTS) if money else _stands(a, old)
    return f"quantity {old.surface} → {new.surface}" if standing else ""


def _stands(a: Phrase, number: Token) -> bool:
    habit = any(t.kind is Kind.COPULA or t.key in _HABITS for t in a.tokens)
    return number.unit == "age" or habit or _has(a, en.STATIVE, zh.STATIVE)


def _identifies(a: Phrase, at: int) -> bool:
    """Whether the number at a place is the name of one of many: room 12, server 1, 工号是 1234."""
    number = a.tokens[at]
    linked = [t for t in a.tokens[:at] if t.kind is not Kind.COPULA]
    if not linked:
        return False
    said = "".join(t.surface for t in linked)
    if number.unit:
        return any(said.endswith(noun) for noun in zh.ID_NOUNS)
    if linked[-1].surface.lower() in en.ID_NOUNS or any(said.endswith(noun) for noun in zh.ID_NOUNS):
        return True
    before = a.tokens[at - 1]
    bare = before.kind in (Kind.WORD, Kind.NAME, Kind.KIN, Kind.QUALITY, Kind.SIDE)
    spoken = before.surface.lower()
    return bare and not (spoken in en.STATIVE | en.SLOTS or any(said.endswith(word) for word in zh.STATIVE | zh.SLOTS))


def _status(a: Phrase, old: Token, new: Token) -> str:
    """One of a few states that exclude each other, for another: single and married, brief answers and long ones."""
    if old.negated or new.negated:
        return ""
    told = {old.surface.lower(), old.key}, {new.surface.lower(), new.key}
    for status in (*en.STATUS, *zh.STATUS):
        if status & told[0] and status & told[1]:
            return f"status {old.surface} → {new.surface}"
    if _has(a, en.REPLY, zh.REPLY) and any(style & told[0] and style & told[1] for style in (*en.STYLES, *zh.STYLES)):
        return f"style {old.surface} → {new.surface}"
    return ""


@dataclass(frozen=True, slots=True)
class _Slot:
    """An attribute of which a subject has one at a time: the pattern of its statement over the keys of the tokens, with
    the value as group v, and what a value looks like.
    """

    name: str
    pattern: re.Pattern[str]
    fits: str


def _keys(words: Sequence[str] | frozenset[str]) -> str:
    return "(?:" + "|".join(sorted((re.escape(w) for w in words), key=len, reverse=True)) + ")"


def _spaced(words: frozenset[str]) -> str:
    """Chinese words as they lie in the keys: any run of tokens that spells them."""
    return "(?:" + "|".join(" ?".join(map(re.escape, w)) for w in sorted(words, key=len, reverse=True)) + ")"


_V: Final = r"(?P<v>[^|=]+?) "
_END: Final = r"(?=\||$)"
_START: Final = r"(?:^|\| )"
_ATTRIBUTE: Final = f"(?:{_keys(frozenset(stem(w) for w in en.SLOTS) | en.SLOTS)}|{_spaced(zh.SLOTS)})"
_MARK: Final = _keys({"favourite", *en.SLOT_MARKS, *(stem(w) for w in en.SLOT_MARKS), *zh.SLOT_MARKS})  # type: ignore[arg-type]
_SLOTS: Final = (
    _Slot("name", re.compile(rf"{_START}(?:self (?:named|叫)|(?:call|叫) self) {_V}{_END}"), "name"),
    _Slot(
        "favourite", re.compile(rf"{_START}(?:(?!oneof|之一)[^|=])*{_MARK} (?:[^|= ]+ ){{1,6}}= {_V}{_END}"), "value"
    ),
    _Slot("attribute", re.compile(rf"{_START}[^|=]*{_ATTRIBUTE} (?:= |用 (?:= )?){_V}{_END}"), "value"),
    _Slot("residence", re.compile(rf"{_START}[^|=]*live (?:in |at |near )?{_V}{_END}"), "place"),
    _Slot("residence", re.compile(rf"{_START}[^|=]*{_spaced(zh.LIVE)} {_V}{_END}"), "place"),
    _Slot("origin", re.compile(rf"{_START}self = from {_V}{_END}"), "place"),
    _Slot("employer", re.compile(rf"{_START}[^|=]*work (?:at |for |in ){_V}{_END}"), "proper"),
    _Slot(
        "employer", re.compile(rf"{_START}[^|=]*在 {_V}(?:{_keys(zh.WORK_ENDS)}|任 职|就 职|供 职) {_END}"), "proper"
    ),
    _Slot("job", re.compile(rf"{_START}[^|=]*work as {_V}{_END}"), "value"),
    _Slot("tool", re.compile(rf"{_START}[^|=]*use {_V}as "), "value"),
    _Slot("tool", re.compile(rf"{_START}[^|=]*用 {_V}作为 "), "value"),
    _Slot("language", re.compile(rf"{_START}[^|=]*(?:answer|repli|respond|respons) in {_V}{_END}"), "language"),
    _Slot("language", re.compile(rf"{_START}[^|=]*用 {_V}{_spaced(zh.REPLY)} (?:self )?{_END}"), "language"),
)


def _slot(a: Phrase, b: Phrase) -> str:
    left, right = _slots(a), _slots(b)
    for place, before in left.items():
        after = right.get(place)
        if after is None:
            continue
        old, new = _trimmed(before, after)
        slot = _SLOTS[place[0]]
        if old and new and _FITS[slot.fits](old, new) and not _holds(old, new):
            return f"{slot.name} {_text(old)} → {_text(new)}"
    return ""


@lru_cache(maxsize=4096)
def _slots(phrase: Phrase) -> dict[tuple[int, str, str], list[Token]]:
    """The values of a statement's slots, in the order of `_SLOTS`, by the slot and by what stands around the value."""
    if any(t.key in ("oneof", "之一") for t in phrase.core):
        return {}
    text = " ".join(_key(t) for t in phrase.tokens) + " "
    found = ((number, slot.pattern.search(text)) for number, slot in enumerate(_SLOTS))
    return {
        (number, text[: match.start("v")], text[match.end("v") :]): _tokens(phrase, text, match)
        for number, match in found
        if match is not None
    }


def _key(token: Token) -> str:
    key = "|" if token.kind is Kind.BREAK else token.key.replace(" ", "_").replace("|", "") or "_"
    return f"!{key}" if token.negated or token.sign < 0 else key


def _tokens(phrase: Phrase, text: str, found: re.Match[str]) -> list[Token]:
    first = text[: found.start("v")].count(" ")
    return list(phrase.tokens[first : first + len(found["v"].split(" "))])


def _trimmed(a: list[Token], b: list[Token]) -> tuple[list[Token], list[Token]]:
    """Without what both values end in, as in "Paris with two cats"; Chinese keeps the last sign, as in 朝阳区."""
    tail = 0
    while tail < min(len(a), len(b)) - 1 and a[-1 - tail].key == b[-1 - tail].key:
        tail += 1
    if tail == 1 and CJK.match(a[-1].surface):
        tail = 0
    return a[: len(a) - tail], b[: len(b) - tail]


def _text(tokens: Sequence[Token]) -> str:
    return "".join(t.surface if CJK.match(t.surface) else f" {t.surface} " for t in tokens).replace("  ", " ").strip()


def _holds(a: list[Token], b: list[Token]) -> bool:
    """One value inside the other is more detail, not another value."""
    left, right = (_text(tokens).lower() for tokens in (a, b))
    return left in right or right in left


def _value(a: list[Token], b: list[Token]) -> bool:
    """Two short values of one make: both with proper names or both without, no dates, numbers only after a name."""
    for tokens in (a, b):
        cjk = any(CJK.match(t.surface) for t in tokens)
        if len(tokens) > (8 if cjk else 4) or any(t.negated for t in tokens):
            return False
        for at, t in enumerate(tokens):
            if t.kind is Kind.NUMBER and not t.soft and not (at and tokens[at - 1].kind is Kind.NAME):
                return False
            if t.kind not in (Kind.WORD, Kind.NAME, Kind.QUALITY, Kind.NUMBER, Kind.POLE, Kind.CODE, Kind.KIN):
                return False
    return _proper_count(a) == _proper_count(b) and all(t.kind is not Kind.CODE for t in (*a, *b))


def _proper_count(tokens: list[Token]) -> bool:
    return any(t.kind is Kind.NAME for t in tokens)


def _place(a: list[Token], b: list[Token]) -> bool:
    left, right = (_text(tokens).lower() for tokens in (a, b))
    if interchangeable(left, right):
        return True
    unknown = level(left) is None and level(right) is None
    return unknown and all(t.kind is Kind.NAME and t.surface.isascii() for t in (*a, *b))


def _proper(a: list[Token], b: list[Token]) -> bool:
    if any(level(_text(tokens).lower()) for tokens in (a, b)):
        return _place(a, b)
    return all(_organisation(tokens) for tokens in (a, b))


def _organisation(tokens: list[Token]) -> bool:
    name = _text(tokens)
    if name in zh.COMPANIES or all(t.kind is Kind.NAME for t in tokens):
        return len(tokens) <= 4
    return len(name) > 2 and any(name.endswith(end) and len(name) > len(end) + 1 for end in zh.ORGANISATION)


def _name(a: list[Token], b: list[Token]) -> bool:
    return all(_person(tokens) for tokens in (a, b))


def _person(tokens: list[Token]) -> bool:
    name = _text(tokens)
    if not CJK.search(name):
        return len(tokens) <= 3 and all(t.kind in (Kind.WORD, Kind.NAME) and not t.negated for t in tokens)
    return (2 <= len(name) <= 4 and name[0] in zh.SURNAMES) or (len(name) == 2 and name[0] in "小老阿")


def _language(a: list[Token], b: list[Token]) -> bool:
    return all(_text(tokens).lower() in en.LANGUAGES | zh.LANGUAGES for tokens in (a, b))


_FITS: Final = {"name": _name, "value": _value, "place": _place, "proper": _proper, "language": _language}
