"""A local server that speaks the OpenAI HTTP API as far as the tests need it, and misbehaves on request.

Routes are functions of the parsed request; another endpoint is another entry of `FakeOpenAI.routes`. Misbehaviour is a
queue of plans: each request takes the next one, and behaves when the queue is empty, so that a test says exactly which
of its requests goes wrong.
"""

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from memory_service.domain.subjects import told


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Reply:
    """What goes back. `hang` in seconds is waited before it."""

    status: int = 200
    body: str = "{}"
    headers: dict[str, str] = field(default_factory=dict)
    hang: float = 0.0
    cut: int = 0
    """Bytes of the end that are announced and never sent: the connection is closed instead."""


Plan = Callable[[Request, Reply], Reply]
"""Turns the honest reply into the one that is sent."""


def vector_of(text: str, dim: int) -> list[float]:
    """The fake model: a vector that depends on what the text tells alone, not of length 1.

    Like a good model it does not mind who a statement is about, so that a memory and the query of the same text agree.
    """
    seed = int.from_bytes(hashlib.sha256(told(text).encode()).digest()[:8], "big")
    return [float(x) for x in np.random.default_rng(seed).standard_normal(dim)]


class FakeOpenAI:
    """`async with FakeOpenAI() as fake`: listens on a free loopback port until the block ends."""

    def __init__(self, dim: int = 32) -> None:
        self.dim = dim
        self.plans: deque[Plan] = deque()
        self.requests: list[Request] = []
        self.asked = asyncio.Event()
        """Set by every request that arrived."""
        self.routes: dict[str, Callable[[Request], Reply]] = {
            "/v1/embeddings": self._embeddings,
            "/v1/chat/completions": self._chat,
        }
        self.say: Callable[[str, str], str] = lambda system, user: "OK."
        """What the chat model answers to a system and a user message."""
        self._server: asyncio.Server | None = None
        self._calls: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        """What a client is given as its base URL."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def __aenter__(self) -> "FakeOpenAI":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for call in list(self._calls):
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call = asyncio.ensure_future(self._serve(reader, writer))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = {
                    k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)
                }
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                request = Request(head[0].split(" ")[1], headers, json.loads(body or b"null"))
                await self._answer(request, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client hung up
        finally:
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        self.asked.set()
        route = self.routes.get(request.path)
        reply = route(request) if route else Reply(404, '{"error": {"message": "no such route"}}')
        if self.plans:
            reply = self.plans.popleft()(request, reply)
        await asyncio.sleep(reply.hang)
        payload = reply.body.encode()
        headers = {"content-type": "application/json", "content-length": str(len(payload)), **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} status", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + payload[: len(payload) - reply.cut])
        await writer.drain()
        if reply.cut:
            raise ConnectionAbortedError

    def _embeddings(self, request: Request) -> Reply:
        asked = request.body["input"]
        texts = [asked] if isinstance(asked, str) else asked
        data = [
            {"object": "embedding", "index": i, "embedding": vector_of(text, self.dim)} for i, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        return Reply(body=json.dumps({"object": "list", "model": request.body["model"], "data": data, "usage": usage}))

    def _chat(self, request: Request) -> Reply:
        said = {message["role"]: message["content"] for message in request.body["messages"]}
        text = self.say(said.get("system", ""), said["user"])
        return Reply(body=chat_body({"role": "assistant", "content": text}, "stop"))


def chat_body(message: Any, finish_reason: Any) -> str:
    """A chat completion as JSON."""
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 70, "completion_tokens": 7, "total_tokens": 77}
    return json.dumps(
        {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    )


def chats(content: Any, finish_reason: Any = "stop", **message: Any) -> Plan:
    """Answers a chat with this content, whatever its kind, and further fields of the message."""
    return says(chat_body({"role": "assistant", "content": content, **message}, finish_reason))


def refuses(parameter: str, words: str, status: int = 400) -> Plan:
    """Refuses a request that has a parameter, in these words; behaves where it has it not."""
    error = {"error": {"message": words, "type": "invalid_request_error", "param": parameter, "code": "unsupported"}}
    return lambda request, reply: Reply(status, json.dumps(error)) if parameter in request.body else reply


def breaks_off(_: Request, reply: Reply) -> Reply:
    """Closes the connection in the middle of the answer."""
    return Reply(reply.status, reply.body, reply.headers, cut=len(reply.body) // 2)


def fails(status: int, **headers: str) -> Plan:
    """Answers an error whose text repeats the caller's key, as providers do."""
    return lambda request, _: Reply(
        status, json.dumps({"error": {"message": f"no: {request.headers.get('authorization')}"}}), headers
    )


def hangs(seconds: float) -> Plan:
    """Answers late."""
    return lambda _, reply: Reply(reply.status, reply.body, reply.headers, hang=seconds)


def says(body: str) -> Plan:
    """Answers 200 with this body."""
    return lambda _, __: Reply(body=body)


def changes(edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Plan:
    """Answers with the list of embeddings as `edit` leaves it."""

    def plan(_: Request, reply: Reply) -> Reply:
        answer = json.loads(reply.body)
        return Reply(body=json.dumps({**answer, "data": edit(answer["data"])}))

    return plan
