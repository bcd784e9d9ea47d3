"""The one way to write a user's memories.

Queue the user's writers in this process, read the head, take it in a transaction, bring the active set up to its
version, let the use case decide on `Changes`, write them once, commit. Then the caches are told and the outbox worker
is woken. The commit is the promise: what fails before it wrote nothing, what fails after it is derived and mends
itself.
"""

import asyncio
import contextlib
import hmac
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from memory_service.conversation_ports import ExtractionJob
from memory_service.domain.changes import Changes
from memory_service.domain.conversation import Extracted
from memory_service.domain.model import Head, Memory
from memory_service.ports import Clock
from memory_service.record import DuplicateContent, Record, Remembered, Retirement, UserWrite
from memory_service.service.access import AccessLog
from memory_service.service.active import ActiveSets
from memory_service.service.calls import Caller, Freshness, Mutation, request_reused
from memory_service.service.turns import seal_outcome
from memory_service.service.vault import Keyring, UserKey, open_memory, seal_attributes, seal_memory, seal_vector
from shared.errors import Aborted
from shared.failpoints import reach

log = logging.getLogger(__name__)

ATTEMPTS = 4
"""Times a write begins anew because the head was moved between its reading and its taking."""


class HeadMoved(Exception):
    """The head under the lock is of another generation or embedding space than the one that was prepared for."""


class ExtractionLost(Exception):
    """The claim on an extraction is lost: its result must not be written."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a write answered: ids and codes only, so that it can be remembered, and the memories it names.

    `memories` are as they are now; a repeat reads them from the record.
    """

    outcome: Mapping[str, Any]
    memories: Mapping[str, Memory]
    freshness: Freshness
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Sentences for people by place in the outcome; they may quote a value, so they are not remembered."""


class Transaction:
    """What a use case sees of the transaction it decides in."""

    def __init__(self, tx: UserWrite, key: UserKey, changes: Changes) -> None:
        self._tx = tx
        self.key = key
        self.changes = changes
        self._counters: Mapping[str, Any] | None = None
        self.reasons: dict[int, str] = {}
        self.extra: dict[str, Memory] = {}
        """Memories to answer that the changes do not know: retired before, and left as they are."""

    @property
    def space(self) -> str:
        """The embedding space the user's vectors are in."""
        return self._tx.head.space

    async def load(self, id: str) -> Memory | None:
        """One memory, active or retired, as it is now."""
        known = self.changes.memory(id)
        if known is not None:
            return known
        rows = await self._tx.rows([id])
        return open_memory(self.key, rows[0]) if rows else None

    async def finish_extraction(
        self, job: ExtractionJob, extracted: Extracted, prompt_version: str, model: str
    ) -> None:
        """Makes the claimed extraction DONE together with what the plan changes. ExtractionLost: another worker has it,
        or its session was deleted; the plan must not catch that, so that nothing is written."""
        sealed = seal_outcome(self.key, job.position, extracted)
        if not await self._tx.finish_extraction(job.position, job.lease, sealed, prompt_version, model):
            raise ExtractionLost

    async def counters(self) -> Mapping[str, Any]:
        """Access counters of the rows that were active when the transaction began; read once."""
        if self._counters is None:
            self._counters = await self._tx.counters()
        return self._counters


Plan = Callable[[Transaction], Awaitable[Mapping[str, Any]]]
"""Decides, notes changes, and answers the outcome: JSON of ids and codes; the key "memories" lists ids to answer."""


