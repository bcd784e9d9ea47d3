"""Short forms of the calls that most acceptance tests make, and what they check in every answer. No test is in here."""

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import SecretStr

from shared.auth import mint_dev_token
from shared.config import AuthSettings
from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from shared.grpc_errors import DOMAIN, details_of
from tests.service import Client, Refusal

FACT, PREFERENCE, CONTEXT = m.MEMORY_TYPE_FACT, m.MEMORY_TYPE_PREFERENCE, m.MEMORY_TYPE_CONTEXT
GENERAL, IDENTITY, TRANSACTION = m.MEMORY_SHARD_GENERAL, m.MEMORY_SHARD_IDENTITY, m.MEMORY_SHARD_TRANSACTION
ADDED, DUPLICATE = pb.SAVE_OUTCOME_ADDED, pb.SAVE_OUTCOME_DUPLICATE
REPLACED, FILTERED = pb.SAVE_OUTCOME_REPLACED, pb.SAVE_OUTCOME_FILTERED
INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
ABORTED = grpc.StatusCode.ABORTED


def stamp(when: datetime) -> Timestamp:
    """A Timestamp of a time with a zone."""
    message = Timestamp()
    message.FromDatetime(when.astimezone(UTC))
    return message


def seconds_from_now(seconds: float) -> Timestamp:
    """A Timestamp that many seconds ahead."""
    return stamp(datetime.now(UTC) + timedelta(seconds=seconds))


def draft(content: str, type: int = FACT, **more: Any) -> pb.MemoryDraft:
    """A draft for a batch."""
    return pb.MemoryDraft(type=type, content=content, **more)


def save(client: Client, content: str, type: int = FACT, **more: Any) -> pb.SaveMemoryResponse:
    """SaveMemory."""
    answer: pb.SaveMemoryResponse = client.SaveMemory(pb.SaveMemoryRequest(type=type, content=content, **more))
    assert answer.reason
    assert answer.freshness
    return answer


def added(client: Client, content: str, type: int = FACT, **more: Any) -> m.Memory:
    """The memory of a save that must be new."""
    answer = save(client, content, type, **more)
    assert answer.outcome == ADDED, answer.reason
    return answer.memory


def batch(client: Client, drafts: Iterable[pb.MemoryDraft], **more: Any) -> list[pb.SaveMemoryResponse]:
    """BatchSaveMemories; answers the results."""
    return list(client.BatchSaveMemories(pb.BatchSaveMemoriesRequest(drafts=drafts, **more), timeout=60).results)


def get(client: Client, id: str) -> m.Memory:
    """GetMemory."""
    memory: m.Memory = client.GetMemory(pb.GetMemoryRequest(id=id)).memory
    return memory


def listed(client: Client, **more: Any) -> list[m.Memory]:
    """All memories of a list, page after page."""
    found: list[m.Memory] = []
    token = ""
    while True:
        page = client.ListMemories(pb.ListMemoriesRequest(page_token=token, **more))
        found += page.memories
        token = page.next_page_token
        if not token:
            return found


def texts(client: Client, **more: Any) -> list[str]:
    """The contents of a list."""
    return [memory.content for memory in listed(client, **more)]


def recall(client: Client, query: str, **more: Any) -> list[m.Memory]:
    """The memories of a recall, best first. It must not be degraded: all stores are up."""
    answer = client.RecallMemories(pb.RecallMemoriesRequest(query=query, **more))
    assert not answer.degraded, answer.degraded_reasons
    return [hit.memory for hit in answer.hits]


def update(client: Client, id: str, *paths: str, etag: str = "", request_id: str = "", **values: Any) -> Any:
    """UpdateMemory with these paths as its mask."""
    request = pb.UpdateMemoryRequest(memory=m.Memory(id=id, etag=etag, **values), request_id=request_id)
    request.update_mask.paths.extend(paths or values)
    return client.UpdateMemory(request)


def invalidate(client: Client, id: str, **more: Any) -> m.Memory:
    """InvalidateMemory."""
    memory: m.Memory = client.InvalidateMemory(pb.InvalidateMemoryRequest(id=id, **more)).memory
    return memory


def restore(client: Client, id: str, **more: Any) -> pb.RestoreMemoryResponse:
    """RestoreMemory."""
    answer: pb.RestoreMemoryResponse = client.RestoreMemory(pb.RestoreMemoryRequest(id=id, **more))
    return answer


def clear(client: Client, **more: Any) -> int:
    """ClearMemories; answers how many."""
    return int(client.ClearMemories(pb.ClearMemoriesRequest(**more)).cleared_count)


def uuid_text() -> str:
    """A request id, or the id of nothing."""
    return str(uuid.uuid4())


def fields(refusal: Refusal) -> list[str]:
    """Paths of the fields that an INVALID_ARGUMENT names; checks that each comes with a sentence."""
    assert refusal.details.domain == DOMAIN
    assert all(violation.description for violation in refusal.details.violations)
    return [violation.field for violation in refusal.details.violations]


SECRET = "a-secret-of-the-acceptance-tests-" + "0123456789abcdef" * 3
JWT = {"PALIMPSEST_AUTH__MODE": "jwt", "PALIMPSEST_AUTH__SECRET": SECRET}
EVERY_SCOPE = ("memory:read", "memory:write", "memory:admin")


def bearer(
    address: str,
    user: str,
    scopes: Iterable[str] = EVERY_SCOPE,
    *,
    shards: Iterable[str] | None = None,
    act_for: str | None = None,
    act_as_prefix: str | None = None,
) -> Client:
    """A client with a token of a service that runs in mode jwt. `act_for` goes into x-user-id."""
    settings = AuthSettings(mode="jwt", secret=SecretStr(SECRET))
    token = mint_dev_token(settings, sub=user, scopes=scopes, ttl=600, shards=shards, act_as_prefix=act_as_prefix)
    headers = (("authorization", f"Bearer {token}"),) + ((("x-user-id", act_for),) if act_for is not None else ())
    return Client(address, act_for or user, headers=headers)


def raw_call(client: Client, rpc: str, body: bytes, service: str = "MemoryService") -> Any:
    """Sends bytes that no message class would make; answers the details of the refusal, or None when it succeeded."""
    method = client._channel.unary_unary(f"/palimpsest.memory.v1.{service}/{rpc}")  # takes and answers bytes
    try:
        method(body, timeout=20, metadata=(("x-user-id", client.user),))
    except grpc.RpcError as error:
        return details_of(error)
    return None
