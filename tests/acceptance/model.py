"""A fake embedding model on a thread of its own, so that tests may block, and a plain embedding space for it."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np

from memory_service.domain.space import make_space
from tests.fake_openai import FakeOpenAI, Reply, Request


class ModelServer:
    """`with ModelServer(folder, "name") as model`: an OpenAI-compatible endpoint until the block ends.

    The vector of a text depends on the text alone. With 256 numbers those of two texts are all but orthogonal.
    """

    def __init__(self, folder: Path, name: str, dim: int = 256) -> None:
        self.away = False
        """True: every request is answered 503."""
        self.delay = 0.0
        """Seconds each answer takes."""
        self._name = name
        self._fake = FakeOpenAI(dim)
        self._honest = self._fake.routes["/v1/embeddings"]
        self._fake.routes["/v1/embeddings"] = self._answer
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        zeros, knots = np.zeros(dim, np.float32), ((-1.0, -1.0), (1.0, 1.0))
        space = make_space(name, zeros, zeros, knots, knots)
        self.space = space.id
        self._file = folder / f"{name}.json"
        self._file.write_text(space.to_json(), encoding="utf-8")

    def settings(self, group: str = "EMBEDDING") -> dict[str, str]:
        """Settings of a service that uses it."""
        values = {
            "PROVIDER": "openai",
            "BASE_URL": self._fake.base_url,
            "API_KEY": "key",
            "MODEL": self._name,
            "DIM": str(self._fake.dim),
            "SPACE_FILE": str(self._file),
        }
        return {f"PALIMPSEST_{group}__{name}": value for name, value in values.items()}

    @property
    def requests(self) -> list[Request]:
        """What it was asked so far."""
        return self._fake.requests

    def _answer(self, request: Request) -> Reply:
        if self.away:
            return Reply(503, json.dumps({"error": {"message": "away"}}))
        reply = self._honest(request)
        return Reply(reply.status, reply.body, reply.headers, hang=self.delay)

    def _await(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def __enter__(self) -> "ModelServer":
        self._thread.start()
        self._await(self._fake.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._await(self._fake.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
