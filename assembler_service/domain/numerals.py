"""Numbers of a text in one spelling: digits, without separators, multiplied out.

Owns 三十五台 = 35台, 2万 = 2w = 20,000 = twenty thousand, 百分之五十 = 50%, 15:00 = 15, 8.0 = 8. Refuses to convert
units or to compute. Expects NFKC text in lower case.
"""

import re
from decimal import Decimal
from typing import Final

_SEPARATOR: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_FULL_HOUR: Final = re.compile(r"(?<![\d:])(\d{1,2}):00(?!\d)")
_POINT_ZERO: Final = re.compile(r"(?<![\d.])(\d+)\.0+(?![\d.])")
_SCALES: Final = {
    **{"百": 100, "千": 1_000, "万": 10_000, "百万": 1_000_000, "千万": 10_000_000, "亿": 100_000_000},
    **{"k": 1_000, "w": 10_000, "hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000},
}
_SCALED: Final = re.compile(
    r"(?<![\d.])(\d{1,15}(?:\.\d{1,15})?)(?:([kw])(?![a-z0-9])|\s*(百万|千万|[百千万亿])|\s*(hundred|thousand|million|billion)\b)"
)
_COUNTING: Final = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_WORDS: Final = {word: number for number, word in enumerate(_COUNTING.split(), start=1)} | {
    word: 10 * tens
    for tens, word in enumerate(("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 2)
}
_WORD: Final = "|".join(sorted({*_WORDS, "hundred", "thousand", "million", "billion"}, key=len, reverse=True))
_PHRASE: Final = re.compile(rf"\b(?:{_WORD})(?:(?:[\s-]+|\s+and\s+)(?:{_WORD}))*\b")

NUMERAL_ZH: Final = "零〇一二三四五六七八九十百千万亿两"
_CLEAR_ZH: Final = re.compile(
    rf"(百分之)([{NUMERAL_ZH}]{{1,16}})|(?<![周期拜])([{NUMERAL_ZH}]{{1,16}})(?=[个名位台次条天年月日号点岁周块元件只份人张套本家楼层倍成分秒时種种])"
)
_CALENDAR: Final = frozenset("月日号点")
_NO_NUMBER_ZH: Final = frozenset(("一", "十", "百", "千", "万", "千万", "万一"))
"""Numerals that are mostly parts of other words, unless a word of calendar or clock follows: 一个, 十分, 万一."""
_DIGITS_ZH: Final = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_UNITS_ZH: Final = {"十": 10, "百": 100, "千": 1_000}


def in_digits(text: str) -> str:
    """The text with its numbers in digits: those that are surely numbers."""
    text = _SEPARATOR.sub("", text)
    text = _CLEAR_ZH.sub(lambda found: _clear_zh(found, text), text)
    text = _SCALED.sub(lambda found: _scaled(found[1], _SCALES[found[2] or found[3] or found[4]]), text)
    text = _PHRASE.sub(lambda found: _phrase(found[0]), text)
    return _POINT_ZERO.sub(r"\1", _FULL_HOUR.sub(r"\1", text))


def value_zh(sign: str) -> str:
    """A Chinese numeral in digits: 一百二十 = 120, 二〇二六 = 2026."""
    if all(one in _DIGITS_ZH for one in sign):
        return "".join(str(_DIGITS_ZH[one]) for one in sign).lstrip("0") or "0"
    total = section = digit = 0
    for one in sign:
        if one in _DIGITS_ZH:
            digit = _DIGITS_ZH[one]
        elif one in _UNITS_ZH:
            section += (digit or 1) * _UNITS_ZH[one]
            digit = 0
        else:
            total = (total + section + digit) * (10_000 if one == "万" else 100_000_000)
            section = digit = 0
    return str(total + section + digit)


def _clear_zh(found: re.Match[str], text: str) -> str:
    if found[1]:
        return f"{value_zh(found[2])}%"
    sign = found[3]
    if sign in _NO_NUMBER_ZH and text[found.end()] not in _CALENDAR:
        return sign
    return value_zh(sign)


def _scaled(number: str, scale: int) -> str:
    product = Decimal(number) * scale
    return str(int(product)) if product == int(product) else f"{product:f}"


def _phrase(words: str) -> str:
    """English number words as numbers; "one" alone stays, it is a pronoun more often than not."""
    if words == "one":
        return words
    numbers: list[int] = []
    total = current = 0
    for word in re.split(r"[\s-]+", words):
        if word == "and":
            continue
        scale = _SCALES.get(word)
        if scale == 100:
            current = (current or 1) * 100
        elif scale:
            total, current = total + (current or 1) * scale, 0
        else:
            value = _WORDS[word]
            room = 100 if current % 100 == 0 else 10 if current % 10 == 0 and current % 100 >= 20 else 0
            if value >= room and (total or current):  # "two three" are two numbers
                numbers.append(total + current)
                total = current = 0
            current += value
    numbers.append(total + current)
    return " ".join(map(str, numbers))
