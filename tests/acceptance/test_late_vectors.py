"""What was saved while the embedding model was away: kept at once, found by keyword, compared when its vector comes."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_service.domain.space import make_space
from memory_service.domain.subjects import told
from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from tests.acceptance.calls import ADDED, DUPLICATE, added, get, invalidate, recall, restore, save, texts, update
from tests.acceptance.conftest import environment_of
from tests.fake_openai import FakeOpenAI, Reply, Request, vector_of
from tests.service import Client, ServiceProcess, eventually

ALIKE = {"有两个小孩": "有两个孩子", "用 MySQL 9": "用 MySQL 8"}
"""What a text tells (`subjects.told`), and what else the model takes it for."""


@dataclass
class Model:
    """The endpoint, and whether it answers."""

    fake: FakeOpenAI
    away: bool = False

    def route(self, request: Request) -> Reply:
        """POST /v1/embeddings."""
        if self.away:
            return Reply(503, '{"error": {"message": "away"}}')
        asked = request.body["input"]
        given = [asked] if isinstance(asked, str) else asked
        vectors = [vector_of(ALIKE.get(told(text), text), self.fake.dim) for text in given]
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return Reply(body=json.dumps({"object": "list", "model": "fake-model", "data": data, "usage": usage}))


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    """A model of 32 numbers."""
    async with FakeOpenAI() as fake:
        model = Model(fake)
        fake.routes["/v1/embeddings"] = model.route
        yield model


@pytest.fixture
async def service(
    request: pytest.FixtureRequest, deployment: str, model: Model, tmp_path: Path
) -> AsyncIterator[ServiceProcess]:
    """A service on that model, with the plainest space there is."""
    zeros = np.zeros(model.fake.dim, np.float32)
    knots = ((-1.0, -1.0), (1.0, 1.0))
    space = tmp_path / "space.json"
    space.write_text(make_space("fake-model", zeros, zeros, knots, knots).to_json(), encoding="utf-8")
    embedding = {
        "PROVIDER": "openai",
        "BASE_URL": model.fake.base_url,
        "API_KEY": "key",
        "MODEL": "fake-model",
        "DIM": str(model.fake.dim),
        "SPACE_FILE": str(space),
        "TIMEOUT_SECONDS": "1",
    }
    environment = environment_of(request, deployment, **{f"PALIMPSEST_EMBEDDING__{k}": v for k, v in embedding.items()})
    process = ServiceProcess(environment)
    await asyncio.to_thread(process.start)
    yield process
    await asyncio.to_thread(process.__exit__)


async def run(work: Callable[..., Any], *args: Any) -> Any:
    """In a thread: the model is served by this loop."""
    return await asyncio.to_thread(work, *args)


def settled(client: Client) -> bool:
    stats = client.GetStats(admin.GetStatsRequest())
    return bool(stats.unembedded_memories == 0 and stats.outbox_rows == 0)


async def test_what_was_saved_meanwhile_is_compared_later(model: Model, service: ServiceProcess) -> None:
    client = Client(service.address)
    model.away = True

    def meanwhile() -> dict[str, m.Memory]:
        kept = {}
        for text in ("我有两个孩子", "我有两个小孩", "我用 MySQL 8", "我用 MySQL 9", "Order 5512 was paid"):
            answer = save(client, text)
            assert (answer.outcome, answer.reason_code) == (ADDED, pb.SAVE_REASON_CODE_NOT_COMPARED)
            assert answer.index_pending
            kept[text] = answer.memory
        assert save(client, "我有两个小孩").outcome == DUPLICATE, "the exact text needs no model"
        found = client.RecallMemories(pb.RecallMemoriesRequest(query="order 5512"))
        assert [hit.memory.content for hit in found.hits] == ["Order 5512 was paid"]
        assert list(found.degraded_reasons) == [pb.DEGRADED_REASON_EMBEDDING]
        assert list(found.legs_used) == [pb.RECALL_LEG_KEYWORD]
        # One without a vector is corrected, retired and restored like any other.
        second = update(client, added(client, "I live in Bonn").id, content="I live in Ulm", pinned=True)
        assert second.index_pending
        invalidate(client, second.memory.id)
        assert restore(client, second.memory.id).memory.pinned
        return kept

    kept = await run(meanwhile)
    model.away = False
    await run(eventually, lambda: settled(client), 40, "comparing")

    def afterwards() -> None:
        assert texts(client) == ["I live in Ulm", "Order 5512 was paid", "我用 MySQL 9", "我有两个孩子"]
        same, old = get(client, kept["我有两个小孩"].id), get(client, kept["我用 MySQL 8"].id)
        assert (same.invalid_reason, same.superseded_by) == (m.INVALID_REASON_DUPLICATE, kept["我有两个孩子"].id)
        assert (old.invalid_reason, old.superseded_by) == (m.INVALID_REASON_SUPERSEDED, kept["我用 MySQL 9"].id)
        eventually(lambda: not client.RecallMemories(pb.RecallMemoriesRequest(query="order")).degraded, 20)
        assert save(client, "我有两个小孩").matched_id == kept["我有两个孩子"].id
        assert {found.id for found in recall(client, "我用 MySQL 9", min_similarity=0.9)} == {kept["我用 MySQL 9"].id}

    await run(afterwards)
    client.close()
