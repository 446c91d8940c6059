"""Who may testify, and who may be told of: as memories stand while evidence is written, not as they were read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crag_runtime.evidence import Evidence, Origin
from crag_runtime.recording.evidence_rules import corroboration, party_of
from kb.history import AnswerId, EvidenceEvent, EvidenceKind
from kb.model import Kind, Memory, MemoryId, Scope, SourceClass, Standing
from kb.trust import DAY_MS, TrustPolicy, leaves_gate_at, prior

NOW = 1_800_000_000_000
GATE = 0.7
POLICY = TrustPolicy(confidence=0.8)


def memory(*, verified: bool = False, confidence: float = 0.8, **changes: object) -> Memory:
    trust = prior(replace(POLICY, confidence=confidence, verified=verified), NOW)
    found = Memory(
        id=MemoryId("m"), tenant="t", kind=Kind.NOTE, source_class=SourceClass.PERSON, source="note://person",
        text="x", trust=trust,
    )  # fmt: skip
    return replace(found, **changes)  # type: ignore[arg-type]


def party(m: Memory, now: int = NOW, **more: object):
    evidence = Evidence(id=m.id, origin=Origin.MEMORY, text=m.text, root="r", verified=m.trust.verified)
    return party_of(m, evidence, policy=POLICY, gate=GATE, now=now, **more)


def event(kind: EvidenceKind) -> EvidenceEvent:
    return EvidenceEvent(memory_id=MemoryId("m"), tenant="t", kind=kind, weight=0.0, witness="ada", at=NOW)


def test_a_verified_active_memory_above_the_gate_testifies():
    assert party(memory(verified=True)).can_testify
    assert not party(memory()).can_testify


@pytest.mark.parametrize("standing", [s for s in Standing if s is not Standing.ACTIVE])
def test_a_memory_of_another_standing_neither_testifies_nor_is_told_of(standing):
    assert not party(memory(verified=True, standing=standing)).can_testify
    assert not party(memory(standing=standing)).can_hear


def test_a_witness_that_has_faded_is_none():
    held = memory(verified=True)
    leaves = leaves_gate_at(held.trust, GATE, POLICY.half_life)
    assert party(held, leaves - 1).can_testify
    assert not party(held, leaves).can_testify
    assert not party(memory(verified=True, confidence=GATE)).can_testify


def test_an_answer_is_neither():
    for changes in ({"kind": Kind.ANSWER}, {"source_class": SourceClass.ANSWER}):
        assert not party(memory(verified=True, **changes)).can_testify
        assert not party(memory(**changes)).can_hear


def test_what_is_verified_is_told_nothing():
    assert party(memory()).can_hear
    assert not party(memory(verified=True)).can_hear


def test_a_finding_is_told_of_in_quarantine_and_a_memory_that_went_there_meanwhile_is_not():
    quarantined = memory(standing=Standing.QUARANTINED)
    assert party(quarantined, is_finding=True).can_hear
    assert not party(quarantined).can_hear
    for standing in (Standing.RETIRED, Standing.SUPERSEDED, Standing.STAGED):
        assert not party(memory(standing=standing), is_finding=True).can_hear


def test_what_a_person_has_rejected_is_told_nothing_more():
    quarantined = memory(standing=Standing.QUARANTINED)
    assert not party(quarantined, is_finding=True, history=[event(EvidenceKind.REJECTION)]).can_hear


@pytest.mark.parametrize(
    ("witness", "hearer", "counts"),
    [
        (Scope(), Scope(), True),
        (Scope(), Scope(user="ada", agent="x", conversation="c"), True),
        (Scope(user="ada"), Scope(user="ada", agent="x"), True),
        (Scope(user="ada"), Scope(), False),
        (Scope(user="ada"), Scope(user="bob"), False),
        (Scope(agent="x"), Scope(user="ada"), False),
        (Scope(conversation="c"), Scope(), False),
    ],
)
def test_no_private_memory_moves_what_others_see(witness, hearer, counts):
    vouching = replace(party(memory(verified=True)), scope=witness)
    vouching = replace(vouching, evidence=replace(vouching.evidence, id="v", root="docs"))
    heard = replace(party(memory()), scope=hearer)

    class Same:
        ids = ("m", "v")

    events = corroboration(
        [Same()], [], parties={"m": heard, "v": vouching}, ancestors={}, answer_id=AnswerId("a"), tenant="t",
        now=NOW + DAY_MS,
    )  # fmt: skip
    assert len(events) == int(counts)
