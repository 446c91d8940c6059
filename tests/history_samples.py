"""Values of `kb.history` for tests: small, whole, and different where the argument says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kb.history import AnswerId, AnswerRecord, CitedMemory, Edge, EdgeKind, Evaluation, EvidenceEvent, EvidenceKind
from kb.model import MemoryId, Scope
from tests.ledger_samples import NOW

M1, M2, M3 = MemoryId("m00001"), MemoryId("m00002"), MemoryId("m00003")
A1, A2 = AnswerId("a1"), AnswerId("a2")


def an_answer(name: str = "a1", **changes: Any) -> AnswerRecord:
    """Return an answer whose id is `name`."""
    answer = AnswerRecord(
        id=AnswerId(name),
        tenant="acme",
        scope=Scope(agent="writer", user="u1", conversation="c9"),
        thread="t1",
        question="What is the toll? 通行费是多少？",
        text="The toll is four coins [1]; another source says nine [2].",
        outcome="conflict",
        verdict="correct",
        citations=(
            CitedMemory(memory_id=M2, rev=3, source="file://handbook/toll.md", title="Toll", quote="four coins"),
            CitedMemory(
                memory_id=M1, rev=1, source="web://toll.example/a", url="https://toll.example/a", supports=False
            ),
        ),
        report={"path": ["plan", "retrieve"], "usage": {"llm_calls": 0, "seconds": 0.25}, "degraded": None},
        created_at=NOW,
    )
    return replace(answer, **changes)


def an_evaluation(memory_id: str = M1, **changes: Any) -> Evaluation:
    """Return an evaluation of a memory."""
    evaluation = Evaluation(
        answer_id=A1,
        tenant="acme",
        question="What is the toll?",
        memory_id=MemoryId(memory_id),
        rev=3,
        label="relevant",
        relevance=0.875,
        reason="names the toll",
        evaluator="reader",
        model="e5ce-lora int8",
        version="1",
        at=NOW,
    )
    return replace(evaluation, **changes)


def an_edge(parent: str, child: str, kind: EdgeKind = EdgeKind.CITED, **changes: Any) -> Edge:
    """Return a step of lineage."""
    return replace(Edge(tenant="acme", parent=parent, child=child, kind=kind, at=NOW), **changes)


def an_event(memory_id: str = M1, **changes: Any) -> EvidenceEvent:
    """Return an event about a memory."""
    event = EvidenceEvent(
        memory_id=MemoryId(memory_id),
        tenant="acme",
        kind=EvidenceKind.AGREEMENT,
        weight=1.0,
        witness="docs",
        answer_id=A1,
        reason="says the same",
        at=NOW,
    )
    return replace(event, **changes)
