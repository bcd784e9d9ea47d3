"""The command line as a new user meets it: one real process per command, nothing looked up inside."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from memory_service.domain.space import EmbeddingSpace
from shared.gen.palimpsest.memory.v1 import admin_service_pb2 as admin
from shared.gen.palimpsest.memory.v1 import memory_pb2 as m
from shared.gen.palimpsest.memory.v1 import memory_service_pb2 as pb
from tests.servers import MariaDB, free_ports
from tests.service import READY, ROOT, Client, eventually, refused

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
PROGRAM = [sys.executable, "-m", "memory_service"]
TOOLS = os.pathsep.join([str(ROOT / ".venv/bin"), os.environ.get("PATH", ""), str(Path.home() / "go/bin")])
SECRET = "a secret of at least thirty-two bytes"


def environment(**settings: str) -> dict[str, str]:
    """This process's environment with these settings of ours and no others."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PALIMPSEST_")}
    return {**clean, "OMP_NUM_THREADS": "1", **{f"PALIMPSEST_{name}": value for name, value in settings.items()}}


def command(*arguments: str, env: Mapping[str, str], timeout: float = 60) -> "subprocess.CompletedProcess[str]":
    """Runs `memory-service` with the arguments to its end."""
    return subprocess.run(
        [*PROGRAM, *arguments], env=dict(env), cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
    )


def refusal(*arguments: str, env: Mapping[str, str]) -> str:
    """The one line with which a command refuses; log lines (JSON) beside it are not counted."""
    done = command(*arguments, env=env)
    assert done.returncode == 1, done.stderr
    lines = [line for line in done.stderr.splitlines() if line and not line.startswith("{") and "━" not in line]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("memory-service: ")
    return lines[0]


class Server:
    """`memory-service up` or `serve`. `said` is what it printed, `log` what it logged."""

    def __init__(self, folder: Path, env: Mapping[str, str], name: str = "up") -> None:
        self._out, self._log = folder / "out.txt", folder / "log.txt"
        self._command, self._env = [*PROGRAM, name], dict(env)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def said(self) -> str:
        return self._out.read_text(encoding="utf-8")

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    @property
    def address(self) -> str:
        return self.said.split(READY)[1].splitlines()[0]

    def launch(self) -> None:
        with self._out.open("w") as out, self._log.open("w") as log:
            self.process = subprocess.Popen(self._command, env=self._env, cwd=ROOT, stdout=out, stderr=log)

    def start(self) -> float:
        """Starts it and waits until it is ready; answers how many seconds that took."""
        began = time.monotonic()
        self.launch()
        eventually(lambda: READY in self.said and self.said.endswith("\n"), 60, f"ready line; log:\n{self.log}")
        return time.monotonic() - began

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ends it, if it runs; answers its exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(how)
        code, self.process = self.process.wait(40), None
        return code


