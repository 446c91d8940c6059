"""Laws of withdrawal: without a witness a memory stands as if it had never spoken, or lower, never higher."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governance.policy import policy_of
from governance.withdrawal import Before, unheard
from kb.evidence_rules import applied
from kb.history import EVIDENCE_WEIGHT, EvidenceEvent, EvidenceKind, told_by
from kb.model import DocumentId, Kind, Memory, MemoryId, SourceClass, Standing
from kb.settings import Settings
from kb.trust import DAY_MS, effective, prior, renewed
from tests.stores import T0

if TYPE_CHECKING:
    from collections.abc import Sequence

POLICY = policy_of(Settings(), "default")
KINDS = (
    (EvidenceKind.AGREEMENT, 1),
    (EvidenceKind.CONTRADICTION, -1),
    (EvidenceKind.CHECK, 1),
    (EvidenceKind.CHECK, -1),
    (EvidenceKind.FEEDBACK, 1),
    (EvidenceKind.FEEDBACK, -1),
)


@st.composite
def histories(draw: st.DrawFn, *, least: int = 1, most: int = 7) -> tuple[list[EvidenceEvent], set[int]]:
    """Return events, oldest first, and the places of those that are taken back: at least one."""
    ats = sorted(draw(st.lists(st.integers(0, 60 * DAY_MS), min_size=least, max_size=most)))
    events = []
    for n, at in enumerate(ats):
        kind, sign = draw(st.sampled_from(KINDS))
        weight = sign * EVIDENCE_WEIGHT[kind]
        events.append(
            EvidenceEvent(
                memory_id=MemoryId("m"), tenant="default", kind=kind, weight=weight, witness=f"w{n}", at=T0 + at
            )
        )
    return events, draw(st.sets(st.integers(0, len(events) - 1), min_size=1))


def a_memory(source_class: SourceClass, confidence: float | None = None, doc: str | None = None) -> Memory:
    own = POLICY.trust[source_class]
    own = own if confidence is None else replace(own, confidence=confidence)
    return Memory(
        id=MemoryId("m"),
        tenant="default",
        kind=Kind.DOCUMENT if doc else Kind.WEB,
        source_class=source_class,
        source="file://docs/a.md" if doc else "https://a.example/",
        text="A bridge carries forty tons.",
        doc_id=DocumentId(doc) if doc else None,
        trust=prior(own, T0),
        standing=Standing.ACTIVE,
        created_at=T0,
        updated_at=T0,
        valid_from=T0,
    )


def heard(memory: Memory, events: Sequence[EvidenceEvent], syncs: Sequence[int] = ()) -> Memory:
    """Return the memory after events, those of one instant at once, and renewals in between."""
    told: list[EvidenceEvent] = []
    half_life = POLICY.trust[memory.source_class].half_life
    for at in sorted({*(e.at for e in events), *syncs}):
        if at in syncs:
            memory = replace(memory, trust=renewed(memory.trust, at, half_life))
        now = [e for e in events if e.at == at]
        memory = applied(memory, now, policy=POLICY.trust[memory.source_class], now=at, history=told)
        told += now
    return memory


def close(one: Memory, other: Memory) -> bool:
    """Return whether two memories stand alike, but for what a float cannot hold."""
    a, b = one.trust, other.trust
    is_same = a.confidence == pytest.approx(b.confidence, rel=1e-6, abs=1e-7) and abs(a.anchor - b.anchor) <= 1
    return is_same and a.strength == pytest.approx(b.strength) and a.verified == b.verified


@given(story=histories(), source_class=st.sampled_from([SourceClass.WEB, SourceClass.AGENT, SourceClass.PERSON]))
def test_what_no_sync_renews_stands_as_if_the_witness_had_never_spoken(
    story: tuple[list[EvidenceEvent], set[int]], source_class: SourceClass
) -> None:
    events, places = story
    fresh = a_memory(source_class)
    gone, kept = [events[n] for n in sorted(places)], [e for n, e in enumerate(events) if n not in places]
    after = heard(fresh, events)
    if not 0.0 < after.trust.confidence < 1.0 or after.trust.strength >= 20:
        return
    assert close(unheard(after, events, gone, POLICY, Before()), heard(fresh, kept))


@given(at=st.integers(0, 40 * DAY_MS), kind=st.sampled_from(KINDS[:4]), confidence=st.sampled_from([None, 0.31, 0.77]))
def test_one_witness_that_is_taken_back_leaves_no_trace_at_all(
    at: int, kind: tuple[EvidenceKind, int], confidence: float | None
) -> None:
    event = EvidenceEvent(
        memory_id=MemoryId("m"),
        tenant="default",
        kind=kind[0],
        weight=kind[1] * EVIDENCE_WEIGHT[kind[0]],
        witness="forged.example",
        at=T0 + at,
    )
    fresh = a_memory(SourceClass.WEB, confidence)
    back = unheard(heard(fresh, [event]), [event], [event], POLICY, Before())
    assert close(back, fresh)
    assert abs(back.trust.birth - fresh.trust.birth) <= 2


@given(
    at=st.integers(1, 9 * DAY_MS),
    sync=st.integers(0, 9 * DAY_MS),
    later=st.integers(0, 9 * DAY_MS),
    kind=st.sampled_from(KINDS[:4]),
)
def test_a_document_s_passage_gets_back_what_a_sync_would_have_renewed(
    at: int, sync: int, later: int, kind: tuple[EvidenceKind, int]
) -> None:
    fresh = a_memory(SourceClass.DOCUMENT, doc="d")
    event = EvidenceEvent(
        memory_id=MemoryId("m"), tenant="default", kind=kind[0], weight=kind[1] * EVIDENCE_WEIGHT[kind[0]],
        witness="forged.example", at=T0 + sync + at,
    )  # fmt: skip
    syncs = [T0 + sync, T0 + sync + at + later] if later else [T0 + sync]
    back = unheard(heard(fresh, [event], syncs), [event], [event], POLICY, Before())
    assert close(back, heard(fresh, [], syncs))


@given(story=histories(least=2), syncs=st.lists(st.integers(0, 70 * DAY_MS), max_size=3))
def test_support_that_is_taken_back_never_leaves_more_than_had_it_never_been(
    story: tuple[list[EvidenceEvent], set[int]], syncs: list[int]
) -> None:
    """Where a sync came in between and nobody knows, the least that fits is taken."""
    events, places = story
    fresh, renewals = a_memory(SourceClass.DOCUMENT, doc="d"), [T0 + s for s in syncs]
    gone, kept = [events[n] for n in sorted(places)], [e for n, e in enumerate(events) if n not in places]
    after = heard(fresh, events, renewals)
    if not 0.0 < after.trust.confidence < 1.0 or any(e.weight < 0 for e in gone):
        return
    back, never = unheard(after, events, gone, POLICY, Before()), heard(fresh, kept, renewals)
    half_life, now = POLICY.trust[SourceClass.DOCUMENT].half_life, T0 + 80 * DAY_MS
    assert effective(back.trust, now, half_life) <= effective(never.trust, now, half_life) + 1e-6


def test_what_forged_contradictions_had_quarantined_comes_back() -> None:
    fresh = a_memory(SourceClass.PERSON, 0.5)
    events = [
        EvidenceEvent(
            memory_id=MemoryId("m"), tenant="default", kind=EvidenceKind.CONTRADICTION, weight=-1.0,
            witness=f"forged{n}.example", reason=told_by(f"w{n}", EvidenceKind.CONTRADICTION), at=T0 + n,
        )
        for n in range(3)
    ]  # fmt: skip
    after = heard(fresh, events)
    assert after.standing is Standing.QUARANTINED
    back = unheard(after, events, events, POLICY, Before())
    assert (back.standing, back.standing_reason) == (Standing.ACTIVE, "")
    assert close(back, fresh)
    assert unheard(after, events, events[:1], POLICY, Before()).standing is heard(fresh, events[1:]).standing


def test_a_person_s_word_outlives_a_forged_witness() -> None:
    event = EvidenceEvent(
        memory_id=MemoryId("m"), tenant="default", kind=EvidenceKind.AGREEMENT, weight=1.0, witness="f", at=T0 + 1
    )
    vouched = replace(event, kind=EvidenceKind.VERIFICATION, weight=0.0, witness="ann", at=T0 + 2)
    after = heard(a_memory(SourceClass.WEB), [event])
    trust = replace(after.trust, confidence=0.95, anchor=T0 + 180 * DAY_MS, verified=True, verified_at=T0 + 2)
    back = unheard(replace(after, trust=trust), [event, vouched], [event], POLICY, Before())
    assert (back.trust.confidence, back.trust.verified, back.trust.anchor) == (0.95, True, trust.anchor)


@pytest.mark.parametrize("kind", [EvidenceKind.AGREEMENT, EvidenceKind.CONTRADICTION])
@pytest.mark.parametrize("id_", ["m1", "a memory says otherwise", "x\ny", "页"])
def test_a_teller_is_known_again_by_its_reason(kind: EvidenceKind, id_: str) -> None:
    event = EvidenceEvent(
        memory_id=MemoryId("h"), tenant="default", kind=kind, weight=1.0, witness="r", reason=told_by(id_, kind)
    )
    assert event.teller == id_
    assert replace(event, kind=EvidenceKind.CHECK).teller is None


def test_what_its_document_has_left_meanwhile_is_not_current_again_without_what_contradicted_it() -> None:
    said = [
        EvidenceEvent(
            memory_id=MemoryId("m"), tenant="default", kind=EvidenceKind.CONTRADICTION, weight=-1.0, witness=w, at=T0
        )
        for w in ("one", "two", "three")
    ]
    doubted = replace(
        a_memory(SourceClass.DOCUMENT, 0.3, "d"),
        standing=Standing.QUARANTINED,
        standing_reason="contradicted: confidence 0.20, 3 more events against it than for it",
        valid_to=T0 + DAY_MS,
    )
    after = unheard(doubted, said, said, POLICY, Before(standing=Standing.ACTIVE))
    assert (after.standing, after.valid_to) == (Standing.SUPERSEDED, T0 + DAY_MS)
    assert after.standing_reason
