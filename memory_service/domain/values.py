"""Do two statements carry the same values, and if not, what sort of change lies between them?

Owns layer 2's test "same values" (memory.md §2): numbers with units, dates, names, negation, attitudes, sides, subjects
and who does what to whom must agree, and no content word may stand in another's place. `state` owns the sort of change.
Neither looks at similarity. Where the texts are not understood, they do not agree: keeping two costs less than
losing one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Final

from memory_service.domain.wording import lexicon_en as en
from memory_service.domain.wording import lexicon_zh as zh
from memory_service.domain.wording.alignment import replaced
from memory_service.domain.wording.phrasing import Phrase, read_phrase
from memory_service.domain.wording.state import state_change
from memory_service.domain.wording.tokens import CJK, Kind, Token
from memory_service.domain.wording.wordlists import words


class Change(Enum):
    """What lies between two statements: nothing that can be seen, another value of one standing state, another event or
    subject, or something that is not understood.
    """

    NONE = "none"
    STATE = "state"
    IDENTITY = "identity"
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`detail` names what differs in a few words, with values of the texts ("version 8 → 9"); empty if nothing does."""

    same_values: bool
    change: Change
    detail: str = ""


_EXACT: Final = (Kind.DATE, Kind.CLOCK, Kind.ORDINAL, Kind.CODE, Kind.SIDE)
_AS_SETS: Final = (Kind.TENSE, Kind.AMOUNT)
_ORDERED: Final = (Kind.WORD, Kind.NAME, Kind.KIN, Kind.SIDE, Kind.QUALITY, Kind.POLE)
_GENERIC: Final = en.GENERIC | zh.GENERIC
_SLIGHT: Final = words("as he she they we you 他 她 他们 她们 我们 你")
_MORE: Final = 0.34
"""Up to this share of its other content words, what only one text says is a matter of style."""


def compare(a: str, b: str) -> Comparison:
    """Compares two statements, the remembered one first. Pure; both texts are read once and remembered."""
    first, second = read_phrase(a), read_phrase(b)
    difference = _difference(first, second)
    if not difference:
        return Comparison(True, Change.NONE)
    change = state_change(first, second)
    if change:
        return Comparison(False, Change.STATE, change)
    identity = difference.split(" ")[0] in _IDENTITY
    return Comparison(False, Change.IDENTITY if identity else Change.UNCERTAIN, difference)


_IDENTITY: Final = frozenset(
    kind.value for kind in (Kind.DATE, Kind.CLOCK, Kind.ORDINAL, Kind.CODE, Kind.NAME, Kind.KIN)
)


def _difference(a: Phrase, b: Phrase) -> str:
    """What keeps two statements from having the same values, or empty."""
    return (
        _exact(a, b)
        or _numbers(a, b)
        or _names(a, b)
        or _subjects(a, b)
        or _polarity(a, b)
        or _order(a, b)
        or _content(a, b)
    )


def _show(a: Iterable[str], b: Iterable[str]) -> str:
    return f"{', '.join(a) or '–'} → {', '.join(b) or '–'}"


def _of(phrase: Phrase, kind: Kind) -> list[Token]:
    return [token for token in phrase.core if token.kind is kind]


def _exact(a: Phrase, b: Phrase) -> str:
    for (kind, left), (_, right) in zip(_exact_keys(a), _exact_keys(b), strict=True):
        if left != right:
            shown = [
                [t.surface for t in _of(p, kind) if _keyed(t) not in other] for p, other in ((a, right), (b, left))
            ]
            return f"{kind.value} {_show(*shown)}"
    return ""


@lru_cache(maxsize=4096)
def _exact_keys(phrase: Phrase) -> tuple[tuple[Kind, list[str]], ...]:
    """What must be equal, kind by kind: in order, of sides in any order, of tenses and frequencies each once."""
    keys = []
    for kind in (*_EXACT, *_AS_SETS):
        said = [_keyed(token) for token in _of(phrase, kind)]
        keys.append((kind, sorted({*said}) if kind in _AS_SETS else sorted(said) if kind is Kind.SIDE else said))
    return tuple(keys)


