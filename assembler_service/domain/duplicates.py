"""Texts that say what another one already says, word for word or nearly.

Owns the comparison within one block of one prompt: equal after normalisation, or at least 0.8 of the candidate's
shingles in one text that is kept already (Broder 1997, containment). A CJK character is a unit of a shingle and so is
any other word, which makes it work where words are not parted by blanks. Refuses to compare meanings.
"""

import re
from typing import Final, TypeAlias

from assembler_service.domain.text import comparable

CONTAINMENT: Final = 0.8
_WIDTH: Final = 3
"""Units of a shingle."""
_UNIT: Final = re.compile(
    r"[\u2e80-\u303f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]|[^\W_]+"
)
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*|[零〇一二三四五六七八九十百千万亿两]+")
_NEGATION: Final = re.compile(r"[不没無无非未别勿]|\b(?:not?|never|none|neither|without)\b|n['’]t\b", re.IGNORECASE)


Shingles: TypeAlias = frozenset[tuple[str, ...]]


class Kept:
    """The texts of a block that are kept so far.

    A text with a number that the other one lacks is never its duplicate: near copies differ in versions and dates.
    `statements`: short texts, where a "not" is such a difference, too.
    """

    def __init__(self, *, statements: bool) -> None:
        self._statements = statements
        self._texts: dict[str, Shingles] = {}
        self._all: set[tuple[str, ...]] = set()

    def says(self, text: str) -> bool:
        """True where a kept text says what `text` says; otherwise `text` is kept from now on."""
        plain = comparable(text)
        if plain in self._texts:
            return True
        shingles = _shingles(plain)
        needed = CONTAINMENT * len(shingles)
        if shingles and len(shingles & self._all) >= needed:  # of all together, which is fast; else no single one can
            for other, theirs in self._texts.items():
                if len(shingles & theirs) >= needed and self._may_be(plain, other):
                    return True
        self._texts[plain] = shingles
        self._all |= shingles
        return False

    def _may_be(self, plain: str, other: str) -> bool:
        if not set(_NUMBER.findall(plain)) <= set(_NUMBER.findall(other)):
            return False
        return not self._statements or len(_NEGATION.findall(plain)) == len(_NEGATION.findall(other))


def _shingles(plain: str) -> Shingles:
    """Every run of three units; a shorter text is one shingle by itself, and one without any unit has none."""
    units = _UNIT.findall(plain)
    if len(units) < _WIDTH:
        return frozenset({tuple(units)} if units else ())
    return frozenset(zip(units, units[1:], units[2:], strict=False))
