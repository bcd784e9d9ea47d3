"""A chat model behind any OpenAI-compatible endpoint (`POST <base>/chat/completions`), for both services.

Owns one question and its answer as text, within a time. What endpoints differ in is learnt from their refusals and
remembered: the name of the token limit, and whether a temperature is taken. Refuses to judge the answer, to split a
text that is too long, and to ask again after a failure, but for one case: a connection that was lost is replaced once.

No error carries a text that was sent or answered, nor the key.
"""

import asyncio
import re
from dataclasses import dataclass
from typing import Any, Final

from shared.openai_client import OpenAIConnection, WrongAnswer, told

_REFUSED_PARAMETER: Final = (400, 422)
_SAID: Final = 500
"""Characters of a refusal that are looked at: what follows may be the request again."""
_TEXT_PARTS: Final = ("text", "output_text")


class ModelUnavailable(Exception):
    """The model gave no answer. The text says the kind of failure, for logs."""


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
class _Dialect:
    """What this endpoint takes."""

    limit_name: str = "max_tokens"
    temperature: bool = True

    def parameters(self, max_tokens: int) -> dict[str, Any]:
        return {self.limit_name: max_tokens, **({"temperature": 0.0} if self.temperature else {})}

    def after(self, refusal: str) -> "_Dialect":
        """What to try after a refusal in these words; the same where they name nothing that can be changed."""
        if self.limit_name == "max_tokens" and re.search(r"\bmax_(completion_)?tokens\b", refusal):
            return _Dialect("max_completion_tokens", self.temperature)
        if self.temperature and re.search(r"\btemperature\b", refusal):
            return _Dialect(self.limit_name, False)
        return self


class ChatModel:
    """One model of one endpoint. Bound to the event loop of its first call; the client is imported and made then."""

    def __init__(self, base_url: str, api_key: str, model: str, timeout_seconds: float) -> None:
        """`timeout_seconds`: the most one call may take. An empty key: the endpoint has none."""
        self.model = model
        self._timeout = timeout_seconds
        self._connection = OpenAIConnection(base_url, api_key, timeout_seconds)
        self._dialect = _Dialect()

    async def complete(self, system: str, user: str, *, max_tokens: int, seconds: float) -> Completion:
        """The answer to `user` under the instruction `system`, as little random as the endpoint allows.

        `max_tokens` bounds the answer, reasoning included where the endpoint counts it. Everything together takes
        `seconds` at most, and `timeout_seconds`. Raises ModelTimeout, ModelUnavailable.
        """
        messages = [{"role": "system", "content": _encodable(system)}, {"role": "user", "content": _encodable(user)}]
        try:
            async with asyncio.timeout(min(seconds, self._timeout)):
                return _completion(await self._ask(messages, max_tokens))
        except Exception as error:
            late = isinstance(error, TimeoutError) or type(error).__name__ == "APITimeoutError"
            kind = ModelTimeout if late else ModelUnavailable
            raise kind(f"{self.model}: {told(error)}") from None

    async def close(self) -> None:
        """Closes the connections; calls in flight fail."""
        await self._connection.close()

    async def _ask(self, messages: list[dict[str, str]], max_tokens: int) -> Any:
        client = await self._connection.client()
        lost = False
        while True:
            dialect = self._dialect
            try:
                return await client.chat.completions.create(
                    model=self.model,
                    messages=messages,  # type: ignore[arg-type]
                    **dialect.parameters(max_tokens),
                )
            except Exception as error:
                if getattr(error, "status_code", None) in _REFUSED_PARAMETER:
                    if not self._learnt(dialect, error):
                        raise
                elif lost or type(error).__name__ != "APIConnectionError":
                    raise
                else:
                    lost = True

    def _learnt(self, sent: _Dialect, error: Exception) -> bool:
        """True where another try may be understood: each can only be better than the one before, so it ends."""
        better = sent.after(f"{getattr(error, 'param', '')} {getattr(error, 'message', '')}"[:_SAID].lower())
        if better == sent:
            return False
        if self._dialect == sent:  # else another call has learnt meanwhile
            self._dialect = better
        return True


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
