"""The connection to an OpenAI-compatible endpoint, for everything here that speaks with one.

Owns how the client is made and what may be said of its failures. What it sends is text of users, to the configured
address and nowhere else: proxies, keys and log settings of the environment are not looked at, redirects are not
followed, and the client's own log, which would hold requests, is off below INFO. Refuses to retry and to time calls:
its users do.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openai import AsyncOpenAI


class WrongAnswer(Exception):
    """The endpoint answered 200 and not what was asked for. Its text is our own words, never the endpoint's."""


class ConnectionClosed(Exception):
    """The connection was closed on our side."""


class OpenAIConnection:
    """One client, made at the first use: importing it takes a second. Bound to the event loop of that use."""

    def __init__(self, base_url: str, api_key: str, timeout: float, *, retries: int = 0) -> None:
        """`timeout` in seconds and `retries` are the client's, for one HTTP request; "" = an endpoint without keys."""
        self._base_url = base_url
        self._api_key = api_key
        self._timeout = timeout
        self._retries = retries
        self._made: asyncio.Task[AsyncOpenAI] | None = None
        self._closed = False

    async def client(self) -> "AsyncOpenAI":
        """The client. Raises ConnectionClosed. A call that is given up meanwhile does not end its making."""
        if self._closed:
            raise ConnectionClosed("the client is closed")
        if self._made is None:
            self._made = asyncio.ensure_future(
                asyncio.to_thread(_client, self._base_url, self._api_key, self._timeout, self._retries)
            )
        made = self._made
        await asyncio.wait({made})
        if made.cancelled() or made.exception() is not None:
            self._made = None
        if self._closed:
            raise ConnectionClosed("the client is closed")
        return made.result()

    async def close(self) -> None:
        """Closes the connections; calls in flight fail. Again is once."""
        self._closed = True
        made, self._made = self._made, None
        if made is not None:
            await asyncio.wait({made})
            if not made.cancelled() and made.exception() is None:
                await made.result().close()


def told(error: Exception) -> str:
    """What may be said of a failure: our own words, or the kind of the client's error and its status.

    Raise what holds it `from None`: the client's error has the request with its headers, and the endpoint's words.
    """
    if isinstance(error, WrongAnswer):
        return f"wrong answer: {error}"
    if isinstance(error, ConnectionClosed):
        return str(error)
    if isinstance(error, TimeoutError):
        return "no answer in time"
    status = getattr(error, "status_code", None)
    return type(error).__name__ + (f", status {status}" if isinstance(status, int) else "")


def _client(base_url: str, api_key: str, timeout: float, retries: int) -> "AsyncOpenAI":
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Omit

    logging.getLogger("openai").setLevel(logging.INFO)  # at DEBUG it writes whole requests
    return AsyncOpenAI(
        base_url=base_url,
        api_key=api_key or "none",  # an endpoint without keys ignores it; empty would be read from the environment
        timeout=timeout,
        max_retries=retries,
        default_headers={"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()},  # type: ignore[dict-item]
        http_client=DefaultAsyncHttpxClient(trust_env=False, follow_redirects=False, timeout=timeout),
    )
