"""GetMemory, ListMemories, UpdateMemory, InvalidateMemory, RestoreMemory and ClearMemories through the public door."""

import base64
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from tests.acceptance.calls import (
    ABORTED,
    ADDED,
    CONTEXT,
    DUPLICATE,
    FACT,
    GENERAL,
    IDENTITY,
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
    recall,
    restore,
    save,
    seconds_from_now,
    stamp,
    texts,
    update,
    uuid_text,
)
from tests.service import Client, eventually, refused

MOST_BYTES = 3_670_016  # 3.5 MiB

# Get


def test_an_id_that_is_no_id_and_one_that_is_nobodys_are_told_apart(client: Client) -> None:
    memory = added(client, "I live in Bonn")
    for bad in ("", "42", "FACT-3", memory.id[:-1], memory.id.upper(), memory.id + "\0", f"urn:uuid:{memory.id}"):
        with refused(INVALID) as refusal:
            get(client, bad)
        assert fields(refusal) == ["id"]
    with refused(NOT_FOUND) as refusal:
        get(client, uuid_text())
    assert refusal.details.reason == "MEMORY_NOT_FOUND"
    assert not refusal.details.violations


def test_an_expired_memory_is_shown_as_such(client: Client) -> None:
    end = datetime.now(UTC) + timedelta(seconds=1)
    memory = added(client, "My visitor badge is number 5521", expires_at=stamp(end))
    eventually(lambda: datetime.now(UTC) >= end)
    shown = get(client, memory.id)
    assert shown.invalid_reason == m.INVALID_REASON_EXPIRED
    assert shown.invalidated_at == shown.valid_to == memory.expires_at
    assert not listed(client)
    assert [found.invalid_reason for found in listed(client, state=pb.MEMORY_STATE_ANY)] == [m.INVALID_REASON_EXPIRED]
    with refused(PRECONDITION) as refusal:
        restore(client, memory.id)
    assert refusal.details.reason == "MEMORY_EXPIRED"


# List


def test_a_new_user_has_an_empty_list(client: Client) -> None:
    page = client.ListMemories(pb.ListMemoriesRequest())
    assert (list(page.memories), page.next_page_token) == ([], "")
    assert clear(client) == 0


def test_twenty_one_memories_are_paged(client: Client) -> None:
    ids = [r.memory.id for r in batch(client, [draft(f"Order {n} was paid") for n in range(21)])]
    pages, token = [], ""
    while True:
        page = client.ListMemories(pb.ListMemoriesRequest(page_size=10, page_token=token))
        pages.append([memory.id for memory in page.memories])
        token = page.next_page_token
        if not token:
            break
    assert [len(page) for page in pages] == [10, 10, 1]
    assert [id for page in pages for id in page] == ids[::-1]
    assert len(client.ListMemories(pb.ListMemoriesRequest(page_size=21)).memories) == 21
    assert not client.ListMemories(pb.ListMemoriesRequest(page_size=21)).next_page_token
    assert len(client.ListMemories(pb.ListMemoriesRequest(page_size=2_000_000)).memories) == 21


def test_a_page_goes_on_where_the_one_before_ended(client: Client) -> None:
    ids = [r.memory.id for r in batch(client, [draft(f"Order {n} was paid") for n in range(6)])]
    first = client.ListMemories(pb.ListMemoriesRequest(page_size=2))
    added(client, "Order 99 was paid")
    invalidate(client, ids[3])
    second = client.ListMemories(pb.ListMemoriesRequest(page_size=3, page_token=first.next_page_token))
    assert [memory.id for memory in second.memories] == [ids[2], ids[1], ids[0]]


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_page_has_no_negative_size(client: Client, size: int) -> None:
    with refused(INVALID) as refusal:
        client.ListMemories(pb.ListMemoriesRequest(page_size=size))
    assert fields(refusal) == ["page_size"]


