"""Conditions on a memory's attributes.

Owns what each condition means and the three ways a memory can stand to them. Refuses to filter: whether one that lacks
an attribute is left out (`strict`) or comes last is the caller's question.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Final, TypeAlias

import regex

from memory_service.domain.model import Micros

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NUMBER: Final = regex.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MONTH: Final = regex.compile(r"[0-9]{4}-[0-9]{2}")
_DATE_OR_TIME: Final = regex.compile(r"[0-9]{4}[0-9W-]+(?:[T ][0-9:.,]+(?:Z|[+-][0-9:]+)?)?")


class Match(Enum):
    """How a memory stands to conditions: all hold; none fails but an attribute is absent; one fails."""

    MATCH = 1
    LACKS = 2
    MISMATCH = 3


@dataclass(frozen=True, slots=True)
class Equals:
    """The value is exactly this text."""

    value: str

    def holds(self, text: str) -> bool:
        """True when it is."""
        return text == self.value


@dataclass(frozen=True, slots=True)
class In:
    """The value is one of these texts."""

    values: frozenset[str]

    def holds(self, text: str) -> bool:
        """True when it is."""
        return text in self.values


@dataclass(frozen=True, slots=True)
class Number:
    """The value is a number in [min, max]; None = no bound. What is no finite decimal number does not match."""

    min: float | None = None
    max: float | None = None

    def holds(self, text: str) -> bool:
        """True when it is."""
        number = parse_number(text)
        return (
            number is not None and (self.min is None or number >= self.min) and (self.max is None or number <= self.max)
        )


@dataclass(frozen=True, slots=True)
class Time:
    """The value is an ISO 8601 date or time in [start, end), microseconds; None = no bound. Else it does not match."""

    start: Micros | None = None
    end: Micros | None = None

    def holds(self, text: str) -> bool:
        """True when it is."""
        time = parse_time(text)
        return time is not None and (self.start is None or time >= self.start) and (self.end is None or time < self.end)


Test: TypeAlias = Equals | In | Number | Time


@dataclass(frozen=True, slots=True)
class AttributeFilter:
    """A condition on the attribute `key`."""

    key: str
    test: Test


def matches(filters: Sequence[AttributeFilter], attributes: Mapping[str, str]) -> Match:
    """How a memory with these attributes stands to all of the conditions; no condition = MATCH."""
    lacking = False
    for condition in filters:
        value = attributes.get(condition.key)
        if value is None:
            lacking = True
        elif not condition.test.holds(value):
            return Match.MISMATCH
    return Match.LACKS if lacking else Match.MATCH


def parse_number(text: str) -> float | None:
    """A finite decimal number, blanks around it allowed; None for anything else (`nan`, `1_000`, `12 kg`)."""
    stripped = text.strip()
    if not _NUMBER.fullmatch(stripped):
        return None
    number = float(stripped)
    return number if math.isfinite(number) else None


def parse_time(text: str) -> Micros | None:
    """Microseconds of an ISO 8601 date, month or time; a date means its first instant, without a zone UTC."""
    stripped = text.strip()
    if _MONTH.fullmatch(stripped):
        stripped += "-01"
    if not _DATE_OR_TIME.fullmatch(stripped):
        return None
    try:
        moment = datetime.fromisoformat(stripped)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND
