"""The decision table: layers, thresholds, order of time, and what a reason says."""

from dataclasses import replace

import pytest

from memory_service.domain.dedup import Decision, DedupPolicy, Neighbour, Statement, decide
from memory_service.domain.model import Outcome, ReasonCode, Shard

GUARDED = DedupPolicy()
LITERAL = DedupPolicy(conflict_policy="threshold")
DAY = 86_400_000_000


def said(content: str, shard: Shard = Shard.GENERAL, **rest: object) -> Statement:
    return replace(Statement(content=content, shard=shard), **rest)  # type: ignore[arg-type]


def near(content: str | Statement, similarity: float, id: str = "old") -> Neighbour:
    return Neighbour(id, content if isinstance(content, Statement) else said(content), similarity)


def ask(draft: str | Statement, *neighbours: Neighbour, policy: DedupPolicy = GUARDED) -> Decision:
    return decide(draft if isinstance(draft, Statement) else said(draft), None, neighbours, policy)


def test_the_exact_layer_comes_first_and_asks_for_no_likeness() -> None:
    decision = decide(said("我用 MySQL 8"), "same", [near("我用 MySQL 9", 0.99)], GUARDED)
    assert (decision.outcome, decision.code, decision.matched_id) == (Outcome.DUPLICATE, ReasonCode.EXACT, "same")
    assert decision.similarity is None


def test_without_neighbours_it_is_new() -> None:
    decision = ask("我喜欢绿茶")
    assert decision == Decision(outcome=Outcome.ADDED, code=ReasonCode.NEW, reason="No active memory says this.")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("我有两个孩子", "我有两个小孩"),
        ("我喜欢绿茶", "我喜欢绿茶。"),
        ("我喜欢绿茶", "我 喜欢 绿茶"),
        ("I have two kids", "I have 2 kids"),
        ("I am allergic to peanuts", "I'm allergic to peanuts."),
    ],
)
def test_the_same_meaning_with_the_same_values_is_a_duplicate(old: str, new: str) -> None:
    decision = ask(new, near(old, 0.85))
    assert (decision.outcome, decision.code) == (Outcome.DUPLICATE, ReasonCode.SAME_MEANING)
    assert (decision.matched_id, decision.similarity) == ("old", 0.85)
    assert ask(new, near(old, 0.849)).outcome is Outcome.ADDED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("我用 MySQL 8", "我用 MySQL 9"),
        ("我喝咖啡", "我不喝咖啡"),
        ("I like sushi", "I don't like sushi"),
        ("I love Chinese food", "I hate Chinese food"),
        ("My name is liguoyu", "My name is liguosong"),
        ("My favourite player is Ronaldo", "My favourite player is now Messi"),
        ("我住在北京", "我住在上海"),
        ("I live in Paris", "I live in Berlin"),
        ("我今年 30 岁", "我今年 31 岁"),
    ],
)
@pytest.mark.parametrize("similarity", [0.75, 0.84, 0.97])
def test_another_state_value_replaces(old: str, new: str, similarity: float) -> None:
    decision = ask(new, near(old, similarity))
    assert (decision.outcome, decision.code) == (Outcome.REPLACED, ReasonCode.STATE_CHANGED)
    assert (decision.matched_id, decision.similarity) == ("old", similarity)
    assert ask(new, near(old, 0.749)).outcome is Outcome.ADDED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("订单 12345 已付款", "订单 12346 已付款"),
        ("10 月 15 日体检", "10 月 16 日体检"),
        ("小王爱喝咖啡", "小李爱喝咖啡"),
        ("我对花生过敏", "我对海鲜过敏"),
        ("我喜欢吃苹果", "我喜欢吃香蕉"),
        ("用户喜欢简洁回答", "用户的项目是 DocMind"),
        ("My daughter is 5", "My son is 5"),
        ("Alex works in Payments", "Bob works in Payments"),
        ("run 1: latency 103 ms", "run 2: latency 130 ms"),
    ],
)
@pytest.mark.parametrize("similarity", [0.75, 0.86, 0.99])
def test_another_event_or_subject_stays_beside(old: str, new: str, similarity: float) -> None:
    decision = ask(new, near(old, similarity))
    assert (decision.outcome, decision.code) == (Outcome.ADDED, ReasonCode.NEW)
    assert (decision.matched_id, decision.similarity) == (None, None)
    assert "old" in decision.reason


@pytest.mark.parametrize("shards", [(Shard.TRANSACTION, Shard.GENERAL), (Shard.GENERAL, Shard.TRANSACTION)])
def test_a_transaction_is_never_replaced_nor_replaces(shards: tuple[Shard, Shard]) -> None:
    old, new = said("我用 MySQL 8", shards[0]), said("我用 MySQL 9", shards[1])
    assert ask(new, near(old, 0.8)).outcome is Outcome.ADDED


def test_another_event_key_is_another_event() -> None:
    old, new = said("订了一杯拿铁", event_key="2026W40"), said("订了一杯拿铁。", event_key="2026W41")
    assert ask(new, near(old, 0.99)).outcome is Outcome.ADDED
    assert ask(replace(new, event_key="2026W40"), near(old, 0.99)).outcome is Outcome.DUPLICATE
    state = said("我用 MySQL 8", event_key="2026W40")
    assert ask(said("我用 MySQL 9", event_key="2026W41"), near(state, 0.8)).outcome is Outcome.ADDED


def test_the_day_a_state_was_stated_does_not_make_an_event_of_it() -> None:
    old = said("我住在北京", occurred_at=5 * DAY, event_key="1970-01-06")
    new = said("我住在上海", occurred_at=9 * DAY, event_key="1970-01-10")
    assert ask(new, near(old, 0.8)).outcome is Outcome.REPLACED


