"""The README is executed: `make up` as it says, then its tour with the real grpcurl, answer by answer."""

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assembler_service.settings import FOREIGN as ASSEMBLER_FOREIGN
from assembler_service.settings import AssemblerSettings
from memory_service.cli import FOREIGN
from memory_service.settings import MemorySettings
from shared.config import describe, load
from tests.acceptance.assembler import READY as ASSEMBLER_READY
from tests.servers import free_ports
from tests.service import READY, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
TOUR = README[README.index("<!-- tour") : README.index("<!-- end of tour")]
STEPS = re.findall(r"```sh\n(.*?)```\n```json\n(.*?)```", TOUR, re.DOTALL)
TOOLS = os.pathsep.join([str(ROOT / ".venv/bin"), os.environ.get("PATH", ""), str(Path.home() / "go/bin")])


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, str]]:
    """`make up` with a data folder of its own, on ports that were free: the README's address -> the real one."""
    memory, assembler = (f"127.0.0.1:{port}" for port in free_ports(2))
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PALIMPSEST_", "MAKE", "MFLAGS"))}
        ours = {
            "PALIMPSEST_DATA_DIR": folder,
            "PALIMPSEST_LISTEN": memory,
            "PALIMPSEST_ASSEMBLER_LISTEN": assembler,
        }
        process = subprocess.Popen(
            ["make", "up"],
            cwd=ROOT,
            env={**environment, **ours},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        missing = {READY, ASSEMBLER_READY}
        try:
            for line in process.stdout:
                missing = {ready for ready in missing if ready not in line}
                if not missing:
                    break
            assert not missing, f"make up ended without saying {missing}"
            yield {"127.0.0.1:50051": memory, "127.0.0.1:50052": assembler}
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(40)


def test_the_tour_has_all_its_steps() -> None:
    methods = re.findall(r"(?:MemoryService|ConversationService|PromptAssembler)/(\w+)", TOUR)
    assert {"SaveMemory", "RecallMemories", "UpdateMemory", "ListMemories", "BatchSaveMemories"} <= set(methods)
    assert {"AppendTurn", "GetHistory", "SearchHistory"} <= set(methods)
    assert {"AssemblePrompt", "ReportAnswer"} <= set(methods)
    assert len(STEPS) == TOUR.count("```sh")


def test_every_step_answers_what_the_readme_shows(addresses: dict[str, str]) -> None:
    assert shutil.which("grpcurl", path=TOOLS), "grpcurl is missing: deploy/dev/install_servers.sh installs it"
    for written, shown in STEPS:
        command = written
        for shown_address, real in addresses.items():
            command = command.replace(shown_address, real)
        done = subprocess.run(
            check=False,
            args=command,
            shell=True,
            executable="/bin/bash",
            env={**os.environ, "PATH": TOOLS},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert_shows(snake(json.loads(done.stdout)), snake(json.loads(shown)), command)


def snake(value: Any) -> Any:
    """Keys as the contract writes them; grpcurl prints one form or the other, by version."""
    if isinstance(value, dict):
        return {re.sub(r"[A-Z]", lambda m: "_" + m[0].lower(), key): snake(inner) for key, inner in value.items()}
    return [snake(inner) for inner in value] if isinstance(value, list) else value


def assert_shows(got: Any, shown: Any, where: str) -> None:
    """Everything that is shown came: lists of the same length, objects with at least the shown fields."""
    if isinstance(shown, dict):
        for key, inner in shown.items():
            assert_shows(got.get(key, [] if isinstance(inner, list) else None), inner, f"{where}\n.{key}")
    elif isinstance(shown, list):
        assert len(got) == len(shown), f"{where}: {got}"
        for one, inner in zip(got, shown, strict=True):
            assert_shows(one, inner, where)
    else:
        assert got == shown, f"{where}: {got}"


def test_the_settings_table_says_what_is_true() -> None:
    known = [
        *describe(load(AssemblerSettings, environ={}, foreign=ASSEMBLER_FOREIGN)),
        *describe(load(MemorySettings, environ={}, foreign=FOREIGN)),
    ]
    rows = {row.env: row for row in known}
    table = re.findall(r"^\| `(PALIMPSEST_\w+)` \| (?:`([^`]*)`)? ?\| ", README, re.MULTILINE)
    assert len(table) >= 20
    for name, default in table:
        assert name in rows, name
        assert str(rows[name].value) == (default or ""), (name, rows[name].value)


@pytest.mark.parametrize("program", ["memory-service", "assembler-service"])
def test_every_command_is_in_the_readme(program: str) -> None:
    app = importlib.import_module(f"{program.replace('-', '_')}.cli").app
    names = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    assert names
    for name in names:
        assert f"`{program} {name}" in README, name
