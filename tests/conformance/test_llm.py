"""The chat client against a local HTTP server that behaves, differs and misbehaves."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator

import pytest

from shared.llm import ChatModel, Completion, ModelTimeout, ModelUnavailable
from tests.fake_openai import FakeOpenAI, Plan, Reply, Request, breaks_off, chats, fails, hangs, refuses, says

KEY = "sk-very-secret-key"
SECRET = "我的密码是 hunter2"


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as server:
        server.say = lambda system, user: f"{system}|{user}"
        yield server


@pytest.fixture
async def model(fake: FakeOpenAI) -> AsyncIterator[ChatModel]:
    made = ChatModel(fake.base_url, KEY, "fake-model", 20.0)
    yield made
    await made.close()


async def ask(model: ChatModel, user: str = SECRET, seconds: float = 20.0) -> Completion:
    return await model.complete("概括", user, max_tokens=50, seconds=seconds)


async def test_a_question_and_its_answer(fake: FakeOpenAI, model: ChatModel) -> None:
    assert await ask(model, "你好 😀") == Completion("概括|你好 😀", "stop", 70, 7)
    sent = fake.requests[0]
    assert sent.body == {
        "model": "fake-model",
        "messages": [{"role": "system", "content": "概括"}, {"role": "user", "content": "你好 😀"}],
        "max_tokens": 50,
        "temperature": 0.0,
    }
    assert sent.headers["authorization"] == f"Bearer {KEY}"


async def test_what_has_no_utf8_is_left_out(fake: FakeOpenAI, model: ChatModel) -> None:
    assert (await ask(model, "a\ud800b")).text == "概括|ab"


WORDS = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
TAKES_NO_TEMPERATURE = "Unsupported value: 'temperature' does not support 0 with this model."


@pytest.mark.parametrize("status", [400, 422])
async def test_the_other_name_of_the_limit_is_learnt_once(fake: FakeOpenAI, model: ChatModel, status: int) -> None:
    fake.plans.extend([refuses("max_tokens", WORDS, status)] * 4)
    for _ in range(3):
        assert (await ask(model)).finish_reason == "stop"
    limits = [request.body.get("max_completion_tokens") for request in fake.requests]
    assert limits == [None, 50, 50, 50]
    assert "max_tokens" not in fake.requests[-1].body


async def test_both_differences_are_learnt_in_one_call_and_by_all_at_once(fake: FakeOpenAI, model: ChatModel) -> None:
    def strict(request: Request) -> Reply:
        for parameter, words in (("max_tokens", WORDS), ("temperature", TAKES_NO_TEMPERATURE)):
            refused = refuses(parameter, words)(request, Reply())
            if refused.status != 200:
                return refused
        return chats("fine")(request, Reply())

    fake.routes["/v1/chat/completions"] = strict
    assert [answer.text for answer in await asyncio.gather(*(ask(model) for _ in range(5)))] == ["fine"] * 5
    asked = len(fake.requests)
    assert (await ask(model)).text == "fine"
    assert len(fake.requests) == asked + 1


async def test_another_refusal_of_the_request_is_not_asked_again(fake: FakeOpenAI, model: ChatModel) -> None:
    fake.plans.append(refuses("messages", f"context too long: {SECRET}"))
    with pytest.raises(ModelUnavailable, match="status 400"):
        await ask(model)
    assert len(fake.requests) == 1


ANSWERS: dict[str, tuple[Plan, Completion]] = {
    "null": (chats(None), Completion("", "stop", 70, 7)),
    "empty": (chats(""), Completion("", "stop", 70, 7)),
    "parts": (
        chats([{"type": "text", "text": "一"}, {"type": "reasoning", "text": "?"}, {"type": "text", "text": "二"}, 3]),
        Completion("一二", "stop", 70, 7),
    ),
    "reasoning beside it": (chats("答", reasoning_content="想…", reasoning="…"), Completion("答", "stop", 70, 7)),
    "reasoning alone, cut": (chats(None, "length", reasoning_content="想…"), Completion("", "length", 70, 7)),
    "refusal": (chats(None, refusal="I cannot."), Completion("", "refusal", 70, 7)),
    "filtered": (chats("", "content_filter"), Completion("", "content_filter", 70, 7)),
    "no reason": (chats("答", None), Completion("答", "", 70, 7)),
    "reason of another kind": (chats("答", 3), Completion("答", "", 70, 7)),
    "no usage": (says('{"choices": [{"message": {"content": "答"}}]}'), Completion("答", "")),
    "usage of another kind": (
        says(
            '{"choices": [{"message": {"content": "答"}}],'
            ' "usage": {"prompt_tokens": "many", "completion_tokens": -1}}'
        ),
        Completion("答", ""),
    ),
    "lone surrogate": (
        says('{"choices": [{"message": {"content": "\\ud83d!"}, "finish_reason": "stop"}]}'),
        Completion("\ud83d!", "stop"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("plan", "expected"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_answers_of_every_shape(fake: FakeOpenAI, model: ChatModel, plan: Plan, expected: Completion) -> None:
    fake.plans.append(plan)
    assert await ask(model) == expected


GARBAGE: dict[str, Plan] = {
    "empty body": says(""),
    "no JSON": says("not json"),
    "half of it": says('{"choices": [{"message": {"cont'),
    "null": says("null"),
    "a list": says("[]"),
    "HTML": says("<html>busy</html>"),
    "an error with status 200": says(json.dumps({"error": {"message": SECRET}})),
    "no choice": says('{"choices": []}'),
    "choices of another kind": says('{"choices": "none"}'),
    "choices of numbers": says('{"choices": [1, 2]}'),
    "null message": says('{"choices": [{"message": null}]}'),
    "content of numbers": chats(7),
    "content as an object": chats({"text": SECRET}),
}


@pytest.mark.parametrize("plan", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_is_unavailable_and_the_next_call_works(fake: FakeOpenAI, model: ChatModel, plan: Plan) -> None:
    fake.plans.append(plan)
    with pytest.raises(ModelUnavailable) as caught:
        await ask(model)
    assert not isinstance(caught.value, ModelTimeout)
    assert "hunter2" not in str(caught.value)
    assert (await ask(model)).finish_reason == "stop"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
async def test_a_failure_is_asked_once_and_tells_neither_key_nor_text(
    fake: FakeOpenAI, model: ChatModel, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    fake.plans.append(fails(status, **{"retry-after": "30"}))
    with pytest.raises(ModelUnavailable, match=f"fake-model: .*status {status}") as caught:
        await ask(model)
    assert len(fake.requests) == 1
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    for secret in (KEY, "hunter2"):
        assert secret not in str(caught.value)
        assert secret not in caplog.text


async def test_a_lost_connection_is_replaced_once(fake: FakeOpenAI, model: ChatModel) -> None:
    fake.plans.append(breaks_off)
    assert (await ask(model)).finish_reason == "stop"
    assert len(fake.requests) == 2
    fake.plans.extend([breaks_off] * 5)
    with pytest.raises(ModelUnavailable):
        await ask(model)
    assert len(fake.requests) == 4


async def test_a_hang_ends_in_time_and_the_next_call_works(fake: FakeOpenAI, model: ChatModel) -> None:
    await ask(model)
    fake.plans.append(hangs(60))
    with pytest.raises(ModelTimeout):
        await ask(model, seconds=0.2)
    assert (await ask(model)).finish_reason == "stop"
    with pytest.raises(ModelTimeout):
        await ask(model, seconds=0)


async def test_the_models_own_limit_holds_too(fake: FakeOpenAI) -> None:
    model = ChatModel(fake.base_url, KEY, "fake-model", 0.3)
    fake.plans.append(hangs(60))
    with pytest.raises(ModelTimeout):
        async with asyncio.timeout(20):
            await ask(model, seconds=60)
    await model.close()


async def test_cancelling_a_call_leaves_the_others(fake: FakeOpenAI, model: ChatModel) -> None:
    fake.plans.append(hangs(60))
    call = asyncio.ensure_future(ask(model))
    await asyncio.wait_for(fake.asked.wait(), 20)
    other = asyncio.ensure_future(ask(model))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await other).finish_reason == "stop"


async def test_giving_up_the_first_call_at_once_does_not_spoil_the_client(fake: FakeOpenAI, model: ChatModel) -> None:
    calls = [asyncio.ensure_future(ask(model)) for _ in range(3)]
    await asyncio.sleep(0)
    calls[0].cancel()
    assert (await calls[1]).finish_reason == (await calls[2]).finish_reason == "stop"
    with pytest.raises(asyncio.CancelledError):
        await calls[0]


async def test_after_close_and_with_nobody_listening_it_is_unavailable() -> None:
    async with FakeOpenAI() as fake:
        closed = ChatModel(fake.base_url, KEY, "fake-model", 5.0)
        await ask(closed)
        await closed.close()
        await closed.close()
        with pytest.raises(ModelUnavailable, match="closed"):
            await ask(closed)
        lonely = ChatModel(fake.base_url, KEY, "fake-model", 5.0)
    with pytest.raises(ModelUnavailable):
        await ask(lonely)
    await lonely.close()


async def test_environment_and_redirects_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeOpenAI() as fake, FakeOpenAI() as elsewhere:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_BASE_URL"):
            monkeypatch.setenv(name, elsewhere.base_url)
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
        monkeypatch.setenv("OPENAI_ORG_ID", "org-from-environment")
        model = ChatModel(fake.base_url, "", "fake-model", 20.0)
        await ask(model)
        assert "environment" not in str(fake.requests[0].headers)
        fake.plans.append(fails(307, location=elsewhere.base_url + "/chat/completions"))
        with pytest.raises(ModelUnavailable):
            await ask(model)
        await model.close()
        assert elsewhere.requests == []
