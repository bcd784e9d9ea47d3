"""Numbers, dates, identifiers and quoted names of a text, and which of them another text does not hold.

Owns what "invented" means for a summary. Strict with what is stated: a summary that is refused costs only a truncation,
one that is wrong is believed. Generous with the evidence: whatever may be meant by it counts, so that an honest summary
that writes 十月十五号 as 10月15日 or two thousand as 2,000 stands. Refuses to understand: a dozen is not twelve.
"""

import re
import unicodedata
from typing import Final

from assembler_service.domain.numerals import NUMERAL_ZH, in_digits, value_zh

_NUMBER: Final = re.compile(r"\d+(?:\.\d+)*")
_CIRCLED: Final = re.compile("[①-⑳]")
_MARKER: Final = re.compile(r"(?<![^\s;:,。、])\(?(\d{1,2})[).、](?!\d)")
_MONTH_NAMES: Final = (
    "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|september sept sep|october oct"
    "|november nov|december dec"
)
_MONTHS: Final = {
    name: number for number, names in enumerate(_MONTH_NAMES.split("|"), start=1) for name in names.split()
}
_MONTH: Final = "|".join(sorted(_MONTHS, key=len, reverse=True))
_ANY_MONTH: Final = re.compile(rf"\b({_MONTH})\b|(?<!\d)(\d{{1,2}})月")
_MONTH_NAME: Final = re.compile(rf"\b({'|'.join(name for name in _MONTHS if len(name) > 4)}|june|july)\b")
_DATES: Final = (
    re.compile(r"(?P<y>\d{4})\s?[-/.年]\s?(?P<m>\d{1,2})\s?[-/.月]\s?(?P<d>\d{1,2})(?!\d)\s?[日号]?"),
    re.compile(r"(?<!\d)(?P<m>\d{1,2})\s?月\s?(?P<d>\d{1,2})(?!\d)\s?[日号]?"),
    re.compile(rf"\b(?P<mn>{_MONTH})\.?\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<y>\d{{4}})\b)?"),
    re.compile(rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<mn>{_MONTH})\b\.?(?:,?\s+(?P<y>\d{{4}})\b)?"),
)
_MAYBE_DATES: Final = (
    re.compile(r"(?<![\d/.-])(?P<m>\d{1,2})[/.-](?P<d>\d{1,2})(?![\d/.-]?\d)"),
    re.compile(r"(?<![\d/.-])(?P<d>\d{1,2})[/.-](?P<m>\d{1,2})(?![\d/.-]?\d)"),
    re.compile(r"(?<!\d)(?P<m>\d{1,2})月\d{1,2}[日号]?\s?(?:[-~–—至到、和]+)\s?(?P<d>\d{1,2})(?!\d)"),
    re.compile(rf"\b(?P<mn>{_MONTH})\.?\s+\d{{1,2}}(?:st|nd|rd|th)?\s?(?:[-–—,]|to|and|or)+\s?(?P<d>\d{{1,2}})(?!\d)"),
)
_WEEKDAYS_EN: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKDAY: Final = re.compile(
    r"(?:周|星期|礼拜)([一二三四五六日天])|\b(mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(mon|tue|wed|thu|fri|sat|sun)\b"
)
_AFTERNOON: Final = re.compile(r"(?:下午|晚上|今晚|傍晚|午后)\s?(\d{1,2})|(?<![\d:])(\d{1,2})(?::\d\d)?\s?p\.?m\b")
_LATE_HOUR: Final = re.compile(r"(?<![\d:])(1[3-9]|2[0-3])(?=[:点时])")
_HALF: Final = re.compile(r"点半|half past")
_ORDINALS: Final = {"one": 1, "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
_SPLIT_RUN: Final = re.compile(r"(?<!\d)\d+(?:[ -]\d+)+(?!\d)")
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@#+-]*")
_NO_IDENTIFIER: Final = re.compile(
    r"\d+(?:\.\d+)?[kw]|\d+(?:st|nd|rd|th)|\d{1,2}(?:[:.]\d\d)?(?:am|pm)|e\.g|i\.e|a\.m|p\.m|am|pm|ai|ok|tbd|todo|n/a|vs"
)
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_QUOTED: Final = re.compile(
    r"“([^”\n]{1,80})”|「([^」\n]{1,80})」|『([^』\n]{1,80})』|《([^》\n]{1,80})》|\"([^\"\n]{1,80})\"|`([^`\n]{1,80})`"
)
_VERSION_PARTS: Final = 5
_EDGES: Final = ".,;:!?。，；：！？、… "


def unsupported(text: str, evidence: str) -> list[str]:
    """What `text` states that `evidence` does not hold: dates, numbers, identifiers, quoted names, in that order.

    Numbers that count the points of a list, 1, 2, 3 in turn, state nothing.
    """
    said = _without_markers(_compatible(text))
    theirs = _compatible(evidence).lower()
    ours, known = in_digits(said.lower()), in_digits(theirs)
    numbers = _numbers_that_may_be(theirs, known)
    missing, ours = _missing_dates(ours, known, numbers)
    ours = _SPLIT_RUN.sub(lambda run: "" if re.sub(r"\D", "", run[0]) in numbers else run[0], ours)
    missing += sorted({_plain(number) for number in _NUMBER.findall(ours)} - numbers)
    squeezed = "".join(theirs.split())
    missing += [name for name in _identifiers(said) if not _held(name.lower(), theirs, squeezed)]
    for found in _QUOTED.finditer(said.lower()):
        name = next(part for part in found.groups() if part is not None)
        if "".join(name.split()).strip(_EDGES) not in squeezed:
            missing.append(name)
    return missing


def _compatible(text: str) -> str:
    """NFKC; ① as (1), so that it does not run into what follows."""
    return unicodedata.normalize("NFKC", _CIRCLED.sub(lambda sign: f"({unicodedata.normalize('NFKC', sign[0])})", text))


def _without_markers(text: str) -> str:
    """Without the numbers that count points: 1, then 2, and so on."""
    expected = 1

    def one(found: re.Match[str]) -> str:
        nonlocal expected
        number = int(found[1])
        if number not in (1, expected):
            return found[0]
        expected = number + 1
        return " "

    return _MARKER.sub(one, text)


def _missing_dates(ours: str, theirs: str, numbers: set[str]) -> tuple[list[str], str]:
    """Dates, weekdays and months that are not held, and the text without the dates that are."""
    dates = {date for pattern in (*_DATES, *_MAYBE_DATES) for date, _ in _dates(pattern, theirs)}
    days = {date[1:] for date in dates}
    missing = []
    for pattern in _DATES:
        for date, span in sorted(_dates(pattern, ours), key=lambda found: found[1], reverse=True):
            # A date may lose its year, and gain one that is told elsewhere where its own is not told.
            years = {known[0] for known in dates if known[1:] == date[1:]} - {0}
            dated = date[0] == 0 or date in dates or (not years and str(date[0]) in numbers)
            if date[1:] in days and dated:
                ours = f"{ours[: span[0]]} {ours[span[1] :]}"
            elif "-".join(map(str, date)) not in missing:
                missing.append("-".join(map(str, date)))
    missing += sorted(f"weekday {day + 1}" for day in _weekdays(ours) - _weekdays(theirs))
    months = {day[0] for day in days} | {
        _MONTHS[name] if name else int(number) for name, number in _ANY_MONTH.findall(theirs)
    }
    return missing + sorted(name for name in set(_MONTH_NAME.findall(ours)) if _MONTHS[name] not in months), ours


def _dates(pattern: re.Pattern[str], text: str) -> list[tuple[tuple[int, int, int], tuple[int, int]]]:
    """(year or 0, month, day) of what the pattern finds, and where."""
    found = []
    for match in pattern.finditer(text):
        parts = match.groupdict()
        month = _MONTHS[parts["mn"]] if parts.get("mn") else int(parts["m"])
        day = int(parts["d"])
        if 1 <= month <= 12 and 1 <= day <= 31:
            found.append(((int(parts.get("y") or 0), month, day), match.span()))
    return found


def _weekdays(text: str) -> set[int]:
    """Monday is 0."""
    return {
        min("一二三四五六日天".index(zh), 6) if zh else _WEEKDAYS_EN.index((long or short)[:3])
        for zh, long, short in _WEEKDAY.findall(text)
    }


def _numbers_that_may_be(raw: str, digits: str) -> set[str]:
    """Every number a text may be said to hold, in whatever spelling."""
    numbers = {_plain(found) for found in _NUMBER.findall(digits)}
    for number in tuple(numbers):
        parts = number.split(".")
        if 2 < len(parts) <= _VERSION_PARTS:  # of a version 3.11.7 one may say 3.11
            numbers |= {".".join(parts[:end]) for end in range(1, len(parts))}
    for sign in re.findall(rf"[{NUMERAL_ZH}]{{1,16}}", raw):
        numbers.add(value_zh(sign))
        if not set(sign) & set("十百千万亿"):  # 三四天 is three or four days
            numbers.update(map(value_zh, sign))
    numbers |= {str(value) for word, value in _ORDINALS.items() if re.search(rf"\b{word}\b", raw)}
    numbers |= {re.sub(r"\D", "", run) for run in _SPLIT_RUN.findall(raw)}
    numbers |= {str(int(zh or en) + 12) for zh, en in _AFTERNOON.findall(digits)}
    numbers |= {str(int(hour) - 12) for hour in _LATE_HOUR.findall(digits)}
    return numbers | ({"30"} if _HALF.search(raw) else set())


def _plain(number: str) -> str:
    """Without leading zeros."""
    return ".".join(part.lstrip("0") or "0" for part in number.split("."))


def _identifiers(text: str) -> list[str]:
    """Words that are names of things: with a digit among letters, an inner sign, capitals inside, or all capitals."""
    found = []
    for word in _IDENTIFIER.findall(text):
        name = word.rstrip("./:@#+-_")
        letters = any(sign.isalpha() for sign in name)
        inner = any(sign in "_./:@#" for sign in name)
        capitals = any(sign.isupper() for sign in name[1:])
        named = letters and len(name) > 1 and (inner or capitals or any(sign.isdigit() for sign in name))
        if named and not _NO_IDENTIFIER.fullmatch(name.lower()):
            found.append(name)
    return found


def _held(name: str, theirs: str, squeezed: str) -> bool:
    """True where the evidence has this name: blanks aside, and not as the beginning of a longer number."""
    pattern = re.compile(
        (r"(?<!\d)" if name[0].isdigit() else "") + re.escape(name) + (r"(?!\d)" if name[-1].isdigit() else "")
    )
    if pattern.search(theirs) or pattern.search(squeezed):
        return True
    if name.endswith("s") and len(name) > 2 and _held(name[:-1], theirs, squeezed):  # "APIs"
        return True
    parts = name.split("/")
    return 2 <= len(parts) <= 3 and all(_WORD.fullmatch(part) and _held(part, theirs, squeezed) for part in parts)
