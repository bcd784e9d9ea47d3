"""How well an answer cites the sources of its prompt.

Owns the measure: the share of an answer's sentences that carry at least one valid `[n]`. A mark right after a full stop
belongs to the sentence before it. Code is no sentence. Refuses to judge whether a cited source supports the sentence.
"""

import re
from dataclasses import dataclass
from typing import Final

import regex

_CODE: Final = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`", re.DOTALL)
_HEADING: Final = re.compile(r"^[^\S\n]*+(?:#{1,6}\s.*|[-*_=|:\t\r ]++$|$)", re.MULTILINE)
_NUMBERS: Final = r"\s*\^?\d{1,9}(?:\s*[,，、;；\-–—~～]\s*\^?\d{1,9})*\s*"
_MARK: Final = re.compile(rf"(?<!\\)[\[［【]({_NUMBERS})[\]］】]")
_NO_END: Final = (
    r"(?<![.!?])(?<!^[^\S\n]*\d{1,2})(?<!\b(?:e\.g|i\.e|etc|vs|cf|mr|mrs|ms|dr|st|fig|approx))(?<!\bno(?=\.\s?\d))"
)
"""Before a full stop that ends no sentence: the number of a list, an abbreviation. Nor does one begin within a run."""
_STOP: Final = r"[.!?]++(?=[\s\"'”’)\]*\[［【]|$)|[。！？]++|(?<!…)…++(?=[\s\"'”’」』）)\[［【]|$)"
"""A semicolon parts a sentence, Chinese or English, and an ellipsis within a line may: only what follows tells."""
_MARKS: Final = rf"(?:[^\S\n]?[\[［【]{_NUMBERS}[\]］】])"
_AFTER: Final = rf"[\"'”’」』）)*]*+{_MARKS}*+(?:\s*+{_MARKS}++(?=[^\S\n]*+(?:\n|\Z)))?"
"""Marks after a stop, or alone on a line after it, are that sentence's; before words, the next one's."""
_END: Final = regex.compile(
    rf"(?:{_NO_END}(?:{_STOP}){_AFTER}|\n++(?:{_MARKS}++(?=[^\S\n]*+(?:\n|\Z)))?)", regex.MULTILINE | regex.IGNORECASE
)
_LETTER: Final = regex.compile(r"[\p{L}\p{N}]")
_RANGE_MAX: Final = 50
"""A range of more numbers is taken as its two ends: nobody cites fifty sources at once."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """`coverage` is 0 to 1; None where there were no sources or no sentences. Numbers are sorted and unique."""

    coverage: float | None
    sentences: int
    cited_sentences: int
    cited: tuple[int, ...]
    invalid: tuple[int, ...]


def citation_coverage(answer: str, citation_count: int) -> Coverage:
    """Measures an answer to a prompt whose sources had the numbers 1 to `citation_count`."""
    plain = _HEADING.sub("", _CODE.sub(" ", answer))
    sentences = cited_sentences = 0
    seen: set[int] = set()
    for sentence in _sentences(plain):
        numbers = {n for mark in _MARK.finditer(sentence) for n in _expand(mark[1])}
        seen |= numbers
        if not _LETTER.search(_MARK.sub("", sentence)):
            continue
        sentences += 1
        cited_sentences += any(1 <= n <= citation_count for n in numbers)
    return Coverage(
        coverage=cited_sentences / sentences if sentences and citation_count > 0 else None,
        sentences=sentences,
        cited_sentences=cited_sentences,
        cited=tuple(sorted(n for n in seen if 1 <= n <= citation_count)),
        invalid=tuple(sorted(n for n in seen if not 1 <= n <= citation_count)),
    )


def _sentences(text: str) -> list[str]:
    parts: list[str] = []
    start = 0
    for found in _END.finditer(text):
        parts.append(text[start : found.end()])
        start = found.end()
    return [*parts, text[start:]]


def _expand(numbers: str) -> list[int]:
    """`1, 3-5` as 1, 3, 4, 5."""
    found: list[int] = []
    joined = False
    for part in re.findall(r"\d+|[\-–—~～]|[,，、;；]", numbers):
        if part.isdigit():
            n = int(part)
            if joined and found and found[-1] < n <= found[-1] + _RANGE_MAX:
                found += range(found[-1] + 1, n)
            found.append(n)
        joined = part in "-–—~～"
    return found
