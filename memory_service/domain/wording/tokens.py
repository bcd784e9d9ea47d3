"""The pieces that statements are compared by.

Owns their kinds: what sort of thing a word or a value says decides how two texts are compared in it. No logic.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

CJK: Final = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
"""One Chinese character."""


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
