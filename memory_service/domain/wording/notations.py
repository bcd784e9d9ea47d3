"""Numbers, versions, dates and times of day in Chinese and English, found at a place of a text.

Owns their notations: units, clocks, calendars, versions (`numerals` knows what a numeral is worth). `read` takes a text
in the form of `text.normalise`, lower-cased. Refuses to say what a number is for; `phrasing` and `state` do that.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from memory_service.domain.wording.numerals import HAN, ORDINALS, SCALES, WORD_NUMBER, value_of
from memory_service.domain.wording.units import CURRENCY_SIGNS, MEASURE_WORD, UNIT, UNITS


class Quantity(Enum):
    """What sort of value a notation stands for."""

    NUMBER = 1
    ORDINAL = 2
    CODE = 3
    DATE = 4
    CLOCK = 5


@dataclass(frozen=True, slots=True)
class Found:
    """One value, up to `end`: `key` is equal for equal values. `soft`: a "one" that is little more than an article."""

    end: int
    sort: Quantity
    key: str
    unit: str = ""
    soft: bool = False


_MONTH_NAMES: Final = (
    "jan january|feb february|mar march|apr april|may|jun june|jul july|aug august|sep sept september|oct october|"
    "nov november|dec december"
)
_MONTHS: Final = {name: n + 1 for n, names in enumerate(_MONTH_NAMES.split("|")) for name in names.split()}
_DAY_STEMS: Final = ("mon", "tues", "wednes", "thurs", "fri", "satur", "sun")
_RELATIVE: Final = {"今天": "today", "昨天": "yesterday", "昨日": "yesterday", "明天": "tomorrow", "去年": "last year"}
_DAY_PARTS: Final = {
    **dict.fromkeys(("早上", "早晨", "清晨", "上午"), "morning"),
    **dict.fromkeys(("傍晚", "晚上", "晚间"), "evening"),
    "中午": "noon",
    "下午": "afternoon",
    "夜里": "night",
}
_PARTS: Final = "凌晨|清晨|早上|早晨|上午|中午|下午|傍晚|晚上|夜里|半夜|晚间"
_AFTERNOON: Final = frozenset(("下午", "傍晚", "晚上", "夜里", "晚间", "pm"))
_NUM: Final = rf"(?:\d+|[{HAN}]+)"
_MONTH: Final = f"(?:{'|'.join(sorted(_MONTHS, key=len, reverse=True))})"
_SAFE_MONTH: Final = f"(?:{'|'.join(name for name in _MONTHS if len(name) > 3 and name not in ('march', 'sept'))})"
_AFTER: Final = r"(?:in|on|of|last|next|since|until|every|by) (?:early |late |mid-)?"
_YEAR: Final = r"(?: (\d{4})(?!\d))?"
_NTH: Final = r"(?:st|nd|rd|th)?"
_CN_RELATIVE: Final = (
    "大前天|前天|昨天|昨日|昨晚|今天|今晚|明天|明晚|大后天|后天|[上下]个?(?:周|星期|月)|"
    "去年|明年|前年|今年|本月|本周|这周|这个月"
)
_EN_RELATIVE: Final = (
    r"(?:the )?day (?:before yesterday|after tomorrow)|yesterday|tomorrow|tonight|today|weekends?(?![a-z])|"
    r"(?:last|next|this) (?:week|month|year|weekend|night|spring|summer|autumn|fall|winter)|"
    r"\w+ (?:days|weeks|months|years) ago"
)
_SCALE: Final = r"万|亿|[km](?![a-z0-9])|(?:hundred|thousand|million|billion)(?![a-z])"
_OCLOCK: Final = "(?=[起睡出到吃开下上前后去进之])"


def read(text: str, at: int) -> Found | None:
    """The value that is written at this place, or None. Latin words are read only from their first letter."""
    if not _STARTS.match(text, at):
        return None
    before = text[at - 1] if at else ""
    if (before.isascii() and before.isalnum()) or (before == "." and at > 1 and text[at - 2].isdigit()):
        return None
    for scanner, reader in _NOTATIONS:
        match = scanner.match(text, at)
        if match and (found := reader(match)) is not None:
            return found
    return None


def _key(value: float) -> str:
    return f"{round(value, 6):.10g}"


def _date(match: re.Match[str], year: str | None, month: str | int | None, day: str | None) -> Found:
    parts = [p if isinstance(p, int) else (int(value_of(p) or 0) if p else 0) for p in (year, month, day)]
    return Found(match.end(), Quantity.DATE, "-".join(str(p) if p else "?" for p in parts))


def _full_date(match: re.Match[str]) -> Found:
    return _date(match, match[1], match[2], match[3])


def _cn_month(match: re.Match[str]) -> Found | None:
    return _date(match, None, match[1], match[2]) if 1 <= (value_of(match[1]) or 0) <= 12 else None


def _cn_day(match: re.Match[str]) -> Found:
    return _date(match, None, None, match[1])


def _month_day(match: re.Match[str]) -> Found:
    return _date(match, match[3], _MONTHS[match[1]], match[2])


def _day_month(match: re.Match[str]) -> Found:
    return _date(match, match[3], _MONTHS[match[2]], match[1])


def _month(match: re.Match[str]) -> Found:
    return _date(match, match[2], _MONTHS[match[1]], None)


def _year(match: re.Match[str]) -> Found:
    return _date(match, match[1], None, None)


def _cn_week(match: re.Match[str]) -> Found:
    number = {"末": "weekend", "天": "7", "日": "7"}.get(match[2]) or _key(value_of(match[2]) or 0)
    which = {None: "", "这": "this ", "本": "this ", "上": "last ", "下": "next "}.get(match[1], f"{match[1]} ")
    return Found(match.end(), Quantity.DATE, f"{which}weekday {number}")


def _en_week(match: re.Match[str]) -> Found:
    which = f"{match[1]} " if match[1] else ""
    return Found(match.end(), Quantity.DATE, f"{which}weekday {_DAY_STEMS.index(match[2]) + 1}")


def _relative(match: re.Match[str]) -> Found:
    key = "weekday weekend" if match[0].startswith("weekend") else _RELATIVE.get(match[0], match[0].replace("个", ""))
    return Found(match.end(), Quantity.DATE, key)


def _clock(end: int, hour: str, minute: str | None, part: str | None, half: str | None = None) -> Found | None:
    value = value_of(hour)
    if value is None or value > 24:
        return None
    part = (part or "").replace(".", "")
    if value < 12 and part in _AFTERNOON:
        value += 12
    elif value == 12 and part in ("am", "凌晨", "半夜"):
        value = 0
    minutes = 30.0 if half else (value_of(minute) or 0.0 if minute else 0.0)
    return Found(end, Quantity.CLOCK, f"{int(value):02d}:{int(minutes):02d}")


def _day_part(match: re.Match[str]) -> Found:
    word = match[0].removeprefix("in the ")
    return Found(match.end(), Quantity.CLOCK, _DAY_PARTS.get(word, word.removesuffix("s")))


def _ordinal(match: re.Match[str]) -> Found:
    number = ORDINALS[match[3]] if match[3] else value_of(match[1] or match[2])
    return Found(match.end(), Quantity.ORDINAL, f"#{_key(float(number or 0))}")


def _code(match: re.Match[str]) -> Found:
    return Found(match.end(), Quantity.CODE, match[0].removeprefix("v"))


def _number(end: int, text: str, scale: str | None, vague: str | None, unit: str | None) -> Found | None:
    value = value_of(text)
    if value is None:
        return None
    name, factor = UNITS.get(unit or "", ("", 1.0))
    value *= SCALES.get(scale or "", 1.0)
    digits = text.isascii() and text.isdigit()
    if digits and len(text) >= 5 and not unit and not scale:
        return Found(end, Quantity.CODE, text)
    counted = bool(unit) and not name
    soft = value == 1 and not scale and not digits and not name
    key = f"{_key(value * factor)}{'+' if vague else ''} {name}".strip()
    return Found(end, Quantity.NUMBER, key, name or ("count" if counted else ""), soft)


def _money(match: re.Match[str]) -> Found | None:
    found = _number(match.end(), match[2], match[3], None, None)
    unit = CURRENCY_SIGNS[match[1]]
    key = found.key if found is not None else match[2]
    return Found(match.end(), Quantity.NUMBER, f"{key} {unit}", unit)


def _twice(match: re.Match[str]) -> Found:
    return Found(match.end(), Quantity.NUMBER, "1 times" if match[1] == "once" else "2 times", "times")


_Reader = Callable[[re.Match[str]], Found | None]
_TABLE: Final[list[tuple[str, _Reader]]] = [
    (r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?![\d-])", _full_date),
    (
        rf"((?:19|20)\d{{2}}|[〇零一二三四五六七八九]{{4}})\s?年"
        rf"(?:\s?({_NUM})\s?月(?:份)?(?:\s?({_NUM})\s?[日号])?)?",
        _full_date,
    ),
    (rf"({_NUM})\s?月(?:份)?(?:\s?({_NUM})\s?[日号])?", _cn_month),
    (r"(\d{1,2})\s?[日号](?![楼线店院门])", _cn_day),
    (r"(上上|下下|上|下|这|本)?个?(?:周|星期|礼拜)([一二三四五六日天末])", _cn_week),
    (_CN_RELATIVE, _relative),
    (rf"({_MONTH})\.? (\d{{1,2}}){_NTH}(?![\d:])(?:,? (\d{{4}})(?!\d))?", _month_day),
    (rf"(\d{{1,2}}){_NTH} (?:of )?({_MONTH})(?![a-z])(?:,? (\d{{4}})(?!\d))?", _day_month),
    (rf"{_AFTER}({_SAFE_MONTH}|march|may)(?![a-z])(?! \d{{1,2}}(?!\d)){_YEAR}", _month),
    (rf"({_SAFE_MONTH})(?![a-z]){_YEAR}", _month),
    (r"(?:in|since|until|of|by|from|during) ((?:19|20)\d{2})(?![\d.,]\d|\d)", _year),
    (rf"(?:(last|next|this) )?({'|'.join(_DAY_STEMS)})days?(?![a-z])", _en_week),
    (_EN_RELATIVE, _relative),
    (
        rf"({_PARTS})\s?({_NUM})\s?[点时](?!候)(?:(半)|钟|整|\s?({_NUM})\s?分?)?",
        lambda m: _clock(m.end(), m[2], m[4], m[1], m[3]),
    ),
    (
        rf"(\d{{1,2}}|[一二两三四五六七八九十]{{1,3}})点(?:(半)|钟|整|({_NUM})分|{_OCLOCK})",
        lambda m: _clock(m.end(), m[1], m[3], None, m[2]),
    ),
    (
        rf"({_PARTS})?\s?(\d{{1,2}}):(\d{{2}})(?::\d{{2}})?\s?(am|pm|a\.m\.|p\.m\.)?(?![a-z\d])",
        lambda m: _clock(m.end(), m[2], m[3], m[4] or m[1]),
    ),
    (r"(\d{1,2})\s?(am|pm|a\.m\.|p\.m\.|o'clock)(?![a-z])", lambda m: _clock(m.end(), m[1], None, m[2])),
    (rf"{_PARTS}|(?:in the )?(?:morning|afternoon|evening|midnight|noon)s?(?![a-z])", _day_part),
    (rf"第\s?({_NUM})|(\d+)(?:st|nd|rd|th)(?![a-z])|({'|'.join(ORDINALS)})(?![a-z])", _ordinal),
    (r"v\d+(?:\.\d+)*(?![a-z0-9])|\d+(?:\.\d+){2,}(?![a-z0-9])", _code),
    (rf"(us\$|[$¥￥€£])\s?(\d[\d,]*(?:\.\d+)?)\s?({_SCALE})?", _money),
    (r"\d+/\d+|\d+-\d+/\d+", _code),
    (
        rf"(\d+(?:,\d{{3}})*(?:\.\d+)?)\s?({_SCALE})?\s?(多|几|余)?\s?({UNIT}|{MEASURE_WORD})?",
        lambda m: _number(m.end(), m[1], m[2], m[3], m[4]),
    ),
    (rf"([{HAN}]+)(多|几|余)?\s?({UNIT}|{MEASURE_WORD})", lambda m: _number(m.end(), m[1], None, m[2], m[3])),
    (rf"[{HAN}]{{2,}}", lambda m: _number(m.end(), m[0], None, None, None)),
    (rf"({WORD_NUMBER})(?:[ -]({UNIT}))?", lambda m: _number(m.end(), m[1], None, None, m[2])),
    (r"(once|twice)(?= a| per| every)", _twice),
]
_NOTATIONS: Final = [(re.compile(pattern), reader) for pattern, reader in _TABLE]
_STARTS: Final = re.compile(rf"[\d{HAN}$¥￥€£第上下这本个周星礼大前昨今明后去凌清早中傍晚夜半]|[a-z]")
