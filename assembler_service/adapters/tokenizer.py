"""Counting tokens with tiktoken and a vocabulary that is part of the installation. No network, ever.

Owns the encodings, the map from models to them and the cache of counts. The vocabularies come from the wheel
`bpe-openai`; tiktoken's own definition of an encoding (pattern, special tokens, hash of the vocabulary) is used, run
with a reader that looks into that wheel in place of the one that downloads. Refuses to cut.

Caveat: a text tiktoken cannot take (a run of about a million blanks overflows its pattern's stack) is counted by its
UTF-8 bytes, which no byte-level encoding can exceed.
"""

import binascii
import gzip
import hashlib
import importlib.util
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tiktoken
from tiktoken_ext import openai_public  # type: ignore[import-untyped]  # has no types

DEFAULT_ENCODING: Final = "o200k_base"
ENCODINGS: Final = ("o200k_base", "cl100k_base")
_VOCABULARY_WHEEL: Final = "bpe_openai"
_BLANKS_MAX: Final = 200_000
"""A longer run of one blank is counted by its bytes at once: tiktoken needs a second for it, or refuses."""


class VocabularyMissing(Exception):
    """The installation lacks a vocabulary, or holds another one than tiktoken expects. The text names the file."""


@dataclass(frozen=True, slots=True)
class ModelEncoding:
    """The encoding tokens of a model are counted in; `known` = tiktoken says so, else it is an approximation."""

    name: str
    known: bool


def encoding_for(model: str) -> ModelEncoding:
    """The encoding of a model. Models of other makers, and of old encodings that are not shipped, are approximated."""
    try:
        name = tiktoken.encoding_name_for_model(model)
    except KeyError:
        return ModelEncoding(DEFAULT_ENCODING, known=False)
    if name == "o200k_harmony":  # o200k_base with other special tokens, which are never used for counting
        name = DEFAULT_ENCODING
    return ModelEncoding(name, known=True) if name in ENCODINGS else ModelEncoding(DEFAULT_ENCODING, known=False)


class Tokenizer:
    """Counters by encoding. The default one is loaded at once, others when they are first asked for. Thread-safe."""

    def __init__(self, cache_entries: int = 20_000) -> None:
        """`cache_entries`: counts kept per encoding; about 100 bytes each. Raises VocabularyMissing."""
        self._cache_entries = cache_entries
        self._lock = threading.Lock()
        self._counters: dict[str, Counter] = {}
        self.counter(DEFAULT_ENCODING)

    def counter(self, encoding: str = DEFAULT_ENCODING) -> "Counter":
        """The counter of one of ENCODINGS; KeyError for any other name. The first call for one takes half a second."""
        if encoding not in ENCODINGS:
            raise KeyError(encoding)
        with self._lock:
            found = self._counters.get(encoding)
            if found is None:
                found = self._counters[encoding] = Counter(load_encoding(encoding), self._cache_entries)
        return found


class Counter:
    """Counts the tokens of texts in one encoding and remembers the counts, by a text's hash and length, in two halves:
    when the new half is full it becomes the old one, and what was not used since goes. No text is kept.
    """

    def __init__(self, encoding: tiktoken.Encoding, cache_entries: int) -> None:
        self.encoding = encoding.name
        self._encoding = encoding
        self._half = max(1, cache_entries // 2)
        self._new: dict[tuple[int, int], int] = {}
        self._old: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    def __call__(self, text: str) -> int:
        """Tokens of a text as ordinary text, special tokens in it too. Never raises, never below the true count."""
        key = (hash(text), len(text))  # keyed with a secret of the process (PEP 456): nobody can aim at a collision
        tokens = self._new.get(key)
        if tokens is not None:
            return tokens
        tokens = self._old.get(key)
        if tokens is None:
            tokens = self._encode(text)
        with self._lock:
            if len(self._new) >= self._half:
                self._old, self._new = self._new, {}
            self._new[key] = tokens
        return tokens

    @property
    def cached(self) -> int:
        """How many counts are remembered; at most the number it was made with."""
        return len(self._new) + len(self._old)

    def forget(self) -> None:
        """Empties the cache; for measuring."""
        with self._lock:
            self._new, self._old = {}, {}

    def _encode(self, text: str) -> int:
        if _has_long_gap(text):
            return len(text.encode("utf-8", "surrogatepass"))
        try:
            return len(self._encoding.encode(text, disallowed_special=()))
        except ValueError:  # the pattern's stack ran over
            return len(text.encode("utf-8", "surrogatepass"))
        except BaseException as error:  # a panic of the Rust side is not an Exception
            if type(error).__name__ != "PanicException":
                raise
            return len(text.encode("utf-8", "surrogatepass"))


def _has_long_gap(text: str) -> bool:
    """True where a text holds a very long run of white space."""
    if len(text) < _BLANKS_MAX:
        return False
    step = _BLANKS_MAX // 2  # a run of _BLANKS_MAX holds one whole stretch between two multiples of `step`
    return any(text[start : start + step].isspace() for start in range(0, len(text) - step + 1, step))


def load_encoding(name: str) -> tiktoken.Encoding:
    """Builds an encoding from the shipped vocabulary. Raises VocabularyMissing."""
    define: Callable[[], dict[str, Any]] = getattr(openai_public, name)
    offline = types.FunctionType(define.__code__, {**vars(openai_public), "load_tiktoken_bpe": _shipped_ranks})
    return tiktoken.Encoding(**offline())


def _shipped_ranks(url: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """The ranks of tokens in the shipped vocabulary that has the name at the end of `url`; nothing is fetched."""
    found = importlib.util.find_spec(_VOCABULARY_WHEEL)  # found, not imported: its own tokenizer is not needed
    if found is None or found.origin is None:
        raise VocabularyMissing(f"The package that carries the vocabularies is not installed: {_VOCABULARY_WHEEL}.")
    path = Path(found.origin).parent / "data" / f"{url.rsplit('/', 1)[-1]}.gz"
    try:
        raw = gzip.decompress(path.read_bytes())
    except OSError as error:
        raise VocabularyMissing(f"The vocabulary {path.name} of {_VOCABULARY_WHEEL} cannot be read.") from error
    if expected_hash is not None and hashlib.sha256(raw).hexdigest() != expected_hash:
        raise VocabularyMissing(f"The vocabulary {path.name} of {_VOCABULARY_WHEEL} is not the one tiktoken expects.")
    fields = raw.split()
    return dict(zip(map(binascii.a2b_base64, fields[::2]), map(int, fields[1::2]), strict=True))
