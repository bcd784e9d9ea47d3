"""The extraction worker: what was said becomes what is remembered, one turn after another for each user.

A turn is loaded, the model is asked, its answer is guarded, and drafts, supersedes and the end of the job are one
transaction, conditional on the claim: a crash at any point leaves a job that is done again or is done, never half.
The model is outside of every transaction. Refuses to lose a turn: what cannot be done waits, and what cannot ever be
done is a dead letter that the operator can list and have tried again.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from memory_service.conversation_ports import Conversations, ExtractionJob, Extractions
from memory_service.domain.active_set import ActiveSet
from memory_service.domain.conversation import Message
from memory_service.domain.extraction import guards, known
from memory_service.domain.extraction.model import Judged, Said, Turn
from memory_service.domain.extraction.prompt import build
from memory_service.domain.model import Head
from memory_service.domain.person import other_person
from memory_service.domain.pieces import pieces
from memory_service.ports import Clock, StoreUnavailable
from memory_service.record import Record
from memory_service.service.active import ActiveSets
from memory_service.service.asking import Questioner
from memory_service.service.calls import Caller, Mutation
from memory_service.service.embedding import Embeddings
from memory_service.service.extraction_faults import SECOND, next_step
from memory_service.service.extraction_plan import ExtractionPlan
from memory_service.service.remember import Remember
from memory_service.service.tunables import LiveTunables
from memory_service.service.turns import open_message
from memory_service.service.vault import Keyring, UserKey
from memory_service.service.writer import ExtractionLost, HeadMoved, Writer
from shared.failpoints import reach
from shared.llm import ModelUnavailable
from shared.telemetry import Telemetry

log = logging.getLogger(__name__)

SLOTS: Final = 8
"""Turns that are worked on at once, of as many users: a model that hangs on one holds up no other."""
LEASE: Final = 8 * SECOND
"""A claim that nobody renews ends so soon: how long a turn waits after its worker was killed."""
RENEW_SECONDS: Final = 2.0
IDLE_SECONDS: Final = 1.0
BEFORE: Final = 6
"""Messages before the turn that the model sees."""
_LOOKED_UP: Final = 8
"""Pieces of what the user said that known memories are looked up by."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A turn, ready to be asked about."""

    head: Head
    key: UserKey
    turn: Turn
    before: Sequence[Said]
    active: ActiveSet


