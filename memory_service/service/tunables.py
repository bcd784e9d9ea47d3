"""The settings that change at run time: their present values on this replica, and how they are changed.

The deployment gives the defaults; what AdminService changed is in the record, and every replica looks there every few
seconds. Nothing that names an address, a credential, a file or who may call is among them.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from memory_service.domain.dedup import DedupPolicy
from memory_service.domain.model import Shard
from memory_service.domain.ranking import RankingPolicy
from memory_service.domain.saving import SavingPolicy
from memory_service.domain.space import EmbeddingSpace
from memory_service.ports import Clock
from memory_service.record import EtagMismatch, RequestReused, SettingStore
from memory_service.service.calls import request_reused
from memory_service.settings import (
    DedupSettings,
    EvictionSettings,
    ExtractionSettings,
    MemorySettings,
    RecallSettings,
    RetentionSettings,
)
from shared.errors import Aborted, InvalidArgument, Violation

log = logging.getLogger(__name__)

HOUR, DAY = 3600 * 1_000_000, 86_400 * 1_000_000
KEYWORD_ALONE = 0.20
"""Keyword floor while the embedding model is away: 22 % right hits instead of 18 %, and 97.0 % correct empties instead
of 99.5 %, on the calibration pairs."""


class Tunables(BaseModel):
    """All tunables, valid together."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dedup: DedupSettings
    recall: RecallSettings
    eviction: EvictionSettings
    retention: RetentionSettings
    memory: ExtractionSettings

    def saving(self, space: EmbeddingSpace | None, shards: frozenset[Shard] | None) -> SavingPolicy:
        """What a save goes by."""
        return SavingPolicy(
            dedup=DedupPolicy(**self.dedup.model_dump()),
            space=space,
            max_active=self.eviction.max_active,
            grace=int(self.eviction.grace_hours * HOUR),
            shards=shards,
        )

    def ranking(self, min_similarity: float | None, *, keyword_alone: bool) -> RankingPolicy:
        """What a recall goes by. A caller who names a floor means it: the relative one is off then."""
        values = self.recall.model_dump(exclude={"dense_leg", "exact_limit"})
        if min_similarity is not None:
            values |= {"min_similarity": min_similarity, "relative_floor": 0.0}
        if keyword_alone:
            values["min_keyword"] = min(self.recall.min_keyword, KEYWORD_ALONE)
        return RankingPolicy(**values, near_duplicate=self.dedup.same_meaning)


@dataclass(frozen=True, slots=True)
class TunableRow:
    """A tunable as AdminService shows it."""

    name: str
    value: str
    default: str
    description: str


class LiveTunables:
    """The tunables of this replica; `now` is read by every call."""

    def __init__(self, settings: MemorySettings, store: SettingStore, clock: Clock) -> None:
        self._defaults = Tunables(
            dedup=settings.dedup,
            recall=settings.recall,
            eviction=settings.eviction,
            retention=settings.retention,
            memory=settings.memory,
        )
        self._store = store
        self._clock = clock
        self.now = self._defaults
        self._etag = "0"

    async def refresh(self) -> None:
        """Takes over what is in the record. A value that this version refuses is passed over, and said."""
        values, etag = await self._store.load()
        self._adopt(values, etag)

    def _adopt(self, values: Mapping[str, str], etag: str) -> None:
        self._etag = etag
        try:
            self.now = self._applied(values)
        except ValidationError as error:
            log.error("settings in the record are passed over: %s", error)

    def _applied(self, values: Mapping[str, str]) -> Tunables:
        tree: dict[str, dict[str, Any]] = self._defaults.model_dump()
        for name, value in values.items():
            group, _, field = name.partition(".")
            if field in tree.get(group, {}):
                tree[group][field] = value
        return Tunables.model_validate(tree)

    def rows(self) -> tuple[list[TunableRow], str]:
        """All tunables by name, and their etag."""
        rows = []
        for group, section in Tunables.model_fields.items():
            model = section.annotation
            for name, info in getattr(model, "model_fields", {}).items():
                value, default = (_text(tunables, f"{group}.{name}") for tunables in (self.now, self._defaults))
                unit = (info.json_schema_extra or {}).get("unit", "")
                choices = " | ".join(get_args(info.annotation)) if get_origin(info.annotation) else ""
                note = f" [{unit or choices}]" if unit or choices else ""
                rows.append(TunableRow(f"{group}.{name}", value, default, f"{info.description}{note}"))
        return sorted(rows, key=lambda row: row.name), self._etag

    async def update(
        self, values: Mapping[str, str], *, etag: str, actor: str, request_id: str
    ) -> tuple[list[TunableRow], str]:
        """Changes tunables: all or, where one is refused, none. InvalidArgument names each; Aborted a stale etag."""
        stored, _ = await self._store.load()
        wanted = self._checked(stored, values)
        changes = {name: _text(wanted, name) if value else None for name, value in values.items()}
        try:
            present, new_etag = await self._store.save(
                changes, etag=etag, actor=actor, at=self._clock(), request_id=request_id
            )
        except RequestReused as error:
            raise request_reused() from error
        except EtagMismatch as error:
            raise Aborted("The settings were changed meanwhile; read them again.", reason="ETAG_MISMATCH") from error
        self._adopt(present, new_etag)
        return self.rows()

    def _checked(self, stored: Mapping[str, str], values: Mapping[str, str]) -> Tunables:
        """What the tunables would be."""
        known = {row.name for row in self.rows()[0]}
        unknown = [
            Violation(f'values["{name}"]', "is no setting that can be changed at run time; GetSettings lists them")
            for name in values
            if name not in known
        ]
        if not values:
            unknown = [Violation("values", "is empty: name at least one setting")]
        if unknown:
            raise InvalidArgument(unknown)
        merged = {name: value for name, value in {**stored, **values}.items() if value}
        try:
            return self._applied(merged)
        except ValidationError as error:
            raise InvalidArgument([_violation(problem) for problem in error.errors()]) from error

    async def follow(self, seconds: float) -> None:
        """Keeps this replica up to date, for ever."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.refresh()
            except Exception as error:
                log.warning("the settings in the record could not be read: %s", error)


def _text(tunables: Tunables, name: str) -> str:
    """A tunable's value in its one written form: what is stored, and fits its column, however it was given."""
    group, _, field = name.partition(".")
    return str(getattr(getattr(tunables, group), field))


def _violation(problem: Any) -> Violation:
    name = ".".join(str(part) for part in problem["loc"])
    text = str(problem["msg"]).removeprefix("Value error, ")
    return Violation(f'values["{name}"]', f"{text[:1].lower()}{text[1:]}")
