"""The values of extraction: a turn, the memories shown with it, what the model said, and what is left of that."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from enum import StrEnum

from memory_service.domain.model import Memory, MemoryType, Micros, Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message of a conversation. `role`: user, assistant or tool."""

    message_id: str
    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn as it is extracted."""

    session_id: str
    messages: tuple[Said, ...]
    at: Micros
    """When it was said: what relative dates count from."""
    received_at: Micros
    """When this service took it: what memories are older or newer than."""
    channel: str = ""
    zone: tzinfo = UTC

    @property
    def empty(self) -> bool:
        """True when nobody said anything that a memory could come from."""
        return not any(message.content.strip() for message in self.messages if message.role in ("user", "assistant"))


@dataclass(frozen=True, slots=True)
class Known:
    """Memories shown to the model, by alias (`FACT-3`), nearest first."""

    by_alias: Mapping[str, Memory]


class Action(StrEnum):
    """What the model wants done with an item."""

    ADD = "ADD"
    UPDATE = "UPDATE"
    NOOP = "NOOP"
    OTHER = "OTHER"
    """Something we never asked for, such as DELETE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of the model's answer, read and not believed yet."""

    type: MemoryType
    content: str
    action: Action = Action.ADD
    supersedes: tuple[str, ...] = ()
    quote: str = ""
    shard: Shard | None = None
    occurred_at: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    rationale: str = ""


class Refused(StrEnum):
    """Why an item, or a part of it, is not believed. Counted, and shown with the extraction."""

    NOOP = "NOOP"
    EMPTY = "EMPTY"
    NOT_A_STATEMENT = "NOT_A_STATEMENT"
    TOO_LONG = "TOO_LONG"
    TOO_MANY = "TOO_MANY"
    QUOTE_NOT_FOUND = "QUOTE_NOT_FOUND"
    """Nobody said that."""
    NOT_THE_USERS = "NOT_THE_USERS"
    """Only the assistant said it, and it is about the user."""
    INSTRUCTION = "INSTRUCTION"
    """It comes from text that gives orders to the extraction, or is an order itself."""
    PRIVILEGE = "PRIVILEGE"
    """It gives the user rights; those come from credentials, never from talk."""
    ACTION = "ACTION"
    """An action that does not exist, or superseding without a new memory."""
    SAME_AS_OLD = "SAME_AS_OLD"
    UNKNOWN_ALIAS = "UNKNOWN_ALIAS"
    """A supersede named no memory that was shown; the item itself stays."""
    TOO_MANY_SUPERSEDED = "TOO_MANY_SUPERSEDED"
    OLDER_THAN_MEMORY = "OLDER_THAN_MEMORY"
    """The turn is older than the memory it would supersede."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An item that is believed: a draft in all but the ids of this moment."""

    type: MemoryType
    content: str
    shard: Shard
    quote: str
    role: str
    message_id: str
    supersedes: tuple[str, ...] = ()
    """Ids of the user's memories that it takes the place of, all of them older than the turn."""
    newer: tuple[str, ...] = ()
    """Ids of memories it contradicts that are newer than the turn: they take its place at once."""
    occurred_at: Micros | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    rationale: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of an item: a finding, or the reason why not. `notes`: what of a believed item was not believed."""

    item: Item
    finding: Finding | None = None
    refused: Refused | None = None
    notes: tuple[Refused, ...] = ()
