"""Conversations through both services: what MemoryService keeps of one is in the prompt, its summary grows there, and a
prompt comes all the same when it cannot be had.
"""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from shared.gen.palimpsest.assembler.v1 import prompt_assembler_pb2 as pb
from shared.gen.palimpsest.assembler.v1 import prompt_pb2 as p
from shared.gen.palimpsest.assembler.v1 import report_pb2 as r
from shared.gen.palimpsest.memory.v1 import conversation_service_pb2 as cpb
from shared.gen.palimpsest.memory.v1 import conversation_service_pb2_grpc as cpb_grpc
from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as mpb
from shared.gen.palimpsest.memory.v1 import memory_service_pb2_grpc as mpb_grpc
from tests.acceptance.assembler import AssemblerProcess, Prompter, block
from tests.acceptance.scripted import ScriptedModel
from tests.acceptance.test_assembler_lookups import JWT, lookups, token
from tests.acceptance.test_assembler_summaries import chat
from tests.assembler.test_stories import turn
from tests.fake_openai import Reply
from tests.service import Client, ServiceProcess, eventually

SESSION = "s-1"
LOOKUP = p.Lookup(session_id=SESSION)
ASKS = "下一步应该先做什么？"
FIRST = "用户与助手逐轮讨论了索引、缓存、连接池等方面，结论是要结合业务的规模与成本来综合考虑。"
SECOND = "用户与助手逐轮讨论了索引、缓存、连接池、备份、监控等方面，结论是要结合业务的规模与成本来综合考虑并记录。"


