"""Private MariaDB, Redis and Milvus servers for tests, benchmarks and chaos runs.

Owns real server processes: free loopback ports, one temporary folder each (data and log), an end by their own pid, also
when the process that started them dies. Owns no schema, no test data and no decision which test needs which server
(`conftest.py` does), and installs nothing (`deploy/dev/install_servers.sh` does).

Everything here is synchronous: from a coroutine call it through `asyncio.to_thread`. A server object is not
thread-safe. Durability of a *process* is what production has (a SIGKILL loses nothing acknowledged); only buffers are
smaller.
"""

import contextlib
import lzma
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

import pymysql  # type: ignore[import-untyped]
import redis
from pymilvus import MilvusClient

LOOPBACK = "127.0.0.1"
LOG_TAIL_LINES = 25
# Below the range from which Linux and macOS take source ports of outgoing connections: nobody slips onto a server's
# port between its kill and its restart.
_PORT_RANGE = range(15_000, 32_000)


class ServerStartError(RuntimeError):
    """The server did not come up; the message names its log and shows the log's last lines."""


def free_ports(count: int) -> list[int]:
    """Answers `count` different TCP ports that nobody listens on, on any address."""
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for port in random.sample(_PORT_RANGE, len(_PORT_RANGE)):
            probe = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            try:
                probe.bind(("", port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return ports
    raise ServerStartError(f"no {count} free ports between {_PORT_RANGE.start} and {_PORT_RANGE.stop}")


def find_program(*names: str) -> str:
    """Answers the path of the first of `names` that is installed; distributions keep servers in sbin."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    raise ServerStartError(f"{names[0]} is not installed; deploy/dev/install_servers.sh installs it")


class Server(ABC):
    """One server process on loopback. Start it by `start()` or as a context manager; the folder goes with `close()`."""

    name: ClassVar[str]
    start_timeout_s: ClassVar[float] = 60.0
    stop_timeout_s: ClassVar[float] = 20.0

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self.version = ""  # known once it has started
        self.folder = Path()  # made by the first start
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """Address as the service's settings take it."""

    @abstractmethod
    def _prepare(self) -> None:
        """Lays out the fresh folder, once, before the first start."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Command line of the server; it must stay in the foreground."""

    @abstractmethod
    def _probe(self) -> str:
        """Asks the server for its version.

        Raises whatever its client raises while it does not answer, and `ConnectionError` if another server answers.
        """

    def _environment(self) -> Mapping[str, str]:
        return os.environ

    @property
    def pid(self) -> int:
        """Process id; raises `RuntimeError` while the server is down."""
        if self._process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self._process.pid

    @property
    def log(self) -> Path:
        """Standard output and error of every start so far."""
        return self.folder / "server.log"

    def start(self) -> None:
        """Starts the server, on the data it already has, and returns when it answers. Does nothing while it runs.

        Raises `ServerStartError` if it exits or does not answer in `start_timeout_s`; it is not left running then.
        """
        if self._process is not None:
            return
        if self.folder == Path():
            self.folder = Path(tempfile.mkdtemp(prefix=f"palimpsest-{self.name.lower()}-"))
            self._prepare()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                cwd=self.folder,
                env=dict(self._environment()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # an interrupt at the terminal is for the tests, which then end the server
            )
        self._guard = _guard(self._process.pid)
        try:
            self.version = self._await_answer()
        except BaseException:
            self.kill()
            raise

    def _await_answer(self) -> str:
        deadline = time.monotonic() + self.start_timeout_s
        reason: object = "no answer"
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                code = None if self._process is None else self._process.returncode
                raise ServerStartError(self._failure(f"ended with {code}"))
            try:
                return self._probe()
            except Exception as error:  # each client has errors of its own; the last one is in the message
                reason = error
                time.sleep(0.05)
        raise ServerStartError(self._failure(f"did not answer in {self.start_timeout_s:.0f} s ({reason})"))

    def _failure(self, what: str) -> str:
        lines = self.log.read_text("utf-8", errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([f"{self.name} {what}; last lines of {self.log}:", *lines[-LOG_TAIL_LINES:]])

    def stop(self) -> None:
        """Ends the server in good order (SIGTERM), by SIGKILL if it takes longer than `stop_timeout_s`. Data stays."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the server at once (SIGKILL), as a crash would. Data stays; `start` or `restart` brings it back."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)  # a paused process would not see SIGTERM
        try:
            process.wait(self.stop_timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None

    def restart(self) -> None:
        """`stop` (if it runs) and `start` on the same port and data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freezes the server (SIGSTOP): connections stay open, nothing answers. Returns when it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Lets a paused server go on (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Ends the server and removes its folder, data and log included."""
        self.stop()
        if self.folder != Path():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = Path()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()  # the error carries the log's last lines
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _guard(pid: int) -> subprocess.Popen[bytes]:
    """Starts a process that waits for ours to end, however it ends, and then kills `pid`.

    It reads a pipe whose other end only we hold. `pid` cannot have become another process: it is our child and stays
    in the process table until we ask for its status, and we end the guard right after that.
    """
    script = 'read -r _; kill -KILL "$1"'
    command = ["/bin/sh", "-c", script, "guard", str(pid)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)


class MariaDB(Server):
    """MariaDB 10.6 or newer, utf8mb4, REPEATABLE READ, `root` with a password over TCP."""

    name = "MariaDB"
    user: ClassVar[str] = "root"
    password: ClassVar[str] = "palimpsest"

    @property
    def url(self) -> str:
        return f"mysql+aiomysql://{self.user}:{self.password}@{LOOPBACK}:{self.port}/"

    def connect(self, database: str | None = None) -> "pymysql.Connection[Any]":
        """Opens a synchronous connection in autocommit mode. The caller closes it."""
        return pymysql.connect(
            host=LOOPBACK,
            port=self.port,
            user=self.user,
            password=self.password,
            database=database,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=5,
            read_timeout=30,
        )

    def create_database(self, name: str) -> str:
        """Creates an empty database and answers its DSN for SQLAlchemy. Raises the driver's error if it exists."""
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{name.replace('`', '``')}` CHARACTER SET utf8mb4")
        return f"{self.url}{name}?charset=utf8mb4"

    def drop_database(self, name: str) -> None:
        """Removes a database, if it is there, with all it holds."""
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS `{name.replace('`', '``')}`")

    def _prepare(self) -> None:
        install = find_program("mariadb-install-db", "mysql_install_db")
        options = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        command = [install, "--no-defaults", f"--datadir={self.folder / 'data'}", *options, *self._as_root()]
        with self.log.open("ab") as log:
            code = subprocess.run(
                command, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT, check=False
            ).returncode
        if code != 0:
            raise ServerStartError(self._failure(f"could not make its data folder ({code})"))
        account = f"'{self.user}'@'{LOOPBACK}'"
        (self.folder / "init.sql").write_text(  # runs at every start
            f"CREATE OR REPLACE USER {account} IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO {account} WITH GRANT OPTION;\n",
            "utf-8",
        )

    def _command(self) -> list[str]:
        return [
            find_program("mariadbd", "mysqld"),
            "--no-defaults",
            *self._as_root(),
            f"--datadir={self.folder / 'data'}",
            f"--tmpdir={self.folder}",
            f"--init-file={self.folder / 'init.sql'}",
            f"--bind-address={LOOPBACK}",
            f"--port={self.port}",
            "--socket=mariadb.sock",  # in the data folder; a path of its own could be too long for a socket
            "--pid-file=mariadb.pid",
            "--skip-name-resolve",
            "--character-set-server=utf8mb4",
            "--max-connections=400",
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=48M",
            "--aria-pagecache-buffer-size=8M",
            "--innodb-flush-log-at-trx-commit=1",
        ]

    def _as_root(self) -> list[str]:
        return ["--user=root"] if os.geteuid() == 0 else []

    def _probe(self) -> str:
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT VERSION(), @@datadir")
            version, data = cursor.fetchone()
        if Path(data) != self.folder / "data":
            raise ConnectionError(f"the server on port {self.port} is not ours")
        return str(version).partition("-")[0]


class Redis(Server):
    """Redis, empty at every start unless `persistent`: then an append-only file survives SIGKILL."""

    name = "Redis"

    def __init__(self, *, persistent: bool = False) -> None:
        super().__init__()
        self._persistent = persistent

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def _prepare(self) -> None:
        pass

    def _command(self) -> list[str]:
        options = ["--bind", LOOPBACK, "--port", str(self.port), "--dir", str(self.folder), "--save", ""]
        return [find_program("redis-server"), *options, "--appendonly", "yes" if self._persistent else "no"]

    def _probe(self) -> str:
        with redis.Redis.from_url(self.url, socket_timeout=2) as client:
            told = client.info("server")
        if told["process_id"] != self.pid:
            raise ConnectionError(f"the server on port {self.port} is not ours")
        return str(told["redis_version"])


class Milvus(Server):
    """Milvus 2.3.5 standalone out of the wheel `milvus`, etcd, object store and log broker inside its process.

    Three departures from the wheel's own launcher. The interim index of growing segments is off: with it a filtered
    search misses most rows that were not sealed yet. etcd gets ports of its own: the wheel leaves it on 2379 and 2380,
    where the second server on a machine dies. Sessions are shorter.

    Caveats: 2.3.5 cannot be told an address to listen on, so all ports but etcd's are open on every interface. After
    a restart it answers in some 10 s, but refuses searches ("collection not loaded") until the session of the process
    before has run out, `session_ttl_s` after its end. Paused for longer than that, it ends itself when resumed.
    """

    name = "Milvus"
    start_timeout_s = 120.0  # recovering on two busy cores
    stop_timeout_s = 2.0  # with a loaded collection it does not heed SIGTERM, not in 100 s either
    session_ttl_s: ClassVar[int] = 15  # the default, 30, makes each restart a matter of 35 s
    _roles: ClassVar[tuple[str, ...]] = (
        "proxy_internal_port",
        "root_coord_port",
        "query_coord_port",
        "query_node_port",
        "index_node_port",
        "data_coord_port",
        "data_node_port",
    )

    def __init__(self) -> None:
        super().__init__()
        self.metrics_port, self._etcd_port, self._etcd_peer_port, *inner = free_ports(3 + len(self._roles))
        self._ports = dict(zip(self._roles, inner, strict=True)) | {"etcd_port": self._etcd_port}

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def _prepare(self) -> None:
        wheel = _milvus_wheel()
        configs = self.folder / "configs"
        for folder in (configs, self.folder / "logs", self.folder / "data"):
            folder.mkdir()
        shutil.copy(wheel / "glog.conf", configs)
        (configs / "milvus.yaml").write_text(self._config((wheel / "config.yaml.template").read_text("utf-8")), "utf-8")
        client, peer = f"http://{LOOPBACK}:{self._etcd_port}", f"http://{LOOPBACK}:{self._etcd_peer_port}"
        (configs / "etcd.yaml").write_text(
            f"name: default\nlisten-client-urls: {client}\nadvertise-client-urls: {client}\n"
            f"listen-peer-urls: {peer}\ninitial-advertise-peer-urls: {peer}\ninitial-cluster: default={peer}\n",
            "utf-8",
        )

    def _config(self, template: str) -> str:
        """Fills the wheel's template: `{{ name }}`, `{{ name: default }}` or `{{ name(type): default }}`."""
        data = self.folder / "data"
        values = {name: str(port) for name, port in self._ports.items()} | {
            "proxy_port": str(self.port),
            "etcd_log_path": str(self.folder / "logs" / "etcd.log"),
            "etcd_data_dir": str(data / "etcd.data"),
            "local_storage_dir": str(data),
            "rocksmq_data_dir": str(data / "rocksmq"),
            "system_log_path": str(self.folder / "logs"),
        }
        text = re.sub(
            r"\{\{\s*(\w+)(?:\(\w+\))?\s*(?::\s*([^}]*?))?\s*\}\}", lambda m: values.get(m[1], m[2] or ""), template
        )
        for pattern, replacement in (
            (r"(\n +interimIndex:[^\n]*\n +enableIndex: )true\b", r"\g<1>false"),
            (r"(\n  session:\n    ttl: )30\b", rf"\g<1>{self.session_ttl_s}"),
            (r"(\n  use:\n    embed: true[^\n]*\n)", rf"\g<1>  config:\n    path: {self.folder}/configs/etcd.yaml\n"),
        ):
            text, count = re.subn(pattern, replacement, text)
            if count != 1:
                raise ServerStartError(f"the milvus wheel's configuration is not that of 2.3.5: no {pattern!r}")
        return text

    def _command(self) -> list[str]:
        return [str(_milvus_programs() / "milvus"), "run", "standalone"]  # reads ./configs

    def _end(self, how: signal.Signals) -> None:
        pid = self._process.pid if self._process is not None else None
        super()._end(how)
        Path(f"/tmp/milvus/server_id_{pid}").unlink(missing_ok=True)  # a path it cannot be told to leave alone

    def _environment(self) -> Mapping[str, str]:
        return os.environ | {
            "DEPLOY_MODE": "STANDALONE",
            "METRICS_PORT": str(self.metrics_port),
            "MILVUS_RUN_DIR": str(self.folder / "run"),
            "LD_LIBRARY_PATH": f"{_milvus_programs()}:{os.environ.get('LD_LIBRARY_PATH', '')}",
        }

    def _probe(self) -> str:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.metrics_port}/healthz", timeout=5) as answer:
            if answer.read() != b"OK":
                raise ConnectionError("a component is not healthy yet")
        client = MilvusClient(self.url, timeout=5)
        try:
            client.list_collections(timeout=5)
            return str(client.get_server_version(timeout=5)).removeprefix("v").partition("-")[0]
        finally:
            client.close()


def _milvus_wheel() -> Path:
    """Answers the wheel's folder of data, without importing it: the import builds a server object."""
    spec = find_spec("milvus")
    if spec is None or spec.origin is None:
        raise ServerStartError("milvus is not installed: pip install milvus==2.3.5 (make test does)")
    return Path(spec.origin).parent / "data"


def _milvus_programs() -> Path:
    """Answers the folder with the server and its libraries, unpacked (320 MB, some 15 s) once per environment."""
    target = Path(sys.prefix) / "var" / "milvus-2.3.5"
    if target.is_dir():
        return target
    target.parent.mkdir(exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="unpacking-", dir=target.parent))
    try:
        for packed in (_milvus_wheel() / "bin").glob("*.lzma"):
            with lzma.open(packed) as source, (fresh / packed.stem).open("wb") as program:
                shutil.copyfileobj(source, program, 1 << 20)
            (fresh / packed.stem).chmod(0o755)
        fresh.chmod(0o755)
        with contextlib.suppress(OSError):  # another run was faster; its folder is as good
            fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return target
