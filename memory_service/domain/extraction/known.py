"""Which of a user's memories the model is shown, and what it may call them.

Short aliases, because models invent and truncate ids. The nearest to the turn come first; what does not fit the budget
is left out, so a contradiction of a far memory may go unseen: the decision table still compares by meaning.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import regex

from memory_service.domain.extraction.model import Known
from memory_service.domain.model import Memory, MemoryType
from memory_service.domain.text import estimate_tokens

MAX_KNOWN: Final = 60
MAX_TOKENS: Final = 2000
MAX_SHOWN: Final = 400
"""Characters of one memory that are shown."""
_LINE_TOKENS: Final = 14
"""What alias and day take."""
_ALIAS: Final = regex.compile(r"\W*(?P<type>FACT|PREFERENCE|PREF|CONTEXT)[-_ ]?(?P<number>\d{1,4})\W*", regex.I)
_UUID: Final = regex.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", regex.I)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def choose(memories: Iterable[Memory], nearness: Mapping[str, float]) -> Known:
    """The memories to show. `nearness` by id, higher is nearer; those it does not name come last, newest first."""
    ordered = sorted(memories, key=lambda m: (-nearness.get(m.id, -2.0), -m.created_at, m.id))
    shown: dict[str, Memory] = {}
    numbers: Counter[MemoryType] = Counter()
    left = MAX_TOKENS
    for memory in ordered:
        left -= estimate_tokens(clipped(memory.content)) + _LINE_TOKENS
        if left < 0 or len(shown) == MAX_KNOWN:
            break
        numbers[memory.type] += 1
        shown[f"{memory.type.name}-{numbers[memory.type]}"] = memory
    return Known(shown)


def clipped(content: str) -> str:
    """A memory as it is shown: one line, not too long."""
    line = " ".join(content.split())
    return line if len(line) <= MAX_SHOWN else f"{line[: MAX_SHOWN - 1]}…"


def lines(known: Known) -> str:
    """The memories as the model reads them: dated statements, one a line."""
    return "\n".join(f"[{alias}] {clipped(m.content)} ({_day(m)})" for alias, m in known.by_alias.items())


def resolve(name: str, known: Known) -> Memory | None:
    """The memory that the model means: an alias that was shown, or the full id of one. Never a prefix of an id: those
    of UUIDv7 are clock times."""
    match = _ALIAS.fullmatch(name)
    if match is not None:
        kind = match["type"].upper().replace("PREFERENCE", "PREF").replace("PREF", "PREFERENCE")
        return known.by_alias.get(f"{kind}-{int(match['number'])}")
    found = _UUID.search(name)
    if found is None:
        return None
    return next((memory for memory in known.by_alias.values() if memory.id == found[0].lower()), None)


def _day(memory: Memory) -> str:
    return (_EPOCH + timedelta(microseconds=memory.happened_at)).date().isoformat()
