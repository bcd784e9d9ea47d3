"""Whether two texts are in the same language, without a model: by script, and among Latin scripts by function words.

Owns a guess that is right where it matters: a summary of a Chinese conversation in English, or the other way round, or
in a third language, is not taken for the same. Where a text is too short to tell, it is given the benefit of the doubt.
"""

from collections.abc import Iterable
from typing import Final

import regex

_SCRIPTS: Final = ("Han", "Latin", "Cyrillic", "Arabic", "Hangul", "Devanagari", "Thai", "Hebrew", "Greek")
_FIND: Final = {name: regex.compile(rf"\p{{{name}}}") for name in _SCRIPTS}
_KANA: Final = regex.compile(r"[\p{Hiragana}\p{Katakana}]")
_LATIN_WORD: Final = regex.compile(r"\p{Latin}+")
_WORDS: Final = {
    "en": "the of and to in is that it for was with on as are be by this have from or not they no if at will",
    "es": "el los las que y en un una por con para se del es al como más pero su lo no",
    "pt": "o os as que e em um uma por com para se do da no na é ao mais mas não dos",
    "fr": "le les des et en un une que pour dans est sur avec du au pas il qui ce sont",
    "de": "der die und das in den von zu mit ist des auf für nicht ein eine dem im es sich",
    "it": "il gli di che e un una per con non sono del della è da nel al più ma",
}
_FUNCTION_WORDS: Final = {name: frozenset(listed.split()) for name, listed in _WORDS.items()}
_SAMPLE: Final = 20_000
_FEW_WORDS: Final = 8
"""Words below which Latin languages are not told apart."""
_FEW_HAN: Final = 4
_MIXED: Final = 4
"""A Han character says as much as four Latin letters, roughly; product names are Latin in any language."""


def same_language(summary: str, conversation: str) -> bool:
    """True where both are in one language, or where it cannot be told."""
    ours, theirs = _script(summary), _script(conversation)
    if ours is None or theirs is None:
        return True
    if ours != theirs:
        return False
    if ours != "Latin":
        return True
    one, other = _latin(summary), _latin(conversation)
    if not one or not other or not any(other.values()):
        return True
    spoken = max(other, key=lambda name: other[name])
    # Notes have few function words, and names of places look like another language's.
    return max(one.values()) < 2 * one[spoken] + 2


def speaks_han(texts: Iterable[str]) -> bool:
    """True where most of the texts have a few Han characters and no kana: a Chinese speaker's messages, whatever logs
    and code they carry along. Who writes in Latin letters has no use for Han.
    """
    votes = [
        len(_FIND["Han"].findall(text[:_SAMPLE])) >= _FEW_HAN and not _KANA.search(text[:_SAMPLE])
        for text in texts
        if text.strip()
    ]
    return 2 * sum(votes) > len(votes)


def is_han(text: str) -> bool:
    """True for a text in Chinese, by script."""
    return _script(text) == "Han"


def _script(text: str) -> str | None:
    """The script most of a text is written in; Japanese is told from Chinese by its kana. None = no letters."""
    sample = text[:_SAMPLE]
    counts = {name: len(find.findall(sample)) for name, find in _FIND.items()}
    counts["Han"] *= _MIXED
    kana = len(_KANA.findall(sample))
    if kana * 10 > counts["Han"] // _MIXED and kana * _MIXED > counts["Latin"]:
        return "Kana"
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else None


def _latin(text: str) -> dict[str, int] | None:
    """How many function words of each language a text has; None = too few words to tell."""
    found = [word.lower() for word in _LATIN_WORD.findall(text[:_SAMPLE])]
    if len(found) < _FEW_WORDS:
        return None
    return {name: sum(word in known for word in found) for name, known in _FUNCTION_WORDS.items()}
