"""The laws of what time does to one memory: exact at the boundary, on fixed steps, whoever looks and whenever."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from governance.decide import decayed, faded_cut, fades_after, falls_at, lines_of, pruned, shown_target
from kb.ledger.governed import GovernedRow, governed_row
from kb.model import SourceClass, Standing
from kb.sweeps import ActionKind
from kb.trust import DAY_MS, effective, trusted
from tests.governing import a_policy, governed, policies, stored
from tests.stores import T0

getcontext().prec = 60
confidences = st.floats(0.001, 1.0)
half_lives = st.sampled_from([0.25, 1.0, 7.0, 30.0, 3650.0])
ages = st.floats(0, 400)


def exactly(birth: int, now: int, half_life: float) -> Decimal:
    """Return 2^(−(now − birth)/H) to 60 digits."""
    return Decimal(2) ** (-Decimal(now - birth) / Decimal(half_life))


@given(confidences, confidences, half_lives)
def test_the_line_is_crossed_at_the_exact_millisecond(confidence: float, below: float, days: float) -> None:
    assume(confidence > below)
    h = days * DAY_MS
    trust = trusted(confidence, T0, h)
    first = trust.birth + fades_after(below, h)
    for now in (first - 1, first, first + 1):
        assert (exactly(trust.birth, now, h) < Decimal(below)) == (now >= first)
        assert (trust.birth < faded_cut(below, now, h)) == (now >= first)


@pytest.mark.parametrize("source_class", [c for c in SourceClass if c is not SourceClass.ANSWER])
def test_the_default_prune_is_due_at_the_instant_the_formula_says(source_class: SourceClass) -> None:
    policy = a_policy()
    row = governed_row(governed("a", source_class, policy=policy, verified=False))
    lines = lines_of(policy)[source_class]
    due = falls_at(row, lines)
    assert due is not None
    c0 = policy.trust[source_class].confidence
    assert abs(due - (T0 + 30 * DAY_MS * math.log2(c0 / 0.2))) <= 2
    assert pruned([row], {source_class: lines}, due - 1, live=0) == []
    assert [a.kind for a in pruned([row], {source_class: lines}, due, live=0)] == [ActionKind.RETIRE]


@given(confidences, half_lives)
def test_what_is_believed_halves_at_the_half_life_and_composes(confidence: float, days: float) -> None:
    h = days * DAY_MS
    trust = trusted(confidence, T0, h)
    half = effective(trust, T0 + round(h), h)
    assert math.isclose(half, confidence / 2, rel_tol=1e-6)
    assert math.isclose(effective(trusted(half, T0 + round(h), h), T0 + 2 * round(h), h), half / 2, rel_tol=1e-6)


@given(confidences, half_lives, ages, st.floats(0, 1))
def test_shown_is_lowered_only_when_off_by_more_than_a_twentieth_and_is_never_raised(
    confidence: float, days: float, age: float, shown: float
) -> None:
    row, lines, now = a_row(confidence, days, shown=min(shown, confidence)), lines_at(days), T0 + round(age * DAY_MS)
    action = decayed(row, lines, now)
    believed = effective(trusted(confidence, T0, lines.half_life), now, lines.half_life)
    if action is None:
        assert believed >= row.shown / 1000 - 0.05 - 1e-9
        return
    said = float(action.detail["confidence"])  # type: ignore[arg-type]
    assert believed < row.shown / 1000 - 0.05 + 1e-9
    assert said < row.shown / 1000
    assert believed - 1e-9 <= said <= believed + 0.05 + 1e-9


@given(confidences, half_lives, ages, ages)
def test_what_is_shown_in_the_end_does_not_depend_on_earlier_sweeps(
    confidence: float, days: float, one: float, other: float
) -> None:
    h = days * DAY_MS
    row, early, late = a_row(confidence, days), *sorted((T0 + round(one * DAY_MS), T0 + round(other * DAY_MS)))
    between = row._replace(shown=shown_target(row, h, early))
    assert shown_target(between, h, late) == shown_target(row, h, late)
    assert shown_target(between, h, early) == between.shown


@given(half_lives, st.integers(1, 19), st.sampled_from([-1, 0, 1]))
def test_at_a_step_the_shown_confidence_agrees_with_the_birth_to_the_millisecond(
    days: float, step: int, off: int
) -> None:
    h = days * DAY_MS
    row = a_row(1.0, days)
    now = row.birth + fades_after(step / 20, h) + off
    level = shown_target(row, h, now)
    expected = 50 * (step if off >= 0 else step + 1)
    assert level == (1000 if expected >= 950 and off < 0 and step == 19 else expected)


@given(st.data())
def test_a_reader_that_filters_by_what_is_shown_gets_what_passes_a_gate_on_a_step(data: st.DataObject) -> None:
    policy = data.draw(policies())
    now = T0 + round(data.draw(ages) * DAY_MS)
    for memory in data.draw(stored(policy)):
        row, own = governed_row(memory), lines_of(policy)[memory.source_class]
        level = shown_target(row, own.half_life, now)
        if level % 50 == 0 and level < row.shown:
            for gate in (500, 700, 850):
                believed = effective(memory.trust, now, own.half_life)
                assert (level > gate) == (believed >= gate / 1000) or abs(believed - gate / 1000) < 1e-9


@given(st.data())
def test_whatever_decides_is_the_same_twice_and_leaves_the_verified_pinned_and_contested(data: st.DataObject) -> None:
    policy, now = data.draw(policies()), T0 + round(data.draw(ages) * DAY_MS)
    lines = lines_of(policy)
    for memory in data.draw(stored(policy)):
        row = governed_row(memory)
        actions = pruned([row], lines, now, live=0)
        assert actions == pruned([row], lines, now, live=0)
        if actions:
            assert not any((memory.trust.verified, memory.pinned, memory.contested))
            assert memory.standing in (Standing.ACTIVE, Standing.QUARANTINED)
            rules = policy.rules[memory.source_class]
            assert effective(memory.trust, now, policy.trust[memory.source_class].half_life) < rules.prune_below
            assert now - memory.created_at >= rules.prune_after


def a_row(confidence: float, days: float, **changes: Any) -> GovernedRow:
    return governed_row(governed("a", policy=a_policy(half_life=days), confidence=confidence, **changes))


def lines_at(days: float) -> Any:
    return lines_of(a_policy(half_life=days))[SourceClass.DOCUMENT]
