"""A user's memory against a dict: whatever is called in whatever order, and whichever derived store or model is away.

Texts are orders, each with a number of its own, which the decision table keeps apart; so what a call must answer
follows from what is active, and the model is a dict from text to id. The embedding model is a fake one that can be
taken away; Redis and Milvus are frozen; the service is killed and started again, on one data folder or database.
"""

import os
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from tests.acceptance.calls import ADDED, DUPLICATE, FACT, draft, save
from tests.acceptance.conftest import environment_of
from tests.acceptance.model import ModelServer
from tests.servers import Server
from tests.service import Client, ServiceProcess, eventually

CAP = 6
RESTARTS = 1
"""In one run: each takes seconds."""
RUNS = int(os.environ.get("PALIMPSEST_TEST_RUNS", "8"))
"""How many sequences of calls are tried on each deployment."""
NUMBERS = st.integers(min_value=1, max_value=14)
USERS = st.sampled_from([0, 1])


def order(number: int) -> str:
    """A statement that is one with no other."""
    return f"订单 {70_000 + number} 已付款" if number % 2 else f"Order {70_000 + number} was paid"


class World:
    """The service, its model and the stores it can do without; one for all runs of a deployment."""

    def __init__(self, environment: dict[str, str], model: ModelServer, derived: list[Server]) -> None:
        self.model = model
        self.derived = derived
        self.process = ServiceProcess(
            {
                **environment,
                **model.settings(),
                "PALIMPSEST_EVICTION__MAX_ACTIVE": str(CAP),
                "PALIMPSEST_EVICTION__GRACE_HOURS": "0",
            }
        )

    def mend(self) -> None:
        """Everything is there again."""
        self.model.away = False
        for server in self.derived:
            server.resume()


