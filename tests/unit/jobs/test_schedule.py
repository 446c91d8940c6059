"""What is no schedule is refused in words that name the setting and the way out."""

from __future__ import annotations

import pytest

from jobs.agenda import schedules_of
from jobs.names import JobName
from jobs.schedule import parsed
from kb.errors import ConfigError
from kb.settings_governance import JobsSettings


@pytest.mark.parametrize(
    "text",
    [
        "", "0 3 * * 0", "daily", "daily 24:00", "daily 12:60", "daily 2", "hourly 15", "hourly :60", "every 0m",
        "every 10", "every -5m", "every 1.5h", "weekly 04:00", "monthly 1 04:00", "weekly sun", "every 10m 20m",
    ],
)  # fmt: skip
def test_what_is_no_schedule_is_refused_and_the_setting_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"jobs\.prune is ") as refused:
        parsed(text, setting="jobs.prune")
    assert "weekly sun 04:00" in refused.value.hint


@pytest.mark.parametrize("text", ["weekly 0 04:00", "weekly 7 04:00", "weekly so 04:00", "weekly sund 04:00"])
def test_a_weekday_is_a_name(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parsed(text, setting="jobs.prune")
    assert "mon tue wed thu fri sat sun" in refused.value.hint


def test_the_default_settings_schedule_every_job() -> None:
    schedules = schedules_of(JobsSettings())
    assert set(schedules) == set(JobName)
    assert not any(schedule.is_off for schedule in schedules.values())


def test_a_wrong_setting_is_named_with_its_key() -> None:
    with pytest.raises(ConfigError, match=r"jobs\.verify_index is 'now and then'"):
        schedules_of(JobsSettings(verify_index="now and then"))
