"""Numbers, versions, dates and times of day in Chinese and English, found at a place of a text.

Owns their notations: Arabic and Chinese numerals, English number words, units, clocks, calendars. `read` takes the
text folded by `text.normalise` and lower-cased. Refuses to say what a number is for; `phrasing` and `state` do that.
"""

import re
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final


class Quantity(Enum):
    """What sort of value a notation stands for."""

    NUMBER = "number"
    ORDINAL = "ordinal"
    CODE = "code"
    DATE = "date"
    CLOCK = "time"


@dataclass(frozen=True, slots=True)
class Found:
    """One value: `key` is equal for equal values. `soft`: a "one" that is little more than an article."""

    end: int
    sort: Quantity
    key: str
    unit: str = ""
    soft: bool = False


_UNITS: Final = {
    # written -> (canonical unit, factor)
    **dict.fromkeys(("kg", "kgs", "kilo", "kilos", "kilogram", "kilograms", "公斤", "千克"), ("kg", 1.0)),
    **dict.fromkeys(("斤",), ("kg", 0.5)),
    **dict.fromkeys(("g", "gram", "grams", "克"), ("kg", 0.001)),
    **dict.fromkeys(("lb", "lbs", "pound", "pounds", "磅"), ("lb", 1.0)),
    **dict.fromkeys(("km", "kms", "kilometre", "kilometres", "kilometer", "kilometers", "公里", "千米"), ("m", 1000.0)),
    **dict.fromkeys(("m", "metre", "metres", "meter", "meters", "米"), ("m", 1.0)),
    **dict.fromkeys(("cm", "centimetres", "centimeters", "厘米", "公分"), ("m", 0.01)),
    **dict.fromkeys(("mm", "毫米"), ("m", 0.001)),
    **dict.fromkeys(("mile", "miles", "英里"), ("mile", 1.0)),
    **dict.fromkeys(("inch", "inches", "英寸", "寸"), ("inch", 1.0)),
    **dict.fromkeys(("ms", "millisecond", "milliseconds", "毫秒"), ("s", 0.001)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "秒", "秒钟"), ("s", 1.0)),
    **dict.fromkeys(("min", "mins", "minute", "minutes", "分钟"), ("s", 60.0)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "小时", "个小时", "钟头", "个钟头"), ("s", 3600.0)),
    **dict.fromkeys(("day", "days", "天"), ("day", 1.0)),
    **dict.fromkeys(("week", "weeks", "周", "星期", "个星期"), ("week", 1.0)),
    **dict.fromkeys(("month", "months", "个月"), ("month", 1.0)),
    **dict.fromkeys(("years old", "year old", "years of age", "岁", "周岁"), ("age", 1.0)),
    **dict.fromkeys(("year", "years", "年"), ("year", 1.0)),
    **dict.fromkeys(("kb", "mb", "gb", "tb"), ("byte", 1.0)),
    **dict.fromkeys(("%", "percent", "个百分点"), ("%", 1.0)),
    **dict.fromkeys(("dollar", "dollars", "usd", "美元", "美金", "刀"), ("usd", 1.0)),
    **dict.fromkeys(("euro", "euros", "eur", "欧元"), ("eur", 1.0)),
    **dict.fromkeys(("yuan", "rmb", "cny", "元", "块", "块钱", "元钱", "人民币"), ("cny", 1.0)),
    **dict.fromkeys(("pence", "英镑"), ("gbp", 1.0)),
    **dict.fromkeys(("times", "次", "遍", "回", "趟"), ("times", 1.0)),
    **dict.fromkeys(("度", "摄氏度", "°c", "degrees"), ("degree", 1.0)),
}
_BYTES: Final = {"kb": 1.0, "mb": 1e3, "gb": 1e6, "tb": 1e9}
_COUNTED: Final = (
    "个 只 条 名 位 台 辆 本 张 杯 件 套 间 家 口 支 头 匹 棵 朵 颗 枚 首 部 节 门 所 座 栋 层 份 包 瓶 盒 袋 箱 双 对 群 组 项 款 种 人 行 "
    "字 页 点_ 片 架 艘 根 把 句 段 盘 碗 场 届"
).split()
_MONEY: Final = {"$": "usd", "us$": "usd", "¥": "cny", "￥": "cny", "€": "eur", "£": "gbp"}

