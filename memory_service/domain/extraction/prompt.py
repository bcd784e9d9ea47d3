"""What the model is asked: the prompt of a turn, in the turn's language, and the schema of the answer.

Owns that everything of users stands in delimited blocks, and that nothing in it can end its block. The prompts are
files with a version; the version is stored with what a prompt produced, so that a change of one can be told from a
change of the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from typing import Any, Final, Literal

import regex

from memory_service.domain.extraction.known import lines
from memory_service.domain.extraction.model import Known, Said, Turn

Language = Literal["zh", "en"]

MAX_MESSAGE: Final = 24_000
"""Characters of a message of the turn; of a longer one its middle is left out."""
MAX_TOOL: Final = 500
MAX_CONTEXT: Final = 300
"""Characters of a message before the turn: it only says what "that one" means."""
_PARTS: Final = "\n=====\n"
_VERSION: Final = regex.compile(r"# version: (\S{1,32})\n")
_HAN: Final = regex.compile(r"\p{Han}")
_LATIN: Final = regex.compile(r"\p{Latin}+")
_TAG: Final = regex.compile(r"<(?=/?\s*(?:turn|before|memories|本轮|前文|已有记忆)\s*>)", regex.I)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WEEKDAYS: Final = {
    "zh": "周一 周二 周三 周四 周五 周六 周日",
    "en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
}
_AGAIN: Final = {
    "zh": "你的回答不能使用：{error}\n请只输出一个完整、有效的 JSON 对象，键为 preferences、facts、contexts。",
    "en": "Your answer cannot be used: {error}\nWrite one complete, valid JSON object with the keys preferences, "
    "facts and contexts, and nothing else.",
}

_ITEM: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "action": {"type": "string", "enum": ["ADD", "UPDATE", "NOOP"]},
        "content": {"type": "string"},
        "supersedes": {"type": "array", "items": {"type": "string"}},
        "quote": {"type": "string"},
        "shard": {"type": "string", "enum": ["GENERAL", "IDENTITY", "TRANSACTION", "KNOWLEDGE", "EMOTION"]},
        "occurred_at": {"type": ["string", "null"]},
        "attributes": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                "required": ["name", "value"],
            },
        },
        "rationale": {"type": "string"},
    },
    "required": ["action", "content", "supersedes", "quote", "shard", "occurred_at", "attributes", "rationale"],
}
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {name: {"type": "array", "items": _ITEM} for name in ("preferences", "facts", "contexts")},
    "required": ["preferences", "facts", "contexts"],
}
"""The answer's schema, within what strict modes of endpoints take."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question to the model. `again` goes with the answer that could not be used, `{error}` filled in."""

    system: str
    user: str
    version: str
    again: str


def language_of(turn: Turn) -> Language:
    """Chinese or English, by what the user says; the assistant counts where the user says nothing."""
    for role in ("user", "assistant"):
        text = "\n".join(message.content for message in turn.messages if message.role == role)
        han, words = len(_HAN.findall(text)), len(_LATIN.findall(text))
        if han or words:
            return "zh" if han >= words / 2 and han else "en"
    return "en"


def build(turn: Turn, before: Sequence[Said], known: Known) -> Prompt:
    """The question about a turn. `before`: some messages that came before it, oldest first."""
    language = language_of(turn)
    version, template = _template(language)
    instruction, _, data = template.partition(_PARTS)
    values = {
        "now": _time(turn, language),
        "memories": _inside(lines(known)) or "-",
        "context": _transcript(before, MAX_CONTEXT) or "-",
        "turn": _transcript(turn.messages, MAX_MESSAGE),
    }
    user = regex.sub(r"\{(now|memories|context|turn)\}", lambda found: values[found[1]], data)
    return Prompt(instruction.strip(), user.strip(), version, _AGAIN[language])


def _transcript(messages: Sequence[Said], limit: int) -> str:
    said = []
    for message in messages:
        text = _clipped(message.content.strip(), min(limit, MAX_TOOL) if message.role == "tool" else limit)
        if text:
            said.append(f"{message.role}: {_inside(text)}")
    return "\n".join(said)


def _inside(text: str) -> str:
    """A text that cannot end the block it stands in."""
    return _TAG.sub("‹", text)


def _clipped(text: str, limit: int) -> str:
    """Beginning and end of a text that is too long."""
    return text if len(text) <= limit else f"{text[: limit * 2 // 3]}\n[…]\n{text[-limit // 3 :]}"


def _time(turn: Turn, language: Language) -> str:
    try:
        at = (_EPOCH + timedelta(microseconds=turn.at)).astimezone(turn.zone)
    except OverflowError:
        at = _EPOCH + timedelta(microseconds=turn.at)
    return f"{at:%Y-%m-%d %H:%M} {_WEEKDAYS[language].split()[at.weekday()]} ({at.tzname()})"


@lru_cache
def _template(language: Language) -> tuple[str, str]:
    """Version and text of a prompt."""
    text = resources.files("memory_service").joinpath(f"data/prompts/extract_{language}.txt").read_text("utf-8")
    version = _VERSION.match(text)
    if version is None:
        raise ValueError(f"extract_{language}.txt does not begin with its version")
    return version[1], text[version.end() :]
