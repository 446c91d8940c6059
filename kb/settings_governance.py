"""Settings of governance and its jobs: the tables `[govern]` and `[jobs]` of kb.toml."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from kb.model import SourceClass
from kb.trust import MAX_DAYS


class ClassRuleSettings(BaseModel):
    """Rules of one source class; what is not set is as `[govern]` says."""

    model_config = ConfigDict(extra="forbid")
    prune_below: float | None = Field(default=None, ge=0, le=1)
    prune_after_days: float | None = Field(default=None, ge=0, le=MAX_DAYS)
    restore_days: float | None = Field(default=None, ge=0, le=MAX_DAYS)


class RuleSettings(BaseModel):
    """Rules of one tenant; what is not set is as `[govern]` says."""

    model_config = ConfigDict(extra="forbid")
    prune_below: float | None = Field(default=None, ge=0, le=1)
    prune_after_days: float | None = Field(default=None, ge=0, le=MAX_DAYS)
    restore_days: float | None = Field(default=None, ge=0, le=MAX_DAYS)
    mass_count: int | None = Field(default=None, ge=0)
    mass_share: float | None = Field(default=None, ge=0, le=1)
    promote_witnesses: int | None = Field(default=None, ge=1, le=20)
    checks: int | None = Field(default=None, ge=0)
    classes: dict[SourceClass, ClassRuleSettings] = Field(default_factory=dict)


class GovernSettings(BaseModel):
    """What sweeps may do; every number also per source class, or per tenant, where that makes sense."""

    model_config = ConfigDict(extra="forbid")
    prune_below: float = Field(default=0.2, ge=0, le=1, description="effective confidence under which prune retires")
    prune_after_days: float = Field(default=14.0, ge=0, le=MAX_DAYS, description="younger memories are never pruned")
    restore_days: float = Field(
        default=30.0, ge=0, le=MAX_DAYS, description="days a retired memory can be restored; then gc erases it"
    )
    mass_count: int = Field(default=10, ge=0, description="a sweep that retires at most so many never asks")
    mass_share: float = Field(default=0.10, ge=0, le=1, description="share of a tenant whose loss asks for consent")
    batch: int = Field(default=500, ge=1, le=10_000, description="actions of one transaction")
    cap: int = Field(default=10_000, ge=1, description="actions of one sweep; the rest waits for the next")
    promote_witnesses: int = Field(
        default=2, ge=1, le=20, description="independent sources that promote a quarantined memory"
    )
    checks: int = Field(default=20, ge=0, description="external checks of one recheck; 0: only the review queue")
    check_every_days: float = Field(
        default=7.0, ge=0, le=MAX_DAYS, description="days between external checks of one memory"
    )
    checked_hold_days: float = Field(
        default=60.0, ge=0, le=MAX_DAYS, description="days that what an external check vouched for is held"
    )
    judge: bool = Field(
        default=False, description="whether the chat model confirms contradictions, and looks at pairs in doubt"
    )
    reputation: bool = Field(
        default=True, description="whether a source whose memories keep being refused is believed less"
    )
    forecast_days: int = Field(default=30, ge=1, le=3650, description="how far `policy check` looks ahead")
    classes: dict[SourceClass, ClassRuleSettings] = Field(default_factory=dict, description="per source class")
    tenants: dict[str, RuleSettings] = Field(default_factory=dict, description="per tenant")


class JobsSettings(BaseModel):
    """When jobs run, in UTC: `hourly :15`, `daily 02:00`, `weekly sun 04:00`, `every 10m`, or `off`."""

    model_config = ConfigDict(extra="forbid")
    sync: str = Field(default="daily 02:00", description="re-ingest every registered source")
    decay: str = Field(default="daily 03:00", description="write the decayed confidence for other readers")
    promote: str = Field(default="daily 03:20", description="activate what independent sources bear out")
    recheck: str = Field(default="daily 03:40", description="check contested and due memories, or queue them")
    prune: str = Field(default="weekly sun 04:00", description="retire what has faded and nobody vouched for")
    reconcile: str = Field(default="hourly :15", description="compare ledger and index, and repair")
    gc: str = Field(default="daily 04:30", description="erase what was retired long enough ago; tidy caches")
    verify_index: str = Field(default="daily 05:00", description="search for a sample of memories by themselves")
    attempts: int = Field(
        default=3,
        ge=1,
        le=20,
        description="runs of one slot before it counts as failed; those told to stop do not count",
    )
    backoff_seconds: float = Field(default=60.0, ge=0, description="before the second attempt; doubles with each")
    misfire_hours: float = Field(
        default=168.0, gt=0, description="how late a slot may still run; older ones are passed over"
    )
    heartbeat_seconds: float = Field(default=10.0, gt=0, description="how often the daemon says that it lives")
    lease_seconds: float = Field(default=1.0, gt=0, description="how often a standby tries to lead")
    health_file: str | None = Field(default=None, description="file the daemon touches with every heartbeat")
    health_port: int | None = Field(default=None, ge=0, le=65_535, description="loopback port of its health page")
