"""The values of a prompt: what is asked for, what came out.

Owns the shapes and the defaults of assembler.md §1; numbers of enums equal those of the contract. Refuses to check
ranges (the API does) and to know protobuf. Times are microseconds since 1970-01-01 UTC; all sizes are tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final, TypeAlias

CountTokens: TypeAlias = Callable[[str], int]
"""Tokens of a text in one encoding: never raises, never below the true count, the same for the same text."""

MESSAGE_TOKENS: Final = 4
"""Overhead of one chat message: 3 for delimiters, 1 for its role (OpenAI cookbook, "how to count tokens")."""
PRIMING_TOKENS: Final = 3
"""What a chat-completions call adds once, for the beginning of the answer (same source)."""
PROFILE_MAX: Final = 300
LAST_TURN_FLOOR: Final = 200
MEMORY_FLOOR: Final = 150
SOURCE_CUT_MIN: Final = 80
"""A source is cut only if at least this much of it stays."""
SUMMARY_SHARE: Final = 0.3
"""The most a summary may take of what the history may have."""


class Role(StrEnum):
    """Who speaks, as in chat-completions."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class MemoryType(IntEnum):
    """The group a memory is shown in."""

    PREFERENCE = 1
    FACT = 2
    CONTEXT = 3


class HistoryStrategy(IntEnum):
    """What becomes of history that does not fit."""

    AUTO = 1
    TRUNCATE = 2
    SUMMARY = 3


class Language(IntEnum):
    """Language of the frame."""

    AUTO = 1
    ZH = 2
    EN = 3


class Layout(IntEnum):
    """Order of the blocks after the system prompt."""

    SOURCES_FIRST = 1
    CACHE_FRIENDLY = 2


class Overflow(IntEnum):
    """What becomes of tokens that no block may use under its own limit."""

    STRICT = 1
    ELASTIC = 2


class Block(IntEnum):
    """A part of the prompt."""

    SYSTEM = 1
    PROFILE = 2
    SOURCES = 3
    COMPUTATIONS = 4
    MEMORIES = 5
    SUMMARY = 6
    HISTORY = 7
    QUESTION = 8
    FRAME = 9


class Status(IntEnum):
    """What became of an item."""

    KEPT = 1
    TRUNCATED = 2
    DROPPED = 3


class Reason(IntEnum):
    """Why an item is not in the prompt whole; NONE where it is."""

    NONE = 0
    BUDGET = 1
    BLOCK_CAP = 2
    DUPLICATE = 3
    EMPTY = 4
    BELOW_FLOOR = 5
    UNPAIRED = 6
    SUMMARIZED = 7


