"""What the use cases need from outside: memories and conversations of another server, a summariser, and what model
means what encoding.

Owns those contracts. No method here promises more than it says, and none puts text into an exception.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from assembler_service.domain.model import CountTokens, MemoryItem, MemoryType, Message, Summary, SummaryNeed


class LookupStatus(IntEnum):
    """How a lookup went; numbers equal those of the contract."""

    OK = 1
    TIMEOUT = 2
    ERROR = 3
    DENIED = 4
    UNSUPPORTED = 5


class LookupFailed(Exception):
    """A lookup gave nothing. `status` says why; what the other server said stays behind it, as its cause."""

    def __init__(self, status: LookupStatus) -> None:
        super().__init__(status.name)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """Which memories are wanted. Empty `types` or `shards` = all that the caller may see."""

    query: str
    """Something RecallMemories takes: at most 8,000 characters. Without a word in it nothing is found."""
    top_k: int
    types: tuple[MemoryType, ...] = ()
    shards: tuple[int, ...] = ()
    """Numbers of the contract's MemoryShard: the assembler only passes them on."""


class Memories(Protocol):
    """The long-term memories of the caller of the call in progress: its credentials, request id and trace go along."""

    async def recall(self, wanted: Recollection, seconds: float) -> Sequence[MemoryItem]:
        """The best ones first. Ends within `seconds`. Raises LookupFailed, and nothing else but a cancellation."""
        ...

    async def close(self) -> None:
        """Ends the connection. Calls in progress fail."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHistory:
    """The newest messages of a conversation, oldest first, and the stored summary of those up to number `until`."""

    messages: tuple[tuple[int, Message], ...] = ()
    """Each with its number in the conversation."""
    total: int = 0
    """How many messages the conversation has."""
    summary: str = ""
    until: int = 0
    omitted: int = 0
    """How many messages neither are here nor does the summary stand for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSummary:
    """A summary to store, where the present one still ends at message `expected` (0 = there is none)."""

    session_id: str
    text: str
    until: int
    expected: int


class SummaryMoved(Exception):
    """Another summary was stored meanwhile."""


class Conversations(Protocol):
    """The conversations of the caller of the call in progress: its credentials, request id and trace go along."""

    async def history(
        self, session_id: str, max_messages: int, max_tokens: int | None, seconds: float
    ) -> StoredHistory:
        """The last messages; with `max_tokens` the last whole turns of at most so many, by the other server's estimate.

        A conversation that is not there is empty. Ends within `seconds`. Raises LookupFailed, and nothing else but a
        cancellation.
        """
        ...

    async def save_summary(self, summary: NewSummary, seconds: float) -> None:
        """Stores a summary within `seconds`. Raises SummaryMoved and LookupFailed, nothing else but a cancellation."""
        ...

    async def close(self) -> None:
        """Ends the connection. Calls in progress fail."""
        ...


@dataclass(frozen=True, slots=True)
class Keep:
    """Where the summaries of a stored conversation are kept: with it, and not in this process."""

    session_id: str
    store: Callable[[str], Awaitable[None]]
    """Takes a new summary. Never raises."""


class Summarizer(Protocol):
    """Makes, remembers and checks summaries. Never raises: what goes wrong is Summary(reason=...)."""

    async def summarize(
        self, caller: str, need: SummaryNeed, count: CountTokens, seconds: float, keep: Keep | None = None
    ) -> Summary:
        """A summary of `need.covered` in at most `need.cap` tokens, or why there is none, within `seconds`.

        What one caller's conversation gave is never used for another caller. With `keep` a summary that was made goes
        there, beside the answer, and nothing of it stays in this process.
        """
        ...

    async def close(self) -> None:
        """Ends what is under way and the connection to the model."""
        ...


class ModelEncoding(Protocol):
    """The encoding tokens of a model are counted in."""

    @property
    def name(self) -> str:
        """`o200k_base` or `cl100k_base`."""
        ...

    @property
    def known(self) -> bool:
        """False = the model's own tokenizer is another one; counts are an approximation."""
        ...