def _keyed(token: Token) -> str:
    return f"not {token.key}" if token.negated else token.key


def _numbers(a: Phrase, b: Phrase) -> str:
    left, right = (_of(p, Kind.NUMBER) for p in (a, b))
    if all(
        [t.key for t in left if t.unit == u] == [t.key for t in right if t.unit == u]
        for u in {t.unit for t in (*left, *right)}
    ):
        return ""
    hard_left, hard_right = ([t.key for t in side if not t.soft] for side in (left, right))
    spare_left, spare_right = (
        [t for t in side if t.key not in {o.key for o in other}] for side, other in ((left, right), (right, left))
    )
    if hard_left == hard_right and not (spare_left and spare_right):
        return ""
    return f"numbers {_show((t.surface for t in spare_left or left), (t.surface for t in spare_right or right))}"


def _names(a: Phrase, b: Phrase) -> str:
    known = [{t.key for t in p.core} | {t.surface.lower() for t in p.core} for p in (a, b)]
    missing = [
        [t.surface for t in _of(p, Kind.NAME) if t.key not in other] for p, other in ((a, known[1]), (b, known[0]))
    ]
    if missing[0] or missing[1]:
        return f"names {_show(*missing)}"
    return ""


def _subjects(a: Phrase, b: Phrase) -> str:
    """Of subjects and qualities one more or less is a detail; one in the place of another is not."""
    for kind in (Kind.KIN, Kind.QUALITY, Kind.MODAL):
        left, right = ({t.key: t.surface for t in _of(p, kind)} for p in (a, b))
        gone, come = (
            [shown for key, shown in side.items() if key not in other] for side, other in ((left, right), (right, left))
        )
        if gone and come and not (_GENERIC & ({*left} ^ {*right})):
            return f"{kind.value} {_show(gone, come)}"
    return ""


def _polarity(a: Phrase, b: Phrase) -> str:
    left, right = (_attitudes(p) for p in (a, b))
    return "" if left == right else f"{Kind.POLE.value} {_show(left, right)}"


def _attitudes(phrase: Phrase) -> list[str]:
    """Signs of attitudes and negated words, in their order. "Do not dislike" is its own value: less than liking."""
    found = []
    for t in phrase.core:
        if t.kind is Kind.POLE:
            found.append(f"{'+' if t.sign > 0 else '-'}{t.key}{'?' if t.negated and t.sign > 0 else ''}")
        elif t.negated:
            found.append(f"not {t.key}")
    return found


def _order(a: Phrase, b: Phrase) -> str:
    """Who does what to whom: shared words stand in one order, but for "X is Y" and neighbours ("tree trunk")."""
    left, right = ([t for t in p.core if t.kind in _ORDERED] for p in (a, b))
    shared = Counter(t.key for t in left) & Counter(t.key for t in right)
    kept = [_only(side, shared) for side in (left, right)]
    if (
        _neighbours_only(kept[0], kept[1], a, b)
        or _same_roles(kept, a, b)
        or _turned(a) == [t.key for t in b.core]
        or _turned(b) == [t.key for t in a.core]
    ):
        return ""
    return "the order of what is said"


def _neighbours_only(left: list[str], right: list[str], a: Phrase, b: Phrase) -> bool:
    """Whether two orders are the same but for two Latin words next to each other."""
    beside = [{(x.key, y.key) for x, y in pairwise([t for t in p.core if not t.soft])} for p in (a, b)]
    at = 0
    while at < len(left):
        if left[at] != right[at]:
            pair = tuple(left[at : at + 2])
            if len(pair) < 2 or tuple(right[at : at + 2]) != pair[::-1] or not "".join(pair).isascii():
                return False
            if pair not in beside[0] and pair[::-1] not in beside[1]:
                return False
            at += 1
        at += 1
    return True


