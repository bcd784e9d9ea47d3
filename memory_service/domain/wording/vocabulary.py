"""The word lists of both languages as tables from a word to its kind and the form that is compared.

Owns which list has the last word where a word is in several. The lists are `lexicon_en` and `lexicon_zh`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from memory_service.domain.wording import lexicon_en as en
from memory_service.domain.wording import lexicon_zh as zh
from memory_service.domain.wording.stemming import stem
from memory_service.domain.wording.tokens import Kind, Token
from memory_service.domain.wording.wordlists import words

_FAVOURITE: Final = ("最喜欢", "最爱", "最喜爱")
_KEEP_LY: Final = words("family only early daily weekly monthly yearly italy july fly reply apply supply rely ally")
_EN_SYNONYMS: Final = {stem(word): stem(first) for word, first in en.SYNONYMS.items()}
_CUES: Final = {
    **dict.fromkeys(en.LIVE, "live"),
    **dict.fromkeys(en.WORK, "work"),
    **dict.fromkeys(("favourite", "favorite"), "favourite"),
    **dict.fromkeys(("use", "uses", "using"), "use"),
    "as": "as",
    "named": "named",
}
"""Words that the patterns of `state` look for: kept apart from stems."""


def _same(kind: Kind, members: Iterable[str]) -> dict[str, tuple[Kind, str]]:
    return {word: (kind, word) for word in members}


def _keyed(kind: Kind, members: Mapping[str, str]) -> dict[str, tuple[Kind, str]]:
    return {word: (kind, key) for word, key in members.items()}


def _synonyms(members: Iterable[str]) -> dict[str, tuple[Kind, str]]:
    return {word: (Kind.WORD, zh.SYNONYMS.get(word, word)) for word in members}


CHINESE: Final[dict[str, tuple[Kind, str]]] = {
    **_synonyms((*zh.KEPT, *zh.SYNONYMS, *zh.LIVE)),
    **_same(Kind.WORD, (*zh.STATUS[0], *zh.STATUS[1], *zh.COMPANIES, *zh.LANGUAGES)),
    **_same(Kind.FUNCTION, zh.FUNCTION),
    **_keyed(Kind.AMOUNT, zh.AMOUNT),
    **_keyed(Kind.MODAL, zh.MODAL),
    **_keyed(Kind.TENSE, zh.TENSE),
    **_keyed(Kind.SIDE, zh.SIDES),
    **_keyed(Kind.QUALITY, zh.QUALITIES),
    **_keyed(Kind.KIN, zh.KIN),
    **{word: (Kind.POLE, axis) for word, (axis, _) in zh.POLES.items()},
    **_same(Kind.NEGATION, zh.NEGATORS),
    **dict.fromkeys(zh.SELF, (Kind.SELF, "self")),
    **dict.fromkeys(("是", "为"), (Kind.COPULA, "=")),
    **_synonyms(zh.SLOT_MARKS - {"唯一", "当前", *_FAVOURITE}),
    **dict.fromkeys(_FAVOURITE, (Kind.WORD, "favourite")),
}
"""Chinese word -> (kind, compared form). Later lists overrule earlier ones."""
LONGEST_CHINESE: Final = max(len(word) for word in (*CHINESE, *zh.READ_AS))

_ENGLISH: Final = (
    _keyed(Kind.PREPOSITION, {word: word for word in en.PREPOSITIONS})
    | _keyed(Kind.QUALITY, en.QUALITIES)
    | _keyed(Kind.SIDE, en.SIDES)
    | _keyed(Kind.KIN, en.KIN)
    | _keyed(Kind.AMOUNT, en.AMOUNT)
    | _keyed(Kind.MODAL, en.MODAL)
    | _keyed(Kind.TENSE, en.TENSE)
    | {word: (Kind.POLE, axis) for word, (axis, _) in en.POLES.items()}
    | _same(Kind.NEGATION, en.NEGATORS)
    | dict.fromkeys(en.SELF, (Kind.SELF, "self"))
    | dict.fromkeys(en.FUNCTION, (Kind.FUNCTION, ""))
    | dict.fromkeys(("is", "are", "am", "be"), (Kind.COPULA, "="))
)


def chinese_token(word: str) -> Token:
    """The token of a listed Chinese word."""
    kind, key = CHINESE[word]
    return Token(kind, key, word, sign=zh.POLES[word][1] if kind is Kind.POLE else 0)


def english_token(word: str, surface: str, *, named: bool) -> Token:
    """The token of a lower-case Latin word; `named`: it looks like a proper name."""
    if word in ("a", "an") and not named:
        return Token(Kind.NUMBER, "1", surface, soft=True)
    if named and word not in en.SELF:
        return name_token(word, surface)
    if word in _ENGLISH:
        kind, key = _ENGLISH[word]
        return Token(kind, key, surface, sign=en.POLES[word][1] if kind is Kind.POLE else 0)
    if word.endswith("ly") and len(word) > 4 and word not in _KEEP_LY:
        return Token(Kind.MANNER, word, surface)
    root = stem(word)
    return Token(Kind.WORD, _CUES.get(word) or _EN_SYNONYMS.get(root, root), surface)


def name_token(word: str, surface: str) -> Token:
    """The token of a proper name, lower-case."""
    return Token(Kind.NAME, en.SYNONYMS.get(word, word), surface)
