"""`assembler-service` and `make up` as processes: what they print, what stops them, and what they leave behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from tests.acceptance.assembler import READY, AssemblerProcess, Prompter
from tests.servers import free_ports
from tests.service import READY as MEMORY_READY
from tests.service import ROOT


def environment(**settings: str) -> dict[str, str]:
    """This process's environment with these settings of ours and no others."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PALIMPSEST_", "KUBERNETES_"))}
    return {**clean, "OMP_NUM_THREADS": "1", **{f"PALIMPSEST_{name}": value for name, value in settings.items()}}


def run(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "assembler_service", *arguments],
        env=environment(**settings),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_config_shows_every_setting_and_masks_secrets() -> None:
    done = run("config", LLM__API_KEY="sk-123", ASSEMBLER_LISTEN="127.0.0.1:7", DATABASE_URL="mysql://a:b@c/d")
    assert done.returncode == 0, done.stderr
    assert "sk-123" not in done.stdout
    rows = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith("PALIMPSEST_")}
    assert "127.0.0.1:7" in rows["PALIMPSEST_ASSEMBLER_LISTEN"]
    assert "environment" in rows["PALIMPSEST_ASSEMBLER_LISTEN"]
    assert "16" in rows["PALIMPSEST_ASSEMBLER_GRPC__MAX_MESSAGE_MIB"]
    assert "PALIMPSEST_DATABASE_URL" not in done.stdout


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ASSEMBLER_LISTEN": "nowhere"}, "'nowhere' is not an address"),
        ({"ASSEMBLER_LISTEN": "0.0.0.0:0"}, "refusing to listen on 0.0.0.0:0 without TLS"),
        ({"ASSEMBLER_MEMORY_TARGET": "memory.internal:50051"}, "dev is refused with memory.internal:50051"),
        ({"AUTH__MODE": "jwt"}, "PALIMPSEST_AUTH__MODE=jwt needs a key"),
        ({"ASSEMBLER_SUMARY__ENABLED": "false"}, "did you mean PALIMPSEST_ASSEMBLER_SUMMARY__ENABLED"),
    ],
)
def test_what_cannot_be_served_is_one_line(settings: dict[str, str], said: str) -> None:
    done = run("serve", **settings)
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert line.startswith("assembler-service: ")
    assert said in line


def test_a_stop_finishes_what_is_under_way() -> None:
    with AssemblerProcess({}) as process:
        prompter = Prompter(process.address)
        assert prompter.prompt("你好？").messages
        assert process.stop() == 0
        with pytest.raises(grpc.RpcError):
            prompter.prompt("你好？")
        prompter.close()
        assert "Traceback" not in process.log


@contextmanager
def both(folder: Path, **settings: str) -> Iterator[tuple["subprocess.Popen[str]", dict[str, int]]]:
    """`deploy/dev/up.py` with both services ready; answers it and the pids of the two."""
    process = subprocess.Popen(
        [sys.executable, "deploy/dev/up.py"],
        cwd=ROOT,
        env=environment(DATA_DIR=str(folder), **settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    missing = {READY, MEMORY_READY}
    try:
        for line in process.stdout:
            missing = {ready for ready in missing if not line.startswith(ready)}
            if not missing:
                break
        assert not missing
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield process, {program(pid): int(pid) for pid in children}
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(40)
        process.stdout.close()


def program(pid: str) -> str:
    """Name of the script a Python process runs."""
    return Path(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1]).name


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_up_ends_both(tmp_path: Path, how: signal.Signals) -> None:
    memory, assembler = free_ports(2)
    ports = {"LISTEN": f"127.0.0.1:{memory}", "ASSEMBLER_LISTEN": f"127.0.0.1:{assembler}"}
    with both(tmp_path, **ports) as (process, children):
        process.send_signal(how)
        assert process.wait(40) == 0
        assert set(children) == {"memory-service", "assembler-service"}
        assert all(gone(pid) for pid in children.values())


@pytest.mark.parametrize("dies", ["memory-service", "assembler-service"])
def test_one_that_dies_takes_the_other_with_it(tmp_path: Path, dies: str) -> None:
    memory, assembler = free_ports(2)
    ports = {"LISTEN": f"127.0.0.1:{memory}", "ASSEMBLER_LISTEN": f"127.0.0.1:{assembler}"}
    with both(tmp_path, **ports) as (process, children):
        os.kill(children[dies], signal.SIGKILL)
        assert process.wait(40) == 128 + signal.SIGKILL
        assert all(gone(pid) for pid in children.values())


def test_up_says_what_stops_one_of_them(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "deploy/dev/up.py"],
        cwd=ROOT,
        env=environment(DATA_DIR=str(tmp_path), LISTEN="127.0.0.1:0", ASSEMBLER_LISTEN="nowhere"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "assembler-service: 'nowhere' is not an address" in done.stderr
    assert "assembler-service ended by itself (exit code 1)" in done.stderr
