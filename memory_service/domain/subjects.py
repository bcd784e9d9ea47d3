"""Whom a question or a memory is about: the user, or a person who is something to the user (wife, 父亲, boss).

Owns the closed class of words for such people, in Chinese and English; when a question asks about somebody else than a
memory is about; when it speaks of the one who asks; what a statement tells without the user as its subject. Refuses to
weigh any of it (`ranking` and `space` do) and to know names: 小李 and Hannah are words like others.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

import regex

_PEOPLE: Final = (
    ("father", "爸爸 老爸 父亲 爸 爹 father dad daddy papa"),
    ("mother", "妈妈 老妈 母亲 妈 娘 mother mum mom mummy mommy"),
    ("father mother", "父母 爸妈 爹妈 双亲 parents"),
    ("wife", "妻子 老婆 太太 媳妇 爱人 wife"),
    ("husband", "丈夫 老公 爱人 husband"),
    ("girlfriend", "女朋友 女友 girlfriend"),
    ("boyfriend", "男朋友 男友 boyfriend"),
    ("wife husband girlfriend boyfriend", "对象 伴侣 配偶 另一半 partner spouse fiance fiancee"),
    ("son", "儿子 son"),
    ("daughter", "女儿 闺女 daughter"),
    ("son daughter", "孩子 小孩 娃 宝宝 儿女 子女 双胞胎 child children kid baby toddler twins"),
    ("brother", "哥哥 弟弟 哥 弟 brother"),
    ("sister", "姐姐 妹妹 姐 妹 sister"),
    ("brother sister", "兄弟姐妹 sibling"),
    ("grandfather", "爷爷 外公 姥爷 祖父 外祖父 grandfather grandpa granddad"),
    ("grandmother", "奶奶 外婆 姥姥 祖母 外祖母 grandmother grandma granny"),
    ("grandfather grandmother", "祖父母 grandparents"),
    ("grandchild", "孙子 孙女 外孙 外孙女 grandson granddaughter grandchild grandchildren"),
    ("uncle", "叔叔 舅舅 伯伯 伯父 姑父 姨父 uncle"),
    ("aunt", "阿姨 姑姑 姨妈 舅妈 婶婶 伯母 aunt auntie"),
    ("cousin", "表哥 表弟 表姐 表妹 堂哥 堂弟 堂姐 堂妹 cousin"),
    ("nephew niece", "侄子 外甥 侄女 外甥女 nephew niece"),
    ("in-law", "岳父 岳母 公公 婆婆 公婆 mother-in-law father-in-law brother-in-law sister-in-law in-law"),
    ("friend", "朋友 好友 闺蜜 friend"),
    ("boss", "老板 领导 上司 主管 boss manager supervisor"),
    ("colleague", "同事 colleague coworker co-worker teammate"),
    ("classmate", "同学 classmate"),
    ("roommate", "室友 舍友 roommate flatmate housemate"),
    ("neighbour", "邻居 neighbour neighbor"),
    ("teacher", "老师 导师 teacher tutor advisor adviser mentor"),
    ("landlord", "房东 landlord landlady"),
    ("client", "客户 client customer"),
    ("driver", "司机 driver"),
    ("assistant", "助理 秘书 assistant secretary"),
)
"""Persons, and the words that mean one of them."""

_MEANT: Final = {word: frozenset(persons.split()) for persons, words in _PEOPLE for word in words.split()} | {
    "爱人": frozenset({"wife", "husband"})
}


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_AFTER_ANOTHER: Final = "[爸爹妈娘哥弟姐妹娃]|对象"
"""Words that mean a person only where somebody's is said before them."""
_ZH: Final = _any_of(word for word in _MEANT if not word.isascii() and len(word) > 1 and word != "对象")
_EN: Final = _any_of(word for word in _MEANT if word.isascii())
_PERSON_ZH: Final = regex.compile(rf"{_ZH}|(?<=[我你他她的大小二户])(?:{_AFTER_ANOTHER})")
_WORD_EN: Final = regex.compile(r"[a-z]+(?:-[a-z]+)*")
_LEADING: Final = regex.compile(
    rf"(?:用户|我)?(?:家|们)?的?[大小二老前亲]?(?:{_ZH}|(?<=[我的大小二户])(?:{_AFTER_ANOTHER}))"
    rf"|(?:the user's|my|our)\s+(?:[\w-]+\s+){{0,2}}?(?:{_EN})s?\b",
    regex.IGNORECASE,
)
"""A memory that begins with a person is about that person."""
_ANYBODY: Final = regex.compile(
    r"谁|哪位|家人|亲人|亲戚|家里人|\b(?:who|whom|whose|family|relatives?|anyone|anybody|someone)\b", regex.IGNORECASE
)
_SELF: Final = regex.compile(
    r"[我咱]|\b(?:(?<!\b(?:War|Part|Phase|Type|Volume|Chapter|Level|Stage|Act) )[Ii]"
    r"|[Mm]e|[Mm]y|[Mm]ine|[Mm]yself|[Ww]e|[Oo]urs?|us)\b"
)
"""The US and World War I are none of us."""
_NOT_SELF: Final = regex.compile(
    r"[帮给教让替]我|告诉我|\b(?:show|tell|give|make|write|help|let|teach|remind|find|get) (?:me|us)\b"
    r"|^how (?:do|can|could|should|would) (?:i|we)\b",
    regex.IGNORECASE,
)
"""Where the writer is only the one who is served, or anybody: "tell me", "how do I boil an egg"."""
_ORDER: Final = regex.compile(
    r"(?:请|麻烦)?你?(?:[帮给替为]我?\S{0,6}?(?:写|起|取|画|编|做|翻译|生成|润色|改|算)"
    r"|[把将]\S+(?:翻|译|改|换|写|转)|写|翻译|生成|润色)"
    r"|(?:please |could you |can you )*(?:write|compose|draft|suggest|translate|explain|summari[sz]e|convert|generate"
    r"|create|draw|calculate|solve|name|list|recommend|rewrite|proofread|define|compare)\b",
    regex.IGNORECASE,
)
"""How an order to make something opens; what it names of the writer's ("my blog post") is not what it asks about."""
_SENTENCE_WITHIN: Final = regex.compile(r"\n|[。！？!?]\s*\S|[.]\s+\S")
_LONG: Final = 120
"""Characters; a question that goes on for longer says several things."""
_HAN: Final = re.compile(r"[\u3400-\u9fff]")
_LATIN: Final = re.compile(r"[A-Za-z]+")
_OPENING: Final = regex.compile(
    r"(?P<before>^|[.。;；!！?？\n] ?)(?:"
    r"(?:该?用户(?:本人|自己)?)(?!们|体验|界面|名|量|数|群|画像|反馈|需求|手册|协议|态|表|登录|注册|权限|组|端|服务|信息|管理"
    r"|中心|模块|接口)的?"
    r"|(?:我|本人)(?!们|国|方|校|司|厂|军|辈)的?"
    r"|(?:the )?user(?:['’]s)?\s+"
    r"(?!interface|experience|table|name|id|service|story|stories|base|group|manual|agent|guide)"
    r"|(?:my|i)\s+)(?=\S.)",
    regex.IGNORECASE,
)
"""The user as the subject of a sentence; 用户名 and "the user interface" are things."""


