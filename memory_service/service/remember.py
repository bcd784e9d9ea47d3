"""Saving: clean, embed, decide, write. One draft or a batch, through the same door."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from uuid_utils import uuid7

from memory_service.domain.cleaning import filter_rule
from memory_service.domain.eviction import EvictionView
from memory_service.domain.keywords import tokens
from memory_service.domain.model import Memory, Outcome, ReasonCode, Vector
from memory_service.domain.saving import (
    Draft,
    NotActive,
    Prepared,
    SavingPolicy,
    Verdict,
    event_key,
    evict,
    save,
    time_slice,
)
from memory_service.domain.text import normalise
from memory_service.ports import Clock, StoreUnavailable
from memory_service.record import Record
from memory_service.service.access import AccessLog
from memory_service.service.calls import Caller, Freshness, Mutation
from memory_service.service.embedding import Embeddings
from memory_service.service.stores import Stores, in_time
from memory_service.service.tunables import LiveTunables
from memory_service.service.vault import UserKey
from memory_service.service.writer import HeadMoved, Transaction, Writer, Written
from shared.errors import Aborted, FailedPrecondition, NotFound

log = logging.getLogger(__name__)

LONG_TEXTS = 4000
"""Characters from which on reading the words is left to a thread: about 10 ms of work."""

_FILTER_REASONS = {
    ReasonCode.SLASH_COMMAND: "Filtered: the whole message is a slash command.",
    ReasonCode.SPECIAL_TOKENS: "Filtered: the message is residue of a model's special tokens.",
    ReasonCode.EMOJI_ONLY: "Filtered: nothing but emoji.",
    ReasonCode.PUNCTUATION_ONLY: "Filtered: nothing but white space and punctuation.",
    ReasonCode.ERROR_DUMP: "Filtered: a stack trace or an error dump.",
    ReasonCode.MOJIBAKE: "Filtered: text that was decoded with the wrong character set.",
    ReasonCode.ECHO: "Filtered: recalled memories or a system prompt echoed back.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What became of one draft."""

    outcome: Outcome
    code: ReasonCode
    reason: str
    memory: Memory | None = None
    matched_id: str = ""
    superseded_ids: tuple[str, ...] = ()
    evicted_ids: tuple[str, ...] = ()
    similarity: float | None = None
    index_pending: bool = False