class Home(Server):
    """The embedded default on a data folder and a port of its own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.data = folder / "data"
        self.listen = f"127.0.0.1:{free_ports(1)[0]}"
        self.env = environment(DATA_DIR=str(self.data), LISTEN=self.listen, **settings)
        super().__init__(folder, self.env)

    def contents(self, user: str) -> list[str]:
        client = Client(self.listen, user)
        with contextlib.closing(client):
            return [memory.content for memory in client.ListMemories(pb.ListMemoriesRequest()).memories]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """One home for the module; each test finds it running or stopped and says what it needs."""
    found = Home(tmp_path_factory.mktemp("home"))
    yield found
    found.end(signal.SIGKILL)


@pytest.fixture
def running(home: Home) -> Home:
    """The home, with its server running."""
    if home.process is None:
        home.start()
    return home


@pytest.fixture
def stopped(home: Home) -> Home:
    """The home, used before, with no server."""
    if not home.data.exists():
        home.start()
    assert home.end() == 0
    return home


def save(client: Client, content: str) -> pb.SaveMemoryResponse:
    answer: pb.SaveMemoryResponse = client.SaveMemory(pb.SaveMemoryRequest(type=m.MEMORY_TYPE_FACT, content=content))
    return answer


def test_the_first_call_it_prints_works_when_pasted(home: Home) -> None:
    assert shutil.which("grpcurl", path=TOOLS), "grpcurl is missing: deploy/dev/install_servers.sh installs it"
    assert not home.data.exists()
    print(f"\nfirst start: {home.start():.1f} s")
    assert home.said.startswith(f"{READY}{home.listen}\n")
    pasted = home.said.split("try it:")[1]
    done = subprocess.run(
        pasted,
        shell=True,
        executable="/bin/bash",
        env={**os.environ, "PATH": TOOLS},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["outcome"] == "SAVE_OUTCOME_ADDED"
    assert home.contents("alice") == [answer["memory"]["content"]]


def test_a_second_server_on_the_same_folder_says_why_not(running: Home) -> None:
    line = refusal("up", env=running.env | {"PALIMPSEST_LISTEN": "127.0.0.1:0"})
    assert running.process is not None
    assert str(running.data) in line
    assert str(running.process.pid) in line
    running.contents("alice")  # the first one is none the worse


def test_a_taken_port_is_said_in_a_line(running: Home, tmp_path: Path) -> None:
    line = refusal("up", env=running.env | {"PALIMPSEST_DATA_DIR": str(tmp_path / "other")})
    assert running.listen in line


def test_commands_that_want_the_server_stopped_say_so(running: Home) -> None:
    for arguments in (["migrate"], ["keys", "rotate"]):
        assert "stop it first" in refusal(*arguments, env=running.env)


def test_long_work_is_done_by_the_running_server(running: Home) -> None:
    done = command("reindex", env=running.env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("reindex: ")
    with contextlib.closing(Client(running.listen)) as client:
        assert client.GetStats(admin.GetStatsRequest()).jobs["SUCCEEDED"] >= 1


def test_long_work_says_when_the_running_server_is_not_where_it_looks(running: Home) -> None:
    elsewhere = f"127.0.0.1:{free_ports(1)[0]}"
    line = refusal("reindex", env=running.env | {"PALIMPSEST_LISTEN": elsewhere})
    assert elsewhere in line
    assert "PALIMPSEST_LISTEN" in line


def test_what_was_saved_survives_a_stop_and_a_kill(running: Home) -> None:
    user = f"user-{uuid.uuid4()}"
    with contextlib.closing(Client(running.listen, user)) as client:
        save(client, "我用 MySQL 8")
    assert running.end() == 0
    print(f"\nsecond start: {running.start():.1f} s")
    with contextlib.closing(Client(running.listen, user)) as client:
        assert save(client, "我用 MySQL 8").outcome == pb.SAVE_OUTCOME_DUPLICATE
        save(client, "用户住在杭州")
    running.end(signal.SIGKILL)
    running.start()
    assert sorted(running.contents(user)) == sorted(["我用 MySQL 8", "用户住在杭州"])


def test_sigterm_lets_calls_in_progress_finish(running: Home) -> None:
    user = f"user-{uuid.uuid4()}"
    acknowledged, refusals = [], []

    def write(n: int) -> None:
        with contextlib.closing(Client(running.listen, user)) as client:
            for k in range(1000):
                try:
                    acknowledged.append(save(client, f"订单 {1000 * n + k} 已付款").memory.content)
                except grpc.RpcError as error:
                    refusals.append(error.code())
                    return

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(acknowledged) >= 20, 30, "some saves")
    assert running.end() == 0
    for thread in threads:
        thread.join()
    assert set(refusals) == {grpc.StatusCode.UNAVAILABLE}  # never CANCELLED or UNKNOWN: nobody repeats those
    running.start()
    present = running.contents(user)
    assert set(acknowledged) <= set(present) if len(present) < 50 else set(present) <= set(acknowledged)


@pytest.mark.parametrize("name", ["reindex", "reconcile"])
def test_long_work_is_done_here_when_no_server_runs(stopped: Home, name: str) -> None:
    done = command(name, env=stopped.env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{name}: ")


def test_migrate_can_be_run_again(stopped: Home) -> None:
    done = command("migrate", env=stopped.env)
    assert (done.returncode, done.stdout) == (0, "The schema is up to date.\n"), done.stderr


def test_rotated_keys_open_everything_and_a_lost_one_is_named(stopped: Home) -> None:
    stopped.start()
    user = f"user-{uuid.uuid4()}"
    with contextlib.closing(Client(stopped.listen, user)) as client:
        save(client, "我对花生过敏")
    assert stopped.end() == 0
    file = stopped.data / "keys.json"
    before = json.loads(file.read_text())
    done = command("keys", "rotate", env=stopped.env)
    assert done.returncode == 0, done.stderr
    after = json.loads(file.read_text())
    assert (before["current"], after["current"]) == ("k1", "k2")
    assert after["keys"]["k1"] == before["keys"]["k1"]
    assert file.stat().st_mode & 0o077 == 0
    stopped.start()
    assert stopped.contents(user) == ["我对花生过敏"]
    assert stopped.end() == 0

    kept = file.rename(file.with_suffix(".kept"))
    assert "key k2 is missing" in refusal("up", env=stopped.env)
    assert not file.exists()
    # Only the old key: what k2 wraps does not open.
    file.write_text(json.dumps(before))
    assert "key k2 is missing" in refusal("keys", "rotate", env=stopped.env)
    # A key of the right name and another value.
    wrong = dict.fromkeys(after["keys"], before["keys"]["k1"])
    file.write_text(json.dumps(after | {"keys": wrong}))
    assert "k2" in refusal("up", env=stopped.env)
    assert json.loads(file.read_text()) == after | {"keys": wrong}
    kept.rename(file)
    stopped.start()
    assert stopped.contents(user) == ["我对花生过敏"]


def test_a_token_opens_a_server_that_wants_tokens(tmp_path: Path) -> None:
    home = Home(tmp_path, AUTH__MODE="jwt", AUTH__SECRET=SECRET)
    try:
        home.start()
        made = command("token", "bob", env=home.env)
        assert made.returncode == 0, made.stderr
        bearer = (("authorization", f"Bearer {made.stdout.strip()}"),)
        with contextlib.closing(Client(home.listen, headers=bearer)) as client:
            save(client, "我用 MySQL 8")
            assert len(client.ListMemories(pb.ListMemoriesRequest()).memories) == 1
        with contextlib.closing(Client(home.listen, "bob")) as client, refused(grpc.StatusCode.UNAUTHENTICATED):
            client.ListMemories(pb.ListMemoriesRequest())
        reader = command("token", "bob", "--scope", "memory:read", env=home.env).stdout.strip()
        headers = (("authorization", f"Bearer {reader}"),)
        with contextlib.closing(Client(home.listen, headers=headers)) as client:
            assert len(client.ListMemories(pb.ListMemoriesRequest()).memories) == 1
            with refused(grpc.StatusCode.PERMISSION_DENIED):
                save(client, "I live in Berlin")
        # Long work makes itself a token, or takes the one it is given.
        assert command("reconcile", env=home.env).returncode == 0
        assert "memory:admin" in refusal("reconcile", "--token", reader, env=home.env)
    finally:
        home.end()


def test_config_shows_values_sources_and_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "palimpsest.toml"
    file.write_text('[eviction]\nmax_active = 77\n[keys.keys]\nk1 = "c2VjcmV0IGtleSBtYXRlcmlhbA=="\n')
    env = environment(
        CONFIG_FILE=str(file),
        DATABASE_URL="mysql://palimpsest:hunter2@db.example:3306/memory",
        REDIS_URL="redis://:hunter2@cache.example/0",
        EMBEDDING__API_KEY="hunter2",
        AUTH__SECRET=SECRET,
    )
    done = command("config", env=env)
    assert done.returncode == 0, done.stderr
    for secret in ("hunter2", SECRET, "c2VjcmV0IGtleSBtYXRlcmlhbA"):
        assert secret not in done.stdout + done.stderr
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith("PALIMPSEST_")}
    assert re.search(r"\b77\b.*\bfile\b|\b77\b.*toml", rows["PALIMPSEST_EVICTION__MAX_ACTIVE"])
    assert "environment" in rows["PALIMPSEST_REDIS_URL"]
    assert "default" in rows["PALIMPSEST_LISTEN"]
    assert "***" in rows["PALIMPSEST_DATABASE_URL"]


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"EVICTION__MAX_ACTIVE": "many"}, "PALIMPSEST_EVICTION__MAX_ACTIVE"),
        ({"EVICTION__MAX_ACTIV": "5"}, "PALIMPSEST_EVICTION__MAX_ACTIV"),
        ({"DATABASE_URL": "postgres://u:hunter2@h/x"}, "postgres"),
        ({"LISTEN": "nowhere"}, "nowhere"),
        ({"EMBEDDING__SPACE_FILE": "/nonexistent/space.json"}, "/nonexistent/space.json"),
        ({"EMBEDDING__PROVIDER": "openai"}, "base_url"),
        ({"CONFIG_FILE": "/nonexistent/palimpsest.toml"}, "/nonexistent/palimpsest.toml"),
        ({"LISTEN": "0.0.0.0:0"}, "0.0.0.0:0"),
        ({"AUTH__MODE": "jwt"}, "PALIMPSEST_AUTH__SECRET"),
        ({"MILVUS_URI": "http://127.0.0.1:1", "KEYS__KEYS": '{"k1": "c2hvcnQ="}'}, "32"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_setting_that_cannot_be_is_said_in_a_line(tmp_path: Path, setting: dict[str, str], named: str) -> None:
    env = environment(**{"DATA_DIR": str(tmp_path), "LISTEN": "127.0.0.1:0", **setting})
    line = refusal("up", env=env)
    assert named in line
    assert "hunter2" not in line


@pytest.mark.parametrize("arguments", [["migrate"], ["reindex"], ["keys", "rotate"]], ids=" ".join)
def test_a_record_that_does_not_answer_is_said_in_a_line(tmp_path: Path, arguments: list[str]) -> None:
    url = f"mysql://palimpsest:hunter2@127.0.0.1:{free_ports(1)[0]}/memory"
    line = refusal(*arguments, env=environment(DATA_DIR=str(tmp_path), DATABASE_URL=url))
    assert "record" in line
    assert "hunter2" not in line


def test_calibrate_writes_a_space_that_loads(tmp_path: Path) -> None:
    shipped = resources.files("memory_service").joinpath("data/calibration_pairs.tsv").read_text(encoding="utf-8")
    header, *lines = [line for line in shipped.splitlines() if not line.startswith("#")]
    taken: dict[tuple[str, ...], list[str]] = {}
    for line in lines:
        taken.setdefault(tuple(line.split("\t")[:2]), []).append(line)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("\n".join([header, *(line for some in taken.values() for line in some[:25])]) + "\n", "utf-8")
    out = tmp_path / "space.json"
    env = environment(DATA_DIR=str(tmp_path))
    done = command("calibrate", "--out", str(out), "--pairs", str(pairs), env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    space = EmbeddingSpace.from_json(out.read_text(encoding="utf-8"))
    assert space.dim == 384
    assert space.id in done.stdout
    assert "precision" in done.stdout


def test_calibrate_looks_where_it_is_to_write_before_it_works(tmp_path: Path) -> None:
    began = time.monotonic()
    line = refusal("calibrate", "--out", str(tmp_path / "no" / "space.json"), env=environment(DATA_DIR=str(tmp_path)))
    assert str(tmp_path / "no" / "space.json") in line
    assert time.monotonic() - began < 20  # not after minutes of embedding


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["up"],
        ["serve"],
        ["migrate"],
        ["config"],
        ["token"],
        ["calibrate"],
        ["reindex"],
        ["reconcile"],
        ["keys"],
        ["keys", "rotate"],
    ],
    ids=lambda arguments: " ".join(arguments) or "memory-service",
)
def test_help_is_one_useful_screen(arguments: list[str]) -> None:
    done = command(*arguments, "--help", env=environment() | {"COLUMNS": "80"})
    assert done.returncode == 0
    assert "Usage: " in done.stdout
    assert len(done.stdout.splitlines()) <= 40
    assert max(map(len, done.stdout.splitlines())) <= 80


def health(address: str, service: str = "") -> int:
    """A service's status; NOT_SERVING as long as nobody listens."""
    with grpc.insecure_channel(address) as channel:
        try:
            request = health_pb2.HealthCheckRequest(service=service)
            return int(health_pb2_grpc.HealthStub(channel).Check(request, timeout=5, wait_for_ready=True).status)
        except grpc.RpcError:
            return NOT_SERVING


