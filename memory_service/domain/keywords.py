"""The keyword leg: what the words of a text are, and BM25 over one user's memories.

Owns tokens (Chinese, Japanese and Korean by character bigrams; Latin words lower-cased, without accents, lightly
stemmed; numbers, order numbers, versions, addresses, paths and code identifiers whole), which of them identify a thing,
and the index of them. Refuses to decide who qualifies or how to rank: `ranking` does. No text is kept, only numbers.
"""

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from threading import Lock
from typing import Any, Final

import numpy as np
import regex
import snowballstemmer
from numpy.typing import NDArray

from memory_service.domain.stopwords import (
    CHINESE_PARTICLES,
    CHINESE_PHRASES,
    CHINESE_WHOLE,
    ENGLISH,
    EUROPEAN,
    IDLE_CHINESE,
    IDLE_ENGLISH,
)
from memory_service.domain.text import normalise

_CJK: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}ー々"
_W: Final = rf"[[\p{{L}}\p{{M}}\p{{N}}_]--[{_CJK}]]"
_TO_BLANK: Final = rf"[^\s<>\"'|*，。；！？、（）{_CJK}]+"
_UNIT: Final = regex.compile(
    rf"(?P<whole>https?://{_TO_BLANK}|[A-Za-z]:\\{_TO_BLANK}"
    r"|(?<![\w.%+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+"
    rf"|(?:~|\.{{1,2}}|(?<!{_W}))(?:/(?:{_W}|[.-])+){{2,}})"
    rf"|(?P<symbolic>(?<!{_W})(?:[A-Za-z]{{1,3}}(?:\+\+|\#)(?!{_W})|\.NET\b))"
    r"|(?P<grouped>(?<![\p{Nd}.,])\p{Nd}{1,3}(?:,\p{Nd}{3})+(?:\.\p{Nd}+)?(?![\p{Nd},]))"
    rf"|(?P<word>{_W}+(?:[-._:/@·'’]{_W}+)*)"
    rf"|(?P<cjk>[{_CJK}]+)",
    regex.V1,
)
_JOINT: Final = regex.compile(r"[-._:/\\@·?&=%#+~]+")
_CLITIC: Final = regex.compile("['’]")
_NAME_AND_NUMBER: Final = regex.compile(r"([^\W\d_]{3,})(\d+)")
_CUT: Final = regex.compile(
    f"(?:{'|'.join(CHINESE_WHOLE)})(*SKIP)(*FAIL)"
    f"|{'|'.join(sorted(CHINESE_PHRASES, key=len, reverse=True))}|[{CHINESE_PARTICLES}]"
)
_ACCENT: Final = regex.compile(r"(?<=\p{Latin})\p{Mn}+")
_ONE_CJK: Final = regex.compile(f"[{_CJK}]")
_IDLE_RUN: Final = regex.compile(f"(?:{'|'.join(IDLE_CHINESE)})+")
_SENTENCE_END: Final = (".", "!", "?", "。", "！", "？", ":", "：")

_CODE: Final = regex.compile(
    r"\w*[^\W_]_\w+|__\w+|[a-z]{2,}(?:[A-Z][a-z0-9]+)+|[^\W\d_]\w+(?:\.[^\W\d_]{2,})+|[\w.]+::[\w:.]+"
)
"""Code identifiers: snake_case, camelCase that begins small, dotted and file names. MySQL and DocMind are names."""
_DIGITS: Final = 5
"""From so many digits on a number identifies; four do unless they can be a year, three do beside letters or joints."""


@lru_cache(maxsize=1024)
def tokens(text: str) -> tuple[str, ...]:
    """The words of a text that say something, in order, repeats kept; the same for a memory and for a query.

    Without letter or digit, or of function words only: empty. A compound (`user_id`, `ORD-2024-001`, `C:\\a\\main.py`)
    is one token and, beside it, its parts, so that it is found by either.
    """
    return tuple(token for match in _UNIT.finditer(normalise(text)) for token in _unit(match))


