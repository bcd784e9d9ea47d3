"""Settings: origins, precedence, masking, and one clear line for whatever is wrong."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import Field, SecretStr

from shared.config import (
    AuthSettings,
    ConfigError,
    GrpcSettings,
    Section,
    Settings,
    TelemetrySettings,
    TlsSettings,
    describe,
    load,
    mask_urls,
)
from shared.config_names import leaves

P = "PALIMPSEST_"


class Example(Settings):
    database_url: str = Field(
        default="sqlite:///palimpsest.db", description="The record.", json_schema_extra={"unit": "URL"}
    )
    api_key: SecretStr | None = Field(default=None, description="Key of the model.")
    hosts: list[str] = Field(default_factory=list, description="Hosts.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels.")
    grpc: GrpcSettings = Field(default_factory=GrpcSettings)
    auth: AuthSettings = Field(default_factory=AuthSettings)
    tls: TlsSettings = Field(default_factory=TlsSettings)
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)


def read(**environ: str) -> Example:
    return load(Example, environ=environ, foreign=(f"{P}ASSEMBLER_",))


def wrong(**environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(**environ)
    text = str(caught.value)
    assert "\n" not in text
    return text


def file(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "palimpsest.toml"
    path.write_text(text, encoding="utf-8")
    return {f"{P}CONFIG_FILE": str(path)}


def rows(settings: Example) -> dict[str, Any]:
    return {row.name: row for row in describe(settings)}


def test_constructing_reads_no_environment(monkeypatch):
    monkeypatch.setenv(f"{P}DATABASE_URL", "mysql://elsewhere/db")
    monkeypatch.setenv(f"{P}GRPC__MAX_CONCURRENT", "7")
    assert Example().database_url == "sqlite:///palimpsest.db"
    assert Example().grpc.max_concurrent == 512
    assert load(Example, foreign=("PALIMPSEST_TEST_",)).grpc.max_concurrent == 7


def test_environment_wins_over_file_over_default_and_each_row_says_which(tmp_path: Path):
    settings = read(
        **file(tmp_path, '[grpc]\nmax_concurrent = 7\nmax_streams = 8\n[auth]\naudience = "记忆"\n'),
        **{f"{P}GRPC__MAX_STREAMS": "9", f"{P}HOSTS": '["a", "b"]'},
    )
    assert (settings.grpc.max_concurrent, settings.grpc.max_streams, settings.grpc.max_message_mib) == (7, 9, 4)
    assert settings.hosts == ["a", "b"]
    shown = rows(settings)
    assert [shown[f"grpc.{name}"].source for name in ("max_concurrent", "max_streams", "max_message_mib")] == [
        "file",
        "environment",
        "default",
    ]
    assert (shown["auth.audience"].value, shown["auth.audience"].source) == ("记忆", "file")
    assert (shown["grpc.max_message_mib"].env, shown["grpc.max_message_mib"].unit) == (
        "PALIMPSEST_GRPC__MAX_MESSAGE_MIB",
        "MiB",
    )


def test_an_empty_variable_is_unset():
    settings = read(**{f"{P}GRPC__MAX_STREAMS": "", f"{P}AUTH__ISSUER": ""})
    assert settings.grpc.max_streams == 1024
    assert settings.auth.issuer is None
    assert rows(settings)["grpc.max_streams"].source == "default"


def test_a_whole_section_may_come_as_json():
    settings = read(**{f"{P}GRPC": '{"max_streams": 3}'})
    assert settings.grpc.max_streams == 3
    assert rows(settings)["grpc.max_streams"].source == "environment"


def test_a_map_may_be_filled_name_by_name():
    assert read(**{f"{P}LABELS__REGION": "eu"}).labels == {"region": "eu"}


def test_secrets_and_passwords_never_show():
    shown = rows(
        read(
            **{
                f"{P}API_KEY": "sk-very-secret",
                f"{P}DATABASE_URL": "mysql+aiomysql://app:p@ss/w:rd@db:3306/mem?ssl_key_password=abc&charset=utf8mb4",
            }
        )
    )
    assert shown["api_key"].value == "********"
    assert shown["database_url"].value == (
        "mysql+aiomysql://app:********@db:3306/mem?ssl_key_password=********&charset=utf8mb4"
    )
    assert rows(read())["api_key"].value == ""


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("redis://:pw@h:6379/0", "redis://:********@h:6379/0"),
        ("http://localhost:4317", "http://localhost:4317"),
        ("https://api.example/v1?api_key=abc", "https://api.example/v1?api_key=********"),
        ("error at mysql://u:p@h/d: no route", "error at mysql://u:********@h/d: no route"),
    ],
)
def test_masking_of_urls(text, masked):
    assert mask_urls(text) == masked


@pytest.mark.parametrize(
    ("environ", "parts"),
    [
        (
            {"GRPC__MAX_CONCURENT": "5"},
            ["PALIMPSEST_GRPC__MAX_CONCURENT", "did you mean PALIMPSEST_GRPC__MAX_CONCURRENT?"],
        ),
        ({"DATABSE_URL": "x"}, ["did you mean PALIMPSEST_DATABASE_URL?"]),
        ({"QQQQQQ": "x"}, ["PALIMPSEST_QQQQQQ", "unset it"]),
        ({"GRPC__MAX_CONCURRENT": "many"}, ["PALIMPSEST_GRPC__MAX_CONCURRENT", "'many'", "calls", "512"]),
        ({"GRPC__MAX_CONCURRENT": "0"}, ["PALIMPSEST_GRPC__MAX_CONCURRENT", "greater than or equal to 1"]),
        ({"AUTH__MODE": "none"}, ["PALIMPSEST_AUTH__MODE", "'jwt' or 'dev'", "'none'"]),
        ({"HOSTS": "a,b"}, ["PALIMPSEST_HOSTS", '["a", "b"]']),
        ({"AUTH__MODE": "jwt"}, ["PALIMPSEST_AUTH__SECRET", "PALIMPSEST_AUTH__JWKS_FILE"]),
        ({"AUTH__SECRET": "short"}, ["PALIMPSEST_AUTH__SECRET", "32 bytes"]),
        ({"TLS__CERT_FILE": "x"}, ["PALIMPSEST_TLS__KEY_FILE"]),
        ({"TLS__CLIENT_CA_FILE": "x"}, ["PALIMPSEST_TLS__CLIENT_CA_FILE", "PALIMPSEST_TLS__CERT_FILE"]),
        (
            {"TELEMETRY__OTLP_ENDPOINT": "collector:4317"},
            ["PALIMPSEST_TELEMETRY__OTLP_ENDPOINT", "http://localhost:4317"],
        ),
        ({"CONFIG_FILE": "/nowhere/x.toml"}, ["PALIMPSEST_CONFIG_FILE", "/nowhere/x.toml"]),
        ({"GRPC": '{"max_stream": 3}'}, ["PALIMPSEST_GRPC__MAX_STREAM"]),
        ({"GRPC__MAX_STREAMS": "x", "GRPC__MAX_CONCURRENT": "y"}, ["1 more"]),
    ],
)
def test_what_is_wrong_is_said_in_one_line(environ, parts):
    text = wrong(**{P + name: value for name, value in environ.items()})
    for part in parts:
        assert part in text


def test_what_is_wrong_never_shows_a_secret():
    assert "short-secret" not in wrong(**{f"{P}AUTH__SECRET": "short-secret"})
    both = {f"{P}AUTH__SECRET": "s" * 40, f"{P}AUTH__PUBLIC_KEY_FILE": "k.pem", f"{P}AUTH__MODE": "jwt"}
    assert "ssss" not in wrong(**both)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[grpc]\nmax_concurent = 5", ["grpc.max_concurent", "did you mean grpc.max_concurrent?", "palimpsest.toml"]),
        ("databse_url = 'x'", ["did you mean database_url?"]),
        ("grpc = 5", ["PALIMPSEST_GRPC"]),
        ("[grpc]\nmax_concurrent = 'x'", ["grpc.max_concurrent in ", "palimpsest.toml"]),
        ("[grpc\nmax_streams = 1", ["palimpsest.toml is not TOML", "line 1"]),
    ],
)
def test_mistakes_in_the_file_are_said_in_one_line(tmp_path: Path, text, parts):
    said = wrong(**file(tmp_path, text))
    for part in parts:
        assert part in said


def test_names_of_the_other_service_are_passed_over(tmp_path: Path):
    environ = file(tmp_path, "assembler_listen = 'x'\n[assembler]\nbudget = 1\n[assembler.deep]\nb = 2\n")
    assert read(**environ, **{f"{P}ASSEMBLER_LISTEN": "y", f"{P}ASSEMBLER__X": "z"}) == Example()
    assert "assemblr_listen" in wrong(**file(tmp_path, "assemblr_listen = 'x'"))


def test_variables_of_kubernetes_services_are_no_settings_inside_kubernetes_only():
    links = {
        f"{P}MEMORY_SERVICE_HOST": "10.0.0.1",
        f"{P}MEMORY_SERVICE_PORT_GRPC": "50051",
        f"{P}MEMORY_PORT": "tcp://10.0.0.1:50051",
        f"{P}MEMORY_PORT_50051_TCP_ADDR": "10.0.0.1",
    }
    assert read(**links, KUBERNETES_SERVICE_HOST="10.96.0.1") == Example()
    assert f"{P}MEMORY_" in wrong(**links)


def test_every_shared_setting_is_described():
    for section in (AuthSettings, GrpcSettings, TlsSettings, TelemetrySettings):
        assert issubclass(section, Section)
        for leaf in leaves(section):
            assert leaf.help.endswith("."), leaf.path
