"""Questions that ask for a kind of thing, and memories that name one: "which database do I use" finds "MySQL 8".

Owns the lexicon of kinds (`data/kinds.tsv`) and what it adds to a keyword score. Refuses to guess: no kind is expanded
into the query, only members that a memory really holds count, and a kind weighs as much as its words do among the other
words of the query, so that a question about something else which mentions one stays below the floor.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Final

import regex

from memory_service.domain.keywords import KeywordIndex, tokens
from memory_service.domain.text import normalise

KIND: Final = 0.8
"""What a member counts against the word itself: a memory that says "database" answers better than one that does not."""

_GENERAL: Final = regex.compile(
    r"推荐|介绍|解释|讲讲|说说|区别|对比|哪个好|怎么|如何|为什么|为何|教我|帮我|给我|写一|写个|翻译|世界|全球|历史上|最流行"
    r"|什么是\s*$|\b(?:what is|what's|what are) an?\s*$"
    r"|\b(?:recommend|suggest|explain|define|compare|difference|versus|vs|why|translate|tell me about|in the world"
    r"|invent|in general|most popular|write an?|make me"
    r"|how (?:do|does|did|can|could|should|would|to)\s+(?:\w+\s+)?\w{3,})\b"
)
"""What a question about the world looks like, or a task, in what stands before and after the word of the kind."""

_IDLE: Final = regex.compile(
    r"用户|常用|使用|用|喜欢|偏好|爱|平时|平常|一般|主要|通常|目前|最近|最|哪种|哪款|哪个|哪些|哪|几|叫|选|买|养|开|住|学|会|打|玩"
    r"|听|吃|喝|说|讲|去过|来自|做|过|有|在|对|家里|我家|我们|名字|种|款|牌子|类型|里"
    r"|\b(?:users?|us(?:e|es|ed|ing)|prefer(?:s|red)?|likes?|loves?|favou?rite|main|primary|current(?:ly)?|kinds?|types?|sorts?"
    r"|own(?:s|ed)?|has|have|drives?|plays?|learns?|learning|speaks?|lives?|living|runs?|running|writes?|written|built|best"
    r"|usual(?:ly)?|name|called|still|regular(?:ly)?|mostly|most|keeps?|been|visited|new|good|from)\b"
)
"""Words by which one asks for a kind; they do not make the question one about something else."""


@dataclass(frozen=True, slots=True)
class _Kind:
    members: tuple[tuple[str, ...], ...]
    """Tokens of each member."""


def keyword_scores(query: str, index: KeywordIndex) -> dict[str, float]:
    """Keyword score of every memory that shares a word with the query or names a member of a kind it asks for.

    `KeywordIndex.scores` and, for a memory that holds a member but not the word of the kind, `KIND` times the squared
    share of that word in the weight of the query. Above 0 to 1.
    """
    scores = index.scores(tokens(query))
    for words, share, kind in _asked(query, index):
        for id_ in index.holding_all(kind.members) - index.holding_all([words]):
            scores[id_] = min(1.0, scores.get(id_, 0.0) + KIND * share * share)
    return scores


def _asked(query: str, index: KeywordIndex) -> Iterator[tuple[tuple[str, ...], float, _Kind]]:
    """The kinds that a query asks for: tokens of the kind's word, its share of the query's weight, the kind."""
    text = normalise(query).lower()
    found = list(_named(text))
    if not found or len(index) == 0:
        return
    if any(_GENERAL.search(text[:start]) for start, _ in found) or _GENERAL.search(text[found[-1][1] :]):
        return
    ends = [0, *(end for _, end in found)]
    between = " ".join(text[end:start] for end, (start, _) in zip(ends, [*found, (len(text), 0)], strict=True))
    heard = [(tokens(text[start:end]), _lexicon()[text[start]][text[start:end]]) for start, end in found]
    weights = [index.weight(words) for words, _ in heard]
    total = index.weight(tokens(_IDLE.sub(" ", between))) + sum(weights)
    for (words, several), weight in zip(heard, weights, strict=True):
        for kind in several if weight else ():
            yield words, weight / total, kind


def _named(text: str) -> Iterator[tuple[int, int]]:
    """Where a lower-case text names kinds, the longest word at each place; Latin words whole only."""
    lexicon, at = _lexicon(), 0
    while at < len(text):
        end = 0
        if (words := lexicon.get(text[at])) and not (_latin(text[at]) and at and _latin(text[at - 1])):
            for word in words:
                if text.startswith(word, at) and not (_latin(word[-1]) and _latin(text[at + len(word) :][:1])):
                    end = at + len(word)
                    yield at, end
                    break
        at = end or at + 1


@lru_cache(maxsize=1)
def _lexicon() -> dict[str, dict[str, list[_Kind]]]:
    """The kinds by the words that name them, lower case, the longest first, by their first characters."""
    kinds: dict[str, list[_Kind]] = {}
    text = (resources.files("memory_service") / "data/kinds.tsv").read_text("utf-8")
    rows = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    for names, members in rows[1:]:
        groups = (tokens(member) for member in members.split(","))
        kind = _Kind(tuple(group for group in groups if group))
        for name in names.lower().split(","):
            for form in _forms(name):
                kinds.setdefault(form, []).append(kind)
    found: dict[str, dict[str, list[_Kind]]] = {}
    for form in sorted(kinds, key=len, reverse=True):
        found.setdefault(form[0], {})[form] = kinds[form]
    return found


def _forms(name: str) -> Sequence[str]:
    """A word and, where it is an English one, its plural."""
    if not _latin(name[0]):
        return (name,)
    if name.endswith("y"):
        return name, name[:-1] + "ies"
    return name, name + ("es" if name.endswith(("s", "x", "ch")) else "s")


def _latin(character: str) -> bool:
    return "a" <= character <= "z"
