"""Every setting of PromptAssembler: one name, one default, one line of help.

Names that begin with PALIMPSEST_ASSEMBLER_ are its own; the others (auth, tls, telemetry, llm, allow_plaintext,
log_level) are those of both services, so that one environment, or one file, serves a deployment of the two.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, model_validator

from shared.addresses import split
from shared.config import AuthSettings, GrpcSettings, Section, Settings, TelemetrySettings, TlsSettings

FOREIGN = (
    "PALIMPSEST_TEST_",
    "PALIMPSEST_EVAL_",
    # MemoryService's own. Named one by one: a mistake in PALIMPSEST_AUTH__MODE must stop the start here too.
    "PALIMPSEST_LISTEN",
    "PALIMPSEST_DATA_DIR",
    "PALIMPSEST_DATABASE_",
    "PALIMPSEST_KEY_DATABASE_",
    "PALIMPSEST_REDIS_",
    "PALIMPSEST_MILVUS_",
    "PALIMPSEST_CACHE_",
    "PALIMPSEST_TIME_ZONE",
    "PALIMPSEST_WORKER",
    "PALIMPSEST_EMBEDDING_",
    "PALIMPSEST_KEYS_",
    "PALIMPSEST_INDEX_",
    "PALIMPSEST_DEDUP_",
    "PALIMPSEST_RECALL_",
    "PALIMPSEST_EVICTION_",
    "PALIMPSEST_RETENTION_",
    "PALIMPSEST_MEMORY_",
    "PALIMPSEST_LLM__TIMEOUT_SECONDS",
    "PALIMPSEST_GRPC_",
)
"""Names of the same prefix that are not this service's."""


def _unit(name: str) -> dict[str, Any]:
    return {"unit": name}


class MemoryTlsSettings(Section):
    """TLS towards MemoryService; not enabled means plaintext."""

    enabled: bool = Field(False, description="Speak TLS with MemoryService.")
    ca_file: Path | None = Field(
        None,
        description="PEM authorities its certificate is checked by. Unset: the system's.",
        json_schema_extra=_unit("path"),
    )
    cert_file: Path | None = Field(
        None,
        description="PEM certificate chain to show, where it demands one (mutual TLS).",
        json_schema_extra=_unit("path"),
    )
    key_file: Path | None = Field(
        None, description="PEM private key of that certificate.", json_schema_extra=_unit("path")
    )

    @model_validator(mode="after")
    def _complete(self) -> "MemoryTlsSettings":
        if (self.cert_file is None) != (self.key_file is None):
            missing = "KEY_FILE" if self.key_file is None else "CERT_FILE"
            raise ValueError(f"PALIMPSEST_ASSEMBLER_MEMORY_TLS__{missing} is missing; certificate and key go together")
        if not self.enabled and (self.ca_file is not None or self.cert_file is not None):
            raise ValueError("PALIMPSEST_ASSEMBLER_MEMORY_TLS__ENABLED=true is missing; without it no TLS is spoken")
        return self


class LlmSettings(Section):
    """The cheap model: any OpenAI-compatible endpoint."""

    base_url: str | None = Field(
        None,
        pattern=r"^https?://\S+$",
        description="The endpoint. Unset: there is no model; history that does not fit is cut off.",
        json_schema_extra=_unit("URL"),
    )
    api_key: SecretStr | None = Field(None, description="Its key.")
    model: str = Field("", description="Its model.")

    @model_validator(mode="after")
    def _named(self) -> "LlmSettings":
        if self.base_url is not None and not self.model:
            raise ValueError("PALIMPSEST_LLM__MODEL is missing; PALIMPSEST_LLM__BASE_URL needs it")
        return self


class SummarySettings(Section):
    """The rolling summary of history that does not fit."""

    enabled: bool = Field(True, description="Summarise; false: history that does not fit is cut off.")
    timeout_seconds: float = Field(
        2.0, gt=0, le=60, description="Longest a prompt waits for its summary.", json_schema_extra=_unit("seconds")
    )
    cache_seconds: float = Field(
        900,
        ge=0,
        le=900,
        description="So long a summary stays in memory; 0: not at all.",
        json_schema_extra=_unit("seconds"),
    )
    cache_entries: int = Field(
        1000, ge=1, le=100_000, description="Summaries in memory at most.", json_schema_extra=_unit("summaries")
    )


class AssemblerGrpcSettings(GrpcSettings):
    """Limits of the gRPC server. Prompts come with all their material: its messages are larger than memories'."""

    max_message_mib: int = Field(
        default=16, ge=1, le=256, description="Largest message, both ways.", json_schema_extra=_unit("MiB")
    )


class AssemblerSettings(Settings):
    """PromptAssembler."""

    assembler_listen: str = Field(
        "127.0.0.1:50052", description="Address to listen on.", json_schema_extra=_unit("host:port")
    )
    assembler_memory_target: str | None = Field(
        None,
        description="MemoryService, for `lookup`. Unset: a lookup answers LOOKUP_STATUS_ERROR.",
        json_schema_extra=_unit("host:port"),
    )
    assembler_lookup_timeout_seconds: float = Field(
        1.0, gt=0, le=60, description="Longest a prompt waits for a lookup.", json_schema_extra=_unit("seconds")
    )
    assembler_count_cache: int = Field(
        20_000,
        ge=2,
        le=10_000_000,
        description="Token counts kept per encoding, about 100 bytes each.",
        json_schema_extra=_unit("texts"),
    )
    assembler_memory_tls: MemoryTlsSettings = MemoryTlsSettings()
    assembler_summary: SummarySettings = SummarySettings()
    assembler_grpc: AssemblerGrpcSettings = AssemblerGrpcSettings()

    llm: LlmSettings = LlmSettings()
    auth: AuthSettings = AuthSettings()
    tls: TlsSettings = TlsSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    allow_plaintext: bool = Field(False, description="Listen beyond loopback without TLS; a mesh encrypts.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="What is logged.")

    @model_validator(mode="after")
    def _reachable(self) -> "AssemblerSettings":
        if self.assembler_memory_target is not None:
            try:
                split(self.assembler_memory_target)
            except ValueError as error:
                raise ValueError(f"PALIMPSEST_ASSEMBLER_MEMORY_TARGET: {error}") from error
        return self
