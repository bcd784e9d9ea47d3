"""The VectorIndex port: one suite for every adapter, then what only Milvus, with a server of its own, can do wrong."""

import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from pymilvus import MilvusClient

from memory_service.adapters.index_exact import ExactIndex
from memory_service.adapters.index_milvus import MilvusIndex
from memory_service.adapters.milvus_expressions import (
    all_of,
    collection_name,
    compare,
    literal,
    one_of,
    query_filter,
    space_of,
)
from memory_service.domain.model import MemoryType, Shard, Vector
from memory_service.ports import IndexKey, IndexQuery, IndexRow, StoreUnavailable, VectorIndex
from tests.servers import Milvus

T = TypeVar("T")
Factory = Callable[[], VectorIndex]

DIM = 8
SPACE = "conformance"  # one collection for most tests: a server takes seconds to make one; users keep them apart
PATIENCE_S = 40.0
RUN = f"t{uuid.uuid4().hex[:8]}"
ALPHABET = "ABCZabcz019._:@+=/|-"
HOSTILE_IDS = [
    '") or true or ("',
    '" or user_id != "',
    "a' or '1'='1",
    "x\\",
    "a#b",
    "",
    " bob",
    "bob\n",
    "a b",
    "a\x00b",
    "álice",
    "用户",
    "x" * 129,
    "*%",
]


@pytest.fixture(scope="module")
def lite_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lite") / "index.db"