class SummaryReason(IntEnum):
    """Why there is no summary, or why a stored one had to do; NONE where there is one that tells all it should."""

    NONE = 0
    NOT_NEEDED = 1
    DISABLED = 2
    NO_MODEL = 3
    NO_ROOM = 4
    TIMEOUT = 5
    ERROR = 6
    EMPTY = 7
    REFUSED = 8
    LENGTH = 9
    OVER_CAP = 10
    NOT_SHORTER = 11
    LANGUAGE = 12
    INVENTED = 13
    INCOMPLETE = 14


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call an assistant message makes. `arguments` is passed on as it is."""

    id: str
    name: str
    arguments: str
    type: str = "function"


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Role
    content: str
    tool_call_id: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Something found for the question. Higher scores are better; NaN is the worst."""

    text: str
    id: str = ""
    title: str = ""
    uri: str = ""
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Computation:
    """A result of a tool or an analysis. Higher priority comes first."""

    text: str
    title: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """A long-term memory. Higher scores are better, then newer ones; NaN is the worst."""

    content: str
    type: MemoryType = MemoryType.CONTEXT
    score: float = 0.0
    created_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The budget. Every limit is 0 or more; None = no limit of its own."""

    total_max_tokens: int = 6000
    aux_total_tokens: int = 2500
    computations_max_tokens: int = 1500
    memory_max_tokens: int = 600
    history_max_tokens: int = 1000
    summary_max_tokens: int = 300
    verbatim_turns: int = 6
    sources_max_tokens: int | None = None
    sources_top_k: int | None = None
    min_source_score: float | None = None
    history_strategy: HistoryStrategy = HistoryStrategy.AUTO
    safety_margin: float = 0.0
    """Part of the total that stays free, 0 to 1."""
    language: Language = Language.AUTO
    layout: Layout = Layout.SOURCES_FIRST
    overflow: Overflow = Overflow.STRICT

    @property
    def limit(self) -> int:
        """What the whole prompt may have: the total less the margin, rounded down."""
        return max(0, int(self.total_max_tokens * (1.0 - self.safety_margin)))


@dataclass(frozen=True, slots=True)
class Earlier:
    """What came before the first message of `history`, where the conversation is stored elsewhere."""

    summary: str = ""
    """The summary that is stored; empty = none is."""
    messages: int = 0
    """How many messages it stands for."""
    missing: int = 0
    """How many messages after those could not be had: a new summary would stand for what nobody read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything that might be in the prompt. `history` is oldest first and holds no system messages."""

    question: str
    system_prompt: str = ""
    user_profile: str = ""
    sources: tuple[Source, ...] = ()
    computations: tuple[Computation, ...] = ()
    memories: tuple[MemoryItem, ...] = ()
    history: tuple[Message, ...] = ()
    earlier: Earlier = Earlier()
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True)
class Summary:
    """What the summariser gave: an accepted text, or why there is none (`text` empty, `reason` set)."""

    text: str = ""
    cached: bool = False
    reason: SummaryReason = SummaryReason.NONE


@dataclass(frozen=True, slots=True)
class SummaryNeed:
    """What a summary would have to tell, and in how many tokens (`cap`, without its heading).

    `covered` are the oldest messages of `request.history`, from the first on. `previous` is the stored summary of what
    came before them, whole: the new one tells both.
    """

    covered: tuple[Message, ...]
    cap: int
    language: Language
    """ZH or EN: the language of the frame. The summary is to be in the language of the conversation itself."""
    previous: str = ""


@dataclass(frozen=True, slots=True)
class Citation:
    """What a number in the prompt stands for."""

    n: int
    source_id: str
    title: str
    uri: str


@dataclass(frozen=True, slots=True)
class BlockReport:
    """Tokens of one block. `cap` is its own limit, None = it has none."""

    block: Block
    given: int
    kept: int
    cap: int | None = None


@dataclass(frozen=True, slots=True)
class ItemReport:
    """What became of one item; `index` is its place in the request's list."""

    block: Block
    index: int
    status: Status
    reason: Reason
    given: int
    kept: int
    id: str = ""


@dataclass(frozen=True, slots=True)
class SummaryReport:
    """What became of the summary. `tokens` includes its heading; `covered_messages` those a stored one stands for."""

    used: bool = False
    cached: bool = False
    tokens: int = 0
    covered_messages: int = 0
    reason: SummaryReason = SummaryReason.NOT_NEEDED


@dataclass(frozen=True, slots=True)
class Report:
    """The receipt. `kept` of all blocks adds up to `total`, which is at most `limit`."""

    total: int
    limit: int
    blocks: tuple[BlockReport, ...]
    items: tuple[ItemReport, ...]
    summary: SummaryReport


@dataclass(frozen=True, slots=True)
class Assembled:
    """A prompt that fits, and its receipt."""

    messages: tuple[Message, ...]
    text: str
    citations: tuple[Citation, ...]
    report: Report


class FixedPartsTooLarge(Exception):
    """System prompt, question and frame alone are over `limit`. `parts`: tokens of each by name."""

    def __init__(self, parts: dict[str, int], limit: int) -> None:
        listed = ", ".join(f"{name} {tokens}" for name, tokens in parts.items())
        super().__init__(
            f"The parts that cannot be cut need {sum(parts.values())} tokens ({listed}); {limit} are allowed."
        )
        self.parts = parts
        self.limit = limit
