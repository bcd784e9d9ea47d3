"""Dates as people and models write them, resolved against the time of a turn in the zone of its speaker.

Owns ISO dates and the common relative words of Chinese and English. Refuses to guess: what it does not know has no
date, and a memory without one is no worse off.
"""

from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

import regex

from memory_service.domain.model import Micros

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_YEAR, _LAST_YEAR = 1900, 2200
_DAYS: Final = {
    "大前天": -3,
    "前天": -2,
    "昨天": -1,
    "昨日": -1,
    "昨晚": -1,
    "今天": 0,
    "今日": 0,
    "今晚": 0,
    "今早": 0,
    "刚才": 0,
    "刚刚": 0,
    "明天": 1,
    "明日": 1,
    "明晚": 1,
    "后天": 2,
    "大后天": 3,
    "day before yesterday": -2,
    "yesterday": -1,
    "last night": -1,
    "today": 0,
    "tonight": 0,
    "this morning": 0,
    "just now": 0,
    "tomorrow": 1,
    "day after tomorrow": 2,
}
_DAYS_OF_WEEK: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS_OF_YEAR: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_WEEKDAYS: Final = {
    name: n for n, names in enumerate(("一", "二", "三", "四", "五", "六", "日天")) for name in names
} | {name: n for n, day in enumerate(_DAYS_OF_WEEK) for name in (day, day[:3])}
_MONTHS: Final = {name: n for n, month in enumerate(_MONTHS_OF_YEAR, 1) for name in (month, month[:3])}
_NUMBERS: Final = {"一": 1, "两": 2, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9, "十": 10}
_WORDS: Final = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
_DAY_NAMES: Final = "|".join(sorted((name for name in _WEEKDAYS if name.isascii()), key=len, reverse=True))
_MONTH_NAMES: Final = "|".join(sorted(_MONTHS, key=len, reverse=True))

_ISO: Final = regex.compile(
    r"(?P<y>\d{4})[-/.年](?P<m>\d{1,2})(?:[-/.月](?P<d>\d{1,2})日?)?"
    r"(?:[T ](?P<time>\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)\s*(?P<zone>Z|[+-]\d{2}:?\d{2})?)?"
)
_YEAR: Final = regex.compile(r"(?P<y>\d{4})年?")
_MONTH_DAY: Final = regex.compile(r"(?:(?P<year>去年|今年|明年)的?)?(?P<m>\d{1,2})月(?:(?P<d>\d{1,2})[日号])?")
_EN_DATE: Final = regex.compile(
    rf"(?:on )?(?:(?P<m>{_MONTH_NAMES})\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?"
    rf"|(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m2>{_MONTH_NAMES})\.?)(?:,? (?P<y>\d{{4}}))?",
    regex.I,
)
_ZH_WEEK: Final = regex.compile(r"(?P<which>上上|上|这|本|下下|下)?个?(?:周|星期|礼拜)(?P<day>[一二三四五六日天])")
_EN_WEEK: Final = regex.compile(rf"(?:on )?(?P<which>last|this|next|past|coming)? ?(?P<day>{_DAY_NAMES})", regex.I)
_AGO: Final = regex.compile(
    r"(?P<n>\d{1,4}|[一两二三四五六七八九十])个?(?P<unit>天|日|周|星期|礼拜|月|年)(?P<way>之?[前后])"
    r"|(?P<n2>\d{1,4}|an?|one|two|three|four|five|six|seven) (?P<unit2>day|week|month|year)s? (?P<way2>ago|later)"
    r"|in (?P<n3>\d{1,4}|an?|one|two|three|four|five|six|seven) (?P<unit3>day|week|month|year)s?",
    regex.I,
)
_SPAN: Final = regex.compile(
    r"(?P<which>上|这|本|下)个?(?P<unit>周|星期|礼拜|月)|(?P<year>去年|今年|明年)"
    r"|(?P<which2>last|this|next) (?P<unit2>week|month|year)",
    regex.I,
)
_MENTION: Final = regex.compile(
    r"\d{4}[-/.年]\d|\d{1,2}月|\d{1,2}[日号]|(?:周|星期|礼拜)[一二三四五六日天]"
    r"|[今昨明前后](?:天|日|晚|早|年)|刚才|刚刚|[上这本下]个?(?:周|星期|礼拜|月)|去年|[天周月年]之?[前后]|\d{4}年"
    rf"|\b(?:{_MONTH_NAMES})\b|\b(?:{_DAY_NAMES})\b|\b(?:today|tonight|yesterday|tomorrow|ago|just now|this morning"
    r"|last night|(?:last|this|next) (?:week|month|year)|(?:19|20)\d\d)\b"
    r"|\bin \w+ (?:day|week|month|year)s?\b",
    regex.I,
)


def mentions_time(text: str) -> bool:
    """Whether a text names a day or a period at all."""
    return _MENTION.search(text) is not None


