"""What is kept of where a memory came from, within its 500 bytes."""

from dataclasses import replace

from memory_service.domain.model import Source

MAX_BYTES = 500


def fitted(source: Source) -> Source:
    """The source within 500 bytes of UTF-8: where it is larger, first the channel and then the quote is left out."""
    for smaller in (source, replace(source, channel=""), replace(source, channel="", quote="")):
        if _size(smaller) <= MAX_BYTES:
            return smaller
    return replace(source, channel="", quote="")


def _size(source: Source) -> int:
    parts = (source.session_id, source.message_id, source.quote, source.role, source.channel)
    return sum(len(part.encode()) for part in parts)
