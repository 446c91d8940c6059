"""When a slot is tried again: after a wait that doubles, at once when only its holder died, never once settled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.schedule import HOUR, SECOND, parsed
from jobs.turn import LONGEST_WAIT, STOPS, Deed, Outcome, Rules, tries_of, turn_of
from kb.ledger.slots import Slot, SlotStatus

RULES = Rules(attempts=3, backoff=60 * SECOND, misfire=6 * HOUR)
DAILY = parsed("daily 02:00", setting="jobs.sync")
SLOT = DAILY.latest(1_800_000_000_000) or 0
ENDED = SLOT + 10 * SECOND


def failed(attempts: int = 1, outcome: Outcome = Outcome.FAILED) -> Slot:
    return Slot(
        job="sync",
        slot=SLOT,
        status=SlotStatus.FAILED,
        attempts=attempts,
        started_at=SLOT,
        finished_at=ENDED,
        report={"outcome": outcome.value},
    )


def running(attempts: int = 1) -> Slot:
    return Slot(job="sync", slot=SLOT, attempts=attempts, started_at=SLOT)


def deed(taken: Slot, at: int) -> Deed | None:
    turn = turn_of(DAILY, at, taken, RULES)
    assert turn is None or turn.slot == SLOT
    return None if turn is None else turn.deed


@pytest.mark.parametrize(("attempts", "wait"), [(1, 60), (2, 120)])
def test_a_failed_slot_is_repeated_after_a_wait_that_doubles(attempts: int, wait: int) -> None:
    assert deed(failed(attempts), ENDED + wait * SECOND - 1) is None
    assert deed(failed(attempts), ENDED + wait * SECOND) is Deed.REPEAT


def test_after_the_last_attempt_a_slot_is_left_alone() -> None:
    assert deed(failed(3), ENDED + HOUR) is None


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.PARTIAL, Outcome.INTERRUPTED])
def test_what_only_a_person_can_mend_is_not_repeated(outcome: Outcome) -> None:
    assert deed(failed(1, outcome), ENDED + HOUR) is None


def test_what_was_told_to_stop_goes_on_at_once_however_often() -> None:
    assert deed(failed(1, Outcome.STOPPED), ENDED) is Deed.REPEAT
    assert deed(failed(9, Outcome.STOPPED), ENDED) is Deed.REPEAT


def test_a_slot_whose_holder_died_is_taken_again_at_once_but_not_for_ever() -> None:
    assert deed(running(1), SLOT + 1) is Deed.REPEAT
    assert deed(running(2), SLOT + 1) is Deed.REPEAT
    assert deed(running(3), SLOT + 1) is Deed.GIVE_UP


def test_runs_that_were_told_to_stop_count_as_no_attempts() -> None:
    stopped = {"outcome": "failed", STOPS: 9}
    assert deed(replace(failed(10), report=stopped), ENDED + 60 * SECOND) is Deed.REPEAT
    assert deed(replace(failed(10), report=stopped), ENDED + 60 * SECOND - 1) is None
    assert deed(replace(failed(12), report=stopped), ENDED + HOUR) is None
    assert deed(replace(running(11), report=stopped), SLOT + 1) is Deed.REPEAT
    assert deed(replace(running(12), report=stopped), SLOT + 1) is Deed.GIVE_UP


@pytest.mark.parametrize("said", [None, True, "2", -2, 7])
def test_of_a_record_that_was_spoilt_every_run_counts(said: object) -> None:
    assert tries_of(replace(failed(3), report={STOPS: said})) == 3  # type: ignore[dict-item]


def test_a_slot_is_not_repeated_when_it_is_too_late() -> None:
    assert deed(failed(1), SLOT + RULES.misfire) is Deed.REPEAT
    assert deed(failed(1), SLOT + RULES.misfire + 1) is None


def test_a_clock_that_was_set_back_by_more_than_the_wait_delays_no_repetition() -> None:
    late = replace(failed(1), finished_at=SLOT + HOUR)
    assert deed(late, SLOT + HOUR - 60 * SECOND - 1) is Deed.REPEAT
    assert deed(failed(1, Outcome.STOPPED), ENDED - 5 * SECOND) is Deed.REPEAT, "there was none to wait for"


def test_a_replica_whose_clock_is_behind_by_less_than_the_wait_keeps_it() -> None:
    late = replace(failed(1), finished_at=SLOT + HOUR)
    assert deed(late, SLOT + HOUR - 60 * SECOND) is None
    assert deed(late, SLOT + HOUR - 1) is None
    assert deed(late, SLOT + HOUR + 60 * SECOND) is Deed.REPEAT


def test_a_later_slot_comes_before_the_repetition_of_an_earlier_one() -> None:
    at = SLOT + 24 * HOUR
    turn = turn_of(DAILY, at, failed(1), RULES)
    assert turn is not None
    assert (turn.slot, turn.deed) == (at, Deed.BEGIN)


def test_a_schedule_that_was_changed_runs_nothing_for_the_time_before() -> None:
    earlier = parsed("daily 01:00", setting="jobs.sync")
    done = Slot(job="sync", slot=SLOT, status=SlotStatus.DONE, started_at=SLOT, finished_at=ENDED)
    assert turn_of(earlier, SLOT + HOUR, done, RULES) is None


def test_waits_have_an_end() -> None:
    assert Rules(attempts=20, backoff=60 * SECOND, misfire=0).wait(20) == LONGEST_WAIT
