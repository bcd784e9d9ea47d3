"""The README is executed: `make up` as it says, then its tour with the real grpcurl, answer by answer."""

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

from memory_service.cli import FOREIGN
from memory_service.settings import MemorySettings
from shared.config import describe, load
from tests.service import READY, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
TOUR = README[README.index("<!-- tour") : README.index("<!-- end of tour")]
STEPS = re.findall(r"```sh\n(.*?)```\n```json\n(.*?)```", TOUR, re.DOTALL)
TOOLS = os.pathsep.join([str(ROOT / ".venv/bin"), os.environ.get("PATH", ""), str(Path.home() / "go/bin")])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """`make up` with a data folder of its own, on a port that was free."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PALIMPSEST_", "MAKE", "MFLAGS"))}
        process = subprocess.Popen(
            ["make", "up"],
            cwd=ROOT,
            env={**environment, "PALIMPSEST_DATA_DIR": folder, "PALIMPSEST_LISTEN": "127.0.0.1:0"},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if READY in line:
                    yield line.split(READY)[1].strip()
                    break
            else:
                raise AssertionError("make up ended without a ready line")
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(40)


def test_the_tour_has_all_its_steps() -> None:
    methods = re.findall(r"MemoryService/(\w+)", TOUR)
    assert {"SaveMemory", "RecallMemories", "UpdateMemory", "ListMemories", "BatchSaveMemories"} <= set(methods)
    assert len(STEPS) == TOUR.count("```sh")


def test_every_step_answers_what_the_readme_shows(address: str) -> None:
    assert shutil.which("grpcurl", path=TOOLS), "grpcurl is missing: deploy/dev/install_servers.sh installs it"
    for command, shown in STEPS:
        done = subprocess.run(
            check=False,
            args=command.replace("127.0.0.1:50051", address),
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
    rows = {row.env: row for row in describe(load(MemorySettings, environ={}, foreign=FOREIGN))}
    table = re.findall(r"^\| `(PALIMPSEST_\w+)` \| (?:`([^`]*)`)? ?\| ", README, re.MULTILINE)
    assert len(table) >= 20
    for name, default in table:
        assert name in rows, name
        assert str(rows[name].value) == (default or ""), (name, rows[name].value)


def test_every_command_is_in_the_readme() -> None:
    from memory_service.cli import app

    names = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    for name in names:
        assert f"`memory-service {name}" in README, name
