"""Where the machine stands does not matter: slots, firings and instants are UTC, also across a change of clocks."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from jobs.daemon import SlotTrigger
from jobs.schedule import DAY, HOUR, parsed
from kb.clock import instant, iso

if TYPE_CHECKING:
    from collections.abc import Iterator

ZONES = ("UTC", "EST5EDT,M3.2.0,M11.1.0", "CET-1CEST,M3.5.0,M10.5.0/3", "NPT-5:45", "LINT-14")
CHANGES = ("2026-03-08", "2026-03-29", "2026-10-25", "2026-11-01")  # days on which these put their clocks
NIGHTLY = parsed("daily 02:30", setting="jobs.prune")
WEEKLY = parsed("weekly sun 02:30", setting="jobs.gc")


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    """A machine that stands somewhere else."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield request.param
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def utc(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


@pytest.mark.usefixtures("zone")
def test_a_nightly_slot_comes_once_a_day_where_an_hour_is_missing_or_there_twice() -> None:
    for day in CHANGES:
        midnight = utc(day)
        own = NIGHTLY.latest(midnight + DAY - 1)
        assert own == midnight + 2 * HOUR + HOUR // 2
        seen = {NIGHTLY.latest(midnight + n * HOUR // 4) for n in range(4 * 48)}
        assert sorted(seen) == [own - DAY, own, own + DAY]  # type: ignore[type-var]
        assert NIGHTLY.after(midnight) == own
        assert WEEKLY.latest(midnight + DAY - 1) == own, "each of these days is a Sunday"


@pytest.mark.usefixtures("zone")
def test_the_clockwork_fires_at_the_slot_itself() -> None:
    for day in CHANGES:
        now = datetime.fromtimestamp(utc(day) / 1000, UTC)
        for asked in (now, now.astimezone()):
            fires = SlotTrigger(NIGHTLY).get_next_fire_time(None, asked)
            assert fires is not None
            assert fires.tzinfo is not None
            assert round(fires.timestamp() * 1000) == NIGHTLY.after(utc(day))


@pytest.mark.usefixtures("zone")
def test_what_people_write_without_a_zone_is_utc_and_so_is_what_they_read() -> None:
    for day in CHANGES:
        assert instant(f"{day}T02:30", 0) == utc(f"{day}T02:30")
        assert instant(day, 0) == utc(day)
        assert iso(utc(f"{day}T02:30:00")) == f"{day}T02:30:00Z"
    assert instant("2026-03-29T02:30+02:00", 0) == utc("2026-03-29T00:30")
