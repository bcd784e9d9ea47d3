"""How large a place is, for well-known places in Chinese and English.

Owns one question: may two names of places take each other's place? "Paris" and "Berlin" may; "Paris" and "France", or
"北京" and "北京朝阳区", may not, because both can be true at once. Refuses to be a gazetteer: an unknown
name is unknown.
"""

from typing import Final

from memory_service.domain.wording.wordlists import words

COUNTRY: Final = "country"
PROVINCE: Final = "province"
CITY: Final = "city"

_COUNTRIES: Final = words("""
    china japan korea india france germany italy spain portugal ireland britain england scotland wales uk usa us
    america canada mexico brazil argentina chile peru australia russia ukraine poland sweden norway denmark
    finland iceland netherlands holland belgium switzerland austria greece turkey egypt kenya nigeria morocco
    israel iran thailand vietnam malaysia indonesia philippines singapore czechia hungary romania 中国 日本 韩国
    印度 法国 德国 意大利 西班牙 葡萄牙 爱尔兰 英国 美国 加拿大 墨西哥 巴西 阿根廷 澳大利亚 澳洲 新西兰 俄罗斯
    乌克兰 波兰 瑞典 挪威 丹麦 芬兰 荷兰 比利时 瑞士 奥地利 希腊 土耳其 埃及 泰国 越南 马来西亚 印尼 菲律宾
    新加坡
    """)
_PROVINCES: Final = words("""
    california texas florida bavaria catalonia ontario quebec 河北 山西 辽宁 吉林 黑龙江 江苏 浙江 安徽 福建
    江西 山东 河南 湖北 湖南 广东 海南 四川 贵州 云南 陕西 甘肃 青海 台湾 内蒙古 广西 西藏 宁夏 新疆
    """)
_CITIES: Final = words("""
    beijing shanghai shenzhen guangzhou hangzhou chengdu nanjing wuhan tokyo osaka kyoto seoul busan delhi
    mumbai bangalore paris lyon marseille berlin munich hamburg frankfurt cologne rome milan naples turin madrid
    barcelona seville valencia granada lisbon porto dublin london manchester edinburgh glasgow bristol leeds
    boston chicago seattle houston austin dallas denver miami atlanta philadelphia phoenix portland washington
    toronto vancouver montreal ottawa calgary sydney melbourne brisbane perth auckland wellington moscow kyiv
    kiev warsaw krakow stockholm gothenburg oslo bergen copenhagen helsinki amsterdam rotterdam utrecht brussels
    antwerp ghent zurich geneva basel bern vienna salzburg graz athens istanbul ankara cairo nairobi lagos
    casablanca jerusalem dubai bangkok hanoi jakarta manila prague brno budapest bucharest lima
    santiago bogota havana oxford cambridge liverpool florence venice bologna 北京 上海 天津 重庆 香港 澳门 台北
    高雄 广州 深圳 杭州 南京 苏州 无锡 宁波 温州 嘉兴 绍兴 武汉 长沙 成都 西安 郑州 济南 青岛 大连 沈阳 长春
    哈尔滨 石家庄 太原 合肥 福州 厦门 泉州 南昌 昆明 贵阳 南宁 桂林 海口 三亚 兰州 西宁 银川 乌鲁木齐 呼和浩特
    拉萨 珠海 佛山 东莞 惠州 中山 常州 徐州 扬州 南通 烟台 威海 潍坊 洛阳 大理 丽江 绵阳 东京 大阪 京都 首尔
    巴黎 柏林 慕尼黑 伦敦 罗马 米兰 马德里 巴塞罗那 纽约 洛杉矶 旧金山 西雅图 波士顿 芝加哥 多伦多 温哥华 悉尼
    墨尔本 莫斯科 曼谷 迪拜 苏黎世 日内瓦 阿姆斯特丹 斯德哥尔摩
    """)
_LEVELS: Final = {
    **dict.fromkeys(_COUNTRIES, COUNTRY),
    **dict.fromkeys(("new zealand", "south korea", "south africa", "united states", "united kingdom"), COUNTRY),
    **dict.fromkeys(_PROVINCES, PROVINCE),
    **dict.fromkeys(_CITIES, CITY),
    **dict.fromkeys(("new york", "los angeles", "san francisco", "san diego", "mexico city", "cape town"), CITY),
    **dict.fromkeys(("kuala lumpur", "hong kong", "rio de janeiro", "buenos aires", "tel aviv"), CITY),
}
_SUFFIXES: Final = {
    "国": COUNTRY,
    "省": PROVINCE,
    "市": CITY,
    "区": "区",
    "县": "县",
    "镇": "镇",
    "村": "村",
    "路": "路",
    "街": "街",
}


def level(name: str) -> str | None:
    """`country`, `province`, `city` or the suffix of a smaller Chinese unit; None where the name is not known.

    The name is lower-cased, words parted by one blank, Chinese without blanks.
    """
    known = _LEVELS.get(name)
    if known is None and len(name) > 2 and name[-1] in _SUFFIXES:
        bare = _LEVELS.get(name[:-1])
        known = bare if bare is not None and _SUFFIXES[name[-1]] == bare else None
        if known is None and not any(name.startswith(place) for place in _LEVELS):
            known = _SUFFIXES[name[-1]]
    return known


def interchangeable(a: str, b: str) -> bool:
    """True when both names are known to be of one size and neither holds the other: one takes the other's place."""
    return a != b and level(a) is not None and level(a) == level(b) and a not in b and b not in a
