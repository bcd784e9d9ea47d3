"""What every layer below the server may ask about the call in progress: its request id and how much time is left.

Owns two context variables and nothing else. Imports no grpc, so use cases and adapters may use it. Outside of a call
(background work, tests) there is no request id and no deadline.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_request_id: ContextVar[str] = ContextVar("palimpsest_request_id", default="")
_deadline: ContextVar[float | None] = ContextVar("palimpsest_deadline", default=None)


def request_id() -> str:
    """Id of the call in progress, as logged and as sent with an error; empty outside of a call."""
    return _request_id.get()


def set_request_id(value: str) -> None:
    """Sets the id for the current task and what it starts."""
    _request_id.set(value)


def current_deadline() -> float | None:
    """When the call must have ended, on the event loop's clock in seconds; None when nothing bounds it."""
    return _deadline.get()


def time_left() -> float | None:
    """Seconds until `current_deadline()`, never below zero; None when nothing bounds the call."""
    deadline = _deadline.get()
    return None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())


@contextmanager
def deadline_anew(seconds: float) -> Iterator[None]:
    """Within the block that much time is left, whatever the call had: for work that outlives the call's answer."""
    token = _deadline.set(asyncio.get_running_loop().time() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


@contextmanager
def deadline_at(when: float | None) -> Iterator[None]:
    """Within the block, `current_deadline()` is `when` or the surrounding deadline, whichever is earlier."""
    outer = _deadline.get()
    token = _deadline.set(outer if when is None else when if outer is None else min(outer, when))
    try:
        yield
    finally:
        _deadline.reset(token)
