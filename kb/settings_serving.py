"""Settings of serving: the table `[serve]` of kb.toml."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class ServeSettings(BaseModel):
    """`kb serve`: HTTP, MCP and the console in one process."""

    model_config = ConfigDict(extra="forbid")
    host: str = Field(default="127.0.0.1", description="address to listen on; loopback unless a proxy stands before it")
    port: int = Field(default=8080, ge=0, le=65_535, description="its port; 0: any free one, printed at the start")
    allowed_hosts: list[str] = Field(
        default=["127.0.0.1", "localhost", "[::1]"],
        description="Host headers that are answered; add the public name behind a proxy",
    )
    cors_origins: list[str] = Field(default_factory=list, description="origins whose pages may call; none by default")
    max_body_bytes: int = Field(default=1_000_000, gt=0, description="larger requests are refused")
    max_upload_bytes: int = Field(default=50_000_000, gt=0, description="likewise for /v1/ingest")
    uploads_dir: str | None = Field(
        default=None,
        description="folder of uploaded documents; unset: in data_dir. Servers and daemons of one ledger share it",
    )
    request_seconds: float = Field(default=120.0, gt=0, description="wall-clock limit of one request")
    concurrency: int = Field(default=64, gt=0, description="requests worked on at a time; more get 503 at once")
    threads: int = Field(default=8, gt=0, description="threads that serve the synchronous core")
    rate_per_minute: float = Field(default=240.0, gt=0, description="requests a key may make in a minute, on average")
    burst: int = Field(default=60, gt=0, description="requests a key may make at once")
    limits_url: SecretStr | None = Field(
        default=None, description="redis:// URL that shares the rate limits between processes; unset: each its own"
    )
    drain_seconds: float = Field(default=20.0, ge=0, description="after SIGTERM, time for running requests to end")
    metrics_key: bool = Field(default=False, description="whether /metrics asks for a key, too")
    console: bool = Field(default=True, description="whether the review console is served at /console")
    mcp: bool = Field(default=True, description="whether MCP is served at /mcp")
    session_secret: SecretStr | None = Field(
        default=None, description="signs logins; several servers share it. Unset: each its own, gone when it ends"
    )
    session_hours: float = Field(default=12.0, gt=0, le=720, description="how long a login of the console lasts")
