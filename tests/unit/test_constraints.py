"""Conditions on attributes, as the contract words them."""

import pytest

from memory_service.domain.constraints import AttributeFilter, Equals, In, Match, Number, Time, matches, parse_time

DAY = 86_400_000_000


def test_no_condition_matches() -> None:
    assert matches([], {}) is Match.MATCH


def test_all_must_hold_and_one_failing_outweighs_one_lacking() -> None:
    city, lang = AttributeFilter("city", Equals("杭州")), AttributeFilter("lang", In(frozenset({"zh", "en"})))
    assert matches([city, lang], {"city": "杭州", "lang": "en"}) is Match.MATCH
    assert matches([city, lang], {"city": "杭州"}) is Match.LACKS
    assert matches([city, lang], {}) is Match.LACKS
    assert matches([city, lang], {"lang": "fr"}) is Match.MISMATCH
    assert matches([city, lang], {"city": "杭州 ", "lang": "en"}) is Match.MISMATCH


def test_an_empty_value_is_present() -> None:
    assert matches([AttributeFilter("k", Equals(""))], {"k": ""}) is Match.MATCH
    assert matches([AttributeFilter("k", Equals("x"))], {"k": ""}) is Match.MISMATCH


@pytest.mark.parametrize(
    ("value", "fits"),
    [("5", True), ("10", True), (" 7.5 ", True), ("1e1", True), ("4.999", False), ("10.1", False), ("-6", False)]
    + [(text, False) for text in ("nan", "inf", "1_0", "0x7", "7kg", "", "７", "1e999")],
)
def test_numbers_are_in_with_both_bounds(value: str, fits: bool) -> None:
    outcome = matches([AttributeFilter("n", Number(min=5, max=10))], {"n": value})
    assert outcome is (Match.MATCH if fits else Match.MISMATCH)


def test_open_ranges() -> None:
    assert Number(min=3).holds("1e300")
    assert Number(max=3).holds("-1e300")
    assert Number().holds("0")
    assert not Number().holds("zero")
    assert Time().holds("2026-11-30")
    assert not Time().holds("yesterday")


def test_time_begins_in_and_ends_out() -> None:
    start = parse_time("2026-11-30")
    assert start is not None
    range_ = Time(start=start, end=start + DAY)
    assert range_.holds("2026-11-30")
    assert range_.holds("2026-11-30T23:59:59.999999Z")
    assert not range_.holds("2026-12-01")
    assert not range_.holds("2026-11-29T23:59:59Z")


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("2026-11-30T08:00:00+08:00", "2026-11-30T00:00:00Z"),
        ("2026-11-30 00:00", "2026-11-30"),
        ("20261130T000000Z", "2026-11-30"),
        ("2026-11", "2026-11-01"),
        ("2026-W49-1", "2026-11-30"),
        ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59+00:00"),
    ],
)
def test_forms_of_iso_8601(text: str, same_as: str) -> None:
    assert parse_time(text) is not None
    assert parse_time(text) == parse_time(same_as)


def test_the_epoch_is_zero_and_before_it_is_negative() -> None:
    assert parse_time("1970-01-01") == 0
    assert parse_time("1969-12-31T23:59:59.5") == -500_000
    assert parse_time("0001-01-01T00:00:00+14:00") is not None


@pytest.mark.parametrize(
    "text", ["", "30.11.2026", "2026-13-01", "2026-02-30", "2026-11-30x10:00", "now", "1700000000"]
)
def test_what_is_no_time(text: str) -> None:
    assert parse_time(text) is None
