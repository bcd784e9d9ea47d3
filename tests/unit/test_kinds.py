"""Questions that ask for a kind, and the lexicon."""

from importlib import resources

import pytest

from memory_service.domain.keywords import KeywordIndex, tokens
from memory_service.domain.kinds import KIND, keyword_scores
from memory_service.domain.ranking import RankingPolicy

FLOOR = RankingPolicy().min_keyword
MEMORIES = (
    "我用 MySQL 8",
    "用户养了一只猫",
    "User browses with Safari",
    "用户的手机是 iPhone 15",
    "用户平时写 Rust",
    "用户住在成都",
    "The user plays the cello",
    "用户喜欢简洁回答",
    "User takes the train and wants a window seat",
)


def index_of(*texts: str) -> KeywordIndex:
    return KeywordIndex.build((text, tokens(text)) for text in texts)


def found(query: str, *texts: str) -> set[str]:
    return {text for text, score in keyword_scores(query, index_of(*(texts or MEMORIES))).items() if score >= FLOOR}


@pytest.mark.parametrize(
    ("query", "memory"),
    [
        ("他的数据库是什么", "我用 MySQL 8"),
        ("数据库", "我用 MySQL 8"),
        ("what database do I use", "我用 MySQL 8"),
        ("Which databases do we use?", "我用 MySQL 8"),
        ("我的宠物是什么", "用户养了一只猫"),
        ("What pet do I have?", "用户养了一只猫"),
        ("我用什么浏览器", "User browses with Safari"),
        ("which phone does the user have", "用户的手机是 iPhone 15"),
        ("常用的编程语言", "用户平时写 Rust"),
        ("我住在哪个城市", "用户住在成都"),
        ("我会什么乐器", "The user plays the cello"),
    ],
)
def test_a_question_for_a_kind_finds_the_memory_that_names_a_member(query: str, memory: str) -> None:
    assert found(query) == {memory}


@pytest.mark.parametrize(
    "query",
    [
        "今天天气怎么样",
        "推荐一部电影",
        "推荐一个数据库",
        "什么是数据库",
        "what is a database",
        "How do I install a database?",
        "recommend me a programming language",
        "世界上最流行的编程语言是什么",
        "数据库备份几点做",
        "When does the database backup run at night?",
        "what is the weather today",
        "the petrol station",
        "databased",
        "",
    ],
)
def test_a_question_about_something_else_finds_nothing(query: str) -> None:
    assert found(query) == set()


def test_only_what_the_memories_hold_counts() -> None:
    assert keyword_scores("他的数据库是什么", index_of("用户喜欢简洁回答")) == {}
    assert keyword_scores("他的数据库是什么", KeywordIndex.empty()) == {}


def test_a_member_of_several_words_must_be_there_whole() -> None:
    assert found("哪个编辑器", "User writes in Visual Studio Code") == {"User writes in Visual Studio Code"}
    assert found("他的数据库是什么", "There is a server in the cellar") == set()


def test_a_member_counts_less_than_the_word_and_never_twice() -> None:
    texts = ("测试环境的数据库是 Oracle", "我用 MySQL 8")
    scores = keyword_scores("数据库", index_of(*texts))
    assert 0 < scores[texts[1]] <= KIND < scores[texts[0]]
    assert scores[texts[0]] == index_of(*texts).scores(tokens("数据库"))[texts[0]]


def test_scores_without_a_kind_are_those_of_the_words() -> None:
    index = index_of(*MEMORIES)
    for query in ("window seat", "简洁回答", "MySQL"):
        assert keyword_scores(query, index) == index.scores(tokens(query))


@pytest.mark.parametrize("query", ["宠物数据库手机" * 400, "database " * 900, "哪" * 4000])
def test_scores_stay_in_range_for_long_text(query: str) -> None:
    assert all(0 < score <= 1 for score in keyword_scores(query, index_of(*MEMORIES)).values())


def test_the_lexicon_can_be_found_in_memories() -> None:
    lines = (resources.files("memory_service") / "data/kinds.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert rows[0] == ["kind", "members"]
    assert len(rows) > 40
    for names, members in rows[1:]:
        assert all(tokens(name) for name in names.split(",")), names
        for member in members.split(","):
            # A lone character that is left of a word between two particles would match nearly anything.
            lone = [token for token in tokens(member) if len(token) == 1 and not token.isascii()]
            assert tokens(member), f"{names}: {member}"
            assert not lone or len(member) == 1, f"{names}: {member}"
