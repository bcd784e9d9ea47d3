"""A chat model behind any OpenAI-compatible endpoint (`POST <base>/chat/completions`), for both services.

Owns one question and its answer as text, within a time. What endpoints differ in is learnt from their refusals and
remembered per model: the name of the token limit, whether a temperature is taken, and in which way JSON can be asked
for: by a schema, as any JSON, or in words alone. Refuses to judge the answer, to split a text that is too long, and to
ask again after a failure, but for one case: a connection that was lost is replaced once.

No error carries a text that was sent or answered, nor the key.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from shared.openai_client import OpenAIConnection, WrongAnswer, told

_REFUSED_PARAMETER: Final = (400, 422)
_SAID: Final = 500
"""Characters of a refusal that are looked at: what follows may be the request again."""
_TEXT_PARTS: Final = ("text", "output_text")


class ModelUnavailable(Exception):
    """The model gave no answer. The text says the kind of failure, for logs."""

    def __init__(self, message: str, *, status: int | None = None, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status of the refusal; None = there was no answer over HTTP."""
        self.retry_after = retry_after
        """Seconds the endpoint asks to wait; 0 = it said nothing."""


class ModelTimeout(ModelUnavailable):
    """It gave none within the time."""


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer. `text` may be empty. Tokens are the endpoint's count, 0 where it tells none."""

    text: str
    finish_reason: str
    """As the endpoint says it (`stop`, `length`, `content_filter`…), `refusal` where it marks one, "" = not said."""
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """One message to the model; role system, user or assistant."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class JsonShape:
    """The JSON that is wanted. The question must ask for it in words too: not every endpoint takes more than words."""

    name: str
    """[a-z_], for the endpoint."""
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What this endpoint takes for one model."""

    limit_name: str = "max_tokens"
    temperature: bool = True
    format: Literal["schema", "json", "words"] = "schema"

    def parameters(self, max_tokens: int, shape: JsonShape | None) -> dict[str, Any]:
        parameters: dict[str, Any] = {self.limit_name: max_tokens}
        if self.temperature:
            parameters["temperature"] = 0.0
        if shape is not None and self.format == "schema":
            wanted = {"name": shape.name, "schema": dict(shape.schema), "strict": True}
            parameters["response_format"] = {"type": "json_schema", "json_schema": wanted}
        elif shape is not None and self.format == "json":
            parameters["response_format"] = {"type": "json_object"}
        return parameters

    def after(self, refusal: str, shape: JsonShape | None) -> "_Dialect":
        """What to try after a refusal in these words; the same where nothing is left that can be changed.

        A refusal that names nothing is laid to the format, which endpoints differ in most.
        """
        if self.limit_name == "max_tokens" and re.search(r"\bmax_(completion_)?tokens\b", refusal):
            return replace(self, limit_name="max_completion_tokens")
        if self.temperature and re.search(r"\btemperature\b", refusal):
            return replace(self, temperature=False)
        if shape is None or self.format == "words":
            return self
        return replace(self, format="json" if self.format == "schema" else "words")


class ChatModel:
    """A model of one endpoint. Bound to the event loop of its first call; the client is imported and made then."""

    def __init__(self, base_url: str, api_key: str, model: str, timeout_seconds: float) -> None:
        """`model`: the one that is asked unless a call names another. `timeout_seconds`: the most one call may take.
        An empty key: the endpoint has none."""
        self.model = model
        self._timeout = timeout_seconds
        self._connection = OpenAIConnection(base_url, api_key, timeout_seconds)
        self._dialects: dict[str, _Dialect] = {}

    async def complete(self, system: str, user: str, *, max_tokens: int, seconds: float) -> Completion:
        """The answer to `user` under the instruction `system`; see `answer`."""
        return await self.answer((Line("system", system), Line("user", user)), max_tokens=max_tokens, seconds=seconds)

    async def answer(
        self,
        lines: Sequence[Line],
        *,
        max_tokens: int,
        seconds: float,
        shape: JsonShape | None = None,
        model: str = "",
    ) -> Completion:
        """The next message of a talk, as little random as the endpoint allows.

        `max_tokens` bounds the answer, reasoning included where the endpoint counts it. Everything together takes
        `seconds` at most, and `timeout_seconds`. `shape` asks for JSON in the strictest way that the endpoint takes;
        the answer may still be anything. Raises ModelTimeout, ModelUnavailable.
        """
        model = model or self.model
        messages = [{"role": line.role, "content": _encodable(line.content)} for line in lines]
        try:
            async with asyncio.timeout(min(seconds, self._timeout)):
                return _completion(await self._ask(model, messages, max_tokens, shape))
        except Exception as error:
            late = isinstance(error, TimeoutError) or type(error).__name__ == "APITimeoutError"
            kind = ModelTimeout if late else ModelUnavailable
            status = getattr(error, "status_code", None)
            raise kind(
                f"{model}: {told(error)}",
                status=status if isinstance(status, int) else None,
                retry_after=_retry_after(error),
            ) from None

    async def close(self) -> None:
        """Closes the connections; calls in flight fail."""
        await self._connection.close()

    async def _ask(self, model: str, messages: list[dict[str, str]], max_tokens: int, shape: JsonShape | None) -> Any:
        """Each try can only be better understood than the one before, so it ends. What was understood is remembered;
        a refusal that no dialect mends says nothing of the endpoint."""
        client = await self._connection.client()
        dialect = self._dialects.get(model, _Dialect())
        lost = False
        while True:
            try:
                answer = await client.chat.completions.create(
                    model=model,
                    messages=messages,  # type: ignore[arg-type]
                    **dialect.parameters(max_tokens, shape),
                )
            except Exception as error:
                if getattr(error, "status_code", None) in _REFUSED_PARAMETER:
                    said = f"{getattr(error, 'param', '')} {getattr(error, 'message', '')}"[:_SAID].lower()
                    better = dialect.after(said, shape)
                    if better == dialect:
                        raise
                    dialect = better
                elif lost or type(error).__name__ != "APIConnectionError":
                    raise
                else:
                    lost = True
            else:
                self._dialects[model] = dialect
                return answer


def _retry_after(error: Exception) -> float:
    """The header's seconds; a date in it, or nonsense, is 0."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        return max(0.0, min(float(headers.get("retry-after", 0)), 3600.0))
    except (TypeError, ValueError):
        return 0.0


def _encodable(text: str) -> str:
    """Without lone surrogates, which have no UTF-8."""
    return text.encode("utf-8", "ignore").decode()


def _completion(answer: Any) -> Completion:
    """Reads an answer and trusts nothing: the client does not check types. Reasoning beside the content is left."""
    choices = getattr(answer, "choices", None)
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = getattr(choice, "message", None)
    if message is None:
        raise WrongAnswer("no choice with a message")
    text = _text(getattr(message, "content", None))
    reason = getattr(choice, "finish_reason", None)
    if not text and getattr(message, "refusal", None):
        reason = "refusal"
    usage = getattr(answer, "usage", None)
    return Completion(
        text=text,
        finish_reason=reason if isinstance(reason, str) else "",
        prompt_tokens=_tokens(getattr(usage, "prompt_tokens", None)),
        completion_tokens=_tokens(getattr(usage, "completion_tokens", None)),
    )


def _text(content: Any) -> str:
    """The text of a message: a string, null, or a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise WrongAnswer("the content is no text")
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") in _TEXT_PARTS]
    return "".join(text for text in texts if isinstance(text, str))


def _tokens(number: Any) -> int:
    return number if type(number) is int and number >= 0 else 0
