"""The vector index agrees with the record: after saves and retirements, after damage, after a crash in the middle of a
rebuild, and while users move to another model. Damage is done to Milvus behind the service's back.
"""

import asyncio
import contextlib
import json
import signal
import threading
import time
import uuid
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from pymilvus import MilvusClient

from memory_service.adapters.index_milvus import MilvusIndex
from memory_service.domain.model import MemoryType, Shard
from memory_service.ports import IndexKey, IndexRow
from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from tests.acceptance.calls import added, batch, clear, draft, get, invalidate, listed, recall, save, update
from tests.acceptance.model import ModelServer
from tests.servers import MariaDB, Milvus, Redis
from tests.service import Client, ServiceProcess, eventually

pytestmark = pytest.mark.servers
T = TypeVar("T")
ROWS, USERS = 2400, 24
DONE = (admin.JOB_STATE_SUCCEEDED, admin.JOB_STATE_FAILED)


@dataclass
class World:
    """A service that recalls through the index, and a second way into Milvus and the record."""

    mariadb: MariaDB
    milvus: Milvus
    model: ModelServer
    next_model: ModelServer
    environment: dict[str, str]
    service: ServiceProcess
    database: str
    users: list[str] = field(default_factory=list)

    def client(self, user: str | None = None) -> Client:
        client = Client(self.service.address, user)
        if client.user not in self.users:
            self.users.append(client.user)
        return client

    def restart(self, *, kill: bool = False, **more: str) -> None:
        self.service._end(signal.SIGKILL if kill else signal.SIGTERM)
        self.environment = {**self.environment, **more}
        self.service = ServiceProcess(self.environment).start()

    def index(self, work: "Coroutine[Any, Any, T]") -> T:
        return asyncio.run(work)

    def opened(self) -> MilvusIndex:
        return MilvusIndex(self.milvus.url, database=self.database, timeout=10)

    def vectors(self, space: str) -> dict[str, str]:
        """User by memory id of every vector that Milvus has."""

        async def scan() -> dict[str, str]:
            with contextlib.closing(_Closing(self.opened())) as held:
                return {key.memory_id: key.user_id async for page in held.index.scan(space) for key, _ in page}

        return asyncio.run(scan())

    def active(self) -> dict[str, str]:
        """User by memory id of every active memory."""
        found = {}
        for user in self.users:
            with contextlib.closing(Client(self.service.address, user)) as client:
                found.update({memory.id: user for memory in listed(client, page_size=1000)})
        return found

    def agree(self, space: str | None = None) -> bool:
        return self.vectors(space or self.model.space) == self.active()

    def stats(self) -> admin.GetStatsResponse:
        with contextlib.closing(Client(self.service.address)) as client:
            answer: admin.GetStatsResponse = client.GetStats(admin.GetStatsRequest())
            return answer

    def settle(self) -> None:
        eventually(lambda: self.stats().outbox_rows == 0, 40, "the outbox")

    def job(self, id: str) -> admin.Job:
        with contextlib.closing(Client(self.service.address)) as client:
            found: admin.Job = client.GetJob(admin.GetJobRequest(id=id)).job
            return found

    def run(self, request: Any, seconds: float = 60) -> admin.Job:
        """Runs a job to its end, which must be a good one."""
        with contextlib.closing(Client(self.service.address)) as client:
            kind = type(request).__name__.removesuffix("Request")
            id = getattr(client, kind)(request).job.id
        job: admin.Job = eventually(lambda: (job := self.job(id)).state in DONE and job, seconds, kind)
        assert job.state == admin.JOB_STATE_SUCCEEDED, job.error
        return job


class _Closing:
    """Closes an index of another event loop's making."""

    def __init__(self, index: MilvusIndex) -> None:
        self.index = index

    def close(self) -> None:
        self.index._pool.shutdown(wait=False)
