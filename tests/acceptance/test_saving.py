"""SaveMemory and BatchSaveMemories through the public door: outcomes, limits, order, repeats, times, hostile texts.

What counts as the same meaning is measured elsewhere; here the outcome of every save is sure by its form.
"""

import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from tests.acceptance.calls import (
    ADDED,
    CONTEXT,
    DUPLICATE,
    FACT,
    FILTERED,
    GENERAL,
    INVALID,
    NOT_FOUND,
    PRECONDITION,
    PREFERENCE,
    REPLACED,
    TRANSACTION,
    added,
    batch,
    clear,
    draft,
    fields,
    get,
    invalidate,
    listed,
    raw_call,
    recall,
    save,
    seconds_from_now,
    stamp,
    texts,
    update,
    uuid_text,
)
from tests.service import Client, refused

# Outcomes


def test_a_new_memory_is_answered_whole(client: Client) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    answer = save(client, "I use vim", PREFERENCE)
    memory = answer.memory
    assert answer.outcome == ADDED
    assert answer.reason_code == pb.SAVE_REASON_CODE_NEW
    assert not answer.HasField("similarity")
    assert not answer.matched_id
    assert not answer.index_pending
    assert uuid.UUID(memory.id).version == 7
    assert (memory.type, memory.shard, memory.content) == (PREFERENCE, GENERAL, "I use vim")
    assert before < memory.created_at.ToDatetime(UTC) < datetime.now(UTC) + timedelta(seconds=1)
    assert memory.valid_from == memory.created_at
    assert memory.etag
    for unset in ("source", "occurred_at", "last_accessed_at", "valid_to", "invalidated_at", "expires_at"):
        assert not memory.HasField(unset), unset
    assert (memory.access_count, memory.pinned, memory.superseded_by, memory.invalid_reason) == (0, False, "", 0)
    assert get(client, memory.id) == memory


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        ("我用 MySQL 8", "  我用  MySQL\t8\n", DUPLICATE),
        ("我用 MySQL 8", "我用　ＭｙＳＱＬ　８", DUPLICATE),
        ("Café Zoë in Zürich", unicodedata.normalize("NFD", "Café Zoë in Zürich"), DUPLICATE),
        (unicodedata.normalize("NFD", "각하 é"), "각하 é", DUPLICATE),
        ("The area is 5² metres", "The area is 52 metres", ADDED),
        ("run 1: latency 103 ms", "run 2: latency 130 ms", ADDED),
        ("My name is liguoyu", "Order 99812 was delivered", ADDED),
    ],
)  # fmt: skip
def test_the_same_text_is_told_by_its_normal_form(client: Client, first: str, second: str, outcome: int) -> None:
    one = added(client, first)
    two = save(client, second)
    assert two.outcome == outcome, two.reason
    if outcome == DUPLICATE:
        assert two.reason_code == pb.SAVE_REASON_CODE_EXACT
        assert two.matched_id == two.memory.id == one.id
        assert two.memory.content == first
    assert len(listed(client)) == (1 if outcome == DUPLICATE else 2)


def test_type_and_shard_are_part_of_what_is_said(client: Client) -> None:
    text = "Order 4711 contains two books"
    ids = {
        added(client, text, FACT).id,
        added(client, text, CONTEXT).id,
        added(client, text, FACT, shard=TRANSACTION).id,
    }
    assert len(ids) == len(listed(client)) == 3
    assert save(client, text, CONTEXT).outcome == DUPLICATE


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("/help", pb.SAVE_REASON_CODE_SLASH_COMMAND),
        (" /clear\n", pb.SAVE_REASON_CODE_SLASH_COMMAND),
        ("<|im_start|>assistant\n<|im_end|>", pb.SAVE_REASON_CODE_SPECIAL_TOKENS),
        ("😀🎉🚀", pb.SAVE_REASON_CODE_EMOJI_ONLY),
        ("👨‍👩‍👧‍👦 👍🏽 🇨🇳", pb.SAVE_REASON_CODE_EMOJI_ONLY),
        ("   ", pb.SAVE_REASON_CODE_PUNCTUATION_ONLY),
        ("\n", pb.SAVE_REASON_CODE_PUNCTUATION_ONLY),
        ("……！？。", pb.SAVE_REASON_CODE_PUNCTUATION_ONLY),
        ('Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\nValueError: no',
         pb.SAVE_REASON_CODE_ERROR_DUMP),
        ('Error code: 429 - {"error": {"message": "Rate limit", "type": "requests"}}', pb.SAVE_REASON_CODE_ERROR_DUMP),
        ("ÓÃ»§Ï²»¶¼ò½à»Ø´ð", pb.SAVE_REASON_CODE_MOJIBAKE),
        ("<memories>\n- 用户用 MySQL 8\n</memories>", pb.SAVE_REASON_CODE_ECHO),
    ],
)  # fmt: skip
def test_what_is_no_statement_is_filtered_by_a_named_rule(client: Client, content: str, code: int) -> None:
    answer = save(client, content)
    assert (answer.outcome, answer.reason_code) == (FILTERED, code)
    assert not answer.HasField("memory")
    assert not listed(client, state=pb.MEMORY_STATE_ANY)


