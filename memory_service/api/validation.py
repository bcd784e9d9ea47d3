"""Checks of requests: every violation at once, each with the path of its field in the contract and what would be right.

Pure: it reads messages and answers domain values; it asks no store.
"""

import math
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, tzinfo
from functools import lru_cache
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from memory_service.domain.constraints import AttributeFilter, Equals, In, Number, Time
from memory_service.domain.model import MemoryType, Micros, Shard, Source
from memory_service.domain.provenance import fitted
from memory_service.domain.saving import MAX_SUPERSEDES, Draft
from memory_service.domain.text import text_problem
from shared.errors import InvalidArgument, Violation
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from shared.gen.palimpsest.memory.v1.memory_pb2 import MemorySource

MAX_CONTENT = 8000
MAX_QUERY = 8000
MAX_QUOTE = 500
MAX_ATTRIBUTES = 32
MAX_ATTRIBUTE_VALUE = 256
MAX_ATTRIBUTE_BYTES = 4096
MAX_FILTERS = 16
MAX_IN_VALUES = 100
REFUSED_ATTRIBUTES = frozenset({"user_id", "tenant", "shard", "type"})
ROLES = frozenset({"", "user", "assistant", "tool"})

_ATTRIBUTE_KEY = re.compile(r"[a-z0-9_]{1,64}")
_IDENTIFIER = re.compile(r"[A-Za-z0-9._:@+=/|\-]*")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FIRST, _LAST = -62_135_596_800, 253_402_300_800
"""Seconds of the years 1 to 9999, what a Timestamp may hold."""

E = TypeVar("E", MemoryType, Shard)


