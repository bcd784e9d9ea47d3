"""Nobody sees, counts, compares or changes what is not theirs: users, sessions, shards, scopes, and what errors say."""

import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import jwt
import pytest

from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from shared.grpc_errors import DOMAIN, ErrorDetails, details_of
from tests.acceptance.calls import (
    ADDED,
    DUPLICATE,
    FACT,
    GENERAL,
    IDENTITY,
    INVALID,
    JWT,
    NOT_FOUND,
    PRECONDITION,
    REPLACED,
    SECRET,
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
    raw_call,
    recall,
    restore,
    save,
    texts,
    update,
    uuid_text,
)
from tests.acceptance.conftest import environment_of
from tests.service import Client, ServiceProcess, refused

UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
DENIED = grpc.StatusCode.PERMISSION_DENIED

# Who a user is


def test_user_ids_that_differ_are_different_users(client_of: Callable[..., Client]) -> None:
    tag = uuid.uuid4().hex[:8]
    ids = [
        f"{name}{tag}"
        for name in ("Alice", "alice", "ALICE", "Alice.", "app/agent/", "app/", "app|", "a@b.c+", "-", "..")
    ]
    ids += [f"Alice{tag}1", f"Alice{tag[:-1]}", f"{tag}null", f"{tag}" + "x" * 120, f"{tag}" + "x" * 119]
    assert len({*ids}) == len(ids)
    clients = [client_of(id) for id in ids]
    for number, client in enumerate(clients):
        assert added(client, f"Order {number} was paid").content
    for number, client in enumerate(clients):
        assert texts(client, state=pb.MEMORY_STATE_ANY) == [f"Order {number} was paid"]
        assert [found.content for found in recall(client, "order paid", min_similarity=-1)] == [
            f"Order {number} was paid"
        ]
    assert clear(clients[0]) == 1
    assert all(len(listed(client)) == 1 for client in clients[1:])


@pytest.mark.parametrize(
    "user",
    ["", "a b", "x" * 129, "x" * 300, "'", '"', ";", "a,b", "{a}", "*", "%", "a\\b", "<a>", "a?", "a#b", "~", "a&b",
     '") or true or ("', "user_id == null", "1' or '1'='1"],
)  # fmt: skip
def test_other_user_ids_are_refused_with_the_rule(client_of: Callable[..., Client], user: str) -> None:
    client = client_of("placeholder")
    client._headers = (("x-user-id", user),)
    for call in (
        lambda: save(client, "I live in Bonn"),
        lambda: listed(client),
        lambda: client.GetSettings(admin.GetSettingsRequest()),
    ):
        with refused(UNAUTHENTICATED) as refusal:
            call()
        assert refusal.details.domain == DOMAIN
        if user:
            assert "1 to 128 characters" in refusal.details.message


def test_blanks_around_a_user_id_make_no_other_user(client_of: Callable[..., Client]) -> None:
    name = f"bob-{uuid.uuid4().hex}"
    bob, blank = client_of(name), client_of(name)
    added(bob, "I live in Bonn")
    for value in (f" {name}", f"{name} ", f" {name} "):
        blank._headers = (("x-user-id", value),)
        try:
            seen: object = texts(blank)
        except grpc.RpcError as error:
            seen = error.code()  # type: ignore[attr-defined]
        assert seen in (UNAUTHENTICATED, ["I live in Bonn"]), "refused, or bob where the transport takes blanks off"


def test_a_call_names_its_user_exactly_once(client: Client) -> None:
    for headers in ((), (("x-user-id", client.user), ("x-user-id", client.user)), (("authorization", "Bearer x"),)):
        client._headers = headers
        with refused(UNAUTHENTICATED):
            listed(client)


# Two users


def test_two_users_with_the_same_everything_share_nothing(client: Client, client_of: Callable[..., Client]) -> None:
    other, source = client_of(), {"session_id": "s-1", "message_id": "m-1"}
    mine, theirs = added(client, "I live in Bonn", source=source), added(other, "I live in Bonn", source=source)
    assert mine.id != theirs.id
    assert [found.id for found in listed(client, session_id="s-1")] == [mine.id]
    assert [found.id for found in recall(client, "Bonn")] == [mine.id]
    assert save(client, "I live in Bonn").matched_id == mine.id
    assert clear(client, session_id="s-1") == 1
    assert get(other, theirs.id) == theirs
    assert [found.id for found in recall(other, "Bonn")] == [theirs.id]
    assert clear(client) == 0


