"""What is sealed opens at its own place and nowhere else, and what is stored shows no text."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_service.adapters.keys import LocalKeyProvider
from memory_service.adapters.sql.engine import Database
from memory_service.adapters.sql.keys import SqlKeyStore
from memory_service.adapters.sql.migrate import upgrade
from memory_service.adapters.sql.record import SqlRecord
from memory_service.domain.model import InvalidReason, Memory, MemoryType, Shard, Source
from memory_service.ports import KeyMissing
from memory_service.record import MemoryRow, WrappedKey
from memory_service.service.vault import Keyring, Unreadable, UserKey, open_memory, seal_attributes, seal_memory
from tests.records import GENERATION, OTHER_GENERATION, START, ManualClock, head, memory_id, sqlite_ended

KEY = bytes(range(32))
CONTENT, QUOTE, SECRET = "用户对花生过敏 🥜 sentinel-content", "sentinel-quote 我对花生过敏", "sentinel-attribute"


class FakeKeyStore:
    """KeyStore in a dict; counts its reads."""

    def __init__(self) -> None:
        self.keys: dict[tuple[str, str], WrappedKey] = {}
        self.reads = 0
        self.before_rewrap: Callable[[WrappedKey], None] = lambda old: None

    async def put(self, key: WrappedKey) -> WrappedKey:
        return self.keys.setdefault((key.user_id, key.generation), key)

    async def get(self, user_id: str, generation: str) -> WrappedKey | None:
        self.reads += 1
        return self.keys.get((user_id, generation))

    async def kek_ids(self) -> dict[str, int]:
        ids = [key.kek_id for key in self.keys.values()]
        return {id: ids.count(id) for id in ids}

    async def not_under(self, kek_id: str, limit: int) -> list[WrappedKey]:
        return [key for key in self.keys.values() if key.kek_id != kek_id][:limit]

    async def rewrap(self, old: WrappedKey, new: WrappedKey) -> bool:
        self.before_rewrap(old)
        if self.keys.get((old.user_id, old.generation)) != old:
            return False
        self.keys[old.user_id, old.generation] = new
        return True

    async def close(self) -> None:
        pass


def provider(*names: str, current: str = "") -> LocalKeyProvider:
    return LocalKeyProvider({name: name.encode().ljust(32, b"-") for name in names}, current or names[-1])


def memory(**values: Any) -> Memory:
    given: dict[str, Any] = {
        "id": memory_id(1),
        "type": MemoryType.FACT,
        "shard": Shard.EMOTION,
        "content": CONTENT,
        "created_at": START,
        "valid_from": START - 1,
        "content_hash": b"h" * 32,
        "revision": 4,
        "event_key": "2026-11-30",
        "time_slice": "2026W48",
        "attributes": {"allergy": SECRET, "严重": "是"},
        "source": Source("session", "message", QUOTE, "user", "web"),
        "occurred_at": START - 2,
        "last_accessed_at": START + 1,
        "access_count": 3,
        "pinned": True,
        "valid_to": START + 2,
        "invalidated_at": START + 3,
        "invalid_reason": InvalidReason.SUPERSEDED,
        "superseded_by": memory_id(2),
        "expires_at": START + 4,
        "space": "s",
        "vector": np.arange(384, dtype=np.float32) / 384,
    }
    return Memory(**given | values)


def user_key(user: str = "u1", generation: str = GENERATION, data_key: bytes = KEY) -> UserKey:
    return UserKey(user, generation, data_key)


# Sealing


@pytest.mark.parametrize("plain", [b"", b"x", CONTENT.encode(), bytes(100_000)])
def test_a_sealed_value_opens_at_its_place(plain: bytes) -> None:
    key = user_key()
    sealed = key.seal("row", "content", plain)
    assert key.open("row", "content", sealed) == plain
    assert len(sealed) == len(plain) + 28
    assert user_key().open("row", "content", sealed) == plain, "the key is its bytes, not the object"


def test_the_same_text_never_gives_the_same_bytes() -> None:
    key = user_key()
    assert len({key.seal("row", "content", b"x") for _ in range(500)}) == 500


@pytest.mark.parametrize(
    ("key", "row", "column"),
    [
        (user_key(), "row2", "content"),
        (user_key(), "row", "quote"),
        (user_key(user="u2"), "row", "content"),
        (user_key(user="U1"), "row", "content"),
        (user_key(generation=OTHER_GENERATION), "row", "content"),
        (user_key(data_key=KEY[::-1]), "row", "content"),
        (user_key(), "ro", "wcontent"),
        (user_key(user="u", generation="1" + GENERATION), "row", "content"),
    ],
    ids=["row", "column", "user", "case", "generation", "data key", "shifted column", "shifted user"],
)
def test_a_ciphertext_cannot_be_moved(key: UserKey, row: str, column: str) -> None:
    sealed = user_key().seal("row", "content", b"text")
    with pytest.raises(Unreadable):
        key.open(row, column, sealed)


@pytest.mark.parametrize("place", [0, 11, 12, -1])
def test_a_changed_byte_is_noticed(place: int) -> None:
    sealed = bytearray(user_key().seal("row", "content", b"text"))
    sealed[place] ^= 1
    with pytest.raises(Unreadable):
        user_key().open("row", "content", bytes(sealed))


@pytest.mark.parametrize("length", [0, 1, 11, 12, 20, 27])
def test_a_cut_ciphertext_is_unreadable_and_says_where_not_what(length: int) -> None:
    sealed = user_key().seal("row", "content", b"secret text")
    with pytest.raises(Unreadable, match="content of row row") as caught:
        user_key().open("row", "content", sealed[:length])
    assert "secret" not in str(caught.value)


def test_keyed_hashes_differ_by_key_purpose_and_message() -> None:
    a, other = user_key(), user_key(data_key=KEY[::-1])
    hashes = [a.hmac("p", b"m"), a.hmac("p", b"n"), a.hmac("q", b"m"), other.hmac("p", b"m"), a.hmac("pm", b"")]
    assert len(set(hashes)) == 5
    assert {len(one) for one in hashes} == {32}
    assert a.hmac("p", b"m") == user_key(user="u9", generation=OTHER_GENERATION).hmac("p", b"m")


def test_the_content_hash_is_of_type_shard_text_and_event() -> None:
    key = user_key()
    base = (MemoryType.FACT, Shard.GENERAL, "我用 MySQL 8", "")
    variants = [
        base,
        (MemoryType.PREFERENCE, *base[1:]),
        (base[0], Shard.KNOWLEDGE, *base[2:]),
        (*base[:2], "我用 MySQL 9", ""),
        (*base[:3], "2026-11-30"),
    ]
    assert len({key.content_hmac(*one) for one in variants}) == len(variants)
    assert key.content_hmac(*base) == user_key().content_hmac(*base)
    assert key.content_hmac(*base) != user_key(data_key=KEY[::-1]).content_hmac(*base)


# Rows


def same(a: Memory, b: Memory) -> bool:
    vectors = (a.vector is None) == (b.vector is None) and (a.vector is None or np.array_equal(a.vector, b.vector))  # type: ignore[arg-type]
    others = (f.name for f in fields(Memory) if f.name != "vector")
    return vectors and all(getattr(a, name) == getattr(b, name) for name in others)


def bare(**values: Any) -> Memory:
    fields_of: dict[str, Any] = {
        "id": memory_id(1),
        "type": MemoryType.CONTEXT,
        "shard": Shard.GENERAL,
        "content": "x",
        "created_at": START,
        "valid_from": START,
        "content_hash": b"h" * 32,
        "revision": 1,
    }
    return Memory(**fields_of | values)


@pytest.mark.parametrize("given", [memory(), bare()], ids=["full", "bare"])
def test_a_memory_comes_back_from_its_row(given: Memory) -> None:
    assert same(open_memory(user_key(), seal_memory(user_key(), given)), given)


def test_what_is_not_there_is_null_not_a_sealed_nothing() -> None:
    row = seal_memory(user_key(), bare())
    assert (row.attributes, row.quote, row.embedding, row.embedding_space) == (None, None, None, None)
    assert seal_attributes(user_key(), "row", {}) is None
    assert row.invalidated_at == 0


def test_a_space_without_a_vector_is_not_stored() -> None:
    assert seal_memory(user_key(), bare(space="s")).embedding_space is None


@pytest.mark.parametrize("column", ["content", "attributes", "quote", "embedding"])
def test_a_column_of_another_row_or_in_another_column_does_not_open(column: str) -> None:
    key = user_key()
    row, other = seal_memory(key, memory()), seal_memory(key, memory(id=memory_id(9)))
    swaps: list[tuple[str, Any]] = [(column, getattr(other, column))]
    swaps += [(column, getattr(row, c)) for c in ("content", "attributes", "quote", "embedding") if c != column]
    for name, value in swaps:
        with pytest.raises(Unreadable):
            open_memory(key, replace(row, **{name: value}))


def test_a_row_does_not_open_for_another_user_or_generation() -> None:
    row = seal_memory(user_key(), memory())
    for key in (user_key(user="u2"), user_key(generation=OTHER_GENERATION)):
        with pytest.raises(Unreadable):
            open_memory(key, row)


def clear_bytes(row: MemoryRow) -> bytes:
    return b"\0".join(
        value if isinstance(value, bytes) else str(value).encode()
        for value in (getattr(row, f.name) for f in fields(row))
    )


def needles() -> list[bytes]:
    texts = ["sentinel-content", "花生过敏", "sentinel-quote", SECRET, "allergy", "严重"]
    vector = memory().vector
    assert vector is not None
    return [
        *(text.encode(code) for text in texts for code in ("utf-8", "utf-16-le", "unicode-escape")),
        vector.tobytes()[100:140],
    ]


def test_no_column_of_a_row_shows_text() -> None:
    stored = clear_bytes(seal_memory(user_key(), memory()))
    assert [needle for needle in needles() if needle in stored] == []
    assert b"session" in stored, "the scan sees what is in clear"


async def test_no_byte_of_the_database_files_shows_text(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'record.db'}")
    await upgrade(database, "record")
    await upgrade(database, "keys")
    clock = ManualClock()
    keyring = Keyring(SqlKeyStore(database, clock), provider("k1"))
    record, key = SqlRecord(database, clock), await keyring.create("u1")
    saved = replace(memory(), invalidated_at=None, invalid_reason=InvalidReason.NONE)
    await record.write(head(generation=key.generation), lambda tx: tx.insert([seal_memory(key, saved)]))
    scanned = files_in(tmp_path)
    assert set(scanned) >= {"record.db", "record.db-wal"}
    await database.close()
    await sqlite_ended()
    scanned |= {f"{name}, closed": content for name, content in files_in(tmp_path).items()}
    assert [(name, needle) for name, content in scanned.items() for needle in needles() if needle in content] == []
    assert b"session" in scanned["record.db-wal"], "the scan sees what is in clear"
    assert b"session" in scanned["record.db, closed"]


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# The keyring


async def test_a_new_key_has_a_new_generation_and_is_stored_wrapped() -> None:
    store = FakeKeyStore()
    keyring = Keyring(store, provider("k1"))
    first, second = await keyring.create("u1"), await keyring.create("u1")
    assert first.generation != second.generation
    assert re.fullmatch("[0-9a-f]{32}", first.generation)
    sealed = first.seal("row", "content", b"x")
    again = await Keyring(store, provider("k1")).get("u1", first.generation)
    assert again.open("row", "content", sealed) == b"x"
    with pytest.raises(Unreadable):
        second.open("row", "content", sealed)
    assert len({key.wrapped for key in store.keys.values()}) == 2


async def test_a_destroyed_key_is_unreadable() -> None:
    store = FakeKeyStore()
    key = await Keyring(store, provider("k1")).create("u1")
    store.keys.clear()
    with pytest.raises(Unreadable):
        await Keyring(store, provider("k1")).get("u1", key.generation)


async def test_a_wrapped_key_moved_to_another_user_or_generation_does_not_open() -> None:
    store = FakeKeyStore()
    key = await Keyring(store, provider("k1")).create("u1")
    [wrapped] = store.keys.values()
    for user, generation in (("u2", key.generation), ("u1", OTHER_GENERATION)):
        store.keys[user, generation] = replace(wrapped, user_id=user, generation=generation)
        with pytest.raises(ValueError, match="was not wrapped with it"):
            await Keyring(store, provider("k1")).get(user, generation)


async def test_keys_in_use_are_kept_and_the_longest_unused_goes() -> None:
    store = FakeKeyStore()
    keyring = Keyring(store, provider("k1"), keep=2)
    a, b = await keyring.create("a"), await keyring.create("b")
    reads = store.reads
    await keyring.get("a", a.generation)
    await keyring.get("b", b.generation)
    await keyring.get("a", a.generation)
    assert store.reads == reads
    await keyring.create("c")  # b was unused for longest
    reads = store.reads
    await keyring.get("a", a.generation)
    assert store.reads == reads
    await keyring.get("b", b.generation)
    assert store.reads == reads + 1


async def test_the_installations_secrets_are_shared_and_differ_by_purpose() -> None:
    store = FakeKeyStore()
    one, two = Keyring(store, provider("k1")), Keyring(store, provider("k1"))
    secrets = await asyncio.gather(*(ring.installation_secret("pages") for ring in (one, two)))
    assert secrets[0] == secrets[1]
    assert len(secrets[0]) == 32
    assert await one.installation_secret("log") != secrets[0]


async def test_rotation_rewraps_every_key_and_changes_none() -> None:
    store = FakeKeyStore()
    old = Keyring(store, provider("k1"))
    key = await old.create("u1")
    for n in range(450):
        await old.create(f"x{n}")
    secret = await old.installation_secret("pages")
    sealed, hashed = key.seal("row", "content", b"x"), key.hmac("p", b"m")
    rotating = Keyring(store, provider("k1", "k2"))
    assert await rotating.outdated() == 452
    steps: list[int] = []
    assert await rotating.rotate(steps.append) == sum(steps) == 452
    assert await store.kek_ids() == {"k2": 452}
    assert await rotating.outdated() == 0
    assert await rotating.rotate(steps.append) == 0
    after = Keyring(store, provider("k2"))
    again = await after.get("u1", key.generation)
    assert again.open("row", "content", sealed) == b"x"
    assert again.hmac("p", b"m") == hashed, "content hashes hang on the data key"
    assert await after.installation_secret("pages") == secret


async def test_rotation_survives_another_rotation_beside_it() -> None:
    store = FakeKeyStore()
    for n in range(5):
        await Keyring(store, provider("k1")).create(f"u{n}")
    other = Keyring(store, provider("k1", "k2"))

    def overtaken(old: WrappedKey) -> None:
        data_key = other._unwrap(old)
        store.keys[old.user_id, old.generation] = other._wrap(old.user_id, old.generation, data_key)

    store.before_rewrap = overtaken
    await Keyring(store, provider("k1", "k2")).rotate(lambda n: None)
    assert await store.kek_ids() == {"k2": 5}


async def test_what_a_missing_key_wrapped_is_named() -> None:
    store = FakeKeyStore()
    key = await Keyring(store, provider("k1")).create("u1")
    await Keyring(store, provider("k2")).create("u2")
    poor = Keyring(store, provider("k2"))
    assert await poor.missing() == {"k1": 1}
    assert await Keyring(store, provider("k1", "k2")).missing() == {}
    with pytest.raises(KeyMissing, match="k1"):
        await poor.get("u1", key.generation)
    with pytest.raises(KeyMissing):
        await poor.rotate(lambda n: None)
