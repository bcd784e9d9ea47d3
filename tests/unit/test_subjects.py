"""Whom a question and a memory are about, and what a statement tells without its subject."""

import pytest

from memory_service.domain.subjects import about_others, chinese, of_self, one_question, told


@pytest.mark.parametrize(
    "query",
    ["我住在哪", "我们用什么数据库", "What is my job?", "Where do we deploy?", "How do I keep my notes?", "咱家的车"],
)
def test_questions_that_speak_of_the_one_who_asks(query: str) -> None:
    assert of_self(query)


@pytest.mark.parametrize(
    "query",
    [
        "长城有多长",
        "帮我写一首诗",
        "请帮我给公司起个名字",
        "给我讲个笑话",
        "How do I boil an egg?",
        "Tell me a joke",
        "Suggest a title for my blog post",
        "Please translate my letter",
        "What is the capital of Peru?",
        "Who leads the US?",
        "When did World War I end?",
        "",
    ],
)
def test_questions_about_the_world_and_orders_do_not(query: str) -> None:
    assert not of_self(query)


@pytest.mark.parametrize(
    ("query", "memory"),
    [
        ("我是做什么工作的", "用户的妻子是儿科医生"),
        ("我住在哪里", "我爸住在南京"),
        ("Where do I live?", "The user's mother lives in Galway"),
        ("Where do I live?", "My best friend lives in Oslo"),
        ("我妻子做什么工作", "用户在物流公司当组长"),
        ("Who is my boss?", "The user has a work laptop"),
        ("What does my son eat?", "The user's sister eats no meat"),
    ],
)
def test_people_who_are_surely_not_the_same(query: str, memory: str) -> None:
    assert about_others(query)(memory)


@pytest.mark.parametrize(
    ("query", "memory"),
    [
        ("我妻子做什么工作", "用户的太太是儿科医生"),
        ("我爸的健康状况", "The user's father had heart surgery"),
        ("Who is my boss?", "用户的领导在柏林"),
        ("What do my kids like?", "The user's daughter plays the cello"),
        ("我对象是干什么的", "用户的女朋友在上海做插画师"),
        ("谁给我做饭", "用户的奶奶每天做饭"),
        ("我家人住在哪", "用户的母亲住在南京"),
        ("Where do I live?", "The user lives with a sister in Oslo"),
        ("我住在哪里", "用户住在杭州"),
        ("柏林办公室有谁", "用户的领导在柏林"),
        ("Who was Napoleon?", "The user's brother collects stamps"),
        ("Java 对象怎么序列化", "用户用 Jackson"),
    ],
)
def test_people_who_may_be_the_same(query: str, memory: str) -> None:
    assert not about_others(query)(memory)


@pytest.mark.parametrize(
    ("text", "is_chinese"),
    [
        ("用户的线上服务跑在 PostgreSQL 15 上", True),
        ("我用 MySQL 8", True),
        ("The user ordered 麻婆豆腐 for the whole team in Chengdu on Friday evening", False),
        ("The user lives in Berlin", False),
        ("15", False),
        ("", False),
    ],
)
def test_the_language_a_text_is_written_in(text: str, is_chinese: bool) -> None:
    assert chinese(text) is is_chinese


def test_one_question_and_a_message_of_several_sentences() -> None:
    assert one_question("我住在哪?")
    assert one_question("Which version is it, 1.2 or 1.3?")
    assert not one_question("我今天很累。想吃点辣的")
    assert not one_question("I am tired. What should I eat?")
    assert not one_question("first line\nsecond line")
    assert not one_question("why " * 40)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("用户的妻子是医生", "妻子是医生"),
        ("用户喜欢茶。用户也喜欢咖啡", "喜欢茶。也喜欢咖啡"),
        ("我喜欢茶", "喜欢茶"),
        ("我用 MySQL 8", "用 MySQL 8"),
        ("The user's sister is a doctor", "sister is a doctor"),
        ("User lives in Berlin. The user works in Potsdam", "lives in Berlin. works in Potsdam"),
        ("I like tea", "like tea"),
        ("用户名是唯一的", "用户名是唯一的"),
        ("用户登录要两步验证", "用户登录要两步验证"),
        ("The user interface is blue", "The user interface is blue"),
        ("我们用 Kafka", "我们用 Kafka"),
        ("Ask the user's sister", "Ask the user's sister"),
        ("用户", "用户"),
        ("I", "I"),
        ("", ""),
    ],
)
def test_what_a_statement_tells_without_the_user_as_its_subject(text: str, rest: str) -> None:
    assert told(text) == rest


def test_a_statement_in_either_person_tells_the_same() -> None:
    assert told("我喜欢喝茶") == told("用户喜欢喝茶") == "喜欢喝茶"
    assert told("My dog is ill") == told("The user's dog is ill")
