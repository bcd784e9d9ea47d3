"""JSON from an endpoint: by a schema, as any JSON, in words alone; learnt from its refusals, for each model."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from shared.llm import ChatModel, JsonShape, Line, ModelTimeout, ModelUnavailable
from tests.fake_openai import FakeOpenAI, Reply, Request, chats, fails, hangs, refuses

SHAPE = JsonShape("extraction", {"type": "object", "properties": {}, "required": [], "additionalProperties": False})
LINES = (Line("system", "Answer in JSON."), Line("user", "我用 MySQL 8"))


@pytest.fixture
async def fake() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI() as server:
        server.say = lambda system, user: "{}"
        yield server


@pytest.fixture
async def model(fake: FakeOpenAI) -> AsyncIterator[ChatModel]:
    made = ChatModel(fake.base_url, "sk-key", "first", 20.0)
    yield made
    await made.close()


async def ask(model: ChatModel, name: str = "", seconds: float = 20.0) -> str:
    return (await model.answer(LINES, max_tokens=50, seconds=seconds, shape=SHAPE, model=name)).text


def formats(fake: FakeOpenAI) -> list[str]:
    return [request.body.get("response_format", {}).get("type", "words") for request in fake.requests]


async def test_the_strictest_way_first(fake: FakeOpenAI, model: ChatModel) -> None:
    assert await ask(model) == "{}"
    wanted = fake.requests[0].body["response_format"]
    assert wanted == {
        "type": "json_schema",
        "json_schema": {"name": "extraction", "schema": dict(SHAPE.schema), "strict": True},
    }
    assert [message["role"] for message in fake.requests[0].body["messages"]] == ["system", "user"]


def no_schema(request: Request) -> Reply:
    """Takes JSON mode, and no schema."""
    if request.body.get("response_format", {}).get("type") == "json_schema":
        return refuses("response_format", "This response_format type is unavailable now")(request, Reply())
    return chats("{}")(request, Reply())


def no_format(request: Request) -> Reply:
    """Takes no response_format at all, and does not say why."""
    return Reply(422, "unprocessable") if "response_format" in request.body else chats("{}")(request, Reply())


async def test_json_mode_where_there_is_no_schema_and_it_is_remembered(fake: FakeOpenAI, model: ChatModel) -> None:
    fake.routes["/v1/chat/completions"] = no_schema
    assert [await ask(model), await ask(model)] == ["{}", "{}"]
    assert formats(fake) == ["json_schema", "json_object", "json_object"]


async def test_words_where_there_is_no_format_and_it_is_remembered(fake: FakeOpenAI, model: ChatModel) -> None:
    fake.routes["/v1/chat/completions"] = no_format
    assert [await ask(model), await ask(model)] == ["{}", "{}"]
    assert formats(fake) == ["json_schema", "json_object", "words", "words"]


async def test_each_model_is_learnt_by_itself(fake: FakeOpenAI, model: ChatModel) -> None:
    fake.routes["/v1/chat/completions"] = no_format
    await ask(model)
    del fake.requests[:]
    fake.routes["/v1/chat/completions"] = lambda request: chats("{}")(request, Reply())
    await ask(model, "second")
    assert [(request.body["model"], form) for request, form in zip(fake.requests, formats(fake), strict=True)] == [
        ("second", "json_schema")
    ]


async def test_a_request_that_no_way_mends_teaches_nothing(fake: FakeOpenAI, model: ChatModel) -> None:
    fake.plans.extend([fails(400)] * 3)
    with pytest.raises(ModelUnavailable) as caught:
        await ask(model)
    assert caught.value.status == 400
    assert await ask(model) == "{}"
    assert formats(fake) == ["json_schema", "json_object", "words", "json_schema"]


async def test_a_question_without_shape_has_no_format(fake: FakeOpenAI, model: ChatModel) -> None:
    await model.complete("s", "u", max_tokens=5, seconds=5)
    assert formats(fake) == ["words"]


async def test_concurrent_questions_learn_together(fake: FakeOpenAI, model: ChatModel) -> None:
    fake.routes["/v1/chat/completions"] = no_schema
    assert await asyncio.gather(*(ask(model) for _ in range(5))) == ["{}"] * 5
    del fake.requests[:]
    await ask(model)
    assert formats(fake) == ["json_object"]


async def test_what_a_failure_says_of_itself(fake: FakeOpenAI, model: ChatModel) -> None:
    fake.plans.extend([fails(429, **{"retry-after": "7"}), fails(503, **{"retry-after": "soon"}), hangs(5)])
    with pytest.raises(ModelUnavailable) as limited:
        await ask(model)
    assert (limited.value.status, limited.value.retry_after) == (429, 7.0)
    with pytest.raises(ModelUnavailable) as broken:
        await ask(model)
    assert (broken.value.status, broken.value.retry_after) == (503, 0.0)
    with pytest.raises(ModelTimeout) as late:
        await ask(model, seconds=0.2)
    assert late.value.status is None
