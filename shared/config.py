"""Settings: what both servers can be told, how it is read, and what is said when it is wrong.

Values come from defaults, a TOML file named by PALIMPSEST_CONFIG_FILE, and PALIMPSEST_* environment variables; the
later one wins. Nothing is read at import or by constructing a class: only `load` looks at the environment. What a
setting is used for belongs to the module that uses it.

`Settings` is the base of a service's own settings. Every field has a description, and a unit where it has one:
`Field(default=30, description="…", json_schema_extra={"unit": "seconds"})` (`default=` by name: mypy sees it then).
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from shared.config_names import (
    PREFIX,
    ConfigError,
    Leaf,
    SettingRow,
    env_name,
    leaves,
    mask_urls,
    masked,
    read_toml,
    refuse_unknown,
)

__all__ = [
    "AuthSettings",
    "ConfigError",
    "GrpcSettings",
    "Section",
    "SettingRow",
    "Settings",
    "TelemetrySettings",
    "TlsSettings",
    "describe",
    "load",
    "mask_urls",
]

_S = TypeVar("_S", bound="Settings")


class Section(BaseModel):
    """Base of a group of settings, `PALIMPSEST_<GROUP>__<NAME>`. Unknown names are errors; values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class AuthSettings(Section):
    """How callers are known. One of the three kinds of key in mode `jwt`; none in mode `dev`."""

    mode: Literal["jwt", "dev"] = Field(
        default="dev", description="jwt: signed tokens; dev: whatever x-user-id says, on loopback only."
    )
    secret: SecretStr | None = Field(
        default=None, description="Secret of HS256 tokens.", json_schema_extra={"unit": "text of at least 32 bytes"}
    )
    public_key_file: Path | None = Field(
        default=None,
        description="PEM public key; an RSA key means RS256, a P-256 key ES256. Read again when it changes.",
        json_schema_extra={"unit": "path"},
    )
    jwks_file: Path | None = Field(
        default=None,
        description="JWKS with such keys, chosen by `kid`. Read again when it changes.",
        json_schema_extra={"unit": "path"},
    )
    audience: str = Field(default="palimpsest", min_length=1, description="What a token's `aud` must name.")
    issuer: str | None = Field(
        default=None, min_length=1, description="What a token's `iss` must be; unset: anything or nothing."
    )
    leeway_seconds: int = Field(
        default=30,
        ge=0,
        le=300,
        description="Clock difference forgiven in `exp` and `nbf`.",
        json_schema_extra={"unit": "seconds"},
    )

    @model_validator(mode="after")
    def _one_key(self) -> "AuthSettings":
        if self.secret is not None and len(self.secret.get_secret_value().encode()) < 32:
            raise ValueError(
                f"{PREFIX}AUTH__SECRET is shorter than 32 bytes; write one as `openssl rand -hex 32` prints it"
            )
        given = [key for key in (self.secret, self.public_key_file, self.jwks_file) if key is not None]
        if self.mode == "jwt" and len(given) != 1:
            names = f"{PREFIX}AUTH__SECRET, {PREFIX}AUTH__PUBLIC_KEY_FILE, {PREFIX}AUTH__JWKS_FILE"
            raise ValueError(
                f"{PREFIX}AUTH__MODE=jwt needs a key; set one of {names}"
                if not given
                else f"more than one key for tokens is set; keep exactly one of {names}"
            )
        return self


class TlsSettings(Section):
    """TLS of the listeners; nothing set means plaintext."""

    cert_file: Path | None = Field(
        default=None,
        description="PEM certificate chain. Read again when it changes.",
        json_schema_extra={"unit": "path"},
    )
    key_file: Path | None = Field(
        default=None, description="PEM private key of the certificate.", json_schema_extra={"unit": "path"}
    )
    client_ca_file: Path | None = Field(
        default=None,
        description="PEM authorities; set: callers must show a certificate of theirs.",
        json_schema_extra={"unit": "path"},
    )

    @model_validator(mode="after")
    def _complete(self) -> "TlsSettings":
        if (self.cert_file is None) != (self.key_file is None):
            missing = "KEY_FILE" if self.key_file is None else "CERT_FILE"
            raise ValueError(f"{PREFIX}TLS__{missing} is missing; certificate and key go together")
        if self.client_ca_file is not None and self.cert_file is None:
            raise ValueError(f"{PREFIX}TLS__CLIENT_CA_FILE needs {PREFIX}TLS__CERT_FILE and {PREFIX}TLS__KEY_FILE")
        return self

    @property
    def enabled(self) -> bool:
        """Whether the listeners speak TLS."""
        return self.cert_file is not None


class GrpcSettings(Section):
    """Limits of the gRPC server."""

    max_concurrent: int = Field(
        default=512,
        ge=1,
        description="Unary calls at work at once; more are refused at once.",
        json_schema_extra={"unit": "calls"},
    )
    max_streams: int = Field(
        default=1024,
        ge=1,
        description="Streaming calls open at once; more are refused.",
        json_schema_extra={"unit": "calls"},
    )
    max_message_mib: int = Field(
        default=4, ge=1, le=256, description="Largest message, both ways.", json_schema_extra={"unit": "MiB"}
    )
    rpc_timeout_seconds: float = Field(
        default=30,
        gt=0,
        le=3600,
        description="Longest a unary call may take, whatever its caller asks.",
        json_schema_extra={"unit": "seconds"},
    )
    drain_seconds: float = Field(
        default=20,
        ge=0,
        le=3600,
        description="Time for calls in progress when the server stops.",
        json_schema_extra={"unit": "seconds"},
    )
    reflection: Literal["auto", "on", "off"] = Field(
        default="auto", description="Server reflection; auto: only while every listener is on loopback."
    )