def same_refusals(client: Client, id: str) -> list[tuple[Any, ...]]:
    """What every RPC that takes an id answers to one, without the id itself."""
    calls: list[Callable[[], object]] = [
        lambda: get(client, id),
        lambda: update(client, id, pinned=True),
        lambda: update(client, id, content="I live in Rome"),
        lambda: update(client, id, pinned=True, etag="1"),
        lambda: invalidate(client, id),
        lambda: invalidate(client, id, etag="1", request_id=uuid_text()),
        lambda: restore(client, id),
        lambda: restore(client, id, retire_conflicting=True),
        lambda: save(client, "I live in Rome", supersedes=[id]),
        lambda: batch(client, [draft("My cat is Mia"), draft("I live in Rome", supersedes=[id])]),
    ]
    answers = []
    for call in calls:
        with refused(NOT_FOUND) as refusal:
            call()
        found = refusal.details
        answers.append((found.code, found.message.replace(id, "ID"), found.reason, found.metadata, found.violations))
    return answers


@pytest.mark.parametrize("has_memories", [True, False])
def test_anothers_memory_is_like_one_that_does_not_exist(
    client: Client, client_of: Callable[..., Client], has_memories: bool
) -> None:
    other = client_of()
    theirs, retired = added(other, "I live in Bonn"), added(other, "My cat is called Mia")
    retired = invalidate(other, retired.id)
    if has_memories:
        added(client, "I live in Bonn")
    unknown = same_refusals(client, uuid_text())
    assert same_refusals(client, theirs.id) == unknown
    assert same_refusals(client, retired.id) == unknown
    assert get(other, theirs.id) == theirs
    assert get(other, retired.id) == retired
    assert len(listed(client, state=pb.MEMORY_STATE_ANY)) == int(has_memories)


# Tokens


@pytest.fixture(scope="module")
def guarded(request: pytest.FixtureRequest, deployment: str) -> Iterator[ServiceProcess]:
    """A service that wants tokens."""
    with ServiceProcess(environment_of(request, deployment, **JWT)) as process:
        yield process


Caller = Callable[..., Client]


@pytest.fixture
def caller(guarded: ServiceProcess) -> Iterator[Caller]:
    """Makes clients with tokens; without a name, of the user of this test."""
    user, clients = f"user-{uuid.uuid4()}", []

    def make(*scopes: str, name: str = user, **more: Any) -> Client:
        granted = scopes or ("memory:read", "memory:write", "memory:admin")
        clients.append(bearer(guarded.address, name, granted, **more))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def token(**changes: Any) -> str:
    """A token that would be right but for the changes; None takes a claim out."""
    algorithm, key = changes.pop("alg", "HS256"), changes.pop("key", SECRET)
    claims = {"sub": "ida", "aud": "palimpsest", "exp": 4_000_000_000, "scope": "memory:read memory:write"} | changes
    return jwt.encode({k: v for k, v in claims.items() if v is not None}, key, algorithm=algorithm)


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, UNAUTHENTICATED),
        ({"x-user-id": "ida"}, UNAUTHENTICATED),
        ({"authorization": token()}, UNAUTHENTICATED),
        ({"authorization": "Bearer"}, UNAUTHENTICATED),
        ({"authorization": "Bearer a.b.c"}, UNAUTHENTICATED),
        ({"authorization": f"Basic {token()}"}, UNAUTHENTICATED),
        ({"authorization": f"Bearer {token(exp=1_000_000_000)}"}, UNAUTHENTICATED),
        ({"authorization": f"Bearer {token(exp=None)}"}, UNAUTHENTICATED),
        ({"authorization": f"Bearer {token(nbf=3_999_999_999)}"}, UNAUTHENTICATED),
        ({"authorization": f"Bearer {token(aud='other')}"}, UNAUTHENTICATED),
        ({"authorization": f"Bearer {token(aud=None)}"}, UNAUTHENTICATED),
        ({"authorization": f"Bearer {token(sub=None)}"}, UNAUTHENTICATED),
        ({"authorization": f"Bearer {token(sub='a b')}"}, UNAUTHENTICATED),
        ({"authorization": f"Bearer {token(alg='none', key='')}"}, UNAUTHENTICATED),
        ({"authorization": f"Bearer {token(alg='HS512')}"}, UNAUTHENTICATED),
        ({"authorization": f"Bearer {token(key='b' * 40)}"}, UNAUTHENTICATED),
        ({"authorization": f"Bearer {token(shards='GENERAL')}"}, UNAUTHENTICATED),
        ({"authorization": f"Bearer {token()}", "x-user-id": "bob"}, DENIED),
        ({"authorization": f"Bearer {token()}", "x-user-id": "ida"}, DENIED),
        ({"authorization": f"Bearer {token(scope='memory:read act_as', act_as_prefix='shop/')}", "x-user-id": "bob"},
         DENIED),
        ({"authorization": f"Bearer {token(scope='act_as')}", "x-user-id": "bob"}, DENIED),
    ],
)  # fmt: skip
def test_a_call_without_proper_credentials_is_refused(
    caller: Caller, headers: dict[str, str], code: grpc.StatusCode
) -> None:
    client = caller()
    client._headers = tuple(headers.items())
    with refused(code) as refusal:
        listed(client)
    assert refusal.details.domain == DOMAIN
    assert refusal.details.reason


