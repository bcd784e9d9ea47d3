"""SIGKILL at every step of a write: what was acknowledged is there, what was not is there whole or not at all.

A round starts the service with one failpoint armed, lets a few users write until it dies, starts it again, and
compares. A call that was cut off may have been written or not; both states are allowed for it, and nothing between
them. Rounds go on, on the same stores, with the next point: `PALIMPSEST_TEST_ROUNDS` (unset: each point once on each
deployment).
"""

import itertools
import os
import random
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import grpc
import pytest

from shared.failpoints import VARIABLE
from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from tests.acceptance.calls import ADDED, FACT, draft
from tests.acceptance.conftest import environment_of
from tests.acceptance.model import ModelServer
from tests.service import Client, ServiceProcess, eventually

POINTS = [
    "write.taken",
    "write.decided",
    "write.retired",
    "write.inserted",
    "write.enqueued",
    "write.versioned",
    "write.committed",
    "write.told",
    "index.claimed",
    "index.written",
]
ROUNDS = int(os.environ.get("PALIMPSEST_TEST_ROUNDS", str(len(POINTS))))
USERS = 3
State = dict[str, str]
"""Active memories: id by content."""


def order(number: int) -> str:
    """A statement that is one with no other."""
    return f"订单 {100_000 + number} 已付款"


@dataclass
class Writer:
    """One user: what was acknowledged, and what the call that was cut off would have made of it."""

    name: str
    acknowledged: State = field(default_factory=dict)
    cut: Callable[[State], bool] | None = None
    """Whether a state is what the call that was cut off leaves when it was written."""

    def run(self, address: str, numbers: Iterator[int], dice: random.Random) -> None:
        """Writes until the service is gone."""
        client = Client(address, self.name)
        try:
            while True:
                dice.choice([self.save, self.save, self.batch, self.correct, self.invalidate, self.clear])(
                    client, numbers, dice
                )
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:  # type: ignore[attr-defined]
                raise
        finally:
            client.close()

    def save(self, client: Client, numbers: Iterator[int], dice: random.Random) -> None:
        text, before = order(next(numbers)), dict(self.acknowledged)
        self.cut = lambda state: state.keys() == {*before, text} and before.items() <= state.items()
        answer = client.SaveMemory(pb.SaveMemoryRequest(type=FACT, content=text))
        assert answer.outcome == ADDED, answer.reason
        self.acknowledged[text] = answer.memory.id

    def batch(self, client: Client, numbers: Iterator[int], dice: random.Random) -> None:
        texts, before = [order(next(numbers)) for _ in range(3)], dict(self.acknowledged)
        self.cut = lambda state: state.keys() == {*before, *texts} and before.items() <= state.items()
        answer = client.BatchSaveMemories(pb.BatchSaveMemoriesRequest(drafts=[draft(text) for text in texts]))
        for text, result in zip(texts, answer.results, strict=True):
            assert result.outcome == ADDED, result.reason
            self.acknowledged[text] = result.memory.id

    def correct(self, client: Client, numbers: Iterator[int], dice: random.Random) -> None:
        if not self.acknowledged:
            return
        old, text = dice.choice(sorted(self.acknowledged)), order(next(numbers))
        kept = {content: id for content, id in self.acknowledged.items() if content != old}
        self.cut = lambda state: state.keys() == {*kept, text} and kept.items() <= state.items()
        answer = client.SaveMemory(pb.SaveMemoryRequest(type=FACT, content=text, supersedes=[self.acknowledged[old]]))
        assert list(answer.superseded_ids) == [self.acknowledged[old]]
        self.acknowledged = {**kept, text: answer.memory.id}

    def invalidate(self, client: Client, numbers: Iterator[int], dice: random.Random) -> None:
        if not self.acknowledged:
            return
        old = dice.choice(sorted(self.acknowledged))
        kept = {content: id for content, id in self.acknowledged.items() if content != old}
        self.cut = lambda state: state == kept
        client.InvalidateMemory(pb.InvalidateMemoryRequest(id=self.acknowledged[old]))
        self.acknowledged = kept

    def clear(self, client: Client, numbers: Iterator[int], dice: random.Random) -> None:
        if len(self.acknowledged) < 12:
            return
        self.cut = lambda state: not state
        client.ClearMemories(pb.ClearMemoriesRequest())
        self.acknowledged = {}

    def check(self, address: str) -> None:
        """Compares with what the service lists and recalls; what is there is acknowledged from now on."""
        client = Client(address, self.name)
        try:
            listed = client.ListMemories(pb.ListMemoriesRequest(page_size=1000)).memories
            state = {memory.content: memory.id for memory in listed}
            assert len(state) == len(listed)
            assert state == self.acknowledged or (self.cut is not None and self.cut(state)), (
                f"acknowledged {sorted(self.acknowledged)}, there is {sorted(state)}"
            )
            self.acknowledged, self.cut = state, None
            for text in sorted(state)[:3]:
                hits = client.RecallMemories(pb.RecallMemoriesRequest(query=text, top_k=20)).hits
                assert (text, state[text]) in [(hit.memory.content, hit.memory.id) for hit in hits]
                assert {hit.memory.content for hit in hits} <= state.keys()
            every = client.ListMemories(pb.ListMemoriesRequest(page_size=1000, state=pb.MEMORY_STATE_ANY)).memories
            known = {memory.id for memory in every}
            for memory in every:
                assert not memory.superseded_by or memory.superseded_by in known
        finally:
            client.close()


