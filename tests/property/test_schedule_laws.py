"""Laws of schedules: slots are exact multiples, without gaps, the same for everybody, whatever the clock does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.schedule import DAY, HOUR, MINUTE, OFF, SECOND, WEEK, Schedule, parsed
from jobs.turn import Deed, Rules, look_at, turn_of
from kb.ledger.slots import Slot, SlotStatus

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
INSTANTS = st.integers(min_value=WEEK, max_value=4_102_444_800_000)  # to the year 2100
RULES = Rules(attempts=3, backoff=60 * SECOND, misfire=WEEK)

TIMES = st.tuples(st.integers(0, 23), st.integers(0, 59))
TEXTS = st.one_of(
    st.integers(0, 59).map(lambda m: f"hourly :{m:02}"),
    TIMES.map(lambda t: f"daily {t[0]:02}:{t[1]:02}"),
    st.tuples(st.sampled_from(DAYS), TIMES).map(lambda w: f"weekly {w[0]} {w[1][0]:02}:{w[1][1]:02}"),
    st.tuples(st.integers(1, 500), st.sampled_from("smhd")).map(lambda e: f"every {e[0]}{e[1]}"),
)
SCHEDULES = TEXTS.map(lambda text: parsed(text, setting="jobs.test"))


def utc(instant: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant)


def instant(*date: int) -> int:
    return round(datetime(*date, tzinfo=UTC).timestamp() * 1000)  # type: ignore[arg-type,misc] # of a calendar


def taken(slot: int, status: SlotStatus = SlotStatus.DONE, **changes: object) -> Slot:
    given = {"job": "prune", "slot": slot, "status": status, "started_at": slot, "finished_at": slot, "attempts": 1}
    return Slot(**{**given, **changes})  # type: ignore[arg-type]


@given(SCHEDULES, INSTANTS)
def test_slots_are_exact_multiples_of_the_period(schedule: Schedule, at: int) -> None:
    latest, after = schedule.latest(at), schedule.after(at)
    assert after is not None
    assert (after - schedule.phase) % schedule.period == 0
    if latest is not None:
        assert (latest - schedule.phase) % schedule.period == 0
        assert latest <= at < after == latest + schedule.period


@given(SCHEDULES, INSTANTS, INSTANTS)
def test_slots_never_go_back_while_time_goes_on(schedule: Schedule, one: int, other: int) -> None:
    sooner, later = sorted((one, other))
    assert (schedule.latest(sooner) or 0) <= (schedule.latest(later) or 0)
    assert schedule.after(sooner) <= schedule.after(later)  # type: ignore[operator] # the job is on


@given(SCHEDULES, INSTANTS)
def test_a_slot_is_its_own_latest_and_the_next_one_comes_after_it(schedule: Schedule, at: int) -> None:
    slot = schedule.after(at)
    assert slot is not None
    assert schedule.latest(slot) == slot
    assert schedule.after(slot) == slot + schedule.period


@given(TIMES, INSTANTS)
def test_a_daily_slot_is_at_that_time_of_every_day_also_where_clocks_are_put_forward(
    time: tuple[int, int], at: int
) -> None:
    schedule = parsed(f"daily {time[0]}:{time[1]:02}", setting="jobs.test")
    slots = [schedule.after(at + n * DAY) for n in range(400)]
    assert {(utc(s).hour, utc(s).minute, utc(s).second) for s in slots if s} == {(*time, 0)}
    assert all(b - a == DAY for a, b in pairwise(slots))  # type: ignore[operator]


@given(st.sampled_from(DAYS), TIMES, INSTANTS)
def test_a_weekly_slot_is_on_the_named_day(day: str, time: tuple[int, int], at: int) -> None:
    slot = parsed(f"weekly {day} {time[0]}:{time[1]:02}", setting="jobs.test").after(at)
    assert slot is not None
    assert utc(slot).strftime("%a %H:%M").lower() == f"{day} {time[0]:02}:{time[1]:02}"


def test_leap_days_are_days() -> None:
    daily = parsed("daily 02:00", setting="jobs.sync")
    assert utc(daily.after(instant(2028, 2, 28, 12)) or 0) == datetime(2028, 2, 29, 2, tzinfo=UTC)
    assert utc(daily.after(instant(2028, 2, 29, 12)) or 0) == datetime(2028, 3, 1, 2, tzinfo=UTC)
    assert utc(daily.after(instant(2100, 2, 28, 12)) or 0) == datetime(2100, 3, 1, 2, tzinfo=UTC)
    weekly = parsed("weekly tue 00:00", setting="jobs.prune")
    assert utc(weekly.latest(instant(2028, 2, 29, 23, 59)) or 0) == datetime(2028, 2, 29, tzinfo=UTC)


@given(SCHEDULES, INSTANTS, st.integers(1, 1000))
def test_of_many_missed_slots_one_is_caught_up_and_it_is_the_latest(schedule: Schedule, at: int, missed: int) -> None:
    last = schedule.latest(at)
    if last is None:
        return
    now = at + missed * schedule.period
    due = schedule.due(now, last=last, misfire=10**15)
    assert due == schedule.latest(now)
    assert schedule.due(now, last=due, misfire=10**15) is None


def test_after_three_days_away_an_hourly_job_runs_once() -> None:
    hourly = parsed("hourly :15", setting="jobs.reconcile")
    done = instant(2026, 3, 27, 10, 15)
    back = instant(2026, 3, 30, 9, 40)
    turn = turn_of(hourly, back, taken(done), RULES)
    assert turn is not None
    assert (utc(turn.slot), turn.deed) == (datetime(2026, 3, 30, 9, 15, tzinfo=UTC), Deed.BEGIN)
    assert turn_of(hourly, back + MINUTE, taken(turn.slot), RULES) is None


@given(SCHEDULES, st.lists(st.tuples(INSTANTS, st.booleans()), max_size=30))
def test_no_slot_runs_twice_however_the_clock_jumps(schedule: Schedule, looks: list[tuple[int, bool]]) -> None:
    done: list[int] = []
    for now, _ in looks:
        known = max((s for s in done if s <= now), default=None)
        turn = turn_of(schedule, now, None if known is None else taken(known), RULES)
        if turn is not None:
            assert turn.slot not in done
            assert turn.slot <= now
            done.append(turn.slot)


def test_a_clock_that_was_a_year_ahead_does_not_silence_a_job_for_a_year() -> None:
    daily = parsed("daily 02:00", setting="jobs.sync")
    now = instant(2026, 5, 1, 12)
    before = taken(instant(2026, 4, 30, 2))  # what the ledger says of instants up to now
    assert turn_of(daily, now, before, RULES) is not None


@given(SCHEDULES, INSTANTS)
def test_what_is_too_late_is_passed_over(schedule: Schedule, at: int) -> None:
    latest = schedule.latest(at)
    if latest is not None and latest != at:
        assert schedule.due(at, last=None, misfire=at - latest) == latest
        assert schedule.due(at, last=None, misfire=at - latest - 1) is None


@given(SCHEDULES, INSTANTS, st.integers(1, 3), st.sampled_from([SlotStatus.FAILED, SlotStatus.RUNNING]))
def test_a_job_is_never_looked_at_too_late(schedule: Schedule, at: int, attempts: int, status: SlotStatus) -> None:
    slot = schedule.latest(at)
    if slot is None:
        return
    known = taken(slot, status, attempts=attempts, finished_at=at if status is SlotStatus.FAILED else None)
    if turn_of(schedule, at, known, RULES) is not None:
        return
    again = look_at(schedule, at, known, RULES)
    assert again is not None
    assert turn_of(schedule, again, known, Rules(attempts=3, backoff=60 * SECOND, misfire=10**15)) is not None
    assert turn_of(schedule, again - 1, known, RULES) is None


@given(st.integers(-2 * HOUR, 2 * HOUR), st.integers(0, HOUR), st.integers(1, 2))
def test_no_clock_however_wrong_delays_a_repetition_by_more_than_a_second_wait(
    off: int, backoff: int, attempts: int
) -> None:
    rules = Rules(attempts=3, backoff=backoff, misfire=WEEK)
    weekly = parsed("weekly sun 04:00", setting="jobs.prune")
    slot = weekly.after(instant(2026, 5, 1)) or 0
    finished = slot + DAY
    known = taken(slot, SlotStatus.FAILED, attempts=attempts, finished_at=finished)
    waits = range(0, 2 * rules.wait(attempts) + MINUTE, MINUTE)
    first = next((w for w in waits if turn_of(weekly, finished + off + w, known, rules)), None)
    assert first is not None
    if -rules.wait(attempts) <= off <= 0:
        assert first >= rules.wait(attempts)


@pytest.mark.parametrize(
    ("text", "period", "phase"),
    [
        ("hourly :15", HOUR, 15 * MINUTE),
        ("Daily  2:00", DAY, 2 * HOUR),
        ("weekly thu 00:00", WEEK, 0),
        ("weekly Sunday 04:00", WEEK, 3 * DAY + 4 * HOUR),
        ("every 10m", 10 * MINUTE, 0),
        ("every 2 s", 2 * SECOND, 0),
    ],
)
def test_a_schedule_reads_as_it_is_written(text: str, period: int, phase: int) -> None:
    schedule = parsed(text, setting="jobs.test")
    assert (schedule.period, schedule.phase) == (period, phase)


@given(INSTANTS)
def test_a_job_that_is_off_has_no_slots(at: int) -> None:
    assert (OFF.latest(at), OFF.after(at), OFF.due(at, last=None, misfire=WEEK)) == (None, None, None)
    assert turn_of(OFF, at, taken(at, SlotStatus.RUNNING), RULES) is None