def resolve(text: str, said_at: Micros, zone: tzinfo) -> Micros | None:
    """The instant that a date stands for: its own time of day where it has one, else midnight in the zone; of a period
    its first day. None = not understood, or outside of the years 1900 to 2200.
    """
    wanted = " ".join(text.strip().strip("。.").lower().split())
    if not wanted:
        return None
    try:
        said = (_EPOCH + timedelta(microseconds=said_at)).astimezone(zone)
        for read in _READERS:
            found = read(wanted, said)
            if found is not None:
                return _micros(found)
    except (ValueError, OverflowError):
        return None  # the 31st of a month that has 30, a year beyond the calendar
    return None


def day_of(at: Micros, zone: tzinfo) -> date:
    """The day an instant falls on in a zone."""
    return (_EPOCH + timedelta(microseconds=at)).astimezone(zone).date()


def _micros(moment: datetime) -> Micros | None:
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _midnight(day: date, said: datetime) -> datetime:
    return datetime.combine(day, time(), said.tzinfo)


def _iso(text: str, said: datetime) -> datetime | None:
    match = _ISO.fullmatch(text.upper())
    if match is None:
        year = _YEAR.fullmatch(text)
        return _midnight(date(int(year["y"]), 1, 1), said) if year else None
    day = date(int(match["y"]), int(match["m"]), int(match["d"] or 1))
    if match["time"] is None:
        return _midnight(day, said)
    clock = match["time"] if len(match["time"].split(":")[0]) == 2 else f"0{match['time']}"
    moment = datetime.combine(day, time.fromisoformat(clock))
    if match["zone"] is None:
        return moment.replace(tzinfo=said.tzinfo)
    offset = "+00:00" if match["zone"] == "Z" else match["zone"]
    return datetime.fromisoformat(f"{moment.isoformat()}{offset}")


def _named_day(text: str, said: datetime) -> datetime | None:
    days = _DAYS.get(text.removeprefix("the "))
    return None if days is None else _midnight(said.date() + timedelta(days=days), said)


def _month_day(text: str, said: datetime) -> datetime | None:
    match = _MONTH_DAY.fullmatch(text)
    if match is not None:
        year = said.year + {"去年": -1, "明年": 1}.get(match["year"] or "", 0)
        return _midnight(date(year, int(match["m"]), int(match["d"] or 1)), said)
    match = _EN_DATE.fullmatch(text)
    if match is None:
        return None
    month = _MONTHS[(match["m"] or match["m2"]).lower()]
    return _midnight(date(int(match["y"] or said.year), month, int(match["d"] or match["d2"])), said)


def _weekday(text: str, said: datetime) -> datetime | None:
    match = _ZH_WEEK.fullmatch(text) or _EN_WEEK.fullmatch(text)
    if match is None:
        return None
    day, which = _WEEKDAYS[match["day"].lower()], (match["which"] or "").lower()
    monday = said.date() - timedelta(days=said.weekday())
    weeks = {"上上": -2, "上": -1, "下": 1, "下下": 2}
    if which in ("last", "past"):
        back = (said.weekday() - day) % 7 or 7  # the one before today, as the word is mostly meant
        return _midnight(said.date() - timedelta(days=back), said)
    if which in ("next", "coming"):
        ahead = (day - said.weekday()) % 7 or 7
        return _midnight(said.date() + timedelta(days=ahead), said)
    return _midnight(monday + timedelta(days=day, weeks=weeks.get(which, 0)), said)


def _ago(text: str, said: datetime) -> datetime | None:
    match = _AGO.fullmatch(text)
    if match is None:
        return None
    raw = match["n"] or match["n2"] or match["n3"]
    n = int(raw) if raw.isdecimal() else _NUMBERS.get(raw) or _WORDS[raw]
    unit = (match["unit"] or match["unit2"] or match["unit3"]).lower()
    way = -1 if (match["way"] or match["way2"] or "").endswith(("前", "ago")) else 1
    return _midnight(_moved(said.date(), way * n, unit), said)


def _moved(day: date, n: int, unit: str) -> date:
    if unit in ("天", "日", "day"):
        return day + timedelta(days=n)
    if unit in ("周", "星期", "礼拜", "week"):
        return day + timedelta(weeks=n)
    months = n if unit in ("月", "month") else 12 * n
    year, month = divmod(12 * day.year + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _span(text: str, said: datetime) -> datetime | None:
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    if match["year"]:
        return _midnight(date(said.year + {"去年": -1, "今年": 0, "明年": 1}[match["year"]], 1, 1), said)
    which = (match["which"] or match["which2"]).lower()
    n = {"上": -1, "last": -1, "下": 1, "next": 1}.get(which, 0)
    unit = (match["unit"] or match["unit2"]).lower()
    if unit in ("周", "星期", "礼拜", "week"):
        return _midnight(said.date() - timedelta(days=said.weekday()) + timedelta(weeks=n), said)
    if unit == "year":
        return _midnight(date(said.year + n, 1, 1), said)
    return _midnight(_moved(said.date().replace(day=1), n, "month"), said)


_READERS: Final[tuple[Callable[[str, datetime], datetime | None], ...]] = (
    _iso,
    _named_day,
    _month_day,
    _weekday,
    _ago,
    _span,
)
