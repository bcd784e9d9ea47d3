"""Keys and sealed rows: what of a memory is encrypted, with which key, bound to what.

AES-256-GCM with the user's key of that generation; the associated data binds a ciphertext to its user, generation, row
and column, so that none can be moved to another place. The data key never changes within a generation, because the
content HMACs that the UNIQUE constraint compares hang on it; `rotate` re-wraps it under another key-encryption key.
"""

import hmac
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from memory_service.domain.model import InvalidReason, Memory, MemoryType, Shard, Source
from memory_service.ports import KeyProvider
from memory_service.record import KeyStore, MemoryRow, WrappedKey

NONCE = 12
_INSTALLATION = ("", "installation")
"""Where the installation's own secret stands among the users' keys: no user id is empty."""


class Unreadable(Exception):
    """A ciphertext does not open: another key, another place, or changed bytes. Names the place, not the content."""


def _derive(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=b"palimpsest/" + purpose).derive(secret)


class UserKey:
    """The data key of one generation of one user, ready to seal and open."""

    def __init__(self, user_id: str, generation: str, data_key: bytes) -> None:
        self.user_id = user_id
        self.generation = generation
        self._cipher = AESGCM(_derive(data_key, b"seal"))
        self._hmac_key = _derive(data_key, b"hmac")
        self._place = f"{user_id}\0{generation}\0".encode()

    def seal(self, row: str, column: str, plain: bytes) -> bytes:
        """Nonce and ciphertext of a value at its place."""
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, plain, self._place + f"{row}\0{column}".encode())

    def open(self, row: str, column: str, sealed: bytes) -> bytes:
        """The value; Unreadable when it was not sealed with this key for this place."""
        try:
            return self._cipher.decrypt(sealed[:NONCE], sealed[NONCE:], self._place + f"{row}\0{column}".encode())
        except (InvalidTag, ValueError) as error:
            raise Unreadable(f"{column} of row {row}") from error

    def hmac(self, purpose: str, message: bytes) -> bytes:
        """Keyed hash, 32 bytes; equal messages of different purposes differ."""
        return hmac.digest(self._hmac_key, purpose.encode() + b"\0" + message, "sha256")

    def content_hmac(self, type: MemoryType, shard: Shard, normalised: str, event_key: str) -> bytes:
        """What the UNIQUE constraint compares: equal for the same statement of the same event."""
        message = f"{int(type)}\0{int(shard)}\0{event_key}\0{normalised}"
        return self.hmac("content", message.encode())


class Keyring:
    """Data keys by user and generation: made, fetched, opened, and kept for a while."""

    def __init__(self, store: KeyStore, provider: KeyProvider, *, keep: int = 10_000) -> None:
        self._store = store
        self._provider = provider
        self._keys: OrderedDict[tuple[str, str], UserKey] = OrderedDict()
        self._keep = keep

    async def create(self, user_id: str) -> UserKey:
        """A key for a new generation, stored before anything is sealed with it."""
        generation = os.urandom(16).hex()
        await self._store.put(self._wrap(user_id, generation, os.urandom(32)))
        return await self.get(user_id, generation)

    async def get(self, user_id: str, generation: str) -> UserKey:
        """The key of a generation; Unreadable when it was destroyed."""
        key = self._keys.get((user_id, generation))
        if key is None:
            stored = await self._store.get(user_id, generation)
            if stored is None:
                raise Unreadable(f"the key of generation {generation}")
            key = UserKey(user_id, generation, self._unwrap(stored))
            self._keys[user_id, generation] = key
            if len(self._keys) > self._keep:
                self._keys.popitem(last=False)
        else:
            self._keys.move_to_end((user_id, generation))
        return key

    async def installation_secret(self, purpose: str) -> bytes:
        """32 bytes that all servers of this installation share, one secret per purpose."""
        stored = await self._store.put(self._wrap(*_INSTALLATION, os.urandom(32)))
        return _derive(self._unwrap(stored), purpose.encode())

    async def missing(self) -> dict[str, int]:
        """Stored keys whose key-encryption key this installation does not hold, by its id."""
        return {kek: n for kek, n in (await self._store.kek_ids()).items() if not self._provider.holds(kek)}

    async def outdated(self) -> int:
        """Stored keys that are not wrapped by the current key-encryption key."""
        return sum(n for kek, n in (await self._store.kek_ids()).items() if kek != self._provider.current)

    async def rotate(self, progress: Callable[[int], None]) -> int:
        """Wraps every data key by the current key-encryption key. Can be interrupted and run again, under load."""
        done = 0
        while old := await self._store.not_under(self._provider.current, 200):
            for key in old:
                await self._store.rewrap(key, self._wrap(key.user_id, key.generation, self._unwrap(key)))
            done += len(old)
            progress(len(old))
        return done

    def _wrap(self, user_id: str, generation: str, data_key: bytes) -> WrappedKey:
        kek_id = self._provider.current
        return WrappedKey(user_id, generation, kek_id, self._provider.wrap(data_key, _context(user_id, generation)))

    def _unwrap(self, key: WrappedKey) -> bytes:
        return self._provider.unwrap(key.kek_id, key.wrapped, _context(key.user_id, key.generation))