def test_a_trusted_backend_acts_for_its_users_only(caller: Caller) -> None:
    scopes = ("memory:read", "memory:write", "act_as")
    tag = uuid.uuid4().hex
    one = caller(*scopes, name="backend", act_for=f"shop/{tag}", act_as_prefix="shop/")
    kept = added(one, "I live in Bonn")
    assert listed(caller(name=f"shop/{tag}")) == [kept]
    assert listed(caller(*scopes, name="backend")) == [], "its own memories are others"
    assert listed(caller(*scopes, name="backend", act_for=f"shop/{tag}x", act_as_prefix="shop/")) == []
    with refused(DENIED) as refusal:
        listed(caller(*scopes, name="backend", act_for=f"bank/{tag}", act_as_prefix="shop/"))
    assert refusal.details.reason == "ACT_AS_PREFIX"
    with refused(UNAUTHENTICATED):
        listed(caller(*scopes, name="backend", act_for="a b"))


# Scopes


def test_every_rpc_needs_its_scope(caller: Caller) -> None:
    full, poor = caller(), caller("memory:privacy", "memory:pii", "identity:verify", "nonsense")
    memory = added(full, "I live in Bonn")
    reads = {
        "RecallMemories": pb.RecallMemoriesRequest(query="Bonn"),
        "GetMemory": pb.GetMemoryRequest(id=memory.id),
        "ListMemories": pb.ListMemoriesRequest(),
    }
    writes = {
        "SaveMemory": pb.SaveMemoryRequest(type=FACT, content="I live in Ulm"),
        "BatchSaveMemories": pb.BatchSaveMemoriesRequest(drafts=[draft("I live in Ulm")]),
        "UpdateMemory": pb.UpdateMemoryRequest(memory={"id": memory.id}, update_mask={"paths": ["pinned"]}),
        "InvalidateMemory": pb.InvalidateMemoryRequest(id=memory.id),
        "RestoreMemory": pb.RestoreMemoryRequest(id=memory.id),
        "ClearMemories": pb.ClearMemoriesRequest(),
    }
    operation = {
        "GetSettings": admin.GetSettingsRequest(),
        "UpdateSettings": admin.UpdateSettingsRequest(values={"eviction.max_active": "1"}),
        "Reindex": admin.ReindexRequest(),
        "Reconcile": admin.ReconcileRequest(),
        "GetJob": admin.GetJobRequest(id=uuid_text()),
        "GetStats": admin.GetStatsRequest(),
    }
    reader, writer, operator = caller("memory:read"), caller("memory:write"), caller("memory:admin")
    for scope, calls, lacking in (
        ("memory:read", reads, (poor, writer, operator)),
        ("memory:write", writes, (poor, reader, operator)),
        ("memory:admin", operation, (poor, reader, writer)),
    ):
        for name, request in calls.items():
            for client in lacking:
                for sent in (request, type(request)()):  # without a right not even the request is looked at
                    with refused(DENIED) as refusal:
                        getattr(client, name)(sent)
                    assert (refusal.details.reason, refusal.details.metadata) == ("SCOPE_MISSING", {"scope": scope})
    assert listed(reader) == [memory]


