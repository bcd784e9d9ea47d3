"""Units of measure and measure words, in Chinese and English.

Owns which written units are one unit and how large each is against the one that is compared. Refuses currencies'
exchange rates and anything else that changes.
"""

import re
from typing import Final

_TABLE: Final = """
    kg 1: kg kgs kilo kilos kilogram kilograms 公斤 千克
    kg 0.5: 斤
    kg 0.001: g gram grams 克
    lb 1: lb lbs pound pounds 磅
    m 1000: km kms kilometre kilometres kilometer kilometers 公里 千米
    m 1: m metre metres meter meters 米
    m 0.01: cm centimetres centimeters 厘米 公分
    m 0.001: mm 毫米
    mile 1: mile miles 英里
    inch 1: inch inches 英寸 寸
    s 0.001: ms millisecond milliseconds 毫秒
    s 1: s sec secs second seconds 秒 秒钟
    s 60: min mins minute minutes 分钟
    s 3600: h hr hrs hour hours 小时 个小时 钟头 个钟头
    day 1: day days 天
    week 1: week weeks 周 星期 个星期
    month 1: month months 个月
    age 1: years_old year_old years_of_age 岁 周岁
    year 1: year years 年
    byte 1: kb
    byte 1e3: mb
    byte 1e6: gb
    byte 1e9: tb
    % 1: % percent 个百分点
    usd 1: dollar dollars usd 美元 美金 刀
    eur 1: euro euros eur 欧元
    cny 1: yuan rmb cny 元 块 块钱 元钱 人民币
    gbp 1: gbp 英镑
    penny 1: pence
    times 1: times 次 遍 回 趟
    degree 1: 度 摄氏度 °c degrees
"""
_MEASURE_WORDS: Final = (
    "个只条名位台辆本张杯件套间家口支头匹棵朵颗枚首部节门所座栋层份包瓶盒袋箱双对群组项款种人行字页片架艘根把"
    "句段盘碗场届"
)
MONEY: Final = frozenset(("usd", "eur", "cny", "gbp", "penny"))
CURRENCY_SIGNS: Final = {"$": "usd", "us$": "usd", "¥": "cny", "￥": "cny", "€": "eur", "£": "gbp"}


def _read_table() -> dict[str, tuple[str, float]]:
    found: dict[str, tuple[str, float]] = {}
    for line in filter(None, map(str.strip, _TABLE.splitlines())):
        canonical, _, written = line.partition(":")
        name, factor = canonical.split()
        found |= dict.fromkeys((word.replace("_", " ") for word in written.split()), (name, float(factor)))
    return found


UNITS: Final = _read_table()
"""Written unit -> (unit that is compared, factor)."""


def _alternative(unit: str) -> str:
    return re.escape(unit) + ("(?![a-z0-9])" if unit[-1].isascii() and unit[-1].isalpha() else "")


UNIT: Final = f"(?:{'|'.join(_alternative(unit) for unit in sorted(UNITS, key=len, reverse=True))})"
"""Pattern of a unit."""
MEASURE_WORD: Final = f"[{_MEASURE_WORDS}]"
"""Pattern of a Chinese measure word: what it counts is told by the noun after it."""
