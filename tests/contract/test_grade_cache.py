"""The contract of `GradeCache`, held by all three caches; Redis is a real server that the session owns."""

from __future__ import annotations

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crag_runtime.caches import open_cache
from crag_runtime.caches.in_process import InProcessCache
from crag_runtime.caches.redis import PAUSE, WAIT_SECONDS, RedisCache
from crag_runtime.caches.sqlite import SqliteCache
from crag_runtime.ports import GradeKey
from kb.errors import ConfigError
from kb.settings import AskSettings, Settings
from tests.stores import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crag_runtime.ports import GradeCache

TTL = 3600.0
KEY = GradeKey(tenant="acme", question="q1", memory_id="m1", rev=1, evaluator="reader/e5/1")
OTHERS = [
    replace(KEY, tenant="other"),
    replace(KEY, question="q2"),
    replace(KEY, memory_id="m2"),
    replace(KEY, rev=2),
    replace(KEY, evaluator="reader/e5/2"),
]
keys = st.builds(
    GradeKey,
    tenant=st.sampled_from(["a", "b", "a:b", ""]),
    question=st.text(max_size=4),
    memory_id=st.sampled_from(["m", "n", "*", "m:n", "\0"]),
    rev=st.integers(0, 2),
    evaluator=st.sampled_from(["e", "f"]),
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def cache(request, tmp_path, clock) -> Iterator[GradeCache]:
    if request.param == "redis":
        yield redis_cache(request.getfixturevalue("redis_server").url, clock)
        return
    ask = AskSettings(grade_cache=request.param, grade_ttl_seconds=TTL)
    opened = open_cache(Settings(data_dir=tmp_path / "kb", ask=ask), clock)
    yield opened
    opened.close()


def test_what_was_put_is_got_and_nothing_else(cache):
    assert cache.get([KEY, *OTHERS]) == {}
    cache.put({KEY: "one", OTHERS[0]: "two"})
    assert cache.get([KEY, *OTHERS, KEY]) == {KEY: "one", OTHERS[0]: "two"}
    assert cache.get([]) == {}
    cache.put({})


@pytest.mark.parametrize("other", OTHERS, ids=["tenant", "question", "memory", "rev", "evaluator"])
def test_a_key_that_differs_in_any_part_never_hits(cache, other):
    cache.put({KEY: "one"})
    assert cache.get([other]) == {}


def test_a_later_value_replaces_an_earlier_one(cache):
    cache.put({KEY: "one"})
    cache.put({KEY: "two"})
    assert cache.get([KEY]) == {KEY: "two"}


def test_an_entry_is_gone_when_its_time_has_come_and_not_before(cache, clock):
    cache.put({KEY: "one"})
    clock.advance(round(TTL * 1000) - 1)
    assert cache.get([KEY]) == {KEY: "one"}
    clock.advance(1)
    assert cache.get([KEY]) == {}


def test_putting_again_renews_an_entry(cache, clock):
    cache.put({KEY: "one"})
    clock.advance(round(TTL * 600))
    cache.put({KEY: "two"})
    clock.advance(round(TTL * 600))
    assert cache.get([KEY]) == {KEY: "two"}


def test_a_purge_forgets_exactly_these_memories_whatever_was_asked_of_them(cache):
    cache.put(dict.fromkeys([KEY, *OTHERS], "v"))
    assert cache.purge("acme", ["m1", "unknown", "m1"]) == 4
    assert cache.get([KEY, *OTHERS]) == {OTHERS[0]: "v", OTHERS[2]: "v"}
    assert cache.purge("acme", ["m1"]) == 0
    assert cache.purge("acme", []) == 0


def test_many_entries_are_put_got_and_purged_at_once(cache):
    many = {replace(KEY, question=str(n)): f"value {n}" for n in range(1234)}
    cache.put(many)
    assert cache.get(list(many)) == many
    assert cache.purge("acme", ["m1"]) == 1234
    assert cache.get(list(many)) == {}


@given(values=st.dictionaries(keys, st.text(alphabet=st.characters(), max_size=30), max_size=6), doomed=keys)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_survives_and_a_purge_crosses_no_tenant_and_no_memory(cache, values, doomed):
    for tenant in ("a", "b", "a:b", ""):
        cache.purge(tenant, ["m", "n", "*", "m:n", "\0"])
    cache.put(values)
    assert cache.get(list(values)) == values
    gone = [k for k in values if (k.tenant, k.memory_id) == (doomed.tenant, doomed.memory_id)]
    assert cache.purge(doomed.tenant, [doomed.memory_id]) == len(gone)
    assert cache.get(list(values)) == {k: v for k, v in values.items() if k not in gone}


def test_eight_threads_at_once_see_only_whole_values_of_their_own_keys(cache):
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for turn in range(30):
            mine = replace(KEY, tenant=f"t{number % 4}", question=f"{number}", memory_id=f"m{turn % 3}")
            cache.put({mine: f"{number} {turn % 3}"})
            assert cache.get([mine]).get(mine, f"{number} {turn % 3}") == f"{number} {turn % 3}"
            if turn % 10 == 9:
                cache.purge(f"t{number % 4}", ["m0"])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    left = [replace(KEY, tenant=f"t{n % 4}", question=f"{n}", memory_id="m1") for n in range(8)]
    assert cache.get(left) == {key: f"{key.question} 1" for key in left}


def test_closing_twice_is_no_error(cache):
    cache.put({KEY: "one"})
    cache.close()
    cache.close()


def test_the_setting_says_which_cache(tmp_path, clock):
    def opened(chosen: str) -> GradeCache | None:
        return open_cache(Settings(data_dir=tmp_path, ask=AskSettings(grade_cache=chosen)), clock)

    assert opened("none") is None
    assert isinstance(opened("memory"), InProcessCache)
    assert isinstance(opened("sqlite"), SqliteCache)
    assert isinstance(opened("redis://127.0.0.1:1/0"), RedisCache)  # connects to nothing yet
    assert list(tmp_path.iterdir()) == []
    for wrong in ("memcached", "redis", "redis://:secret@host:port/0"):
        with pytest.raises(ConfigError) as caught:
            opened(wrong)
        assert "secret" not in str(caught.value)


def test_in_process_the_least_recently_used_go_first(clock):
    cache = InProcessCache(ttl_seconds=TTL, clock=clock, limit=3)
    made = [replace(KEY, question=str(n)) for n in range(4)]
    cache.put(dict.fromkeys(made[:3], "v"))
    cache.get([made[0]])
    cache.put({made[3]: "v"})
    assert set(cache.get(made)) == {made[0], made[2], made[3]}


def sqlite_cache(path, clock, limit=100) -> SqliteCache:
    return SqliteCache(path, ttl_seconds=TTL, clock=clock, limit=limit)


def test_a_file_outlives_its_process(tmp_path, clock):
    path = tmp_path / "deep" / "grades.sqlite"
    first = sqlite_cache(path, clock)
    first.put({KEY: "one"})
    first.close()
    assert sqlite_cache(path, clock).get([KEY]) == {KEY: "one"}


def test_two_processes_share_a_file(tmp_path, clock):
    one, other = (sqlite_cache(tmp_path / "grades.sqlite", clock) for _ in range(2))
    one.put({KEY: "one"})
    assert other.get([KEY]) == {KEY: "one"}
    assert other.purge("acme", ["m1"]) == 1
    assert one.get([KEY]) == {}


@pytest.mark.parametrize("harm", [b"not a database at all " * 400, b"SQLite format 3\0" + b"\xff" * 8000, b"\0" * 5000])
def test_a_damaged_file_is_replaced(tmp_path, clock, harm):
    path = tmp_path / "grades.sqlite"
    path.write_bytes(harm)
    cache = sqlite_cache(path, clock)
    assert cache.get([KEY]) == {}
    cache.put({KEY: "one"})
    assert cache.get([KEY]) == {KEY: "one"}
    cache.close()


def test_a_file_damaged_while_it_is_open_costs_entries_and_no_error(tmp_path, clock):
    path = tmp_path / "grades.sqlite"
    cache = sqlite_cache(path, clock, limit=10_000)
    cache.put({replace(KEY, question=str(n)): "v" * 500 for n in range(500)})
    cache.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (path.stat().st_size - 4096))
    cache.get([replace(KEY, question=str(n)) for n in range(500)])
    cache.put({KEY: "one"})
    assert cache.get([KEY]) == {KEY: "one"}