def _context(user_id: str, generation: str) -> bytes:
    return f"{user_id}\0{generation}".encode()


def seal_attributes(key: UserKey, memory_id: str, attributes: Mapping[str, str]) -> bytes | None:
    """Sealed JSON, keys sorted; None for no attributes."""
    if not attributes:
        return None
    return key.seal(memory_id, "attributes", json.dumps(dict(attributes), sort_keys=True, ensure_ascii=False).encode())


def seal_vector(key: UserKey, memory: Memory) -> dict[str, Any]:
    """The two columns of a memory's vector."""
    if memory.vector is None:
        return {"embedding": None, "embedding_space": None}
    sealed = key.seal(memory.id, "embedding", np.asarray(memory.vector, dtype="<f4").tobytes())
    return {"embedding": sealed, "embedding_space": memory.space}


def seal_memory(key: UserKey, memory: Memory) -> MemoryRow:
    """The row of a memory."""
    quote = memory.source.quote
    return MemoryRow(
        user_id=key.user_id,
        id=memory.id,
        generation=key.generation,
        type=int(memory.type),
        shard=int(memory.shard),
        content_hmac=memory.content_hash,
        content=key.seal(memory.id, "content", memory.content.encode()),
        attributes=seal_attributes(key, memory.id, memory.attributes),
        quote=key.seal(memory.id, "quote", quote.encode()) if quote else None,
        **seal_vector(key, memory),
        event_key=memory.event_key,
        session_id=memory.source.session_id,
        message_id=memory.source.message_id,
        role=memory.source.role,
        channel=memory.source.channel,
        created_at=memory.created_at,
        occurred_at=memory.occurred_at,
        last_accessed_at=memory.last_accessed_at,
        access_count=memory.access_count,
        pinned=memory.pinned,
        time_slice=memory.time_slice,
        valid_from=memory.valid_from,
        valid_to=memory.valid_to,
        invalidated_at=memory.invalidated_at or 0,
        invalid_reason=int(memory.invalid_reason),
        superseded_by=memory.superseded_by,
        expires_at=memory.expires_at,
        revision=memory.revision,
    )


def open_memory(key: UserKey, row: MemoryRow) -> Memory:
    """The memory of a row; Unreadable when one of its values does not open."""
    attributes = json.loads(key.open(row.id, "attributes", row.attributes)) if row.attributes else {}
    quote = key.open(row.id, "quote", row.quote).decode() if row.quote else ""
    vector = np.frombuffer(key.open(row.id, "embedding", row.embedding), dtype="<f4") if row.embedding else None
    return Memory(
        id=row.id,
        type=MemoryType(row.type),
        shard=Shard(row.shard),
        content=key.open(row.id, "content", row.content).decode(),
        created_at=row.created_at,
        valid_from=row.valid_from,
        content_hash=bytes(row.content_hmac),
        revision=row.revision,
        event_key=row.event_key,
        time_slice=row.time_slice,
        attributes=attributes,
        source=Source(row.session_id, row.message_id, quote, row.role, row.channel),
        occurred_at=row.occurred_at,
        last_accessed_at=row.last_accessed_at,
        access_count=row.access_count,
        pinned=bool(row.pinned),
        valid_to=row.valid_to,
        invalidated_at=row.invalidated_at or None,
        invalid_reason=InvalidReason(row.invalid_reason),
        superseded_by=row.superseded_by,
        expires_at=row.expires_at,
        space=row.embedding_space,
        vector=vector,
    )
