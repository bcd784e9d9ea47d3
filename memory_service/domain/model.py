"""The values everything else speaks of.

Times are integers: microseconds since 1970-01-01 UTC. Numbers of enums equal those of the contract and of the record,
and are never given anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float32]
Micros: TypeAlias = int


class MemoryType(IntEnum):
    """What kind of statement a memory makes."""

    PREFERENCE = 1
    FACT = 2
    CONTEXT = 3


class Shard(IntEnum):
    """The part of a person's life a memory belongs to."""

    GENERAL = 1
    IDENTITY = 2
    TRANSACTION = 3
    KNOWLEDGE = 4
    EMOTION = 5


class InvalidReason(IntEnum):
    """Why a memory was retired; NONE while it is active."""

    NONE = 0
    INVALIDATED = 1
    SUPERSEDED = 2
    EVICTED = 3
    CLEARED = 4
    EXPIRED = 5
    DUPLICATE = 6


class Outcome(IntEnum):
    """What became of a draft."""

    ADDED = 1
    DUPLICATE = 2
    REPLACED = 3
    FILTERED = 4


class ReasonCode(IntEnum):
    """The rule that decided on a draft. From 20 on: the cleaning rule that filtered it."""

    NEW = 1
    EXACT = 2
    SAME_MEANING = 3
    STATE_CHANGED = 4
    EXPLICIT = 5
    OLDER = 6
    NOT_COMPARED = 7
    SLASH_COMMAND = 20
    SPECIAL_TOKENS = 21
    EMOJI_ONLY = 22
    PUNCTUATION_ONLY = 23
    ERROR_DUMP = 24
    MOJIBAKE = 25
    ECHO = 26


class Leg(IntEnum):
    """A way of searching."""

    EXACT = 1
    INDEX = 2
    KEYWORD = 3


class Degraded(IntEnum):
    """Why an answer may be less than it could be."""

    EMBEDDING = 1
    INDEX = 2
    CACHE = 3


@dataclass(frozen=True, slots=True)
class Source:
    """Where a memory came from; empty texts are unknown."""

    session_id: str = ""
    message_id: str = ""
    quote: str = ""
    role: str = ""
    channel: str = ""


UNKNOWN = Source()
"""Nothing is known of where it came from."""


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """One thing remembered, in clear. `vector` is the unit passage vector in `space`, or None while it has none."""

    id: str
    type: MemoryType
    shard: Shard
    content: str
    created_at: Micros
    valid_from: Micros
    content_hash: bytes
    """HMAC of type, shard, normalised content and event key: what the UNIQUE constraint compares."""
    revision: int
    """The head's version in which the row last changed; the etag."""
    event_key: str = ""
    time_slice: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    source: Source = UNKNOWN
    occurred_at: Micros | None = None
    last_accessed_at: Micros | None = None
    access_count: int = 0
    pinned: bool = False
    valid_to: Micros | None = None
    invalidated_at: Micros | None = None
    invalid_reason: InvalidReason = InvalidReason.NONE
    superseded_by: str | None = None
    expires_at: Micros | None = None
    space: str | None = None
    vector: Vector | None = None

    @property
    def active(self) -> bool:
        """True while it is not retired. An expired one is active until something retires it: see `expired`."""
        return self.invalidated_at is None

    def expired(self, now: Micros) -> bool:
        """True when `expires_at` has passed."""
        return self.expires_at is not None and self.expires_at <= now

    @property
    def happened_at(self) -> Micros:
        """`occurred_at`, or else `created_at`: what ranges of time compare."""
        return self.created_at if self.occurred_at is None else self.occurred_at


@dataclass(frozen=True, slots=True)
class Head:
    """The one row every writer of a user's memories takes first."""

    user_id: str
    generation: str
    """Random, 32 hex digits; new with every data key of the user. Rows of another generation do not exist."""
    version: int
    """Grows by 1 with every change that a recall can see."""
    space: str
    """Id of the embedding space the user's vectors are in."""
    reset_version: int
    """Changes up to this version cannot be followed row by row: whoever holds an older state reads all anew."""
