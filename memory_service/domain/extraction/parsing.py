"""Reading a model's answer, leniently: what is there to be understood is understood, item by item.

Owns the wrappings that models put around their JSON (reasoning, fences, prose, a second object) and the other names
they give to fields. Refuses to believe anything (`guards` does) and to guess at what was cut off: a text that ends in
the middle of a statement is unparseable, since half a statement may say the opposite.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import json_repair
import regex

from memory_service.domain.extraction.model import Action, Item
from memory_service.domain.model import MemoryType, Shard

MAX_ANSWER = 64_000
"""Characters of an answer; a longer one is no answer to what was asked."""
MAX_DEPTH = 64

_THINKING: Final = regex.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>", regex.S | regex.I)
_THOUGHT: Final = regex.compile(r"\A[^{\[]*?.*</(?:think|thinking|reasoning)>", regex.S | regex.I)
_FENCE: Final = regex.compile(r"```[ \t]*[\w-]*[ \t]*\r?\n(.*?)(?:\r?\n[ \t]*```|\Z)", regex.S)
_SECTIONS: Final = {
    **dict.fromkeys(("preferences", "preference", "偏好"), MemoryType.PREFERENCE),
    **dict.fromkeys(("facts", "fact", "事实"), MemoryType.FACT),
    **dict.fromkeys(("contexts", "context", "上下文", "结论"), MemoryType.CONTEXT),
}
_LISTS: Final = ("memories", "memory", "items", "results", "extractions", "记忆")
_TYPES: Final = ("type", "memory_type", "category", "kind", "类型")
_CONTENT: Final = ("content", "text", "memory", "fact", "preference", "context", "statement", "value", "内容")
_ACTIONS: Final = {
    "": Action.ADD,
    "ADD": Action.ADD,
    "NEW": Action.ADD,
    "UPDATE": Action.UPDATE,
    "REPLACE": Action.UPDATE,
    "NOOP": Action.NOOP,
    "NONE": Action.NOOP,
    "NO_OP": Action.NOOP,
    "NO-OP": Action.NOOP,
    "SKIP": Action.NOOP,
}
_OPENING: Final = regex.compile(r"""\{(?=\s*["'}]|\s*\w+\s*:)|\[(?=\s*[{"'\[\]])""")
"""Where JSON may begin. Brackets of prose, `[FACT-1]` and `{name}`, do not."""


class Unparseable(Exception):
    """An answer that says nothing we asked for. The text is a sentence for the model: what is wrong with its answer."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def parse(answer: str, *, cut: bool = False) -> tuple[Item, ...]:
    """The items of an answer, none for an answer that says so. `cut`: the endpoint says that the answer was cut off.

    Raises Unparseable: EMPTY, TOO_LONG, TRUNCATED, NOT_JSON, WRONG_SHAPE.
    """
    if len(answer) > MAX_ANSWER:
        raise Unparseable("TOO_LONG", "The answer is far too long.")
    text = _without_reasoning(answer.lstrip("\ufeff")).strip()
    if not text:
        raise Unparseable("EMPTY", "The answer is empty.")
    found = [value for value in _values(text) if _understood(value)]
    if found:
        return _items(found)
    opening = _OPENING.search(text)
    if opening is None:
        raise Unparseable("NOT_JSON", "The answer holds no JSON object.")
    body = _body(text, opening.start())
    if cut or _cut_off(body):
        raise Unparseable("TRUNCATED", "The JSON ends before it is complete; give fewer and shorter items.")
    mended = _mended(body)
    if mended is None:
        raise Unparseable("NOT_JSON", "The answer is not valid JSON.")
    if not _understood(mended):
        raise Unparseable("WRONG_SHAPE", 'The JSON has none of the keys "preferences", "facts", "contexts".')
    return _items([mended])


def _without_reasoning(text: str) -> str:
    """Reasoning comes first; an answer that begins with JSON has none, whatever its strings say."""
    rest = _THINKING.sub("", text)
    if _OPENING.match(rest.lstrip()):
        return rest
    return _THOUGHT.sub("", rest, count=1)


def _values(text: str) -> Iterator[Any]:
    """Objects and lists in the text, in order: those inside fences first, then those in between."""
    for part in (*_FENCE.findall(text), text):
        yield from _decoded(part)


def _decoded(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(strict=False)
    at = 0
    while (opening := _OPENING.search(text, at)) is not None:
        at = opening.start()
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return  # what follows lies inside of something broken
        yield value


def _body(text: str, start: int) -> str:
    fence = _FENCE.search(text)
    if fence is not None and _OPENING.search(fence[1]):
        return str(fence[1]).strip()
    return text[start:].strip()


def _cut_off(text: str) -> bool:
    """Whether a JSON text ends within a string or between an item's fields. Brackets alone may be missing: models
    forget them."""
    inside, depth = False, []
    escaped = False
    last = ""
    for character in text:
        if inside:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                inside = False
        elif character == '"':
            inside = True
        elif character in "{[":
            depth.append(character)
        elif character in "}]" and depth:
            depth.pop()
        if not character.isspace():
            last = character
    return inside or (bool(depth) and last not in "}]")


def _mended(text: str) -> Any:
    if _depth(text) > MAX_DEPTH:
        return None
    try:
        return json_repair.loads(text) or None
    except (ValueError, RecursionError):
        return None


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        depth += (character in "{[") - (character in "}]")
        deepest = max(deepest, depth)
    return deepest


def _understood(value: Any) -> bool:
    if isinstance(value, list):
        return not value or any(_of_type(item) for item in value) or all(_understood(item) for item in value)
    if not isinstance(value, dict):
        return False
    keys = {_name(key) for key in value}
    return not value or any(key in _SECTIONS or key in _LISTS for key in keys) or _of_type(value)


def _of_type(value: Any) -> bool:
    return isinstance(value, dict) and _type(value) is not None and bool(_first(value, _CONTENT))


def _items(values: Iterable[Any]) -> tuple[Item, ...]:
    """The first value counts; a later one only adds sections that none before it had."""
    seen: set[MemoryType | None] = set()
    items: list[Item] = []
    for value in values:
        here = list(_sections(value))
        items += [item for kind, raw in here if kind not in seen for item in _read(kind, raw)]
        seen |= {kind for kind, _ in here} or {None}
    return tuple(items)


def _sections(value: Any) -> Iterator[tuple[MemoryType | None, Any]]:
    """Lists of items with the type that they are all of; None where each says its own."""
    if isinstance(value, list):
        typed = [item for item in value if _of_type(item)]
        if typed:
            yield None, typed
        for item in value:
            if isinstance(item, dict) and not _of_type(item):
                yield from _sections(item)
        return
    if _of_type(value):
        yield None, [value]
        return
    for key, raw in value.items():
        name = _name(key)
        if name in _SECTIONS:
            yield _SECTIONS[name], raw
        elif name in _LISTS:
            yield None, raw


def _read(kind: MemoryType | None, raw: Any) -> Iterator[Item]:
    """Items of a section, one by one; what is none is passed over."""
    for given in raw if isinstance(raw, list) else [raw]:
        entry = {"content": given} if isinstance(given, str) else given
        if not isinstance(entry, dict):
            continue
        own = kind or _type(entry)
        if own is not None:
            yield _item(own, {_name(key): value for key, value in entry.items()})


def _item(kind: MemoryType, entry: Mapping[str, Any]) -> Item:
    action = _text(entry.get("action") or entry.get("operation") or entry.get("event")).upper().strip()
    return Item(
        type=kind,
        content=_first(entry, _CONTENT),
        action=_ACTIONS.get(action, Action.OTHER),
        supersedes=tuple(_names(entry.get("supersedes") or entry.get("supersede") or entry.get("replaces"))),
        quote=_text(entry.get("quote") or entry.get("source_quote") or entry.get("evidence") or entry.get("原文")),
        shard=_shard(_text(entry.get("shard"))),
        occurred_at=_text(entry.get("occurred_at") or entry.get("date") or entry.get("time")),
        attributes=dict(_attributes(entry.get("attributes"))),
        rationale=_text(entry.get("rationale") or entry.get("reason")),
    )


def _name(key: Any) -> str:
    return str(key).strip().lower()


def _type(entry: Mapping[Any, Any]) -> MemoryType | None:
    named = _first({_name(key): value for key, value in entry.items()}, _TYPES)
    return _SECTIONS.get(named.lower().removeprefix("memory_type_"))


def _first(entry: Mapping[Any, Any], names: Iterable[str]) -> str:
    return next((_text(entry[name]) for name in names if _text(entry.get(name))), "")


def _text(value: Any) -> str:
    """A text without lone surrogates, which no UTF-8 holds. A number is a text too; anything else is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value).encode("utf-8", "ignore").decode().strip()


def _names(value: Any) -> Iterator[str]:
    for entry in value if isinstance(value, list) else [value]:
        named = entry.get("id") if isinstance(entry, dict) else entry
        yield from (part for part in regex.split(r"[,，;；、\s]+(?=\S)", _text(named)) if part)


def _shard(name: str) -> Shard | None:
    return Shard.__members__.get(name.upper().removeprefix("MEMORY_SHARD_"))


def _attributes(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        yield from ((str(key), _text(entry)) for key, entry in value.items())
    elif isinstance(value, list):
        for entry in value:
            if isinstance(entry, dict):
                yield _first(entry, ("name", "key")), _text(entry.get("value"))
