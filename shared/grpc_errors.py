"""What an exception becomes on the wire: one ordered rewrite to google.rpc.Status that ends in a sanitizer.

Owns the mapping, the log line of what is hidden from the caller, and reading the details back. Nothing that is not a
`ServiceError` is ever sent; its text is logged with the request id, which is what the caller gets.
"""

import asyncio
import base64
import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from shared.config_names import mask_urls
from shared.errors import (
    Aborted,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    ServiceError,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    Violation,
)

DOMAIN = "palimpsest.dev"
REQUEST_ID_KEY = "x-request-id"
_DETAILS_KEY = "grpc-status-details-bin"
# A peer's gRPC refuses headers and trailers beyond 8 KiB by default, and the whole error with them. The details travel
# as base64 (4/3), the message percent-encoded.
_DETAILS_BYTES = 4096
_MESSAGE_BYTES = 1024

Translate = Callable[[BaseException], ServiceError | None]
"""A service's own exceptions (a port's, the domain's) as ServiceErrors; None for what it does not know."""

_CODES: tuple[tuple[type[ServiceError], grpc.StatusCode], ...] = (
    (InvalidArgument, grpc.StatusCode.INVALID_ARGUMENT),
    (Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (PermissionDenied, grpc.StatusCode.PERMISSION_DENIED),
    (NotFound, grpc.StatusCode.NOT_FOUND),
    (Aborted, grpc.StatusCode.ABORTED),
    (FailedPrecondition, grpc.StatusCode.FAILED_PRECONDITION),
    (ResourceExhausted, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Unavailable, grpc.StatusCode.UNAVAILABLE),
    (DeadlineExceeded, grpc.StatusCode.DEADLINE_EXCEEDED),
    (Unimplemented, grpc.StatusCode.UNIMPLEMENTED),
)

logger = logging.getLogger(__name__)


def rewrite(
    error: BaseException, request_id: str, translate: Translate | None = None
) -> tuple[grpc.StatusCode, status_pb2.Status]:
    """The status to send for an exception. Never fails, never shows what is not a ServiceError's."""
    error = _single(error)
    known = error if isinstance(error, ServiceError) else translate(error) if translate is not None else None
    if known is not None:
        for kind, code in _CODES:
            if isinstance(known, kind):
                return code, _status(code, known, request_id)
    hidden = ServiceError(f"Internal error; quote request id {request_id}.")
    return grpc.StatusCode.INTERNAL, _status(grpc.StatusCode.INTERNAL, hidden, request_id)


def log_hidden(error: BaseException, code: grpc.StatusCode, method: str, request_id: str) -> None:
    """Logs what the caller is not told: an unknown exception, or the cause behind an answer of UNAVAILABLE."""
    level = {grpc.StatusCode.INTERNAL: logging.ERROR, grpc.StatusCode.UNAVAILABLE: logging.WARNING}.get(code)
    if level is None:
        return
    cause = error.__cause__ if isinstance(error, ServiceError) and error.__cause__ is not None else error
    text = mask_urls("".join(traceback.format_exception(cause)).rstrip())
    logger.log(level, "%s answers %s, request id %s\n%s", method, code.name, request_id, text)


def trailing(status: status_pb2.Status, request_id: str) -> tuple[tuple[str, str | bytes], ...]:
    """Trailing metadata that carries the status and the request id."""
    return ((_DETAILS_KEY, status.SerializeToString()), (REQUEST_ID_KEY, request_id))


def _single(error: BaseException) -> BaseException:
    """The exception inside a group of one, or the first of a group that holds nothing but ServiceErrors."""
    while isinstance(error, BaseExceptionGroup):
        inner = error.exceptions
        if len(inner) > 1 and not all(isinstance(one, ServiceError) for one in inner):
            break
        error = inner[0]
    return error


def _status(code: grpc.StatusCode, error: ServiceError, request_id: str) -> status_pb2.Status:
    status = status_pb2.Status(code=code.value[0], message=_cut(error.message))
    status.details.add().Pack(
        error_details_pb2.ErrorInfo(
            reason=error.reason, domain=DOMAIN, metadata={key: _safe(text) for key, text in error.metadata.items()}
        )
    )
    status.details.add().Pack(error_details_pb2.RequestInfo(request_id=request_id))
    if error.retry_after > 0:
        delay = Duration()
        delay.FromNanoseconds(round(error.retry_after * 1e9))
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    if isinstance(error, InvalidArgument):
        room = _DETAILS_BYTES - status.ByteSize() - 128
        status.details.add().Pack(_bad_request(error.violations, room))
    return status


def _bad_request(violations: tuple[Violation, ...], room: int) -> error_details_pb2.BadRequest:
    """As many violations as fit into `room` bytes; how many do not is said in the last one."""
    bad = error_details_pb2.BadRequest()
    for index, violation in enumerate(violations):
        one = error_details_pb2.BadRequest.FieldViolation(
            field=_safe(violation.field)[:256], description=_safe(violation.description)[:256]
        )
        size = one.ByteSize() + 4
        if size > room:
            bad.field_violations.add(field="*", description=f"and {len(violations) - index} more violations")
            break
        room -= size
        bad.field_violations.append(one)
    return bad


def _safe(text: str) -> str:
    """The text without lone surrogates, which protobuf refuses."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _cut(text: str) -> str:
    """The text cut so that it fits a header percent-encoded, as gRPC sends it."""
    text = _safe(text)
    if len(quote(text, safe=" ")) <= _MESSAGE_BYTES:
        return text
    while len(quote(text, safe=" ")) > _MESSAGE_BYTES - 16:
        text = text[: len(text) * 9 // 10]
    return text + "…"


class _Abortable(Protocol):
    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: Any) -> Any: ...


async def abort_with(context: _Abortable, code: grpc.StatusCode, status: status_pb2.Status, request_id: str) -> None:
    """Ends the call with the status; raises grpc.aio.AbortError, which nobody may swallow."""
    await context.abort(code, status.message, trailing(status, request_id))


def stray_cancellation(context: Any) -> bool:
    """True for a CancelledError that nobody asked this call for: an inner task was cancelled and awaited.

    Left alone, gRPC would take it for a cancelled call and answer nothing at all.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() == 0 and not context.cancelled()


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """What a failed call said. Empty fields were not sent."""

    code: grpc.StatusCode
    message: str
    reason: str = ""
    domain: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    violations: tuple[Violation, ...] = ()
    retry_after: float | None = None
    """Seconds."""
    request_id: str = ""


def details_of(error: grpc.RpcError) -> ErrorDetails:
    """Reads the details of a failed call, of grpc.aio or grpc. Details that are not readable are left out."""
    call: Any = error
    pairs = [(key, value) for key, value in (call.trailing_metadata() or ())]
    raw = next((value for key, value in pairs if key == _DETAILS_KEY), b"")
    found: dict[str, Any] = {"request_id": next((str(value) for key, value in pairs if key == REQUEST_ID_KEY), "")}
    try:
        status = status_pb2.Status.FromString(raw if isinstance(raw, bytes) else base64.b64decode(raw))
    except Exception:  # another server's idea of details
        status = status_pb2.Status()
    info, retry, bad = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
    for detail in status.details:
        if detail.Unpack(info):
            found |= {"reason": info.reason, "domain": info.domain, "metadata": dict(info.metadata)}
        elif detail.Unpack(retry):
            found["retry_after"] = retry.retry_delay.ToNanoseconds() / 1e9
        elif detail.Unpack(bad):
            found["violations"] = tuple(Violation(one.field, one.description) for one in bad.field_violations)
    return ErrorDetails(code=call.code(), message=call.details() or "", **found)