class Writer:
    """Runs plans, one at a time per user and process."""

    def __init__(
        self,
        *,
        record: Record,
        keyring: Keyring,
        active: ActiveSets,
        access: AccessLog,
        clock: Clock,
        wake: Callable[[], None],
        indexed: bool,
    ) -> None:
        self._record = record
        self._keyring = keyring
        self._active = active
        self._access = access
        self._clock = clock
        self._wake = wake
        self._indexed = indexed
        self._queues: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def turn(self, user_id: str) -> AsyncIterator[None]:
        """This user's turn in this process: taken before a connection, so that one user cannot drain the pool."""
        queue = self._queues.setdefault(user_id, asyncio.Lock())
        async with queue:
            yield

    async def run(
        self,
        caller: Caller,
        call: Mutation,
        plan: Plan,
        *,
        new_in: str,
        prepared_for: str | None = None,
        head: Head | None = None,
    ) -> Written:
        """Runs a plan for the caller; `new_in` is the embedding space a new user begins in.

        `head` is the user's head where the caller has read it already; it may be old by now. Raises HeadMoved when the
        user's space is not `prepared_for` (None = the plan brings no vector), and whatever the plan raises; nothing is
        written then.
        """
        async with self.turn(caller.user_id):
            for _ in range(ATTEMPTS):
                proposal = head or await self._proposal(caller.user_id, new_in)
                head = None
                key = await self._keyring.get(caller.user_id, proposal.generation)
                try:
                    return await self._attempt(proposal, key, _within_rights(caller, call), plan, prepared_for)
                except (_GenerationMoved, DuplicateContent) as error:
                    log.info("a write begins anew: %s", type(error).__name__)
        raise Aborted("Other writers were faster every time; try again.", reason="LOST_RACE")

    async def beside(
        self,
        caller: Caller,
        call: Mutation,
        work: Callable[[UserWrite, UserKey], Awaitable[Mapping[str, Any]]],
        *,
        new_in: str,
    ) -> Mapping[str, Any]:
        """Runs a write that decides on no memory, in the same queue and under the same head; answers its outcome (ids
        and codes), or the one of the call that had this request id before."""
        async with self.turn(caller.user_id):
            for _ in range(ATTEMPTS):
                proposal = await self._proposal(caller.user_id, new_in)
                key = await self._keyring.get(caller.user_id, proposal.generation)
                try:
                    return await self._record.write(proposal, partial(_beside, key=key, call=call, work=work))
                except _GenerationMoved:
                    log.info("a write begins anew: the generation moved")
        raise Aborted("Other writers were faster every time; try again.", reason="LOST_RACE")

    async def _proposal(self, user_id: str, space: str) -> Head:
        head = await self._record.head(user_id)
        if head is not None:
            return head
        key = await self._keyring.create(user_id)
        return Head(user_id, key.generation, 0, space, 0)

    async def _attempt(
        self, proposal: Head, key: UserKey, call: Mutation, plan: Plan, prepared_for: str | None
    ) -> Written:
        arguments = key.hmac(call.rpc, call.arguments)

        async def work(tx: UserWrite) -> tuple[Written, Changes | None]:
            head = tx.head
            if head.generation != key.generation:
                raise _GenerationMoved
            await reach("write.taken")
            if call.request_id:
                known = await tx.recall_outcome(call.rpc, call.request_id)
                if known is not None:
                    return await self._repeat(tx, key, known, arguments), None
            if prepared_for is not None and head.space != prepared_for:
                raise HeadMoved
            active = await self._active.under_lock(head, key, tx.active_rows)
            changes = Changes(active, self._clock(), head.version + 1)
            changes.retire_expired()
            transaction = Transaction(tx, key, changes)
            outcome = await plan(transaction)
            await reach("write.decided")
            await self._flush(tx, key, changes)
            if call.request_id:
                await tx.remember_outcome(call.rpc, call.request_id, Remembered(arguments, outcome))
            version = changes.revision if changes.visible else head.version
            memories = await self._named(tx, transaction, outcome.get("memories", ()))
            freshness = Freshness(head.generation, version)
            return Written(outcome, memories, freshness, transaction.reasons), changes

        written, changes = await self._record.write(proposal, work)
        await reach("write.committed")
        if changes is not None:
            await self._committed(proposal.user_id, changes, written.freshness.version)
        return written

    async def _named(self, tx: UserWrite, transaction: Transaction, ids: Sequence[str]) -> dict[str, Memory]:
        """The memories to answer, as they are now; counters are the record's, an active set's may be old."""
        changes = transaction.changes
        found = {id: changes.memory(id) or transaction.extra.get(id) for id in ids}
        memories = {id: memory for id, memory in found.items() if memory is not None}
        for row in await tx.rows([id for id in memories if id not in changes.inserted]):
            memories[row.id] = replace(
                memories[row.id], access_count=row.access_count, last_accessed_at=row.last_accessed_at
            )
        return memories

    async def _repeat(self, tx: UserWrite, key: UserKey, known: Remembered, arguments: bytes) -> Written:
        if not hmac.compare_digest(known.args_hmac, arguments):
            raise request_reused()
        rows = await tx.rows(list(known.outcome.get("memories", ())))
        memories = {row.id: open_memory(key, row) for row in rows}
        return Written(known.outcome, memories, Freshness(tx.head.generation, tx.head.version))

    async def _flush(self, tx: UserWrite, key: UserKey, changes: Changes) -> None:
        """Writes the changes: retirements first, since the text of a retired row may be saved again."""
        if not changes.visible:
            return
        await tx.retire([_retirement(memory) for memory in changes.retired.values()], changes.revision)
        await reach("write.retired")
        await tx.insert([seal_memory(key, memory) for memory in changes.inserted.values()])
        await reach("write.inserted")
        for memory in changes.revived.values():
            await tx.revive(memory.id, changes.revision, changes.now)
            if memory.vector is not None:
                await tx.amend(memory.id, changes.revision, seal_vector(key, memory))
        for id, values in changes.amended.items():
            await tx.amend(id, changes.revision, _columns(key, id, values, changes))
        await tx.enqueue(self._to_index(changes))
        await reach("write.enqueued")
        await tx.set_head(version=changes.revision)
        await reach("write.versioned")

    def _to_index(self, changes: Changes) -> list[str]:
        """Rows whose vectors the index must take over, and rows that have none yet."""
        embedded = [id for id, values in changes.amended.items() if "vector" in values]
        moved = {id: changes.memory(id) for id in [*changes.inserted, *changes.revived, *changes.retired, *embedded]}
        return [id for id, m in moved.items() if m and (self._indexed or (m.active and m.vector is None))]

    async def _committed(self, user_id: str, changes: Changes, version: int) -> None:
        self._access.add(user_id, changes.accessed)
        if not changes.visible:
            return
        self._active.put(user_id, changes.current.changed([], version=version))
        if self._to_index(changes):
            self._wake()
        await self._active.changed(user_id)
        await reach("write.told")


