"""Spans around the stores: one proxy for every port, so that no adapter knows about tracing."""

import functools
import inspect
from typing import Any, TypeVar

from shared.telemetry import Telemetry

P = TypeVar("P")


class _Traced:
    def __init__(self, inner: Any, store: str, telemetry: Telemetry) -> None:
        self._inner = inner
        self._store = store
        self._telemetry = telemetry

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(value):
            return value

        @functools.wraps(value)
        async def call(*args: Any, **kwargs: Any) -> Any:
            # Names and nothing else: arguments may hold text.
            with self._telemetry.store_span(f"{self._store}.{name}"):
                return await value(*args, **kwargs)

        setattr(self, name, call)
        return call


def traced(port: P, store: str, telemetry: Telemetry) -> P:
    """The port, with a span `store.method` around each of its coroutine methods; as it is when nothing is traced."""
    if not telemetry.enabled:
        return port
    proxy: Any = _Traced(port, store, telemetry)
    result: P = proxy
    return result