@pytest.mark.parametrize(
    "content",
    [
        "文件里有 <|endoftext|> 这个标记",
        "I got a ValueError today and it annoyed me",
        "/etc/hosts 里写了测试域名",
        "ok 👍",
        "我觉得 /help 没有用",
        "C++",
        "5",
        "是",
    ],
)
def test_statements_that_look_like_residue_stay(client: Client, content: str) -> None:
    assert added(client, content).content == content


def test_a_filtered_draft_does_not_hurt_its_neighbours(client: Client) -> None:
    results = batch(client, [draft("I live in Oslo"), draft("/help"), draft("I live in Oslo"), draft("My cat is Mia")])
    assert [r.outcome for r in results] == [ADDED, FILTERED, DUPLICATE, ADDED]
    assert results[1].reason_code == pb.SAVE_REASON_CODE_SLASH_COMMAND
    assert not results[1].HasField("memory")
    assert "slash" in results[1].reason
    assert results[2].matched_id == results[0].memory.id
    assert results[3].memory.content == "My cat is Mia"
    assert len({r.freshness for r in results}) == 1


# What is refused


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        (pb.SaveMemoryRequest(), ["type", "content"]),
        (pb.SaveMemoryRequest(type=99, content="x", shard=42), ["type", "shard"]),
        (pb.SaveMemoryRequest(type=FACT, content="Acme moved\0 to Shenzhen"), ["content"]),
        (pb.SaveMemoryRequest(type=FACT, content="bell \a"), ["content"]),
        (pb.SaveMemoryRequest(type=FACT, content="escape \x1b[31m"), ["content"]),
        (pb.SaveMemoryRequest(type=FACT, content="C1 \x85 control"), ["content"]),
        (pb.SaveMemoryRequest(type=FACT, content="no character \ufffe"), ["content"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", request_id="42"), ["request_id"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", time_zone="Mars/Olympus"), ["time_zone"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", time_zone="../../etc/passwd"), ["time_zone"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", time_zone="Asia"), ["time_zone"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", time_zone="UTC\0"), ["time_zone"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", time_zone="亚洲/上海"), ["time_zone"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", time_zone="x" * 5000), ["time_zone"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", expires_at=seconds_from_now(-1)), ["expires_at"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", occurred_at={"seconds": 1 << 60}), ["occurred_at"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", occurred_at={"nanos": -1}), ["occurred_at"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", supersedes=[uuid_text() for _ in range(6)]), ["supersedes"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", supersedes=["FACT-3"]), ["supersedes[0]"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", source={"session_id": "a b"}), ["source.session_id"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", source={"session_id": "'; DROP TABLE user_memory; --"}),
         ["source.session_id"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", source={"message_id": "m" * 129}), ["source.message_id"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", source={"channel": "c" * 33}), ["source.channel"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", source={"role": "system"}), ["source.role"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", source={"quote": "q" * 501}), ["source.quote"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", source={"quote": "q\0"}), ["source.quote"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", attributes={"user_id": "victim"}), ['attributes["user_id"]']),
        (pb.SaveMemoryRequest(type=FACT, content="x", attributes={"tenant": "t"}), ['attributes["tenant"]']),
        (pb.SaveMemoryRequest(type=FACT, content="x", attributes={"shard": "x"}), ['attributes["shard"]']),
        (pb.SaveMemoryRequest(type=FACT, content="x", attributes={"type": "x"}), ['attributes["type"]']),
        (pb.SaveMemoryRequest(type=FACT, content="x", attributes={"": "x"}), ['attributes[""]']),
        (pb.SaveMemoryRequest(type=FACT, content="x", attributes={"x) or 1=1": "x"}), ['attributes["x) or 1=1"]']),
        (pb.SaveMemoryRequest(type=FACT, content="x", attributes={"Café": "x"}), ['attributes["Café"]']),
        (pb.SaveMemoryRequest(type=FACT, content="x", attributes={"k\n": "x"}), ['attributes["k\n"]']),
        (pb.SaveMemoryRequest(type=FACT, content="x", attributes={"k" * 65: "x"}), [f'attributes["{"k" * 64}"]']),
        (pb.SaveMemoryRequest(type=FACT, content="x", attributes={"k": "v" * 257}), ['attributes["k"]']),
        (pb.SaveMemoryRequest(type=FACT, content="x", attributes={"k": "a\0"}), ['attributes["k"]']),
        (pb.SaveMemoryRequest(type=FACT, content="x", attributes={f"k{n}": "v" for n in range(33)}), ["attributes"]),
        (pb.SaveMemoryRequest(type=FACT, content="x", attributes=dict.fromkeys("abcdef", "字" * 256)), ["attributes"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)  # fmt: skip
def test_bad_input_is_named_and_nothing_is_written(
    client: Client, request_: pb.SaveMemoryRequest, wanted: list[str]
) -> None:
    with refused(INVALID) as refusal:
        client.SaveMemory(request_)
    assert fields(refusal) == wanted
    assert refusal.details.reason == "INVALID_REQUEST"
    assert not listed(client, state=pb.MEMORY_STATE_ANY)


def test_every_violation_is_named_at_once(client: Client) -> None:
    bad = [
        draft("fine"),
        draft("", 0),
        draft("x" * 8001),
        draft("a\0b", attributes={"tenant": "t"}, time_zone="Nowhere"),
    ]
    with refused(INVALID) as refusal:
        batch(client, bad, request_id="no uuid")
    assert sorted(fields(refusal)) == [
        "drafts[1].content",
        "drafts[1].type",
        "drafts[2].content",
        'drafts[3].attributes["tenant"]',
        "drafts[3].content",
        "drafts[3].time_zone",
        "request_id",
    ]
    assert not listed(client)


# Limits, at the boundary


@pytest.mark.parametrize(
    "content",
    ["记" * 8000, "I use 𠮷野家 " + "😀" * 7990, "x" + "　" * 7998 + "y"],
    ids=["chinese", "emoji", "blanks"],
)
def test_eight_thousand_characters_are_kept_to_the_last(client: Client, content: str) -> None:
    assert len(content) == 8000
    memory = added(client, content)
    assert get(client, memory.id).content == content
    assert save(client, content).outcome == DUPLICATE
    with refused(INVALID) as refusal:
        save(client, content + "字")
    assert fields(refusal) == ["content"]


def test_attributes_and_sources_at_their_limits_come_back(client: Client) -> None:
    attributes = {f"{n:02}".ljust(64, "k"): "字" * 21 for n in range(32)}
    attributes[next(iter(attributes))] = "😀" * 16
    assert sum(len(k) + len(v.encode()) for k, v in attributes.items()) <= 4096
    source = m.MemorySource(session_id="s" * 128, message_id="Aa0._:@+=/|-", role="assistant", channel="c" * 32)
    memory = added(client, "My desk is in room 12", attributes=attributes, source=source)
    assert get(client, memory.id) == memory
    assert dict(memory.attributes) == attributes
    assert memory.source == source
    long_value = added(client, "My locker is number 7", attributes={"k": "😀" * 256, "empty": ""})
    assert dict(get(client, long_value.id).attributes) == {"k": "😀" * 256, "empty": ""}


@pytest.mark.parametrize(
    ("quote", "channel", "kept"),
    [
        ("q" * 480, "web", ("q" * 480, "web")),  # 4 + 480 + 4 + 3 bytes
        ("q" * 490, "telephone", ("q" * 490, "")),  # 507 bytes; 498 without the channel
        ("字" * 164, "web", ("字" * 164, "")),  # 503 bytes; 500 without the channel
        ("字" * 165, "web", ("", "")),  # 503 bytes without the channel
        ("字" * 500, "web", ("", "")),
        ("", "web", ("", "web")),
    ],
)
def test_a_source_stays_within_500_bytes(client: Client, quote: str, channel: str, kept: tuple[str, str]) -> None:
    source = m.MemorySource(session_id="abcd", role="user", quote=quote, channel=channel)
    memory = added(client, "My sister is called Ida", source=source)
    got = get(client, memory.id).source
    assert (got.quote, got.channel) == kept
    assert (got.session_id, got.role) == ("abcd", "user")


# Batches


def test_a_batch_is_its_drafts_one_after_the_other(client: Client) -> None:
    results = batch(client, [draft(f"Order {n} was paid") for n in range(100)])
    assert [r.outcome for r in results] == [ADDED] * 100
    assert [r.memory.content for r in results] == [f"Order {n} was paid" for n in range(100)]
    assert texts(client, page_size=33) == [f"Order {n} was paid" for n in reversed(range(100))]


@pytest.mark.parametrize("count", [0, 101])
def test_a_batch_has_one_to_a_hundred_drafts(client: Client, count: int) -> None:
    with refused(INVALID) as refusal:
        batch(client, [draft(f"Order {n} was paid") for n in range(count)])
    assert fields(refusal) == ["drafts"]


def test_drafts_see_each_other(client: Client) -> None:
    results = batch(
        client, [draft("我用 MySQL 8"), draft("我用 MySQL 8"), draft("我用 MySQL 9"), draft("我用 MySQL 8")]
    )
    assert [r.outcome for r in results[:3]] == [ADDED, DUPLICATE, REPLACED]
    assert results[1].matched_id == results[0].memory.id
    assert list(results[2].superseded_ids) == [results[0].memory.id]
    assert results[3].outcome == REPLACED  # the first is retired by then, so its text is new again
    assert texts(client) == ["我用 MySQL 8"]
    assert results[3].memory.id == listed(client)[0].id != results[0].memory.id
    first = get(client, results[0].memory.id)
    assert (first.superseded_by, first.invalid_reason) == (results[2].memory.id, m.INVALID_REASON_SUPERSEDED)


def test_one_bad_id_undoes_the_whole_batch(client: Client) -> None:
    old = added(client, "I live in Bonn")
    gone = uuid_text()
    with refused(NOT_FOUND) as refusal:
        batch(client, [draft("My cat is Mia"), draft("I live in Köln", supersedes=[old.id, gone])])
    assert refusal.details.reason == "MEMORY_NOT_FOUND"
    assert "drafts[1].supersedes[1]" in refusal.details.message
    assert texts(client, state=pb.MEMORY_STATE_ANY) == ["I live in Bonn"]
    assert get(client, old.id) == old


def test_two_drafts_cannot_correct_the_same_memory(client: Client) -> None:
    old = added(client, "I live in Bonn")
    with refused(PRECONDITION) as refusal:
        batch(client, [draft("I live in Köln", supersedes=[old.id]), draft("I live in Ulm", supersedes=[old.id])])
    assert refusal.details.reason == "MEMORY_NOT_ACTIVE"
    assert texts(client) == ["I live in Bonn"]


# Explicit corrections


def test_a_correction_retires_what_it_names(client: Client) -> None:
    olds = [added(client, text) for text in ("I have a dog", "Order 1 is late", "我住在杭州", "Café", "5")]
    answer = save(client, "None of that was true", supersedes=[old.id for old in olds])
    assert (answer.outcome, answer.reason_code) == (REPLACED, pb.SAVE_REASON_CODE_EXPLICIT)
    assert list(answer.superseded_ids) == [old.id for old in olds]
    assert not answer.HasField("similarity")
    assert texts(client) == ["None of that was true"]
    for old in olds:
        now = get(client, old.id)
        assert (now.superseded_by, now.invalid_reason) == (answer.memory.id, m.INVALID_REASON_SUPERSEDED)
        assert now.valid_to == answer.memory.valid_from
        assert now.etag != old.etag


def test_a_correction_to_a_text_that_is_active_keeps_that_one(client: Client) -> None:
    wrong, right = added(client, "I live in Bonn", pinned=True), added(client, "My home is the city of Köln")
    answer = save(client, "My home is the city of Köln", supersedes=[wrong.id])
    assert answer.outcome == DUPLICATE
    assert answer.memory.id == answer.matched_id == right.id
    assert list(answer.superseded_ids) == [wrong.id]
    assert get(client, wrong.id).superseded_by == right.id
    assert answer.memory.pinned, "a pin passes to the memory that takes the place"
    assert get(client, right.id).pinned


def test_a_correction_to_its_own_text_changes_nothing(client: Client) -> None:
    memory = added(client, "I live in Bonn")
    answer = save(client, "I live in  Bonn", supersedes=[memory.id])
    assert (answer.outcome, answer.memory.id, list(answer.superseded_ids)) == (DUPLICATE, memory.id, [])
    assert get(client, memory.id).etag == memory.etag


def test_only_own_active_memories_can_be_corrected(client: Client, client_of: Callable[..., Client]) -> None:
    other = added(client_of(), "I live in Bonn")
    mine = added(client, "I live in Ulm")
    refusals = []
    for id in (other.id, uuid_text()):
        with refused(NOT_FOUND) as refusal:
            save(client, "I live in Köln", supersedes=[mine.id, id])
        refusals.append((refusal.details.message.replace(id, "ID"), refusal.details.reason, refusal.details.metadata))
    assert refusals[0] == refusals[1]
    by = save(client, "I live in Rom", supersedes=[mine.id]).memory
    with refused(PRECONDITION) as refusal:
        save(client, "I live in Köln", supersedes=[mine.id])
    assert refusal.details.metadata == {"superseded_by": by.id}
    invalidate(client, by.id)
    with refused(PRECONDITION) as refusal:
        save(client, "I live in Köln", supersedes=[by.id])
    assert refusal.details.metadata == {}
    assert texts(client) == []


def test_a_pin_passes_on_and_can_be_given_anew(client: Client) -> None:
    pinned = added(client, "我用 MySQL 8", pinned=True)
    assert pinned.pinned
    by_likeness = save(client, "我用 MySQL 9")
    assert by_likeness.outcome == REPLACED
    assert by_likeness.memory.pinned
    explicit = save(client, "我不用数据库", supersedes=[by_likeness.memory.id])
    assert explicit.memory.pinned
    assert get(client, explicit.memory.id).pinned
    assert update(client, explicit.memory.id, "content", "pinned", content="我用 Oracle").memory.pinned is False


# Times


def test_an_expired_memory_is_gone_at_once(client: Client) -> None:
    end = datetime.now(UTC) + timedelta(seconds=1.5)
    memory = added(client, "My visitor badge is number 5521", expires_at=stamp(end))
    assert memory.expires_at == stamp(end)
    kept = added(client, "My office is in Lisbon", expires_at=seconds_from_now(3600))
    assert [found.id for found in recall(client, "badge number 5521")] == [memory.id]
    while datetime.now(UTC) < end:
        pass
    assert not recall(client, "badge number 5521")
    assert [found.id for found in listed(client)] == [kept.id]
    with refused(PRECONDITION):
        update(client, memory.id, pinned=True)
    again = save(client, "My visitor badge is number 5521")
    assert again.outcome == ADDED
    assert again.memory.id != memory.id
    old = get(client, memory.id)
    assert old.invalid_reason == m.INVALID_REASON_EXPIRED
    assert old.valid_to == memory.expires_at
    assert {found.id for found in listed(client, state=pb.MEMORY_STATE_RETIRED)} == {memory.id}


def test_the_day_of_an_event_is_meant_in_its_time_zone(client: Client) -> None:
    evening = stamp(datetime(2026, 3, 1, 17, 30, tzinfo=UTC))  # 1:30 on March 2 in Shanghai
    morning = stamp(datetime(2026, 3, 1, 1, 0, tzinfo=UTC))
    first = added(client, "订了一杯拿铁", occurred_at=evening)
    assert first.valid_from == first.occurred_at == evening
    assert save(client, "订了一杯拿铁", occurred_at=morning).matched_id == first.id
    assert save(client, "订了一杯拿铁", occurred_at=evening, time_zone="UTC").matched_id == first.id
    shanghai = save(client, "订了一杯拿铁", occurred_at=evening, time_zone="Asia/Shanghai")
    assert shanghai.outcome == ADDED
    next_day = stamp(datetime(2026, 3, 2, 3, 0, tzinfo=UTC))
    assert save(client, "订了一杯拿铁", occurred_at=next_day).matched_id == shanghai.memory.id
    assert save(client, "订了一杯拿铁").outcome == ADDED


@pytest.mark.parametrize("zone", ["", "Pacific/Kiritimati", "America/New_York", "Asia/Kathmandu"])
@pytest.mark.parametrize(
    "when", [(-62_135_596_800, 0), (253_402_300_799, 999_999_999), (-1, 999_999_999), (0, 0)], ids=lambda w: str(w[0])
)
def test_the_first_and_the_last_instant_can_be_stated(client: Client, when: tuple[int, int], zone: str) -> None:
    seconds, nanos = when
    occurred = {"seconds": seconds, "nanos": nanos}
    memory = added(client, "The story takes place then", occurred_at=occurred, time_zone=zone, shard=TRANSACTION)
    assert (memory.occurred_at.seconds, memory.occurred_at.nanos) == (seconds, nanos // 1000 * 1000)
    assert get(client, memory.id) == memory
    again = save(client, "The story takes place then", occurred_at=occurred, time_zone=zone, shard=TRANSACTION)
    assert again.outcome == DUPLICATE
    identity = added(client, "My grandmother's name is Ida", occurred_at=occurred, shard=m.MEMORY_SHARD_IDENTITY)
    assert {found.id for found in listed(client)} == {memory.id, identity.id}


def test_a_transaction_is_the_same_only_within_its_week_or_day(client: Client) -> None:
    text = "订了一杯拿铁"
    this_week = added(client, text, shard=TRANSACTION)
    assert save(client, text, shard=TRANSACTION).matched_id == this_week.id
    days = [stamp(datetime(2026, 3, day, 9, tzinfo=UTC)) for day in (2, 3, 9)]
    dated = [added(client, text, shard=TRANSACTION, occurred_at=day).id for day in days]
    assert len({this_week.id, *dated}) == len(listed(client)) == 4
    assert save(client, text, shard=TRANSACTION, occurred_at=days[1]).matched_id == dated[1]


def test_what_was_true_earlier_never_replaces_what_came_later(client: Client) -> None:
    now = added(client, "我用 MySQL 9", occurred_at=stamp(datetime(2026, 3, 1, tzinfo=UTC)))
    answer = save(client, "我用 MySQL 8", occurred_at=stamp(datetime(2024, 1, 1, tzinfo=UTC)))
    assert (answer.outcome, answer.reason_code) == (ADDED, pb.SAVE_REASON_CODE_OLDER)
    assert answer.matched_id == now.id
    assert not answer.superseded_ids
    assert texts(client) == ["我用 MySQL 9"]
    [old] = listed(client, state=pb.MEMORY_STATE_RETIRED)
    assert (old.content, old.superseded_by, old.invalid_reason) == (
        "我用 MySQL 8",
        now.id,
        m.INVALID_REASON_SUPERSEDED,
    )
    assert (old.valid_from, old.valid_to) == (old.occurred_at, now.valid_from)
    assert get(client, now.id).etag == now.etag


# Repeats


def test_a_repeat_answers_the_first_outcome_with_the_memory_as_it_is_now(client: Client) -> None:
    id = uuid_text()
    first = save(client, "I live in Bonn", request_id=id, attributes={"b": "2", "a": "1"})
    assert first.outcome == ADDED
    repeat = save(client, "I live in Bonn", request_id=id, attributes={"a": "1", "b": "2"})
    assert (repeat.outcome, repeat.reason_code, repeat.memory) == (ADDED, pb.SAVE_REASON_CODE_NEW, first.memory)
    invalidate(client, first.memory.id)
    later = save(client, "I live in Bonn", request_id=id.upper(), attributes={"a": "1", "b": "2"})
    assert (later.outcome, later.memory.id) == (ADDED, first.memory.id)
    assert later.memory.invalid_reason == m.INVALID_REASON_INVALIDATED
    assert not listed(client)


def test_a_repeat_of_a_batch_answers_every_draft_again(client: Client) -> None:
    old, id = added(client, "I live in Bonn"), uuid_text()
    drafts = [draft("I live in Ulm", supersedes=[old.id]), draft("/help"), draft("I live in Ulm")]
    first, again = batch(client, drafts, request_id=id), batch(client, drafts, request_id=id)
    assert [r.outcome for r in first] == [REPLACED, FILTERED, DUPLICATE]
    for one, two in zip(first, again, strict=True):
        assert (one.outcome, one.reason_code, one.memory.id) == (two.outcome, two.reason_code, two.memory.id)
        assert (one.matched_id, list(one.superseded_ids)) == (two.matched_id, list(two.superseded_ids))
        assert two.reason
    assert texts(client) == ["I live in Ulm"]


@pytest.mark.parametrize(
    "other",
    [
        {"content": "I live in Ulm"},
        {"type": PREFERENCE},
        {"shard": TRANSACTION},
        {"pinned": True},
        {"attributes": {"a": "1"}},
        {"occurred_at": {"seconds": 1}},
        {"source": {"session_id": "s"}},
        {"time_zone": "Asia/Shanghai"},
        {"supersedes": [uuid_text()]},
    ],
    ids=lambda other: next(iter(other)),
)
def test_the_same_request_id_with_other_arguments_is_refused(client: Client, other: dict[str, object]) -> None:
    base = {"type": FACT, "content": "I live in Bonn", "request_id": uuid_text()}
    client.SaveMemory(pb.SaveMemoryRequest(**base))
    with refused(INVALID) as refusal:
        client.SaveMemory(pb.SaveMemoryRequest(**base | other))
    assert fields(refusal) == ["request_id"]
    assert texts(client) == ["I live in Bonn"]


def test_arguments_are_compared_with_their_defaults_applied(client: Client) -> None:
    id = uuid_text()
    first = save(client, "I live in Bonn", request_id=id)
    explicit = save(client, "I live in Bonn", request_id=id, shard=GENERAL, source=m.MemorySource(), time_zone="UTC")
    assert explicit.memory.id == first.memory.id
    assert explicit.outcome == ADDED
    one, two = draft("I like tea"), draft("I like tea", shard=GENERAL, source=m.MemorySource(), time_zone="UTC")
    id = uuid_text()
    assert batch(client, [one], request_id=id)[0].memory == batch(client, [two], request_id=id)[0].memory


def test_request_ids_are_apart_by_rpc_and_by_user(client: Client, client_of: Callable[..., Client]) -> None:
    id, other = uuid_text(), client_of()
    mine = save(client, "I live in Bonn", request_id=id)
    theirs = save(other, "I live in Ulm", request_id=id)
    assert (mine.outcome, theirs.outcome) == (ADDED, ADDED)
    [batched] = batch(client, [draft("I live on Mars, in dome 7")], request_id=id)
    assert batched.outcome == ADDED
    assert invalidate(client, mine.memory.id, request_id=id).invalid_reason == m.INVALID_REASON_INVALIDATED


def test_failures_are_not_remembered(client: Client) -> None:
    id, unknown = uuid_text(), uuid_text()
    with refused(NOT_FOUND):
        save(client, "I live in Bonn", request_id=id, supersedes=[unknown])
    with refused(INVALID):
        save(client, "", request_id=id)
    assert save(client, "I live in Ulm", request_id=id).outcome == ADDED


def test_fifty_repeats_at_once_have_one_effect(client: Client) -> None:
    request = pb.SaveMemoryRequest(type=FACT, content="I live in Bonn", request_id=uuid_text())
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: client.SaveMemory(request), range(50)))
    assert {(a.outcome, a.memory.id, a.memory.etag) for a in answers} == {
        (ADDED, answers[0].memory.id, answers[0].memory.etag)
    }
    assert len(listed(client, state=pb.MEMORY_STATE_ANY)) == 1


