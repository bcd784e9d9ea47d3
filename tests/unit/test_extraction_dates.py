"""Dates as people say them, and one statement in two grammatical persons."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from memory_service.domain.extraction.dates import mentions_time, resolve
from memory_service.domain.person import neutral, other_person

SHANGHAI = ZoneInfo("Asia/Shanghai")
SAID = int(datetime(2026, 12, 1, 20, tzinfo=UTC).timestamp()) * 1_000_000
"""Wednesday the 2nd, four in the morning, in Shanghai."""


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026-11-30", "2026-11-30"),
        ("2026/3/5", "2026-03-05"),
        ("2026年11月5日", "2026-11-05"),
        ("2026-11", "2026-11-01"),
        ("2024", "2024-01-01"),
        ("今天", "2026-12-02"),
        ("昨天", "2026-12-01"),
        ("大前天", "2026-11-29"),
        ("后天", "2026-12-04"),
        ("yesterday", "2026-12-01"),
        ("the day before yesterday", "2026-11-30"),
        ("周三", "2026-12-02"),
        ("上周二", "2026-11-24"),
        ("下周五", "2026-12-11"),
        ("星期天", "2026-12-06"),
        ("last Tuesday", "2026-12-01"),
        ("last Wednesday", "2026-11-25"),
        ("next Friday", "2026-12-04"),
        ("3天前", "2026-11-29"),
        ("两个月前", "2026-10-02"),
        ("一年后", "2027-12-02"),
        ("3 days ago", "2026-11-29"),
        ("in two weeks", "2026-12-16"),
        ("a month ago", "2026-11-02"),
        ("上个月", "2026-11-01"),
        ("去年", "2025-01-01"),
        ("去年3月", "2025-03-01"),
        ("11月5日", "2026-11-05"),
        ("上周", "2026-11-23"),
        ("last month", "2026-11-01"),
        ("next year", "2027-01-01"),
        ("November 5", "2026-11-05"),
        ("5th of March 2024", "2024-03-05"),
    ],
)
def test_a_day_is_midnight_where_it_was_said(text: str, day: str) -> None:
    at = resolve(text, SAID, SHANGHAI)
    assert at is not None
    assert datetime.fromtimestamp(at / 1_000_000, SHANGHAI).isoformat() == f"{day}T00:00:00+08:00"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-30 8:05", "2026-11-30T08:05:00+08:00"),
        ("2026-11-30T08:05:30", "2026-11-30T08:05:30+08:00"),
        ("2026-11-30T08:05:00Z", "2026-11-30T16:05:00+08:00"),
        ("2026-11-30T08:05+09:00", "2026-11-30T07:05:00+08:00"),
    ],
)
def test_a_time_of_day_is_kept(text: str, moment: str) -> None:
    at = resolve(text, SAID, SHANGHAI)
    assert at is not None
    assert datetime.fromtimestamp(at / 1_000_000, SHANGHAI).isoformat() == moment


@pytest.mark.parametrize(
    "text", ["", "soon", "2024-02-30", "0001-01-01", "9999-12-31", "2026-13-01", "99月99日", "9999年后", "null", "-"]
)
def test_what_is_no_date_has_none(text: str) -> None:
    assert resolve(text, SAID, SHANGHAI) is None


def test_the_edge_of_the_calendar_is_no_failure() -> None:
    assert resolve("昨天", -62_135_596_800_000_000, SHANGHAI) is None
    assert resolve("明天", 253_402_300_799_000_000, SHANGHAI) is None


@pytest.mark.parametrize("text", ["昨天搬家了", "上周二", "3天前", "in May", "last week", "since 2019", "2024年"])
def test_texts_that_name_a_time(text: str) -> None:
    assert mentions_time(text)


@pytest.mark.parametrize("text", ["我搬到了杭州", "I moved to Hangzhou", "订单 1001", "MySQL 8"])
def test_texts_that_name_none(text: str) -> None:
    assert not mentions_time(text)


@pytest.mark.parametrize(
    ("own", "about"),
    [
        ("我喜欢喝茶", "用户喜欢喝茶。"),
        ("我的猫叫咪咪", "用户的猫叫咪咪"),
        ("本人住在杭州", "该用户住在杭州"),
        ("I like tea.", "The user likes tea"),
        ("I'm a vegetarian", "User is a vegetarian"),
        ("I've two kids", "The user has two kids"),
        ("I have two kids", "the user has two kids"),
        ("My cat is Tom", "The user's cat is Tom"),
        ("I study law", "The user studies law"),
        ("I watch films", "The user watches films"),
        ("I can swim", "The user can swim"),
    ],
)
def test_both_persons_of_a_statement_are_one(own: str, about: str) -> None:
    assert neutral(own) == neutral(about)
    assert other_person(own) is not None
    assert neutral(other_person(about) or "") == neutral(own)


@pytest.mark.parametrize(
    "text", ["我们用 MySQL", "用户体验很重要", "我国的首都", "团队用 MySQL", "Users like it", "It is I"]
)
def test_others_are_not_the_user(text: str) -> None:
    assert other_person(text) is None


def test_other_statements_stay_apart() -> None:
    assert neutral("我喜欢喝茶") != neutral("用户不喜欢喝茶")
    assert neutral("I like tea") != neutral("The user dislikes tea")