class Check:
    """Gathers violations; `done` raises them all."""

    def __init__(self) -> None:
        self._violations: list[Violation] = []

    def fail(self, field: str, description: str) -> None:
        """Notes a violation."""
        self._violations.append(Violation(field, description))

    def done(self) -> None:
        """Raises InvalidArgument when there was a violation."""
        if self._violations:
            raise InvalidArgument(self._violations)

    def text(self, field: str, value: str, longest: int, *, required: bool = False) -> str:
        """A text of at most so many characters, with no control characters in it."""
        if required and not value:
            self.fail(field, f"is required: 1 to {longest:,} characters")
        elif len(value) > longest:
            self.fail(field, f"has {len(value):,} characters, at most {longest:,} are allowed")
        elif problem := text_problem(value):
            self.fail(field, problem)
        return value

    def identifier(self, field: str, value: str, longest: int = 128) -> str:
        """An id given by the caller: a session, a message, a channel."""
        if len(value) > longest or not _IDENTIFIER.fullmatch(value):
            self.fail(field, f"must be at most {longest} characters of A-Z a-z 0-9 . _ : @ + = / | -")
        return value

    def memory_id(self, field: str, value: str) -> str:
        """The id of a memory, in its canonical form."""
        if not _UUID.fullmatch(value):
            self.fail(field, "must be the id of a memory, a UUID in lower case")
        return value

    def request_id(self, value: str) -> str:
        """A UUID in canonical form, or empty."""
        if not value:
            return ""
        try:
            return str(uuid.UUID(value))
        except ValueError:
            self.fail("request_id", "must be a UUID")
            return ""

    def kind(self, field: str, value: int, of: type[E], default: E) -> E:
        """One value of an enum; `default` while a violation is noted."""
        try:
            return of(value)
        except ValueError:
            names = ", ".join(member.name for member in of)
            self.fail(field, f"must be one of {names}" if value else f"is required: one of {names}")
            return default

    def kinds(self, field: str, values: Iterable[int], of: type[E]) -> frozenset[E]:
        """Some values of an enum; none = no restriction."""
        known = {int(member) for member in of}
        found = set()
        for number, value in enumerate(values):
            if value in known:
                found.add(of(value))
            else:
                self.fail(f"{field}[{number}]", f"must be one of {', '.join(member.name for member in of)}")
        return frozenset(found)

    def instant(self, field: str, message: Message, name: str) -> Micros | None:
        """An optional Timestamp, as microseconds."""
        if not message.HasField(name):
            return None
        value: Timestamp = getattr(message, name)
        if not (_FIRST <= value.seconds < _LAST and 0 <= value.nanos < 1_000_000_000):
            self.fail(field, "must lie within the years 1 to 9999")
            return None
        return value.seconds * 1_000_000 + value.nanos // 1000

    def count(self, field: str, value: int, default: int, highest: int, *, clamp: bool = False) -> int:
        """A number of things, 0 = default."""
        if value < 0 or (value > highest and not clamp):
            self.fail(field, f"must be 0 (= {default}) to {highest:,}")
        return min(value or default, highest)

    def zone(self, field: str, name: str, default: tzinfo) -> tzinfo:
        """A time zone by its IANA name."""
        found = _zone(name) if name else default
        if found is None:
            self.fail(field, "is not an IANA time zone; write one like Asia/Shanghai")
        return found or UTC

    def attributes(self, field: str, given: Mapping[str, str]) -> dict[str, str]:
        """Attributes within their limits."""
        if len(given) > MAX_ATTRIBUTES:
            self.fail(field, f"has {len(given)} keys, at most {MAX_ATTRIBUTES} are allowed")
        for key, value in given.items():
            place = f'{field}["{key[:64]}"]'
            self.attribute_key(place, key)
            self.text(place, value, MAX_ATTRIBUTE_VALUE)
        size = sum(len(k.encode()) + len(v.encode("utf-8", "replace")) for k, v in given.items())
        if size > MAX_ATTRIBUTE_BYTES:
            self.fail(field, f"has {size:,} bytes in all, at most {MAX_ATTRIBUTE_BYTES:,} are allowed")
        return dict(given)

    def attribute_key(self, field: str, key: str) -> None:
        """The key of an attribute."""
        if not _ATTRIBUTE_KEY.fullmatch(key):
            self.fail(field, "a key must be 1 to 64 characters of a-z 0-9 _")
        elif key in REFUSED_ATTRIBUTES:
            self.fail(field, "this key is refused: who and what a memory belongs to is not an attribute")

    def source(self, field: str, given: MemorySource) -> Source:
        """Where a memory came from."""
        self.text(f"{field}.quote", given.quote, MAX_QUOTE)
        if given.role not in ROLES:
            self.fail(f"{field}.role", "must be user, assistant, tool or empty")
        source = Source(
            session_id=self.identifier(f"{field}.session_id", given.session_id),
            message_id=self.identifier(f"{field}.message_id", given.message_id),
            quote=given.quote,
            role=given.role,
            channel=self.identifier(f"{field}.channel", given.channel, 32),
        )
        return fitted(source)

    def draft(self, prefix: str, given: pb.SaveMemoryRequest | pb.MemoryDraft, now: Micros, home: tzinfo) -> Draft:
        """A statement to remember; `prefix` is empty or like `drafts[3].`."""
        expires = self.instant(f"{prefix}expires_at", given, "expires_at")
        if expires is not None and expires <= now:
            self.fail(f"{prefix}expires_at", "must lie in the future")
        supersedes = list(given.supersedes)
        if len(supersedes) > MAX_SUPERSEDES or len(set(supersedes)) < len(supersedes):
            self.fail(f"{prefix}supersedes", f"must be at most {MAX_SUPERSEDES} different ids")
        for number, id in enumerate(supersedes):
            self.memory_id(f"{prefix}supersedes[{number}]", id)
        return Draft(
            type=self.kind(f"{prefix}type", given.type, MemoryType, MemoryType.FACT),
            content=self.text(f"{prefix}content", given.content, MAX_CONTENT, required=True),
            shard=self.kind(f"{prefix}shard", given.shard or Shard.GENERAL, Shard, Shard.GENERAL),
            attributes=self.attributes(f"{prefix}attributes", given.attributes),
            source=self.source(f"{prefix}source", given.source),
            occurred_at=self.instant(f"{prefix}occurred_at", given, "occurred_at"),
            pinned=given.pinned,
            expires_at=expires,
            zone=self.zone(f"{prefix}time_zone", given.time_zone, home),
            supersedes=tuple(supersedes),
        )

    def filters(self, given: Sequence[pb.AttributeFilter]) -> tuple[AttributeFilter, ...]:
        """Conditions on attributes."""
        if len(given) > MAX_FILTERS:
            self.fail("attribute_filters", f"has {len(given)} conditions, at most {MAX_FILTERS} are allowed")
        return tuple(self._filter(f"attribute_filters[{n}]", one) for n, one in enumerate(given))

    def _filter(self, field: str, given: pb.AttributeFilter) -> AttributeFilter:
        self.attribute_key(f"{field}.key", given.key)
        match given.WhichOneof("condition"):
            case "equals":
                return AttributeFilter(given.key, Equals(given.equals))
            case "in":
                values = getattr(given, "in").values
                if not 1 <= len(values) <= MAX_IN_VALUES:
                    self.fail(f"{field}.in.values", f"must be 1 to {MAX_IN_VALUES} texts")
                return AttributeFilter(given.key, In(frozenset(values)))
            case "number":
                low, high = (getattr(given.number, n) if given.number.HasField(n) else None for n in ("min", "max"))
                if any(bound is not None and math.isnan(bound) for bound in (low, high)):
                    self.fail(f"{field}.number", "a bound must be a number")
                if low is not None and high is not None and low > high:
                    self.fail(f"{field}.number", "min must not be above max")
                return AttributeFilter(given.key, Number(low, high))
            case "time":
                start, end = self.span("start", "end", given.time, f"{field}.time.")
                return AttributeFilter(given.key, Time(start, end))
            case _:
                self.fail(field, "needs a condition: equals, in, number or time")
                return AttributeFilter(given.key, Equals(""))

    def span(self, after: str, before: str, message: Message, prefix: str = "") -> tuple[Micros | None, Micros | None]:
        """A range of two optional Timestamps; `prefix` is the path of the message."""
        start, end = self.instant(prefix + after, message, after), self.instant(prefix + before, message, before)
        if start is not None and end is not None and start >= end:
            self.fail(prefix + before, f"must be later than {prefix}{after}")
        return start, end


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def canonical(request: Any, home: tzinfo) -> bytes:
    """A request's arguments for comparing two calls: defaults applied, map keys sorted, the request id left out."""
    copy = type(request)()
    copy.CopyFrom(request)
    copy.request_id = ""
    for part in (copy, *getattr(copy, "drafts", ())):
        if hasattr(part, "shard"):
            part.shard = part.shard or int(Shard.GENERAL)
            part.time_zone = part.time_zone or str(home)
            if part.source == MemorySource():
                part.ClearField("source")
    if hasattr(copy, "update_mask"):
        copy.update_mask.paths[:] = sorted(set(copy.update_mask.paths))
    return bytes(copy.SerializeToString(deterministic=True))
