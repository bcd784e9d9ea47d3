"""What one extraction writes: drafts through the door of SaveMemory, and the end of its job, in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_service.conversation_ports import ExtractionJob
from memory_service.domain.conversation import Extracted, ExtractedItem
from memory_service.domain.extraction.model import Finding, Judged, Refused, Turn
from memory_service.domain.model import Source, Vector
from memory_service.domain.person import other_person
from memory_service.domain.provenance import fitted
from memory_service.domain.saving import Draft, SavingPolicy, Verdict, save
from memory_service.service.calls import Caller
from memory_service.service.remember import Remember
from memory_service.service.writer import ExtractionLost, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionPlan:
    """The plan of one turn: callable with a transaction, and again after a deadlock."""

    remember: Remember
    job: ExtractionJob
    turn: Turn
    judged: Sequence[Judged]
    vectors: Mapping[str, Vector]
    """By text: of every finding, and of its form in the other person."""
    space: str
    prompt_version: str
    model: str

    async def __call__(self, tx: Transaction) -> Mapping[str, Any]:
        if tx.key.generation != self.job.generation:
            raise ExtractionLost
        caller = Caller(self.job.user_id)
        policy = replace(self.remember.policy(caller, self.space), across_types=True)
        items = []
        for each in self.judged:
            if each.finding is None:
                items.append(_refused(each))
                continue
            verdict = self._save(tx, each.finding, policy)
            await self.remember.evict(caller, tx, policy, verdict.memory_id)
            items.append(_saved(each, verdict))
        await tx.finish_extraction(self.job, Extracted(tuple(items)), self.prompt_version, self.model)
        return {}

    def _save(self, tx: Transaction, finding: Finding, policy: SavingPolicy) -> Verdict:
        """Through the same door as SaveMemory. A memory that was retired since the model saw it is left alone."""
        present = tx.changes.current.memories
        draft = Draft(
            type=finding.type,
            content=finding.content,
            shard=finding.shard,
            attributes=finding.attributes,
            source=fitted(
                Source(self.turn.session_id, finding.message_id, finding.quote, finding.role, self.turn.channel)
            ),
            occurred_at=finding.occurred_at,
            zone=self.turn.zone,
            supersedes=tuple(id for id in finding.supersedes if id in present),
        )
        # As old as its turn: what was said since is newer, however late the turn is extracted.
        prepared = self.remember.prepare(
            draft, self.vectors[finding.content], self.space, tx.key, self.turn.received_at
        )
        return save(
            tx.changes,
            replace(
                prepared,
                newer=tuple(id for id in finding.newer if id in present),
                other=self.vectors.get(other_person(finding.content) or ""),
            ),
            policy,
        )


def _refused(each: Judged) -> ExtractedItem:
    why = "" if each.refused in (None, Refused.NOOP) else str(each.refused)
    return ExtractedItem(
        action=each.item.action.value, type=each.item.type, rationale=each.item.rationale[:500], refused=why
    )


def _saved(each: Judged, verdict: Verdict) -> ExtractedItem:
    return ExtractedItem(
        action=each.item.action.value,
        type=each.item.type,
        outcome=verdict.outcome,
        code=verdict.code,
        memory_id=verdict.memory_id or "",
        superseded_ids=verdict.superseded_ids,
        rationale=each.item.rationale[:500],
    )
