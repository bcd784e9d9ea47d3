"""How much of a history fits: the newest turns whole, the last one cut if need be.

Owns the order in which turns are tried. What is kept is always the end of the conversation without a hole; within the
oldest turn that is kept, tool calls give way before words, oldest first. A larger room never keeps less.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assembler_service.domain.cutting import cut_head, cut_tail
from assembler_service.domain.layout import Words, tool_calls_json
from assembler_service.domain.model import MESSAGE_TOKENS, CountTokens, Message, Role
from assembler_service.domain.turns import Said, Turn, is_tool_group

_USER_SHARE = 0.35
"""Of a last turn that must be cut, what the user's words get at most where the answer needs the rest."""


def message_tokens(message: Message, count: CountTokens) -> int:
    """Tokens of one message with its overhead: what is said, its calls as they are sent, the call it answers."""
    total = MESSAGE_TOKENS + count(message.content)
    if message.tool_calls:
        total += count(tool_calls_json(message.tool_calls))
    if message.tool_call_id:
        total += count(message.tool_call_id)
    return total


def turn_tokens(turn: Turn, count: CountTokens) -> int:
    """Tokens of all messages of a turn."""
    return sum(message_tokens(said.message, count) for said in turn.said)


@dataclass(frozen=True, slots=True)
class Fit:
    """The turns that fit, oldest first, and their tokens."""

    turns: tuple[Turn, ...] = ()
    tokens: int = 0


def fit_turns(turns: Sequence[Turn], room: int, frame: Words, count: CountTokens) -> Fit:
    """The newest of `turns` that fit into `room`; the last one is cut if it does not fit whole, then it is alone."""
    kept: list[Turn] = []
    used = 0
    for turn in reversed(turns):
        fitting = _largest(turn, room - used, count)
        if fitting is None and not kept:
            fitting = cut_turn(turn, room, frame, count)
        if fitting is None:
            break
        kept.append(fitting)
        used += turn_tokens(fitting, count)
        if fitting is not turn:
            break
    return Fit(tuple(reversed(kept)), used)


def _largest(turn: Turn, room: int, count: CountTokens) -> Turn | None:
    """The turn with as many of its newest tool groups as fit; its words are always whole. None = they do not fit."""
    cost = turn_tokens(turn, count)
    if cost <= room:
        return turn
    keep = turn.tool_groups
    for group in turn.groups:
        if is_tool_group(group):
            cost -= turn_tokens(Turn((group,)), count)
            keep -= 1
            if cost <= room:
                smaller = turn.with_tool_groups(keep)
                return smaller if smaller.groups and smaller.groups[0][0].message.role is Role.USER else None
    return None


def cut_turn(turn: Turn, room: int, frame: Words, count: CountTokens) -> Turn | None:
    """The user's last words of a turn (their beginning) and the last answer (its end: what "yes, the second one" refers
    to), cut at sentences to fit into `room` together; None = nothing fits.
    """
    plain = [group[0] for group in turn.groups if not is_tool_group(group)]
    asked = next((said for said in reversed(plain) if said.message.role is Role.USER), None)
    answered = next((said for said in reversed(plain) if said.message.role is Role.ASSISTANT), None)
    if asked is None:
        whole = None if answered is None else _shorter(answered, room - MESSAGE_TOKENS, frame, count)
        return Turn(((whole,),)) if whole else None
    left = room - MESSAGE_TOKENS
    if answered is None or answered.index < asked.index:
        asked = _shorter(asked, left, frame, count)
        return Turn(((asked,),)) if asked else None
    left -= MESSAGE_TOKENS
    share = max(int(left * _USER_SHARE), left - count(answered.message.content))
    shorter = _shorter(asked, share, frame, count)
    if shorter is None:
        return None
    answer = _shorter(answered, left - count(shorter.message.content), frame, count)
    return Turn(((shorter,), (answer,))) if answer else Turn(((shorter,),))


def _shorter(said: Said, room: int, frame: Words, count: CountTokens) -> Said | None:
    """A message that fits: the user's words lose their end, an answer its beginning."""
    text = said.message.content
    if count(text) <= room:
        return said
    if said.message.role is Role.USER:
        piece = cut_head(text, room, lambda part: count(part + frame.cut))
        text = "" if piece is None else piece + frame.cut
    else:
        piece = cut_tail(text, room, lambda part: count(frame.cut_before + part))
        text = "" if piece is None else frame.cut_before + piece
    return Said(said.index, Message(said.message.role, text)) if text else None
