"""Access counts on their way to the record."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from memory_service.ports import StoreUnavailable
from memory_service.record import Counters
from memory_service.service.access import AccessLog


class SlowRecord:
    """Takes counts when it is let, or fails when it is told to."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.asked = asyncio.Event()
        self.fails = False
        self.written: list[Mapping[tuple[str, str], Counters]] = []

    async def touch(self, accesses: Mapping[tuple[str, str], Counters]) -> None:
        self.asked.set()
        await self.gate.wait()
        if self.fails:
            raise StoreUnavailable("record", "away")
        self.written.append(accesses)


@pytest.fixture
def record() -> SlowRecord:
    return SlowRecord()


@pytest.fixture
def log(record: SlowRecord) -> AccessLog:
    accesses: Any = record
    return AccessLog(accesses, lambda: 7)


async def test_what_is_being_written_still_counts(log: AccessLog, record: SlowRecord) -> None:
    log.add("ida", ["m1", "m1", "m2"])
    flushing = asyncio.create_task(log.flush())
    await record.asked.wait()
    assert log.waiting("ida", "m1") == Counters(2, 7)
    log.add("ida", ["m1"])
    assert log.waiting("ida", "m1") == Counters(3, 7)
    record.gate.set()
    assert await flushing == 3
    assert log.waiting("ida", "m1") == Counters(0, None)
    assert [dict(batch) for batch in record.written] == [
        {("ida", "m1"): Counters(2, 7), ("ida", "m2"): Counters(1, 7)},
        {("ida", "m1"): Counters(1, 7)},
    ]


async def test_what_could_not_be_written_waits_on_and_counts_once(log: AccessLog, record: SlowRecord) -> None:
    record.fails = True
    record.gate.set()
    log.add("ida", ["m1"])
    assert await log.flush() == 0
    assert log.waiting("ida", "m1") == Counters(1, 7)


async def test_a_flush_that_is_cancelled_loses_nothing(log: AccessLog, record: SlowRecord) -> None:
    log.add("ida", ["m1"])
    flushing = asyncio.create_task(log.flush())
    await record.asked.wait()
    flushing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flushing
    assert log.waiting("ida", "m1") == Counters(1, 7)
