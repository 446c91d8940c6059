"""Caches of grades behind the port `crag_runtime.ports.GradeCache`; which one is the settings' choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.errors import ConfigError

if TYPE_CHECKING:
    from crag_runtime.ports import GradeCache
    from kb.ports import Clock
    from kb.settings import Settings

_REDIS = ("redis://", "rediss://", "unix://")


def open_cache(settings: Settings, clock: Clock) -> GradeCache | None:
    """Return the configured grade cache; None when there is none. Nothing is opened before it is first used.

    Raises:
        ConfigError: `ask.grade_cache` is neither memory, sqlite, none nor a redis URL.
    """
    chosen, ttl = settings.ask.grade_cache.strip(), settings.ask.grade_ttl_seconds
    if chosen == "none":
        return None
    if chosen == "memory":
        from crag_runtime.caches.in_process import InProcessCache  # noqa: PLC0415 - only what is chosen is loaded

        return InProcessCache(ttl_seconds=ttl, clock=clock)
    if chosen == "sqlite":
        from crag_runtime.caches.sqlite import FILE, SqliteCache  # noqa: PLC0415 - likewise

        return SqliteCache(settings.data_dir / FILE, ttl_seconds=ttl, clock=clock)
    if chosen.startswith(_REDIS):
        from crag_runtime.caches.redis import RedisCache  # noqa: PLC0415 - likewise

        return RedisCache(chosen, ttl_seconds=ttl, clock=clock)
    raise ConfigError("[ask] grade_cache must be memory, sqlite, none, or a redis:// URL")
