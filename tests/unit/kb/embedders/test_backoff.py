from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.embedders.backoff import ATTEMPTS, CAP_S, LONGEST_S, pause, retry_after_seconds

NOW = 1_900_000_000.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        (format_datetime(datetime.fromtimestamp(NOW + 40, UTC), usegmt=True), 40.0),
        (format_datetime(datetime.fromtimestamp(NOW - 40, UTC), usegmt=True), 0.0),
        (None, None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(value, NOW) == seconds


@given(st.integers(1, ATTEMPTS - 1), st.floats(0, LONGEST_S))
def test_a_pause_never_undercuts_what_was_asked(attempt: int, asked: float) -> None:
    waited = pause(attempt, asked)
    assert waited is not None
    assert asked <= waited <= max(asked, CAP_S)


def test_pauses_grow_to_a_cap_and_end() -> None:
    pauses = [pause(attempt, None) for attempt in range(1, ATTEMPTS)]
    assert all(p is not None for p in pauses)
    assert pauses == sorted(pauses, key=lambda p: p or 0)
    assert pause(ATTEMPTS, None) is None
    assert pause(1, LONGEST_S + 1) is None
