"""The SettingStore port, on SQLite and MariaDB."""

import asyncio
from unittest.mock import patch

import pytest

from memory_service.adapters.sql import settings as module
from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.settings import SqlSettingStore
from memory_service.record import EtagMismatch, RequestReused
from tests.records import START, Place, memory_id

REQUEST = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


@pytest.fixture
def store(database: Database) -> SqlSettingStore:
    return SqlSettingStore(database)


async def save(
    store: SqlSettingStore, changes: dict[str, str | None], etag: str = "", actor: str = "admin", request_id: str = ""
) -> tuple[dict[str, str], str]:
    return await store.save(changes, etag=etag, actor=actor, at=START, request_id=request_id)


async def test_nothing_was_changed_at_first(store: SqlSettingStore) -> None:
    values, etag = await store.load()
    assert values == {}
    assert etag, "an empty etag would mean: whatever it is"
    assert await save(store, {"a": "1"}, etag) == await store.load()


async def test_values_are_set_replaced_and_removed(store: SqlSettingStore) -> None:
    values, _ = await save(store, {"recall.min_similarity": "0.3", "名": "值 🐬"})
    assert values == {"recall.min_similarity": "0.3", "名": "值 🐬"}
    values, _ = await save(store, {"recall.min_similarity": "0.4", "名": None, "never": None})
    assert values == {"recall.min_similarity": "0.4"}
    assert (await store.load())[0] == values


async def test_every_save_has_its_own_etag(store: SqlSettingStore) -> None:
    etags = [(await store.load())[1]]
    for value in ("1", "2", "1"):
        etags.append((await save(store, {"a": value}))[1])
        assert (await store.load())[1] == etags[-1]
    assert len(set(etags)) == 4


async def test_a_stale_etag_changes_nothing(store: SqlSettingStore, place: Place) -> None:
    _, old = await save(store, {"a": "1"})
    present = await save(store, {"a": "2"}, old)
    for stale in (old, "0", "other"):
        with pytest.raises(EtagMismatch):
            await save(store, {"a": "3", "b": "1"}, stale)
    assert await store.load() == present
    assert await place.sql("SELECT COUNT(*) FROM setting_change") == [(2,)]


async def test_without_an_etag_a_save_is_unconditional(store: SqlSettingStore) -> None:
    await save(store, {"a": "1"})
    assert (await save(store, {"a": "2"}))[0] == {"a": "2"}


async def test_a_repeated_request_of_this_actor_changes_nothing(store: SqlSettingStore) -> None:
    await save(store, {"a": "1"}, request_id=REQUEST)
    present = await save(store, {"a": "2"})
    assert await save(store, {"a": "1"}, request_id=REQUEST) == present
    assert await save(store, {"a": "1"}, "stale", request_id=REQUEST) == present, "its etag was good the first time"
    assert (await save(store, {"a": "3"}, actor="other", request_id=REQUEST))[0] == {"a": "3"}


@pytest.mark.parametrize("changes", [{"a": "2"}, {"a": None}, {"b": "1"}, {"a": "1", "b": "1"}])
async def test_a_request_id_with_other_changes_is_refused(
    store: SqlSettingStore, changes: dict[str, str | None]
) -> None:
    present = await save(store, {"a": "1"}, request_id=REQUEST)
    with pytest.raises(RequestReused):
        await save(store, changes, request_id=REQUEST)
    assert await store.load() == present


async def test_history_says_who_changed_what_when(store: SqlSettingStore, place: Place) -> None:
    await save(store, {"a": "1"}, request_id=REQUEST)
    await save(store, {"a": "2", "b": "x"}, actor="other")
    await save(store, {"b": None})
    lines = await place.sql("SELECT at, actor, request_id, name, old_value, new_value FROM setting_change ORDER BY id")
    assert lines == [
        (START, "admin", REQUEST, "a", None, "1"),
        (START, "other", None, "a", "1", "2"),
        (START, "other", None, "b", None, "x"),
        (START, "admin", None, "b", "x", None),
    ]


async def test_names_compare_by_bytes(store: SqlSettingStore) -> None:
    values, _ = await save(store, {"a": "1", "A": "2", "á": "3"})
    assert values == {"a": "1", "A": "2", "á": "3"}


async def test_concurrent_saves_follow_one_another(place: Place) -> None:
    stores = [SqlSettingStore(place.open(timeout=60)) for _ in range(1 if place.is_sqlite else 2)]
    answers = await asyncio.gather(*(save(stores[n % len(stores)], {f"s{n}": "x", "last": f"{n}"}) for n in range(30)))
    assert len({etag for _, etag in answers}) == 30
    values, etag = await stores[0].load()
    assert set(values) == {f"s{n}" for n in range(30)} | {"last"}
    [last] = [(found, mark) for found, mark in answers if mark == etag]
    assert last == (values, etag)
    olds = await place.sql("SELECT old_value FROM setting_change WHERE name = 'last'")
    news = await place.sql("SELECT new_value FROM setting_change WHERE name = 'last'")
    assert sorted(str(old) for (old,) in olds) == sorted([*(new for (new,) in news if new != values["last"]), "None"])


async def test_of_concurrent_saves_with_one_etag_one_wins(place: Place) -> None:
    stores = [SqlSettingStore(place.open(timeout=60)) for _ in range(1 if place.is_sqlite else 2)]
    _, etag = await save(stores[0], {"a": "0"})
    calls = (save(stores[n % len(stores)], {"a": f"{n}"}, etag) for n in range(20))
    answers = await asyncio.gather(*calls, return_exceptions=True)
    [won] = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert [type(answer) for answer in answers if answer != won] == [EtagMismatch] * 19
    assert await stores[0].load() == won


async def test_an_etag_changes_even_when_a_servers_clock_is_behind(store: SqlSettingStore) -> None:
    """Ids of history are made from the clocks of different machines: the greatest need not be the newest."""
    with patch.object(module, "uuid7", lambda: memory_id(9)):
        _, seen = await save(store, {"a": "1"})
    with patch.object(module, "uuid7", lambda: memory_id(5)):
        _, etag = await save(store, {"a": "2"}, actor="other")
    assert etag != seen
    with pytest.raises(EtagMismatch):
        await save(store, {"a": "3"}, seen)


async def test_values_and_etag_are_of_one_moment(place: Place) -> None:
    store = SqlSettingStore(place.open(timeout=60))
    answers: dict[str, dict[str, str]] = {(await store.load())[1]: {}}
    done = False

    async def watch() -> list[tuple[dict[str, str], str]]:
        seen = []
        while not done:
            seen.append(await store.load())
            await asyncio.sleep(0)
        return seen

    watcher = asyncio.create_task(watch())
    for n in range(40):
        values, etag = await save(store, {"a": f"{n}"})
        answers[etag] = values
    done = True
    for values, etag in await watcher:
        assert answers[etag] == values