class Remember:
    """SaveMemory and BatchSaveMemories."""

    def __init__(
        self,
        *,
        record: Record,
        writer: Writer,
        embeddings: Embeddings,
        tunables: LiveTunables,
        access: AccessLog,
        stores: Stores,
        clock: Clock,
        home: tzinfo,
    ) -> None:
        self._record = record
        self._writer = writer
        self._embeddings = embeddings
        self._tunables = tunables
        self._access = access
        self._stores = stores
        self._clock = clock
        self._home = home

    async def save(self, caller: Caller, drafts: Sequence[Draft], call: Mutation) -> tuple[list[Saved], Freshness]:
        """Saves drafts in order, in one transaction. Errors: NotFound, FailedPrecondition (`supersedes`), Aborted."""
        rules = [filter_rule(draft.content) for draft in drafts]
        wanted = [draft for draft, rule in zip(drafts, rules, strict=True) if rule is None]
        if not wanted and not call.request_id:
            head = await self._record.head(caller.user_id)
            freshness = Freshness(head.generation, head.version) if head else Freshness("", 0)
            return [_filtered(rule) for rule in rules if rule is not None], freshness
        head = await self._record.head(caller.user_id)
        space = head.space if head else self._embeddings.current
        for _ in range(3):
            vectors = await self.embed(space, [draft.content for draft in wanted])
            plan = _SavePlan(self, caller, list(zip(drafts, rules, strict=True)), vectors, space)
            try:
                written = await self._writer.run(caller, call, plan, new_in=space, prepared_for=space, head=head)
            except HeadMoved:
                head = await self._record.head(caller.user_id)
                space = head.space if head else self._embeddings.current
                continue
            pending = self._stores.index_down or any(vector is None for vector in vectors)
            return self._answers(written, pending), written.freshness
        raise Aborted("The embedding model is being changed; try again.", reason="SPACE_MOVED")

    async def embed(self, space: str, texts: Sequence[str]) -> list[Vector | None]:
        """Vectors of texts to remember; None for all of them while the model is away."""
        if not texts:
            return []
        await _read_ahead(texts)
        try:
            return list(await in_time("embedding", self._embeddings.passages(space, texts)))
        except StoreUnavailable as error:
            log.warning("stored without vectors: %s", error)
            return [None] * len(texts)

    def policy(self, caller: Caller, space: str) -> SavingPolicy:
        """Thresholds and caps of this moment."""
        return self._tunables.now.saving(self._embeddings.space(space), caller.shards)

    def prepare(self, draft: Draft, vector: Vector | None, space: str, key: UserKey, now: int) -> Prepared:
        """A draft as the memory it may become."""
        at = now if draft.occurred_at is None else draft.occurred_at
        event = event_key(draft.shard, draft.occurred_at, now, draft.zone, self._home)
        memory = Memory(
            id=str(uuid7()),
            type=draft.type,
            shard=draft.shard,
            content=draft.content,
            created_at=now,
            valid_from=at,
            content_hash=self.content_hash(key, draft, event),
            revision=0,
            event_key=event,
            time_slice=time_slice(draft.shard, at, self._home),
            attributes=draft.attributes,
            source=draft.source,
            occurred_at=draft.occurred_at,
            pinned=draft.pinned,
            expires_at=draft.expires_at,
            space=space if vector is not None else None,
            vector=vector,
        )
        return Prepared(memory, self._embeddings.cuts(space, draft.content), draft.supersedes)

    def check_pins(self, tx: Transaction) -> None:
        """Pins are never evicted, so they may not grow beyond the cap: FailedPrecondition when they did."""
        cap = self._tunables.now.eviction.max_active
        pinned = sum(memory.pinned for memory in tx.changes.current.memories.values())
        if pinned > cap:
            raise FailedPrecondition(
                f"This would be pinned memory number {pinned}, and no more than {cap} may be: unpin one first.",
                reason="TOO_MANY_PINNED",
            )

    def content_hash(self, key: UserKey, draft: Draft, event: str) -> bytes:
        """What the UNIQUE constraint compares."""
        return key.content_hmac(draft.type, draft.shard, normalise(draft.content), event)

    async def evict(self, caller: Caller, tx: Transaction, policy: SavingPolicy, keep: str | None) -> list[str]:
        """Ends what is above the cap, counting the accesses that were not written yet. Never `keep`: what the call, or
        this draft of it, answers. Earlier drafts of a batch may go, as if they had been saved one by one."""
        if len(tx.changes.current) <= policy.max_active:
            return []
        counters = await tx.counters()
        views = []
        for memory in tx.changes.current.memories.values():
            if not caller.sees(memory.shard):
                continue
            stored, waiting = counters.get(memory.id), self._access.waiting(caller.user_id, memory.id)
            last = max((stored.last or 0) if stored else 0, waiting.last or 0, memory.last_accessed_at or 0)
            count = (stored.count if stored else 0) + waiting.count
            views.append(EvictionView(memory.id, memory.created_at, last or None, count, memory.pinned))
        return evict(tx.changes, views, policy, frozenset({keep} if keep else ()))

    def _answers(self, written: Written, pending: bool) -> list[Saved]:
        answers: list[Saved] = []
        for line in written.outcome["results"]:
            code = ReasonCode(line["code"])
            answers.append(
                Saved(
                    outcome=Outcome(line["outcome"]),
                    code=code,
                    reason=written.reasons.get(len(answers)) or _repeated_reason(code),
                    memory=written.memories.get(line["memory"]),
                    matched_id=line["matched"],
                    superseded_ids=tuple(line["superseded"]),
                    evicted_ids=tuple(line["evicted"]),
                    similarity=line["similarity"],
                    index_pending=pending and line["outcome"] in (Outcome.ADDED, Outcome.REPLACED),
                )
            )
        return answers


