"""Token buckets: never more than the burst and the rate allow, never less, and no more memory than was promised."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.limits import AWAY_S, OwnBuckets, Rate, Running, SharedBuckets, taken

RATE = Rate(per_second=2.0, burst=5)
seconds = st.floats(0, 10_000, allow_nan=False)


class Ticking:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


@given(tokens=st.floats(0, 5), passed=seconds)
def test_a_bucket_never_holds_more_than_its_burst_nor_less_than_nothing(tokens, passed):
    allowance = taken(tokens, passed, RATE)
    assert 0 <= allowance.tokens <= RATE.burst
    assert allowance.is_given == (min(RATE.burst, tokens + passed * RATE.per_second) >= 1)


@given(gaps=st.lists(st.floats(0, 3), max_size=60))
def test_over_any_span_no_more_is_given_than_the_burst_and_the_rate(gaps):
    clock = Ticking()
    buckets = OwnBuckets(RATE, clock=clock)

    async def calls() -> int:
        given = 0
        for gap in gaps:
            clock.at += gap
            given += (await buckets.take("key")).is_given
        return given

    assert asyncio.run(calls()) <= RATE.burst + RATE.per_second * sum(gaps) + 1e-6


def test_who_is_told_to_wait_is_let_in_after_that_time():
    clock = Ticking()
    buckets = OwnBuckets(RATE, clock=clock)

    async def story() -> None:
        for _ in range(RATE.burst):
            assert (await buckets.take("key")).is_given
        refused = await buckets.take("key")
        assert not refused.is_given
        assert refused.headers() == {"RateLimit-Limit": "5", "RateLimit-Remaining": "0", "RateLimit-Reset": "3"}
        clock.at += refused.wait
        assert (await buckets.take("key")).is_given
        assert (await buckets.take("another")).tokens == RATE.burst - 1

    asyncio.run(story())


@given(names=st.lists(st.integers(0, 40).map(str), max_size=200))
def test_no_more_buckets_are_remembered_than_promised(names):
    buckets = OwnBuckets(RATE, clock=Ticking(), kept=10)

    async def story() -> None:
        for name in names:
            await buckets.take(name)
            assert len(buckets) <= 10

    asyncio.run(story())


def test_who_called_most_lately_is_not_forgotten_for_others():
    buckets = OwnBuckets(RATE, clock=Ticking(), kept=3)

    async def story() -> None:
        for name in ("steady", "a", "steady", "b", "c", "steady"):
            last = await buckets.take(name)
        assert last.tokens == RATE.burst - 3

    asyncio.run(story())


def shared(url: str, clock: Ticking | None = None) -> SharedBuckets:
    given = {} if clock is None else {"clock": clock}
    return SharedBuckets(url, OwnBuckets(RATE, **given), rate=RATE, **given)


def test_processes_share_what_redis_keeps(redis_server):
    slow = Rate(per_second=0.001, burst=5)

    async def story() -> None:
        one, other = (SharedBuckets(redis_server.url, OwnBuckets(slow), rate=slow, patience=30) for _ in range(2))
        taken_ = await asyncio.gather(*(buckets.take("key") for _ in range(20) for buckets in (one, other)))
        assert sum(each.is_given for each in taken_) == slow.burst
        assert (await other.take("another")).is_given
        await one.aclose()
        await other.aclose()

    asyncio.run(story())
    with redis_server.client() as client:
        assert not [key for key in client.scan_iter() if b"another" in key]  # names are not kept in the open
        assert all(client.pttl(key) > 0 for key in client.scan_iter())


@pytest.mark.parametrize("way", ["gone", "silent"])
def test_without_redis_each_process_goes_by_its_own_limit(own_redis, way):
    clock = Ticking()

    async def story() -> None:
        own_redis.start()
        buckets = shared(own_redis.url, clock)
        assert (await buckets.take("key")).is_given
        own_redis.stop() if way == "gone" else own_redis.pause()
        taken_ = [(await buckets.take("key")).is_given for _ in range(RATE.burst + 3)]
        assert sum(taken_) == RATE.burst  # limited, and let in
        own_redis.start() if way == "gone" else own_redis.resume()
        clock.at += AWAY_S
        assert (await buckets.take("other")).tokens == RATE.burst - 1
        await buckets.aclose()

    asyncio.run(story())


def test_no_more_is_worked_on_than_may_be_and_its_end_is_heard():
    async def story() -> None:
        running = Running(2)
        assert await running.idle(0)
        assert [running.enter(), running.enter(), running.enter()] == [True, True, False]
        assert not await running.idle(0.01)
        running.leave()
        waiting = asyncio.create_task(running.idle(10))
        assert running.enter()
        running.leave()
        running.leave()
        assert await waiting
        assert len(running) == 0

    asyncio.run(story())