def _same_roles(kept: Sequence[Sequence[str]], a: Phrase, b: Phrase) -> bool:
    """Whether only phrases with a preposition moved, each with its own: "at school taking a test"."""
    if not kept[0] or kept[0][0] != kept[1][0]:
        return False
    shared = set(kept[0])
    governed = [[pair for pair in _governors(p) if pair[0] in shared] for p in (a, b)]
    free = [[key for key, preposition in pairs if not preposition] for pairs in governed]
    return Counter(governed[0]) == Counter(governed[1]) and free[0] == free[1]


def _governors(phrase: Phrase) -> list[tuple[str, str]]:
    """Every ordered word with the preposition right before it, or empty."""
    pairs: list[tuple[str, str]] = []
    preposition = ""
    for token in phrase.core:
        if token.kind is Kind.PREPOSITION:
            preposition = token.key
        elif token.kind in _ORDERED:
            pairs.append((token.key, preposition))
            preposition = preposition if token.kind is Kind.QUALITY else ""
    return pairs


def _only(tokens: Sequence[Token], shared: Counter[str]) -> list[str]:
    left = Counter(shared)
    kept = []
    for token in tokens:
        if left[token.key] > 0:
            left[token.key] -= 1
            kept.append(token.key)
    return kept


def _turned(phrase: Phrase) -> list[str] | None:
    """The statement "X is Y" as "Y is X"; None if it is no such statement."""
    at = [i for i, t in enumerate(phrase.tokens) if t.kind is Kind.COPULA]
    if len(at) != 1:
        return None
    turned = (*phrase.tokens[at[0] + 1 :], *phrase.tokens[: at[0]])
    return [t.key for t in turned if t.kind is not Kind.BREAK]


def _content(a: Phrase, b: Phrase) -> str:
    """One content word in the place of another (likes apples, likes bananas), or much that only one of them says."""
    words = [_words(p) for p in (a, b)]
    alone = [_alone(words[0], words[1]), _alone(words[1], words[0])]
    apart = [
        [[t for t in side if id(t) in ids] for side, ids in zip(pair, alone, strict=True)] for pair in replaced(*words)
    ]
    for left, right in apart:
        if left and right and not _generic(left, right):
            return f"words {_show((t.surface for t in left), (t.surface for t in right))}"
    more = [[t for pair in apart for t in pair[side] if _matters(t)] for side in (0, 1)]
    if all(_weight(extra) >= 1 for extra in more) and not _generic(*more):
        return f"words {_show(*((t.surface for t in extra) for extra in more))}"
    for phrase, extra in zip((a, b), more, strict=True):
        rest = _weight([t for t in phrase.core if t.kind is not Kind.PREPOSITION]) - _weight(extra)
        if _weight(extra) > max(1.0, _MORE * rest):
            return f"more is said: {' '.join(t.surface for t in extra)}"
    return ""


def _alone(tokens: Sequence[Token], other: Sequence[Token]) -> set[int]:
    """Ids of the tokens that the other text does not say anywhere: a word that only moved is for `_order`."""
    left = Counter(t.key for t in other)
    alone = set()
    for token in tokens:
        left[token.key] -= 1
        if left[token.key] < 0:
            alone.add(id(token))
    return alone


def _matters(token: Token) -> bool:
    return token.kind is not Kind.SELF and token.key not in _SLIGHT


def _generic(left: Sequence[Token], right: Sequence[Token]) -> bool:
    """A person for a man, a child for a boy."""
    return all(t.kind is Kind.KIN for t in (*left, *right)) and any(t.key in _GENERIC for t in (*left, *right))


def _weight(tokens: Sequence[Token]) -> float:
    """How much is said: a Chinese character is about half a word."""
    return sum(0.5 if len(t.surface) == 1 and CJK.match(t.surface) else 1.0 for t in tokens)


def _words(phrase: Phrase) -> list[Token]:
    return [t for t in phrase.core if t.kind in (*_ORDERED, Kind.SELF)]