def of_self(query: str) -> bool:
    """Whether a query speaks of the one who writes it: 我, my. "Tell me", 帮我 and orders to make something do not."""
    said = query.strip()
    return _ORDER.match(said) is None and _SELF.search(_NOT_SELF.sub(" ", said)) is not None


def one_question(query: str) -> bool:
    """Whether a query is one sentence of a line or two, which asks for one thing, and not a message about several."""
    return len(query) <= _LONG and not _SENTENCE_WITHIN.search(query.strip())


def chinese(text: str) -> bool:
    """Whether a text is written in Chinese: a Latin name in it changes nothing, nor does one 京 in English."""
    return not text.isascii() and 2 * len(_HAN.findall(text)) >= max(1, len(_LATIN.findall(text)))


def about_others(query: str) -> Callable[[str], bool]:
    """Tells of a memory whether it and this question are surely about different people.

    So when the question names persons and the memory none of them, or when it speaks of its writer and of no other
    person while the memory begins with one. A question after who, or after the family, may mean anybody.
    """
    asked = _persons(query)
    if asked:
        return lambda memory: not asked & _persons(memory)
    if of_self(query) and not _ANYBODY.search(query):
        return lambda memory: _LEADING.match(memory) is not None
    return lambda memory: False


def _persons(text: str) -> frozenset[str]:
    said = text.lower()
    found = set[str]()
    for word in _WORD_EN.findall(said):
        found |= _MEANT.get(word) or _MEANT.get(word.removesuffix("s"), frozenset())
    if not text.isascii():
        for word in _PERSON_ZH.findall(said):
            found |= _MEANT[word]
    return frozenset(found)


def told(text: str) -> str:
    """What a statement tells, without the user as the subject of its sentences: that is who every memory is about.

    The form in which texts to remember go to the embedding model, for which "The user's" of a short statement counts as
    much as what is said. Own dedup pairs, changed and negated ones answered REPLACED: 0.84 with the subject, 0.97
    without. What is stored, shown and searched by keyword is the text itself.
    """
    return _OPENING.sub(r"\g<before>", text) or text