async def _beside(
    tx: UserWrite,
    *,
    key: UserKey,
    call: Mutation,
    work: Callable[[UserWrite, UserKey], Awaitable[Mapping[str, Any]]],
) -> Mapping[str, Any]:
    if tx.head.generation != key.generation:
        raise _GenerationMoved
    if not call.request_id:
        return await work(tx, key)
    arguments = key.hmac(call.rpc, call.arguments)
    known = await tx.recall_outcome(call.rpc, call.request_id)
    if known is not None:
        if not hmac.compare_digest(known.args_hmac, arguments):
            raise request_reused()
        return known.outcome
    outcome = await work(tx, key)
    await tx.remember_outcome(call.rpc, call.request_id, Remembered(arguments, outcome))
    return outcome


def _within_rights(caller: Caller, call: Mutation) -> Mutation:
    """The call, its arguments bound to the shards it may see: a repeat under other rights is another call, so that it
    cannot be answered what only the first caller may see."""
    if caller.shards is None or not call.request_id:
        return call
    rights = ",".join(sorted(shard.name for shard in caller.shards))
    return replace(call, arguments=f"shards {rights};".encode() + call.arguments)


class _GenerationMoved(Exception):
    """The user's memories were destroyed, or made by another process, between reading and taking the head."""


def _retirement(memory: Memory) -> Retirement:
    return Retirement(
        id=memory.id,
        reason=memory.invalid_reason,
        at=memory.invalidated_at or 0,
        superseded_by=memory.superseded_by,
        valid_to=memory.valid_to,
    )


def _columns(key: UserKey, id: str, values: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    """Columns for values of the domain, on a row that the same transaction may have retired since."""
    columns = dict(values)
    if "attributes" in columns:
        columns["attributes"] = seal_attributes(key, id, columns["attributes"])
    if "vector" in columns and (memory := changes.memory(id)):
        del columns["vector"], columns["space"]
        columns |= seal_vector(key, memory)
    return columns
