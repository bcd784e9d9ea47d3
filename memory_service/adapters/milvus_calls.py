"""What is asked of a Milvus client: a function per round trip, and making a collection. Blocking: for threads."""

from collections.abc import Iterator
from typing import Any, Final

from pymilvus import DataType, MilvusClient, MilvusException
from pymilvus.client.types import LoadState

from memory_service.adapters.milvus_expressions import compare, one_of
from memory_service.adapters.milvus_link import Link
from memory_service.ports import IndexQuery, IndexRow

DDL_SECONDS: Final = 60.0
SCAN_PAGE: Final = 8_192  # at most 257 + 128 bytes a row: below 4 MB
SEPARATOR: Final = "#"  # no id has it, so (user, memory) -> key is one to one
MAX_ROWS: Final = 1_000  # of one upsert or delete
_MAX_BYTES: Final = 4 << 20  # of one upsert
_PARTITIONS: Final = 64


def row_key(user_id: str, memory_id: str) -> str:
    return f"{user_id}{SEPARATOR}{memory_id}"


def same_dim(dim: int, other: int) -> None:
    if dim != other:
        raise ValueError(f"a vector of {other} dimensions in a space of {dim}")


def batches(rows: list[IndexRow], dim: int) -> Iterator[list[dict[str, Any]]]:
    size = max(1, min(MAX_ROWS, _MAX_BYTES // (dim * 4 + 1_024)))  # ids and numbers take less than 1 KiB
    for start in range(0, len(rows), size):
        yield [
            {
                "id": row_key(row.user_id, row.memory_id),
                "user_id": row.user_id,
                "generation": row.generation,
                "type": int(row.type),
                "shard": int(row.shard),
                "happened_at": int(row.happened_at),
                "vector": row.vector,
            }
            for row in rows[start : start + size]
        ]


def upsert(client: MilvusClient, *, name: str, rows: list[dict[str, Any]], timeout: float) -> None:
    # Not the server's own upsert: 2.3.5 takes the primary key for the partition key there (milvus-io/milvus#30607),
    # so that a search with a user finds next to none of the rows.
    delete(client, name=name, ids=[row["id"] for row in rows], timeout=timeout)
    client.insert(name, rows, timeout=timeout)


def delete(client: MilvusClient, *, name: str, ids: list[str], timeout: float) -> None:
    if condition := one_of("id", ids):
        client.delete(name, filter=condition, timeout=timeout)


def search(
    client: MilvusClient, *, name: str, query: IndexQuery, condition: str, link: Link
) -> list[tuple[str, float]]:
    found = client.search(
        name,
        data=[query.vector],
        anns_field="vector",
        filter=condition,
        limit=query.limit,
        search_params={"metric_type": "COSINE", "params": {} if link.lite else {"ef": max(64, query.limit)}},
        consistency_level="Bounded",
        timeout=link.timeout,
    )
    return [(str(hit["id"]), float(hit["distance"])) for hit in found[0]]


def page(client: MilvusClient, *, name: str, after: str, timeout: float) -> list[dict[str, Any]]:
    # `iterator` makes Lite answer in order of key (a server always does) and both read at the collection's own level.
    rows = client.query(
        name,
        filter=compare("id", ">", after),
        output_fields=["id", "generation"],
        limit=SCAN_PAGE,
        timeout=timeout,
        iterator="True",
    )
    return list(rows)


def dim_of(client: MilvusClient, *, name: str, timeout: float) -> int:
    fields = client.describe_collection(name, timeout=timeout)["fields"]
    return next(int(field["params"]["dim"]) for field in fields if field["name"] == "vector")


def ensure(client: MilvusClient, *, name: str, space: str, dim: int, lite: bool) -> int:
    """Creates, indexes and loads whatever of that is not done; answers the collection's dimension."""
    if not client.has_collection(name, timeout=DDL_SECONDS):
        try:
            _create(client, name, space, dim)
        except MilvusException:  # another process was faster, or it is a real error
            if not client.has_collection(name, timeout=DDL_SECONDS):
                raise
    found = dim_of(client, name=name, timeout=DDL_SECONDS)
    index = MilvusClient.prepare_index_params()
    if lite:
        index.add_index("vector", index_type="FLAT", metric_type="COSINE")
    else:
        index.add_index("vector", index_type="HNSW", metric_type="COSINE", params={"M": 16, "efConstruction": 64})
    if not client.list_indexes(name, "vector", timeout=DDL_SECONDS):
        try:
            client.create_index(name, index, timeout=DDL_SECONDS)
        except MilvusException:
            if not client.list_indexes(name, "vector", timeout=DDL_SECONDS):
                raise
    if client.get_load_state(name, timeout=DDL_SECONDS)["state"] not in (LoadState.Loaded, LoadState.Loading):
        client.load_collection(name, timeout=DDL_SECONDS)
    return found


def _create(client: MilvusClient, name: str, space: str, dim: int) -> None:
    # Lengths are bytes; ids are ASCII. The key is user, separator, memory id: 128 + 1 + 128.
    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False, description=space)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=257)
    schema.add_field("user_id", DataType.VARCHAR, is_partition_key=True, max_length=128)
    schema.add_field("generation", DataType.VARCHAR, max_length=128)
    schema.add_field("type", DataType.INT8)
    schema.add_field("shard", DataType.INT8)
    schema.add_field("happened_at", DataType.INT64)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dim)
    client.create_collection(
        name, schema=schema, num_partitions=_PARTITIONS, consistency_level="Strong", timeout=DDL_SECONDS
    )
