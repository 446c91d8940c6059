"""What moves confidence: verified, independent witnesses and feedback on what supported an answer; nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.evidence import Conflict, Evidence, Origin, Side
from crag_runtime.evidence_rules import applied, corroboration, feedback_events
from kb.errors import InputError
from kb.history import AnswerId, AnswerRecord, CitedMemory, EvidenceEvent, EvidenceKind
from kb.model import Kind, Memory, MemoryId, SourceClass, Standing
from kb.trust import DAY_MS, TrustPolicy, effective, prior

NOW = 1_800_000_000_000
POLICY = TrustPolicy(confidence=0.8)
ANSWER = AnswerId("answer")


@dataclass(frozen=True)
class Same:
    ids: tuple[str, ...]
    value: str = "1932"


def piece(id_: str, root: str, *, verified: bool = False, origin: Origin = Origin.MEMORY, **more: object) -> Evidence:
    return Evidence(id=id_, origin=origin, text="", root=root, verified=verified, **more)


def conflict(*sides: tuple[str, ...]) -> Conflict:
    made = tuple(Side(value=str(n), ids=ids, quote="", source="") for n, ids in enumerate(sides))
    return Conflict(sub=0, kind="number", sides=made)


def events_of(*evidence: Evidence, agreements=(), conflicts=(), ancestors=None) -> list[tuple[str, str, float, str]]:
    events = corroboration(
        agreements,
        conflicts,
        evidence={e.id: e for e in evidence},
        ancestors=ancestors or {},
        answer_id=ANSWER,
        tenant="t",
        now=NOW,
    )
    assert all((e.answer_id, e.tenant, e.at) == (ANSWER, "t", NOW) for e in events)
    return [(e.memory_id, e.kind.value, e.weight, e.witness) for e in events]


TRUSTED = piece("v", "docs", verified=True)
WEB = piece("w", "a.example", origin=Origin.WEB, source_class=SourceClass.WEB)
NOTE = piece("n", "note:agent/x/", source_class=SourceClass.AGENT)


def test_an_independent_verified_memory_corroborates_what_says_the_same():
    found = events_of(TRUSTED, WEB, NOTE, agreements=[Same(("v", "w", "n"))])
    assert found == [("n", "agreement", 1.0, "docs"), ("w", "agreement", 1.0, "docs")]


def test_and_contradicts_what_says_otherwise_and_loses_nothing_by_it():
    assert events_of(TRUSTED, WEB, conflicts=[conflict(("v",), ("w",))]) == [("w", "contradiction", -1.0, "docs")]
    other = piece("u", "manuals", verified=True)
    assert events_of(TRUSTED, other, conflicts=[conflict(("v",), ("u",))]) == []


def test_those_on_one_side_of_a_conflict_agree_with_each_other():
    found = events_of(TRUSTED, WEB, NOTE, conflicts=[conflict(("v", "w"), ("n",))])
    assert found == [("n", "contradiction", -1.0, "docs"), ("w", "agreement", 1.0, "docs")]


@pytest.mark.parametrize(
    "witness",
    [
        replace(TRUSTED, verified=False),
        replace(TRUSTED, origin=Origin.WEB),
        replace(TRUSTED, source_class=SourceClass.ANSWER),
        replace(TRUSTED, root="a.example"),
        replace(TRUSTED, root=""),
    ],
    ids=["unverified", "the web", "an answer", "same root", "no root"],
)
def test_nobody_else_witnesses_anything(witness):
    for given_ in ({"agreements": [Same(("v", "w"))]}, {"conflicts": [conflict(("v",), ("w",))]}):
        assert events_of(witness, WEB, **given_) == []


@pytest.mark.parametrize("ancestors", [{"w": {"v"}}, {"v": {"w"}}, {"v": {"x"}, "w": {"x"}}])
def test_an_echo_corroborates_nothing(ancestors):
    frozen = {id_: frozenset(ids) for id_, ids in ancestors.items()}
    assert events_of(TRUSTED, WEB, agreements=[Same(("v", "w"))], ancestors=frozen) == []


def test_one_root_is_one_witness_however_often_it_speaks():
    again = piece("v2", "docs", verified=True)
    other = piece("u", "manuals", verified=True)
    found = events_of(TRUSTED, again, other, WEB, agreements=[Same(("v", "v2", "u", "w")), Same(("v", "w"))])
    assert found == [("w", "agreement", 1.0, "docs"), ("w", "agreement", 1.0, "manuals")]


def test_who_gives_both_values_is_neither_contradicted_nor_contradicts():
    assert [
        e for e in events_of(TRUSTED, WEB, conflicts=[conflict(("v", "w"), ("w",))]) if e[1] == "contradiction"
    ] == []


def test_an_answer_is_never_corroborated_and_unknown_ids_are_left_out():
    answer = replace(WEB, source_class=SourceClass.ANSWER)
    assert (
        events_of(TRUSTED, answer, agreements=[Same(("v", "w", "gone"))], conflicts=[conflict(("gone",), ("v",))]) == []
    )


def cited(id_: str, *, supports: bool = True) -> CitedMemory:
    return CitedMemory(memory_id=MemoryId(id_), rev=1, source="file://docs/a", supports=supports)


RECORD = AnswerRecord(
    id=ANSWER,
    tenant="t",
    question="q",
    text="a",
    outcome="conflict",
    verdict="correct",
    citations=(cited("a"), cited("b", supports=False), cited("c"), cited("a")),
)


@pytest.mark.parametrize(("is_good", "weight"), [(True, 0.5), (False, -0.5)])
def test_feedback_credits_only_cited_memories_that_support_the_answer(is_good, weight):
    events = feedback_events(RECORD, is_good=is_good, by="ada", now=NOW)
    assert [(e.memory_id, e.weight) for e in events] == [("a", weight), ("c", weight)]
    assert {(e.witness, e.kind, e.tenant) for e in events} == {("feedback:answer:ada", EvidenceKind.FEEDBACK, "t")}


def test_feedback_on_one_memory_credits_that_one():
    assert [e.memory_id for e in feedback_events(RECORD, is_good=True, only=MemoryId("c"), now=NOW)] == ["c"]


@pytest.mark.parametrize("only", ["b", "never cited"])
def test_feedback_on_a_memory_that_does_not_support_the_answer_is_refused(only):
    with pytest.raises(InputError):
        feedback_events(RECORD, is_good=True, only=MemoryId(only), now=NOW)


def test_an_answer_without_support_gives_no_events():
    assert feedback_events(replace(RECORD, citations=()), is_good=False, now=NOW) == ()


def memory_of(confidence: float = 0.8, *, verified: bool = False, standing: Standing = Standing.ACTIVE) -> Memory:
    trust = prior(replace(POLICY, confidence=confidence, verified=verified), NOW)
    return Memory(
        id=MemoryId("m"),
        tenant="t",
        kind=Kind.DOCUMENT,
        source_class=SourceClass.DOCUMENT,
        source="file://docs/a",
        text="x",
        trust=trust,
        standing=standing,
    )


def said(weight: float, witness: str, kind: EvidenceKind = EvidenceKind.FEEDBACK, id_: str = "m") -> EvidenceEvent:
    return EvidenceEvent(memory_id=MemoryId(id_), tenant="t", kind=kind, weight=weight, witness=witness, at=NOW)


def test_evidence_moves_confidence_by_its_weight_and_makes_a_new_revision():
    changed = applied(memory_of(), [said(0.5, "x")], policy=POLICY, now=NOW + DAY_MS)
    c = effective(memory_of().trust, NOW + DAY_MS, POLICY.half_life)
    assert changed.trust.confidence == pytest.approx((4 * c + 0.5) / 4.5)
    assert (changed.rev, changed.updated_at, changed.standing) == (2, NOW + DAY_MS, Standing.ACTIVE)


@pytest.mark.parametrize(
    "events",
    [[], [said(-0.5, "x", id_="other")], [said(0.0, "x", EvidenceKind.REJECTION)], [said(-0.5, "told")]],
    ids=["none", "another's", "decisive", "counted before"],
)
def test_nothing_new_changes_nothing(events):
    memory = memory_of()
    assert applied(memory, events, policy=POLICY, now=NOW, history=[said(0.5, "told")]) is memory


def test_one_witness_counts_once():
    twice = applied(memory_of(), [said(-0.5, "x"), said(-0.5, "x")], policy=POLICY, now=NOW)
    assert twice == applied(memory_of(), [said(-0.5, "x")], policy=POLICY, now=NOW)


@given(confidence=st.floats(0, 1), weight=st.sampled_from([-0.5, -1.0, -2.0]))
def test_one_negative_never_quarantines(confidence, weight):
    changed = applied(memory_of(confidence), [said(weight, "x")], policy=POLICY, now=NOW)
    assert changed.standing is Standing.ACTIVE


def test_two_net_negatives_quarantine_what_has_fallen_below_the_line_and_only_that():
    low, high = memory_of(0.4), memory_of(0.9)
    history = [said(-0.5, "earlier")]
    now_two = [said(-1.0, "docs", EvidenceKind.CONTRADICTION)]
    doomed = applied(low, now_two, policy=POLICY, now=NOW, history=history)
    assert doomed.standing is Standing.QUARANTINED
    assert "2 more events against" in doomed.standing_reason
    assert applied(high, now_two, policy=POLICY, now=NOW, history=history).standing is Standing.ACTIVE
    balanced = [*history, said(0.5, "friend")]
    assert applied(low, now_two, policy=POLICY, now=NOW, history=balanced).standing is Standing.ACTIVE


@pytest.mark.parametrize("standing", [s for s in Standing if s is not Standing.ACTIVE])
def test_evidence_changes_no_other_standing(standing):
    memory = memory_of(0.3, standing=standing)
    for events in ([said(-1.0, "x"), said(-1.0, "y")], [said(2.0, "x"), said(2.0, "y")]):
        assert applied(memory, events, policy=POLICY, now=NOW).standing is standing


def test_what_a_person_vouched_for_stays_verified_and_is_not_quarantined_by_events():
    memory = memory_of(0.3, verified=True)
    changed = applied(memory, [said(-1.0, f"w{n}") for n in range(9)], policy=POLICY, now=NOW)
    assert changed.trust.verified
    assert changed.trust.verified_at == memory.trust.verified_at
    assert changed.standing is Standing.ACTIVE
    assert changed.trust.confidence < 0.35


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.5, 1.0]), min_size=1, max_size=6), st.randoms())
def test_the_order_of_one_instant_s_events_does_not_matter(weights, random):
    events = [said(w, f"w{n}") for n, w in enumerate(weights)]
    shuffled = random.sample(events, len(events))
    one, other = (applied(memory_of(), e, policy=POLICY, now=NOW) for e in (events, shuffled))
    assert one.trust.confidence == pytest.approx(other.trust.confidence)
    assert one.standing is other.standing