class Model(ScriptedModel):
    """A chat model that answers the summariser what it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.says(chat(FIRST))

    def says(self, reply: Reply) -> None:
        """What it answers from now on."""
        self._reply = reply

    def _answer(self, request: Any) -> Reply:
        question = next(said["content"] for said in request.body["messages"] if said["role"] == "user")
        self.questions.append(question)
        self.before(question)
        return self._reply


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model() as model:
        yield model


@pytest.fixture(scope="module")
def pair(model: Model) -> Iterator[tuple[ServiceProcess, AssemblerProcess]]:
    """Both services, with signed tokens; the assembler has a model."""
    with ServiceProcess(JWT) as memory:
        settings = {
            **JWT,
            **model.settings,
            "PALIMPSEST_LLM__MODEL": "m",
            "PALIMPSEST_ASSEMBLER_MEMORY_TARGET": memory.address,
            "PALIMPSEST_ASSEMBLER_SUMMARY__TIMEOUT_SECONDS": "20",
            "PALIMPSEST_ASSEMBLER_LOOKUP_TIMEOUT_SECONDS": "10",
        }
        with AssemblerProcess(settings) as assembler:
            yield memory, assembler


class User:
    """One user of both services."""

    def __init__(self, pair: tuple[ServiceProcess, AssemblerProcess], name: str, *scopes: str, **claims: Any) -> None:
        headers = token(name, *(scopes or ("memory:read", "memory:write")), **claims)
        self.memory = Client(pair[0].address, headers=headers)
        self.prompter = Prompter(pair[1].address, headers=headers)

    def says(self, turns: Sequence[int], session: str = SESSION) -> None:
        """Stores turns of a long Chinese conversation."""
        for n in turns:
            messages = [cpb.ConversationMessage(role=said.role.value, content=said.content) for said in turn(n)]
            self.memory.AppendTurn(cpb.AppendTurnRequest(session_id=session, messages=messages))

    def history(self) -> cpb.GetHistoryResponse:
        answer: cpb.GetHistoryResponse = self.memory.GetHistory(cpb.GetHistoryRequest(session_id=SESSION))
        return answer

    def prompt(self, **fields: Any) -> pb.AssemblePromptResponse:
        return self.prompter.prompt(**{"question": ASKS, "lookup": LOOKUP, **fields})

    def close(self) -> None:
        self.memory.close()
        self.prompter.close()


@pytest.fixture
def user(pair: tuple[ServiceProcess, AssemblerProcess], model: Model, request: pytest.FixtureRequest) -> Iterator[User]:
    """A user of its own for each test, and a model that behaves."""
    model.says(chat(FIRST))
    model.questions.clear()
    made = User(pair, f"user-{abs(hash(request.node.name))}")
    yield made
    made.close()


def test_a_conversation_that_is_kept_is_in_the_prompt(user: User, model: Model) -> None:
    user.says(range(2))
    user.says([7], session="another")
    answer = user.prompt()
    assert lookups(answer) == {"memories": r.LOOKUP_STATUS_OK, "history": r.LOOKUP_STATUS_OK}
    assert not answer.report.degraded
    assert [message.role for message in answer.messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert "第1轮回答" in answer.messages[-2].content
    assert "第7轮" not in answer.text
    assert answer.report.lookups[1].items == 4
    assert answer.report.summary.reason == r.SUMMARY_REASON_NOT_NEEDED
    assert not model.questions


def test_tool_calls_come_back_as_they_were_said(user: User) -> None:
    call = cpb.ToolCall(id="c1", function=cpb.FunctionCall(name="disk", arguments='{"host": "db-1"}'))
    said = [
        cpb.ConversationMessage(role="user", content="磁盘还剩多少？"),
        cpb.ConversationMessage(role="assistant", tool_calls=[call]),
        cpb.ConversationMessage(role="tool", tool_call_id="c1", content="数据盘还剩 41 GB"),
        cpb.ConversationMessage(role="assistant", content="数据盘还剩 41 GB，够用到下周。"),
    ]
    user.memory.AppendTurn(cpb.AppendTurnRequest(session_id=SESSION, messages=said))
    messages = user.prompt().messages
    assert [message.role for message in messages] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert messages[2].tool_calls[0].function.arguments == '{"host": "db-1"}'
    assert messages[3].tool_call_id == messages[2].tool_calls[0].id == "c1"


def test_turns_that_slid_out_of_the_window_stay_told_by_the_stored_summary(user: User, model: Model) -> None:
    user.says(range(10))
    made = user.prompt()
    assert made.report.summary.used
    assert not made.report.summary.cached
    assert FIRST in made.messages[0].content
    eventually(lambda: user.history().summary == FIRST, what="the storing of the summary")
    until = user.history().summary_until
    assert until == made.report.summary.covered_messages == 20 - (len(made.messages) - 2)

    again = user.prompt()
    assert again.report.summary.cached
    assert again.report.summary.covered_messages == until
    assert again.messages == made.messages
    assert len(model.questions) == 1

    model.says(chat(SECOND))
    user.says(range(10, 14))
    grown = user.prompt()
    assert SECOND in grown.messages[0].content
    assert FIRST not in grown.text
    assert grown.report.summary.covered_messages > until
    assert FIRST in model.questions[1], "it is made of the one before"
    assert "第0轮" not in model.questions[1], "and of the turns that it does not tell"
    assert "第9轮" in model.questions[1]
    eventually(lambda: user.history().summary == SECOND, what="the storing of the next summary")
    assert user.history().summary_until == grown.report.summary.covered_messages
    assert not grown.report.degraded
    assert block(grown, r.BLOCK_HISTORY).kept_tokens + block(grown, r.BLOCK_SUMMARY).kept_tokens <= 1_000


def test_a_summary_survives_the_assembler(
    user: User, model: Model, pair: tuple[ServiceProcess, AssemblerProcess]
) -> None:
    """A replica that never saw the conversation, and has no model, tells it all the same."""
    user.says(range(10))
    made = user.prompt()
    eventually(lambda: user.history().summary == FIRST, what="the storing of the summary")
    with AssemblerProcess({**JWT, "PALIMPSEST_ASSEMBLER_MEMORY_TARGET": pair[0].address}) as other:
        prompter = Prompter(other.address, headers=user.prompter.headers)
        answer = prompter.prompt(question=ASKS, lookup=LOOKUP)
        assert answer.messages == made.messages
        assert answer.report.summary.cached
        user.says(range(10, 14))
        later = prompter.prompt(question=ASKS, lookup=LOOKUP)
        assert FIRST in later.messages[0].content
        assert later.report.summary.reason == r.SUMMARY_REASON_NO_MODEL
        assert not later.report.degraded
        prompter.close()


def test_a_dry_run_writes_nothing(user: User, model: Model) -> None:
    user.says(range(10))
    answer = user.prompt(dry_run=True)
    assert answer.report.summary.reason == r.SUMMARY_REASON_DISABLED
    assert not model.questions
    assert user.history().summary_until == 0


def test_a_refused_summary_leaves_the_stored_one_as_it_was(user: User, model: Model) -> None:
    user.says(range(10))
    save = cpb.SaveSessionSummaryRequest(session_id=SESSION, summary=FIRST, summary_until=4)
    user.memory.SaveSessionSummary(save)
    model.says(chat("预算是 98765 元。"))
    answer = user.prompt()
    summary = answer.report.summary
    assert (summary.used, summary.covered_messages) == (True, 4)
    assert summary.reason == r.SUMMARY_REASON_INVENTED
    assert answer.report.degraded
    assert FIRST in answer.messages[0].content
    assert user.history().summary_until == 4


def test_who_may_not_write_has_the_summary_for_this_prompt(
    user: User, model: Model, pair: tuple[ServiceProcess, AssemblerProcess]
) -> None:
    name = "reader"
    writer, reader = User(pair, name), User(pair, name, "memory:read")
    writer.says(range(10))
    answer = reader.prompt()
    assert FIRST in answer.messages[0].content
    assert not answer.report.degraded
    eventually(lambda: "a summary was not stored: DENIED" in pair[1].log, what="the refusal")
    assert writer.history().summary_until == 0
    writer.close()
    reader.close()


@pytest.mark.parametrize("rights", [("memory:write",), ("memory:read", ["GENERAL"])], ids=["no read", "shards"])
def test_who_may_not_read_conversations_has_no_history(
    pair: tuple[ServiceProcess, AssemblerProcess], rights: tuple[Any, ...]
) -> None:
    scopes = [right for right in rights if isinstance(right, str)]
    claims = {"shards": rights[1]} if len(rights) > 1 else {}
    limited = User(pair, "limited", *scopes, **claims)
    answer = limited.prompt()
    assert lookups(answer)["history"] == r.LOOKUP_STATUS_DENIED
    assert answer.report.degraded
    assert len(answer.messages) == 2
    limited.close()


def test_nobody_reads_the_conversation_of_another(user: User, pair: tuple[ServiceProcess, AssemblerProcess]) -> None:
    user.says(range(2))
    other = User(pair, "mallory")
    answer = other.prompt()
    assert len(answer.messages) == 2
    assert not answer.report.degraded
    other.close()


def test_history_and_session_exclude_each_other_and_a_profile_is_not_served(user: User) -> None:
    answer = user.prompt(lookup=p.Lookup(session_id=SESSION, profile=True), user_profile="城市：杭州")
    assert lookups(answer)["profile"] == r.LOOKUP_STATUS_UNSUPPORTED
    assert lookups(answer)["history"] == r.LOOKUP_STATUS_OK
    assert answer.report.degraded
    assert "杭州" in answer.text


def test_a_preference_saved_in_a_turn_is_in_the_prompt_of_that_turn(user: User) -> None:
    """And the turn before is there as well: what was said, and what is remembered."""
    user.says(range(1))
    save = mpb.SaveMemoryRequest(
        type=m.MEMORY_TYPE_PREFERENCE, content="我喜欢回答里带上命令行示例", source=m.MemorySource(session_id=SESSION)
    )
    user.memory.SaveMemory(save)
    answer = user.prompt(question="回答里请带上命令行示例：怎么备份数据库？")
    assert "我喜欢回答里带上命令行示例" in answer.messages[0].content
    assert "第0轮回答" in answer.messages[-2].content
    assert not answer.report.degraded


class Stub(mpb_grpc.MemoryServiceServicer, cpb_grpc.ConversationServiceServicer):
    """A MemoryService that does as it is told."""

    history: cpb.GetHistoryResponse | None = cpb.GetHistoryResponse()
    """None = it fails."""
    recalls = True

    def __init__(self) -> None:
        self.asked: list[cpb.GetHistoryRequest] = []
        self.seen: list[dict[str, str]] = []
        self.saved: list[tuple[cpb.SaveSessionSummaryRequest, dict[str, str]]] = []
        self.save_code: grpc.StatusCode | None = None
        self.storing, self.release = threading.Event(), threading.Event()
        self.release.set()

    def RecallMemories(self, request: mpb.RecallMemoriesRequest, context: Any) -> mpb.RecallMemoriesResponse:
        if not self.recalls:
            context.abort(grpc.StatusCode.UNAVAILABLE, "hunter2")
        return mpb.RecallMemoriesResponse()

    def GetHistory(self, request: cpb.GetHistoryRequest, context: Any) -> cpb.GetHistoryResponse:
        self.asked.append(request)
        self.seen.append(_metadata(context))
        if self.history is None:
            context.abort(grpc.StatusCode.INTERNAL, "hunter2")
        return self.history

    def SaveSessionSummary(
        self, request: cpb.SaveSessionSummaryRequest, context: Any
    ) -> cpb.SaveSessionSummaryResponse:
        self.saved.append((request, _metadata(context)))
        self.storing.set()
        self.release.wait(30)
        if self.save_code is not None:
            context.abort(self.save_code, "hunter2")
        return cpb.SaveSessionSummaryResponse(summary_until=request.summary_until)


def _metadata(context: Any) -> dict[str, str]:
    return {key: str(value) for key, value in context.invocation_metadata()}


@pytest.fixture
def stub(model: Model) -> Iterator[tuple[Stub, AssemblerProcess]]:
    """An assembler with a model, before a MemoryService of our own that has a long conversation."""
    model.says(chat(FIRST))
    model.questions.clear()
    servicer = Stub()  # type: ignore[abstract]  # the others are never called
    said = [message for n in range(10) for message in turn(n)]
    servicer.history = cpb.GetHistoryResponse(
        messages=[
            cpb.ConversationMessage(role=message.role.value, content=message.content, seq=n, turn=(n + 1) // 2)
            for n, message in enumerate(said, start=1)
        ],
        turns=10,
        total_messages=20,
    )
    server = grpc.server(ThreadPoolExecutor(8))
    mpb_grpc.add_MemoryServiceServicer_to_server(servicer, server)
    cpb_grpc.add_ConversationServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    settings = {
        **model.settings,
        "PALIMPSEST_LLM__MODEL": "m",
        "PALIMPSEST_ASSEMBLER_MEMORY_TARGET": f"127.0.0.1:{port}",
        "PALIMPSEST_ASSEMBLER_SUMMARY__TIMEOUT_SECONDS": "20",
        "PALIMPSEST_ASSEMBLER_LOOKUP_TIMEOUT_SECONDS": "10",
    }
    with AssemblerProcess(settings) as process:
        yield servicer, process
    servicer.release.set()
    server.stop(0)


def test_storing_delays_no_answer_and_goes_on_behalf_of_the_caller(stub: tuple[Stub, AssemblerProcess]) -> None:
    servicer, assembler = stub
    servicer.release.clear()
    prompter = Prompter(assembler.address, headers=(("x-user-id", "ivan"), ("x-request-id", "req-7")))
    answer = prompter.prompt(question=ASKS, lookup=LOOKUP)
    assert servicer.storing.wait(20)
    assert FIRST in answer.messages[0].content, "it is being stored still"
    assert not answer.report.degraded
    servicer.release.set()
    request, headers = servicer.saved[0]
    assert (request.session_id, request.summary, request.expected_until) == (SESSION, FIRST, 0)
    assert request.summary_until == answer.report.summary.covered_messages
    assert headers["x-user-id"] == servicer.seen[0]["x-user-id"] == "ivan"
    assert headers["x-request-id"] == servicer.seen[0]["x-request-id"] == "req-7"
    prompter.close()


def test_many_at_once_are_one_call_of_the_model(stub: tuple[Stub, AssemblerProcess], model: Model) -> None:
    """The summary is not stored before all are answered, so none of them finds it in the history."""
    servicer, assembler = stub
    servicer.release.clear()
    prompter = Prompter(assembler.address, "judy")
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: prompter.prompt(question=ASKS, lookup=LOOKUP), range(6)))
    servicer.release.set()
    assert len(model.questions) == 1
    assert len(servicer.saved) == 1
    assert len({answer.text for answer in answers}) == 1
    assert all(answer.report.summary.used and not answer.report.degraded for answer in answers)
    prompter.close()


def test_an_assembler_that_ends_gives_up_storing(stub: tuple[Stub, AssemblerProcess]) -> None:
    servicer, assembler = stub
    servicer.release.clear()
    prompter = Prompter(assembler.address)
    prompter.prompt(question=ASKS, lookup=LOOKUP)
    assert servicer.storing.wait(20)
    prompter.close()
    assert assembler.stop() == 0


@pytest.mark.parametrize("code", [grpc.StatusCode.ABORTED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND])
def test_a_summary_that_cannot_be_stored_is_used(stub: tuple[Stub, AssemblerProcess], code: grpc.StatusCode) -> None:
    servicer, assembler = stub
    servicer.save_code = code
    prompter = Prompter(assembler.address)
    answer = prompter.prompt(question=ASKS, lookup=LOOKUP)
    assert FIRST in answer.messages[0].content
    assert not answer.report.degraded
    if code is not grpc.StatusCode.ABORTED:
        eventually(lambda: "a summary was not stored" in assembler.log, what="the line in the log")
    assert "hunter2" not in assembler.log
    assert FIRST not in assembler.log
    prompter.close()


def test_each_lookup_fails_alone(stub: tuple[Stub, AssemblerProcess]) -> None:
    servicer, assembler = stub
    prompter = Prompter(assembler.address)
    servicer.recalls = False
    answer = prompter.prompt(question=ASKS, lookup=LOOKUP)
    assert lookups(answer) == {"memories": r.LOOKUP_STATUS_ERROR, "history": r.LOOKUP_STATUS_OK}
    assert "第9轮" in answer.text
    assert answer.report.degraded
    servicer.recalls, servicer.history = True, None
    answer = prompter.prompt(question=ASKS, lookup=LOOKUP)
    assert lookups(answer) == {"memories": r.LOOKUP_STATUS_OK, "history": r.LOOKUP_STATUS_ERROR}
    assert len(answer.messages) == 2
    assert answer.report.degraded
    assert "hunter2" not in assembler.log + str(answer)
    prompter.close()


def test_a_hole_is_said(stub: tuple[Stub, AssemblerProcess], model: Model) -> None:
    servicer, assembler = stub
    assert servicer.history is not None
    for message in servicer.history.messages:
        message.seq += 100
    servicer.history.total_messages = 120
    servicer.history.summary, servicer.history.summary_until = FIRST, 60
    servicer.history.omitted_messages = 40
    prompter = Prompter(assembler.address)
    answer = prompter.prompt(question=ASKS, lookup=LOOKUP)
    history = answer.report.lookups[1]
    assert (history.status, history.items, history.omitted) == (r.LOOKUP_STATUS_OK, 20, 40)
    assert answer.report.degraded
    assert answer.report.summary.covered_messages == 60
    assert answer.report.summary.reason == r.SUMMARY_REASON_INCOMPLETE
    assert FIRST in answer.messages[0].content
    assert [request.HasField("max_tokens") for request in servicer.asked] == [True, False]
    assert servicer.asked[1].max_messages == 1_000
    assert not model.questions
    assert not servicer.saved
    prompter.close()
