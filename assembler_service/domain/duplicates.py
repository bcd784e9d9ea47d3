"""Texts that say what another one already says, word for word or nearly.

Owns the comparison within one block of one prompt: equal after normalisation, or at least 0.8 of the candidate's
shingles in one text that is kept already (Broder 1997, containment). A CJK character is a unit of a shingle and so is
any other word, which makes it work where words are not parted by blanks. Refuses to compare meanings.
"""

import math
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from assembler_service.domain.text import comparable

CONTAINMENT: Final = 0.8
_WIDTH: Final = 3
"""Units of a shingle."""
_UNIT: Final = re.compile(
    r"[\u2e80-\u303f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]|[^\W_]+"
)
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*|[零〇一二三四五六七八九十百千万亿两]+")
_NEGATION: Final = re.compile(
    r"[不没無无非未别勿]|\b(?:not?|cannot|never|none|neither|without)\b|n['’]t\b", re.IGNORECASE
)


Shingles: TypeAlias = frozenset[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Text:
    """What of a text is compared."""

    shingles: Shingles
    numbers: frozenset[str]
    negations: int


class Kept:
    """The texts of a block that are kept so far.

    A text with a number that the other one lacks is never its duplicate: near copies differ in versions and dates.
    `statements`: short texts, where a "not" is such a difference, too.
    """

    def __init__(self, *, statements: bool) -> None:
        self._statements = statements
        self._plain: set[str] = set()
        self._texts: list[_Text] = []
        self._holders: dict[tuple[str, ...], list[int]] = {}
        """Which texts hold a shingle."""

    def says(self, text: str) -> bool:
        """True where a kept text says what `text` says; otherwise `text` is kept from now on."""
        plain = comparable(text)
        if plain in self._plain:
            return True
        shingles = _shingles(plain)
        this = _Text(shingles, frozenset(_NUMBER.findall(plain)), len(_NEGATION.findall(plain)))
        needed = math.ceil(CONTAINMENT * len(shingles))
        if any(self._may_be(this, other) and len(shingles & other.shingles) >= needed for other in self._near(this)):
            return True
        for shingle in shingles:
            self._holders.setdefault(shingle, []).append(len(self._texts))
        self._plain.add(plain)
        self._texts.append(this)
        return False

    def _near(self, this: _Text) -> list[_Text]:
        """The kept texts that can hold enough of a text's shingles: those that hold one of the rarest.

        A text that may lack m shingles holds one of any m + 1 (prefix filter, Chaudhuri et al. 2006). Pages of one
        template would all be compared with each other otherwise; what is rarest in them is their own.
        """
        lacking = len(this.shingles) - math.ceil(CONTAINMENT * len(this.shingles))
        held = sorted((self._holders.get(shingle, ()) for shingle in this.shingles), key=len)
        return [self._texts[number] for number in {number for some in held[: lacking + 1] for number in some}]

    def _may_be(self, this: _Text, other: _Text) -> bool:
        return this.numbers <= other.numbers and (not self._statements or this.negations == other.negations)


def _shingles(plain: str) -> Shingles:
    """Every run of three units; a shorter text is one shingle by itself, and one without any unit has none."""
    units = _UNIT.findall(plain)
    if len(units) < _WIDTH:
        return frozenset({tuple(units)} if units else ())
    return frozenset(zip(units, units[1:], units[2:], strict=False))
