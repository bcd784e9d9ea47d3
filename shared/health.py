"""Health by component, and the standard health service that shows it.

A server is healthy while every component is: the record, the schema, and so on, with shutdown as one more. All services
follow that sum; `liveness` is SERVING as long as the loop runs to say so. What a component's check is, and how often it
is made, is its owner's business.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from typing import Any, TypeAlias

from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]

from shared.errors import NotFound

HEALTH_SERVICE = "grpc.health.v1.Health"
_Status: TypeAlias = int
_LIVENESS = "liveness"
_SERVING: _Status = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING: _Status = health_pb2.HealthCheckResponse.NOT_SERVING

logger = logging.getLogger(__name__)


class HealthBoard:
    """The components' states. Lives on one event loop. A component is not ok until it is set ok."""

    def __init__(self, services: Iterable[str], components: Iterable[str] = ()) -> None:
        self.services = tuple(services)
        """Fully qualified names of what the server serves, health and reflection aside."""
        self._failing: dict[str, str] = dict.fromkeys(components, "not checked yet")
        self._closing = asyncio.Event()
        self._changed = asyncio.Event()

    def set(self, component: str, ok: bool, why: str = "") -> None:
        """Reports a component. `why` is for the log; only a change is logged."""
        was_ok = component not in self._failing
        if ok:
            self._failing.pop(component, None)
        else:
            self._failing[component] = why
        if was_ok != ok:
            logger.log(logging.INFO if ok else logging.WARNING, "%s is %s %s", component, "ok" if ok else "not ok", why)
            self._tell()

    def close(self) -> None:
        """The server stops: NOT_SERVING from here on, whatever the components say."""
        self._closing.set()
        self._tell()

    @property
    def serving(self) -> bool:
        """Whether every component is ok and the server does not stop."""
        return not self._failing and not self._closing.is_set()

    @property
    def failing(self) -> dict[str, str]:
        """The components that are not ok, and why."""
        return dict(self._failing)

    @property
    def closing(self) -> asyncio.Event:
        """Set when the server stops: streams that would never end should end then."""
        return self._closing

    def status(self, service: str) -> _Status | None:
        """A service's ServingStatus; None for a name that is not served."""
        if service == _LIVENESS:
            return _SERVING
        if service in ("", HEALTH_SERVICE, *self.services):
            return _SERVING if self.serving else _NOT_SERVING
        return None

    async def watch(self, service: str) -> AsyncIterator[_Status | None]:
        """The status now and at each change, until the server stops."""
        last: _Status | None = -1
        while True:
            changed = self._changed
            status = self.status(service)
            if status != last:
                last = status
                yield status
            if self._closing.is_set():
                return
            await changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class HealthServicer:
    """grpc.health.v1.Health over a board. Ours, because the library's holds up a drain until its watchers leave."""

    def __init__(self, board: HealthBoard) -> None:
        self._board = board

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Any) -> health_pb2.HealthCheckResponse:  # noqa: N802
        """The status now; NOT_FOUND for a name that is not served."""
        status = self._board.status(request.service)
        if status is None:
            raise NotFound("This server does not serve that service.", reason="SERVICE_UNKNOWN")
        return _response(status)

    async def List(self, request: health_pb2.HealthListRequest, context: Any) -> health_pb2.HealthListResponse:  # noqa: N802
        """The status of every name."""
        names = ("", _LIVENESS, HEALTH_SERVICE, *self._board.services)
        return health_pb2.HealthListResponse(statuses={name: _response(self._board.status(name)) for name in names})

    async def Watch(  # noqa: N802
        self, request: health_pb2.HealthCheckRequest, context: Any
    ) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        """The status at each change; SERVICE_UNKNOWN for a name that is not served. Ends when the server stops."""
        async for status in self._board.watch(request.service):
            yield _response(status)


def _response(status: _Status | None) -> health_pb2.HealthCheckResponse:
    shown = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN if status is None else status
    return health_pb2.HealthCheckResponse(status=shown)