class Extractor:
    """Works the extraction jobs off."""

    def __init__(
        self,
        *,
        record: Record,
        conversations: Conversations,
        extractions: Extractions,
        keyring: Keyring,
        writer: Writer,
        active: ActiveSets,
        embeddings: Embeddings,
        remember: Remember,
        tunables: LiveTunables,
        questioner: Questioner | None,
        telemetry: Telemetry,
        clock: Clock,
        home: tzinfo,
        wake: asyncio.Event,
    ) -> None:
        """`questioner` None: there is no model; turns are kept, and their jobs wait for one."""
        self._record = record
        self._conversations = conversations
        self._extractions = extractions
        self._keyring = keyring
        self._writer = writer
        self._active = active
        self._embeddings = embeddings
        self._remember = remember
        self._tunables = tunables
        self._questioner = questioner
        self._clock = clock
        self._home = home
        self._wake = wake
        self._answered_at = 0
        self._turns = telemetry.meter.create_counter(
            "palimpsest.extraction.turns", unit="{turn}", description="Turns by what became of them."
        )
        self._items = telemetry.meter.create_counter(
            "palimpsest.extraction.items", unit="{item}", description="Items of answers by outcome or refusal."
        )

    async def run(self) -> None:
        """Works for ever."""
        if self._questioner is None:
            log.info("no model is configured (PALIMPSEST_LLM__BASE_URL): turns wait for their extraction")
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            running: set[asyncio.Task[None]] = set()
            while True:
                jobs = await self._claim(SLOTS - len(running))
                for job in jobs:
                    task = group.create_task(self.work(job))
                    running.add(task)
                    task.add_done_callback(running.discard)
                    task.add_done_callback(lambda _: self._wake.set())  # the user's next turn may be due now
                if not jobs:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(IDLE_SECONDS):
                            await self._wake.wait()
                    self._wake.clear()

    async def _claim(self, free: int) -> list[ExtractionJob]:
        if not free:
            return []
        try:
            return await self._extractions.claim(LEASE, free)
        except StoreUnavailable as error:
            log.warning("extraction waits: %s", error)
        except Exception:
            log.exception("claiming turns failed and is tried again")
        return []

    async def work(self, job: ExtractionJob) -> None:
        """One claimed turn, to its end or to its next try. Never raises, but for being cancelled."""
        await reach("extract.claimed")
        working = asyncio.ensure_future(self._extract(job))
        renewing = asyncio.ensure_future(self._renew(job, working))
        try:
            await working
        except ExtractionLost:
            log.info("turn %d of a session is another worker's now, or gone", job.turn)
        except asyncio.CancelledError:
            if not working.cancelled() or renewing.done():
                return  # the claim is lost
            await self._give_back(job)
            raise
        except Exception as error:
            await self._failed(job, error)
        finally:
            working.cancel()
            renewing.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)

    async def _renew(self, job: ExtractionJob, working: "asyncio.Future[None]") -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                if not await self._extractions.renew(job, LEASE):
                    working.cancel()
                    return
            except StoreUnavailable as error:
                log.debug("a claim was not renewed: %s", error)

    async def _give_back(self, job: ExtractionJob) -> None:
        """On the way out: the next worker need not wait for the claim to end."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(1):
                await self._extractions.postpone(job, 0, "")

    async def _failed(self, job: ExtractionJob, error: Exception) -> None:
        """Later, or never: codes only, since an error's text may hold a turn's."""
        code, delay = next_step(job, error, now=self._clock(), answered_at=self._answered_at)
        try:
            if delay is None:
                log.warning("extraction of a turn is given up: %s", code)
                self._turns.add(1, {"outcome": "dead", "code": code})
                await self._extractions.bury(job, code)
            else:
                self._turns.add(1, {"outcome": "postponed", "code": code})
                await self._extractions.postpone(job, delay, code)
        except StoreUnavailable as away:
            log.warning("a turn waits for the end of its claim: %s", away)

    async def _extract(self, job: ExtractionJob) -> None:
        loaded = await self._load(job)
        if loaded is None:
            await self._extractions.bury(job, "TURN_GONE")
            return
        model = self._tunables.now.memory.extract_model
        judged: list[Judged] = []
        version = ""
        if loaded.turn.empty:
            model = ""
        else:
            nearness = await self._nearness(loaded)
            now = self._clock()
            shown = known.choose((m for m in loaded.active.memories.values() if not m.expired(now)), nearness)
            prompt = build(loaded.turn, loaded.before, shown)
            version = prompt.version
            if self._questioner is None:
                raise ModelUnavailable("there is no model")
            await reach("extract.asking")
            items = await self._questioner.ask(prompt, model)
            self._answered_at = self._clock()
            await reach("extract.answered")
            around = "\n".join(said.content for said in loaded.before)
            judged = guards.judge(items, loaded.turn, shown, around)
        await self._commit(job, loaded, judged, prompt_version=version, model=model)
        await reach("extract.committed")
        self._count(judged)

    async def _load(self, job: ExtractionJob) -> _Loaded | None:
        """None = the user's data, or the session, is not there any more."""
        head = await self._record.head(job.user_id)
        if head is None or head.generation != job.generation:
            return None
        place = (job.user_id, job.generation, job.session_id)
        rows = await self._conversations.turn(*place, job.turn)
        if not rows:
            return None
        key = await self._keyring.get(job.user_id, job.generation)
        session = await self._conversations.session(*place)
        before = await self._conversations.newest(*place, BEFORE, before_turn=job.turn)
        messages = [open_message(key, row) for row in rows]
        turn = Turn(
            session_id=job.session_id,
            messages=tuple(map(_said, messages)),
            at=next((m.created_at for m in messages if m.role == "user"), messages[0].created_at),
            received_at=job.created_at,
            channel=session.channel if session else "",
            zone=self._zone(job.time_zone),
        )
        active = await self._active.read(head, key)
        return _Loaded(head, key, turn, [_said(open_message(key, row)) for row in before], active)

    def _zone(self, name: str) -> tzinfo:
        try:
            return ZoneInfo(name) if name else self._home
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return self._home

    async def _nearness(self, loaded: _Loaded) -> Mapping[str, float]:
        """How near the user's memories are to what was said. Asked before the model is: without vectors nothing could
        be compared afterwards, and the answer would be paid for in vain."""
        active, space = loaded.active, loaded.head.space
        said = "\n\n".join(m.content for role in ("user", "assistant") for m in loaded.turn.messages if m.role == role)
        cut = pieces(said)
        if not cut:
            return {}
        some = cut if len(cut) <= _LOOKED_UP else cut[: _LOOKED_UP // 2] + cut[-_LOOKED_UP // 2 :]
        vectors = [await self._embeddings.query(space, said[begin:end]) for begin, end in some]
        nearest: dict[str, float] = {}
        for vector in vectors if active.space == space else []:
            for id, cosine in zip(active.ids, active.cosines(vector), strict=True):
                if not np.isnan(cosine):  # it has a vector
                    nearest[id] = max(float(cosine), nearest.get(id, -1.0))
        return nearest

    async def _commit(self, job: ExtractionJob, loaded: _Loaded, judged: Sequence[Judged], **made: str) -> None:
        space = loaded.head.space
        findings = [each.finding for each in judged if each.finding is not None]
        for _ in range(3):
            others = [other_person(finding.content) for finding in findings]
            texts = [*(f.content for f in findings), *(text for text in others if text)]
            vectors = dict(zip(texts, await self._embeddings.passages(space, texts), strict=True)) if texts else {}
            plan = ExtractionPlan(
                remember=self._remember,
                job=job,
                turn=loaded.turn,
                judged=judged,
                vectors=vectors,
                space=space,
                **made,
            )
            try:
                caller = Caller(job.user_id)
                await self._writer.run(caller, Mutation("extract"), plan, new_in=space, prepared_for=space)
                return
            except HeadMoved:
                now = await self._record.head(job.user_id)
                if now is None:
                    raise ExtractionLost from None
                space = now.space
        raise HeadMoved

    def _count(self, judged: Sequence[Judged]) -> None:
        self._turns.add(1, {"outcome": "done", "code": ""})
        for each in judged:
            self._items.add(1, {"outcome": each.refused.value if each.refused else "BELIEVED"})
            for note in each.notes:
                self._items.add(1, {"outcome": note.value})


def _said(message: Message) -> Said:
    return Said(message_id=message.message_id, role=message.role, content=message.content)
