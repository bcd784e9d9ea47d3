"""Numbers, dates, identifiers and quoted names of a text, and which of them another text does not hold.

Owns what "invented" means for a summary. Strict on purpose: a summary that is refused costs only a truncation, one that
is wrong is believed. Refuses to understand: "three", 三 and 3 are one number, a dozen is not twelve.
"""

import re
import unicodedata
from typing import Final

_NUMBER: Final = re.compile(r"\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)*")
_MONTH_NAMES: Final = (
    "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|september sept sep|october oct"
    "|november nov|december dec"
)
_MONTHS: Final = {
    name: number for number, names in enumerate(_MONTH_NAMES.split("|"), start=1) for name in names.split()
}
_MONTH: Final = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATES: Final = (
    re.compile(r"(?P<y>\d{4})[-/.年](?P<m>\d{1,2})[-/.月](?P<d>\d{1,2})(?!\d)"),
    re.compile(r"(?<!\d)(?P<m>\d{1,2})月(?P<d>\d{1,2})[日号]?(?!\d)"),
    re.compile(rf"\b(?P<mn>{_MONTH})\.?\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<y>\d{{4}}))?"),
    re.compile(rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<mn>{_MONTH})\b\.?(?:,?\s+(?P<y>\d{{4}}))?"),
)
_WEEKDAY: Final = re.compile(r"(?:周|星期|礼拜)([一二三四五六日天])")
_WEEKDAY_EN: Final = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b")
_MONTH_NAME: Final = re.compile(
    rf"\b(?:{'|'.join(sorted((name for name in _MONTHS if len(name) > 3), key=len, reverse=True))})\b"
)
_COUNTING: Final = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen"
    " nineteen twenty"
)
_WORDS_EN: Final = {word: number for number, word in enumerate(_COUNTING.split(), start=2)} | {
    word: 10 * tens for tens, word in enumerate(("thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 3)
}
_WORD_EN: Final = re.compile(rf"\b(?:{'|'.join(sorted(_WORDS_EN, key=len, reverse=True))})\b")
_NUMERAL_ZH: Final = re.compile(
    r"[零〇一二三四五六七八九十百千万亿两]+(?=[个名位台次条天年月日号点岁周块元件只份人张套本家楼层倍成分秒时種种])"
)
_NO_NUMBER_ZH: Final = frozenset(("一", "十", "百", "千", "万", "千万", "万一"))
"""Numerals that are mostly used as parts of other words: 一些 is kept out by its unit, 一个, 万一 and 千万 are not."""
_DIGITS_ZH: Final = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_UNITS_ZH: Final = {"十": 10, "百": 100, "千": 1000}
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@#+-]*")
_QUOTED: Final = re.compile(
    r"“([^”\n]{1,80})”|「([^」\n]{1,80})」|『([^』\n]{1,80})』|《([^》\n]{1,80})》|\"([^\"\n]{1,80})\"|`([^`\n]{1,80})`"
)


def unsupported(text: str, evidence: str) -> list[str]:
    """What `text` states that `evidence` does not hold: dates, numbers, identifiers, quoted names, in that order."""
    ours, theirs = _folded(text), _folded(evidence)
    missing = _missing_dates(ours, theirs)
    known = _numbers(theirs)
    missing += sorted(number for number in _numbers(ours) - known)
    missing += [name for name in _identifiers(_compatible(text)) if name.lower() not in theirs]
    squeezed = "".join(theirs.split())
    for found in _QUOTED.finditer(ours):
        name = next(part for part in found.groups() if part is not None)
        if "".join(name.split()).strip(".,;:!?。，；：！？") not in squeezed:
            missing.append(name)
    return missing


def _compatible(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _folded(text: str) -> str:
    return _compatible(text).lower()


def _missing_dates(ours: str, theirs: str) -> list[str]:
    known = _dates(theirs)
    days = {date[1:] for date in known}
    missing = [
        "-".join(map(str, date))
        for date in sorted(_dates(ours))
        if date not in known and (date[1:] not in days or (date[0] and any(k[0] and k[1:] == date[1:] for k in known)))
    ]
    for pattern in (_WEEKDAY, _WEEKDAY_EN, _MONTH_NAME):
        held = {found[found.re.groups] for found in pattern.finditer(theirs)}
        named = {found[found.re.groups] for found in pattern.finditer(ours)} - held
        if pattern is _MONTH_NAME:  # "October" for 2026-10-15
            named = {name for name in named if _MONTHS[name] not in {day[0] for day in days}}
        missing += sorted(named - ({"日", "天"} if held & {"日", "天"} else set()))
    return missing


def _dates(text: str) -> set[tuple[int, int, int]]:
    """(year or 0, month, day) of every date that is written as one."""
    found: set[tuple[int, int, int]] = set()
    for pattern in _DATES:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            month = _MONTHS[parts["mn"]] if parts.get("mn") else int(parts["m"])
            day = int(parts["d"])
            if 1 <= month <= 12 and 1 <= day <= 31:
                found.add((int(parts.get("y") or 0), month, day))
    return found


def _numbers(text: str) -> set[str]:
    """Every number in one form: no thousands separators, no leading zeros, words and Chinese numerals as digits."""
    numbers = {_plain(found) for found in _NUMBER.findall(text)}
    numbers |= {str(_WORDS_EN[word]) for word in _WORD_EN.findall(text)}
    numbers |= {_value_zh(sign) for sign in _NUMERAL_ZH.findall(text) if sign not in _NO_NUMBER_ZH}
    return numbers


def _plain(number: str) -> str:
    return ".".join(part.lstrip("0") or "0" for part in number.replace(",", "").split("."))


def _value_zh(sign: str) -> str:
    """A Chinese numeral in digits; what is no well-formed one stays as it is."""
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


def _identifiers(text: str) -> list[str]:
    """Words that are names of things: with a digit among letters, an inner sign, capitals inside, or all capitals."""
    found = []
    for word in _IDENTIFIER.findall(text):
        name = word.rstrip("./:@#+-_")
        letters = any(sign.isalpha() for sign in name)
        inner = any(sign in "_./:@#" for sign in name)
        capitals = any(sign.isupper() for sign in name[1:])
        if letters and len(name) > 1 and (inner or capitals or any(sign.isdigit() for sign in name)):
            found.append(name)
    return found
