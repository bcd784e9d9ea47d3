"""Who qualifies and in what order."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from memory_service.domain.model import Leg
from memory_service.domain.ranking import Candidate, RankingPolicy, rank, shortlist

DAY = 86_400_000_000
NOW = 20_000 * DAY
POLICY = RankingPolicy()
OPEN = replace(POLICY, relative_floor=0.0)


def candidate(
    name: str,
    similarity: float | None = None,
    keyword: float | None = None,
    *,
    identifier: bool = False,
    age: float = 0,
    matching: bool = True,
    other_subject: bool = False,
    other_language: bool = False,
) -> Candidate:
    return Candidate(
        name,
        similarity,
        keyword,
        identifier,
        NOW - round(age * DAY),
        other_subject=other_subject,
        other_language=other_language,
        attribute_match=matching,
    )


def ids(
    *candidates: Candidate,
    policy: RankingPolicy = OPEN,
    top_k: int = 5,
    has_identifier: bool = False,
    similar: Callable[[str, str], bool] | None = None,
    one_question: bool = False,
) -> list[str]:
    found = rank(candidates, policy, NOW, top_k, has_identifier, similar, one_question=one_question)
    return [hit.id for hit in found]


def test_the_floor_on_meaning_is_exclusive_and_the_one_on_keywords_inclusive() -> None:
    assert ids(candidate("at", 0.30), candidate("above", 0.3001)) == ["above"]
    floor = POLICY.min_keyword
    assert ids(candidate("at", None, floor), candidate("below", None, floor - 0.001)) == ["at"]


def test_an_identifier_qualifies_alone() -> None:
    assert ids(candidate("order", -0.2, 0.05, identifier=True), candidate("other", 0.2, 0.1)) == ["order"]


def test_the_best_of_nothing_is_nothing() -> None:
    assert ids(candidate("a", 0.29, 0.1), candidate("b", None, None), candidate("c", -0.5, 0.0)) == []
    assert ids() == []


def test_a_zero_floor_on_keywords_does_not_let_in_what_shares_no_word() -> None:
    assert ids(candidate("a", None, 0.0), candidate("b", None, None), policy=replace(OPEN, min_keyword=0.0)) == []


def test_the_score_is_the_weighted_sum_and_recency() -> None:
    hit = rank([candidate("a", 0.5, 0.4, age=30)], OPEN, NOW, 5, False)[0]
    assert hit.score == pytest.approx(0.65 * 0.5 + 0.35 * 0.4 + 0.05 * 0.5)
    hit = rank([candidate("a", 0.5, 0.4, age=30)], OPEN, NOW, 5, True)[0]
    assert hit.score == pytest.approx(0.3 * 0.5 + 0.7 * 0.4 + 0.05 * 0.5)
    assert (hit.similarity, hit.keyword_score) == (0.5, 0.4)


def test_with_an_identifier_the_keyword_decides() -> None:
    meaning, word = candidate("meaning", 0.9, 0.1), candidate("word", 0.35, 0.5)
    assert ids(meaning, word) == ["meaning", "word"]
    assert ids(meaning, word, has_identifier=True) == ["word", "meaning"]


def test_of_two_equals_the_newer_then_the_smaller_id_comes_first() -> None:
    assert ids(candidate("old", 0.5, age=300), candidate("new", 0.5, age=1)) == ["new", "old"]
    policy = replace(OPEN, recency_weight=0.0)
    assert ids(candidate("old", 0.5, age=9), candidate("new", 0.5, age=1), policy=policy) == ["new", "old"]
    assert ids(candidate("b", 0.5), candidate("a", 0.5)) == ["a", "b"]


def test_a_memory_of_the_future_counts_as_now() -> None:
    assert rank([candidate("a", 0.5, age=-900)], OPEN, NOW, 5, False)[0].score == pytest.approx(0.65 * 0.5 + 0.05)


def test_those_that_lack_an_attribute_come_after_those_that_match() -> None:
    assert ids(candidate("lacks", 0.9, matching=False), candidate("fits", 0.4)) == ["fits", "lacks"]
    assert ids(candidate("lacks", 0.9, matching=False), candidate("fits", 0.4), top_k=1) == ["fits"]


def test_near_duplicates_of_a_better_hit_go_last() -> None:
    def similar(a: str, b: str) -> bool:
        return a[0] == b[0]

    hits = [candidate("a1", 0.9), candidate("a2", 0.8), candidate("b1", 0.5), candidate("a3", 0.7)]
    assert ids(*hits, similar=similar) == ["a1", "b1", "a2", "a3"]
    assert ids(*hits, similar=similar, top_k=2) == ["a1", "b1"]
    assert ids(*hits, similar=similar, top_k=3) == ["a1", "b1", "a2"]
    lacking = [*hits, candidate("b2", 0.9, matching=False), candidate("c1", 0.4, matching=False)]
    assert ids(*lacking, similar=similar, top_k=9) == ["a1", "b1", "a2", "a3", "c1", "b2"]


def test_what_is_far_below_the_best_hit_is_left_out_but_never_an_identifier() -> None:
    hits = [candidate("best", 0.9, 0.5), candidate("weak", 0.31), candidate("id", 0.0, 0.1, identifier=True)]
    assert ids(*hits, policy=POLICY) == ["best", "id"]
    assert ids(*hits, policy=OPEN) == ["best", "weak", "id"]


def test_a_perfect_hit_does_not_drive_out_more_than_a_clear_one() -> None:
    assert ids(candidate("same", 1.0, 0.9), candidate("kin", 0.6), policy=POLICY) == ["same", "kin"]


def test_old_memories_are_not_left_out_for_their_age() -> None:
    assert ids(candidate("new", 0.31, age=0), candidate("old", 0.31, age=3000), policy=POLICY) == ["new", "old"]


def test_hits_say_how_they_qualified() -> None:
    both, word, meaning = rank(
        [candidate("both", 0.9, 0.9), candidate("word", None, 0.9), candidate("meaning", 0.4, 0.1)], OPEN, NOW, 5, False
    )
    assert both.legs(Leg.INDEX) == (Leg.INDEX, Leg.KEYWORD)
    assert word.legs(Leg.EXACT) == (Leg.KEYWORD,)
    assert meaning.legs(Leg.EXACT) == (Leg.EXACT,)


def test_min_similarity_of_minus_one_lets_all_vectors_in() -> None:
    policy = replace(OPEN, min_similarity=-1.0)
    assert ids(candidate("a", -0.9), candidate("b", 0.1), candidate("none", None), policy=policy) == ["b", "a"]


def test_shortlist_names_exactly_the_rows_that_qualify() -> None:
    rows = {name: row for row, name in enumerate("abcdef")}
    near = np.array([0.5, 0.30, np.nan, 0.1, -1.0, 0.31])
    words = {"b": 0.2, "c": 0.9, "gone": 1.0}
    assert shortlist(rows, near, words, {"e", "gone"}, POLICY) == [0, 2, 4, 5]
    assert shortlist(rows, None, words, (), POLICY) == [2]
    assert shortlist({}, np.empty(0), {}, (), POLICY) == []


def test_a_memory_about_somebody_else_comes_after_and_goes_where_it_is_far_behind() -> None:
    mine, hers = candidate("mine", 0.45), candidate("hers", 0.5, other_subject=True)
    assert ids(hers, mine) == ["mine", "hers"]
    assert ids(hers, mine, policy=POLICY) == ["mine"]
    assert ids(hers, policy=POLICY) == ["hers"]


def test_a_memory_in_another_language_comes_after_and_is_found_where_it_is_the_best() -> None:
    own, foreign = candidate("own", 0.45), candidate("foreign", 0.5, other_language=True)
    assert ids(foreign, own) == ["own", "foreign"]
    assert ids(foreign, candidate("own", 0.2), policy=POLICY) == ["foreign"]


def test_an_identifier_counts_whoever_it_is_about_and_in_any_language() -> None:
    order = candidate("order", 0.5, 0.5, identifier=True, other_subject=True, other_language=True)
    assert ids(candidate("other", 0.45, 0.4), order) == ["order", "other"]


def test_one_question_leaves_out_more_than_a_message() -> None:
    best, second = candidate("best", 0.6), candidate("second", 0.5)
    assert ids(best, second, policy=POLICY) == ["best", "second"]
    assert ids(best, second, policy=POLICY, one_question=True) == ["best"]
    assert ids(best, candidate("close", 0.56), policy=POLICY, one_question=True) == ["best", "close"]
    assert ids(best, second, one_question=True) == ["best", "second"], "a caller's own floor turns this off"
