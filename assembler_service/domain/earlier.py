"""The stored summary of what came before a history: how much room a summary has, and the stored one made to fit it.

Owns that room and the cut. Refuses to decide whether a new summary is wanted (`assemble`).
"""

from typing import Final

from assembler_service.domain.cutting import cut_head
from assembler_service.domain.layout import Words, summary_piece
from assembler_service.domain.model import SUMMARY_SHARE, CountTokens, HistoryStrategy, Options
from assembler_service.domain.plan import PlacedSummary
from assembler_service.domain.prepared import Prepared

SUMMARY_MIN: Final = 40
"""Tokens below which a summary is not worth a call, nor a stored one worth cutting."""


def summary_cap(options: Options, room: int) -> int:
    """Tokens a summary may have, without its heading: its own limit, or its share of the history's room."""
    return min(options.summary_max_tokens, int(room * SUMMARY_SHARE))


def summary_heading(frame: Words, count: CountTokens) -> int:
    """Tokens of what stands around a summary."""
    return count(summary_piece("", frame))


def stored_summary(prepared: Prepared, room: int, count: CountTokens) -> PlacedSummary | None:
    """The stored summary, whole or cut at a sentence; None = there is none, it has no room, or none is wanted."""
    text, options, frame = prepared.earlier_text, prepared.options, prepared.frame
    if not text or options.history_strategy is HistoryStrategy.TRUNCATE:
        return None
    cap = summary_cap(options, room)
    if count(text) > cap:
        kept = cut_head(text, cap, lambda part: count(part + frame.cut), SUMMARY_MIN)
        if kept is None:
            return None
        text = kept + frame.cut
    return PlacedSummary(summary_piece(text, frame), 0, stored=True)