@pytest.fixture(scope="module", params=["embedded", pytest.param("production", marks=pytest.mark.servers)])
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with ModelServer(tmp_path_factory.mktemp("model"), "chaos") as model:
        yield {
            **environment_of(request, request.param),
            **model.settings(),
            "PALIMPSEST_DATA_DIR": str(tmp_path_factory.mktemp("data")),
        }


def agree(client: Client) -> None:
    """Reconciles, and finds nothing left to mend the second time."""

    def quiet() -> bool:
        stats = client.GetStats(admin.GetStatsRequest())
        return not stats.unembedded_memories and not stats.outbox_rows

    def reconcile() -> admin.Job:
        job = client.Reconcile(admin.ReconcileRequest()).job

        def ended() -> admin.Job | None:
            found = client.GetJob(admin.GetJobRequest(id=job.id)).job
            return found if found.state in (admin.JOB_STATE_SUCCEEDED, admin.JOB_STATE_FAILED) else None

        ended_job: admin.Job = eventually(ended, 90, "reconciling")
        return ended_job

    eventually(quiet, 90, "every vector in the index")  # a line that a killed worker had claimed waits out its lease
    reconcile()
    eventually(quiet, 90, "what was mended in the index")
    found = reconcile()
    assert found.state == admin.JOB_STATE_SUCCEEDED, found
    assert not any(found.counts.values()), dict(found.counts)


def test_a_crash_at_any_step_of_a_write_loses_nothing_acknowledged(
    environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("PALIMPSEST_TEST_SEED", "1"))
    dice, numbers = random.Random(seed), itertools.count()
    writers = [Writer(f"user-{uuid.uuid4()}") for _ in range(USERS)]
    crashed = 0
    with ThreadPoolExecutor(USERS) as pool:
        for turn in range(ROUNDS):
            point = POINTS[turn % len(POINTS)]
            if point.startswith("index.") and "PALIMPSEST_MILVUS_URI" not in environment:
                continue
            armed = {**environment, VARIABLE: f"{point}=kill@{dice.randint(1, 8)}"}
            dying = ServiceProcess(armed).start()
            each = [random.Random(dice.random()) for _ in writers]
            for done in [
                pool.submit(writer.run, dying.address, numbers, own) for writer, own in zip(writers, each, strict=True)
            ]:
                done.result(120)
            assert dying.wait() == -9, f"{point}: it did not die where it should\n{dying.log[-2000:]}"
            crashed += 1
            with ServiceProcess(environment) as living:
                for writer in writers:
                    writer.check(living.address)
    with ServiceProcess(environment) as living:
        client = Client(living.address)
        agree(client)
        client.close()
        for writer in writers:
            writer.check(living.address)
    kept = sum(len(writer.acknowledged) for writer in writers)
    with capsys.disabled():
        print(f"\n{crashed} crashes, {next(numbers)} texts written, {kept} active, seed {seed}")
