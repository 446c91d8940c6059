"""How often a key may call: token buckets, in this process or shared through Redis; and how much is worked on."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kb.log import get_logger
from kb.telemetry import Metric, count

if TYPE_CHECKING:
    from collections.abc import Callable

    from kb.settings_serving import ServeSettings

KEPT = 10_000  # buckets in memory; those that are full again are forgotten first
PATIENCE_S = 0.25  # for Redis; then the limit is this process's own
AWAY_S = 2.0  # how long it is not asked again
PREFIX = "kb:rate:"

# One round trip, atomic: refill by Redis' own clock, take one if there is one, forget the bucket once it is full.
_TAKE = """
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local now = redis.call('TIME')
local at = tonumber(now[1]) + tonumber(now[2]) / 1000000
local kept = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, before = tonumber(kept[1]) or burst, tonumber(kept[2]) or at
tokens = math.min(burst, tokens + math.max(0, at - before) * rate)
local taken = 0
if tokens >= 1 then tokens = tokens - 1; taken = 1 end
redis.call('HSET', KEYS[1], 'tokens', tostring(tokens), 'at', tostring(at))
redis.call('PEXPIRE', KEYS[1], math.ceil((burst - tokens) / rate * 1000) + 1000)
return {taken, tostring(tokens)}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What a bucket holds and how fast it fills.

    Args:
        per_second: tokens that come back in a second.
        burst: tokens of a full bucket.
    """

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Whether a request is allowed, and what is left.

    Args:
        is_given: it is.
        tokens: left in the bucket, in [0, burst].
        rate: of the bucket.
    """

    is_given: bool
    tokens: float
    rate: Rate

    @property
    def wait(self) -> float:
        """Seconds until the next request is allowed."""
        return max(0.0, (1.0 - self.tokens) / self.rate.per_second)

    def headers(self) -> dict[str, str]:
        """Return what a caller is told of it."""
        return {
            "RateLimit-Limit": str(self.rate.burst),
            "RateLimit-Remaining": str(math.floor(self.tokens)),
            "RateLimit-Reset": str(math.ceil((self.rate.burst - self.tokens) / self.rate.per_second)),
        }


def taken(tokens: float, seconds: float, rate: Rate) -> Allowance:
    """Take a token out of a bucket that held `tokens` so many seconds ago. Pure."""
    filled = min(float(rate.burst), tokens + max(0.0, seconds) * rate.per_second)
    if filled < 1.0:
        return Allowance(is_given=False, tokens=filled, rate=rate)
    return Allowance(is_given=True, tokens=filled - 1.0, rate=rate)


class Buckets(Protocol):
    """Buckets by name."""

    async def take(self, name: str) -> Allowance:
        """Take a token out of a bucket; one that is not known is full."""

    async def aclose(self) -> None:
        """Free what they hold."""


class OwnBuckets:
    """Buckets of this process.

    Args:
        rate: of each.
        clock: tells seconds.
        kept: most that are remembered.
    """

    def __init__(self, rate: Rate, *, clock: Callable[[], float] = time.monotonic, kept: int = KEPT) -> None:
        self._rate = rate
        self._clock = clock
        self._kept = kept
        self._buckets: dict[str, tuple[float, float]] = {}

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._buckets)

    async def take(self, name: str) -> Allowance:
        """See `Buckets`."""
        now = self._clock()
        tokens, at = self._buckets.pop(name, (float(self._rate.burst), now))
        allowance = taken(tokens, now - at, self._rate)
        if len(self._buckets) >= self._kept:
            self._forget(now)
        self._buckets[name] = (allowance.tokens, now)  # last in order: the first is the one used longest ago
        return allowance

    async def aclose(self) -> None:
        """See `Buckets`."""

    def _forget(self, now: float) -> None:
        """Forget what is full again; where that makes no room, who has not called for longest."""
        whole = self._rate.burst / self._rate.per_second
        for name in [name for name, (_, at) in self._buckets.items() if now - at >= whole]:
            del self._buckets[name]
        while len(self._buckets) >= self._kept:
            del self._buckets[next(iter(self._buckets))]


class SharedBuckets:
    """Buckets in Redis, so that processes share them. While it is away each process goes by its own.

    Args:
        url: redis://, rediss:// or unix://.
        own: what is gone by meanwhile.
        rate: of each bucket.
        clock: tells seconds.
        patience: seconds that a connection, and a reply, may take.
    """

    def __init__(
        self,
        url: str,
        own: OwnBuckets,
        *,
        rate: Rate,
        clock: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE_S,
    ) -> None:
        from redis import RedisError  # noqa: PLC0415 - only where it is asked for
        from redis.asyncio import Redis  # noqa: PLC0415

        self._client: Redis = Redis.from_url(url, socket_timeout=patience, socket_connect_timeout=patience)
        self._script: Any = self._client.register_script(_TAKE)
        self._failures = (RedisError, OSError, TimeoutError)
        self._own = own
        self._rate = rate
        self._clock = clock
        self._patience = patience
        self._away_until = 0.0

    async def take(self, name: str) -> Allowance:
        """See `Buckets`."""
        if self._clock() < self._away_until:
            return await self._taken_here(name)
        # A name is an address or a key's id: what stands in Redis is neither.
        key = PREFIX + hashlib.sha256(name.encode()).hexdigest()[:32]
        try:
            async with asyncio.timeout(2 * self._patience):
                given, tokens = await self._script(keys=[key], args=[self._rate.per_second, self._rate.burst])
        except self._failures as error:
            self._away_until = self._clock() + AWAY_S
            get_logger().warning("shared_limits_away", problem=type(error).__name__)
            return await self._taken_here(name)
        return Allowance(is_given=bool(given), tokens=float(tokens), rate=self._rate)

    async def aclose(self) -> None:
        """See `Buckets`."""
        with contextlib.suppress(*self._failures):
            await self._client.aclose()

    async def _taken_here(self, name: str) -> Allowance:
        count(Metric.RATE_LIMITS_OWN)
        return await self._own.take(name)


def opened_buckets(serve: ServeSettings) -> Buckets:
    """Return the buckets that the settings ask for."""
    rate = Rate(per_second=serve.rate_per_minute / 60, burst=serve.burst)
    own = OwnBuckets(rate)
    if serve.limits_url is None:
        return own
    return SharedBuckets(serve.limits_url.get_secret_value(), own, rate=rate)


class Running:
    """How many requests are worked on. Belongs to one event loop.

    Args:
        most: at a time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._number = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        """Return how many there are."""
        return self._number

    def enter(self) -> bool:
        """Begin one; False when there are as many as may be."""
        if self._number >= self._most:
            return False
        self._number += 1
        self._idle.clear()
        return True

    def leave(self) -> None:
        """End one."""
        self._number -= 1
        if self._number == 0:
            self._idle.set()

    async def idle(self, seconds: float) -> bool:
        """Wait until none is left, at most so long; return whether none is."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), seconds)
        return self._number == 0
