"""A statement as a list of tokens for comparison word by word.

Owns what becomes of the tokens of `lexing`: negation is worked into the word it bears on, words that add nothing are
dropped, and turns of phrase that move words without moving meaning (passive voice, "which is ...") are undone. Also
tells events from standing states. Refuses to compare (`values`, `state`). Reading is a heuristic over closed word
lists; it never fails, and where it understands too little the comparison finds "uncertain".
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from memory_service.domain.wording import lexicon_en as en
from memory_service.domain.wording import lexicon_zh as zh
from memory_service.domain.wording.lexing import scan
from memory_service.domain.wording.stemming import PARTICIPLES
from memory_service.domain.wording.tokens import CJK, Kind, Token
from memory_service.domain.wording.wordlists import words

_BE: Final = words("is are am was were be been being")


@dataclass(frozen=True, slots=True, eq=False)
class Phrase:
    """A text, read. `tokens` lacks function words and negations (worked into their tokens); `core` lacks breaks and
    copulas too. `event`: it tells of something that happened or will happen once, not of a standing state.

    Compared by identity, so that what a comparison works out of one phrase can be remembered by it: a draft is held
    against hundreds of memories while their owner's head is locked.
    """

    tokens: tuple[Token, ...]
    core: tuple[Token, ...]
    event: bool


@lru_cache(maxsize=4096)
def read_phrase(text: str) -> Phrase:
    """Reads a statement. Remembers the last few thousand texts, so that a user's own memories are read once."""
    raw = scan(text)
    tokens, moved = _folded(raw), _folded(_moved(raw))
    core = tuple(token for token in moved if token.kind not in (Kind.BREAK, Kind.COPULA))
    return Phrase(tuple(tokens), core, _tells_event(raw))


def _tells_event(raw: list[Token]) -> bool:
    habit = any(t.kind is Kind.AMOUNT for t in raw)
    for at, token in enumerate(raw):
        before = raw[at - 1] if at else None
        if token.kind is Kind.DATE and not _standing_date(raw, at, habit):
            return True
        word = token.surface.lower()
        if word in zh.EVENT_MARKS or (token.kind is not Kind.NAME and word in en.PAST_FORMS):
            return True
        if word == "了" and at + 1 < len(raw) and raw[at + 1].kind is not Kind.BREAK and not _resulting(before):
            return True
        if word == "过" and before is not None and CJK.match(before.surface):
            return True
        if _past(word, token, before):
            return True
    return False


def _standing_date(raw: list[Token], at: int, habit: bool) -> bool:
    following = raw[at + 1] if at + 1 < len(raw) else None
    if raw[at].key in ("今年", "this year") and following is not None and following.unit == "age":
        return True
    return raw[at].key.startswith("weekday") and (habit or raw[at].surface.lower().endswith("s"))


def _resulting(before: Token | None) -> bool:
    return (
        before is None
        or before.kind is Kind.POLE
        or before.surface in ("养", "有", "住", "生", "装", "带", "设", "定", "为", "除", "戒", "换成", "改成", "养有")
    )


def _past(word: str, token: Token, before: Token | None) -> bool:
    if not (len(word) > 4 and word.endswith("ed") and word.isascii()) or token.kind in (Kind.NAME, Kind.POLE):
        return False
    linked = before is not None and before.surface.lower() in _BE | {"'s", "'re", "'m", "a", "the", "an", "being"}
    return word not in en.ED_ADJECTIVES and not linked


def _moved(raw: list[Token]) -> list[Token]:
    return _active_voice(_adjectives_first(raw))


