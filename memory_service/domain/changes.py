"""What one transaction does to a user's memories, decided in memory before a row is written.

`Changes` starts from the snapshot read under the head's lock. Every decision sees the ones before it, so that a batch
behaves like its drafts one after the other. It writes nothing: the service does, once, at the end.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from memory_service.domain.active_set import ActiveSet
from memory_service.domain.model import InvalidReason, Memory, Micros


@dataclass(slots=True)
class Changes:
    """The changes so far. `revision` is the version the head will have, and every changed row's etag."""

    current: ActiveSet
    now: Micros
    revision: int
    inserted: dict[str, Memory] = field(default_factory=dict)
    """New rows as they will be written, active or already retired."""
    retired: dict[str, Memory] = field(default_factory=dict)
    """Rows that were active before the transaction, as they are after it."""
    revived: dict[str, Memory] = field(default_factory=dict)
    """Rows that were retired before it and are active after it."""
    amended: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Domain values set in place on rows that were there before: pinned, attributes, expires_at, vector, space."""
    accessed: list[str] = field(default_factory=list)
    """Memories that a draft repeated: their counters grow after the commit."""

    @property
    def visible(self) -> bool:
        """True when a recall can see that something changed: the head's version grows."""
        return bool(self.inserted or self.retired or self.revived or self.amended)

    def memory(self, id: str) -> Memory | None:
        """A memory of the snapshot or of this transaction, as it is now."""
        return self.current.memories.get(id) or self.inserted.get(id) or self.retired.get(id) or self.revived.get(id)

    def insert(self, memory: Memory) -> Memory:
        """Adds a new memory, active or as retired already."""
        memory = replace(memory, revision=self.revision)
        self.inserted[memory.id] = memory
        if memory.active:
            self._apply(memory)
        return memory

    def retire(
        self, id: str, reason: InvalidReason, *, superseded_by: str | None = None, valid_to: Micros | None = None
    ) -> Memory:
        """Ends an active memory."""
        memory = replace(
            self.current.memories[id],
            invalidated_at=self.now,
            invalid_reason=reason,
            superseded_by=superseded_by,
            valid_to=valid_to,
            revision=self.revision,
        )
        self._apply(memory)
        if id in self.inserted:
            self.inserted[id] = memory
        elif id in self.revived:
            del self.revived[id]
        else:
            self.retired[id] = memory
        return memory

    def supersede(self, id: str, successor: Memory) -> Memory:
        """Ends an active memory because `successor` takes its place. It held until the successor began to hold."""
        began = self.current.memories[id].valid_from
        until = successor.valid_from if successor.valid_from > began else self.now
        return self.retire(id, InvalidReason.SUPERSEDED, superseded_by=successor.id, valid_to=until)

    def revive(self, memory: Memory) -> Memory:
        """Brings back a memory that was retired before this transaction."""
        memory = replace(
            memory,
            invalidated_at=None,
            invalid_reason=InvalidReason.NONE,
            superseded_by=None,
            valid_to=None,
            access_count=memory.access_count + 1,
            last_accessed_at=self.now,
            revision=self.revision,
        )
        self.revived[memory.id] = memory
        self._apply(memory)
        return memory

    def amend(self, id: str, values: Mapping[str, Any]) -> Memory:
        """Sets values of an active memory in place."""
        memory = replace(self.current.memories[id], revision=self.revision, **values)
        if id in self.inserted:
            self.inserted[id] = memory
        else:
            self.amended.setdefault(id, {}).update(values)
        self._apply(memory)
        return memory

    def retire_expired(self) -> None:
        """Ends what has expired, so that no decision is made against it."""
        for id, memory in list(self.current.memories.items()):
            if memory.expired(self.now):
                self.retire(id, InvalidReason.EXPIRED, valid_to=memory.expires_at)

    def retire_all(self, ids: Iterable[str], reason: InvalidReason) -> int:
        """Ends many active memories at once, all of them from before this transaction."""
        gone = [
            replace(self.current.memories[id], invalidated_at=self.now, invalid_reason=reason, revision=self.revision)
            for id in ids
        ]
        self.retired.update((memory.id, memory) for memory in gone)
        self.current = self.current.changed(gone, version=self.revision)
        return len(gone)

    def _apply(self, memory: Memory) -> None:
        self.current = self.current.changed([memory], version=self.revision)
