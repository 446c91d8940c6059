"""A circuit breaker: opens after failures in a row, probes once after the cooldown, closes on a success."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.breaker import Breaker, BreakerPolicy, Circuit, CircuitState, admitted, failed, state_of, succeeded

POLICY = BreakerPolicy(failures=3, cooldown=1000)


def opened(at: int = 0) -> Breaker:
    breaker = Breaker(POLICY)
    for _ in range(3):
        assert breaker.allows(at)
        breaker.failed(at)
    return breaker


def test_it_opens_after_failures_in_a_row_only():
    breaker = Breaker(POLICY)
    for _ in range(5):
        breaker.failed(0)
        breaker.failed(0)
        breaker.succeeded()
    assert breaker.state(0) is CircuitState.CLOSED
    assert opened().state(0) is CircuitState.OPEN


def test_while_open_nothing_passes_and_after_the_cooldown_one_probe_does():
    breaker = opened()
    assert not breaker.allows(999)
    assert breaker.state(1000) is CircuitState.HALF_OPEN
    assert [breaker.allows(1000) for _ in range(3)] == [True, False, False]


def test_a_successful_probe_closes_and_a_failed_one_opens_anew():
    breaker = opened()
    assert breaker.allows(1000)
    breaker.failed(1500)
    assert not breaker.allows(2499)
    assert breaker.allows(2500)
    breaker.succeeded()
    assert breaker.state(2500) is CircuitState.CLOSED


def test_a_probe_that_was_cancelled_lets_the_next_call_probe():
    breaker = opened()
    assert breaker.allows(1000)
    breaker.abandoned()
    assert breaker.allows(1001)


def test_a_probe_that_never_reports_is_given_up_after_another_cooldown():
    breaker = opened()
    assert breaker.allows(1000)
    assert not breaker.allows(1999)
    assert breaker.allows(2000)


def test_stragglers_of_before_change_nothing_while_it_is_open():
    breaker = opened(at=0)
    breaker.succeeded()
    breaker.failed(900)
    assert breaker.state(999) is CircuitState.OPEN
    assert breaker.state(1000) is CircuitState.HALF_OPEN


def test_of_many_threads_one_probes():
    breaker = opened()
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: breaker.allows(1000), range(200))) == 1


@given(st.lists(st.tuples(st.sampled_from(["ok", "bad"]), st.integers(0, 1500))), st.integers(1, 4))
def test_no_call_is_let_through_within_the_cooldown_of_the_failure_that_opened_it(calls, failures):
    policy, circuit, now, in_a_row, blocked_until = BreakerPolicy(failures=failures, cooldown=1000), Circuit(), 0, 0, 0
    for outcome, later in calls:
        now += later
        after = admitted(circuit, policy, now)
        assert (after is None) == (now < blocked_until)
        assert (state_of(circuit, policy, now) is CircuitState.OPEN) == (now < blocked_until)
        if after is None:
            continue
        is_ok = outcome == "ok"
        circuit = succeeded(after) if is_ok else failed(after, policy, now)
        in_a_row = 0 if is_ok else in_a_row + 1
        blocked_until = now + 1000 if in_a_row >= failures else 0


@pytest.mark.parametrize("state", CircuitState)
def test_states_are_words(state):
    assert state.value == state