def test_a_writer_who_may_not_read_is_told_no_content(caller: Caller) -> None:
    full, writer = caller(), caller("memory:write")
    old = added(full, "我用 MySQL 8")
    answers = [
        save(writer, "我用 MySQL 9"),
        save(writer, "我用 MySQL 9"),
        *batch(writer, [draft("我有两个小孩"), draft("我有两个孩子"), draft("/help")]),
    ]
    assert [a.outcome for a in answers[:2]] == [REPLACED, DUPLICATE]
    assert list(answers[0].superseded_ids) == [old.id]
    for answer in answers:
        assert not answer.HasField("memory")
        assert answer.reason
        assert not re.search(r"8|9|MySQL|小孩|孩子|两|2", answer.reason.replace(answer.matched_id or "-", "")), (
            answer.reason
        )
    id = listed(full)[0].id
    changed = update(writer, id, pinned=True)
    gone = writer.InvalidateMemory(pb.InvalidateMemoryRequest(id=id))
    back = restore(writer, id)
    assert not any(answer.HasField("memory") for answer in (changed, gone, back))
    with refused(PRECONDITION) as refusal:
        restore(writer, old.id)
    assert refusal.details.reason == "CONFLICTING_MEMORY"
    assert "MySQL" not in refusal.details.message
    assert not re.search(r"\b[89]\b", refusal.details.message)


# Shards


@pytest.fixture
def divided(caller: Caller) -> tuple[Client, Client, dict[str, m.Memory]]:
    """One user's memories in three shards; a caller with all rights, and one with those to TRANSACTION."""
    full, limited = caller(), caller(shards=["TRANSACTION", "NEW_SHARD_OF_LATER"])
    kept = {
        "order": added(full, "Order 5512 was paid", shard=TRANSACTION),
        "parcel": added(full, "Parcel 77 of order 5512 is late", shard=TRANSACTION),
        "name": added(full, "我用 MySQL 8", shard=IDENTITY),
        "general": added(full, "Order 5512 annoys me", shard=GENERAL),
    }
    return full, limited, kept


Divided = tuple[Client, Client, dict[str, m.Memory]]


def test_other_shards_are_not_seen(divided: Divided) -> None:
    full, limited, kept = divided
    mine = {kept["order"].id, kept["parcel"].id}
    assert get(limited, kept["order"].id) == kept["order"]
    assert {found.id for found in listed(limited)} == mine
    assert {found.id for found in listed(limited, shards=[TRANSACTION, IDENTITY])} == mine
    assert listed(limited, shards=[IDENTITY]) == []
    assert {found.id for found in recall(limited, "order 5512", min_similarity=-1)} == mine
    assert recall(limited, "order 5512", shards=[GENERAL]) == []
    assert recall(limited, "MySQL 8", min_similarity=-1, types=[FACT], shards=[IDENTITY]) == []
    invalidate(full, kept["general"].id)
    unknown = same_refusals_of(limited, uuid_text())
    for name in ("name", "general"):
        assert same_refusals_of(limited, kept[name].id) == unknown
    assert get(full, kept["name"].id) == kept["name"]


def same_refusals_of(client: Client, id: str) -> list[tuple[Any, ...]]:
    """As `same_refusals`, for a caller who may save in TRANSACTION only."""
    calls: list[Callable[[], object]] = [
        lambda: get(client, id),
        lambda: update(client, id, pinned=True),
        lambda: update(client, id, content="x1"),
        lambda: invalidate(client, id),
        lambda: restore(client, id, retire_conflicting=True),
        lambda: save(client, "Order 1 is late", shard=TRANSACTION, supersedes=[id]),
    ]
    answers = []
    for call in calls:
        with refused(NOT_FOUND) as refusal:
            call()
        answers.append((refusal.details.message.replace(id, "ID"), refusal.details.reason, refusal.details.metadata))
    return answers


def test_other_shards_are_not_written(divided: Divided) -> None:
    full, limited, _ = divided
    before = listed(full, state=pb.MEMORY_STATE_ANY)
    for shard in (m.MEMORY_SHARD_UNSPECIFIED, GENERAL, IDENTITY):
        with refused(DENIED) as refusal:
            save(limited, "I live in Bonn", shard=shard)
        assert refusal.details.reason == "SHARD_DENIED"
    with refused(DENIED) as refusal:
        batch(limited, [draft("Order 1 is late", shard=TRANSACTION), draft("I live in Bonn", shard=IDENTITY)])
    assert "drafts[1].shard" in refusal.details.message
    assert listed(full, state=pb.MEMORY_STATE_ANY) == before