@pytest.mark.servers
def test_serve_waits_for_the_database_and_for_its_schema(tmp_path: Path) -> None:
    database = MariaDB()
    listen = {name: f"127.0.0.1:{port}" for name, port in zip(("serve", "up"), free_ports(2), strict=True)}
    servers, env = {}, {}
    for name, at in listen.items():
        folder = tmp_path / name
        folder.mkdir()
        url = f"{database.url.replace('+aiomysql', '')}{name}"
        env[name] = environment(LISTEN=at, DATA_DIR=str(folder), DATABASE_URL=url)
        servers[name] = Server(folder, env[name], name)
    try:
        for server in servers.values():
            server.launch()
        eventually(lambda: all(health(at, "liveness") == SERVING for at in listen.values()), 60, "liveness")
        assert [health(at) for at in listen.values()] == [NOT_SERVING, NOT_SERVING]
        with contextlib.closing(Client(listen["serve"])) as client, refused(grpc.StatusCode.UNAVAILABLE) as answer:
            client.ListMemories(pb.ListMemoriesRequest())
        assert answer.details.retry_after
        assert "waiting for the record" in servers["serve"].log
        assert f":{database.password}@" not in servers["serve"].log
        database.start()
        for name in listen:
            database.create_database(name)
        # `up` makes the schema itself, `serve` says what is missing.
        eventually(lambda: health(listen["up"]) == SERVING, 30, "up")
        eventually(lambda: "memory-service migrate" in servers["serve"].log, 30, "the hint")
        assert health(listen["serve"]) == NOT_SERVING
        done = command("migrate", env=env["serve"])
        assert done.returncode == 0, done.stderr
        eventually(lambda: health(listen["serve"]) == SERVING, 30, "serve after migrate")
        for name, server in servers.items():
            assert READY + listen[name] in server.said
            with contextlib.closing(Client(listen[name])) as client:
                save(client, "我用 MySQL 8")
            assert server.end() == 0
    finally:
        for server in servers.values():
            server.end(signal.SIGKILL)
        database.close()


@pytest.mark.servers
def test_a_server_that_waits_for_its_database_can_be_stopped(tmp_path: Path) -> None:
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    url = f"mysql://root@127.0.0.1:{free_ports(1)[0]}/memory"
    server = Server(tmp_path, environment(LISTEN=listen, DATA_DIR=str(tmp_path), DATABASE_URL=url))
    server.launch()
    try:
        eventually(lambda: health(listen, "liveness") == SERVING, 60, "liveness")
        assert server.end() == 0
    finally:
        server.end(signal.SIGKILL)
