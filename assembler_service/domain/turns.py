"""A history as units that are kept or dropped whole: turns, and within them tool calls with their results.

Owns the repair of what does not pair up: a result without its call and a call without its result are dropped, because
every chat-completions endpoint refuses them. Odd orders of roles are taken as they come, never an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assembler_service.domain.model import Message, Role, ToolCall
from assembler_service.domain.text import escape, escape_tool_result, without_surrogates


@dataclass(frozen=True, slots=True)
class Said:
    """One message as it will stand in the prompt; `index` is its place in the request's history."""

    index: int
    message: Message


@dataclass(frozen=True, slots=True)
class Turn:
    """What follows from one word of the user: `groups[i]` is a plain message, or a tool call with all its results.

    A turn begins with the first of the user's messages; only the first turn may begin with another role.
    """

    groups: tuple[tuple[Said, ...], ...]

    @property
    def said(self) -> tuple[Said, ...]:
        """All its messages, in order."""
        return tuple(said for group in self.groups for said in group)

    def with_tool_groups(self, keep: int) -> "Turn":
        """The turn with only its last `keep` tool groups."""
        drop = self.tool_groups - keep
        kept: list[tuple[Said, ...]] = []
        for group in self.groups:
            if is_tool_group(group) and drop > 0:
                drop -= 1
            else:
                kept.append(group)
        return Turn(tuple(kept))

    @property
    def tool_groups(self) -> int:
        """How many of its groups are tool calls."""
        return sum(1 for group in self.groups if is_tool_group(group))


def is_tool_group(group: Sequence[Said]) -> bool:
    """True for a tool call with its results."""
    return bool(group[0].message.tool_calls)


def group_turns(history: Sequence[Message]) -> tuple[tuple[Turn, ...], dict[int, bool]]:
    """The turns of a history, oldest first, its texts escaped; and the messages that are in none: index -> True where
    it was a tool's message or call that does not pair up, False where it was empty.
    """
    groups, left_out = _groups(history)
    turns: list[list[tuple[Said, ...]]] = []
    after_user = False
    for group in groups:
        by_user = group[0].message.role is Role.USER
        if not turns or (by_user and not after_user):
            turns.append([])
        turns[-1].append(group)
        after_user = by_user
    return tuple(Turn(tuple(turn)) for turn in turns), left_out


def _groups(history: Sequence[Message]) -> tuple[list[tuple[Said, ...]], dict[int, bool]]:
    groups: list[tuple[Said, ...]] = []
    left_out: dict[int, bool] = {}
    position = 0
    while position < len(history):
        message = history[position]
        if message.role is Role.TOOL:
            left_out[position] = True
            position += 1
            continue
        if message.role is Role.ASSISTANT and message.tool_calls:
            until = position + 1
            while until < len(history) and history[until].role is Role.TOOL:
                until += 1
            group = _paired(history, position, until)
            left_out |= {index: True for index in range(position, until) if index not in {said.index for said in group}}
            position = until
        else:
            group = _plain(position, message)
            left_out |= {} if group else {position: False}
            position += 1
        if group:
            groups.append(group)
    return groups, left_out


def _plain(index: int, message: Message) -> tuple[Said, ...]:
    """A message without calls, unless there is nothing in it."""
    content = escape(without_surrogates(message.content))
    return (Said(index, Message(message.role, content)),) if content.strip() else ()


def _paired(history: Sequence[Message], start: int, until: int) -> tuple[Said, ...]:
    """The message at `start` with the calls that are answered before `until`, and the first answer of each."""
    asking = history[start]
    results: dict[str, int] = {}
    for index in range(start + 1, until):
        results.setdefault(history[index].tool_call_id, index)
    calls = {call.id: call for call in reversed(asking.tool_calls) if call.id in results}
    answered = tuple(_sendable(call) for call in asking.tool_calls if calls.get(call.id) is call)
    if not answered:
        return _plain(start, asking)
    said = [Said(start, Message(asking.role, escape(without_surrogates(asking.content)), tool_calls=answered))]
    for index in sorted(results[call_id] for call_id in calls):
        text = escape_tool_result(without_surrogates(history[index].content))
        call_id = without_surrogates(history[index].tool_call_id)
        said.append(Said(index, Message(Role.TOOL, text, tool_call_id=call_id)))
    return tuple(said)


def _sendable(call: ToolCall) -> ToolCall:
    return ToolCall(*(without_surrogates(part) for part in (call.id, call.name, call.arguments, call.type)))
