"""One MemoryService process per deployment, for the whole session: embedded, and production with and without
`recall.dense_leg=index`. Every acceptance test runs on all of them, each with a user of its own.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterator

import pytest
from pymilvus import MilvusClient

from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from tests.service import Client, ServiceProcess, eventually

DEPLOYMENTS = [
    "embedded",
    pytest.param("production", marks=pytest.mark.servers),
    pytest.param("production-index", marks=pytest.mark.servers),
]


def production(request: pytest.FixtureRequest, **more: str) -> dict[str, str]:
    """Environment of a deployment on MariaDB, Redis and Milvus, with a database and cache keys of its own."""
    mariadb = request.getfixturevalue("mariadb")
    redis = request.getfixturevalue("redis_server")
    milvus = request.getfixturevalue("milvus_server")
    name = f"test_{uuid.uuid4().hex}"
    # One installation a Milvus database: the reconciler of another one would take its vectors for orphans.
    with contextlib.closing(MilvusClient(milvus.url)) as vectors:
        vectors.create_database(name)
    return {
        "PALIMPSEST_DATABASE_URL": mariadb.create_database(name),
        "PALIMPSEST_REDIS_URL": redis.url,
        "PALIMPSEST_MILVUS_URI": milvus.url,
        "PALIMPSEST_MILVUS_DATABASE": name,
        # All servers share the machine with the tests here: its default of 2 s is for a Milvus of its own.
        "PALIMPSEST_INDEX__TIMEOUT_SECONDS": "10",
        **more,
    }


def environment_of(request: pytest.FixtureRequest, deployment: str, **more: str) -> dict[str, str]:
    """Environment of a service of the deployment's kind, with a record of its own."""
    if deployment == "embedded":
        return more
    if deployment == "production-index":
        more["PALIMPSEST_RECALL__DENSE_LEG"] = "index"
    return production(request, **more)


SEARCHING = {"test_first_story", "test_recalling", "test_isolation", "test_late_vectors", "test_conversations"}
"""Modules that recall. `production-index` differs from `production` in that alone, so it runs these and no others."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what would be the same test on the same deployment twice."""

    def repeated(item: pytest.Item) -> bool:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        return parameters.get("deployment") == "production-index" and item.path.stem not in SEARCHING

    config.hook.pytest_deselected(items=[item for item in items if repeated(item)])
    items[:] = [item for item in items if not repeated(item)]


@pytest.fixture(scope="session", params=DEPLOYMENTS)
def deployment(request: pytest.FixtureRequest) -> str:
    """Name of the deployment under test."""
    return str(request.param)


@pytest.fixture(scope="session")
def service(request: pytest.FixtureRequest, deployment: str) -> Iterator[ServiceProcess]:
    """The running service."""
    with ServiceProcess(environment_of(request, deployment)) as process:
        yield process


def _first_vector(process: ServiceProcess) -> None:
    """Waits until the index has made its collection, which the first vector asks for and takes Milvus some seconds."""
    client = Client(process.address)
    client.SaveMemory(pb.SaveMemoryRequest(type=m.MEMORY_TYPE_FACT, content="The first vector"))
    eventually(lambda: not client.GetStats(admin.GetStatsRequest()).outbox_rows, 60, "the first vector in the index")
    client.close()


@pytest.fixture
def client_of(service: ServiceProcess) -> Iterator[Callable[..., Client]]:
    """Makes clients, each of a user of its own unless one is named."""
    clients: list[Client] = []

    def make(user: str | None = None) -> Client:
        clients.append(Client(service.address, user))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(client_of: Callable[..., Client]) -> Client:
    """A client of a new user."""
    return client_of()