class _SavePlan:
    """The plan of one call: callable with a transaction, and again after a deadlock."""

    def __init__(
        self,
        use: Remember,
        caller: Caller,
        drafts: Sequence[tuple[Draft, ReasonCode | None]],
        vectors: Sequence[Vector | None],
        space: str,
    ) -> None:
        self._use = use
        self._caller = caller
        self._drafts = drafts
        self._vectors = vectors
        self._space = space

    async def __call__(self, tx: Transaction) -> Mapping[str, Any]:
        policy = self._use.policy(self._caller, self._space)
        vectors = iter(self._vectors)
        lines: list[Mapping[str, Any]] = []
        for number, (draft, rule) in enumerate(self._drafts):
            if rule is not None:
                lines.append(_line(Verdict(outcome=Outcome.FILTERED, code=rule, reason=""), []))
                continue
            prepared = self._use.prepare(draft, next(vectors), self._space, tx.key, tx.changes.now)
            field = "supersedes" if len(self._drafts) == 1 else f"drafts[{number}].supersedes"
            await self._check(tx, draft.supersedes, field)
            try:
                verdict = save(tx.changes, prepared, policy)
            except NotActive as error:
                raise not_active(error.memory_id, error.superseded_by) from error
            if draft.pinned and verdict.memory_id in tx.changes.inserted:
                self._use.check_pins(tx)
            evicted = await self._use.evict(self._caller, tx, policy, verdict.memory_id)
            lines.append(_line(verdict, evicted))
            tx.reasons[number] = verdict.reason
        return {"results": lines, "memories": [line["memory"] for line in lines if line["memory"]]}

    async def _check(self, tx: Transaction, ids: Sequence[str], field: str) -> None:
        """Every memory to supersede must be the caller's own and active."""
        for number, id in enumerate(ids):
            memory = await tx.load(id)
            if memory is None or not self._caller.sees(memory.shard):
                raise NotFound(f"{field}[{number}]: there is no memory {id}.", reason="MEMORY_NOT_FOUND")
            if not memory.active:
                raise not_active(id, memory.superseded_by)


async def _read_ahead(texts: Sequence[str]) -> None:
    """Finds the words of the texts now, so that the time it takes is not spent while the user's head is held."""
    if sum(map(len, texts)) > LONG_TEXTS:
        await asyncio.to_thread(lambda: [tokens(text) for text in texts])
    else:
        for text in texts:
            tokens(text)


def not_active(id: str, superseded_by: str | None) -> FailedPrecondition:
    """The error for a change of a memory that was retired."""
    by = f"; memory {superseded_by} took its place" if superseded_by else ""
    return FailedPrecondition(
        f"Memory {id} is not active any more{by}.",
        reason="MEMORY_NOT_ACTIVE",
        metadata={"superseded_by": superseded_by} if superseded_by else {},
    )


def _line(verdict: Verdict, evicted: Sequence[str]) -> dict[str, Any]:
    """A verdict as it is remembered: ids and codes."""
    return {
        "outcome": int(verdict.outcome),
        "code": int(verdict.code),
        "memory": verdict.memory_id or "",
        "matched": verdict.matched_id or "",
        "superseded": list(verdict.superseded_ids),
        "evicted": list(evicted),
        "similarity": verdict.similarity,
    }


def _filtered(rule: ReasonCode) -> Saved:
    return Saved(outcome=Outcome.FILTERED, code=rule, reason=_FILTER_REASONS[rule])


def _repeated_reason(code: ReasonCode) -> str:
    return _FILTER_REASONS.get(code) or f"As answered before to this request_id ({code.name})."
