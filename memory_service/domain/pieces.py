"""How a message is cut into the pieces that get a vector each. For the index only: a message is stored and shown whole.

A model's vector of a long text is of its beginning, and of many things at once; a piece is about as long as what people
say in one go. Pure.
"""

from collections.abc import Iterator
from typing import Final

import regex

PIECE_CHARS: Final = 700
"""Longest piece in narrow characters; a wide (CJK) one counts two. About 170 tokens, well within any model's limit."""
MAX_PIECES: Final = 64
"""Pieces of one message; what is beyond them is found by keyword only."""

_WIDE: Final = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\u3000-\u303F\uFF00-\uFFEF]")
_ENDS: Final = (
    regex.compile(r"\n\s*\n\s*"),  # paragraphs first, then lines, sentences, clauses, words
    regex.compile(r"\n\s*"),
    regex.compile(r"[。！？!?…]+[”’」』）)\"']*\s*|(?<=[\p{L}\p{N})\"'])\.\s+"),
    regex.compile(r"[，,；;：、]\s*"),
    regex.compile(r"\s+"),
)
_SAYS: Final = regex.compile(r"[\p{L}\p{N}]")


def pieces(text: str) -> list[tuple[int, int]]:
    """Where the pieces of a text begin and end, in order, none over another; only blanks and scraps are in none."""
    found: list[tuple[int, int]] = []
    for begin, end in _cut(text, 0, len(text), 0):
        part = text[begin:end]
        if not _SAYS.search(part):
            continue
        first = begin + len(part) - len(part.lstrip())
        found.append((first, first + len(part.strip())))
        if len(found) == MAX_PIECES:
            break
    return found


def _size(text: str) -> int:
    return len(text) + len(_WIDE.findall(text))


def _cut(text: str, begin: int, end: int, level: int) -> Iterator[tuple[int, int]]:
    """Greedily filled pieces of a span: the parts between the ends of this level, each cut further where it is long."""
    if _size(text[begin:end]) <= PIECE_CHARS:
        yield begin, end
        return
    if level == len(_ENDS):
        # One word without an end: as many characters as surely fit.
        step = PIECE_CHARS // 2
        yield from ((at, min(at + step, end)) for at in range(begin, end, step))
        return
    cuts = [match.end() for match in _ENDS[level].finditer(text, begin, end)]
    start, size = begin, 0
    at = begin
    for cut in [*(cut for cut in cuts if cut < end), end]:
        part = _size(text[at:cut])
        if size and size + part > PIECE_CHARS:
            yield start, at
            start, size = at, 0
        if part > PIECE_CHARS:
            yield from _cut(text, at, cut, level + 1)
            start, size = cut, 0
        else:
            size += part
        at = cut
    if size:
        yield start, end
