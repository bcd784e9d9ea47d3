"""Errors that a use case may raise and a caller may read. What they become on the wire is `grpc_errors`' business.

Whatever a message or a metadata value says is sent to the caller: no store's text, path, host or statement belongs in
it. Put the cause behind it with `raise ... from error`; the cause is logged, never sent. This module imports no grpc.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing wrong with a request: the field's path as in the contract (`drafts[3].content`), and a sentence."""

    field: str
    description: str


class ServiceError(Exception):
    """Base of all. `reason` is UPPER_SNAKE_CASE and for programs, the message is for people."""

    default_reason: ClassVar[str] = "INTERNAL"
    default_message: ClassVar[str] = "Internal error."

    def __init__(
        self,
        message: str = "",
        *,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        retry_after: float = 0.0,
    ) -> None:
        self.message = message or self.default_message
        self.reason = reason or self.default_reason
        self.metadata: dict[str, str] = dict(metadata or {})
        self.retry_after = retry_after
        """Seconds after which a repeat may succeed; 0 says nothing about it."""
        super().__init__(self.message)


class InvalidArgument(ServiceError):
    """The request is wrong whatever the state is. Carries every violation at once."""

    default_reason = "INVALID_REQUEST"

    def __init__(
        self,
        violations: Sequence[Violation],
        *,
        message: str = "",
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self.violations = tuple(violations)
        super().__init__(message or _summary(self.violations), reason=reason, metadata=metadata)


class NotFound(ServiceError):
    """There is no such thing, or the caller may not know that there is."""

    default_reason = "NOT_FOUND"
    default_message = "Not found."


class Aborted(ServiceError):
    """Something else changed the state first; read again and repeat."""

    default_reason = "CONFLICT"
    default_message = "Changed by someone else meanwhile; read it again and repeat."


class FailedPrecondition(ServiceError):
    """The state forbids it; a repeat does not help."""

    default_reason = "FAILED_PRECONDITION"
    default_message = "Not possible in the present state."


class PermissionDenied(ServiceError):
    """The caller is known and may not do this."""

    default_reason = "PERMISSION_DENIED"
    default_message = "Not allowed."


class Unauthenticated(ServiceError):
    """Who calls is not established."""

    default_reason = "UNAUTHENTICATED"
    default_message = "Credentials are missing or not valid."


class ResourceExhausted(ServiceError):
    """A limit is reached; later there may be room."""

    default_reason = "RESOURCE_EXHAUSTED"
    default_message = "A limit is reached; try again later."

    def __init__(
        self,
        message: str = "",
        *,
        retry_after: float = 1.0,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, reason=reason, metadata=metadata, retry_after=retry_after)


class Unavailable(ServiceError):
    """What the answer needs cannot be reached now; a repeat may succeed."""

    default_reason = "UNAVAILABLE"
    default_message = "Not available at the moment; try again."

    def __init__(
        self,
        message: str = "",
        *,
        retry_after: float = 1.0,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, reason=reason, metadata=metadata, retry_after=retry_after)


class DeadlineExceeded(ServiceError):
    """The time for the call ran out. A change may or may not have happened; `request_id` makes a repeat safe."""

    default_reason = "DEADLINE_EXCEEDED"
    default_message = "The time for this call ran out."


class Unimplemented(ServiceError):
    """This server has no such method."""

    default_reason = "METHOD_UNKNOWN"
    default_message = "This server has no such method."


def _summary(violations: Sequence[Violation]) -> str:
    if not violations:
        return "The request is not valid."
    first = violations[0]
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    return f"{first.field}: {first.description}{more}"
