"""Texts that say what another one already says, word for word or nearly.

Owns the comparison within one block of one prompt: equal after normalisation, or at least 0.8 of the candidate's
shingles in one text that is kept already (Broder 1997, containment). A CJK character is a unit of a shingle and so is
any other word, which makes it work where words are not parted by blanks. Refuses to compare meanings.
"""

import re
from collections import Counter
from typing import Final

from assembler_service.domain.text import comparable

CONTAINMENT: Final = 0.8
_WIDTH: Final = 3
"""Units of a shingle."""
_UNIT: Final = re.compile(
    r"[\u2e80-\u303f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]|[^\W_]+"
)
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_NEGATION: Final = re.compile(r"[不没無无非未别勿]|\b(?:not?|never|none|neither|without)\b|n['’]t\b", re.IGNORECASE)


class Kept:
    """The texts of a block that are kept so far. A text is asked about before it is added.

    `guarded`: statements, which differ by a number, a date or a "not" and by nothing else; those are never the same.
    """

    def __init__(self, *, guarded: bool) -> None:
        self._guarded = guarded
        self._whole: set[str] = set()
        self._texts: list[str] = []
        self._by_shingle: dict[tuple[str, ...], list[int]] = {}

    def says(self, text: str) -> bool:
        """True where a kept text says what `text` says."""
        plain = comparable(text)
        if plain in self._whole:
            return True
        shingles = _shingles(plain)
        if not shingles or not self._by_shingle:
            return False
        shared: Counter[int] = Counter()
        for shingle in shingles:
            shared.update(self._by_shingle.get(shingle, ()))
        needed = CONTAINMENT * len(shingles)
        return any(count >= needed and self._may_be(plain, self._texts[which]) for which, count in shared.items())

    def add(self, text: str) -> None:
        """Keeps a text."""
        plain = comparable(text)
        self._whole.add(plain)
        which = len(self._texts)
        self._texts.append(plain)
        for shingle in _shingles(plain):
            self._by_shingle.setdefault(shingle, []).append(which)

    def _may_be(self, plain: str, other: str) -> bool:
        if not self._guarded:
            return True
        same_numbers = Counter(_NUMBER.findall(plain)) <= Counter(_NUMBER.findall(other))
        return same_numbers and len(_NEGATION.findall(plain)) == len(_NEGATION.findall(other))


def _shingles(plain: str) -> set[tuple[str, ...]]:
    """Every run of three units; a shorter text is one shingle by itself, and one without any unit has none."""
    units = _UNIT.findall(plain)
    if len(units) < _WIDTH:
        return {tuple(units)} if units else set()
    return set(zip(units, units[1:], units[2:], strict=False))