def test_fifty_saves_of_one_text_at_once_are_one_memory(client: Client) -> None:
    request = pb.SaveMemoryRequest(type=FACT, content="I really like coffee")
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: client.SaveMemory(request), range(50)))
    assert Counter(a.outcome for a in answers) == {ADDED: 1, DUPLICATE: 49}
    assert len({a.memory.id for a in answers}) == 1
    assert len(listed(client, state=pb.MEMORY_STATE_ANY)) == 1


def test_of_two_corrections_at_once_one_wins(client: Client) -> None:
    old = added(client, "I live in Bonn")
    cities = ["Ulm", "Rom", "Oslo", "Köln", "Graz", "Bern"]
    codes: list[object] = []

    def correct(city: str) -> None:
        try:
            save(client, f"I live in {city}", supersedes=[old.id])
            codes.append("done")
        except Exception as error:
            codes.append(error.code())  # type: ignore[attr-defined]

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(correct, cities))
    assert Counter(codes) == {"done": 1, PRECONDITION: 5}
    assert len(listed(client)) == 1


# Texts that hurt elsewhere

HOSTILE = [
    "'; DROP TABLE user_memory; --",
    '" or 1=1 or "',
    "user_id == 'a' or user_id == null",
    '") or true or ("',
    "IN (1, 2) && shard in [1] %' ESCAPE '\\'",
    "C++ AND (foo) + - > < ~ * \" @ NEAR",
    "C:\\repo\\main.py und \\\\server\\share\\x",
    "100% of {users} like ${this} {{template}} %s %(x)s",
    "{'json': [1, 2, null]} \\u0000 \\x00",
    "the token <|endoftext|> ends <|im_start|> a text",
    "tab\tand\nlines\r\nof text",
    "zero\u200bwidth\u200djoiner \ufeffbom \u202eright-to-left",
    "עברית ועוד العربية हिन्दी ไทย 日本語 한국어 Ελληνικά кириллица",
    "J'aime le café crème et les œufs",
    "e\u0301 combining, ﬁ ligature, ① circled, ㎏ unit",
    "𝕌𝕟𝕚𝕔𝕠𝕕𝕖 𠮷 🏳️‍🌈 👩🏽‍🚀",
    "../../../etc/passwd && $(reboot) `id`",
    "<script>alert(1)</script> &amp; &#0;",
    "SELECT SLEEP(5) FROM user_memory WHERE user_id = 'x' UNION SELECT * FROM user_key",
    "*",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_only_texts(client: Client, text: str) -> None:
    if text == "*":
        assert save(client, text).outcome == FILTERED
        return
    quoted = m.MemorySource(quote=text, session_id="a|b:c")
    memory = added(client, text, attributes={"note": text[:256]}, source=quoted)
    assert memory.content == text
    got = get(client, memory.id)
    assert (got.content, got.attributes["note"]) == (text, text[:256])
    assert got.source.quote == text
    assert save(client, text).outcome == DUPLICATE
    found = recall(client, f"{text} 12345", min_similarity=-1)
    assert [hit.id for hit in found] == [memory.id]
    equals = pb.AttributeFilter(key="note", equals=text[:256])
    assert [hit.id for hit in recall(client, f"{text} 12345", attribute_filters=[equals], min_similarity=-1)] == [
        memory.id
    ]
    assert clear(client) == 1


def test_a_text_of_nine_thousand_tokens_can_be_found_by_what_it_begins_with(client: Client) -> None:
    text = ("我的合同编号 HX-20931 <|endoftext|> " + "汉字😀" * 3000)[:8000]
    memory = added(client, text)
    assert [hit.id for hit in recall(client, "合同 HX-20931")] == [memory.id]
    assert [hit.id for hit in recall(client, text)] == [memory.id]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"\x08\x02\x12\x04a\xff\xfeb", "no UTF-8"),
        (b"\x08\x02\x12\x05a\xed\xa0\x80b", "a lone surrogate"),
        (b"\x08\x02\x12\x04a\xc0\x80b", "an overlong NUL"),
        (b"\x08\x02\x12\x7fa", "a field that ends early"),
        (b"\x12", "a tag without a value"),
        (b"\x0f\x00", "an unknown wire type"),
        (b"\xff" * 64, "noise"),
        (b"\x08\x02\x12\x01x\x22\x09\x0a\x03k\xffk\x12\x01v", "a map key that is no UTF-8"),
    ],
)
def test_what_is_no_message_is_refused_in_clear(client: Client, body: bytes, what: str) -> None:
    details = raw_call(client, "SaveMemory", body)
    assert details is not None, what
    assert details.code == INVALID
    assert details.reason == "MALFORMED_REQUEST"
    assert [violation.field for violation in details.violations] == ["*"]
    assert not listed(client)
