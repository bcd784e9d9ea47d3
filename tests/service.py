"""MemoryService as a real process, and a client of it: what the acceptance tests and the load runs talk to.

Owns starting, stopping and calling. Everything goes through gRPC, as a user would; no test looks into the process.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import grpc
import pytest

from shared.gen.palimpsest.memory.v1 import (
    admin_service_pb2_grpc,
    conversation_service_pb2_grpc,
    memory_service_pb2_grpc,
)
from shared.grpc_errors import ErrorDetails, details_of

ROOT = Path(__file__).resolve().parent.parent
READY = "Palimpsest MemoryService is ready on "
START_SECONDS = 60.0


class ServiceProcess:
    """One memory-service process on a free loopback port. `log` is what it wrote to stderr."""

    module = "memory_service"
    ready = READY

    def __init__(self, environment: Mapping[str, str], *, command: str = "up") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="palimpsest-service-")
        self._command = command
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("PALIMPSEST_")},
            "PALIMPSEST_LISTEN": "127.0.0.1:0",
            "PALIMPSEST_DATA_DIR": self._folder.name,
            # One thread a model call: two cores are shared by several servers and the tests.
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        self.address = ""
        self._process: subprocess.Popen[str] | None = None
        self._log = Path(self._folder.name) / "service.log"

    @property
    def log(self) -> str:
        """What it logged so far."""
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """False once it ended, by itself or by a signal."""
        return self._process is not None and self._process.poll() is None

    @property
    def data_dir(self) -> Path:
        """Its data folder."""
        return Path(self._environment["PALIMPSEST_DATA_DIR"])

    def start(self) -> Self:
        """Starts it and waits for its ready line. RuntimeError with the log when it does not come."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module, self._command],
                env=self._environment,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            line = self._process.stdout.readline()
            if line.startswith(self.ready):
                self.address = line.removeprefix(self.ready).strip()
                return self
            time.sleep(0.02)
        code = self._process.poll()
        self.kill()
        raise RuntimeError(f"{self.module} did not become ready (exit code {code}):\n{self.log[-4000:]}")

    def stop(self) -> int:
        """SIGTERM, and waits for the end; answers the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def wait(self) -> int:
        """Waits until it ends by itself; answers the exit code."""
        process, self._process = self._process, None
        assert process is not None
        code = process.wait(40)
        if process.stdout is not None:
            process.stdout.close()
        return code

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(how)
        code = process.wait(40)
        if process.stdout is not None:
            process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._folder.cleanup()


class Client:
    """Calls of one user. Methods of both services by name: `client.SaveMemory(request)`."""

    def __init__(self, address: str, user: str | None = None, *, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.user = user or f"user-{uuid.uuid4()}"
        self._headers = headers or (("x-user-id", self.user),)
        self._channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", 8 << 20)])
        self._stubs: list[Any] = [
            memory_service_pb2_grpc.MemoryServiceStub(self._channel),
            conversation_service_pb2_grpc.ConversationServiceStub(self._channel),
            admin_service_pb2_grpc.AdminServiceStub(self._channel),
        ]

    def __getattr__(self, name: str) -> Any:
        method = next(getattr(stub, name) for stub in self._stubs if hasattr(stub, name))

        def call(request: Any, timeout: float = 20) -> Any:
            return method(request, timeout=timeout, metadata=self._headers)

        return call

    def close(self) -> None:
        """Frees the channel."""
        self._channel.close()


class Refusal:
    """What a refused call answered."""

    code: grpc.StatusCode
    details: ErrorDetails


@contextmanager
def refused(code: grpc.StatusCode) -> Iterator[Refusal]:
    """The block's call must fail with this code; answers its details."""
    answer = Refusal()
    with pytest.raises(grpc.RpcError) as caught:
        yield answer
    error: Any = caught.value
    answer.code = error.code()
    answer.details = details_of(error)
    assert answer.code == code, f"wanted {code}, got {answer.code}: {error.details()}"


def eventually(condition: Any, seconds: float = 10.0, what: str = "it") -> Any:
    """Waits until `condition()` is true and answers it; AssertionError when the time runs out."""
    until = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"{what} did not happen within {seconds} s")
        time.sleep(0.05)
