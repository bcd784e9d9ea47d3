"""One statement about the user in two grammatical persons: 我喜欢喝茶 is what the user says, 用户喜欢喝茶 what a model
writes of it. Both are about the same user, whose memories these are.

Owns the two forms of a statement's opening. Refuses everything inside of a sentence, and 我们 / we, who are others too.
"""

from typing import Final

import regex

from memory_service.domain.text import normalise

_USER_ZH: Final = regex.compile(
    r"(?:用户|该用户|使用者)(?:本人|自己)?(?!们|体验|界面|名|量|数|群|画像|反馈|需求|手册|协议|态)"
)
_SELF_ZH: Final = regex.compile(r"(?:我|本人|我自己)(?!们|国|方|校|司|厂|军|辈)")
_USER_EN: Final = regex.compile(r"(?:the )?user(?P<own>['’]s)?\s+(?:(?P<verb>[a-z]+)\b)?", regex.I)
_SELF_EN: Final = regex.compile(r"(?:(?P<own>my)\s+|i(?:['’](?P<short>m|ve))?\s+(?:(?P<verb>[a-z]+)\b)?)", regex.I)
_THIRD: Final = {"am": "is", "have": "has", "do": "does", "go": "goes", "was": "was", "were": "were"}
_FIRST: Final = {there: here for here, there in _THIRD.items()}
_MODAL: Final = frozenset(
    {"can", "could", "will", "would", "should", "may", "might", "must", "had", "did"}
    | {"never", "always", "also", "usually", "often"}
)
_NOISE: Final = regex.compile(r"[\s\p{P}]+")


def other_person(text: str) -> str | None:
    """The statement with its subject in the other person, or None where it does not begin with the user."""
    if match := _USER_ZH.match(text):
        return "我" + text[match.end() :]
    if match := _SELF_ZH.match(text):
        return "用户" + text[match.end() :]
    if match := _USER_EN.match(text):
        return _first_person(text, match)
    match = _SELF_EN.match(text)
    return _third_person(text, match) if match else None


def _first_person(text: str, match: "regex.Match[str]") -> str:
    if match["own"]:
        return f"My {text[match.end('own') :].lstrip()}"
    return f"I {_first(match['verb'] or '')}{text[match.end() :]}"


def _third_person(text: str, match: "regex.Match[str]") -> str:
    if match["own"]:
        return f"The user's {text[match.end() :]}"
    short = {"m": "is ", "ve": "has "}.get((match["short"] or "").lower(), "")
    verb = (match["verb"] or "") if short else _third(match["verb"] or "")
    return f"The user {short}{verb}{text[match.end() :]}"


def neutral(text: str) -> str:
    """A form in which both persons of a statement are equal, and case and punctuation do not count."""
    plain = normalise(text)
    if _SELF_ZH.match(plain) or _SELF_EN.match(plain):
        plain = other_person(plain) or plain
    elif match := _USER_ZH.match(plain):
        plain = "用户" + plain[match.end() :]
    elif match := _USER_EN.match(plain):
        plain = (
            f"The user{match['own'] or ''} {plain[match.start('verb') if match['verb'] else match.end() :].lstrip()}"
        )
    return _NOISE.sub("", plain).casefold()


def _third(verb: str) -> str:
    low = verb.lower()
    if not low or low in _MODAL or low.endswith("ed"):
        return verb
    if low in _THIRD:
        return _THIRD[low]
    if low.endswith(("s", "x", "ch", "sh")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if low.endswith("y") and low[-2:-1] not in "aeiou" else f"{verb}s"


def _first(verb: str) -> str:
    low = verb.lower()
    if low in _MODAL:
        return verb
    if low in _FIRST:
        return _FIRST[low]
    if low.endswith("ies"):
        return f"{verb[:-3]}y"
    if low.endswith(("sses", "xes", "ches", "shes")):
        return verb[:-2]
    return verb[:-1] if low.endswith("s") and not low.endswith("ss") else verb
