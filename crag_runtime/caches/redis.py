"""Grades kept in Redis, shared by machines. A server that is away acts as an empty cache, after one short wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from crag_runtime.breaker import Breaker, BreakerPolicy
from crag_runtime.caches.names import entry_name, memory_name, packed, unpacked
from kb.errors import ConfigError
from kb.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from crag_runtime.ports import GradeKey
    from kb.ports import Clock

    T = TypeVar("T")

WAIT_SECONDS = 0.25
PAUSE = 10_000  # milliseconds without a call after a failure
_ENTRY = "kb:grade:"
_MEMORY = "kb:graded:"  # sorted set of a memory's entries by when they expire, so that a purge needs no scan
_BATCH = 500  # names in one command


class RedisCache:
    """Implements `crag_runtime.ports.GradeCache`.

    Args:
        url: redis://, rediss:// or unix://; nothing is connected before the first call.
        ttl_seconds: how long an entry is kept; positive. The server drops it by itself.
        clock: the time.
        wait_seconds: for a connection, and for an answer.

    Raises:
        ConfigError: the URL is none.
    """

    def __init__(self, url: str, *, ttl_seconds: float, clock: Clock, wait_seconds: float = WAIT_SECONDS) -> None:
        self._ttl = max(1, round(ttl_seconds * 1000))
        self._clock = clock
        self._breaker = Breaker(BreakerPolicy(failures=1, cooldown=PAUSE))
        try:
            self._client = redis.Redis.from_url(
                url,
                socket_timeout=wait_seconds,
                socket_connect_timeout=wait_seconds,
                retry=Retry(NoBackoff(), 0),  # the client's own would multiply the wait
            )
        except ValueError:
            raise ConfigError("[ask] grade_cache is no valid redis URL") from None  # it may hold a password

    def get(self, keys: Sequence[GradeKey]) -> dict[GradeKey, str]:
        """Return what is there and not expired."""
        by_name = {_ENTRY + entry_name(key): key for key in keys}
        if not by_name:
            return {}
        now = self._clock.now()
        rows: dict[str, bytes] = self._tried(lambda client: _read(client, list(by_name)), {})
        found = {by_name[name]: _opened(data, now) for name, data in rows.items()}
        return {key: value for key, value in found.items() if value is not None}

    def put(self, entries: Mapping[GradeKey, str]) -> None:
        """Keep entries for the time to live."""
        if entries:
            now = self._clock.now()
            self._tried(lambda client: self._write(client, entries, now), None)

    def purge(self, tenant: str, memory_ids: Sequence[str]) -> int:
        """Forget these memories; return how many entries went."""
        names = [_MEMORY + memory_name(tenant, id_) for id_ in set(memory_ids)]
        return self._tried(lambda client: sum(_forget(client, name) for name in names), 0) if names else 0

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    def _write(self, client: redis.Redis, entries: Mapping[GradeKey, str], now: int) -> None:
        expires = now + self._ttl
        with client.pipeline(transaction=True) as pipe:  # an entry without its place in the set could not be purged
            for key, value in entries.items():
                name, memory = _ENTRY + entry_name(key), _MEMORY + memory_name(key.tenant, key.memory_id)
                pipe.set(name, b"%d:%b" % (expires, packed(value)), px=self._ttl)
                pipe.zadd(memory, {name: expires})
                pipe.zremrangebyscore(memory, "-inf", now)
                pipe.pexpire(memory, self._ttl)
            pipe.execute()

    def _tried(self, work: Callable[[redis.Redis], T], otherwise: T) -> T:
        if not self._breaker.allows(self._clock.now()):
            return otherwise
        try:
            done = work(self._client)
        except (redis.RedisError, OSError) as error:
            self._breaker.failed(self._clock.now())
            get_logger().warning("grade_cache_failed", reason=type(error).__name__)
            return otherwise
        self._breaker.succeeded()
        return done


def _read(client: redis.Redis, names: list[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for at in range(0, len(names), _BATCH):
        batch = names[at : at + _BATCH]
        values = client.mget(batch)
        found.update((n, v) for n, v in zip(batch, values, strict=True) if isinstance(v, bytes))
    return found


def _forget(client: redis.Redis, memory: str) -> int:
    """Delete a memory's entries. Those that others add meanwhile stay, and stay in the set."""
    total = 0
    while names := [n for n in client.zrange(memory, 0, _BATCH - 1) if isinstance(n, bytes)]:
        with client.pipeline(transaction=True) as pipe:
            pipe.unlink(*names)
            pipe.zrem(memory, *names)
            total += int(pipe.execute()[0])
    return total


def _opened(data: bytes, now: int) -> str | None:
    """Return the value of an entry; None when it has expired or is not ours."""
    expires, colon, value = data.partition(b":")
    return unpacked(value) if colon and expires.isdigit() and int(expires) > now else None
