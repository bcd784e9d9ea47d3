"""Every setting of MemoryService: one name, one default, one line of help.

`DedupSettings`, `RecallSettings`, `EvictionSettings`, `RetentionSettings` and `ExtractionSettings` are the tunables:
what is set here is the deployment's default, and AdminService can change it at run time.
"""

from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, SecretStr, field_validator, model_validator

from memory_service.domain.ranking import RankingPolicy
from shared.config import AuthSettings, GrpcSettings, Section, Settings, TelemetrySettings, TlsSettings

_RANKING = RankingPolicy()
"""The defaults of recall are those of the policy, with the measurements they come from."""


def _unit(name: str) -> dict[str, Any]:
    return {"unit": name}


class DedupSettings(Section):
    """When two statements are one, on the calibrated scale."""

    same_meaning: float = Field(0.85, ge=0, le=1, description="From this similarity on two statements mean the same.")
    update: float = Field(
        0.75, ge=0, le=1, description="From this on they are one statement, maybe with another value."
    )
    max_tokens: int = Field(
        128,
        ge=1,
        le=512,
        description="Longer texts are compared by their exact text only.",
        json_schema_extra=_unit("tokens"),
    )
    conflict_policy: Literal["guarded", "threshold"] = Field(
        "guarded",
        description="guarded: only another state value replaces; threshold: whatever lies between the two thresholds.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> "DedupSettings":
        if self.update > self.same_meaning:
            raise ValueError("dedup.update must not be above dedup.same_meaning")
        return self


class RecallSettings(Section):
    """How memories are found."""

    dense_leg: Literal["auto", "index"] = Field(
        "auto",
        description="auto: exact cosine up to recall.exact_limit memories, the index above; index: always the index.",
    )
    exact_limit: int = Field(
        10_000, ge=0, description="Largest set that is searched exactly.", json_schema_extra=_unit("memories")
    )
    min_similarity: float = Field(
        _RANKING.min_similarity, ge=-1, le=1, description="A memory qualifies by meaning above this."
    )
    min_keyword: float = Field(
        _RANKING.min_keyword, ge=0, le=1, description="A memory qualifies by keyword from this score on."
    )
    keyword_weight: float = Field(_RANKING.keyword_weight, ge=0, le=1, description="Weight of the keyword score.")
    vector_weight: float = Field(_RANKING.vector_weight, ge=0, le=1, description="Weight of the similarity.")
    identifier_keyword_weight: float = Field(
        _RANKING.identifier_keyword_weight,
        ge=0,
        le=1,
        description="Weight of the keyword score when the query carries an identifier.",
    )
    identifier_vector_weight: float = Field(
        _RANKING.identifier_vector_weight,
        ge=0,
        le=1,
        description="Weight of the similarity when the query carries an identifier.",
    )
    relative_floor: float = Field(
        _RANKING.relative_floor,
        ge=0,
        le=1,
        description="Hits below this share of the best one are left out; 0: none are.",
    )
    recency_weight: float = Field(
        _RANKING.recency_weight, ge=0, le=1, description="What a memory of now has over one of long ago."
    )
    recency_half_life_days: float = Field(
        _RANKING.recency_half_life_days,
        gt=0,
        le=3650,
        description="After so long half of that is left.",
        json_schema_extra=_unit("days"),
    )


class EvictionSettings(Section):
    """What happens when a user has many memories."""

    max_active: int = Field(
        200, ge=1, le=100_000, description="Active memories per user, all types.", json_schema_extra=_unit("memories")
    )
    grace_hours: float = Field(
        24, ge=0, le=8760, description="Younger memories are evicted last.", json_schema_extra=_unit("hours")
    )


class RetentionSettings(Section):
    """What is deleted for good, in time."""

    retired_days: int = Field(
        0,
        ge=0,
        le=36_500,
        description="Retired memories are deleted after so long; 0: never.",
        json_schema_extra=_unit("days"),
    )


class ExtractionSettings(Section):
    """How memories are made of conversations."""

    extract_model: str = Field(
        "qwen-flash",
        min_length=1,
        max_length=128,
        pattern=r"^\S+$",
        description="The model that reads turns: a cheap, small one. Unset: llm.model, or else this one.",
    )


class LlmSettings(Section):
    """The endpoint of the cheap model: any OpenAI-compatible one."""

    base_url: str | None = Field(
        None,
        pattern=r"^https?://\S+$",
        description="The endpoint. Unset: there is no model; turns are kept and wait for their extraction.",
        json_schema_extra=_unit("URL"),
    )
    api_key: SecretStr | None = Field(None, description="Its key.")
    model: str = Field("", max_length=128, description="Its model, where memory.extract_model is not set.")
    timeout_seconds: float = Field(
        30, gt=0, le=600, description="Longest a call of it may take.", json_schema_extra=_unit("seconds")
    )


class EmbeddingSettings(Section):
    """The embedding model. Bundled: inside the installation, no network."""

    provider: Literal["bundled", "openai"] = Field(
        "bundled", description="bundled: the model inside; openai: any OpenAI-compatible endpoint."
    )
    base_url: str | None = Field(None, description="The endpoint of provider openai.", json_schema_extra=_unit("URL"))
    api_key: SecretStr | None = Field(None, description="Its key.")
    model: str = Field("", description="Its model.")
    dim: int = Field(1024, ge=8, le=4096, description="Length of its vectors.", json_schema_extra=_unit("numbers"))
    query_prefix: str = Field("", description="Put before a query, where the model wants it.")
    passage_prefix: str = Field("", description="Put before a text to remember, where the model wants it.")
    space_file: Path | None = Field(
        None,
        description="Embedding space of the model, made by `memory-service calibrate`; needed with provider openai.",
        json_schema_extra=_unit("path"),
    )
    timeout_seconds: float = Field(
        10, gt=0, le=120, description="Longest a call of it may take.", json_schema_extra=_unit("seconds")
    )

    @model_validator(mode="after")
    def _complete(self) -> "EmbeddingSettings":
        if self.provider == "openai":
            for name in ("base_url", "model", "space_file"):
                if not getattr(self, name):
                    raise ValueError(f"embedding.{name} is missing; provider openai needs it")
        return self


class KeySettings(Section):
    """The key-encryption keys that wrap the users' data keys."""

    file: Path | None = Field(
        None,
        description="JSON file of keys; made at the first start. Unset: keys.json in the data folder.",
        json_schema_extra=_unit("path"),
    )
    keys: dict[str, SecretStr] = Field(
        default_factory=dict, description='Keys by id instead of a file, as JSON: {"k1": "<base64 of 32 bytes>"}.'
    )
    current: str = Field("", description="Which of keys.keys wraps new data keys.")


class IndexSettings(Section):
    """The vector index."""

    timeout_seconds: float = Field(
        2, gt=0, le=60, description="Longest a call of it may take.", json_schema_extra=_unit("seconds")
    )
    visibility_seconds: float = Field(
        60,
        ge=0,
        le=3600,
        description="How late the index may show what was written; so long its newest rows are scored exactly as well.",
        json_schema_extra=_unit("seconds"),
    )
    reconcile_hours: float = Field(
        24,
        ge=0,
        le=8760,
        description="Record and index are compared so often; 0: only by command.",
        json_schema_extra=_unit("hours"),
    )


class MemorySettings(Settings):
    """MemoryService."""

    listen: str = Field("127.0.0.1:50051", description="Address to listen on.", json_schema_extra=_unit("host:port"))
    data_dir: Path = Field(
        Path("./data"),
        description="Folder of the embedded record and of the key file.",
        json_schema_extra=_unit("path"),
    )
    database_url: SecretStr | None = Field(
        None,
        description="The record: mysql://user:password@host/name. Unset: SQLite in the data folder.",
        json_schema_extra=_unit("URL"),
    )
    key_database_url: SecretStr | None = Field(
        None,
        description="A database of its own for the wrapped keys. Unset: the record's.",
        json_schema_extra=_unit("URL"),
    )
    database_pool: int = Field(
        16, ge=1, le=512, description="Connections to the record.", json_schema_extra=_unit("connections")
    )
    database_timeout_seconds: float = Field(
        5, gt=0, le=60, description="Longest a call of the record may take.", json_schema_extra=_unit("seconds")
    )
    redis_url: SecretStr | None = Field(None, description="The cache. Unset: none.", json_schema_extra=_unit("URL"))
    milvus_uri: SecretStr | None = Field(
        None,
        description="The vector index: http://host:19530. Unset: none, exact search.",
        json_schema_extra=_unit("URL"),
    )
    milvus_token: SecretStr | None = Field(None, description="user:password, or token, of the vector index.")
    milvus_database: str = Field("", description="Its database. Unset: the default one.")
    cache_megabytes: int = Field(
        256, ge=1, description="Active sets that this process keeps in clear.", json_schema_extra=_unit("MB")
    )
    time_zone: str = Field("UTC", description="Where days and weeks are meant.", json_schema_extra=_unit("IANA name"))
    allow_plaintext: bool = Field(False, description="Listen beyond loopback without TLS; a mesh encrypts.")
    worker: bool = Field(True, description="Run the background work (outbox, jobs, upkeep) in this server.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="What is logged.")

    embedding: EmbeddingSettings = EmbeddingSettings()
    embedding_previous: EmbeddingSettings | None = Field(
        None, description="The model before this one, until `memory-service reindex --reembed` is done."
    )
    keys: KeySettings = KeySettings()
    index: IndexSettings = IndexSettings()
    dedup: DedupSettings = DedupSettings()
    recall: RecallSettings = RecallSettings()
    eviction: EvictionSettings = EvictionSettings()
    retention: RetentionSettings = RetentionSettings()
    memory: ExtractionSettings = ExtractionSettings()
    llm: LlmSettings = LlmSettings()
    auth: AuthSettings = AuthSettings()
    tls: TlsSettings = TlsSettings()
    grpc: GrpcSettings = GrpcSettings()
    telemetry: TelemetrySettings = TelemetrySettings()

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError("is not an IANA time zone, write one like Asia/Shanghai") from error
        return name

    @model_validator(mode="before")
    @classmethod
    def _one_cheap_model(cls, values: Any) -> Any:
        """The assembler's cheap model reads turns too, unless another one is named for that."""
        llm, memory = (values.get(name) or {} for name in ("llm", "memory"))
        if isinstance(llm, dict) and llm.get("model") and isinstance(memory, dict):
            values = {**values, "memory": {"extract_model": llm["model"], **memory}}
        return values

    @property
    def embedded(self) -> bool:
        """True with the embedded record: one process owns the stores."""
        return self.database_url is None or self.database_url.get_secret_value().startswith("sqlite")

    @property
    def record_url(self) -> str:
        """URL of the record."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{(self.data_dir / 'palimpsest.db').resolve()}"

    @property
    def key_file(self) -> Path:
        """Path of the key file, where keys are not given otherwise."""
        return self.keys.file or self.data_dir / "keys.json"
