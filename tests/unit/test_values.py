"""What two statements say differently: the examples are the specification of `compare`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_service.domain.values import Change, compare

SAME = [
    ("我有两个小孩", "我有两个孩子"),
    ("我喜欢绿茶", "我喜欢绿茶。"),
    ("我喜欢绿茶", "我 喜欢 绿茶"),
    ("我有三十个苹果", "我有30个苹果"),
    ("我早上七点半起床", "我早上 7:30 起床"),
    ("I have twenty-one books", "I have 21 books"),
    ("我不是不喜欢咖啡", "我喜欢咖啡"),
    ("我不得不加班", "我必须加班"),
    ("我觉得这家店不错", "我觉得这家店很不错"),
    ("我用无线耳机", "我用无线的耳机"),
    ("我住别墅", "我住在别墅"),
    ("Not only do I like tea", "I like tea"),
    ("I ride a horse", "I am riding a horse"),
    ("我的主力语言是 Java", "Java 是我的主力语言"),
    ("I'm 30 years old", "I am thirty years old"),
    ("会议在下午3点", "会议在 15:00"),
    ("２０２４年５月３日搬家", "2024-05-03 搬家"),
    ("我月薪一万五", "我月薪 1.5 万"),
]
STATE = [
    ("我月薪一万五千元", "我月薪一万元"),
    ("我用 MySQL 8", "我用 MySQL 9"),
    ("我用 mysql 8.0", "我用 mysql 8.4"),
    ("I use Python 3.10", "I use Python 3.12"),
    ("我喝咖啡", "我不喝咖啡"),
    ("我再也不喝咖啡了", "我喝咖啡"),
    ("I smoke", "I quit smoking"),
    ("I smoke", "I no longer smoke"),
    ("I like cats", "I can't stand cats"),
    ("I like it when people call me", "I don't like it when people call me"),
    ("我喜欢加班", "我讨厌加班"),
    ("我讨厌猫", "我不讨厌猫"),
    ("I live in Paris", "I now live in Berlin"),
    ("我住在北京", "我现在住在上海"),
    ("我住在北京市", "我住在上海市"),
    ("I work at Google", "I work at Meta"),
    ("Alex works in Payments", "Alex works in Search"),
    ("My favourite player is Ronaldo", "My favourite player is now Messi"),
    ("我最喜欢的球员是梅西", "我最喜欢的球员是罗纳尔多"),
    ("My name is liguoyu", "My name is liguosong"),
    ("我叫李国宇", "我叫李国松"),
    ("我的名字是李国宇", "我的名字是李国松"),
    ("我叫小明", "我叫小红"),
    ("Call me Bob", "Call me Rob"),
    ("叫我老周", "叫我老李"),
    ("项目用 MySQL 作为数据库", "项目用 PostgreSQL 作为数据库"),
    ("We use Slack as our chat tool", "We use Teams as our chat tool"),
    ("请用中文回答", "请用英文回答"),
    ("Please reply in English", "Please reply in French"),
    ("I am single", "I am married"),
    ("我单身", "我已婚"),
    ("我身高 175 厘米", "我身高 176 厘米"),
    ("My salary is 5000 dollars", "My salary is 6000 dollars"),
    ("我有一个孩子", "我有两个孩子"),
    ("I have a dog", "I have two dogs"),
    ("I have one dog", "I have two dogs"),
    ("我每天跑 5 公里", "我每天跑 10 公里"),
    ("我的老家在山东", "我的老家在河南"),
    ("My girlfriend likes cats", "My girlfriend doesn't like cats"),
    ("The feature flag is enabled", "The feature flag is disabled"),
    ("我开启了深色模式", "我关闭了深色模式"),
    ("My job is teacher", "My job is nurse"),
    ("I work as a nurse", "I work as a teacher"),
    ("我的职业是护士", "我的职业是教师"),
    ("我吃素", "我不吃素"),
    ("Our database is MySQL 8", "Our database is MySQL 9"),
    ("缓存用的是 Redis", "缓存用的是 Memcached"),
    ("用户每周健身三次", "用户每周健身五次"),
]
DISTINCT = [
    ("我们喜欢喝咖啡", "他们喜欢喝咖啡"),
    ("订单 12345 已付款", "订单 12346 已付款"),
    ("订单 123 已付款", "订单 124 已付款"),
    ("订单已付款", "订单未付款"),
    ("10 月 15 日体检", "10 月 16 日体检"),
    ("小王爱喝咖啡", "小李爱喝咖啡"),
    ("我对花生过敏", "我对海鲜过敏"),
    ("我喜欢吃苹果", "我喜欢吃香蕉"),
    ("My daughter is 5", "My son is 5"),
    ("Alex works in Payments", "Bob works in Payments"),
    ("run 1: latency 103 ms", "run 2: latency 130 ms"),
    ("latency 103 ms", "latency 130 ms"),
    ("我用 MySQL", "我用 PostgreSQL"),
    ("我用 MySQL 8", "我用 PostgreSQL 8"),
    ("I use Java", "I use Python"),
    ("我住在北京", "我在北京工作"),
    ("我住在北京", "我住在朝阳区"),
    ("I live in Paris", "I live in France"),
    ("I live in Paris", "I want to live in Berlin"),
    ("I lived in Paris", "I live in Berlin"),
    ("我以前住在北京", "我住在上海"),
    ("我打算住在北京", "我打算住在上海"),
    ("My daughter lives in Paris", "My son lives in Berlin"),
    ("我妈妈住在北京", "我爸爸住在上海"),
    ("我早上跑步", "我晚上跑步"),
    ("我周三健身", "我周五健身"),
    ("我每周三健身", "我每周五健身"),
    ("Room 12 is booked for me", "Room 13 is booked for me"),
    ("My flight is CA1234", "My flight is CA1235"),
    ("I bought 3 apples", "I bought 4 apples"),
    ("我买了三个苹果", "我买了四个苹果"),
    ("昨天跑了 5 公里", "昨天跑了 6 公里"),
    ("跑了 5 公里", "跑了 6 公里"),
    ("我没去过日本", "我去过日本"),
    ("I went to the party", "I didn't go to the party"),
    ("My boss is Tom", "My boss is Jerry"),
    ("A introduced B to C", "C introduced B to A"),
    ("猫追老鼠", "老鼠追猫"),
    ("The dog bit the man", "The man bit the dog"),
    ("我把车借给了小王", "小王把车借给了我"),
    ("我左手写字", "我右手写字"),
    ("turn left at the church", "turn right at the church"),
    ("I take pills before meals", "I take pills after meals"),
    ("I moved from Paris to Rome", "I moved from Rome to Paris"),
    ("从北京到上海", "从上海到北京"),
    ("我不喜欢茶,喜欢咖啡", "我喜欢茶,不喜欢咖啡"),
    ("I like tea but not coffee", "I like coffee but not tea"),
    ("I always drink tea", "I sometimes drink tea"),
    ("我只喝绿茶", "我喝绿茶"),
    ("My phone number is 13800138000", "My phone number is 13900139000"),
    ("版本 v1.2.3 有问题", "版本 v1.2.4 有问题"),
    ("I have a meeting at 3 pm", "I have a meeting at 4 pm"),
    ("我的生日是 3 月 5 日", "我的生日是 3 月 6 日"),
    ("I don't dislike coffee", "I like coffee"),
    ("I met two friends", "I met three friends"),
    ("第一章讲历史", "第二章讲历史"),
    ("Chapter 3 is about love", "Chapter 4 is about love"),
    ("我家有两个孩子", "我姐姐有三个孩子"),
    ("我有两个孩子", "我有三个房间"),
    ("I have two kids", "I have three cars"),
    ("我的猫叫团子", "我的猫叫汤圆"),
    ("我女儿叫小美", "我女儿叫小丽"),
    ("One of my favourite films is Alien", "One of my favourite films is Jaws"),
    ("我最喜欢的电影之一是教父", "我最喜欢的电影之一是泰坦尼克号"),
    ("I can lift 50 kg and run 5 km", "I can lift 60 kg and run 10 km"),
    ("我点了外卖", "我没点外卖"),
    ("我叫外卖", "我叫出租车"),
    ("我用苹果手机", "我用华为手机"),
    ("I like Anna", "I like Bella"),
    ("我喜欢小王", "我喜欢小李"),
    ("The backup ran at 3:00", "The backup ran at 4:00"),
    ("我给小王转了 500 元", "我给小王转了 600 元"),
    ("晚饭花了 80 元", "晚饭花了 90 元"),
    ("lunch is 12 dollars", "lunch is 15 dollars"),
    ("the ticket costs 12 dollars", "the ticket costs 15 dollars"),
    ("我的工号是 1234", "我的工号是 1235"),
    ("My badge number is 77", "My badge number is 78"),
    ("Bus 32 stops here", "Bus 33 stops here"),
    ("3 号线很挤", "4 号线很挤"),
    ("我在读《三体》", "我在读《活着》"),
    ("我正在学 Python", "我正在学 Rust"),
    ("I am reading Dune", "I am reading Emma"),
    ("I am learning French", "I am learning German"),
    ("My son's favourite colour is blue", "My daughter's favourite colour is green"),
    ("Server A has 8 cores", "Server B has 16 cores"),
    ("server 1 has 8 cores", "server 2 has 16 cores"),
    ("服务器 1 有 8 核", "服务器 2 有 8 核"),
    ("张三有两个孩子", "李四有三个孩子"),
    ("张三住在北京", "李四住在上海"),
    ("张三喜欢咖啡", "李四不喜欢咖啡"),
    ("If it rains I live in Paris", "If it rains I live in Rome"),
    ("Maybe I like tea", "Maybe I don't like tea"),
    ("我可能喜欢茶", "我可能不喜欢茶"),
    ("今天我不喝咖啡", "今天我喝咖啡"),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_the_same_values_in_another_form(a: str, b: str) -> None:
    assert compare(a, b).same_values
    assert compare(b, a).same_values


@pytest.mark.parametrize(("a", "b"), STATE)
def test_another_state_value_of_one_statement(a: str, b: str) -> None:
    for found in (compare(a, b), compare(b, a)):
        assert not found.same_values
        assert found.change is Change.STATE
        assert "→" in found.detail


@pytest.mark.parametrize(("a", "b"), DISTINCT)
def test_another_event_or_subject_or_not_certain(a: str, b: str) -> None:
    for found in (compare(a, b), compare(b, a)):
        assert not found.same_values
        assert found.change in (Change.IDENTITY, Change.UNCERTAIN)


@pytest.mark.parametrize(
    ("a", "b", "detail"),
    [
        ("我用 MySQL 8", "我用 MySQL 9", "version 8 → 9"),
        ("I like coffee", "I don't like coffee", "preference like → not like"),
        ("我喜欢咖啡", "我不喜欢咖啡", "preference 喜欢 → 不喜欢"),
        ("I live in Paris", "I live in Berlin", "residence Paris → Berlin"),
        ("10 月 15 日体检", "10 月 16 日体检", "dates 10 月 15 日 → 10 月 16 日"),
    ],
)
def test_the_detail_names_the_two_values(a: str, b: str, detail: str) -> None:
    assert compare(a, b).detail == detail


@pytest.mark.parametrize(
    ("a", "b"),
    [
        # Signs that would negate, count or judge in other words.
        ("我觉得不错", "我觉得错"),
        ("这没关系", "这有关系"),
        ("我住别墅", "我住墅"),
        ("我特别忙", "我忙"),
        ("Nothing but tea for me", "No tea for me"),
        ("No doubt I like tea", "I like tea"),
    ],
)
def test_fixed_words_do_not_negate(a: str, b: str) -> None:
    assert compare(a, b).change is not Change.STATE


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("有二十一个人", "有21个人", True),
        ("有十几个人", "有十个人", False),
        ("一共一千二百元", "一共1,200元", True),
        ("一共三百五", "一共350", True),
        ("two hundred and five users", "205 users", True),
        ("体重一百斤", "体重50公斤", True),
        ("It takes 2 hours", "It takes 120 minutes", True),
        ("It takes 2 hours", "It takes 2 minutes", False),
        ("The disk has 2 GB", "The disk has 2000 MB", True),
        ("$40 for the ticket", "40 dollars for the ticket", True),
        ("¥40 一张", "$40 一张", False),
        ("2 million users", "2,000,000 users", True),
        ("the 3rd floor", "the third floor", True),
        ("第三层", "第 3 层", True),
        ("at 12 am", "at 00:00", True),
        ("凌晨 12 点", "0:00", True),
        ("七点半", "7:30", True),
        ("晚上八点二十分", "20:20", True),
        ("on Tuesday", "on Wednesday", False),
        ("周日休息", "星期天休息", True),
        ("下周三", "周三", False),
        ("2024年5月", "2024年6月", False),
        ("五月三号", "5月3日", True),
        ("May 3rd, 2024", "3 May 2024", True),
        ("in 2019", "in 2020", False),
        ("in March", "in April", False),
        ("yesterday", "today", False),
        ("twice a week", "once a week", False),
        ("in the morning", "in the evening", False),
        ("mysql8", "MySQL 8", True),
        ("utf8 files", "utf16 files", False),
        ("14/32 off", "16/32 off", False),
        ("release 1.2.3", "release v1.2.3", True),
    ],
)
def test_numbers_dates_and_times(a: str, b: str, same: bool) -> None:
    assert compare(a, b).same_values is same


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("The door is opened by Anna", "Anna opens the door", True),
        ("The dog is chased by the cat", "The dog chases the cat", False),
        ("I have a dog, which is small", "I have a small dog", True),
        ("Blue is my favourite colour", "My favourite colour is blue", True),
        ("I keep the receipts of the taxi", "I keep the taxi receipts", True),
        ("我没有办法喝咖啡", "我没办法喝咖啡", True),
        ("我无法开车", "我不能开车", True),
        ("我爱不爱喝茶", "我爱喝茶", False),
        ("I drink coffee without sugar", "I drink coffee with sugar", False),
        ("I have no siblings", "I do not have siblings", True),
        ("MY FAVOURITE COLOUR IS BLUE", "my favourite colour is blue", True),
        ("Buy Milk Before Friday Evening", "Buy milk before Friday evening", True),
        ("I like coffee", "I like coffee with oat milk and cinnamon", False),
    ],
)
def test_turns_of_phrase(a: str, b: str, same: bool) -> None:
    assert compare(a, b).same_values is same
    assert compare(b, a).same_values is same


def test_a_place_inside_another_is_more_detail() -> None:
    for a, b in (
        ("我住在北京", "我住在北京朝阳区"),
        ("I live in London", "I live in England"),
        ("我住在中国", "我住在上海"),
    ):
        assert compare(a, b).change is not Change.STATE


def test_negation_that_is_not_understood_is_not_a_state() -> None:
    for a, b in (("会议取消了吗", "会议没取消"), ("I did not pay", "I paid"), ("我刚喝过咖啡", "我没喝咖啡")):
        assert compare(a, b).change is not Change.STATE


@given(st.text(max_size=120), st.text(max_size=120))
def test_any_two_texts_can_be_compared(a: str, b: str) -> None:
    found = compare(a, b)
    assert found.same_values is (found.change is Change.NONE)
    assert compare(a, a).same_values


_WORDS = (
    *("我", "你", "不", "没有", "喜欢", "住在", "北京", "用", "MySQL", "8", "12:30", "是", "的", "两", "个", ","),
    *("a", "the", "not", "like", "is", "and", "by", "which"),
)


@given(st.lists(st.sampled_from(_WORDS), max_size=25))
def test_the_order_of_two_texts_does_not_decide(parts: list[str]) -> None:
    a, b = " ".join(parts), " ".join(reversed(parts))
    assert compare(a, b).same_values is compare(b, a).same_values