def test_an_earlier_statement_is_stored_as_superseded_by_the_later() -> None:
    old = said("我住在上海", occurred_at=9 * DAY)
    for policy in (GUARDED, LITERAL):
        decision = ask(said("我住在北京", occurred_at=5 * DAY), near(old, 0.8), policy=policy)
        assert (decision.outcome, decision.code, decision.matched_id) == (Outcome.ADDED, ReasonCode.OLDER, "old")
        assert "earlier" in decision.reason
    assert ask(said("我住在北京", occurred_at=9 * DAY), near(old, 0.8)).outcome is Outcome.REPLACED
    assert ask(said("我住在北京"), near(old, 0.8)).outcome is Outcome.REPLACED


def test_only_the_most_similar_one_is_replaced() -> None:
    decision = ask("我用 MySQL 9", near("我用 MySQL 7", 0.78, "seven"), near("我用 MySQL 8", 0.82, "eight"))
    assert decision.matched_id == "eight"
    # What does not make the same statement is passed over, however near it is.
    decision = ask("我用 MySQL 9", near("我用 PostgreSQL 9", 0.84, "other"), near("我用 MySQL 8", 0.8, "eight"))
    assert decision.matched_id == "eight"
    assert ask("我用 MySQL 9", near("我用 MySQL 7", 0.8, "b"), near("我用 MySQL 8", 0.8, "a")).matched_id == "a"


def test_a_duplicate_is_looked_for_among_all_before_anything_is_replaced() -> None:
    decision = ask("我用 MySQL 9", near("我用 MySQL 8", 0.95, "eight"), near("我使用 MySQL 9", 0.86, "nine"))
    assert (decision.outcome, decision.matched_id) == (Outcome.DUPLICATE, "nine")


@pytest.mark.parametrize("cut", ["old", "new"])
def test_a_text_of_which_only_a_part_was_embedded_meets_the_exact_layer_only(cut: str) -> None:
    old, new = said("我用 MySQL 8", cut=cut == "old"), said("我用 MySQL 9", cut=cut == "new")
    assert ask(new, near(old, 0.8)).outcome is Outcome.ADDED
    assert decide(new, "same", [near(old, 0.8)], GUARDED).outcome is Outcome.DUPLICATE


@pytest.mark.parametrize("text", ["我每天都在写很长的日记。" * 12 + "我用 MySQL 8", "word " * 110 + "I use MySQL 8"])
def test_long_texts_meet_the_exact_layer_only(text: str) -> None:
    changed = text.replace("8", "9")
    for policy in (GUARDED, LITERAL):
        assert ask(changed, near(text, 0.99), policy=policy).outcome is Outcome.ADDED
        assert ask(text + "。", near(text, 1.0), policy=policy).outcome is Outcome.ADDED
    assert ask(changed, near(text, 0.99), policy=DedupPolicy(max_tokens=1000)).outcome is Outcome.REPLACED


def test_the_literal_rule_replaces_everything_between_the_thresholds() -> None:
    for old in ("订单 12345 已付款", "完全不同的话", "我喜欢绿茶。"):
        decision = ask("我喜欢绿茶", near(old, 0.8), policy=LITERAL)
        assert (decision.outcome, decision.matched_id) == (Outcome.REPLACED, "old")
        assert old not in decision.reason
    assert ask("我喜欢绿茶", near("完全不同的话", 0.74), policy=LITERAL).outcome is Outcome.ADDED
    assert ask("我喜欢绿茶", near("我喜欢绿茶。", 0.85), policy=LITERAL).outcome is Outcome.DUPLICATE
    assert ask("订单 12346 已付款", near("订单 12345 已付款", 0.9), policy=LITERAL).outcome is Outcome.ADDED


def test_thresholds_are_the_policys() -> None:
    policy = DedupPolicy(update=0.5, same_meaning=0.6)
    assert ask("我用 MySQL 9", near("我用 MySQL 8", 0.5), policy=policy).outcome is Outcome.REPLACED
    assert ask("我喜欢绿茶。", near("我喜欢绿茶", 0.6), policy=policy).outcome is Outcome.DUPLICATE


def test_a_reason_names_the_layer_and_no_more_of_the_other_text_than_the_value() -> None:
    replaced = ask("我在公司的项目里用 MySQL 9", near("我在公司的项目里用 MySQL 8", 0.9))
    assert replaced.reason == "Layer 3, update: same statement as old, version 8 → 9."
    same = ask("我有两个小孩", near("我有两个孩子", 0.98))
    assert same.reason.startswith("Layer 2, same meaning: old ")
    assert "孩子" not in same.reason
    secret = "a very private long story about my neighbour and his unlucky parrot Coco"
    beside = ask("I like tea", near(f"I like tea and {secret}", 0.9))
    assert beside.outcome is Outcome.ADDED
    assert secret[:20] not in beside.reason
    beside = ask("和 Anna 吃饭", near(f"和 {' '.join(f'Name{i}x' for i in range(40))} 吃饭", 0.9))
    assert len(beside.reason) < 200


def test_why_it_stays_beside_is_said() -> None:
    assert "another event or subject" in ask("10 月 16 日体检", near("10 月 15 日体检", 0.9)).reason
    assert "not certain" in ask("我喜欢吃香蕉", near("我喜欢吃苹果", 0.9)).reason
    assert "event of its own" in ask(said("付款 9 元", Shard.TRANSACTION), near("付款 8 元", 0.9)).reason
    assert "not alike enough" in ask("我有两个小孩", near("我有两个孩子", 0.8)).reason