@pytest.fixture(params=["exact", "lite", pytest.param("milvus", marks=pytest.mark.servers)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def factory(kind: str, request: pytest.FixtureRequest) -> Factory:
    if kind == "exact":
        return ExactIndex
    if kind == "lite":
        folder = request.getfixturevalue("lite_folder")
        return lambda: MilvusIndex(str(folder), timeout=PATIENCE_S, collection_prefix=RUN)
    server = request.getfixturevalue("milvus_server")
    return lambda: MilvusIndex(server.url, timeout=PATIENCE_S, collection_prefix=RUN)


@pytest.fixture
async def index(factory: Factory) -> AsyncIterator[VectorIndex]:
    built = factory()
    yield built
    await built.close()


@pytest.fixture
def user() -> str:
    return f"user-{uuid.uuid4()}"


def axis(number: int, dim: int = DIM) -> Vector:
    vector = np.zeros(dim, dtype=np.float32)
    vector[number] = 1.0
    return vector


def toward(cosine: float, dim: int = DIM) -> Vector:
    """A unit vector with this cosine to `axis(0)`."""
    return np.float32(cosine) * axis(0, dim) + np.float32(np.sqrt(1 - cosine * cosine)) * axis(1, dim)


def row(user_id: str, memory_id: str = "m1", vector: Vector | None = None, **fields: object) -> IndexRow:
    base = IndexRow(user_id, memory_id, "g1", MemoryType.FACT, Shard.GENERAL, 1_000, axis(0))
    if vector is not None:
        base = replace(base, vector=vector)
    return replace(base, **fields)  # type: ignore[arg-type]


def ask(user_id: str, vector: Vector | None = None, limit: int = 10, **fields: object) -> IndexQuery:
    query = IndexQuery(user_id=user_id, generation="g1", vector=axis(0) if vector is None else vector, limit=limit)
    return replace(query, **fields)  # type: ignore[arg-type]


async def eventually(probe: Callable[[], Awaitable[T]], good: Callable[[T], bool]) -> T:
    """A search may lag behind a write: asks until the answer is good, or fails with the last one."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = await probe()
        if good(answer):
            return answer
        assert time.monotonic() < deadline, f"not in {PATIENCE_S} s; last answer {answer!r}"
        await asyncio.sleep(0.1)


async def ids(index: VectorIndex, query: IndexQuery, space: str = SPACE) -> list[str]:
    return [hit.memory_id for hit in await index.search(space, query)]


async def found(index: VectorIndex, query: IndexQuery, expected: Sequence[str], space: str = SPACE) -> None:
    await eventually(lambda: ids(index, query, space), lambda answer: answer == list(expected))


async def scanned(index: VectorIndex, space: str = SPACE) -> list[tuple[IndexKey, str]]:
    return [entry async for page in index.scan(space) for entry in page]


async def scanned_of(index: VectorIndex, user_id: str) -> list[str]:
    return sorted(key.memory_id for key, _ in await scanned(index) if key.user_id == user_id)


async def test_hits_are_raw_cosines_nearest_first(index: VectorIndex, user: str) -> None:
    cosines = {"opposite": -1.0, "half": 0.5, "same": 1.0, "near": 0.9, "right-angled": 0.0}
    rows = [row(user, name, 3.0 * toward(cosine)) for name, cosine in cosines.items()]
    await index.upsert(SPACE, rows)
    order = ["same", "near", "half", "right-angled", "opposite"]
    await found(index, ask(user), order)
    hits = await index.search(SPACE, ask(user, 7 * axis(0)))
    assert [hit.cosine for hit in hits] == pytest.approx([cosines[name] for name in order], abs=1e-5)
    assert all(-1.0 <= hit.cosine <= 1.0 for hit in hits)
    assert await ids(index, ask(user, limit=2)) == order[:2]


async def test_a_space_without_a_collection_is_empty_and_no_error(index: VectorIndex, user: str) -> None:
    assert await index.search("nowhere", ask(user)) == []
    assert await scanned(index, "nowhere") == []
    await index.delete("nowhere", [IndexKey(user, "m1")])
    await index.drop("nowhere")
    await index.upsert("nowhere", [])
    assert "nowhere" not in await index.spaces()


async def test_users_are_apart(index: VectorIndex, user: str) -> None:
    others = [user + "1", user[:-1], user.upper(), user + "/agent", user + "|m1"]
    await index.upsert(SPACE, [row(user, "shared-id", axis(0)), *(row(one, "shared-id", axis(1)) for one in others)])
    for one in others:
        await found(index, ask(one), ["shared-id"])
        assert (await index.search(SPACE, ask(one)))[0].cosine == pytest.approx(0.0, abs=1e-6)
    await found(index, ask(user), ["shared-id"])
    assert (await index.search(SPACE, ask(user)))[0].cosine == pytest.approx(1.0)
    await index.delete(SPACE, [IndexKey(user, "shared-id")])
    await found(index, ask(user), [])
    for one in others:
        assert await ids(index, ask(one)) == ["shared-id"]


async def test_nobody_of_a_similar_name_is_found(index: VectorIndex, user: str) -> None:
    await index.upsert(SPACE, [row(user)])
    await found(index, ask(user), ["m1"])
    for other in (user + "1", user[:-1], user.upper(), "user", "%", "."):
        if other != "%":
            assert await ids(index, ask(other)) == []


async def test_every_allowed_character_works_in_ids(index: VectorIndex, user: str) -> None:
    long_user, long_memory = (user + ALPHABET * 7)[:128], (ALPHABET * 7)[:128]
    await index.upsert(SPACE, [row(long_user, long_memory), row(long_user, ALPHABET, generation=ALPHABET)])
    await found(index, ask(long_user), [long_memory])
    await found(index, ask(long_user, generation=ALPHABET), [ALPHABET])
    assert await scanned_of(index, long_user) == sorted([long_memory, ALPHABET])
    await index.delete(SPACE, [IndexKey(long_user, long_memory)])
    assert await scanned_of(index, long_user) == [ALPHABET]


@pytest.mark.parametrize("hostile", HOSTILE_IDS)
async def test_hostile_ids_are_refused_and_nothing_is_written(index: VectorIndex, user: str, hostile: str) -> None:
    victim = row(user)
    await index.upsert(SPACE, [victim])
    for wrong in (replace(victim, user_id=hostile), row(user, hostile), row(user, generation=hostile)):
        with pytest.raises(ValueError):  # noqa: PT011 - the port names the type only
            await index.upsert(SPACE, [row(user, "first"), wrong, row(user, "last")])
    for key in (IndexKey(hostile, "m1"), IndexKey(user, hostile)):
        with pytest.raises(ValueError):  # noqa: PT011
            await index.delete(SPACE, [IndexKey(user, "m1"), key])
    for query in (ask(hostile), ask(user, generation=hostile)):
        with pytest.raises(ValueError):  # noqa: PT011
            await index.search(SPACE, query)
    assert await scanned_of(index, user) == ["m1"]


@pytest.mark.parametrize(
    "wrong",
    [
        axis(0, DIM - 1),
        axis(0, DIM + 1),
        axis(0, 2 * DIM),
        np.full(DIM, np.nan),
        np.full(DIM, np.inf),
        np.zeros(DIM),
        np.ones((1, DIM)),
        np.ones(0),
        np.array([np.nan] + [1.0] * (DIM - 1)),
    ],
    ids=["short", "long", "double", "nan", "inf", "zero", "rank 2", "empty", "one nan"],
)
async def test_a_wrong_vector_is_refused_and_nothing_is_written(index: VectorIndex, user: str, wrong: Vector) -> None:
    await index.upsert(SPACE, [row(user)])
    for rows in ([row(user, "bad", wrong)], [row(user, "good"), row(user, "bad", wrong), row(user, "good2")]):
        with pytest.raises(ValueError):  # noqa: PT011
            await index.upsert(SPACE, rows)
    with pytest.raises(ValueError):  # noqa: PT011
        await index.search(SPACE, ask(user, np.asarray(wrong, dtype=np.float32)))
    assert await scanned_of(index, user) == ["m1"]


async def test_a_time_beyond_64_bits_is_refused(index: VectorIndex, user: str) -> None:
    with pytest.raises(ValueError, match="64-bit"):
        await index.upsert(SPACE, [row(user, "m1"), row(user, "m2", happened_at=1 << 63)])
    assert await scanned_of(index, user) == []


async def test_upsert_replaces_whole_rows(index: VectorIndex, user: str) -> None:
    await index.upsert(SPACE, [row(user, "m1", axis(0)), row(user, "m2", axis(1))])
    await found(index, ask(user), ["m1", "m2"])
    await index.upsert(SPACE, [row(user, "m1", axis(2), generation="g2", type=MemoryType.CONTEXT)])
    await found(index, ask(user), ["m2"])
    await found(index, ask(user, axis(2), generation="g2", types=frozenset({MemoryType.CONTEXT})), ["m1"])
    assert await scanned_of(index, user) == ["m1", "m2"]


async def test_rapid_upserts_of_one_key_are_one_hit(index: VectorIndex, user: str) -> None:
    for number in range(200):
        await index.upsert(SPACE, [row(user, "m1", toward(number / 400))])
    assert len(await ids(index, ask(user, limit=100))) <= 1

    async def cosines() -> list[float]:
        return [hit.cosine for hit in await index.search(SPACE, ask(user, limit=100))]

    await eventually(cosines, lambda answer: answer == pytest.approx([199 / 400], abs=1e-5))
    assert await scanned_of(index, user) == ["m1"]


async def test_of_equal_keys_in_one_call_the_last_stays(index: VectorIndex, user: str) -> None:
    await index.upsert(SPACE, [row(user, "m1", axis(1)), row(user, "m2", axis(1)), row(user, "m1", axis(0))])
    await found(index, ask(user), ["m1", "m2"])
    assert (await index.search(SPACE, ask(user)))[0].cosine == pytest.approx(1.0)
    assert await scanned_of(index, user) == ["m1", "m2"]


async def test_deletes_are_idempotent_and_name_what_they_mean(index: VectorIndex, user: str) -> None:
    await index.upsert(SPACE, [row(user, name) for name in ("exists", "gone", "stays")])
    await index.delete(SPACE, [IndexKey(user, "gone")])
    await index.delete(SPACE, [IndexKey(user, name) for name in ("exists", "gone", "never")])
    await index.delete(SPACE, [])
    assert await scanned_of(index, user) == ["stays"]
    await found(index, ask(user), ["stays"])


async def test_delete_then_insert_at_once(index: VectorIndex, user: str) -> None:
    await index.upsert(SPACE, [row(user, "m1", axis(1))])
    for number in range(20):
        await index.delete(SPACE, [IndexKey(user, "m1")])
        await index.upsert(SPACE, [row(user, "m1", toward(number / 20))])
    assert await scanned_of(index, user) == ["m1"]
    await found(index, ask(user), ["m1"])
    await index.upsert(SPACE, [row(user, "m1")])
    await index.delete(SPACE, [IndexKey(user, "m1")])
    assert await scanned_of(index, user) == []
    await found(index, ask(user), [])


async def test_generations_are_apart(index: VectorIndex, user: str) -> None:
    await index.upsert(SPACE, [row(user, "old", generation="g0"), row(user, "new")])
    await found(index, ask(user), ["new"])
    await found(index, ask(user, generation="g0"), ["old"])
    assert await ids(index, ask(user, generation="g")) == []
    generations = {key.memory_id: generation for key, generation in await scanned(index) if key.user_id == user}
    assert generations == {"old": "g0", "new": "g1"}


FILTERED: list[tuple[dict[str, Any], str]] = [
    ({}, "abcd"),
    ({"types": frozenset({MemoryType.FACT})}, "ab"),
    ({"types": frozenset({MemoryType.FACT, MemoryType.CONTEXT})}, "abd"),
    ({"shards": frozenset({Shard.EMOTION})}, "bc"),
    ({"happened_from": 20}, "bcd"),
    ({"happened_until": 20}, "a"),
    ({"happened_from": 20, "happened_until": 30}, "b"),
    ({"happened_from": -(10**15), "happened_until": 10**17}, "abcd"),
    ({"types": frozenset({MemoryType.FACT}), "shards": frozenset({Shard.EMOTION})}, "b"),
    ({"types": frozenset(MemoryType), "shards": frozenset(Shard), "happened_from": 30, "happened_until": 41}, "cd"),
    ({"types": frozenset({MemoryType.PREFERENCE}), "shards": frozenset({Shard.GENERAL}), "happened_from": 0}, ""),
]


async def test_filters_of_none_to_four_clauses(index: VectorIndex, user: str) -> None:
    rows = [
        row(user, "a", toward(0.9), type=MemoryType.FACT, shard=Shard.GENERAL, happened_at=10),
        row(user, "b", toward(0.8), type=MemoryType.FACT, shard=Shard.EMOTION, happened_at=20),
        row(user, "c", toward(0.7), type=MemoryType.PREFERENCE, shard=Shard.EMOTION, happened_at=30),
        row(user, "d", toward(0.6), type=MemoryType.CONTEXT, shard=Shard.KNOWLEDGE, happened_at=40),
    ]
    await index.upsert(SPACE, rows)
    await found(index, ask(user), "abcd")
    for restriction, expected in FILTERED:
        assert "".join(await ids(index, ask(user, **restriction))) == expected, restriction


async def test_limits(index: VectorIndex, user: str) -> None:
    await index.upsert(SPACE, [row(user, f"m{number}", toward(number / 100)) for number in range(60)])
    best_first = [f"m{number}" for number in reversed(range(60))]
    await found(index, ask(user, limit=1_000_000), best_first)
    for limit in (1, 16_384, 16_385):
        assert await ids(index, ask(user, limit=limit)) == best_first[:limit]
    for limit in (0, -1):
        assert await ids(index, ask(user, limit=limit)) == []


async def test_a_scan_sees_all_there_is_at_once(index: VectorIndex, kind: str) -> None:
    """More than one answer of a server holds (16,384), right after the writes, and again after deletes."""
    count = 3_000 if kind == "lite" else 17_000
    space = "scan"
    vectors = np.random.default_rng(5).standard_normal((count, DIM)).astype(np.float32)
    await index.upsert(space, [row(f"u{n % 97}", f"m{n}", vectors[n], generation=f"g{n % 3}") for n in range(count)])
    everything = {(IndexKey(f"u{n % 97}", f"m{n}"), f"g{n % 3}") for n in range(count)}
    entries = await scanned(index, space)
    assert len(entries) == count
    assert set(entries) == everything
    gone = [IndexKey(f"u{n % 97}", f"m{n}") for n in range(0, count, 2)]
    await index.delete(space, gone)
    assert {key for key, _ in await scanned(index, space)} == {key for key, _ in everything} - set(gone)
    await index.drop(space)


async def test_spaces_are_apart_and_may_differ_in_dimension(index: VectorIndex, user: str) -> None:
    small, large = "e5-small@384/中文", "text_embedding 3"
    await index.upsert(small, [row(user, "in-small", axis(0, 4))])
    many = np.random.default_rng(6).standard_normal((1_500, 1_536)).astype(np.float32)  # 9 MB: several requests
    await index.upsert(large, [row(user, f"m{number}", many[number]) for number in range(len(many))])
    assert {small, large} <= set(await index.spaces())
    await found(index, ask(user, axis(0, 4)), ["in-small"], small)
    await found(index, ask(user, many[1_499], limit=1), ["m1499"], large)
    assert len(await scanned(index, large)) == 1_500
    with pytest.raises(ValueError, match="dimensions"):
        await index.upsert(small, [row(user, "in-small", axis(0, 5))])
    with pytest.raises(ValueError, match="dimensions"):
        await index.search(large, ask(user, axis(0, 4)))
    await index.drop(large)
    await index.drop(large)
    assert large not in await index.spaces()
    assert await index.search(large, ask(user, many[0])) == []
    assert await scanned(index, small) == [(IndexKey(user, "in-small"), "g1")]
    await index.drop(small)
    await index.upsert(small, [row(user, "wider", axis(0, 5))])
    await found(index, ask(user, axis(0, 5)), ["wider"], small)
    await index.drop(small)


async def test_calls_may_be_cancelled_anywhere(index: VectorIndex, user: str) -> None:
    await index.upsert(SPACE, [row(user)])
    calls: list[asyncio.Future[object]] = [asyncio.ensure_future(index.search(SPACE, ask(user))) for _ in range(50)]
    calls += [asyncio.ensure_future(index.upsert(SPACE, [row(user)])) for _ in range(20)]
    await asyncio.sleep(0.002)
    for call in calls:
        call.cancel()
    assert all(
        isinstance(answer, asyncio.CancelledError | list | None)
        for answer in await asyncio.gather(*calls, return_exceptions=True)
    )
    await found(index, ask(user), ["m1"])


async def test_ping(index: VectorIndex) -> None:
    await index.ping()


# -- Milvus only -------------------------------------------------------------------------------------------------------


def open_index(server: Milvus, timeout: float = PATIENCE_S) -> MilvusIndex:
    return MilvusIndex(server.url, timeout=timeout, collection_prefix=RUN)


async def test_two_processes_make_one_collection(milvus_server: Milvus, user: str) -> None:
    first, second = open_index(milvus_server), open_index(milvus_server)
    try:
        await asyncio.gather(*(one.upsert("race", [row(user, str(n))]) for n, one in enumerate([first, second] * 2)))
        assert {key.memory_id for key, _ in await scanned(first, "race")} == {"0", "1", "2", "3"}
        await found(second, ask(user, axis(0), limit=1, types=frozenset({MemoryType.CONTEXT})), [], "race")
        await eventually(lambda: ids(second, ask(user), "race"), lambda answer: len(answer) == 4)
        await first.drop("race")
    finally:
        await asyncio.gather(first.close(), second.close())


async def test_a_collection_dropped_behind_our_back_is_made_again(milvus_server: Milvus, user: str) -> None:
    index, vandal = open_index(milvus_server), open_index(milvus_server)
    try:
        await index.upsert("dropped", [row(user)])
        await vandal.drop("dropped")
        assert await index.search("dropped", ask(user)) == []
        await index.upsert("dropped", [row(user)])
        await vandal.drop("dropped")
        await index.delete("dropped", [IndexKey(user, "m1")])
        await vandal.upsert("dropped", [row(user, "m2", axis(0, 5))])  # made anew for a model of another dimension
        with pytest.raises((ValueError, StoreUnavailable)):
            await index.upsert("dropped", [row(user)])
        with pytest.raises(ValueError, match="dimensions"):
            await index.upsert("dropped", [row(user)])
        assert await scanned(index, "dropped") == [(IndexKey(user, "m2"), "g1")]
        await vandal.drop("dropped")
    finally:
        await asyncio.gather(index.close(), vandal.close())


async def test_a_collection_left_unloaded_is_loaded_by_a_search(milvus_server: Milvus, user: str) -> None:
    index = open_index(milvus_server)
    client = MilvusClient(milvus_server.url, dedicated=True)
    try:
        await index.upsert("unloaded", [row(user)])
        await asyncio.to_thread(client.release_collection, collection_name(RUN, "unloaded"))
        await found(index, ask(user), ["m1"], "unloaded")
        await index.drop("unloaded")
    finally:
        client.close()
        await index.close()


async def test_a_server_that_hangs_costs_the_timeout_and_not_more(milvus_server: Milvus, user: str) -> None:
    patient, hasty = open_index(milvus_server), open_index(milvus_server, timeout=0.5)
    try:
        await patient.upsert(SPACE, [row(user)])
        await hasty.ping()
        milvus_server.pause()
        try:
            started = time.monotonic()
            answers = await asyncio.gather(
                hasty.search(SPACE, ask(user)),
                hasty.upsert(SPACE, [row(user)]),
                hasty.ping(),
                *(hasty.search(SPACE, ask(user)) for _ in range(40)),
                return_exceptions=True,
            )
            assert time.monotonic() - started < 5  # far above 0.5, far below any retry loop of the driver
        finally:
            milvus_server.resume()
        assert all(isinstance(answer, StoreUnavailable) and answer.store == "index" for answer in answers)
        await found(patient, ask(user), ["m1"])
        await recovered(hasty, user)
    finally:
        await asyncio.gather(patient.close(), hasty.close())


async def recovered(index: VectorIndex, user_id: str) -> None:
    async def probe() -> object:
        try:
            return await ids(index, ask(user_id))
        except StoreUnavailable as error:
            return error

    await eventually(probe, lambda answer: answer == ["m1"])


async def test_a_restart_under_load_needs_no_restart_of_ours(milvus_server: Milvus, user: str) -> None:
    index = open_index(milvus_server, timeout=2.0)
    seen: list[object] = []
    stop = asyncio.Event()

    async def load(number: int) -> None:
        while not stop.is_set():
            try:
                await index.upsert(SPACE, [row(user)])
                seen.append(await ids(index, ask(user)))
            except StoreUnavailable as error:
                seen.append(error)
                await asyncio.sleep(0.02)

    workers = [asyncio.create_task(load(number)) for number in range(4)]
    try:
        await eventually(lambda: asyncio.sleep(0, seen), lambda answers: ["m1"] in answers)
        await asyncio.to_thread(milvus_server.kill)
        refused = len(seen)
        await eventually(lambda: asyncio.sleep(0, seen), lambda answers: len(answers) > refused + 20)
        assert any(isinstance(answer, StoreUnavailable) for answer in seen[refused:])
        await asyncio.to_thread(milvus_server.start)
        back = len(seen)
        await eventually(lambda: asyncio.sleep(0, seen), lambda answers: ["m1"] in answers[back:])
    finally:
        stop.set()
        await asyncio.gather(*workers)
        await index.close()
    assert all(isinstance(answer, StoreUnavailable) or answer in ([], ["m1"]) for answer in seen)


async def test_nobody_listening_is_unavailable_soon(free_port: int, user: str) -> None:
    index = MilvusIndex(f"http://127.0.0.1:{free_port}", timeout=5.0)
    started = time.monotonic()
    for call in (index.ping(), index.search(SPACE, ask(user)), index.upsert(SPACE, [row(user)]), scanned(index)):
        with pytest.raises(StoreUnavailable) as caught:
            await call
        assert caught.value.store == "index"
    assert time.monotonic() - started < 10
    await index.close()


async def test_after_close_calls_fail_as_unavailable_or_not_at_all(lite_folder: Path, user: str) -> None:
    """Two adapters share one folder in one process; the first to close leaves the other's alone."""
    first = MilvusIndex(str(lite_folder), timeout=PATIENCE_S, collection_prefix=RUN)
    second = MilvusIndex(str(lite_folder), timeout=PATIENCE_S, collection_prefix=RUN)
    await first.upsert(SPACE, [row(user)])
    await second.ping()
    await first.close()
    await found(second, ask(user), ["m1"])
    await second.close()
    third = MilvusIndex(str(lite_folder), timeout=PATIENCE_S, collection_prefix=RUN)
    await found(third, ask(user), ["m1"])
    await third.close()


async def test_a_second_process_on_a_lite_folder_is_told_so(lite_folder: Path) -> None:
    index = MilvusIndex(str(lite_folder), timeout=PATIENCE_S, collection_prefix=RUN)
    await index.ping()
    script = (
        "import asyncio, sys\n"
        "from memory_service.adapters.index_milvus import MilvusIndex\n"
        "asyncio.run(MilvusIndex(sys.argv[1], timeout=20).ping())\n"
    )
    command = [sys.executable, "-c", script, str(lite_folder)]
    other = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, timeout=60)
    await index.close()
    assert other.returncode != 0
    assert "StoreUnavailable: index: Milvus Lite cannot open its folder" in other.stderr


# -- what is built for Milvus ------------------------------------------------------------------------------------------


def test_literals_are_escaped() -> None:
    assert literal(7) == "7"
    assert literal(MemoryType.FACT) == "2"
    assert literal('") or true or ("') == '"\\") or true or (\\""'
    assert literal("a\\") == '"a\\\\"'
    with pytest.raises(ValueError, match="control"):
        literal("a\nb")


def test_clauses() -> None:
    assert one_of("type", []) is None
    assert one_of("type", [1]) == "type in [1]"
    assert one_of("id", ["a", 'b"']) == 'id in ["a", "b\\""]'
    assert all_of([]) == ""
    assert all_of(["a == 1"]) == "a == 1"
    assert all_of(["a == 1", "", "b < 2", compare("c", ">=", -3)]) == "a == 1 and b < 2 and c >= -3"
    assert all_of(["a == 1", None]) is None


def test_a_search_always_names_user_and_generation() -> None:
    own = 'user_id == "u" and generation == "g1"'
    assert query_filter(ask("u")) == own
    assert (
        query_filter(ask("u", types=frozenset({MemoryType.FACT, MemoryType.PREFERENCE}))) == f"{own} and type in [1, 2]"
    )
    everything = ask("u", types=frozenset({MemoryType.FACT}), shards=frozenset({Shard.IDENTITY}), happened_from=0)
    expected = f"{own} and type in [2] and shard in [2] and happened_at >= 0 and happened_at < 9"
    assert query_filter(replace(everything, happened_until=9)) == expected


@pytest.mark.parametrize("space", ["e5", "a_b", "a-b", "a__b", "_", "_5F", "模型/e5 small@384", "x" * 240, "A", "a"])
def test_collection_names_give_their_spaces_back(space: str) -> None:
    name = collection_name("palimpsest", space)
    assert len(name) <= 255
    assert name.replace("_", "a").isalnum()
    assert name.isascii()
    assert space_of("palimpsest", name) == space


def test_collections_of_others_are_not_ours() -> None:
    for name in ("other", "palimpsest", "palimpsest__", "palimpsest__a_b", "palimpsest__a-b", "palimpsest_2__a"):
        assert space_of("palimpsest", name) is None
    for space in ("", "x" * 300, "型" * 30):
        with pytest.raises(ValueError, match="space"):
            collection_name("palimpsest", space)


@pytest.mark.parametrize("prefix", ["", "a__b", "a_", "_a", "a-b", "1a", "a b"])
def test_prefixes_that_could_be_mistaken_are_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        MilvusIndex("http://127.0.0.1:1", collection_prefix=prefix)
