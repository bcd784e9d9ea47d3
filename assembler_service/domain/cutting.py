"""Cutting a text so that it fits: at a sentence, else at a word, else between two characters as people see them.

Owns where a cut may fall. Refuses to know tokens: the caller measures a candidate as it will stand in the prompt, with
heading and marker, so that what was measured is what is sent.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

import regex

_SENTENCE: Final = regex.compile(
    r"""(?:(?<![.!?])[.!?]++["'”’)\]]*+(?=\s|$)|(?<![。！？；…])[。！？；…]++["'”’」』）】》]*+|\n)(?![\p{M}\u200d\ufe0e\ufe0f\U000E0020-\U000E007F])"""
)
_WORD: Final = regex.compile(r"(?<=\S)(?=\s)|(?<=[，、：,;:])(?![\p{M}\u200d\ufe0e\ufe0f])|(?<=\p{Han})(?=\p{Han})")
_CLUSTER: Final = regex.compile(r"\X")
_LONG_SENTENCE: Final = 400
"""A sentence of more characters may be cut at a word within it, too: tables, lists and texts without punctuation."""
_STRIDE: Final = 100
_BYTES_PER_TOKEN: Final = 8
"""More than prose has (4 to 5 in English and Chinese): how much of a long text is looked at first."""

Measure = Callable[[str], int]


def cut_head(text: str, limit: int, measure: Measure, least: int = 1) -> str | None:
    """The longest beginning of `text`, ended at a boundary, with `measure(beginning) <= limit`; None = none fits.

    A sentence is preferred wherever one leaves a measure of at least `least`; then a word, then a character cluster.
    A larger limit never gives a shorter text. The result is never empty.
    """
    if limit < least:
        return None
    reach, over = _reach(text, limit, lambda length: measure(text[:length]))
    near = text[: reach + 1]
    for points in (_sentence_points, _word_points, _cluster_points):
        best = _longest(points(near), lambda length: measure(text[:length].rstrip()), limit, (reach, over))
        piece = text[:best].rstrip()
        if piece and measure(piece) >= least:
            return piece
    return None


def cut_tail(text: str, limit: int, measure: Measure) -> str | None:
    """The longest end of `text`, begun at a boundary, with `measure(end) <= limit`; None = none fits."""
    if limit < 1:
        return None
    whole = len(text)
    reach, over = _reach(text, limit, lambda length: measure(text[whole - length :]))
    blank = regex.search(r"\s", text, pos=whole - reach)  # begin with a whole character where that can be told
    start = blank.start() if blank and reach < whole else whole - reach
    for points in (_sentence_points, _word_points, _cluster_points):
        lengths = [whole - start - point for point in reversed(points(text[start:]))]
        best = _longest(lengths, lambda length: measure(text[whole - length :].strip()), limit, (reach, over))
        piece = text[whole - best :].strip()
        if piece:
            return piece
    return None


def _reach(text: str, limit: int, measure: Callable[[int], int]) -> tuple[int, int]:
    """A length of a long text that certainly holds the cut, so that not all of it is looked at, and its measure."""
    sample = text[: limit * _BYTES_PER_TOKEN + 1]
    width = len(sample.encode("utf-8", "surrogatepass")) / max(1, len(sample))
    reach = min(len(text), max(256, int(limit * _BYTES_PER_TOKEN / width)))
    while (over := measure(reach)) <= limit and reach < len(text):
        reach = min(len(text), reach * 2)
    return reach, over


def _longest(lengths: Sequence[int], measure: Callable[[int], int], limit: int, over: tuple[int, int]) -> int:
    """The last of `lengths`, which grow, whose measure is within the limit; 0 = none.

    Tokens grow nearly in proportion to characters, so the next guess is where the limit lies on the line through the
    nearest lengths measured so far (every second one halves): three guesses are enough where halving alone needs ten.
    `over`: a length and its measure, which is over the limit.
    """
    low, high = 0, len(lengths)  # lengths[:low] fit, lengths[high:] do not
    fits = (0, 0)
    straight = True
    while low < high:
        guess = (low + high) // 2
        if straight:
            rate = (over[0] - fits[0]) / max(1, over[1] - fits[1])
            aim = fits[0] + int((limit - fits[1]) * rate)
            guess = min(high - 1, max(low, bisect_right(lengths, aim, low, high) - 1))
        straight = not straight
        at = (lengths[guess], measure(lengths[guess]))
        if at[1] <= limit:
            low, fits = guess + 1, at
        else:
            high, over = guess, at
    while low and measure(lengths[low - 1]) > limit:  # measures of beginnings are not strictly monotonic: step down
        low -= 1
    return lengths[low - 1] if low else 0


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
