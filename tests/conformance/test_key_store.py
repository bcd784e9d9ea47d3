"""The KeyStore port, on SQLite and MariaDB."""

import asyncio
from dataclasses import replace

import pytest

from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.keys import SqlKeyStore
from memory_service.record import WrappedKey
from tests.records import GENERATION, OTHER_GENERATION, ManualClock, Place


@pytest.fixture
def store(database: Database, clock: ManualClock) -> SqlKeyStore:
    return SqlKeyStore(database, clock)


def key(
    user: str = "u1", generation: str = GENERATION, kek: str = "k1", wrapped: bytes = bytes(range(60))
) -> WrappedKey:
    return WrappedKey(user, generation, kek, wrapped)


async def test_a_key_comes_back_as_it_was_stored(store: SqlKeyStore) -> None:
    assert await store.get("u1", GENERATION) is None
    odd = key(wrapped=b"\x00\xff'\\%s" + bytes(range(200)))
    assert await store.put(odd) == odd
    found = await store.get("u1", GENERATION)
    assert found == odd
    assert type(found.wrapped) is bytes


async def test_the_first_key_of_a_place_stays(store: SqlKeyStore) -> None:
    first = await store.put(key())
    assert await store.put(key(kek="k2", wrapped=b"other")) == first
    assert await store.get("u1", GENERATION) == first


async def test_places_differ_by_user_and_generation_in_any_byte(store: SqlKeyStore) -> None:
    places = [("Alice", GENERATION), ("alice", GENERATION), ("álice", GENERATION), ("alice", OTHER_GENERATION)]
    places.append(("", "installation"))
    for number, (user, generation) in enumerate(places):
        await store.put(key(user, generation, wrapped=bytes([number])))
    for number, (user, generation) in enumerate(places):
        assert await store.get(user, generation) == key(user, generation, wrapped=bytes([number]))


async def test_writers_at_once_agree_on_one_key(place: Place, clock: ManualClock) -> None:
    stores = [SqlKeyStore(place.open(timeout=60), clock) for _ in range(1 if place.is_sqlite else 2)]
    calls = (stores[n % len(stores)].put(key(wrapped=bytes([n]))) for n in range(32))
    assert len(set(await asyncio.gather(*calls))) == 1


async def test_keys_are_counted_and_found_by_what_wraps_them(store: SqlKeyStore) -> None:
    assert await store.kek_ids() == {}
    for number in range(3):
        await store.put(key(f"old{number}", kek="k1"))
    await store.put(key("new", kek="k2"))
    assert await store.kek_ids() == {"k1": 3, "k2": 1}
    assert {found.user_id for found in await store.not_under("k2", 10)} == {"old0", "old1", "old2"}
    assert len(await store.not_under("k2", 2)) == 2
    assert await store.not_under("k2", 10) != await store.not_under("k1", 10)


async def test_rewrap_replaces_what_was_read(store: SqlKeyStore) -> None:
    old, beside = await store.put(key()), await store.put(key(generation=OTHER_GENERATION))
    new = replace(old, kek_id="k2", wrapped=b"anew")
    assert await store.rewrap(old, new) is True
    assert await store.get("u1", GENERATION) == new
    assert await store.get("u1", OTHER_GENERATION) == beside


@pytest.mark.parametrize("seen", [key(kek="k0"), key(wrapped=b"before"), key(user="u2"), key(generation="x")])
async def test_rewrap_leaves_what_was_changed_meanwhile(store: SqlKeyStore, seen: WrappedKey) -> None:
    present = await store.put(key())
    assert await store.rewrap(seen, replace(seen, kek_id="k2", wrapped=b"lost")) is False
    assert await store.get("u1", GENERATION) == present


async def test_of_rewraps_at_once_one_wins(place: Place, clock: ManualClock) -> None:
    store = SqlKeyStore(place.open(timeout=60), clock)
    old = await store.put(key())
    calls = (store.rewrap(old, replace(old, kek_id="k2", wrapped=bytes([n]))) for n in range(16))
    answers = await asyncio.gather(*calls)
    assert sorted(answers) == [False] * 15 + [True]
    found = await store.get("u1", GENERATION)
    assert found is not None
    assert found.wrapped == bytes([answers.index(True)])