def _unit(match: "regex.Match[str]") -> Iterator[str]:
    """Tokens of one unit of a text, the whole of it first."""
    kind, raw = match.lastgroup, match[0]
    if kind == "cjk":
        yield from _bigrams(raw)
    elif kind == "symbolic":
        yield raw.lower()
    elif kind == "grouped":
        yield raw.replace(",", "")
    elif kind == "whole":
        # Without the punctuation that ends the sentence; a backslash that was doubled for a program is one.
        yield from _word(_fold(raw.rstrip(".,;:!?)]}-_/\\")).replace("\\\\", "\\"))
    else:
        yield from _word(_fold(raw))


def _bigrams(run: str) -> Iterator[str]:
    for piece in _CUT.split(run):
        if len(piece) == 1:
            yield piece
        for first, second in pairwise(piece):
            yield first + second


def _fold(word: str) -> str:
    decomposed = unicodedata.normalize("NFD", word.lower())
    return unicodedata.normalize("NFC", _ACCENT.sub("", decomposed))


def _word(word: str) -> Iterator[str]:
    """Tokens of a folded word or compound."""
    if "'" in word or "’" in word:
        # Clitics ('s, n't, l', qu') are no words; what they hang on is.
        for piece in _CLITIC.split(word):
            if len(piece) > 2 or piece.isdigit():
                yield from _word(piece)
        return
    parts = [part for part in _JOINT.split(word) if part]
    if len(parts) == 1:
        yield from _plain(parts[0])
    if len(parts) < 2:
        return
    if not word.translate(_SOFT_JOINTS).isalpha():
        yield word
    for part in parts:
        if len(part) > 1 and not (part.isdigit() and len(part) < 4):
            yield from _plain(part)


_SOFT_JOINTS: Final = str.maketrans("", "", "-/:·")
"""Joints that make no new word between words of letters: well-known, and/or."""


def _plain(word: str) -> Iterator[str]:
    if word in ENGLISH or word in EUROPEAN:
        return
    if word.isalpha():
        yield _stem(word) if len(word) > 3 else word
        return
    yield word
    if found := _NAME_AND_NUMBER.fullmatch(word):
        yield from _plain(found[1])
        yield found[2]


_STEMMER: Final = snowballstemmer.stemmer("english")
_STEMMER_LOCK: Final = Lock()


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    """The English stem (other languages come to no harm: both sides are treated alike). The stemmer holds state."""
    with _STEMMER_LOCK:
        return str(_STEMMER.stemWord(word))


def identifiers(text: str) -> frozenset[str]:
    """The tokens of a text that name one thing by their form alone: order and phone numbers, other numbers of enough
    digits, versions and dates, addresses, paths, code identifiers. Names need an index: see `rare_names`.
    """
    found = (next(_unit(match), None) for match in _UNIT.finditer(normalise(text)) if _identifies(match))
    return frozenset(token for token in found if token is not None)


def _identifies(match: "regex.Match[str]") -> bool:
    kind, raw = match.lastgroup, match[0].replace(",", "")
    if kind == "whole":
        return True
    if kind not in ("word", "grouped"):
        return False
    digits = sum(character.isdigit() for character in raw)
    if raw.isdecimal():
        return digits >= _DIGITS or (digits == 4 and not 1900 <= int(raw) < 2100)
    turns = len(regex.findall(r"\d+|\D+", raw))
    return digits >= 3 or (digits >= 2 and turns >= 4) or _CODE.fullmatch(raw) is not None


