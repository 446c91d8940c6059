"""Settings: command-line flag > `KB_*` environment > ./kb.toml > user config > default. Read once, at the top."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from kb.addresses import Address, without_secret
from kb.errors import ConfigError
from kb.model import SourceClass
from kb.settings_governance import GovernSettings, JobsSettings
from kb.settings_serving import ServeSettings
from kb.trust import LEAST_STRENGTH, MAX_DAYS, MAX_STRENGTH, MIN_HALF_LIFE_DAYS, TrustPolicy

PROJECT_FILE = "kb.toml"
# An address may hold a password: it is used as it is, and shown without.
Url = Annotated[str, AfterValidator(Address), PlainSerializer(without_secret, when_used="json")]


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user of a container or a service may have none
        return Path("/nonexistent")


def default_data_dir() -> Path:
    """Return where everything local lives when KB_DATA_DIR says nothing."""
    if sys.platform == "darwin":
        return _home() / "Library" / "Application Support" / "kb"
    return Path(os.environ.get("XDG_DATA_HOME") or _home() / ".local" / "share") / "kb"


def default_cache_dir() -> Path:
    """Return where what can be built again lives (model files, vocabularies)."""
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches" / "kb"
    return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "kb"


def user_config() -> Path:
    """Return the user's own kb.toml."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or _home() / ".config") / "kb" / PROJECT_FILE


class ClassSettings(BaseModel):
    """Prior trust of one source class; what is not set keeps its default."""

    model_config = ConfigDict(extra="forbid")
    confidence: float | None = Field(default=None, ge=0, le=1)
    verified: bool | None = None
    hold_days: float | None = Field(default=None, ge=0, le=MAX_DAYS)
    half_life_days: float | None = Field(default=None, ge=MIN_HALF_LIFE_DAYS, le=MAX_DAYS)
    quarantined: bool | None = None
    strength: float | None = Field(
        default=None, ge=LEAST_STRENGTH, le=MAX_STRENGTH, description="weight of the prior against evidence"
    )


class SourceSettings(BaseModel):
    """One `[[sources]]` entry: a folder to keep in step."""

    model_config = ConfigDict(extra="forbid")
    path: Path
    name: str = ""
    trust: Literal["curated", "document"] = "document"


class IngestSettings(BaseModel):
    """Limits of ingestion."""

    model_config = ConfigDict(extra="forbid")
    target_tokens: int = Field(default=400, ge=64, le=8192, description="tokens (cl100k) a chunk aims at")
    max_tokens: int = Field(default=512, ge=64, le=8192, description="tokens no chunk exceeds")
    max_bytes: int = Field(default=50_000_000, gt=0, description="larger files are refused")
    max_chunks: int = Field(default=20_000, gt=0, description="documents with more chunks are refused")
    parse_seconds: float = Field(default=60.0, gt=0, description="wall-clock limit of one document's parsing")
    parse_memory: int = Field(default=1_000_000_000, gt=0, description="bytes of memory the parser may use")
    mass_delete_count: int = Field(default=10, ge=0, description="deletions up to this many never ask")
    mass_delete_share: float = Field(
        default=0.10, ge=0, le=1, description="share of a source whose loss asks for consent"
    )


class ChatSettings(BaseModel):
    """The chat model of planning, grading, rewriting and answering; without one, rules and quotes do the work."""

    model_config = ConfigDict(extra="forbid")
    model: str | None = Field(default=None, description="model name; unset: no chat model")
    base_url: Url | None = Field(default=None, description="base URL; unset: openai_base_url, then OpenAI's own")
    api_key: SecretStr | None = Field(
        default=None, description="its key; unset: openai_api_key, if the endpoint is the same"
    )
    timeout_seconds: float = Field(default=30.0, gt=0, description="of one call")
    retries: int = Field(default=1, ge=0, le=5, description="repeats of a call after a passing fault")
    max_tokens: int = Field(default=800, gt=0, description="tokens an answer may have")
    max_concurrency: int = Field(default=4, gt=0, description="calls at a time")