@pytest.fixture(scope="module", params=["embedded", pytest.param("production", marks=pytest.mark.servers)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    derived = (
        [request.getfixturevalue("redis_server"), request.getfixturevalue("milvus_server")]
        if request.param == "production"
        else []
    )
    with ModelServer(tmp_path_factory.mktemp("model"), "machine") as model:
        world = World(environment_of(request, request.param), model, derived)
        with world.process:
            yield world
            world.mend()


class Memories(RuleBasedStateMachine):
    """Two users, so that what one does can be seen not to reach the other."""

    world: World

    @initialize()
    def begin(self) -> None:
        self.world.mend()
        address = self.world.process.address
        self.clients = [Client(address), Client(address)]
        self.active: list[dict[str, str]] = [{}, {}]  # text -> id
        self.retired: list[dict[str, str]] = [{}, {}]  # id -> text
        self.pinned: set[str] = set()
        self.broken = False
        self.restarts = 0

    # What a call does to the model.

    def _retire(self, user: int, ids: Any) -> None:
        by_id = {id: text for text, id in self.active[user].items()}
        for id in ids:
            text = by_id[id]  # KeyError: something was retired that was not active, or is another user's
            assert id not in self.pinned
            del self.active[user][text]
            self.retired[user][id] = text

    def _saved(self, user: int, text: str, answer: Any) -> None:
        known = self.active[user].get(text)
        if known is not None:
            assert answer.outcome == DUPLICATE, answer.reason
            assert answer.matched_id == known == answer.memory.id
            return
        assert answer.outcome == ADDED, answer.reason
        self.active[user][text] = answer.memory.id
        self._retire(user, answer.evicted_ids)

    @rule(user=USERS, number=NUMBERS)
    def save(self, user: int, number: int) -> None:
        text = order(number)
        self._saved(user, text, save(self.clients[user], text))

    @rule(user=USERS, numbers=st.lists(NUMBERS, min_size=1, max_size=4))
    def batch(self, user: int, numbers: list[int]) -> None:
        texts = [order(number) for number in numbers]
        answer = self.clients[user].BatchSaveMemories(
            pb.BatchSaveMemoriesRequest(drafts=[draft(text) for text in texts])
        )
        for text, result in zip(texts, answer.results, strict=True):
            self._saved(user, text, result)

    @rule(user=USERS, number=NUMBERS)
    def recall(self, user: int, number: int) -> None:
        text = order(number)
        answer = self.clients[user].RecallMemories(pb.RecallMemoriesRequest(query=text, top_k=20))
        found = {hit.memory.content: hit.memory.id for hit in answer.hits}
        assert found.items() <= self.active[user].items()
        if text in self.active[user]:
            assert found.get(text) == self.active[user][text]
        if not self.broken:
            assert not answer.degraded or list(answer.degraded_reasons) == [pb.DEGRADED_REASON_INDEX]

    @precondition(lambda self: any(self.active))
    @rule(user=USERS, data=st.data())
    def invalidate(self, user: int, data: st.DataObject) -> None:
        if not self.active[user]:
            return
        text = data.draw(st.sampled_from(sorted(self.active[user])))
        id = self.active[user][text]
        self.clients[user].InvalidateMemory(pb.InvalidateMemoryRequest(id=id))
        self.pinned.discard(id)
        self._retire(user, [id])

    @precondition(lambda self: any(self.retired))
    @rule(user=USERS, data=st.data())
    def restore(self, user: int, data: st.DataObject) -> None:
        if not self.retired[user]:
            return
        id = data.draw(st.sampled_from(sorted(self.retired[user])))
        text = self.retired[user][id]
        request = pb.RestoreMemoryRequest(id=id)
        if text in self.active[user]:
            with pytest.raises(grpc.RpcError) as refused:
                self.clients[user].RestoreMemory(request)
            error: Any = refused.value
            assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
            return
        answer = self.clients[user].RestoreMemory(request)
        assert not answer.superseded_ids
        del self.retired[user][id]
        self.active[user][text] = id
        self._retire(user, answer.evicted_ids)

    @precondition(lambda self: any(self.active))
    @rule(user=USERS, on=st.booleans(), data=st.data())
    def pin(self, user: int, on: bool, data: st.DataObject) -> None:
        if not self.active[user]:
            return
        text = data.draw(st.sampled_from(sorted(self.active[user])))
        id = self.active[user][text]
        if on and sum(id in self.pinned for id in self.active[user].values()) >= CAP - 1:
            return  # one place must stay for what is saved next
        self.clients[user].UpdateMemory(
            pb.UpdateMemoryRequest(memory=m.Memory(id=id, pinned=on), update_mask={"paths": ["pinned"]})
        )
        (self.pinned.add if on else self.pinned.discard)(id)

    @rule(user=USERS)
    def clear(self, user: int) -> None:
        answer = self.clients[user].ClearMemories(pb.ClearMemoriesRequest(types=[FACT]))
        assert answer.cleared_count == len(self.active[user])
        self.pinned -= set(self.active[user].values())
        self._retire(user, list(self.active[user].values()))

    @rule(user=USERS, data=st.data())
    def reach_for_anothers(self, user: int, data: st.DataObject) -> None:
        theirs = sorted([*self.active[1 - user].values(), *self.retired[1 - user]])
        if not theirs:
            return
        id = data.draw(st.sampled_from(theirs))
        with pytest.raises(grpc.RpcError) as refused:
            self.clients[user].GetMemory(pb.GetMemoryRequest(id=id))
        error: Any = refused.value
        assert error.code() == grpc.StatusCode.NOT_FOUND

    # What happens to the service.

    @precondition(lambda self: not self.broken)
    @rule(what=st.integers(min_value=0, max_value=2))
    def break_one(self, what: int) -> None:
        self.broken = True
        if what < len(self.world.derived):
            self.world.derived[what].pause()
        else:
            self.world.model.away = True

    @precondition(lambda self: self.broken)
    @rule()
    def mend(self) -> None:
        self.world.mend()
        self.broken = False

    @precondition(lambda self: self.restarts < RESTARTS)
    @rule(kill=st.booleans())
    def restart(self, kill: bool) -> None:
        self.restarts += 1
        (self.world.process.kill if kill else self.world.process.stop)()
        self.world.process.start()
        for user, client in enumerate(self.clients):
            client.close()
            self.clients[user] = Client(self.world.process.address, client.user)

    # What always holds.

    @invariant()
    def what_is_listed_is_what_was_acknowledged(self) -> None:
        for user, client in enumerate(self.clients):
            listed = client.ListMemories(pb.ListMemoriesRequest(page_size=1000)).memories
            assert {memory.content: memory.id for memory in listed} == self.active[user]
            assert len(listed) == len(self.active[user]) <= CAP
            assert {memory.id for memory in listed if memory.pinned} == self.pinned & set(self.active[user].values())

    def teardown(self) -> None:
        if not hasattr(self, "clients"):
            return
        self.world.mend()
        try:
            self._every_vector_comes()
        finally:
            for client in self.clients:
                client.close()

    def _every_vector_comes(self) -> None:
        """Once everything is there again, no active row is without a vector, and record and index agree."""

        def quiet() -> bool:
            stats = self.clients[0].GetStats(admin.GetStatsRequest())
            return not stats.unembedded_memories and not stats.outbox_rows

        eventually(quiet, 60, "the vector of every active memory")
        job = self.clients[0].Reconcile(admin.ReconcileRequest()).job

        def done() -> Any:
            found = self.clients[0].GetJob(admin.GetJobRequest(id=job.id)).job
            return found if found.state in (admin.JOB_STATE_SUCCEEDED, admin.JOB_STATE_FAILED) else None

        found = eventually(done, 60, "reconciling")
        assert found.state == admin.JOB_STATE_SUCCEEDED, found.error
        assert not any(found.counts.values()), dict(found.counts)


def test_memory_is_what_was_acknowledged(world: World) -> None:
    machine = type("MemoriesHere", (Memories,), {"world": world})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,  # the same runs every time; PALIMPSEST_TEST_RUNS for more of them
            suppress_health_check=list(HealthCheck),
        ),
    )
