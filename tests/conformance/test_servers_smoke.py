"""The real test servers are what the other suites take them for: they answer, can be frozen, and keep their data."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pymysql  # type: ignore[import-untyped]
import pytest
import redis
from pymilvus import DataType, MilvusClient, MilvusException

from tests.servers import MariaDB, Milvus, Redis, Server, ServerStartError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def frozen() -> Iterator[list[Server]]:
    """Servers put in here go on after the test, whatever became of it."""
    servers: list[Server] = []
    yield servers
    for server in servers:
        server.resume()


def test_mariadb_keeps_acknowledged_rows_through_sigkill(mariadb: MariaDB) -> None:
    dsn = mariadb.create_database("smoke_kill")
    assert dsn == f"mysql+aiomysql://root:palimpsest@127.0.0.1:{mariadb.port}/smoke_kill?charset=utf8mb4"
    with contextlib.closing(mariadb.connect("smoke_kill")) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, content TEXT)")
        cursor.execute("INSERT INTO t VALUES (1, '我用 MySQL 8 🐬')")
    first = mariadb.pid
    mariadb.kill()
    with pytest.raises(pymysql.err.OperationalError):
        mariadb.connect("smoke_kill")
    mariadb.restart()
    assert mariadb.pid != first
    with contextlib.closing(mariadb.connect("smoke_kill")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT content, VERSION() FROM t WHERE id = 1")
        content, version = cursor.fetchone()
    assert content == "我用 MySQL 8 🐬"
    assert version.startswith(mariadb.version)
    mariadb.drop_database("smoke_kill")


def test_mariadb_pauses_and_resumes(mariadb: MariaDB, frozen: list[Server]) -> None:
    with contextlib.closing(mariadb.connect()) as connection, connection.cursor() as cursor:
        mariadb.pause()
        frozen.append(mariadb)
        connection._read_timeout = 0.3
        with pytest.raises(pymysql.err.OperationalError, match="timed out"):
            cursor.execute("SELECT 1")
    mariadb.resume()
    with contextlib.closing(mariadb.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_redis_pauses_and_resumes(redis_server: Redis, frozen: list[Server]) -> None:
    with redis.Redis.from_url(redis_server.url, socket_timeout=0.3, retry=None) as client:
        assert client.set("smoke", "值") is True
        redis_server.pause()
        frozen.append(redis_server)
        with pytest.raises(redis.TimeoutError):
            client.get("smoke")
        redis_server.resume()
        assert client.getdel("smoke") == "值".encode()


@pytest.mark.parametrize(("persistent", "kept"), [(True, b"1"), (False, None)])
@pytest.mark.servers
def test_redis_keeps_its_data_through_sigkill_only_if_asked(persistent: bool, kept: bytes | None) -> None:
    with Redis(persistent=persistent) as server, redis.Redis.from_url(server.url) as client:
        client.set("k", 1)
        server.kill()
        server.restart()
        assert client.get("k") == kept


def test_milvus_pauses_and_resumes(milvus_server: Milvus, frozen: list[Server]) -> None:
    health = f"http://127.0.0.1:{milvus_server.metrics_port}/healthz"
    milvus_server.pause()
    frozen.append(milvus_server)
    with pytest.raises(TimeoutError):
        urllib.request.urlopen(health, timeout=0.5)
    milvus_server.resume()
    with urllib.request.urlopen(health, timeout=10) as answer:
        assert answer.read() == b"OK"


def test_milvus_finds_all_rows_of_a_growing_segment(milvus_server: Milvus) -> None:
    """Needs the interim index off: with it this same set gives a recall near 0.5."""
    rows, users, dimensions, asked, limit = 24_000, 160, 128, 10, 20
    rng = np.random.default_rng(1)
    topics = rng.normal(size=(200, dimensions))
    vectors = topics[rng.integers(200, size=rows)] + 0.9 * rng.normal(size=(rows, dimensions))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    client = MilvusClient(milvus_server.url, timeout=60)
    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("user", DataType.INT64)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimensions)
    index = client.prepare_index_params()
    index.add_index("vector", index_type="HNSW", metric_type="COSINE", params={"M": 16, "efConstruction": 64})
    try:
        client.create_collection("smoke_growing", schema=schema, index_params=index)
        for start in range(0, rows, 4_000):
            numbers = range(start, start + 4_000)
            data = [{"id": n, "user": n % users, "vector": vectors[n].tolist()} for n in numbers]
            client.insert("smoke_growing", data)
        found = 0
        for user in range(asked):
            own = np.arange(user, rows, users)
            nearest = own[np.argsort(-(vectors[own] @ vectors[user]))[:limit]]
            hits = client.search(
                "smoke_growing",
                [vectors[user].tolist()],
                filter=f"user == {user}",
                limit=limit,
                search_params={"params": {"ef": 64}},
                consistency_level="Strong",
            )
            found += len({hit["id"] for hit in hits[0]} & set(nearest.tolist()))
        assert found == asked * limit
    finally:
        client.drop_collection("smoke_growing")
        client.close()


@pytest.mark.servers
def test_milvus_keeps_acknowledged_rows_through_sigkill_beside_another_milvus(milvus_server: Milvus) -> None:
    with Milvus() as server:
        assert server.pid != milvus_server.pid
        client = MilvusClient(server.url, timeout=60)
        client.create_collection("smoke_kill", dimension=4, metric_type="COSINE", consistency_level="Strong")
        client.insert("smoke_kill", [{"id": 7, "vector": [1.0, 0.0, 0.0, 0.0]}])
        client.close()
        server.kill()
        server.restart()
        client = MilvusClient(server.url, timeout=60)
        rows = _query_when_loaded(client, "smoke_kill", 7)
        client.close()
    assert [row["id"] for row in rows] == [7]


def _query_when_loaded(client: MilvusClient, collection: str, key: int) -> list[dict[str, Any]]:
    """A restarted 2.3.5 is healthy some seconds before it has loaded its collections again; until then it refuses."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return list(client.query(collection, ids=[key], output_fields=["id"], timeout=3))
        except (MilvusException, grpc.RpcError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


@pytest.mark.servers
def test_a_server_that_does_not_come_up_shows_the_end_of_its_log() -> None:
    with Redis() as first:
        second = Redis()
        second.port = first.port
        with pytest.raises(ServerStartError, match=r"Redis ended with 1; last lines of .*server\.log:\n[\s\S]*in use"):
            second.start()
        second.close()


@pytest.mark.servers
def test_a_server_ends_with_the_process_that_started_it() -> None:
    script = "import os; from tests.servers import Redis; s = Redis(); s.start(); print(s.pid, s.folder, flush=True)"
    script += "; os._exit(0)"  # no clean-up of any kind
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    pid, folder = done.stdout.strip().split(" ", 1)
    deadline = time.monotonic() + 10
    with pytest.raises(ProcessLookupError):  # noqa: PT012 - polls until there is no such process
        while time.monotonic() < deadline:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                raise ProcessLookupError  # ended; nobody has asked for its status yet
            os.kill(int(pid), signal.SIGCONT)
            time.sleep(0.02)
    Path(folder, "server.log").unlink()
    Path(folder).rmdir()
