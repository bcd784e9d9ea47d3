"""What the use cases need from outside: memories of another server, a summariser, and what model means what encoding.

Owns those contracts. No method here promises more than it says, and none puts text into an exception.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from assembler_service.domain.model import CountTokens, MemoryItem, MemoryType, Summary, SummaryNeed


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


class Summarizer(Protocol):
    """Makes, remembers and checks summaries. Never raises: what goes wrong is Summary(reason=...)."""

    async def summarize(self, caller: str, need: SummaryNeed, count: CountTokens, seconds: float) -> Summary:
        """A summary of `need.covered` in at most `need.cap` tokens, or why there is none, within `seconds`.

        What one caller's conversation gave is never used for another caller.
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
