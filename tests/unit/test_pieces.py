"""How messages are cut for the index: all that says something is in one piece, in order, and none is too long."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.pieces import MAX_PIECES, PIECE_CHARS, pieces

SAYS = regex.compile(r"[\p{L}\p{N}]")
WIDE = regex.compile(r"[\p{Han}\u3000-\u303F\uFF00-\uFFEF]")


def size(text: str) -> int:
    return len(text) + len(WIDE.findall(text))


@pytest.mark.parametrize("text", ["我对花生过敏。", "Short and sweet.", "  padded \n"])
def test_a_short_message_is_one_piece(text: str) -> None:
    [(begin, end)] = pieces(text)
    assert text[begin:end] == text.strip()


@pytest.mark.parametrize("text", ["", "   \n", "。。。", "🐬🐬🐬", "-----\n=====" * 300])
def test_what_has_no_word_has_no_piece(text: str) -> None:
    assert pieces(text) == []


def test_paragraphs_are_not_torn_where_they_fit() -> None:
    paragraphs = [f"第{n}段：" + "今天开会讨论了预算。" * 20 for n in range(5)]
    text = "\n\n".join(paragraphs)
    assert [text[begin:end] for begin, end in pieces(text)] == paragraphs


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    text = "I live in Bonn with v1.2 of it. " * 100
    for begin, end in pieces(text):
        assert text[begin:end].startswith("I live")
        assert text[begin:end].endswith("of it.")


def test_a_word_without_an_end_is_cut_all_the_same() -> None:
    assert len(pieces("x" * 3 * PIECE_CHARS)) > 2


def test_no_more_than_so_many() -> None:
    text = "一句话。" * 30_000
    found = pieces(text)
    assert len(found) == MAX_PIECES
    assert found[0][0] == 0


@given(st.text(st.sampled_from("ab 词语。.\n,，!x1🐬"), max_size=6000))
def test_pieces_hold_every_word_in_order_and_fit(text: str) -> None:
    found = pieces(text)
    at = 0
    covered = []
    for begin, end in found:
        assert at <= begin < end <= len(text)
        assert size(text[begin:end]) <= PIECE_CHARS
        assert SAYS.search(text[begin:end])
        covered.append(text[begin:end])
        at = end
    if len(found) < MAX_PIECES:
        assert SAYS.findall("".join(covered)) == SAYS.findall(text)