def rare_names(query: str, index: "KeywordIndex") -> frozenset[str]:
    """Tokens of a query's proper names that at least one memory holds, but at most two or one in fifty.

    A proper name is told by its form: a Latin word with a capital that does not open a sentence, any Latin word amid
    Chinese, or a surname as one says it in Chinese (小李, 王老师, 同事王芳). No Latin one in an English query in which
    most words have capitals.
    """
    text = normalise(query)
    words = [match for match in _UNIT.finditer(text) if match.lastgroup in ("word", "symbolic")]
    amid_chinese = _ONE_CJK.search(text) is not None
    if not amid_chinese and 2 * sum(match[0] != match[0].lower() for match in words) > max(2, len(words)):
        return frozenset()
    found = {match["name"] for match in _CHINESE_NAME.finditer(text)} if amid_chinese else set[str]()
    for match in words:
        before = text[max(0, match.start() - 8) : match.start()].rstrip(" \"'“‘(")
        opens = not before or before.endswith(_SENTENCE_END)
        inner = match[0][1:] != match[0][1:].lower()
        if amid_chinese or inner or (match[0][0].isupper() and not opens):
            found.update(token for token in _unit(match) if len(token) > 1 and not token[0].isdigit())
    most = max(2, len(index) // 50)
    return frozenset(token for token in found if 0 < index.document_frequency(token) <= most)


_SURNAMES: Final = (
    "王李张刘陈杨赵黄周吴徐孙胡朱郭何林罗郑梁谢宋唐许邓冯韩曹曾彭萧蔡潘董袁于余叶蒋杜苏魏程吕丁沈任姚卢傅钟姜崔谭廖范"
    "汪陆韦贾夏邹熊孟秦邱江尹薛闫雷侯段郝孔邵史毛顾赖武康贺严尚钱施牛洪龚方石高马"
)
_CHINESE_NAME: Final = regex.compile(
    rf"(?P<name>[小老阿][{_SURNAMES}])(?![时虾车路粉瓜头实生兴块])"
    rf"|(?P<name>[{_SURNAMES}](?=老师|老板|总(?![结是共体])|经理|医生|[哥姐叔]|师傅|工(?![资作程厂具])|律师|教授|先生|女士|主任"
    r"|同学)\p{Han})"
    r"|(?:叫|朋友|同事|同学|室友|邻居|老板|领导|客户|闺蜜|[姐妹哥弟舅姨叔姑])"
    rf"(?P<name>[{_SURNAMES}]\p{{Han}})"
)
"""How names appear in Chinese: 小李, 王老师, 同事王芳 (of which the first two characters are taken, one token)."""


def asks_nothing(query: str) -> bool:
    """True when there is no word in a query, or only words that ask for nothing ("ok", "the", "why?", 好的, emoji):
    then nothing is recalled, by meaning either. "Who am I" and 我是谁 ask, though they have no token."""
    return all(_idle(match) for match in _UNIT.finditer(normalise(query)))


def _idle(match: "regex.Match[str]") -> bool:
    if match.lastgroup == "cjk":
        return _IDLE_RUN.fullmatch(match[0]) is not None
    return match.lastgroup == "word" and match[0].lower() in IDLE_ENGLISH


K1: Final = 0.2
"""Saturation of repeats in BM25 (Robertson & Zaragoza 2009, eq. 3.15). Far below the usual 0.9-2.0: memories are
statements of a line or two, where a second mention says little. LoCoMo recall@10 / MADial recall@5 with all else as it
is (tests/evals/recall_eval.py): 1.2: 67.3 / 66.5, 0.5: 68.4 / 68.5, 0.2: 68.7 / 68.2. LoCoMo decided; MADial's 80
turns move by a point or two for small reasons."""

B: Final = 0.4
"""Share of the length correction in BM25 (same source)."""

IMAGINED: Final = 50
"""Memories without any of the query's tokens that are counted beside the real ones, so that with three memories a word
in one of them is rare too, and the floor means the same for few and for many. LoCoMo 68.7 either way."""

_SINGLE: Final = 0.5
"""Weight of a lone Chinese character: mostly what is left of a word between two particles. MADial, keyword leg alone:
49.6 at 1, 50.9 at 0.5, 48.4 at 0."""


@dataclass(frozen=True, slots=True, eq=False)
class KeywordIndex:
    """BM25 over one user's memories: an immutable snapshot, valid in this process only.

    `changed` answers another one and leaves this one as it is for whoever reads it. Postings are three parallel arrays
    in order of a 64-bit hash of the term: 13 bytes a posting, no Python object a term, so that a change copies arrays.
    """

    _ids: tuple[str | None, ...]
    """Id by slot; None = the slot is free."""
    _slot_of: dict[str, int]
    _lengths: NDArray[np.float32]
    """(slots,) tokens of each memory."""
    _norm: NDArray[np.float64]
    """(slots,) k1 * (1 - b + b * length / average)."""
    _terms: NDArray[np.int64]
    _slots: NDArray[np.int32]
    _counts: NDArray[np.uint8]

    @classmethod
    def empty(cls) -> "KeywordIndex":
        """The index of nothing."""
        floats, numbers = np.empty(0, np.float32), np.empty(0, np.int64)
        return cls((), {}, floats, np.empty(0), numbers, np.empty(0, np.int32), np.empty(0, np.uint8))

    @classmethod
    def build(cls, docs: Iterable[tuple[str, Sequence[str]]]) -> "KeywordIndex":
        """The index of these (id, tokens); of an id that comes twice the last one counts."""
        return cls.empty().changed(docs, ())

    def changed(self, add: Iterable[tuple[str, Sequence[str]]], remove: Iterable[str]) -> "KeywordIndex":
        """The index without `remove` (unknown ids are no error) and then with `add`, which replaces equal ids."""
        added = dict(add)
        ids, slot_of = list(self._ids), self._slot_of.copy()
        free = [slot for id_ in {*remove, *added} if (slot := slot_of.pop(id_, None)) is not None]
        terms, slots, counts = self._without(free)
        # Slots are used again, lowest first; what stays free is at most what one change left over.
        free = (
            sorted({slot for slot, id_ in enumerate(ids) if id_ is None}.union(free)) if None in ids else sorted(free)
        )
        lengths = np.concatenate([self._lengths, np.zeros(max(0, len(added) - len(free)), np.float32)])
        for slot in free:
            ids[slot], lengths[slot] = None, 0.0
        places = [*free, *range(len(ids), len(lengths))]
        ids += [None] * (len(lengths) - len(ids))
        new: list[tuple[int, int, int]] = []
        for (id_, words), slot in zip(added.items(), places, strict=False):
            ids[slot], slot_of[id_], lengths[slot] = id_, slot, len(words)
            new += [(hash(term), slot, min(count, 255)) for term, count in _postings(words).items()]
        if new:
            fresh = np.array(sorted(new), dtype=np.int64)
            at = np.searchsorted(terms, fresh[:, 0])
            terms = np.insert(terms, at, fresh[:, 0])
            slots = np.insert(slots, at, fresh[:, 1].astype(np.int32))
            counts = np.insert(counts, at, fresh[:, 2].astype(np.uint8))
        average = float(lengths.sum()) / max(1, len(slot_of))
        norm = K1 * (1.0 - B + B * lengths.astype(np.float64) / max(1.0, average))
        return KeywordIndex(tuple(ids), slot_of, lengths, norm, terms, slots, counts)

    def _without(self, gone: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]:
        if not gone:
            return self._terms, self._slots, self._counts
        dead = np.zeros(len(self._ids), dtype=np.bool_)
        dead[list(gone)] = True
        kept = ~dead[self._slots]
        return self._terms[kept], self._slots[kept], self._counts[kept]

    def scores(self, query_tokens: Sequence[str]) -> dict[str, float]:
        """Relative BM25 of every memory that shares a token with the query, above 0 to 1; none for no token.

        score(d) = sum over query tokens t of idf(t) * f / (f + k1 * (1 - b + b * |d| / average)), divided by the sum of
        idf(t): what a memory reaches that holds every token of the query over and over. A token that no memory holds is
        in that sum with its idf, the highest of all, so that the best of nothing is still nothing. A token repeated in
        the query counts as often. idf(t) = ln(1 + (N - n + 0.5) / (n + 0.5)), never negative, N with `IMAGINED`.
        """
        if not query_tokens or not self._slot_of:
            return {}
        asked = Counter(query_tokens)
        hashes = np.fromiter(map(hash, asked), np.int64, len(asked))
        first = np.searchsorted(self._terms, hashes, "left")
        found = np.searchsorted(self._terms, hashes, "right") - first
        total = int(found.sum())
        if not total:
            return {}
        weight = np.fromiter(map(_weight, asked, asked.values()), np.float64, len(asked))
        weight *= self._idf(found)
        # One flat walk over all postings of all tokens, so that a long query costs no Python loop.
        at = np.repeat(first - np.cumsum(found) + found, found) + np.arange(total)
        slots, counts = self._slots[at], self._counts[at]
        part = np.repeat(weight, found) * counts / (counts + self._norm[slots])
        score = np.bincount(slots, weights=part) / weight.sum()
        hit = np.flatnonzero(score)
        by_slot = zip(hit.tolist(), score[hit].tolist(), strict=True)
        return {id_: value for slot, value in by_slot if (id_ := self._ids[slot]) is not None}

    def holding(self, any_of: Collection[str]) -> frozenset[str]:
        """Ids of the memories that hold at least one of these tokens."""
        slots = {slot for token in any_of for slot in self._slots[slice(*self._range(token))].tolist()}
        return frozenset(id_ for slot in slots if (id_ := self._ids[slot]) is not None)

    def holding_all(self, any_of: Sequence[Sequence[str]]) -> frozenset[str]:
        """Ids of the memories that hold every token of at least one of these groups; an empty group is held by none."""
        hashes = np.fromiter((hash(token) for group in any_of for token in group), np.int64)
        first, last = (np.searchsorted(self._terms, hashes, side).tolist() for side in ("left", "right"))
        slots: set[int] = set()
        at = 0
        for group in any_of:
            ends, at = range(at, at + len(group)), at + len(group)
            if group and all(first[end] < last[end] for end in ends):
                slots |= set.intersection(*(set(self._slots[first[end] : last[end]].tolist()) for end in ends))
        return frozenset(id_ for slot in slots if (id_ := self._ids[slot]) is not None)

    def weight(self, query_tokens: Sequence[str]) -> float:
        """What these tokens weigh in a query: the sum that `scores` divides by."""
        asked = Counter(query_tokens)
        found = np.fromiter(map(self.document_frequency, asked), np.float64, len(asked))
        return float(
            (np.fromiter(map(_weight, asked, asked.values()), np.float64, len(asked)) * self._idf(found)).sum()
        )

    def document_frequency(self, token: str) -> int:
        """How many memories hold the token."""
        first, last = self._range(token)
        return last - first

    def __len__(self) -> int:
        """How many memories are in it."""
        return len(self._slot_of)

    @property
    def size_bytes(self) -> int:
        """About what the snapshot occupies; the ids' own text not counted, for its owner's memories hold that."""
        arrays = (self._lengths, self._norm, self._terms, self._slots, self._counts)
        return 1_000 + sum(array.nbytes for array in arrays) + 120 * len(self._ids)

    def _idf(self, found: NDArray[Any]) -> NDArray[np.float64]:
        value: NDArray[np.float64] = np.log1p((len(self._slot_of) + IMAGINED - found + 0.5) / (found + 0.5))
        return value

    def _range(self, token: str) -> tuple[int, int]:
        term = hash(token)
        return int(np.searchsorted(self._terms, term, "left")), int(np.searchsorted(self._terms, term, "right"))


def _weight(token: str, count: int) -> float:
    return count * (_SINGLE if _ONE_CJK.fullmatch(token) else 1.0)


def _postings(words: Sequence[str]) -> Counter[str]:
    """How often a memory holds each token. The characters of a bigram are held too, so that a query of one character
    finds it; they add nothing to the memory's length."""
    counts = Counter(words)
    for word in list(counts):
        if len(word) == 2 and _ONE_CJK.match(word):
            for character in word:
                counts[character] = max(1, counts[character])
    return counts