def test_other_shards_are_not_compared_or_superseded(caller: Caller) -> None:
    full, limited = caller(), caller(shards=["GENERAL"])
    old = added(full, "我用 MySQL 8", shard=IDENTITY)
    new = save(limited, "我用 MySQL 9")
    assert (new.outcome, new.matched_id, new.HasField("similarity")) == (ADDED, "", False)
    twin = save(limited, "我用 MySQL 8")
    assert twin.outcome == REPLACED
    assert list(twin.superseded_ids) == [new.memory.id]
    assert get(full, old.id) == old
    # What is wrong for the whole does not stand in the way of what this caller restores.
    invalidate(limited, twin.memory.id)
    assert restore(limited, twin.memory.id).memory.id == twin.memory.id
    invalidate(limited, twin.memory.id)
    with refused(PRECONDITION) as refusal:
        restore(full, twin.memory.id)
    assert refusal.details.metadata == {"conflicting_id": old.id}


def test_clearing_stays_within_the_shards(divided: Divided, caller: Caller) -> None:
    full, limited, kept = divided
    assert clear(caller(shards=[])) == 0
    assert clear(limited, shards=[IDENTITY]) == 0
    assert clear(limited) == 2
    assert {found.id for found in listed(full)} == {kept["name"].id, kept["general"].id}


def test_eviction_stays_within_the_shards(divided: Divided) -> None:
    full, limited, kept = divided
    full.UpdateSettings(admin.UpdateSettingsRequest(values={"eviction.max_active": "4"}))
    try:
        one = save(limited, "Order 6613 was paid", shard=TRANSACTION)
        assert list(one.evicted_ids) == [kept["order"].id]
        two = save(limited, "Order 6614 was paid", shard=TRANSACTION)
        assert list(two.evicted_ids) == [kept["parcel"].id]
        assert list(save(limited, "Order 6615 was paid", shard=TRANSACTION).evicted_ids) == [one.memory.id]
        assert {kept["name"].id, kept["general"].id} < {found.id for found in listed(full)}
        assert list(save(full, "Order 6616 was paid", shard=TRANSACTION).evicted_ids) == [kept["name"].id]
    finally:
        full.UpdateSettings(admin.UpdateSettingsRequest(values={"eviction.max_active": ""}))


def test_no_shard_is_no_memory(divided: Divided, caller: Caller) -> None:
    _, _, kept = divided
    for shards in ([], ["NOTHING_KNOWN"], ["transaction"]):
        nobody = caller(shards=shards)
        assert listed(nobody, state=pb.MEMORY_STATE_ANY) == []
        assert recall(nobody, "order 5512", min_similarity=-1) == []
        with refused(NOT_FOUND):
            get(nobody, kept["order"].id)
        with refused(DENIED):
            save(nobody, "Order 1 is late", shard=TRANSACTION)


def test_a_repeat_under_other_rights_is_not_answered(divided: Divided, caller: Caller) -> None:
    """Who knows id and request id of a call with more rights must not be shown what it was shown."""
    full, limited, kept = divided
    name, id = kept["name"], uuid_text()
    update(full, name.id, pinned=True, request_id=id)
    invalidate(full, name.id, request_id=id)
    restore(full, name.id, request_id=id)
    for call in (
        lambda: update(limited, name.id, pinned=True, request_id=id),
        lambda: invalidate(limited, name.id, request_id=id),
    ):
        with refused(INVALID) as refusal:
            call()
        assert fields(refusal) == ["request_id"]
    with refused(NOT_FOUND):
        restore(limited, name.id, request_id=id)
    # The memory that said it first is in a shard that the second caller may not see.
    id = uuid_text()
    first = save(full, "我用  MySQL 8", shard=GENERAL, request_id=id)
    assert first.memory.id == name.id, first.reason
    with refused(INVALID):
        save(caller(shards=["GENERAL"]), "我用  MySQL 8", shard=GENERAL, request_id=id)
    id = uuid_text()
    assert clear(full, request_id=id) == 4
    with refused(INVALID):
        clear(limited, request_id=id)
    # Under the same rights a repeat is a repeat, whatever their order in the token.
    id = uuid_text()
    one = save(caller(shards=["TRANSACTION", "GENERAL"]), "Order 8 is late", shard=TRANSACTION, request_id=id)
    two = save(caller(shards=["GENERAL", "TRANSACTION"]), "Order 8 is late", shard=TRANSACTION, request_id=id)
    assert (one.outcome, one.memory.id) == (two.outcome, two.memory.id) == (ADDED, one.memory.id)