class WebSearchSettings(BaseModel):
    """Web search, for what the knowledge base does not cover; off by default."""

    model_config = ConfigDict(extra="forbid")
    provider: Literal["none", "tavily", "searxng"] = Field(default="none", description="who searches")
    url: Url | None = Field(default=None, description="SearXNG: base URL; Tavily: unset, or a proxy's")
    api_key: SecretStr | None = Field(default=None, description="Tavily's key")
    timeout_seconds: float = Field(default=10.0, gt=0, description="of one search")
    max_results: int = Field(default=5, ge=1, le=20, description="results of one search")
    approve: Literal["ask", "always", "never"] = Field(
        default="ask", description="whether a paid search needs a person: ask, always do it, never do it"
    )
    only_when: Literal["needed", "timely"] = Field(
        default="needed",
        description="needed: whenever the store does not suffice; timely: then, and only for questions of time",
    )


class ThresholdSettings(BaseModel):
    """Band of one type of question; what is not set is the evaluator's own, calibrated."""

    model_config = ConfigDict(extra="forbid")
    lower: float | None = Field(default=None, ge=0, le=1)
    upper: float | None = Field(default=None, ge=0, le=1)
    gate: float | None = Field(default=None, ge=0, le=1)
    min_sources: int | None = Field(default=None, ge=1, le=10)


class AskSettings(BaseModel):
    """The Corrective-RAG runtime."""

    model_config = ConfigDict(extra="forbid")
    preset: Literal["fast", "balanced", "strict"] = Field(
        default="balanced", description="values for what is set nowhere: cheapest, the defaults, or most certain"
    )
    evaluator: Literal["auto", "fast", "reader", "llm", "cascade"] = Field(
        default="auto", description="who grades; auto: cascade with a chat model, else reader"
    )
    k: int = Field(default=5, ge=1, le=50, description="passages graded per sub-question")
    min_sources: int = Field(default=1, ge=1, le=10, description="independent sources a correct verdict needs")
    remedies: list[str] = Field(
        default=["rewrite", "web"],
        description="what is tried when evidence does not suffice, in this order: rewrite, backup, web, human",
    )
    backup_tenant: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="tenant that the remedy backup looks in; read, never written",
    )
    max_rewrites: int = Field(default=1, ge=0, le=3, description="rewrites per question")
    max_searches: int = Field(default=2, ge=0, le=10, description="web searches per question")
    max_llm_calls: int = Field(default=24, ge=0, description="chat calls per question")
    max_tokens: int = Field(default=60_000, gt=0, description="chat tokens, in and out, per question")
    evidence_tokens: int = Field(default=1500, ge=64, description="tokens (cl100k) of evidence that reach the answer")
    node_seconds: float = Field(default=60.0, gt=0, description="wall-clock limit of one step")
    grade_concurrency: int = Field(default=4, ge=1, le=64, description="passages graded at a time")
    checkpointer: Literal["none", "sqlite", "postgres"] = Field(
        default="none", description="where threads and interrupted questions are kept"
    )
    checkpoint_url: SecretStr | None = Field(
        default=None, description="PostgreSQL URL of the checkpoints; unset: ledger_url"
    )
    durability: Literal["exit", "sync"] = Field(
        default="exit", description="when to checkpoint: at the end, or after every step (resumes after a crash)"
    )
    grade_cache: Url = Field(default="memory", description="memory, sqlite, none, or a redis:// URL")
    grade_ttl_seconds: float = Field(default=86_400.0, gt=0, description="how long a grade is kept")
    thresholds: dict[Literal["factual", "analytical", "creative"], ThresholdSettings] = Field(
        default_factory=dict, description="per type of question"
    )


class TelemetrySettings(BaseModel):
    """What traces and metrics hold, beside the endpoint that they are sent to (`telemetry_endpoint`)."""

    model_config = ConfigDict(extra="forbid")
    capture_content: bool = Field(
        default=False, description="whether questions, passages and answers leave with spans; secrets never do"
    )
    gauge_seconds: float = Field(
        default=30.0, gt=0, description="how long what gauges read from the ledger is good for; costs a few counts"
    )


