"""The canonical form, what may not be in a text, and its rough size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.text import estimate_tokens, normalise, text_problem


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("  我用  MySQL\n\t8 ", "我用 MySQL 8"),
        ("我用ＭｙＳＱＬ８", "我用MySQL8"),
        ("cafe\u0301", "caf\u00e9"),
        ("\uff21\u0301", "\u00c1"),
        ("a\u3000b\u00a0c\u2028d", "a b c d"),
        ("面积 5² 和 52", "面积 5² 和 52"),
        ("①，ﬁ", "①，ﬁ"),
        ("Ok OK", "Ok OK"),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_normalise(given_text: str, expected: str) -> None:
    assert normalise(given_text) == expected


@given(st.text())
def test_normalise_twice_is_normalise_once(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert once == once.strip()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Acme moved\u0000 to Shenzhen", "U+0000 (NUL)"),
        ("bell\u0007", "U+0007"),
        ("delete\u007f", "U+007F"),
        ("next\u0085line", "U+0085"),
        ("half \ud83d emoji", "U+D83D (a lone surrogate)"),
        ("\ufdd0", "U+FDD0 (not a character)"),
        ("\U0001ffff", "U+1FFFF"),
    ],
)
def test_text_that_cannot_be_taken_is_named(text: str, names: str) -> None:
    problem = text_problem(text)
    assert problem is not None
    assert names in problem


def test_the_place_of_the_first_bad_character_is_told() -> None:
    assert text_problem("一二\u0000三\u0001") == "Character 3 is U+0000 (NUL), which is not allowed."


@pytest.mark.parametrize(
    "text", ["", "tab\tline\nreturn\r", "👩‍👩‍👧 你好", "<|endoftext|>", "\u200b\ufeff", "\ufffd", "أهلا\u200f"]
)
def test_other_text_can_be_taken(text: str) -> None:
    assert text_problem(text) is None


@given(st.text())
def test_what_passes_has_utf8(text: str) -> None:
    if text_problem(text) is None:
        assert text.encode().decode() == text


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("", 0, 0),
        ("他的数据库是什么", 7, 9),
        ("The user lives in Berlin", 5, 8),
        ("12345678", 2, 4),
        ("supercalifragilisticexpialidocious", 4, 9),
        ("a" * 8000, 800, 8000),
        ("字" * 128, 128, 128),
    ],
)
def test_estimate_of_tokens(text: str, low: int, high: int) -> None:
    assert low <= estimate_tokens(text) <= high
