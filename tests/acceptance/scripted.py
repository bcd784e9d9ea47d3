"""A scripted chat model on a thread of its own, for the extraction of turns: what it answers to which turn, and how it
misbehaves. No test is in here.
"""

import asyncio
import json
import re
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Self

from tests.fake_openai import FakeOpenAI, Reply, Request, chat_body

Answer = str | dict[str, Any] | Reply | Callable[[str], "Answer"]
"""A text, an object as JSON, a whole reply, or a function of the question that gives one of these."""

NOTHING = {"preferences": [], "facts": [], "contexts": []}
_TURN = re.compile(r"<(?:turn|本轮)>\n(.*)\n</(?:turn|本轮)>", re.DOTALL)
_ALIAS = re.compile(r"^\[([A-Z]+-\d+)\] (.*) \(\d{4}-\d\d-\d\d\)$", re.MULTILINE)


def item(
    content: str, quote: str, action: str = "ADD", supersedes: tuple[str, ...] = (), **more: Any
) -> dict[str, Any]:
    """An item as the schema wants it."""
    return {
        "action": action,
        "content": content,
        "supersedes": list(supersedes),
        "quote": quote,
        "shard": "GENERAL",
        "occurred_at": None,
        "attributes": [],
        "rationale": "because it was said",
        **more,
    }


def facts(*items: dict[str, Any]) -> dict[str, Any]:
    """An answer with these facts."""
    return {**NOTHING, "facts": list(items)}


def preferences(*items: dict[str, Any]) -> dict[str, Any]:
    """An answer with these preferences."""
    return {**NOTHING, "preferences": list(items)}


def contexts(*items: dict[str, Any]) -> dict[str, Any]:
    """An answer with these contexts."""
    return {**NOTHING, "contexts": list(items)}


def alias_of(content: str, question: str) -> str:
    """The alias under which a question shows a memory."""
    shown = {text: alias for alias, text in _ALIAS.findall(question)}
    return str(shown[content])


class ScriptedModel:
    """`with ScriptedModel() as model`: answers by what occurs in the turn, in the order it was scripted."""

    def __init__(self) -> None:
        self.questions: list[str] = []
        """What was asked, the data part, in order."""
        self.before: Callable[[str], None] = lambda question: None
        """Called with each question before it is answered; may block."""
        self._scripts: list[tuple[str, deque[Answer]]] = []
        self._fake = FakeOpenAI()
        self._fake.routes["/v1/chat/completions"] = self._answer
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def requests(self) -> list[Request]:
        """The requests as they arrived."""
        return self._fake.requests

    @property
    def settings(self) -> dict[str, str]:
        """Environment of a service that uses it."""
        return {"PALIMPSEST_LLM__BASE_URL": self._fake.base_url, "PALIMPSEST_LLM__API_KEY": "sk-secret"}

    def on(self, fragment: str, *answers: Answer) -> None:
        """What to answer to a turn in which this occurs: one after the other, the last one from then on."""
        self._scripts.insert(0, (fragment, deque(answers)))

    def asked(self, fragment: str) -> list[str]:
        """The questions about turns in which this occurs."""
        return [question for question in self.questions if fragment in turn_of(question)]

    def _answer(self, request: Request) -> Reply:
        question = next(m["content"] for m in request.body["messages"] if m["role"] == "user")
        self.questions.append(question)
        self.before(question)
        answers = next((found for fragment, found in self._scripts if fragment in turn_of(question)), None)
        if answers is None:
            return _reply(NOTHING, question)
        return _reply(answers.popleft() if len(answers) > 1 else answers[0], question)

    def __enter__(self) -> Self:
        self._thread.start()
        self._await(self._fake.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._await(self._fake.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _await(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)


def turn_of(question: str) -> str:
    """The turn in a question."""
    found = _TURN.search(question)
    return found[1] if found else ""


def _reply(answer: Answer, question: str) -> Reply:
    if isinstance(answer, Reply):
        return answer
    if callable(answer):
        return _reply(answer(question), question)
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return Reply(body=chat_body({"role": "assistant", "content": text}, "stop"))