def test_a_table_of_another_form_is_replaced(tmp_path, clock):
    path = tmp_path / "grades.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE grades (other TEXT)")
    connection.close()
    cache = sqlite_cache(path, clock)
    cache.put({KEY: "one"})
    assert cache.get([KEY]) == {KEY: "one"}


def test_a_place_that_cannot_be_written_acts_as_an_empty_cache(tmp_path, clock):
    (tmp_path / "file").write_text("in the way")
    cache = sqlite_cache(tmp_path / "file" / "grades.sqlite", clock)
    cache.put({KEY: "one"})
    assert cache.get([KEY]) == {}
    assert cache.purge("acme", ["m1"]) == 0


def test_a_file_stays_within_its_limit_and_sheds_what_expired(tmp_path, clock):
    cache = sqlite_cache(tmp_path / "grades.sqlite", clock, limit=100)
    cache.put({replace(KEY, question=f"old {n}"): "v" for n in range(90)})
    clock.advance(1)
    cache.put({replace(KEY, question=f"new {n}"): "v" for n in range(90)})
    with sqlite3.connect(tmp_path / "grades.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM grades").fetchone()[0] == 90
    assert len(cache.get([replace(KEY, question=f"new {n}") for n in range(90)])) == 90
    clock.advance(round(TTL * 1000))
    cache.put({replace(KEY, question=f"last {n}"): "v" for n in range(70)})
    assert connection.execute("SELECT count(*) FROM grades").fetchone()[0] == 70
    connection.close()


