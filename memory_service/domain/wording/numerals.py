"""Number words and numerals in Chinese and English, as numbers.

Owns what a numeral is worth: 三十二, 一万五, 两, twenty-one, two hundred, 1,200. Where one begins and what its unit is,
`notations` finds.
"""

import re
from typing import Final

HAN: Final = "零〇一二两三四五六七八九十百千万亿"
"""The signs of Chinese numerals."""
_DIGITS: Final = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_STEPS: Final = {"十": 10, "百": 100, "千": 1000}
_SHORT_TAIL: Final = {"百": "十", "千": "百", "万": "千", "亿": "千万"}
_SMALL: Final = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen
""".split()  # noqa: SIM905
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_WORDS: Final = {word: n for n, word in enumerate(_SMALL)} | {word: 20 + 10 * n for n, word in enumerate(_TENS)}
_LARGE: Final = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
SCALES: Final = {"万": 1e4, "亿": 1e8, "k": 1e3, "m": 1e6} | {word: float(n) for word, n in _LARGE.items()}
"""What may stand after digits and multiplies them."""
_NTH: Final = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
ORDINALS: Final = {word: n + 1 for n, word in enumerate(_NTH.split())}
_ANY_WORD: Final = f"(?:{'|'.join(sorted([*_WORDS, *_LARGE], key=len, reverse=True))})"
WORD_NUMBER: Final = rf"{_ANY_WORD}(?:[ -](?:and )?{_ANY_WORD}(?![a-z]))*(?![a-z])"
"""Pattern of a number in English words."""


def value_of(text: str) -> float | None:
    """The number that a Chinese numeral, Arabic digits or English number words spell; None if they spell none."""
    text = text.replace(",", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if text and all(sign in HAN for sign in text):
        return _han(text)
    return _english(re.split(r"[ -]+", text))


def _han(text: str) -> float:
    if len(text) > 1 and all(sign in _DIGITS for sign in text):
        return float("".join(str(_DIGITS[sign]) for sign in text))
    if len(text) > 2 and text[-1] in _DIGITS and text[-2] in _SHORT_TAIL:
        text += _SHORT_TAIL[text[-2]]  # 一万五 is 15,000, 三百五 is 350
    total = section = digit = 0
    for sign in text:
        if sign in _DIGITS:
            digit = _DIGITS[sign]
        elif sign in _STEPS:
            section += (digit or 1) * _STEPS[sign]
            digit = 0
        else:
            total = (total + section + digit or 1) * int(SCALES[sign])
            section = digit = 0
    return float(total + section + digit)


def _english(parts: list[str]) -> float | None:
    total = current = 0
    for part in parts:
        if part in _WORDS:
            current += _WORDS[part]
        elif part == "hundred":
            current = (current or 1) * 100
        elif part in _LARGE:
            total += (current or 1) * _LARGE[part]
            current = 0
        elif part != "and":
            return None
    return float(total + current)
