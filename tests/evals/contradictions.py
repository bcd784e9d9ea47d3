"""Contradictions through the whole service: does the new statement supersede the old memory, and nothing else?

Each pair is a user of its own with one old memory and some others; the turn is appended, a model answers, and the
memories are looked at through the public door. Without a model the answers are recorded ones, so that what is measured
is everything but the model; where `PALIMPSEST_LLM__BASE_URL` is set, that model is measured too, and has no floor.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from shared.gen.palimpsest.memory.v1 import conversation_service_pb2 as conversations
from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as memories
from tests.acceptance.scripted import ScriptedModel, alias_of
from tests.evals.figures import Figure, Measured
from tests.service import Client, ServiceProcess, eventually

FILE: Final = Path(__file__).with_name("contradictions.tsv")
LIVE: Final = "PALIMPSEST_LLM__BASE_URL"
SECONDS: Final = 120.0


@dataclass(frozen=True)
class Pair:
    """One contradiction. `answer`: what a model said of it, `{old}` for the old memory's alias."""

    lang: str
    type: int
    old: str
    others: tuple[str, ...]
    user: str
    assistant: str
    new: str
    answer: str


@dataclass(frozen=True)
class Outcome:
    """What became of one pair."""

    superseded: bool
    """The old memory, by one that came of the turn, with a rationale; and it is recalled no more."""
    touched: int
    """Others that are not as they were."""


def read() -> list[Pair]:
    """The pairs of the file."""
    rows = [line.split("\t") for line in FILE.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return [
        Pair(
            lang,
            m.MemoryType.Value(f"MEMORY_TYPE_{kind}"),
            old,
            tuple(others.split(" | ")),
            user,
            assistant,
            new,
            json.loads(answer),
        )
        for lang, kind, old, others, user, assistant, new, answer in rows
    ]


def measure(embed: object = None) -> Measured:
    """Recorded, and live where a model is configured."""
    pairs = read()
    measured = Measured()
    over = f"{len(pairs)} pairs, recorded answers"
    found = recorded(pairs)
    measured.figures += [
        Figure("contradictions", "superseded rightly", sum(o.superseded for o in found), len(pairs), True, over),
        Figure("contradictions", "unrelated memories touched", sum(o.touched for o in found), 0, False, over),
    ]
    live = {name: value for name, value in os.environ.items() if name.startswith("PALIMPSEST_LLM__")}
    if LIVE not in live:
        measured.absent.append(f"contradictions, live: not measured, {LIVE} is not set")
        return measured
    over = f"{len(pairs)} pairs, live"
    found = outcomes(pairs, live)
    measured.figures += [
        Figure("contradictions", "superseded rightly", sum(o.superseded for o in found), None, True, over),
        Figure("contradictions", "unrelated memories touched", sum(o.touched for o in found), None, False, over),
    ]
    return measured


def recorded(pairs: Sequence[Pair]) -> list[Outcome]:
    """The pairs with the answers of the file."""
    with ScriptedModel() as model:
        for pair in pairs:
            model.on(pair.user, replay(pair))
        return outcomes(pairs, model.settings)


def replay(pair: Pair) -> Callable[[str], str]:
    """A script for the pair: its recorded answer, with the alias that the question shows."""
    return lambda question: pair.answer.replace("{old}", alias_of(pair.old, question))


def outcomes(pairs: Sequence[Pair], settings: Mapping[str, str]) -> list[Outcome]:
    """What the service makes of the pairs with a model."""
    with ServiceProcess(dict(settings)) as process:
        return [outcome(pair, process.address) for pair in pairs]


def outcome(pair: Pair, address: str) -> Outcome:
    """What a running service makes of a pair."""
    client = Client(address)
    saved = [
        client.SaveMemory(memories.SaveMemoryRequest(type=pair.type, content=text)).memory  # type: ignore[arg-type]
        for text in (pair.old, *pair.others)
    ]
    said = [
        conversations.ConversationMessage(role=role, content=content)
        for role, content in (("user", pair.user), ("assistant", pair.assistant))
    ]
    client.AppendTurn(conversations.AppendTurnRequest(session_id="s", messages=said))

    def ended() -> Any:
        found = client.GetExtraction(conversations.GetExtractionRequest(session_id="s")).extraction
        return found if found.finished_at.seconds else None

    extraction = eventually(ended, SECONDS, "the extraction")
    present = client.ListMemories(memories.ListMemoriesRequest(state=memories.MEMORY_STATE_ANY)).memories
    now = {memory.id: memory for memory in present}
    old, *others = saved
    by = {item.memory_id for item in extraction.items if old.id in item.superseded_ids and item.rationale}
    hits = client.RecallMemories(memories.RecallMemoriesRequest(query=pair.old)).hits
    recalled = {hit.memory.id for hit in hits}
    client.close()
    return Outcome(
        superseded=now[old.id].superseded_by in by and old.id not in recalled,
        touched=sum(now[other.id].HasField("invalidated_at") for other in others),
    )