def test_a_page_token_serves_its_user_and_its_arguments_only(client: Client, client_of: Callable[..., Client]) -> None:
    batch(client, [draft(f"Order {n} was paid") for n in range(4)])
    other = client_of()
    batch(other, [draft(f"Order {n} was paid") for n in range(4)])
    token = client.ListMemories(pb.ListMemoriesRequest(page_size=2)).next_page_token
    middle = len(token) // 2
    tampered = [
        token[:-1] + ("A" if token[-1] != "A" else "B"),
        token[:middle] + ("A" if token[middle] != "A" else "B") + token[middle + 1 :],
        token[: len(token) // 2],
        token + "AAAA",
        base64.urlsafe_b64encode(listed(client)[1].id.encode()).decode(),
        listed(client)[1].id,
        "x",
        "' or 1=1",
        "记",
        "A" * 100_000,
        client.ListMemories(pb.ListMemoriesRequest()).freshness,
    ]
    for bad in tampered:
        with refused(INVALID) as refusal:
            client.ListMemories(pb.ListMemoriesRequest(page_size=2, page_token=bad))
        assert fields(refusal) == ["page_token"]
    for changed in ({"types": [FACT]}, {"shards": [GENERAL]}, {"session_id": "s"}, {"state": pb.MEMORY_STATE_ANY}):
        with refused(INVALID) as refusal:
            client.ListMemories(pb.ListMemoriesRequest(page_token=token, **changed))
        assert fields(refusal) == ["page_token"]
    with refused(INVALID) as refusal:
        other.ListMemories(pb.ListMemoriesRequest(page_size=2, page_token=token))
    assert fields(refusal) == ["page_token"]
    assert len(client.ListMemories(pb.ListMemoriesRequest(page_size=9, page_token=token)).memories) == 2


def test_a_list_filters_by_type_shard_session_state_and_time(client: Client) -> None:
    drafts = [
        draft("I like tea", PREFERENCE, source={"session_id": "a"}),
        draft("Order 5512 was paid", FACT, shard=TRANSACTION, source={"session_id": "b"}),
        draft("We plan a trip to Rome", CONTEXT, shard=IDENTITY, source={"session_id": "B"}),
    ]
    tea, order, trip = (r.memory for r in batch(client, drafts))
    later = added(client, "My cat is Mia")
    assert {found.id for found in listed(client, types=[PREFERENCE, CONTEXT])} == {tea.id, trip.id}
    assert {found.id for found in listed(client, shards=[TRANSACTION, IDENTITY])} == {order.id, trip.id}
    assert [found.id for found in listed(client, session_id="b")] == [order.id]
    assert not listed(client, session_id="c")
    assert [found.id for found in listed(client, created_after=later.created_at)] == [later.id]
    assert {found.id for found in listed(client, created_before=later.created_at)} == {tea.id, order.id, trip.id}
    gone = invalidate(client, tea.id)
    assert [found.id for found in listed(client, state=pb.MEMORY_STATE_RETIRED)] == [gone.id]
    assert len(listed(client, state=pb.MEMORY_STATE_ANY)) == 4
    assert not listed(client, types=[PREFERENCE], shards=[TRANSACTION])


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        (pb.ListMemoriesRequest(types=[0, 9], shards=[FACT, 77]), ["types[0]", "types[1]", "shards[1]"]),
        (pb.ListMemoriesRequest(state=9), ["state"]),
        (pb.ListMemoriesRequest(session_id="a b"), ["session_id"]),
        (pb.ListMemoriesRequest(created_after={"seconds": 9}, created_before={"seconds": 9}), ["created_before"]),
        (pb.ListMemoriesRequest(freshness="x"), ["freshness"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_list_that_asks_wrongly_is_refused(
    client: Client, request_: pb.ListMemoriesRequest, wanted: list[str]
) -> None:
    with refused(INVALID) as refusal:
        client.ListMemories(request_)
    assert fields(refusal) == wanted


def test_answers_stay_below_their_size(client: Client) -> None:
    """A hundred memories of 35 KB: the list ends its page early, the recall leaves out its last hits and says so."""
    # The model reads the first 512 tokens: blanks, so that saving them costs next to nothing.
    attributes = dict.fromkeys("abc", "😀" * 256) | {"d": "😀" * 240}
    for half in (range(50), range(50, 100)):
        drafts = [draft(f"Parcel XK-77 box {n} " + "　" * 500 + "😀" * 7470, attributes=attributes) for n in half]
        assert {r.outcome for r in batch(client, drafts)} == {ADDED}
    page = client.ListMemories(pb.ListMemoriesRequest(page_size=1000))
    assert 90 < len(page.memories) < 100
    assert 3_000_000 < page.ByteSize() <= MOST_BYTES
    rest = client.ListMemories(pb.ListMemoriesRequest(page_size=1000, page_token=page.next_page_token))
    assert len(page.memories) + len(rest.memories) == 100
    assert not rest.next_page_token
    found = client.RecallMemories(pb.RecallMemoriesRequest(query="Parcel XK-77", top_k=100))
    assert found.truncated
    assert 90 < len(found.hits) < 100
    assert found.ByteSize() <= MOST_BYTES
    few = client.RecallMemories(pb.RecallMemoriesRequest(query="Parcel XK-77", top_k=3))
    assert [hit.memory.id for hit in few.hits] == [hit.memory.id for hit in found.hits[:3]]
    assert not few.truncated


# Update


def test_pin_attributes_and_expiry_change_in_place(client: Client) -> None:
    memory = added(client, "I live in Bonn", attributes={"a": "1", "b": "2"})
    end = seconds_from_now(3600)
    answer = update(
        client, memory.id, "pinned", "attributes", "expires_at", pinned=True, attributes={"c": "3"}, expires_at=end
    )
    now = answer.memory
    assert (now.id, now.content, now.pinned, dict(now.attributes)) == (memory.id, "I live in Bonn", True, {"c": "3"})
    assert now.expires_at == end
    assert now.etag != memory.etag
    assert not answer.superseded_ids
    assert get(client, memory.id) == now
    cleared = update(client, memory.id, "pinned", "attributes", "expires_at").memory
    assert (cleared.pinned, dict(cleared.attributes), cleared.HasField("expires_at")) == (False, {}, False)
    assert get(client, memory.id) == cleared
    assert len(listed(client, state=pb.MEMORY_STATE_ANY)) == 1


def test_what_the_mask_does_not_name_stays(client: Client) -> None:
    memory = added(client, "I live in Bonn", attributes={"a": "1"}, pinned=True)
    answer = update(client, memory.id, "attributes", content="I live in Ulm", attributes={"a": "2"}, type=CONTEXT)
    assert (answer.memory.content, answer.memory.pinned, answer.memory.type) == ("I live in Bonn", True, FACT)
    assert dict(answer.memory.attributes) == {"a": "2"}
    same = update(client, memory.id, "attributes", attributes={"a": "2"}).memory
    assert same.etag == answer.memory.etag, "nothing changed"


def test_a_new_content_is_a_new_memory_with_the_rest_of_the_old_one(client: Client) -> None:
    when = stamp(datetime(2026, 3, 1, 20, tzinfo=UTC))
    old = added(
        client,
        "订了一杯拿铁",
        PREFERENCE,
        shard=TRANSACTION,
        attributes={"a": "1"},
        pinned=True,
        occurred_at=when,
        time_zone="Asia/Shanghai",
        expires_at=seconds_from_now(3600),
        source={"session_id": "s", "quote": "来一杯拿铁", "role": "user"},
    )
    answer = update(client, old.id, content="订了两杯美式")
    new = answer.memory
    assert list(answer.superseded_ids) == [old.id]
    assert new.id != old.id
    assert (new.content, new.type, new.shard, new.pinned) == ("订了两杯美式", PREFERENCE, TRANSACTION, True)
    assert (dict(new.attributes), new.occurred_at, new.expires_at) == ({"a": "1"}, when, old.expires_at)
    assert (new.source.session_id, new.source.role) == ("s", "user")
    assert not new.source.quote, "the quote proves the old words, not these"
    retired = get(client, old.id)
    assert (retired.superseded_by, retired.invalid_reason) == (new.id, m.INVALID_REASON_SUPERSEDED)
    # It is still the event of March 2 in Shanghai.
    again = {"shard": TRANSACTION, "occurred_at": when}
    assert save(client, "订了两杯美式", PREFERENCE, time_zone="Asia/Shanghai", **again).matched_id == new.id
    both = update(client, new.id, content="订了三杯美式", pinned=False, attributes={})
    assert (both.memory.pinned, dict(both.memory.attributes), both.memory.expires_at) == (False, {}, old.expires_at)


def test_a_content_equal_to_the_present_one_changes_nothing(client: Client) -> None:
    memory = added(client, "I live in Bonn")
    answer = update(client, memory.id, content="  I live in Bonn ")
    assert (answer.memory.id, answer.memory.etag, list(answer.superseded_ids)) == (memory.id, memory.etag, [])
    pinned = update(client, memory.id, content="I live in Bonn", pinned=True).memory
    assert (pinned.id, pinned.pinned) == (memory.id, True)
    assert get(client, memory.id).pinned


def test_a_content_equal_to_another_memory_joins_the_two(client: Client) -> None:
    wrong, right = added(client, "I live in Bonn", pinned=True), added(client, "My home is the city of Ulm")
    answer = update(client, wrong.id, content="My home is the city of Ulm", attributes={"seen": "yes"})
    assert (answer.memory.id, list(answer.superseded_ids)) == (right.id, [wrong.id])
    assert (answer.memory.pinned, dict(answer.memory.attributes)) == (True, {"seen": "yes"})
    assert get(client, right.id) == answer.memory
    assert get(client, wrong.id).superseded_by == right.id
    assert len(listed(client)) == 1


def test_a_retired_memory_is_not_changed(client: Client) -> None:
    old = added(client, "I live in Bonn")
    new = update(client, old.id, content="I live in Ulm").memory
    for change in ({"content": "I live in Rom"}, {"pinned": True}, {"attributes": {"a": "1"}}):
        with refused(PRECONDITION) as refusal:
            update(client, old.id, **change)
        assert refusal.details.reason == "MEMORY_NOT_ACTIVE"
        assert refusal.details.metadata == {"superseded_by": new.id}
    invalidate(client, new.id)
    with refused(PRECONDITION) as refusal:
        update(client, new.id, pinned=True)
    assert refusal.details.metadata == {}


@pytest.mark.parametrize(
    ("values", "paths", "wanted"),
    [
        ({}, [], ["update_mask"]),
        ({}, ["shard"], ["update_mask"]),
        ({}, ["*"], ["update_mask"]),
        ({"content": "x"}, ["content", "id", "access_count"], ["update_mask", "update_mask"]),
        ({}, ["content"], ["memory.content"]),
        ({"content": " \n"}, [], ["memory.content"]),
        ({"content": "x" * 8001}, [], ["memory.content"]),
        ({"content": "a\0b"}, [], ["memory.content"]),
        ({"attributes": {"user_id": "victim"}}, [], ['memory.attributes["user_id"]']),
        ({"attributes": {f"k{n}": "v" for n in range(33)}}, [], ["memory.attributes"]),
        ({"expires_at": seconds_from_now(-5)}, [], ["memory.expires_at"]),
    ],
)
def test_a_bad_update_is_refused_by_name(
    client: Client, values: dict[str, object], paths: list[str], wanted: list[str]
) -> None:
    memory = added(client, "I live in Bonn")
    with refused(INVALID) as refusal:
        update(client, memory.id, *paths, **values)
    assert fields(refusal) == wanted
    assert get(client, memory.id) == memory


def test_a_stale_etag_is_aborted_whatever_the_change(client: Client) -> None:
    memory = added(client, "I live in Bonn")
    fresh = update(client, memory.id, pinned=True, etag=memory.etag).memory
    calls: list[Callable[[], object]] = [
        lambda: update(client, memory.id, pinned=False, etag=memory.etag),
        lambda: update(client, memory.id, content="I live in Ulm", etag=memory.etag),
        lambda: invalidate(client, memory.id, etag=memory.etag),
        lambda: restore(client, memory.id, etag=memory.etag),
        lambda: invalidate(client, memory.id, etag="nonsense"),
    ]
    for call in calls:
        with refused(ABORTED) as refusal:
            call()
        assert refusal.details.reason == "ETAG_MISMATCH"
    assert get(client, memory.id) == fresh
    gone = invalidate(client, memory.id, etag=fresh.etag)
    assert restore(client, memory.id, etag=gone.etag).memory.etag not in (gone.etag, fresh.etag)


@pytest.mark.parametrize("change", ["content", "attributes"])
def test_of_two_updates_with_one_etag_one_is_aborted(client: Client, change: str) -> None:
    memory = added(client, "I live in Bonn")

    def attempt(number: int) -> object:
        values: dict[str, object] = {"content": f"I live in dome {number}", "attributes": {"n": str(number)}}
        try:
            return update(client, memory.id, etag=memory.etag, **{change: values[change]}).memory.id
        except grpc.RpcError as error:
            return error.code()  # type: ignore[attr-defined]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(attempt, range(8)))
    # Where the winner made a new memory the others may find this one retired.
    assert sum(isinstance(result, str) for result in results) == 1
    assert {result for result in results if not isinstance(result, str)} == {ABORTED}
    assert len(listed(client)) == 1


def test_a_retired_memory_with_a_stale_etag_is_aborted(client: Client) -> None:
    memory = added(client, "I live in Bonn")
    update(client, memory.id, content="I live in Ulm")
    with refused(ABORTED):
        update(client, memory.id, content="I live in Rom", etag=memory.etag)


@pytest.mark.parametrize("rpc", ["update", "rewrite", "invalidate", "restore", "clear"])
def test_corrections_can_be_repeated(client: Client, rpc: str) -> None:
    memory, id = added(client, "I live in Bonn"), uuid_text()
    if rpc == "restore":
        invalidate(client, memory.id)
    calls: dict[str, Callable[[str], object]] = {
        "update": lambda other: update(client, memory.id, pinned=True, attributes={"a": other}, request_id=id),
        "rewrite": lambda other: update(client, memory.id, content=f"I live in Ulm{other}", request_id=id),
        "invalidate": lambda other: invalidate(client, memory.id, request_id=id, etag=other and memory.etag),
        "restore": lambda other: restore(client, memory.id, request_id=id, retire_conflicting=bool(other)),
        "clear": lambda other: clear(client, request_id=id, session_id=other),
    }
    first, again = calls[rpc](""), calls[rpc]("")
    if rpc == "clear":
        assert first == again == 1
        added(client, "I live in Rome")
        assert calls[rpc]("") == 1
        assert texts(client) == ["I live in Rome"]
    elif rpc == "invalidate":
        assert first == again
    else:
        assert first.memory == again.memory  # type: ignore[attr-defined]
        assert list(first.superseded_ids) == list(again.superseded_ids)  # type: ignore[attr-defined]
    with refused(INVALID) as refusal:
        calls[rpc]("x")
    assert fields(refusal) == ["request_id"]


def test_the_order_of_the_mask_is_no_other_argument(client: Client) -> None:
    memory, id = added(client, "I live in Bonn"), uuid_text()
    one = update(client, memory.id, "pinned", "attributes", pinned=True, request_id=id)
    two = update(client, memory.id, "attributes", "pinned", "pinned", pinned=True, request_id=id)
    assert one.memory == two.memory


# Invalidate and restore


def test_invalidating_twice_is_once(client: Client) -> None:
    memory = added(client, "I live in Bonn")
    gone = invalidate(client, memory.id)
    assert gone.invalid_reason == m.INVALID_REASON_INVALIDATED
    assert gone.HasField("invalidated_at")
    assert not gone.HasField("valid_to"), "nobody said when it ended"
    assert gone.etag != memory.etag
    assert invalidate(client, memory.id) == gone == get(client, memory.id)
    assert not listed(client)


def test_restoring_brings_back_what_was_there(client: Client) -> None:
    memory = added(client, "我的合同编号是 HX-20931", attributes={"a": "1"}, pinned=True)
    invalidate(client, memory.id)
    assert not recall(client, "合同编号是多少")
    back = restore(client, memory.id)
    assert not back.superseded_ids
    for name in ("id", "content", "type", "shard", "attributes", "pinned", "created_at", "valid_from"):
        assert getattr(back.memory, name) == getattr(memory, name), name
    for unset in ("invalidated_at", "valid_to"):
        assert not back.memory.HasField(unset)
    assert get(client, memory.id) == back.memory
    assert [found.id for found in recall(client, "合同编号是多少")] == [memory.id]
    assert restore(client, memory.id).memory.etag == back.memory.etag, "an active one stays as it is"


def test_a_text_can_be_saved_again_after_it_was_retired(client: Client) -> None:
    ids = []
    for retire in ("invalidate", "clear", "supersede", "nothing"):
        ids.append(added(client, "I live in Bonn").id)
        if retire == "invalidate":
            invalidate(client, ids[-1])
        elif retire == "clear":
            clear(client)
        elif retire == "supersede":
            invalidate(client, update(client, ids[-1], content="I live on Mars, in dome 7").memory.id)
    assert len(set(ids)) == 4
    assert texts(client) == ["I live in Bonn"]
    assert Counter(texts(client, state=pb.MEMORY_STATE_RETIRED)) == {
        "I live in Bonn": 3,
        "I live on Mars, in dome 7": 1,
    }


@pytest.mark.parametrize("how", ["invalidated", "cleared", "superseded"])
def test_an_equal_memory_stands_in_the_way_of_a_restored_one(client: Client, how: str) -> None:
    memory = added(client, "I live in Bonn")
    if how == "invalidated":
        invalidate(client, memory.id)
    elif how == "cleared":
        assert clear(client) == 1
    else:
        invalidate(client, update(client, memory.id, content="I live on Mars, in dome 7").memory.id)
    equal = added(client, "I live in  Bonn")
    with refused(PRECONDITION) as refusal:
        restore(client, memory.id)
    assert refusal.details.reason == "CONFLICTING_MEMORY"
    assert refusal.details.metadata == {"conflicting_id": equal.id}
    assert texts(client) == ["I live in  Bonn"]
    back = restore(client, memory.id, retire_conflicting=True)
    assert list(back.superseded_ids) == [equal.id]
    assert [found.id for found in listed(client)] == [memory.id]
    retired = get(client, equal.id)
    assert (retired.superseded_by, retired.invalid_reason) == (memory.id, m.INVALID_REASON_SUPERSEDED)
    with refused(PRECONDITION) as refusal:
        restore(client, equal.id)
    assert refusal.details.metadata == {"conflicting_id": memory.id}


def test_a_contradicting_memory_stands_in_the_way_too(client: Client) -> None:
    old = added(client, "我用 MySQL 8")
    new = save(client, "我用 MySQL 9")
    assert new.outcome == REPLACED
    with refused(PRECONDITION) as refusal:
        restore(client, old.id)
    assert refusal.details.metadata == {"conflicting_id": new.memory.id}
    back = restore(client, old.id, retire_conflicting=True)
    assert list(back.superseded_ids) == [new.memory.id]
    assert texts(client) == ["我用 MySQL 8"]
    assert not back.memory.superseded_by


def test_restores_at_once_leave_one_active(client: Client) -> None:
    first = added(client, "I live in Bonn")
    invalidate(client, first.id)
    second = added(client, "I live in Bonn")
    invalidate(client, second.id)

    def attempt(id: str) -> object:
        try:
            return restore(client, id).memory.id
        except grpc.RpcError as error:
            return error.code()  # type: ignore[attr-defined]

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(attempt, [first.id, second.id]))
    assert PRECONDITION in results
    assert [found.id for found in listed(client)] == [result for result in results if isinstance(result, str)]


# Clear


@pytest.fixture
def shelf(client: Client) -> dict[str, m.Memory]:
    """Four memories that differ in type, shard and session, and one that came later."""
    drafts = {
        "tea": draft("I like tea", PREFERENCE, source={"session_id": "a"}),
        "order": draft("Order 5512 was paid", shard=TRANSACTION, source={"session_id": "b"}),
        "name": draft("My name is Ida", shard=IDENTITY, source={"session_id": "B"}),
        "trip": draft("We plan a trip to Rome", CONTEXT, source={"session_id": "a"}),
    }
    kept = dict(zip(drafts, (r.memory for r in batch(client, drafts.values())), strict=True))
    return kept | {"late": added(client, "The heating is broken")}


@pytest.mark.parametrize(
    ("which", "left"),
    [
        ({}, set()),
        ({"types": [PREFERENCE, CONTEXT]}, {"order", "name", "late"}),
        ({"shards": [TRANSACTION, IDENTITY]}, {"tea", "trip", "late"}),
        ({"session_id": "a"}, {"order", "name", "late"}),
        ({"session_id": "b"}, {"tea", "name", "trip", "late"}),
        ({"session_id": "nobody"}, {"tea", "order", "name", "trip", "late"}),
        ({"types": [CONTEXT], "session_id": "a"}, {"tea", "order", "name", "late"}),
        ({"types": [CONTEXT], "shards": [TRANSACTION]}, {"tea", "order", "name", "trip", "late"}),
        ({"created_after": "late"}, {"tea", "order", "name", "trip"}),
        ({"created_before": "late"}, {"late"}),
    ],
)
def test_clearing_retires_what_matches_and_nothing_else(
    client: Client,
    client_of: Callable[..., Client],
    shelf: dict[str, m.Memory],
    which: dict[str, object],
    left: set[str],
) -> None:
    neighbour = client_of()
    batch(neighbour, [draft("I like tea", PREFERENCE, source={"session_id": "a"}), draft("My name is Ida")])
    which = {
        key: shelf[value].created_at if isinstance(value, str) and value == "late" else value
        for key, value in which.items()
    }
    assert clear(client, **which) == len(shelf) - len(left)
    assert {found.id for found in listed(client)} == {shelf[name].id for name in left}
    for name in shelf.keys() - left:
        gone = get(client, shelf[name].id)
        assert gone.invalid_reason == m.INVALID_REASON_CLEARED
        assert gone.HasField("invalidated_at")
        assert restore(client, gone.id).memory.content == shelf[name].content
    assert {found.id for found in listed(client)} == {memory.id for memory in shelf.values()}
    assert len(listed(neighbour)) == 2
    assert not listed(neighbour, state=pb.MEMORY_STATE_RETIRED)


def test_clearing_twice_counts_once_and_recalls_nothing(client: Client, shelf: dict[str, m.Memory]) -> None:
    assert recall(client, "order 5512")
    assert clear(client) == len(shelf)
    assert clear(client) == 0
    assert not recall(client, "order 5512")
    assert save(client, "I like tea", PREFERENCE).outcome == ADDED
    assert save(client, "I like tea", PREFERENCE).outcome == DUPLICATE


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        (pb.ClearMemoriesRequest(types=[0]), ["types[0]"]),
        (pb.ClearMemoriesRequest(shards=[88]), ["shards[0]"]),
        (pb.ClearMemoriesRequest(session_id="%"), ["session_id"]),
        (pb.ClearMemoriesRequest(created_after={"seconds": 2}, created_before={"seconds": 1}), ["created_before"]),
        (pb.ClearMemoriesRequest(request_id="{}"), ["request_id"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_bad_condition_clears_nothing(
    client: Client, shelf: dict[str, m.Memory], request_: pb.ClearMemoriesRequest, wanted: list[str]
) -> None:
    with refused(INVALID) as refusal:
        client.ClearMemories(request_)
    assert fields(refusal) == wanted
    assert len(listed(client)) == len(shelf)
