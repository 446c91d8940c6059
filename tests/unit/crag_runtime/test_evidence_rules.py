"""What moves confidence: verified, independent witnesses and feedback on what supported an answer; nothing else.

See `test_testimony` for who may testify and who may be told of.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.evidence import Conflict, Evidence, Origin, Side
from crag_runtime.recording.evidence_rules import HANDED_OVER, Party, corroboration, feedback_events
from kb.errors import InputError
from kb.evidence_rules import applied, changed_by
from kb.history import AnswerId, AnswerRecord, CitedMemory, EvidenceEvent, EvidenceKind
from kb.model import Kind, Memory, MemoryId, Scope, SourceClass, Standing
from kb.trust import DAY_MS, TrustPolicy, effective, prior

NOW = 1_800_000_000_000
POLICY = TrustPolicy(confidence=0.8)
ANSWER = AnswerId("answer")
WORDS = "forty tons"


@dataclass(frozen=True)
class Same:
    ids: tuple[str, ...]
    value: str = "1932"


def piece(id_: str, root: str, *, verified: bool = False, origin: Origin = Origin.MEMORY, **more: object) -> Evidence:
    return Evidence(id=id_, origin=origin, text="", root=root, verified=verified, **more)


def conflict(*sides: tuple[str, ...], kind: str = "number") -> Conflict:
    made = tuple(Side(value=WORDS, ids=ids, quote=WORDS, source="") for ids in sides)
    return Conflict(sub=0, kind=kind, sides=made)


def party(evidence: Evidence) -> Party:
    """Return the part of a piece of evidence that nothing speaks against but what it says itself."""
    is_answer = evidence.source_class is SourceClass.ANSWER
    testifies = evidence.verified and evidence.origin is Origin.MEMORY and not is_answer
    hears = not evidence.verified and not is_answer
    return Party(evidence=evidence, scope=Scope(), can_testify=testifies, can_hear=hears)


def events_of(*evidence: Evidence, agreements=(), conflicts=(), ancestors=None) -> list[tuple[str, str, float, str]]:
    events = corroboration(
        agreements,
        conflicts,
        parties={e.id: party(e) for e in evidence},
        ancestors=ancestors or {},
        answer_id=ANSWER,
        tenant="t",
        now=NOW,
    )
    assert all((e.answer_id, e.tenant, e.at) == (ANSWER, "t", NOW) for e in events)
    assert all(WORDS not in e.reason for e in events)  # an event outlives the memory that it is about
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


@pytest.mark.parametrize(
    ("kind", "contradicts"),
    [("number", True), ("date", True), ("version", True), ("negation", True), ("name", False), ("other", False)],
)
def test_names_that_differ_contradict_nobody_but_those_on_one_side_agree(kind, contradicts):
    found = events_of(TRUSTED, WEB, NOTE, conflicts=[conflict(("v", "w"), ("n",), kind=kind)])
    assert ("w", "agreement", 1.0, "docs") in found
    assert (("n", "contradiction", -1.0, "docs") in found) is contradicts


@given(st.randoms())
def test_the_order_of_what_is_said_does_not_matter(random):
    pieces = [TRUSTED, piece("v2", "docs", verified=True), piece("u", "manuals", verified=True), WEB, NOTE]
    said_ = {"agreements": [Same(("v", "w")), Same(("v2", "w")), Same(("u", "n"))],
             "conflicts": [conflict(("v", "u"), ("n",)), conflict(("v2",), ("w", "n"), kind="date")]}  # fmt: skip

    def told(order):
        return corroboration(
            order(said_["agreements"]), order(said_["conflicts"]), parties={e.id: party(e) for e in order(pieces)},
            ancestors={}, answer_id=ANSWER, tenant="t", now=NOW,
        )  # fmt: skip

    assert told(list) == told(lambda listed: random.sample(listed, len(listed)))


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
    outcome="answered",
    verdict="correct",
    citations=(cited("a"), cited("b", supports=False), cited("c"), cited("a")),
)
SIDES = [{"sub": 0, "kind": "number", "sides": [{"ids": ["a"]}, {"ids": ["b"]}]}]
DISPUTED = replace(RECORD, outcome="conflict", report={"conflicts": SIDES})
HANDED = replace(RECORD, citations=(cited("a", supports=False), cited("b", supports=False)), report={HANDED_OVER: True})


@pytest.mark.parametrize(("is_good", "weight"), [(True, 0.5), (False, -0.5)])
def test_feedback_credits_only_cited_memories_that_support_the_answer(is_good, weight):
    events = feedback_events(RECORD, is_good=is_good, by="ada", now=NOW)
    assert [(e.memory_id, e.weight) for e in events] == [("a", weight), ("c", weight)]
    assert {(e.kind, e.tenant, e.answer_id) for e in events} == {(EvidenceKind.FEEDBACK, "t", ANSWER)}


def witness_of(record: AnswerRecord, by: str = "ada") -> str:
    (witness,) = {e.witness for e in feedback_events(record, is_good=True, by=by, now=NOW)}
    return witness


def test_a_person_s_word_on_one_question_is_one_witness_whatever_the_answer():
    again = replace(RECORD, id=AnswerId("another"), question="Q?", text="b")
    in_thread = replace(again, question="And there?", report={"question": "q"})
    assert witness_of(RECORD) == witness_of(again) == witness_of(in_thread)
    assert witness_of(RECORD).startswith("feedback:ada:")
    assert witness_of(RECORD, by="").startswith("feedback:anonymous:")
    others = [replace(RECORD, question="another"), replace(RECORD, tenant="u")]
    assert (
        len({witness_of(RECORD), *map(witness_of, others), witness_of(RECORD, by="bob"), witness_of(RECORD, "")}) == 5
    )


def test_a_name_too_long_to_be_a_witness_is_the_caller_s_mistake():
    with pytest.raises(InputError, match="128 bytes"):
        feedback_events(RECORD, is_good=True, by="陈" * 43, now=NOW)


@pytest.mark.parametrize("record", [DISPUTED, HANDED], ids=["conflict", "handed over"])
@pytest.mark.parametrize("is_good", [True, False])
def test_an_answer_that_claims_nothing_itself_is_not_credited_as_a_whole(record, is_good):
    with pytest.raises(InputError) as refused:
        feedback_events(record, is_good=is_good, now=NOW)
    assert "--memory" in refused.value.hint
    for id_ in ("a", "b"):
        events = feedback_events(record, is_good=is_good, only=MemoryId(id_), now=NOW)
        assert [(e.memory_id, e.weight) for e in events] == [(id_, 0.5 if is_good else -0.5)]
    with pytest.raises(InputError, match="not cited"):
        feedback_events(record, is_good=is_good, only=MemoryId("elsewhere"), now=NOW)


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


def decided(kind: EvidenceKind, at: int) -> EvidenceEvent:
    return replace(said(0.0, "ada", kind), at=at)


VERIFIED, REJECTED = EvidenceKind.VERIFICATION, EvidenceKind.REJECTION


@pytest.mark.parametrize(
    ("history", "is_moved"),
    [
        ([decided(REJECTED, NOW)], False),
        ([decided(VERIFIED, NOW), decided(REJECTED, NOW + 1)], False),
        ([decided(REJECTED, NOW), said(2.0, "x", EvidenceKind.CHECK)], False),
        ([decided(REJECTED, NOW), decided(VERIFIED, NOW)], False),  # the memory is not verified: rejected last
        ([decided(REJECTED, NOW), decided(VERIFIED, NOW + 1)], True),
        ([decided(VERIFIED, NOW)], True),
        ([], True),
    ],
)
@pytest.mark.parametrize("weight", [2.0, -1.0])
def test_a_rejection_is_final_until_somebody_verifies(history, is_moved, weight):
    memory = memory_of(0.4, standing=Standing.QUARANTINED)
    changed = applied(memory, [said(weight, "w")], policy=POLICY, now=NOW + 2, history=history)
    assert (changed is not memory) is is_moved


@given(weight=st.sampled_from([-2.0, -0.5, 0.5, 2.0]), days=st.floats(0, 60), later=st.floats(0, 60))
def test_late_evidence_undoes_nothing_that_happened_since(weight, days, later):
    """An anchor is never set before the memory's last change, and the laws hold whenever one looks."""
    renewed = replace(memory_of(), updated_at=NOW + round(days * DAY_MS))
    renewed = replace(renewed, trust=prior(POLICY, renewed.updated_at))
    changed = applied(renewed, [said(weight, "x")], policy=POLICY, now=NOW)
    assert changed.updated_at == renewed.updated_at
    assert changed.trust.anchor >= renewed.trust.anchor
    at = renewed.updated_at + round(later * DAY_MS)
    before, after = (effective(m.trust, at, POLICY.half_life) for m in (renewed, changed))
    assert after >= before - 1e-9 if weight > 0 else after <= before + 1e-9


@given(st.lists(st.sampled_from([-1.0, 0.5]), min_size=1, max_size=6), st.randoms())
def test_what_changes_does_not_depend_on_the_order_of_events(weights, random):
    known = {MemoryId(i): replace(memory_of(), id=MemoryId(i)) for i in "abc"}
    events = [said(w, f"w{n % 4}", id_="abcd"[n % 4]) for n, w in enumerate(weights)]
    policies = {SourceClass.DOCUMENT: POLICY}
    one, other = (changed_by(e, known, {}, policies, NOW) for e in (events, random.sample(events, len(events))))
    assert one == other
    assert {m.id for m in one} == {e.memory_id for e in events} & set(known)


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
