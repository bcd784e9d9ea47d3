"""Citation coverage of answers."""

import pytest

from assembler_service.domain.coverage import citation_coverage


@pytest.mark.parametrize(
    ("answer", "sentences", "cited_sentences", "cited", "invalid"),
    [
        ("It is so [1]. And so.[2] Not this one.", 3, 2, (1, 2), ()),
        ("北京很大。[1]人口两千万［2］。没有引用的一句。", 3, 2, (1, 2), ()),
        ("答案是这样【3】。", 1, 1, (3,), ()),
        ("Both [1][2]. A list [1, 3]. A range [2-4].", 3, 3, (1, 2, 3, 4), ()),
        ("Made up [9]. Zero [0].", 2, 0, (), (0, 9)),
        ("Mixed [1] and wrong [7].", 1, 1, (1,), (7,)),
        ("# Heading\n\n- point one [1]\n- point two\n", 2, 1, (1,), ()),
        ("1. First [1]\n2. Second\n", 2, 1, (1,), ()),
        ("Use `a[0]` like:\n```py\nx = a[5]. y\n```\nDone [1].", 2, 1, (1,), ()),
        ("Version 3.5 costs e.g. 4.20 euros [1].", 1, 1, (1,), ()),
        (r"An escaped \[3\] is none.", 1, 0, (), ()),
        ("", 0, 0, (), ()),
        ("[1]", 0, 0, (1,), ()),
        ("---\n***", 0, 0, (), ()),
        ("先备份；再演练；最后升级。[1]", 1, 1, (1,), ()),
        ("他说……然后走了[1]。", 1, 1, (1,), ()),
        ("还有别的……[2]没有了。", 2, 1, (2,), ()),
        ("[1] 手册建议先备份。\n[2] 文档建议演练。", 2, 2, (1, 2), ()),
        ("先备份。\n\n[1][2]\n然后升级。", 2, 1, (1, 2), ()),
        ("先备份\r\n[1]\r\n---\r\n", 1, 1, (1,), ()),
        ("Is it so? [1] No. [2] See no. 4 of it.", 3, 2, (1, 2), ()),
    ],
)
def test_coverage(
    answer: str, sentences: int, cited_sentences: int, cited: tuple[int, ...], invalid: tuple[int, ...]
) -> None:
    got = citation_coverage(answer, 5)
    assert (got.sentences, got.cited_sentences, got.cited, got.invalid) == (sentences, cited_sentences, cited, invalid)
    assert got.coverage == (cited_sentences / sentences if sentences else None)


def test_no_sources_no_coverage() -> None:
    got = citation_coverage("It is [1].", 0)
    assert (got.coverage, got.invalid) == (None, (1,))


def test_hostile_answers_are_measured_in_time() -> None:
    for answer in (
        "[" * 100_000,
        "[1" * 50_000,
        "[1,2" * 20_000,
        "." * 100_000,
        "." * 100_000 + "x",
        "…" * 100_000 + "中",
        " " * 100_000 + "x",
        "\n " * 50_000 + "x",
        "[1" + " " * 100_000,
        "```" * 30_000,
        "[1-999999999].",
        " [1]" * 20_000,
    ):
        assert citation_coverage(answer, 3).sentences >= 0