_DIGITS: Final = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_STEPS: Final = {"十": 10, "百": 100, "千": 1000}
_HAN: Final = "零〇一二两三四五六七八九十百千万亿"
_ONES: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORDS: Final = {w: n for n, w in enumerate(_ONES)} | {w: 20 + 10 * n for n, w in enumerate(_TENS)}
_SCALES: Final = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_SHORT_SCALES: Final = {"万": 1e4, "亿": 1e8, "k": 1e3, "m": 1e6} | {word: float(n) for word, n in _SCALES.items()}
_ORDINALS: Final = {
    w: n + 1
    for n, w in enumerate(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth".split()
    )
}
_MONTHS: Final = {
    name: n + 1
    for n, names in enumerate(
        "jan january|feb february|mar march|apr april|may|jun june|jul july|aug august|sep sept september|oct october|"
        "nov november|dec december".split("|")
    )
    for name in names.split()
}
_WEEKDAYS: Final = {name: n + 1 for n, name in enumerate("mon tues wednes thurs fri satur sun".split())}

_UNIT_RE: Final = (
    "(?:"
    + "|".join(re.escape(u) + ("(?![a-z0-9])" if u[-1].isascii() and u[-1].isalpha() else "") for u in sorted(_UNITS, key=len, reverse=True))
    + ")"
)
_COUNT_RE: Final = "[" + "".join(c for c in _COUNTED if len(c) == 1) + "]"
_NUM: Final = rf"(?:\d+|[{_HAN}]+)"
_WORD_NUM: Final = (
    rf"(?:{'|'.join(sorted([*_WORDS, *_SCALES], key=len, reverse=True))})"
    rf"(?:[ -](?:and )?(?:{'|'.join(sorted([*_WORDS, *_SCALES], key=len, reverse=True))})(?![a-z]))*(?![a-z])"
)
_MONTH_RE: Final = f"(?:{'|'.join(sorted(_MONTHS, key=len, reverse=True))})"
_PARTS: Final = "凌晨|清晨|早上|早晨|上午|中午|下午|傍晚|晚上|夜里|半夜|晚间"
_AFTERNOON: Final = frozenset("下午 傍晚 晚上 夜里 晚间 pm".split())


