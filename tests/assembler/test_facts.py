"""What a summary may say in other words, and what it may not."""

import pytest

from assembler_service.domain.facts import unsupported
from assembler_service.domain.numerals import in_digits

HONEST = [
    ("预算两万块", "预算20000元"),
    ("预算两万块", "预算2万元"),
    ("预算 2w 左右", "预算20,000元"),
    ("大概要一万五千块", "约15000元"),
    ("十月十五号上线", "10月15日上线"),
    ("10/15 上线", "10月15日上线"),
    ("10.15上线", "上线日期10月15日"),
    ("10月14-15日演练", "演练至10月15日"),
    ("2026年10月15日", "10月15日"),
    ("今年是2026年。十月十五号上线", "2026年10月15日上线"),
    ("下午三点半开会", "15:30开会"),
    ("下午3点开会", "15:00开会"),
    ("周三和礼拜天", "星期三、周日"),
    ("覆盖率要百分之八十", "覆盖率80%"),
    ("三到五天", "3-5天"),
    ("等三四天", "3至4天"),
    ("二十五岁", "25岁"),
    ("二〇二六年的计划", "2026年的计划"),
    ("用 MySQL 8.0 吧", "选 MySQL 8"),
    ("用 MySQL 8", "用 MySQL8"),
    ("Python 3.11.7", "Python 3.11"),
    ("电话 138 1234 5678", "电话13812345678"),
    ("电话13812345678", "电话138-1234-5678"),
    ("MySQL 和 Redis 都要", "需要 MySQL/Redis"),
    ("先双写再切读", "1. 先双写；2. 再切读；3. 待定"),
    ("先双写再切读", "①先双写\n②再切读"),
    ("先双写再切读", "（1）先双写，（2）再切读"),
    ("负责人是王伟,先做双写,再切读", "负责人“王伟”；“先做双写，再切读”"),
    ("I have 2,000 dollars", "budget of two thousand dollars"),
    ("about 5k users", "5,000 users"),
    ("twenty-five people", "25 people"),
    ("one hundred and twenty seats", "120 seats"),
    ("1.5 million rows", "1,500,000 rows"),
    ("Oct 15th, 3pm", "October 15 at 3 PM"),
    ("10/15 at 3 pm", "October 15 at 15:00"),
    ("October 14 to 16", "until October 16"),
    ("on Wed we ship", "ships on Wednesday"),
    ("We use the API", "the APIs, e.g. the API"),
    ("read and write paths", "read/write paths"),
    ("the rollback is open", "Rollback: TBD. The AI agreed."),
    ("keep it on Postgres 16", "1) Postgres 16\n2) nothing else"),
    ("my first question", "question 1"),
    ("we use version 2.1 and 5.1", "It is version 2.1. Later version 5.1."),
    ("the limit is 500 ms", "limit 500ms"),
]
INVENTED = [
    ("预算两万块", "预算3万元"),
    ("预算两万块", "预算2元"),
    ("十月十五号上线", "10月16日上线"),
    ("十月十五号上线", "2026年10月15日上线"),
    ("2025年10月15日", "2026年10月15日"),
    ("下午三点开会", "16:00开会"),
    ("周三开会", "星期四开会"),
    ("覆盖率百分之八十", "覆盖率90%"),
    ("工单 OPS-1234", "工单 OPS-12"),
    ("工单 OPS-1234", "工单 OPS-1235"),
    ("用 MySQL 8", "用 MySQL 9"),
    ("用 MySQL 8", "用 PostgreSQL"),
    ("先双写再切读", "5. 先双写"),
    ("MySQL 和 Redis", "需要 MySQL/Kafka"),
    ("负责人是王伟", "负责人“王芳”"),
    ("about 5k users", "6,000 users"),
    ("twenty-five people", "35 people"),
    ("Oct 15th", "October 16"),
    ("Oct 15th", "November"),
    ("on Wed we ship", "ships on Thursday"),
    ("/srv/app/main.py", "/srv/app/other.py"),
    ("mail bob@example.com", "mail rob@example.org"),
]


@pytest.mark.parametrize(("evidence", "summary"), HONEST)
def test_other_words_for_the_same_are_no_invention(evidence: str, summary: str) -> None:
    assert unsupported(summary, evidence) == []


@pytest.mark.parametrize(("evidence", "summary"), INVENTED)
def test_what_was_not_said_is(evidence: str, summary: str) -> None:
    assert unsupported(summary, evidence) != []


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("十分满意，万一不行，一个人", "十分满意，万一不行，一个人"),
        ("三十五台，两亿元", "35台，200000000元"),
        ("twenty two and three hundred five", "22 305"),
        ("two three", "2 3"),
        ("one of them, one hundred", "one of them, 100"),
        ("4k 8kb 10w 7.5万", "4000 8kb 100000 75000"),
        ("周三天气", "周三天气"),
    ],
)
def test_numbers_in_digits(text: str, digits: str) -> None:
    assert in_digits(text) == digits


@pytest.mark.parametrize(
    "text",
    [
        "万" * 50_000,
        "九" * 50_000 + "个",
        "9" * 50_000 + "万",
        "1 " * 30_000,
        "1." * 30_000,
        "a/" * 30_000,
        "“" * 30_000,
        "two " * 10_000,
        "9.9" * 10_000 + "k",
        "10月" * 10_000,
        "(1)" * 10_000,
        "A" * 50_000 + "s" * 5_000,
        "ß①²\ud800",
    ],
)
def test_odd_texts_hold_themselves(text: str) -> None:
    assert unsupported(text, text) == []
