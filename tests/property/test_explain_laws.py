"""What is foretold of a memory comes true at that millisecond and not before: gate, end of a hold, prune."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from governance.decide import falls_at, lines_of
from governance.explain import explained
from kb.ledger.governed import governed_row
from kb.model import SourceClass, Standing
from kb.trust import DAY_MS, effective, passes
from tests.governing import a_policy, governed
from tests.stores import T0

if TYPE_CHECKING:
    from governance.policy import Policy
    from kb.model import Memory

CLASSES = st.sampled_from([SourceClass.CURATED, SourceClass.DOCUMENT, SourceClass.PERSON, SourceClass.AGENT])


@st.composite
def cases(draw: st.DrawFn) -> tuple[Memory, Policy]:
    policy = a_policy(
        half_life=draw(st.sampled_from([1.0, 10.0, 30.0])), prune_after=draw(st.sampled_from([0.0, 14.0]))
    )
    memory = governed(
        "m",
        draw(CLASSES),
        policy=policy,
        confidence=draw(st.floats(0.01, 1.0)),
        age=draw(st.floats(0, 60)),
        anchor=T0 + round(draw(st.floats(-60, 180)) * DAY_MS),
        verified=draw(st.booleans()),
        pinned=draw(st.sampled_from([False, False, True])),
        standing=draw(st.sampled_from([Standing.ACTIVE, Standing.ACTIVE, Standing.QUARANTINED])),
    )
    return memory, policy


def foretold(memory: Memory, policy: Policy, now: int = T0) -> dict[str, int]:
    return {c.what: c.at for c in explained(memory, policy, now).crossings}


@given(cases())
def test_a_memory_leaves_the_gate_at_the_millisecond_that_is_foretold(case: tuple[Memory, Policy]) -> None:
    memory, policy = case
    half_life = policy.trust[memory.source_class].half_life
    is_in = memory.standing is Standing.ACTIVE and passes(memory.trust, policy.gate, T0, half_life)
    at = foretold(memory, policy).get("leaves_gate")
    assert (at is not None) is is_in, "whoever passes is told until when, and nobody else"
    if at is not None:
        assert explained(memory, policy, at - 1).passes_gate
        assert not explained(memory, policy, at).passes_gate


@given(cases())
def test_a_hold_ends_when_that_is_foretold_and_confidence_falls_from_then_on(case: tuple[Memory, Policy]) -> None:
    memory, policy = case
    half_life = policy.trust[memory.source_class].half_life
    at = foretold(memory, policy).get("hold_ends")
    assert at == (memory.trust.anchor if memory.trust.anchor > T0 else None)
    if at is not None:
        assert math.isclose(explained(memory, policy, at).effective, memory.trust.confidence, rel_tol=1e-6)
        after = at + round(half_life)
        assert explained(memory, policy, after).effective == effective(memory.trust, after, half_life)
        assert explained(memory, policy, after).effective < 0.51 * memory.trust.confidence


@given(cases())
def test_a_prune_is_foretold_for_the_first_instant_at_which_it_is_due(case: tuple[Memory, Policy]) -> None:
    memory, policy = case
    lines = lines_of(policy)[memory.source_class]
    due = falls_at(governed_row(memory), lines)
    assert foretold(memory, policy).get("prune") == (None if due is None else max(due, T0))
    if due is not None and due > T0:
        before, then = (effective(memory.trust, at, lines.half_life) for at in (due - 1, due))
        is_old = memory.created_at + lines.prune_after
        assert then < lines.prune_below * (1 + 1e-9)
        assert before >= lines.prune_below * (1 - 1e-6) or due == is_old, "not a millisecond before"
