"""RecallMemories through the public door: bounds, conditions, what finds nothing, and what a recall sees and changes.

How good the order of hits is, is measured by the evaluations; here what may be among them is sure.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from tests.acceptance.calls import (
    CONTEXT,
    FACT,
    IDENTITY,
    INVALID,
    JWT,
    PREFERENCE,
    TRANSACTION,
    added,
    batch,
    bearer,
    clear,
    draft,
    fields,
    get,
    invalidate,
    listed,
    recall,
    restore,
    save,
    seconds_from_now,
    stamp,
    update,
)
from tests.acceptance.conftest import environment_of, production
from tests.service import Client, ServiceProcess, eventually, refused

ALLERGY, DIET = "他对花生过敏", "他不能吃什么"
"""Related, without a word in common."""


def contents(client: Client, query: str, **more: object) -> list[str]:
    """Contents of what a recall finds."""
    return [memory.content for memory in recall(client, query, **more)]


# Bounds


def test_a_new_user_recalls_nothing(client: Client) -> None:
    answer = client.RecallMemories(pb.RecallMemoriesRequest(query="他的数据库是什么"))
    assert (list(answer.hits), answer.degraded, answer.truncated) == ([], False, False)
    assert answer.freshness


def test_top_k_bounds_the_hits(client: Client) -> None:
    batch(client, [draft(f"Invoice INV-2207 line {n}") for n in range(12)])
    assert len(recall(client, "INV-2207")) == 5
    assert len(recall(client, "INV-2207", top_k=1)) == 1
    assert len(recall(client, "INV-2207", top_k=100)) == 12
    best = recall(client, "INV-2207", top_k=12)
    assert recall(client, "INV-2207", top_k=7) == best[:7]


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        (pb.RecallMemoriesRequest(query="x" * 8001), ["query"]),
        (pb.RecallMemoriesRequest(query="tea\0"), ["query"]),
        (pb.RecallMemoriesRequest(query="tea", top_k=101), ["top_k"]),
        (pb.RecallMemoriesRequest(query="tea", top_k=-1), ["top_k"]),
        (pb.RecallMemoriesRequest(query="tea", types=[FACT, 0], shards=[6]), ["types[1]", "shards[0]"]),
        (pb.RecallMemoriesRequest(query="tea", min_similarity=1.01), ["min_similarity"]),
        (pb.RecallMemoriesRequest(query="tea", min_similarity=float("nan")), ["min_similarity"]),
        (pb.RecallMemoriesRequest(query="tea", occurred_after={"seconds": 5}, occurred_before={"seconds": 5}),
         ["occurred_before"]),
        (pb.RecallMemoriesRequest(query="tea", occurred_after={"seconds": -(1 << 40)}), ["occurred_after"]),
        (pb.RecallMemoriesRequest(query="tea", attribute_filters=[{"key": "a"}]), ["attribute_filters[0]"]),
        (pb.RecallMemoriesRequest(query="tea", attribute_filters=[{"key": "x) or 1=1", "equals": "y"}]),
         ["attribute_filters[0].key"]),
        (pb.RecallMemoriesRequest(query="tea", attribute_filters=[{"key": "user_id", "equals": "victim"}]),
         ["attribute_filters[0].key"]),
        (pb.RecallMemoriesRequest(query="tea", attribute_filters=[{"key": "a", "in": {}}]),
         ["attribute_filters[0].in.values"]),
        (pb.RecallMemoriesRequest(query="tea", attribute_filters=[{"key": "a", "in": {"values": ["x"] * 101}}]),
         ["attribute_filters[0].in.values"]),
        (pb.RecallMemoriesRequest(query="tea", attribute_filters=[{"key": "a", "number": {"min": 2, "max": 1}}]),
         ["attribute_filters[0].number"]),
        (pb.RecallMemoriesRequest(query="tea", attribute_filters=[{"key": "a", "number": {"min": float("nan")}}]),
         ["attribute_filters[0].number"]),
        (pb.RecallMemoriesRequest(query="tea", attribute_filters=[
            {"key": "a", "time": {"start": {"seconds": 9}, "end": {"seconds": 8}}}]),
         ["attribute_filters[0].time.end"]),
        (pb.RecallMemoriesRequest(query="tea", attribute_filters=[{"key": "a", "equals": "x"}] * 17),
         ["attribute_filters"]),
        (pb.RecallMemoriesRequest(query="tea", freshness="' or 1=1"), ["freshness"]),
    ],
)  # fmt: skip
def test_a_question_asked_wrongly_is_refused_by_name(
    client: Client, request_: pb.RecallMemoriesRequest, wanted: list[str]
) -> None:
    with refused(INVALID) as refusal:
        client.RecallMemories(request_)
    assert fields(refusal) == wanted


def test_scores_are_in_order_and_on_their_scales(client: Client, deployment: str) -> None:
    batch(client, [draft("我用 MySQL 8"), draft("我住在杭州"), draft("我喜欢喝绿茶"), draft("Order 5512 was paid")])
    answer = client.RecallMemories(pb.RecallMemoriesRequest(query="他的数据库是 MySQL 吗"))
    assert answer.hits[0].memory.content == "我用 MySQL 8"
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)
    dense = pb.RECALL_LEG_INDEX if deployment == "production-index" else pb.RECALL_LEG_EXACT
    assert list(answer.legs_used) == [dense, pb.RECALL_LEG_KEYWORD]
    assert list(answer.hits[0].legs) == [dense, pb.RECALL_LEG_KEYWORD]
    for hit in answer.hits:
        assert -1 <= hit.similarity <= 1
        assert 0 <= hit.keyword_score <= 1
        assert hit.legs
        assert hit.similarity > 0.30 or dense not in hit.legs


# What finds nothing


@pytest.mark.parametrize(
    "query",
    ["", "   ", "\n", "the", "ok", "好的", "嗯嗯", "why?", "???", "。。。", "😀", "🎉🎉🎉", "*", "%", "' or '' = '"],
)
def test_a_query_that_asks_for_nothing_finds_nothing(client: Client, query: str) -> None:
    batch(client, [draft("我用 MySQL 8"), draft("I like the green tea"), draft("Party 🎉 on Friday"), draft("ok 👍")])
    assert contents(client, query) == []


def test_a_query_about_something_else_finds_nothing(client: Client) -> None:
    batch(client, [draft("我用 MySQL 8"), draft("我住在杭州"), draft("My cat is called Mia")])
    assert contents(client, "今天天气怎么样") == []
    assert contents(client, "What is the capital of Mongolia?") == []


@pytest.mark.parametrize(
    "query", ["C:\\repo\\main.py", "C++ AND (foo", '") or true or ("', "user_id == null", "x" * 8000]
)
def test_queries_with_signs_are_only_words(client: Client, query: str) -> None:
    added(client, "The build reads C:\\repo\\main.py and uses C++ for foo")
    answer = client.RecallMemories(pb.RecallMemoriesRequest(query=query))
    assert not answer.degraded
    if "main.py" in query:
        assert len(answer.hits) == 1


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("我在一家互联网企业上班", "企业"),
        ("Ma sœur habite à Montréal depuis 2019", "Où habite ma sœur ?"),
        ("Меня зовут Ирина, я живу в Казани", "Где живёт Ирина?"),
        ("私は京都に住んでいます", "どこに住んでいますか"),
        ("用户的快递单号是 SF1234567890", "SF1234567890"),
        ("The deploy key is called DEPLOY_KEY_7", "deploy_key_7"),
        (ALLERGY, DIET),
    ],
)
def test_every_language_is_found(client: Client, content: str, query: str) -> None:
    batch(client, [draft(content), draft("My cat is called Mia")])
    assert contents(client, query, top_k=1) == [content]


def test_min_similarity_is_the_callers(client: Client) -> None:
    batch(client, [draft(ALLERGY), draft("我用 MySQL 8"), draft("My cat is called Mia")])
    assert len(contents(client, DIET, min_similarity=-1)) == 3
    assert contents(client, DIET) == [ALLERGY]
    [hit] = client.RecallMemories(pb.RecallMemoriesRequest(query=DIET)).hits
    assert contents(client, DIET, min_similarity=hit.similarity) == [], "exclusive"
    assert contents(client, DIET, min_similarity=hit.similarity - 0.001) == [ALLERGY]
    assert contents(client, "MySQL 8", min_similarity=1) == ["我用 MySQL 8"], "by keyword all the same"


# Conditions


@pytest.fixture
def trips(client: Client) -> Client:
    """Memories of one query that differ in type, shard, attributes and time."""
    batch(
        client,
        [
            draft("Trip TR-9 one", PREFERENCE, attributes={"price": "299", "when": "2026-03-01", "class": "a"}),
            draft("Trip TR-9 two", shard=TRANSACTION, attributes={"price": "3999.0", "when": "2026-03-01T23:30+08:00"}),
            draft("Trip TR-9 three", CONTEXT, shard=IDENTITY, attributes={"price": "about 300", "when": "soon"}),
            draft("Trip TR-9 four", occurred_at=stamp(datetime(2020, 5, 1, tzinfo=UTC)), attributes={"class": "b"}),
        ],
    )  # fmt: skip
    return client


def trip_names(client: Client, **more: object) -> list[str]:
    return [text.rpartition(" ")[2] for text in contents(client, "TR-9", **more)]


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ({"types": [PREFERENCE, CONTEXT]}, {"one", "three"}),
        ({"shards": [TRANSACTION]}, {"two"}),
        ({"types": [FACT], "shards": [TRANSACTION, IDENTITY]}, {"two"}),
        ({"types": [CONTEXT], "shards": [TRANSACTION]}, set()),
        ({"occurred_before": stamp(datetime(2020, 5, 1, 0, 0, 1, tzinfo=UTC))}, {"four"}),
        ({"occurred_before": stamp(datetime(2020, 5, 1, tzinfo=UTC))}, set()),
        ({"occurred_after": stamp(datetime(2020, 5, 1, tzinfo=UTC))}, {"one", "two", "three", "four"}),
        ({"occurred_after": stamp(datetime(2021, 1, 1, tzinfo=UTC))}, {"one", "two", "three"}),
        ({"occurred_after": stamp(datetime(1, 1, 1, tzinfo=UTC)),
          "occurred_before": stamp(datetime(9999, 12, 31, tzinfo=UTC))}, {"one", "two", "three", "four"}),
    ],
)  # fmt: skip
def test_types_shards_and_times_filter(trips: Client, conditions: dict[str, object], found: set[str]) -> None:
    assert set(trip_names(trips, **conditions)) == found


@pytest.mark.parametrize(
    ("filters", "match", "lack"),
    [
        ([{"key": "class", "equals": "a"}], {"one"}, {"two", "three"}),
        ([{"key": "class", "equals": "A"}], set(), {"two", "three"}),
        ([{"key": "class", "in": {"values": ["b", "a"]}}], {"one", "four"}, {"two", "three"}),
        ([{"key": "price", "number": {"min": 299, "max": 299}}], {"one"}, {"four"}),
        ([{"key": "price", "number": {"min": 300}}], {"two"}, {"four"}),
        ([{"key": "price", "number": {}}], {"one", "two"}, {"four"}),
        ([{"key": "when", "time": {"start": stamp(datetime(2026, 3, 1, tzinfo=UTC)),
                                   "end": stamp(datetime(2026, 3, 1, 15, 30, tzinfo=UTC))}}], {"one"}, {"four"}),
        ([{"key": "when", "time": {"start": stamp(datetime(2026, 3, 1, 0, 0, 1, tzinfo=UTC))}}], {"two"}, {"four"}),
        ([{"key": "class", "equals": "a"}, {"key": "price", "number": {"max": 500}}], {"one"}, set()),
        ([{"key": "nothing", "equals": ""}], set(), {"one", "two", "three", "four"}),
    ],
)  # fmt: skip
def test_attributes_filter_and_what_lacks_them_comes_last(
    trips: Client, filters: list[dict[str, object]], match: set[str], lack: set[str]
) -> None:
    names = trip_names(trips, attribute_filters=filters)
    if len(filters) == 1:  # with two conditions a memory may lack one and fail the other
        assert set(names) == match | lack
    assert set(names[: len(match)]) == match
    assert set(trip_names(trips, attribute_filters=filters, strict=True)) == match


# What a recall sees


def test_every_change_is_seen_by_the_next_recall(client: Client) -> None:
    """Eight rounds: what was answered is there, what was retired is not, whatever the index shows yet."""

    def found(number: str) -> list[str]:
        return [memory.id for memory in recall(client, number, min_similarity=1)]

    numbers = ["AX-1031", "BY-2042", "CZ-3053", "DV-4164", "EU-5275", "FT-6386", "GS-7497", "HR-8508"]
    for round_, number in enumerate(numbers):
        memory = added(client, f"合同编号 {number}")
        assert found(number) == [memory.id]
        new = update(client, memory.id, content=f"合同编号 {number} 已续签").memory
        assert found(number) == [new.id]
        pinned = update(client, new.id, pinned=True).memory
        assert [(hit.etag, hit.pinned) for hit in recall(client, number, top_k=1)] == [(pinned.etag, True)]
        invalidate(client, new.id)
        assert found(number) == []
        restore(client, new.id)
        assert found(number) == [new.id]
        third = save(client, f"合同 {number} 作废", supersedes=[new.id]).memory
        assert found(number) == [third.id]
        if round_ % 3 == 0:
            clear(client)
            assert recall(client, number, min_similarity=-1) == []


def test_a_batch_is_seen_at_once(client: Client) -> None:
    for round_ in range(5):
        results = batch(client, [draft(f"Parcel PX-{round_} box {n}") for n in range(20)])
        found = {memory.id for memory in recall(client, f"PX-{round_}", top_k=100, min_similarity=1)}
        assert found == {r.memory.id for r in results}


def test_meaning_is_seen_at_once_too(client: Client) -> None:
    memory = added(client, ALLERGY)
    assert [found.id for found in recall(client, DIET)] == [memory.id]
    invalidate(client, memory.id)
    assert recall(client, DIET) == []
    restore(client, memory.id)
    assert [found.id for found in recall(client, DIET)] == [memory.id]


def test_a_changed_attribute_is_filtered_by_at_once(client: Client) -> None:
    memory = added(client, "Trip TR-9", attributes={"class": "a"})
    wanted = {"attribute_filters": [{"key": "class", "equals": "b"}], "strict": True}
    assert recall(client, "TR-9", **wanted) == []
    update(client, memory.id, attributes={"class": "b"})
    assert [found.id for found in recall(client, "TR-9", **wanted)] == [memory.id]
    update(client, memory.id, expires_at=seconds_from_now(0.4))
    eventually(lambda: not recall(client, "TR-9", **wanted), 3)


def test_freshness_is_the_users_own(client: Client, client_of: Callable[..., Client]) -> None:
    saved = save(client, "我用 MySQL 8")
    found = client.RecallMemories(pb.RecallMemoriesRequest(query="MySQL", freshness=saved.freshness))
    assert len(found.hits) == 1
    assert found.freshness == saved.freshness
    changed = save(client, "My cat is called Mia").freshness
    assert changed != saved.freshness
    for token in (saved.freshness, changed):
        assert listed(client, freshness=token)
    other = client_of()
    save(other, "我用 MySQL 8")
    for call in (
        lambda: other.RecallMemories(pb.RecallMemoriesRequest(query="MySQL", freshness=changed)),
        lambda: other.ListMemories(pb.ListMemoriesRequest(freshness=changed)),
        lambda: client.RecallMemories(pb.RecallMemoriesRequest(query="MySQL", freshness=changed[:-2])),
    ):
        with refused(INVALID) as refusal:
            call()
        assert fields(refusal) == ["freshness"]


def test_nothing_that_leaves_the_memories_alone_moves_the_freshness(client: Client) -> None:
    first = save(client, "我用 MySQL 8")
    recall(client, "MySQL")
    listed(client)
    assert save(client, "我用 MySQL 8").freshness == first.freshness
    assert save(client, "/help").freshness == first.freshness
    assert client.ListMemories(pb.ListMemoriesRequest()).freshness == first.freshness


# What a recall changes


def test_accesses_are_counted_and_only_those(client: Client) -> None:
    used, other = added(client, "Contract HX-20931 is signed"), added(client, "My cat is called Mia")
    before = datetime.now(UTC) - timedelta(seconds=1)
    for _ in range(3):
        [hit] = recall(client, "HX-20931")
        assert (hit.access_count, hit.HasField("last_accessed_at")) == (0, False), "not given by a recall"
    save(client, "Contract HX-20931 is signed")
    for _ in range(5):
        listed(client)
        get(client, used.id)
        get(client, other.id)
    counted = eventually(lambda: (now := get(client, used.id)).access_count == 4 and now, what="access counts")
    assert before < counted.last_accessed_at.ToDatetime(UTC) < datetime.now(UTC) + timedelta(seconds=1)
    assert counted.etag == used.etag
    untouched = get(client, other.id)
    assert (untouched.access_count, untouched.HasField("last_accessed_at")) == (0, False)
    # Every answer but a recall's has the counters as they are now.
    for answer in (update(client, used.id, pinned=True), save(client, "Contract HX-20931 is signed")):
        assert (answer.memory.access_count, answer.memory.last_accessed_at) == (4, counted.last_accessed_at)
    eventually(lambda: get(client, used.id).access_count == 5, what="access counts")
    assert invalidate(client, used.id).access_count == 5


def test_a_restart_loses_nothing(request: pytest.FixtureRequest, deployment: str) -> None:
    with ServiceProcess(environment_of(request, deployment)) as process:
        client = Client(process.address)
        kept = added(client, ALLERGY, attributes={"a": "1"})
        gone = invalidate(client, added(client, "Contract HX-20931 is signed").id)
        recall(client, DIET)
        question = pb.RecallMemoriesRequest(query=DIET, top_k=3)
        before = client.RecallMemories(question)
        eventually(lambda: get(client, kept.id).access_count == 2, what="access counts")
        user = client.user
        client.close()
        assert process.stop() == 0
        process.start()
        client = Client(process.address, user)
        after = client.RecallMemories(question)
        assert [hit.memory for hit in after.hits] == [hit.memory for hit in before.hits] == [kept]
        assert after.hits[0].similarity == pytest.approx(before.hits[0].similarity)
        assert after.freshness == before.freshness
        assert save(client, ALLERGY).matched_id == kept.id
        assert get(client, gone.id) == gone
        client.close()


# Where only the index says what is near


@pytest.fixture(scope="module")
def settled(request: pytest.FixtureRequest) -> Iterator[ServiceProcess]:
    """A service that asks the index and forgets at once which rows are new to it."""
    more = {"PALIMPSEST_RECALL__DENSE_LEG": "index", "PALIMPSEST_INDEX__VISIBILITY_SECONDS": "0"}
    with ServiceProcess(production(request, **more, **JWT)) as process:
        yield process


@pytest.mark.servers
def test_conditions_do_not_starve_behind_what_is_nearer(settled: ServiceProcess) -> None:
    """One memory that the caller may see, or that has the attribute, behind sixty nearer ones that fall to it."""
    client = bearer(settled.address, "ida")
    near = [draft(f"The team's database server number {n} runs MySQL") for n in range(60)]
    far = draft("The kettle in the kitchen is broken", shard=TRANSACTION, attributes={"kind": "far"})
    batch(client, [*near, far])
    eventually(lambda: client.GetStats(admin.GetStatsRequest()).outbox_rows == 0, 30, "indexing")
    client.close()
    settled.stop()
    settled.start()  # the start purges the settled lines: from then on the index alone proposes
    client = bearer(settled.address, "ida")
    question = {"query": "Which database do they use?", "top_k": 1, "min_similarity": -1}
    assert recall(client, **question)[0].content.startswith("The team")
    wanted = [{"key": "kind", "equals": "far"}]
    assert [found.shard for found in recall(client, **question, attribute_filters=wanted)] == [TRANSACTION]
    limited = bearer(settled.address, "ida", shards=["TRANSACTION"])
    assert [found.shard for found in recall(limited, **question)] == [TRANSACTION]
    for one in (client, limited):
        one.close()
