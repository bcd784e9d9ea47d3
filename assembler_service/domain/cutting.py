"""Cutting a text so that it fits: at a sentence, else at a word, else between two characters as people see them.

Owns where a cut may fall. Refuses to know tokens: the caller measures a candidate as it will stand in the prompt, with
heading and marker, so that what was measured is what is sent.
"""

from collections.abc import Callable, Sequence
from typing import Final

import regex

_SENTENCE: Final = regex.compile(
    r"""(?:[.!?]+["'”’)\]]*(?=\s|$)|[。！？；…]+["'”’」』）】》]*|\n)(?![\p{M}\u200d\ufe0e\ufe0f\U000E0020-\U000E007F])"""
)
_WORD: Final = regex.compile(r"(?<=\S)(?=\s)|(?<=[，、：,;:])(?![\p{M}\u200d\ufe0e\ufe0f])|(?<=\p{Han})(?=\p{Han})")
_CLUSTER: Final = regex.compile(r"\X")
_LONG_SENTENCE: Final = 400
"""A sentence of more characters may be cut at a word within it, too: tables, lists and texts without punctuation."""
_STRIDE: Final = 100
_CHARS_PER_TOKEN: Final = 8
"""More than prose has (English 4.5, Chinese 1.4): how much of a long text is looked at first."""

Measure = Callable[[str], int]


def cut_head(text: str, limit: int, measure: Measure, least: int = 1) -> str | None:
    """The longest beginning of `text`, ended at a boundary, with `measure(beginning) <= limit`; None = none fits.

    A sentence is preferred wherever one leaves a measure of at least `least`; then a word, then a character cluster.
    A larger limit never gives a shorter text. The result is never empty.
    """
    text = _within_reach(text, limit, measure)
    for points in (_sentence_points, _word_points, _cluster_points):
        pieces = points(text)
        best = _last_fitting(pieces, lambda end: measure(text[:end].rstrip()), limit)
        piece = "" if best is None else text[:best].rstrip()
        if piece and measure(piece) >= least:
            return piece
    return None


def cut_tail(text: str, limit: int, measure: Measure) -> str | None:
    """The longest end of `text`, begun at a boundary, with `measure(end) <= limit`; None = none fits."""
    text = _within_reach_of_end(text, limit, measure)
    for points in (_sentence_points, _word_points, _cluster_points):
        starts = points(text)[::-1]
        best = _last_fitting(starts, lambda start: measure(text[start:].strip()), limit)
        piece = "" if best is None else text[best:].strip()
        if piece:
            return piece
    return None


def _within_reach(text: str, limit: int, measure: Measure) -> str:
    """A beginning of a long text that certainly holds the cut, so that not all of it is measured again and again."""
    reach = max(256, limit * _CHARS_PER_TOKEN)
    while reach < len(text) and measure(text[:reach]) <= limit:
        reach *= 2
    return text[: reach + 1]


def _within_reach_of_end(text: str, limit: int, measure: Measure) -> str:
    """The same for the end; it begins after a blank where there is one, so that it begins with a whole character."""
    reach = max(256, limit * _CHARS_PER_TOKEN)
    while reach < len(text) and measure(text[-reach:]) <= limit:
        reach *= 2
    if reach >= len(text):
        return text
    blank = regex.search(r"\s", text, pos=len(text) - reach)
    return text[blank.start() :] if blank else text[-reach:]


def _last_fitting(points: Sequence[int], measure: Callable[[int], int], limit: int) -> int | None:
    """The last of `points` (of growing measure) whose measure is within the limit."""
    low, high = 0, len(points)
    while low < high:
        middle = (low + high) // 2
        if measure(points[middle]) <= limit:
            low = middle + 1
        else:
            high = middle
    while low and measure(points[low - 1]) > limit:  # counts of prefixes are not strictly monotonic: step down
        low -= 1
    return points[low - 1] if low else None


def _sentence_points(text: str) -> list[int]:
    """Ends of sentences and lines, and within long ones every hundred characters a word's end."""
    points: list[int] = []
    start = 0
    ends = [found.end() for found in _SENTENCE.finditer(text) if found.end() < len(text)]
    for end in [*ends, len(text)]:
        if end - start > _LONG_SENTENCE:
            last = start
            for found in _WORD.finditer(text, start, end):
                if found.end() - last >= _STRIDE:
                    points.append(last := found.end())
        if end < len(text):
            points.append(end)
        start = end
    return points


def _word_points(text: str) -> list[int]:
    return [found.end() for found in _WORD.finditer(text) if 0 < found.end() < len(text)]


def _cluster_points(text: str) -> list[int]:
    return [found.end() for found in _CLUSTER.finditer(text) if found.end() < len(text)]