def value_of(text: str) -> float | None:
    """The number that a Chinese numeral, Arabic digits or English number words spell; None if they spell none."""
    text = text.replace(",", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if text and all(c in _HAN for c in text):
        return _han(text)
    return _english(re.split(r"[ -]+", text))


def _han(text: str) -> float | None:
    if len(text) > 1 and all(c in _DIGITS for c in text):
        return float("".join(str(_DIGITS[c]) for c in text))
    if len(text) > 2 and text[-1] in _DIGITS and text[-2] in "百千万亿":
        # 一万五 is 15,000, 三百五 is 350.
        text += {"百": "十", "千": "百", "万": "千", "亿": "千万"}[text[-2]]
    total = section = digit = 0
    for c in text:
        if c in _DIGITS:
            digit = _DIGITS[c]
        elif c in _STEPS:
            section += (digit or 1) * _STEPS[c]
            digit = 0
        else:
            total = (total + section + digit or 1) * (10**4 if c == "万" else 10**8)
            section = digit = 0
    return float(total + section + digit)


def _english(words: list[str]) -> float | None:
    total = current = 0
    for word in words:
        if word in _WORDS:
            current += _WORDS[word]
        elif word in _SCALES and _SCALES[word] == 100:
            current = (current or 1) * 100
        elif word in _SCALES:
            total += (current or 1) * _SCALES[word]
            current = 0
        elif word != "and":
            return None
    return float(total + current)


def _key(value: float) -> str:
    return f"{round(value, 6):.10g}"


_PATTERNS: Final = [
    ("iso", rf"(\d{{4}})[-/](\d{{1,2}})[-/](\d{{1,2}})(?![\d-])"),
    ("cn_year", rf"((?:19|20)\d{{2}}|[〇零一二三四五六七八九]{{4}})\s?年(?:\s?({_NUM})\s?月(?:份)?(?:\s?({_NUM})\s?[日号])?)?"),
    ("cn_month", rf"({_NUM})\s?月(?:份)?(?:\s?({_NUM})\s?[日号])?"),
    ("cn_day", r"(\d{1,2})\s?[日号](?![楼线店院门])"),
    ("cn_week", r"(上上|下下|上|下|这|本)?个?(?:周|星期|礼拜)([一二三四五六日天末])"),
    ("cn_rel", r"大前天|前天|昨天|昨晚|今天|今晚|明天|明晚|后天|大后天|上个?(?:周|星期|月)|下个?(?:周|星期|月)|去年|明年|前年|今年|本月|本周|这周|这个月"),
    ("en_month_day", rf"({_MONTH_RE})\.? (\d{{1,2}})(?:st|nd|rd|th)?(?![\d:])(?:,? (\d{{4}})(?!\d))?"),
    ("en_day_month", rf"(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?({_MONTH_RE})(?![a-z])(?:,? (\d{{4}})(?!\d))?"),
    ("en_month", r"(?:in|on|of|last|next|since|until|every|by) (?:early |late |mid-)?(january|february|march|april|may|june|july|august|september|october|november|december)(?![a-z])(?! \d{1,2}(?!\d))(?: (\d{4})(?!\d))?"),
    ("en_month_alone", r"(january|february|april|june|july|august|september|october|november|december)(?![a-z])(?: (\d{4})(?!\d))?"),
    ("en_year", r"(?:in|since|until|of|by|from|during) ((?:19|20)\d{2})(?![\d.,]\d|\d)"),
    ("en_week", r"(?:(last|next|this) )?(mon|tues|wednes|thurs|fri|satur|sun)days?(?![a-z])"),
    ("en_rel", r"(?:the )?day (?:before yesterday|after tomorrow)|yesterday|tomorrow|tonight|today|(?:last|next|this) (?:week|month|year|weekend|night|spring|summer|autumn|fall|winter)|weekends?(?![a-z])|\w+ (?:days|weeks|months|years) ago"),
    ("cn_clock", rf"({_PARTS})\s?({_NUM})\s?[点时](?!候)(?:(半)|钟|整|\s?({_NUM})\s?分?)?"),
    ("cn_clock2", rf"(\d{{1,2}}|[一二两三四五六七八九十]{{1,3}})点(?:(半)|钟|整|({_NUM})分|(?=[起睡出到吃开下上前后去进之]))"),
    ("colon", rf"({_PARTS})?\s?(\d{{1,2}}):(\d{{2}})(?::\d{{2}})?\s?(am|pm|a\.m\.|p\.m\.)?(?![a-z\d])"),
    ("en_clock", r"(\d{1,2})\s?(am|pm|a\.m\.|p\.m\.|o'clock)(?![a-z])"),
    ("part", rf"{_PARTS}|(?:in the )?(?:morning|afternoon|evening|midnight|noon)s?(?![a-z])"),
    ("ordinal", rf"第\s?({_NUM})|(\d+)(?:st|nd|rd|th)(?![a-z])|({'|'.join(_ORDINALS)})(?![a-z])"),
    ("version", r"v\d+(?:\.\d+)*(?![a-z0-9])|\d+(?:\.\d+){2,}(?![a-z0-9])"),
    ("money", r"(us\$|[$¥￥€£])\s?(\d[\d,]*(?:\.\d+)?)\s?([km万](?![a-z])|(?:hundred|thousand|million|billion)(?![a-z]))?"),
    ("fraction", r"\d+/\d+|\d+-\d+/\d+"),
    ("number", rf"(\d+(?:,\d{{3}})*(?:\.\d+)?)\s?(万|亿|[km](?![a-z0-9])|(?:hundred|thousand|million|billion)(?![a-z]))?\s?(多|几|余)?\s?({_UNIT_RE}|{_COUNT_RE})?"),
    ("han", rf"([{_HAN}]+)(多|几|余)?\s?({_UNIT_RE}|{_COUNT_RE})"),
    ("han_long", rf"[{_HAN}]{{2,}}"),
    ("word", rf"({_WORD_NUM})(?:[ -]({_UNIT_RE}))?"),
    ("twice", r"(once|twice)(?= a| per| every)"),
]  # fmt: skip
_SCANNERS: Final = [(name, re.compile(pattern)) for name, pattern in _PATTERNS]
_STARTS: Final = re.compile(rf"[\d{_HAN}$¥￥€£第上下这本个周星礼大前昨今明后去凌清早中傍晚夜半]|[a-z]")


def read(text: str, at: int) -> Found | None:
    """The value that is written at this place, or None. Latin words are read only from their first letter."""
    if not _STARTS.match(text, at):
        return None
    before = text[at - 1] if at else ""
    if (before.isascii() and before.isalnum()) or (before == "." and at > 1 and text[at - 2].isdigit()):
        return None
    for name, scanner in _SCANNERS:
        match = scanner.match(text, at)
        if match and (found := _READERS[name](match)) is not None:
            return found
    return None


def _date(match: re.Match[str], year: str | None, month: str | int | None, day: str | None) -> Found:
    parts = [p if isinstance(p, int) else (int(value_of(p) or 0) if p else 0) for p in (year, month, day)]
    return Found(match.end(), Quantity.DATE, "-".join(str(p) if p else "?" for p in parts))


def _cn_month(match: re.Match[str]) -> Found | None:
    month = value_of(match[1]) or 0
    return _date(match, None, match[1], match[2]) if 1 <= month <= 12 else None


def _week(match: re.Match[str]) -> Found:
    number = {"末": "weekend", "天": "7", "日": "7"}.get(match[2]) or _key(value_of(match[2]) or 0)
    which = {None: "", "这": "this ", "本": "this ", "上": "last ", "下": "next "}.get(match[1], f"{match[1]} ")
    return Found(match.end(), Quantity.DATE, f"{which}weekday {number}")


def _en_week(match: re.Match[str]) -> Found:
    which = f"{match[1]} " if match[1] else ""
    return Found(match.end(), Quantity.DATE, f"{which}weekday {_WEEKDAYS[match[2]]}")


_RELATIVE: Final = {"今天": "today", "昨天": "yesterday", "明天": "tomorrow", "去年": "last year", "明年": "next year"}


def _relative(match: re.Match[str]) -> Found:
    key = "weekday weekend" if match[0].startswith("weekend") else _RELATIVE.get(match[0], match[0].replace("个", ""))
    return Found(match.end(), Quantity.DATE, key)


def _clock(match: re.Match[str], hour: str, minute: str | None, part: str | None, half: str | None = None) -> Found | None:
    value = value_of(hour)
    if value is None or value > 24:
        return None
    part = (part or "").replace(".", "")
    if value < 12 and part in _AFTERNOON:
        value += 12
    elif value == 12 and part in ("am", "凌晨", "半夜"):
        value = 0
    minutes = 30.0 if half else (value_of(minute) or 0.0 if minute else 0.0)
    return Found(match.end(), Quantity.CLOCK, f"{int(value):02d}:{int(minutes):02d}")


_DAY_PARTS: Final = {
    "早上": "morning", "早晨": "morning", "清晨": "morning", "上午": "morning", "中午": "noon", "下午": "afternoon",
    "傍晚": "evening", "晚上": "evening", "晚间": "evening", "夜里": "night",
}  # fmt: skip


def _part(match: re.Match[str]) -> Found:
    word = match[0].removeprefix("in the ")
    return Found(match.end(), Quantity.CLOCK, _DAY_PARTS.get(word, word.removesuffix("s")))


def _ordinal(match: re.Match[str]) -> Found:
    number = _ORDINALS[match[3]] if match[3] else value_of(match[1] or match[2])
    return Found(match.end(), Quantity.ORDINAL, f"#{_key(float(number or 0))}")


def _number(match: re.Match[str], text: str, scale: str | None, vague: str | None, unit: str | None) -> Found | None:
    value = value_of(text)
    if value is None:
        return None
    value *= _SHORT_SCALES.get(scale or "", 1.0)
    name, factor = _UNITS.get(unit or "", ("", 1.0)) if unit not in _BYTES else ("byte", _BYTES[unit])
    counted = unit is not None and not name
    key = f"{_key(value * factor)}{'+' if vague else ''} {name}".strip()
    digits = text.isascii() and text.isdigit()
    if digits and len(text) >= 5 and not unit and not scale:
        return Found(match.end(), Quantity.CODE, text)
    soft = value == 1 and not scale and not digits and (counted or not name)
    return Found(match.end(), Quantity.NUMBER, key, name or ("count" if counted else ""), soft)


def _money(match: re.Match[str]) -> Found | None:
    found = _number(match, match[2], match[3], None, None)
    unit = _MONEY[match[1]]
    return found and Found(match.end(), Quantity.NUMBER, f"{found.key} {unit}", unit)


def _plain(sort: Quantity, match: re.Match[str]) -> Found:
    return Found(match.end(), sort, match[0].removeprefix("v"))


def _iso(m: re.Match[str]) -> Found:
    return _date(m, m[1], m[2], m[3])


_READERS: Final = {
    "iso": _iso,
    "cn_year": _iso,
    "cn_month": _cn_month,
    "cn_day": lambda m: _date(m, None, None, m[1]),
    "cn_week": _week,
    "cn_rel": _relative,
    "en_month_day": lambda m: _date(m, m[3], _MONTHS[m[1]], m[2]),
    "en_day_month": lambda m: _date(m, m[3], _MONTHS[m[2]], m[1]),
    "en_month": lambda m: _date(m, m[2], _MONTHS[m[1]], None),
    "en_month_alone": lambda m: _date(m, m[2], _MONTHS[m[1]], None),
    "en_year": lambda m: _date(m, m[1], None, None),
    "en_week": _en_week,
    "en_rel": _relative,
    "cn_clock": lambda m: _clock(m, m[2], m[4], m[1], m[3]),
    "cn_clock2": lambda m: _clock(m, m[1], m[3], None, m[2]),
    "colon": lambda m: _clock(m, m[2], m[3], m[4] or m[1]),
    "en_clock": lambda m: _clock(m, m[1], None, m[2]),
    "part": _part,
    "ordinal": _ordinal,
    "version": partial(_plain, Quantity.CODE),
    "money": _money,
    "fraction": partial(_plain, Quantity.CODE),
    "number": lambda m: _number(m, m[1], m[2], m[3], m[4]),
    "han": lambda m: _number(m, m[1], None, m[2], m[3]),
    "han_long": lambda m: _number(m, m[0], None, None, None),
    "word": lambda m: _number(m, m[1], None, None, m[2]),
    "twice": lambda m: Found(m.end(), Quantity.NUMBER, "1 times" if m[1] == "once" else "2 times", "times"),
}
