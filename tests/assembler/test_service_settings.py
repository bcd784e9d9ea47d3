"""Settings of the assembler: its own names, those of both services, and those it must pass over."""

from contextlib import AsyncExitStack

import pytest

from assembler_service.compose import application
from assembler_service.settings import FOREIGN, AssemblerSettings
from memory_service.cli import FOREIGN as MEMORY_FOREIGN
from memory_service.settings import MemorySettings
from shared.config import ConfigError, describe, load
from shared.telemetry import Telemetry

SHARED = {"auth", "tls", "telemetry", "llm", "allow_plaintext", "log_level"}
OWN = {"llm.timeout_seconds"}
"""Settings of MemoryService in a section of both."""


def settings(**environment: str) -> AssemblerSettings:
    return load(AssemblerSettings, environ={f"PALIMPSEST_{k}": v for k, v in environment.items()}, foreign=FOREIGN)


def test_one_environment_serves_both_services() -> None:
    """Every name of MemoryService's own is passed over, and every other one is the same setting in both."""
    own = {row.env for row in describe(load(AssemblerSettings, environ={}))}
    for row in describe(load(MemorySettings, environ={})):
        shared = row.name.split(".")[0] in SHARED and row.name not in OWN
        assert (row.env in own) == shared, row.env
        assert row.env.startswith(FOREIGN) != shared, row.env
    for name in own:
        if not any(name.startswith(f"PALIMPSEST_{shared.upper()}") for shared in SHARED):
            assert name.startswith(MEMORY_FOREIGN), name


def test_a_name_nobody_knows_stops_the_start() -> None:
    with pytest.raises(ConfigError, match="did you mean PALIMPSEST_AUTH__MODE"):
        settings(ATUH__MODE="jwt")
    with pytest.raises(ConfigError, match="did you mean PALIMPSEST_ASSEMBLER_LISTEN"):
        settings(ASSEMBLER_LISTN="127.0.0.1:1")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ASSEMBLER_MEMORY_TARGET": "memory"}, "PALIMPSEST_ASSEMBLER_MEMORY_TARGET: 'memory' is not an address"),
        ({"LLM__BASE_URL": "https://llm.example/v1"}, "PALIMPSEST_LLM__MODEL is missing"),
        ({"LLM__BASE_URL": "llm.example", "LLM__MODEL": "m"}, "PALIMPSEST_LLM__BASE_URL"),
        ({"ASSEMBLER_MEMORY_TLS__CA_FILE": "ca.pem"}, "PALIMPSEST_ASSEMBLER_MEMORY_TLS__ENABLED=true is missing"),
        (
            {"ASSEMBLER_MEMORY_TLS__ENABLED": "true", "ASSEMBLER_MEMORY_TLS__CERT_FILE": "c.pem"},
            "PALIMPSEST_ASSEMBLER_MEMORY_TLS__KEY_FILE is missing",
        ),
        ({"ASSEMBLER_SUMMARY__TIMEOUT_SECONDS": "0"}, "PALIMPSEST_ASSEMBLER_SUMMARY__TIMEOUT_SECONDS"),
    ],
)
def test_a_bad_value_is_one_line_that_names_it(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(**given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_certificate_that_cannot_be_read_is_named() -> None:
    given = settings(
        ASSEMBLER_MEMORY_TARGET="127.0.0.1:1",
        ASSEMBLER_MEMORY_TLS__ENABLED="true",
        ASSEMBLER_MEMORY_TLS__CA_FILE="/nowhere/ca.pem",
    )
    async with AsyncExitStack() as stack:
        with pytest.raises(ConfigError, match=r"CA_FILE: cannot read /nowhere/ca\.pem"):
            application(given, Telemetry(given.telemetry), stack)


def test_secrets_are_masked() -> None:
    rows = {row.env: row for row in describe(settings(LLM__API_KEY="sk-123"))}
    assert rows["PALIMPSEST_LLM__API_KEY"].value == "********"
    assert all(row.help for row in rows.values())
