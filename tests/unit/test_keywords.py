"""Tokens, what identifies, and the index."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service.domain.keywords import KeywordIndex, asks_nothing, identifiers, rare_names, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("他的数据库是什么", ("数据", "据库")),
        ("今天天气怎么样", ("天气",)),
        ("企业", ("企业",)),
        ("猫", ("猫",)),
        ("カタカナ", ("カタ", "タカ", "カナ")),
        ("안녕하세요 세계", ("안녕", "녕하", "하세", "세요", "세계")),
        ("C++ AND (foo", ("c++", "foo")),
        ("C# and F#, .NET", ("c#", "f#", ".net")),
        ("订单 12346 已付款", ("订单", "12346", "已付", "付款")),
        ("1,234,567 euros", ("1234567", "euro")),
        ("version 2.3.5", ("version", "2.3.5")),
        ("面积 5²", ("面积", "5²")),
        ("привет мир", ("привет", "мир")),
        ("the state-of-the-art", ("state", "art")),
        ("我们都去成都弹吉他", ("去成", "成都", "都弹", "弹吉", "吉他")),
        ("user's don't l'été", ("user", "ete")),
    ],
)
def test_tokens(text: str, expected: tuple[str, ...]) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    "text", ["", " ", "the", "What is it?", "什么", "这是我的", "😀😀😀", "?!。", "___", "où est la", "\u200b"]
)
def test_what_says_nothing_has_no_token(text: str) -> None:
    assert tokens(text) == ()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("databases", "database"),
        ("Running", "runs"),
        ("MySQL", "mysql"),
        ("ＭｙＳＱＬ", "mysql"),
        ("Préférées", "preferees"),
        ("cafe\u0301", "café"),
        (r"C:\\repo\\main.py", r"c:\repo\main.py"),
    ],
)
def test_forms_of_one_word_are_one_token(a: str, b: str) -> None:
    assert tokens(a) == tokens(b)


@pytest.mark.parametrize(
    ("text", "whole", "part"),
    [
        (r"C:\repo\main.py", r"c:\repo\main.py", "main"),
        ("ORD-2024-0001", "ord-2024-0001", "0001"),
        ("user_id", "user_id", "id"),
        ("a.lee@example.com", "a.lee@example.com", "lee"),
        ("https://example.com/a/b?x=1.", "https://example.com/a/b?x=1", "exampl"),
        ("/etc/nginx/nginx.conf", "/etc/nginx/nginx.conf", "nginx"),
        ("MySQL8", "mysql8", "mysql"),
    ],
)
def test_a_compound_is_whole_and_its_parts(text: str, whole: str, part: str) -> None:
    assert {whole, part} <= set(tokens(text))


def test_one_stem_does_not_swallow_another_word() -> None:
    assert tokens("Java")[0] not in tokens("JavaScript")
    assert set(tokens("12345")).isdisjoint(tokens("12346"))


def test_long_hostile_text_is_quick_enough_to_finish() -> None:
    for unit in ("a.b@", "/a", "12,", "a'", "^", "你", "a_", "1."):
        text = unit * (8000 // len(unit))
        assert isinstance(tokens(text), tuple)
        assert isinstance(identifiers(text), frozenset)


@given(st.text(max_size=200))
def test_any_text_has_tokens_that_are_found_again(text: str) -> None:
    words = tokens(text)
    assert all(words)
    assert identifiers(text) <= set(words)
    if words:
        assert KeywordIndex.build([("m", words)]).scores(words)["m"] > 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("订单 12345 到哪了", {"12345"}),
        ("call 138-0000-0000", {"138-0000-0000"}),
        ("8848 米", {"8848"}),
        ("in 2024", set()),
        ("我用 MySQL 8", set()),
        ("upgrade to 2.3.5", {"2.3.5"}),
        ("what is user_id in os.path", {"user_id", "os.path"}),
        ("mail a.lee@example.com", {"a.lee@example.com"}),
        ("体检 2026-11-30", {"2026-11-30"}),
        ("DocMind and GitHub", set()),
        ("plain words only", set()),
    ],
)
def test_identifiers(text: str, expected: set[str]) -> None:
    assert identifiers(text) == expected


def index_of(*texts: str) -> KeywordIndex:
    return KeywordIndex.build((f"m{number}", tokens(text)) for number, text in enumerate(texts))


def test_a_rare_name_is_a_proper_name_that_few_memories_hold() -> None:
    index = index_of("用户的项目是 DocMind", "Hannah marries in Lisbon", "用户喜欢简洁回答")
    assert rare_names("docmind 是什么", index) == {"docmind"}
    assert rare_names("When does Hannah marry?", index) == {"hannah"}
    assert rare_names("what is docmind", index) == frozenset()
    assert rare_names("Lisbon?", index) == frozenset()
    assert rare_names("Is Oslo far?", index) == frozenset()
    assert rare_names("WHERE DOES HANNAH LIVE", index) == frozenset()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("小李喜欢什么", {"小李"}),
        ("老王最近怎么样", {"老王"}),
        ("王老师教什么", {"王老"}),
        ("李总的电话", {"李总"}),
        ("同事陈静负责什么", {"陈静"}),
        ("我朋友叫什么", set()),
        ("小时候的事", set()),
        ("小黄车怎么扫码", set()),
        ("本周总结写了吗", set()),
        ("小赵在哪", set()),
    ],
)
def test_chinese_names_are_told_by_how_one_says_them(query: str, expected: set[str]) -> None:
    index = index_of(
        "小李爱喝咖啡", "老王搬家了", "王老师教物理", "李总姓李", "陈静负责前端", "小黄开会", "每周总部例会", "周总"
    )
    assert rare_names(query, index) == expected


def test_a_name_in_many_memories_is_not_rare() -> None:
    index = index_of(*[f"Hannah likes thing number {number}" for number in range(10)])
    assert rare_names("what does Hannah like", index) == frozenset()


@pytest.mark.parametrize(
    "query",
    [
        "",
        "ok",
        "OK!",
        "the",
        "why?",
        "好的",
        "嗯嗯",
        "谢谢你",
        "为什么？",
        "😀😀😀",
        "。。。",
        "thank you",
        "No, thanks",
    ],
)
def test_queries_that_ask_for_nothing(query: str) -> None:
    assert asks_nothing(query)


@pytest.mark.parametrize(
    "query", ["who am I", "我是谁", "我的呢", "12345", "今天天气怎么样", "what do I like", "猫", "C++"]
)
def test_queries_that_ask(query: str) -> None:
    assert not asks_nothing(query)


def test_a_score_is_relative_to_the_most_that_the_query_could_reach() -> None:
    index = index_of("用户养了一只猫", "用户住在杭州", "The user plays tennis")
    full, half = index.scores(tokens("tennis")), index.scores(tokens("tennis marathon"))
    assert list(full) == ["m2"]
    assert 0.7 < full["m2"] < 1
    assert 0.25 < half["m2"] < full["m2"] / 2 + 0.01
    assert index.scores(tokens("marathon")) == {}
    assert index.scores(()) == {}
    assert KeywordIndex.empty().scores(("tennis",)) == {}


def test_one_word_of_many_stays_low_even_when_it_is_the_best_there_is() -> None:
    index = index_of("The user plays tennis")
    score = index.scores(tokens("write a long poem about snow, mountains, rivers and tennis"))["m0"]
    assert score < 0.2


def test_keyword_alone_answers_chinese_english_and_french() -> None:
    index = index_of(
        "企业微信是公司的沟通工具", "J'adore le café à Lyon", "用户的项目是 DocMind", "用户养了一只猫", "小李爱喝咖啡"
    )
    for query, wanted in {
        "企业": "m0",
        "où est le café préféré": "m1",
        "DocMind 是什么": "m2",
        "我的猫": "m3",
        "小李的咖啡": "m4",
    }.items():
        scores = index.scores(tokens(query))
        assert max(scores, key=scores.__getitem__) == wanted, query
        assert scores[wanted] > 0.35, query
    assert index.scores(tokens("今天天气怎么样")) == {}


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    index = index_of(*["coffee every morning"] * 30, "tea once")
    scores = index.scores(tokens("coffee tea"))
    assert scores["m30"] > scores["m0"]


def test_holding_and_document_frequency() -> None:
    index = index_of("order 12345 paid", "order 12346 paid")
    assert index.holding({"12345"}) == {"m0"}
    assert index.holding({"12345", "12346", "1"}) == {"m0", "m1"}
    assert index.holding(()) == frozenset()
    assert index.document_frequency(tokens("order")[0]) == 2
    assert index.document_frequency("nothing") == 0


def test_holding_all_wants_every_token_of_one_group() -> None:
    index = index_of("SQL Server at work", "a server", "Redis cache", "养猫")
    assert index.holding_all([("sql", "server"), ("redi",)]) == {"m0", "m2"}
    assert index.holding_all([("sql", "cache"), ("nothing",)]) == frozenset()
    assert index.holding_all([("猫",)]) == {"m3"}
    assert index.holding_all([()]) == frozenset()
    assert index.holding_all([]) == frozenset()


def test_weight_is_what_a_score_is_divided_by() -> None:
    index = index_of(*["coffee every morning"] * 30, "tea once")
    assert index.weight(("coffe",)) < index.weight(("tea",)) < index.weight(("nothing",))
    assert index.weight(("tea", "tea")) == pytest.approx(2 * index.weight(("tea",)))
    assert index.weight(()) == 0


def test_a_change_leaves_the_snapshot_in_use_as_it_was() -> None:
    before = index_of("tennis on Sunday", "coffee")
    after = before.changed([("new", tokens("tennis club"))], ["m1"])
    assert set(before.scores(tokens("tennis"))) == {"m0"}
    assert before.scores(tokens("coffee"))
    assert len(before) == 2
    assert set(after.scores(tokens("tennis"))) == {"m0", "new"}
    assert after.scores(tokens("coffee")) == {}
    assert len(after) == 2
    assert len(after.changed((), ["m0", "new", "unknown"])) == 0


def test_adding_an_id_again_replaces_it() -> None:
    index = index_of("tennis").changed([("m0", tokens("coffee"))], ())
    assert len(index) == 1
    assert index.scores(tokens("tennis")) == {}
    assert index.scores(tokens("coffee"))
    assert index.changed([("m0", ())], ["m0"]).scores(tokens("coffee")) == {}


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 7), st.lists(st.sampled_from(["a1", "b2", "猫狗", "狗"]), max_size=5)), max_size=25
    ),
    st.randoms(),
)
def test_any_course_of_changes_equals_a_fresh_build(course: list[tuple[int, list[str]]], rnd: random.Random) -> None:
    index, model = KeywordIndex.empty(), dict[str, list[str]]()
    for number, words in course:
        id_ = f"m{number}"
        if rnd.random() < 0.3:
            index = index.changed((), [id_])
            model.pop(id_, None)
        else:
            index = index.changed([(id_, words)], ())
            model[id_] = words
    fresh = KeywordIndex.build(model.items())
    assert len(index) == len(model)
    for query in (["a1"], ["狗"], ["猫狗", "b2", "zz"]):
        assert index.scores(query) == pytest.approx(fresh.scores(query))
        assert index.holding(query) == fresh.holding(query)


def test_size_grows_with_content() -> None:
    small, large = index_of("tennis"), index_of(*[f"word{number} and thing{number}" for number in range(200)])
    assert 0 < small.size_bytes < large.size_bytes < 100_000
