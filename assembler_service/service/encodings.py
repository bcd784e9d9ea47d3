"""Which encoding tokens are counted in, and counting as AssemblePrompt does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from assembler_service.domain.history import message_tokens
from assembler_service.domain.model import PRIMING_TOKENS, CountTokens, Message
from assembler_service.ports import ModelEncoding
from assembler_service.service.desk import Desk

APPROXIMATE_MARGIN: Final = 0.1
"""Part of the total that stays free where the model's own tokenizer is not known (assembler.md §1)."""
_LOADING_CHARS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Counted:
    """Tokens of each text by itself, and of all messages together."""

    texts: tuple[int, ...]
    messages: int
    encoding: str
    approximate: bool


class Encodings:
    """Counters by encoding or model. `counter` may take half a second at the first call for an encoding."""

    def __init__(self, counter: Callable[[str], CountTokens], of_model: Callable[[str], ModelEncoding]) -> None:
        self._counter = counter
        self._of_model = of_model
        self._used: set[str] = set()

    def choose(self, encoding: str, model: str) -> tuple[str, bool]:
        """Name of the encoding, given or the model's, and whether counts are an approximation. "" = not given."""
        meant = self._of_model(model)
        return encoding or meant.name, bool(model) and not meant.known

    def counter(self, name: str) -> CountTokens:
        """The counter of a chosen encoding."""
        found = self._counter(name)
        self._used.add(name)
        return found

    def chars(self, name: str, chars: int) -> int:
        """How much work so much text is: the first use of an encoding is as much as a very long one."""
        return chars if name in self._used else chars + _LOADING_CHARS

    async def count(
        self, desk: Desk, texts: Sequence[str], messages: Sequence[Message], encoding: str, model: str
    ) -> Counted:
        """Counts texts and messages; an empty list of messages has no tokens, not even the answer's beginning."""
        name, approximate = self.choose(encoding, model)

        def work() -> Counted:
            count = self.counter(name)
            said = sum(message_tokens(message, count) for message in messages)
            return Counted(
                tuple(count(text) for text in texts), said + PRIMING_TOKENS if messages else 0, name, approximate
            )

        chars = sum(map(len, texts)) + sum(map(message_chars, messages))
        return await desk.run(self.chars(name, chars), work)


def message_chars(message: Message) -> int:
    """About how much text a message holds."""
    return len(message.content) + sum(len(call.arguments) for call in message.tool_calls) + 16