# What is never said


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"PALIMPSEST_LISTEN": "0.0.0.0:0", "PALIMPSEST_ALLOW_PLAINTEXT": "true"}, "AUTH__MODE=dev is refused"),
        ({"PALIMPSEST_LISTEN": "[::]:0", "PALIMPSEST_ALLOW_PLAINTEXT": "true"}, "AUTH__MODE=dev is refused"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "refused inside Kubernetes"),
        ({"PALIMPSEST_LISTEN": "0.0.0.0:0", **JWT}, "without TLS"),
        ({"PALIMPSEST_AUTH__MODE": "jwt"}, "needs a key"),
        ({"PALIMPSEST_AUTH__MODE": "jwt", "PALIMPSEST_AUTH__SECRET": "short"}, "shorter than 32 bytes"),
    ],
)  # fmt: skip
def test_an_open_door_is_refused_at_the_start(environment: dict[str, str], said: str) -> None:
    with pytest.raises(RuntimeError) as caught, ServiceProcess(environment):
        pass
    text = str(caught.value)
    assert re.search(r"exit code [1-9]", text)
    assert said in text
    assert "Traceback" not in text
    assert "short" not in text.replace("shorter", "")


INTERNALS = re.compile(
    r"mysql|mariadb|sqlite|pymysql|sqlalchemy|milvus|redis|asyncio|Traceback|\.py\b|\.db\b|site-packages|localhost"
    r"|\d+\.\d+\.\d+\.\d+|\bSELECT\b|\bINSERT\b|\buser_memory\b|\bKeyError\b|\bNoneType\b|object at 0x"
    r"|/(?:tmp|work|home|usr|root|etc|var)\b",
    re.IGNORECASE,
)


def test_no_error_says_what_is_inside(client: Client, caller: Caller) -> None:
    memory = added(client, "I live in Bonn")
    empty = [
        pb.SaveMemoryRequest,
        pb.BatchSaveMemoriesRequest,
        pb.GetMemoryRequest,
        pb.UpdateMemoryRequest,
        pb.InvalidateMemoryRequest,
        pb.RestoreMemoryRequest,
    ]
    calls: list[Callable[[], object]] = [
        *(lambda kind=kind: getattr(client, kind.__name__.removesuffix("Request"))(kind()) for kind in empty),
        lambda: get(client, uuid_text()),
        lambda: update(client, memory.id, pinned=True, etag="99"),
        lambda: client.ListMemories(pb.ListMemoriesRequest(page_token="x")),
        lambda: recall(client, "x", freshness="y"),
        lambda: client.GetJob(admin.GetJobRequest(id=uuid_text())),
        lambda: client.UpdateSettings(admin.UpdateSettingsRequest(values={"database_url": "x"})),
        lambda: client.UpdateSettings(admin.UpdateSettingsRequest(values={"dedup.update": "x"})),
        lambda: client.UpdateSettings(admin.UpdateSettingsRequest(values={"dedup.update": "0.9"}, etag="1")),
        lambda: listed(caller("memory:write")),
        lambda: save(caller(shards=[]), "x1"),
    ]
    found: list[ErrorDetails] = []
    for call in calls:
        with pytest.raises(grpc.RpcError) as caught:
            call()
        found.append(details_of(caught.value))
    raw = [
        raw_call(client, rpc, body) for rpc in ("SaveMemory", "ListMemories") for body in (b"\xff", b"\x12\x01\xff" * 9)
    ]
    raw += [raw_call(client, "NoSuchMethod", b""), raw_call(client, "x", b"", "NoSuchService")]
    for details in found + raw:
        assert details.domain == DOMAIN
        assert details.reason
        assert details.request_id
        said = [details.message, details.reason, *details.metadata.values(), *(str(v) for v in details.violations)]
        for text in said:
            assert not INTERNALS.search(text), text