def _adjectives_first(raw: list[Token]) -> list[Token]:
    """ "a dog, which is small," -> "a small dog"."""
    for at, token in enumerate(raw):
        if (
            token.surface.lower() not in ("which", "that", "who")
            or at + 2 >= len(raw)
            or raw[at + 1].surface.lower() not in _BE
        ):
            continue
        end = at + 2
        while end < len(raw) and end < at + 6 and raw[end].kind is not Kind.BREAK:
            end += 1
        noun = at - 1 if at and raw[at - 1].kind is not Kind.BREAK else at - 2
        if noun >= 0 and (end == len(raw) or raw[end].kind is Kind.BREAK):
            return [*raw[:noun], *raw[at + 2 : end], raw[noun], *raw[end:]]
    return raw


def _active_voice(raw: list[Token]) -> list[Token]:
    """ "the door is opened by Anna slowly" -> "Anna opened the door slowly"; the first passive of the text only."""
    for be, token in enumerate(raw):
        if token.surface.lower() not in _BE:
            continue
        verb = _participle(raw, be + 1)
        if verb is None:
            continue
        first = next((i for i in range(be, -1, -1) if raw[i].kind is Kind.BREAK), -1) + 1
        by = next(
            (i for i in range(verb + 1, len(raw)) if raw[i].surface.lower() == "by" or raw[i].kind is Kind.BREAK), None
        )
        if by is None or raw[by].kind is Kind.BREAK:
            return [*raw[:first], raw[verb], *raw[first:be], *raw[verb + 1 :]]
        end = by + 1
        while end < len(raw) and raw[end].kind not in (Kind.BREAK, Kind.PREPOSITION, Kind.QUALITY):
            end += 1
        return [
            *raw[:first],
            *raw[by + 1 : end],
            *raw[be + 1 : verb + 1],
            *raw[first:be],
            *raw[verb + 1 : by],
            *raw[end:],
        ]
    return raw


def _participle(raw: list[Token], at: int) -> int | None:
    """Where the participle of a passive stands, from the place after its *be*; None if there is none."""
    while at < len(raw) and (raw[at].surface.lower() in _BE or raw[at].kind in (Kind.MANNER, Kind.NEGATION)):
        at += 1
    if at == len(raw) or raw[at].kind not in (Kind.WORD, Kind.POLE, Kind.QUALITY):
        return None
    word = raw[at].surface.lower()
    passive = (word.endswith("ed") and word not in _STATES) or word in PARTICIPLES
    return at if passive else None


_STATES: Final = words(
    "married retired divorced engaged named called located based interested tired scared worried supposed"
)


def _folded(raw: list[Token]) -> list[Token]:
    tokens: list[Token] = []
    pending = False
    for at, token in enumerate(raw):
        if token.kind is Kind.NEGATION or (token.surface.lower() in en.NEGATING_VERBS and _ing(raw, at + 1)):
            last = tokens[-1] if tokens else None
            if (
                token.key in ("no", "none", "nothing", "nobody")
                and last is not None
                and last.kind in (Kind.WORD, Kind.POLE)
            ):
                tokens[-1] = _negate(last)
            else:
                pending = not pending
                if token.key == "without":
                    tokens.append(Token(Kind.PREPOSITION, "with", token.surface))
        elif token.kind is Kind.FUNCTION or (token.key in ("今年", "this year") and _age(raw, at + 1)):
            continue
        elif pending and token.kind not in (Kind.SELF, Kind.BREAK, Kind.COPULA, Kind.PREPOSITION, Kind.AMOUNT):
            tokens.append(_negate(token))
            pending = False
        else:
            tokens.append(token)
    if (
        pending
        and (at := next((i for i in range(len(tokens) - 1, -1, -1) if tokens[i].kind is not Kind.BREAK), -1)) >= 0
    ):
        tokens[at] = _negate(tokens[at])
    return tokens


def _ing(raw: list[Token], at: int) -> bool:
    return at < len(raw) and raw[at].surface.lower().endswith("ing")


def _age(raw: list[Token], at: int) -> bool:
    return at < len(raw) and raw[at].unit == "age"


def _negate(token: Token) -> Token:
    return replace(token, negated=not token.negated, sign=-token.sign)