class TelemetrySettings(Section):
    """Traces and metrics. They hold ids, sizes and a keyed hash of the user id, never text."""

    otlp_endpoint: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s/]+",
        description="OTLP/gRPC collector, such as http://localhost:4317; unset: nothing leaves.",
        json_schema_extra={"unit": "URL"},
    )
    service_name: str = Field(default="palimpsest", min_length=1, description="Name under which they are sent.")


class Settings(BaseSettings):
    """Base of a service's settings. Constructing it reads nothing: `load` does."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        validate_default=True,
    )
    _origins: dict[tuple[str, ...], Literal["environment", "file"]] = PrivateAttr(default_factory=dict)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *_: PydanticBaseSettingsSource,
        **__: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what the constructor is given."""
        return (init_settings,)


class _Environment(EnvSettingsSource):
    """pydantic-settings' reader of environment variables, over a mapping instead of the process' environment."""

    def __init__(self, cls: type[BaseSettings], environ: Mapping[str, str]) -> None:
        self._environ = environ
        super().__init__(cls)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name.lower(): value for name, value in self._environ.items() if value != ""}


def load(cls: type[_S], *, environ: Mapping[str, str] | None = None, foreign: Iterable[str] = ()) -> _S:
    """Settings from the environment and the TOML file it names. An empty variable counts as unset.

    `foreign` holds prefixes of names that belong to another service (`PALIMPSEST_ASSEMBLER_`): they are passed over, in
    the file too (`assembler_…`). Raises ConfigError, whose text is one line.
    """
    environ = os.environ if environ is None else environ
    path = environ.get(f"{PREFIX}CONFIG_FILE", "")
    known = leaves(cls)
    skip = tuple(foreign)
    file_values, file_paths = read_toml(path, cls, skip) if path else ({}, set())
    env_paths = refuse_unknown(environ, known, skip)
    try:
        env_values = _Environment(cls, environ)()
    except SettingsError as error:
        raise ConfigError(_not_json(str(error), known)) from error
    try:
        settings = cls(**_merged(file_values, env_values))
    except ValidationError as error:
        raise ConfigError(_one_line(error, known, env_paths, path)) from error
    settings._origins.update(dict.fromkeys(file_paths, "file"))
    settings._origins.update(dict.fromkeys(env_paths, "environment"))
    return settings


def describe(settings: Settings) -> list[SettingRow]:
    """Every setting in the order of declaration. Secrets, and passwords inside URLs, are masked."""
    rows = []
    for leaf in leaves(type(settings)):
        value: Any = settings
        for part in leaf.path:
            value = getattr(value, part, None)
        origin = next(
            (
                settings._origins[leaf.path[:n]]
                for n in range(len(leaf.path), 0, -1)
                if leaf.path[:n] in settings._origins
            ),
            "default",
        )
        rows.append(
            SettingRow(
                name=".".join(leaf.path),
                env=env_name(leaf.path),
                value=masked(leaf, value),
                unit=leaf.unit,
                source=cast("Literal['default', 'environment', 'file']", origin),
                help=leaf.help,
            )
        )
    return rows


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(under)
    for key, value in over.items():
        below = both.get(key)
        both[key] = _merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return both


def _one_line(error: ValidationError, known: list[Leaf], env_paths: set[tuple[str, ...]], path: str) -> str:
    problems = error.errors(include_url=False, include_context=False)
    first = problems[0]
    loc = tuple(str(part) for part in first["loc"])
    leaf = next((leaf for leaf in known if loc[: len(leaf.path)] == leaf.path), None)
    text = re.sub(r"\s+", " ", first["msg"]).removeprefix("Value error, ").rstrip(".")
    if leaf is None:
        # A rule over several settings names them itself; what is wrong with a section's shape does not.
        line = mask_urls(text) if first["type"] == "value_error" else f"{env_name(loc)}: {text[:1].lower()}{text[1:]}"
    else:
        name = env_name(leaf.path)
        from_env = not path or any(leaf.path[:n] in env_paths for n in range(1, len(leaf.path) + 1))
        place = name if from_env else f"{'.'.join(leaf.path)} in {path} ({name})"
        shown = isinstance(first["input"], (str, int, float)) and not leaf.secret
        given = f" (it is {masked(leaf, first['input'])!r})" if shown else ""
        default = "" if leaf.secret or leaf.default in (None, "") else f"default {masked(leaf, leaf.default)}"
        notes = ", ".join(note for note in (leaf.unit, default) if note)
        line = f"{place}: {text[:1].lower()}{text[1:]}{given}. Write: {leaf.help}" + (f" [{notes}]" if notes else "")
    more = f" (and {len(problems) - 1} more settings are wrong)" if len(problems) > 1 else ""
    return " ".join(f"{line}{more}".split())


def _not_json(text: str, known: list[Leaf]) -> str:
    match = re.search(r'field "([^"]+)"', text)
    names = [env_name(leaf.path) for leaf in known if match and match[1].lower() in leaf.path]
    return f'{names[0] if names else "a setting in the environment"}: is not JSON; write a list as ["a", "b"]'
