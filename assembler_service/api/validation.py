"""Checks of requests: every violation at once, each with the path of its field in the contract and what would be right.

Pure: it reads messages and answers domain values. Texts may be anything UTF-8 can hold; scores may be any number, NaN
too, which ranks last.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from typing import Any, Final, TypeVar

from assembler_service.domain.model import (
    Computation,
    HistoryStrategy,
    Language,
    Layout,
    MemoryItem,
    MemoryType,
    Message,
    Options,
    Overflow,
    Role,
    Source,
    ToolCall,
)
from assembler_service.service.lookups import Wanted
from shared.errors import InvalidArgument, Violation
from shared.gen.palimpsest.assembler.v1 import prompt_pb2 as p
from shared.gen.palimpsest.memory.v1 import memory_pb2 as m

MAX_TOKENS: Final = 1_000_000
MAX_SOURCES: Final = 2_000
MAX_COMPUTATIONS: Final = 200
MAX_MEMORIES: Final = 1_000
MAX_MESSAGES: Final = 5_000
MAX_TEXTS: Final = 1_000
MAX_TOP_K: Final = 100
DEFAULT_TOP_K: Final = 10
MAX_MARGIN: Final = 0.9
SAID: Final = (Role.USER, Role.ASSISTANT, Role.TOOL)

_IDENTIFIER = re.compile(r"[A-Za-z0-9._:@+=/|\-]{0,128}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FIRST, _LAST = -62_135_596_800, 253_402_300_800
"""Seconds of the years 1 to 9999, what a Timestamp may hold."""
_TOKEN_LIMITS: Final = (
    "total_max_tokens",
    "aux_total_tokens",
    "computations_max_tokens",
    "memory_max_tokens",
    "history_max_tokens",
    "summary_max_tokens",
    "sources_max_tokens",
)
_NUMBERS: Final = ("verbatim_turns", "sources_top_k")
_INT32_MAX: Final = 2**31 - 1

E = TypeVar("E", bound=IntEnum)
V = TypeVar("V")


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

    def many(self, field: str, values: Sequence[V], most: int) -> Sequence[V]:
        """A list of at most so many; what is beyond is not looked at."""
        if len(values) > most:
            self.fail(field, f"has {len(values):,} entries, at most {most:,} are allowed")
            return values[:most]
        return values

    def words(self, field: str, value: str) -> str:
        """A text that is required."""
        if not value.strip():
            self.fail(field, "is required, and must hold more than white space")
        return value

    def encoding(self, field: str, name: str, known: Collection[str]) -> str:
        """The name of an encoding; empty = not given."""
        if name and name not in known:
            self.fail(field, f"must be {' or '.join(known)}, or empty")
        return name

    def choice(self, field: str, value: int, of: type[E], default: E) -> E:
        """One value of an enum, 0 = `default`."""
        if value == 0:
            return default
        try:
            return of(value)
        except ValueError:
            self.fail(field, f"must be one of {', '.join(member.name for member in of)}")
            return default

    def prompt_id(self, field: str, value: str) -> str:
        """The id of a prompt, or empty."""
        if value and not _UUID.fullmatch(value):
            self.fail(field, "must be the prompt_id of an answer, a UUID in lower case, or empty")
        return value

    def options(self, given: p.PromptOptions, encodings: Collection[str]) -> Options:
        """The budget, without its safety margin: `margin` reads that."""
        numbers = {name: getattr(given, name) for name in (*_TOKEN_LIMITS, *_NUMBERS) if given.HasField(name)}
        for name, value in numbers.items():
            highest = MAX_TOKENS if name in _TOKEN_LIMITS else _INT32_MAX
            if not 0 <= value <= highest:
                self.fail(f"options.{name}", f"must be 0 to {highest:,}")
        floor = given.min_source_score if given.HasField("min_source_score") else None
        if floor is not None and math.isnan(floor):
            self.fail("options.min_source_score", "must be a number")
        self.encoding("options.encoding", given.encoding, encodings)
        return Options(
            **numbers,
            min_source_score=floor,
            history_strategy=self.choice(
                "options.history_strategy", given.history_strategy, HistoryStrategy, HistoryStrategy.AUTO
            ),
            language=self.choice("options.language", given.language, Language, Language.AUTO),
            layout=self.choice("options.layout", given.layout, Layout, Layout.SOURCES_FIRST),
            overflow=self.choice("options.overflow", given.overflow, Overflow, Overflow.STRICT),
        )

    def margin(self, given: p.PromptOptions) -> float | None:
        """The safety margin; None = by the model."""
        if not given.HasField("safety_margin"):
            return None
        if not 0 <= given.safety_margin <= MAX_MARGIN:  # NaN is refused by this as well
            self.fail("options.safety_margin", f"must be 0 to {MAX_MARGIN}")
            return None
        return given.safety_margin

    def sources(self, given: Sequence[p.Source]) -> tuple[Source, ...]:
        """What was found."""
        found = self.many("sources", given, MAX_SOURCES)
        return tuple(Source(one.text, one.id, one.title, one.uri, one.score) for one in found)

    def computations(self, given: Sequence[p.Computation]) -> tuple[Computation, ...]:
        """Results of tools."""
        found = self.many("computations", given, MAX_COMPUTATIONS)
        return tuple(Computation(one.text, one.title, one.priority) for one in found)

    def memories(self, given: Sequence[p.MemoryItem]) -> tuple[MemoryItem, ...]:
        """Long-term memories."""
        found = self.many("memories", given, MAX_MEMORIES)
        return tuple(
            MemoryItem(
                one.content,
                self.choice(f"memories[{n}].type", one.type, MemoryType, MemoryType.CONTEXT),
                one.score,
                self.instant(f"memories[{n}].created_at", one),
            )
            for n, one in enumerate(found)
        )

    def messages(self, field: str, given: Sequence[p.Message], roles: tuple[Role, ...] = SAID) -> tuple[Message, ...]:
        """A conversation. Roles are those a caller may send here."""
        found = self.many(field, given, MAX_MESSAGES)
        return tuple(self._message(f"{field}[{n}]", one, roles) for n, one in enumerate(found))

    def _message(self, field: str, given: p.Message, roles: tuple[Role, ...]) -> Message:
        role = next((role for role in roles if role.value == given.role), None)
        if role is None:
            self.fail(f"{field}.role", f"must be one of {', '.join(roles)}")
        else:
            if given.tool_call_id and role is not Role.TOOL:
                self.fail(f"{field}.tool_call_id", 'must be empty where the role is not "tool"')
            if given.tool_calls and role is not Role.ASSISTANT:
                self.fail(f"{field}.tool_calls", 'must be empty where the role is not "assistant"')
        for n, call in enumerate(given.tool_calls):
            if not call.id:
                self.fail(f"{field}.tool_calls[{n}].id", "is required")
        self.instant(f"{field}.created_at", given)
        return Message(
            role or Role.USER,
            given.content,
            given.tool_call_id,
            tuple(
                ToolCall(call.id, call.function.name, call.function.arguments, call.type or "function")
                for call in given.tool_calls
            ),
        )

    def lookup(self, given: p.Lookup) -> Wanted:
        """What to look up."""
        if not 0 <= given.recall_top_k <= MAX_TOP_K:
            self.fail("lookup.recall_top_k", f"must be 0 (= {DEFAULT_TOP_K}) to {MAX_TOP_K}")
        if not _IDENTIFIER.fullmatch(given.session_id):
            self.fail("lookup.session_id", "must be at most 128 characters of A-Z a-z 0-9 . _ : @ + = / | -")
        return Wanted(
            top_k=given.recall_top_k or DEFAULT_TOP_K,
            types=tuple(MemoryType(kind) for kind in self._known("lookup.types", given.types, m.MemoryType)),
            shards=tuple(self._known("lookup.shards", given.shards, m.MemoryShard)),
            session_id=given.session_id,
            profile=given.profile,
        )

    def _known(self, field: str, values: Iterable[int], enum: Any) -> Iterable[int]:
        known = sorted(number for number in enum.values() if number)
        found = []
        for n, value in enumerate(values):
            if value in known:
                found.append(value)
            else:
                self.fail(f"{field}[{n}]", f"must be one of {', '.join(enum.Name(number) for number in known)}")
        return dict.fromkeys(found)

    def instant(self, field: str, message: p.MemoryItem | p.Message) -> int | None:
        """An optional `created_at`, as microseconds."""
        if not message.HasField("created_at"):
            return None
        value = message.created_at
        if not (_FIRST <= value.seconds < _LAST and 0 <= value.nanos < 1_000_000_000):
            self.fail(field, "must lie within the years 1 to 9999")
            return None
        return value.seconds * 1_000_000 + value.nanos // 1000