_DEFAULT_POLICIES = {
    SourceClass.CURATED: TrustPolicy(confidence=0.95, verified=True, hold_days=180),
    SourceClass.DOCUMENT: TrustPolicy(confidence=0.9),
    SourceClass.PERSON: TrustPolicy(confidence=0.8),
    # of these nothing is known: their prior weighs as much as one witness
    SourceClass.AGENT: TrustPolicy(confidence=0.5, quarantined=True, strength=1),
    SourceClass.WEB: TrustPolicy(confidence=0.5, quarantined=True, strength=1),
    SourceClass.ANSWER: TrustPolicy(confidence=0.0, quarantined=True),
}


class Settings(BaseSettings):
    """All settings of the product. Secrets print as asterisks."""

    model_config = SettingsConfigDict(env_prefix="KB_", env_nested_delimiter="__", extra="forbid")

    data_dir: Path = Field(default_factory=default_data_dir, description="everything local: ledger, index, locks")
    cache_dir: Path = Field(default_factory=default_cache_dir, description="what can be built again: model files")
    tenant: str = Field(default="default", min_length=1, max_length=64, description="tenant of commands that name none")
    gate: float = Field(
        default=0.7, ge=0, le=1, description="effective confidence a memory must exceed to be retrieved"
    )
    ledger_url: SecretStr | None = Field(default=None, description="SQLAlchemy URL; unset: SQLite in data_dir")
    index_uri: Url | None = Field(default=None, description="Milvus URI; unset: Milvus Lite in data_dir")
    index_token: SecretStr | None = Field(default=None, description="Milvus token, user:password or API key")
    index_timeout: float = Field(default=10.0, gt=0, description="seconds one index call may take")
    index_idle_seconds: float = Field(
        default=300.0, gt=0, description="the Lite server stops after this long without clients"
    )
    embedder: Literal["local", "openai"] = Field(
        default="local", description="local e5, or an OpenAI-compatible endpoint"
    )
    embedding_model: str = Field(
        default="text-embedding-3-small", description="model name at the OpenAI-compatible endpoint"
    )
    embedding_dim: int | None = Field(
        default=None, gt=0, description="dimension asked of the endpoint; unset: the model's own"
    )
    embedding_max_tokens: int = Field(default=8191, gt=0, description="tokens the endpoint's model accepts in one text")
    openai_base_url: Url | None = Field(default=None, description="base URL of the OpenAI-compatible endpoint")
    openai_api_key: SecretStr | None = Field(default=None, description="its key")
    telemetry_endpoint: Url | None = Field(default=None, description="OTLP/HTTP base URL; unset: telemetry is off")
    ingest: IngestSettings = IngestSettings()
    chat: ChatSettings = ChatSettings()
    search: WebSearchSettings = WebSearchSettings()
    ask: AskSettings = AskSettings()
    govern: GovernSettings = GovernSettings()
    jobs: JobsSettings = JobsSettings()
    serve: ServeSettings = ServeSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    trust: dict[SourceClass, ClassSettings] = Field(default_factory=dict)
    sources: list[SourceSettings] = Field(default_factory=list)

    @property
    def policies(self) -> dict[SourceClass, TrustPolicy]:
        """Trust policy of every source class: the default with what `[trust.<class>]` sets."""
        merged = dict(_DEFAULT_POLICIES)
        for source_class, changes in self.trust.items():
            merged[source_class] = replace(merged[source_class], **changes.model_dump(exclude_none=True))
        return merged

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the framework's signature; no .env is read
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flag > environment > ./kb.toml > user config."""
        files = (Path(PROJECT_FILE), user_config())
        return (
            init_settings,
            env_settings,
            *(TomlConfigSettingsSource(settings_cls, f) for f in files if f.is_file()),
        )


def load_settings(**flags: object) -> Settings:
    """Return the settings, with the flags that were given (None: not given) on top.

    Raises:
        ConfigError: a value is wrong or a name unknown; the message lists each with where it stands.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings(**given)  # type: ignore[arg-type] # validated by pydantic
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False)]
        raise ConfigError("settings are not valid: " + "; ".join(lines)) from error
    except ValueError as error:  # a toml file, or a KB_* variable that holds JSON, does not parse
        raise ConfigError(f"settings do not parse: {error}") from error
