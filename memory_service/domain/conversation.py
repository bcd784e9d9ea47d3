"""What conversations are made of: sessions, messages, and what the extraction of a turn came to.

Owns the values, the cleaning of a turn, its estimated size, and the written form of an outcome. Refuses to know tables,
keys or messages of the contract.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from memory_service.domain.cleaning import filter_rule
from memory_service.domain.model import MemoryType, Micros, Outcome, ReasonCode
from memory_service.domain.text import estimate_tokens

USER, ASSISTANT, TOOL = "user", "assistant", "tool"
ROLES: Final = frozenset({USER, ASSISTANT, TOOL})


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that an assistant made, as in chat-completions."""

    id: str
    type: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation, in clear. `seq` and `turn` are 0 until it is stored."""

    message_id: str
    role: str
    content: str
    created_at: Micros
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    session_id: str = ""
    seq: int = 0
    turn: int = 0


MESSAGE_TOKENS: Final = 4
"""What a message costs beside its text, as chat models count."""


def tokens_of(message: Message) -> int:
    """About how many tokens a message takes in a prompt."""
    calls = sum(estimate_tokens(call.name) + estimate_tokens(call.arguments) for call in message.tool_calls)
    return MESSAGE_TOKENS + estimate_tokens(message.content) + calls


def whole_turns(messages: Sequence[Message], budget: int) -> list[Message]:
    """The messages of the last turns that together have at most `budget` tokens; the first turn is taken as whole."""
    kept = len(messages)
    spent = 0
    for at in range(len(messages) - 1, -1, -1):
        spent += tokens_of(messages[at])
        if spent > budget:
            break
        if at == 0 or messages[at - 1].turn != messages[at].turn:
            kept = at
    return list(messages[kept:])


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What cleaning leaves of a message: None = nothing. `rule` = why its text was left out."""

    message: Message | None
    rule: ReasonCode | None = None


def cleaned(messages: Sequence[Message]) -> list[Cleaned]:
    """What is left of each message of a turn. A result of a tool that says nothing takes its call along, and a call its
    result, because models refuse the one without the other."""
    rules = [filter_rule(message.content) if message.content else None for message in messages]
    dropped = {m.tool_call_id for m, rule in zip(messages, rules, strict=True) if rule and m.tool_call_id}
    found = []
    for message, rule in zip(messages, rules, strict=True):
        calls = tuple(call for call in message.tool_calls if call.id not in dropped)
        content = "" if rule is not None else message.content
        empty = not content and not calls and (rule is not None or message.role != TOOL)
        found.append(Cleaned(None if empty else replace(message, content=content, tool_calls=calls), rule))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A conversation. `summary_until` is the number of the last message that the summary covers; 0 = there is none."""

    session_id: str
    turns: int
    messages: int
    channel: str
    created_at: Micros
    last_turn_at: Micros
    summary: str = ""
    summary_until: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedItem:
    """What became of one thing the model said of a turn."""

    action: str
    """ADD, UPDATE or NOOP, as the model said."""
    type: MemoryType
    outcome: Outcome | None = None
    """None = a guard refused it, or there was nothing to do: see `refused`."""
    code: ReasonCode | None = None
    """The rule of the decision table that decided on the draft."""
    memory_id: str = ""
    """The memory that says it now."""
    superseded_ids: tuple[str, ...] = ()
    rationale: str = ""
    """Why, in the model's words."""
    refused: str = ""
    """The guard that refused it, as a code like QUOTE_NOT_FOUND. Empty = none did."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What the extraction of a turn came to."""

    items: tuple[ExtractedItem, ...] = ()

    def to_json(self) -> bytes:
        """The form in which it is sealed and stored."""
        return json.dumps({"items": [asdict(item) for item in self.items]}, ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, text: bytes) -> "Extracted":
        """What `to_json` made."""
        items = []
        for given in json.loads(text)["items"]:
            outcome, code = given.pop("outcome"), given.pop("code")
            items.append(
                ExtractedItem(
                    **given | {"type": MemoryType(given["type"]), "superseded_ids": tuple(given["superseded_ids"])},
                    outcome=None if outcome is None else Outcome(outcome),
                    code=None if code is None else ReasonCode(code),
                )
            )
        return cls(tuple(items))
