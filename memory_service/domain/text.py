"""What is done to text before anything else: one canonical form, what may not be in it at all, and a cheap size.

Owns the form that two texts are compared in (memory.md §1) and the characters that no text may hold. Refuses to judge
what a text says (`cleaning` looks at its form, the decision table at its meaning) and never changes what is stored:
the record keeps a text as it came.
"""

import unicodedata
from typing import Final

import regex

_FULL_WIDTH: Final = {
    full: full - 0xFEE0
    for first, last in ((0xFF10, 0xFF19), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A))
    for full in range(first, last + 1)
}
"""Full-width digits and Latin letters to their usual form. Nothing else of NFKC: it would make 5² equal 52."""

_FORBIDDEN: Final = regex.compile(r"[[\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]--[\t\n\r]]", regex.V1)
_WIDE: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}"
_TOKENISH: Final = regex.compile(
    rf"[{_WIDE}]|[\p{{L}}\p{{M}}--[{_WIDE}]]+|\p{{N}}{{1,3}}|[^\s\p{{L}}\p{{M}}\p{{N}}]", regex.V1
)
_LONG_WORD: Final = 8
"""Letters of a word that usually make one or two tokens; a longer run of letters is split further by any tokenizer."""


def normalise(text: str) -> str:
    """The form in which two texts are the same text: full-width letters and digits folded, NFC, trimmed, every run of
    white space one blank. Case and punctuation stay. `normalise(normalise(t)) == normalise(t)`.
    """
    return " ".join(unicodedata.normalize("NFC", text.translate(_FULL_WIDTH)).split())


def text_problem(text: str) -> str | None:
    """Why a text cannot be taken, as a sentence that names the first bad character; None = it can.

    Bad are NUL and every other control character but tab, line feed and carriage return, lone surrogates (they have no
    UTF-8) and code points that are no characters (U+FFFE, U+FDD0 ...).
    """
    found = _FORBIDDEN.search(text)
    if found is None:
        return None
    code = ord(found[0])
    if code == 0:
        kind = "NUL"
    elif unicodedata.category(found[0]) == "Cc":
        kind = "a control character"
    elif unicodedata.category(found[0]) == "Cs":
        kind = "a lone surrogate"
    else:
        kind = "not a character"
    return f"Character {found.start() + 1} is U+{code:04X} ({kind}), which is not allowed."


def estimate_tokens(text: str) -> int:
    """About how many tokens a model makes of a text, never below 0 and within a third for prose; no vocabulary needed.

    A CJK character counts 1, a word of up to eight letters 1.3 and a longer one in proportion, up to three digits or a
    sign 1. (o200k: 0.73 a Chinese character, cl100k 1.09, measured; English prose about 1.3 a word.)
    """
    total = 0.0
    for match in _TOKENISH.finditer(text):
        letters = match.end() - match.start()
        total += 1.3 * max(1.0, letters / _LONG_WORD) if letters > 1 and match[0][0].isalpha() else 1.0
    return round(total)