def redis_cache(url: str, clock) -> RedisCache:
    return RedisCache(url, ttl_seconds=TTL, clock=clock, wait_seconds=20.0)  # a busy machine is no absent server


def test_in_redis_no_question_stands_in_a_key_and_nothing_stays_for_ever(redis_server, clock):
    cache = redis_cache(redis_server.url, clock)
    cache.put({replace(KEY, tenant="private tenant", question="private question"): "v"})
    with redis_server.client() as client:
        names = client.keys("*")
        assert len(names) == 2
        assert all(name.startswith(b"kb:") and b"private" not in name for name in names)
        assert all(0 < client.pttl(name) <= TTL * 1000 for name in names)


def test_in_redis_a_memory_s_set_sheds_expired_entries(redis_server, clock):
    cache = redis_cache(redis_server.url, clock)
    cache.put({KEY: "one"})
    clock.advance(round(TTL * 1000))
    cache.put({OTHERS[1]: "two"})
    with redis_server.client() as client:
        (place,) = client.keys("kb:graded:*")
        assert client.zcard(place) == 1


def test_a_redis_that_is_away_acts_as_empty_and_is_asked_again_after_the_pause(own_redis, clock):
    cache = redis_cache(own_redis.url, clock)
    cache.put({KEY: "one"})
    assert cache.get([KEY]) == {}
    assert cache.purge("acme", ["m1"]) == 0
    own_redis.start()
    assert cache.get([KEY]) == {}
    cache.put({KEY: "one"})
    with own_redis.client() as client:
        assert client.dbsize() == 0  # still pausing: nobody was asked
    clock.advance(PAUSE)
    cache.put({KEY: "one"})
    assert cache.get([KEY]) == {KEY: "one"}
    own_redis.stop()
    assert cache.get([KEY]) == {}
    own_redis.start()
    clock.advance(PAUSE)
    cache.put({KEY: "two"})
    assert cache.get([KEY]) == {KEY: "two"}
    cache.close()


def test_a_redis_that_hangs_costs_one_short_wait_a_pause(own_redis, clock):
    own_redis.start()
    before = redis_cache(own_redis.url, clock)
    before.put({KEY: "one"})
    hasty = RedisCache(own_redis.url, ttl_seconds=TTL, clock=clock)
    own_redis.pause()
    began = time.monotonic()
    assert all(hasty.get([KEY]) == {} for _ in range(80))
    assert time.monotonic() - began < 40 * WAIT_SECONDS
    own_redis.resume()
    assert before.get([KEY]) == {KEY: "one"}
    before.close()
    hasty.close()


def test_foreign_values_under_our_names_are_no_hits(redis_server, clock):
    cache = redis_cache(redis_server.url, clock)
    cache.put({KEY: "one"})
    with redis_server.client() as client:
        for name in client.keys("kb:grade:*"):
            client.set(name, b"\xff\xfe")
        assert cache.get([KEY]) == {}
        for name in client.keys("*"):
            client.delete(name)
            client.lpush(name, "a list")
    assert cache.get([KEY]) == {}
    cache.put({KEY: "one"})
    assert cache.purge("acme", ["m1"]) == 0
