"""Rows of the ledger to and from the words of `kb.history`: pure functions, every value checked on its way in.

A row is read by position, in the order of the table's columns, which is also the order written here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb.errors import InputError
from kb.history import (
    AnswerId,
    AnswerRecord,
    CitedMemory,
    Edge,
    EdgeKind,
    Evaluation,
    EvidenceEvent,
    EvidenceKind,
    Utility,
)
from kb.ledger.checks import (
    checked_int,
    checked_json,
    checked_key,
    checked_name,
    checked_real,
    checked_source,
    checked_text,
)
from kb.model import MemoryId, Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.ledger.rows import Row

UNKNOWN = "unknown"  # the label of an evaluation that failed


def row_of_answer(answer: AnswerRecord) -> Row:
    """Return an answer as a row, without its citations.

    Raises:
        InputError: a value cannot be stored as it is.
    """
    return {
        "id": checked_key(answer.id, "id"),
        "tenant": checked_key(answer.tenant, "tenant"),
        "scope_agent": checked_name(answer.scope.agent, "agent"),
        "scope_user": checked_name(answer.scope.user, "user"),
        "scope_conversation": checked_name(answer.scope.conversation, "conversation"),
        "thread": checked_name(answer.thread, "thread"),
        "question": checked_text(answer.question, "question"),
        "text": checked_text(answer.text, "text"),
        "outcome": checked_key(answer.outcome, "outcome"),
        "verdict": checked_key(answer.verdict, "verdict"),
        "report": checked_json(dict(answer.report), "report"),
        "created_at": checked_int(answer.created_at, "created_at"),
    }


def rows_of_citations(answer: AnswerRecord) -> list[Row]:
    """Return an answer's citations as rows, numbered from 1 in their order.

    Raises:
        InputError: a value cannot be stored as it is.
    """
    return [
        {
            "answer_id": checked_key(answer.id, "id"),
            "number": number,
            "memory_id": checked_key(cited.memory_id, "memory_id"),
            "rev": checked_int(cited.rev, "rev"),
            "source": checked_source(cited.source),
            "url": checked_text(cited.url, "url"),
            "title": checked_text(cited.title, "title"),
            "quote": checked_text(cited.quote, "quote"),
            "supports": cited.supports,
        }
        for number, cited in enumerate(answer.citations, 1)
    ]


def answer_of_row(row: Sequence[Any], citations: Sequence[CitedMemory]) -> AnswerRecord:
    """Return the answer of a row of `answers`, with its citations in their order."""
    return AnswerRecord(
        id=AnswerId(row[0]),
        tenant=row[1],
        scope=Scope(agent=row[2], user=row[3], conversation=row[4]),
        thread=row[5],
        question=row[6],
        text=row[7],
        outcome=row[8],
        verdict=row[9],
        report=row[10],
        created_at=row[11],
        citations=tuple(citations),
    )


def citation_of_row(row: Sequence[Any]) -> CitedMemory:
    """Return the cited memory of a row of `citations`; row[0] is its answer, row[1] its number."""
    return CitedMemory(
        memory_id=MemoryId(row[2]),
        rev=row[3],
        source=row[4],
        url=row[5],
        title=row[6],
        quote=row[7],
        supports=row[8],
    )


def row_of_evaluation(evaluation: Evaluation) -> Row:
    """Return an evaluation as a row.

    Raises:
        InputError: a value cannot be stored as it is, or relevance and label disagree.
    """
    return {
        "answer_id": checked_key(evaluation.answer_id, "answer_id"),
        "tenant": checked_key(evaluation.tenant, "tenant"),
        "question": checked_text(evaluation.question, "question"),
        "memory_id": checked_key(evaluation.memory_id, "memory_id"),
        "rev": checked_int(evaluation.rev, "rev"),
        "label": checked_key(evaluation.label, "label"),
        "relevance": _checked_relevance(evaluation.relevance, evaluation.label),
        "reason": checked_text(evaluation.reason, "reason"),
        "evaluator": checked_name(evaluation.evaluator, "evaluator"),
        "model": checked_name(evaluation.model, "model"),
        "version": checked_name(evaluation.version, "version"),
        "at": checked_int(evaluation.at, "at"),
    }


def _checked_relevance(relevance: float | None, label: str) -> float | None:
    if (relevance is None) != (label == UNKNOWN):
        raise InputError(f"relevance is {relevance} under the label {label}; only an unknown one has none")
    if relevance is not None and not 0.0 <= relevance <= 1.0:
        raise InputError(f"relevance is {relevance}; it must be between 0 and 1")
    return None if relevance is None else checked_real(relevance, "relevance")


def evaluation_of_row(row: Sequence[Any]) -> Evaluation:
    """Return the evaluation of a row of `evaluations`; row[0] is its number."""
    return Evaluation(
        answer_id=AnswerId(row[1]),
        tenant=row[2],
        question=row[3],
        memory_id=MemoryId(row[4]),
        rev=row[5],
        label=row[6],
        relevance=row[7],
        reason=row[8],
        evaluator=row[9],
        model=row[10],
        version=row[11],
        at=row[12],
    )


def row_of_edge(edge: Edge) -> Row:
    """Return a step of lineage as a row.

    Raises:
        InputError: a value cannot be stored as it is.
    """
    return {
        "tenant": checked_key(edge.tenant, "tenant"),
        "parent": checked_key(edge.parent, "parent"),
        "child": checked_key(edge.child, "child"),
        "kind": edge.kind.value,
        "at": checked_int(edge.at, "at"),
    }


def edge_of_row(row: Sequence[Any]) -> Edge:
    """Return the step of a row of `lineage`."""
    return Edge(tenant=row[0], parent=row[1], child=row[2], kind=EdgeKind(row[3]), at=row[4])


def row_of_evidence(event: EvidenceEvent) -> Row:
    """Return an event as a row.

    Raises:
        InputError: a value cannot be stored as it is.
    """
    return {
        "memory_id": checked_key(event.memory_id, "memory_id"),
        "tenant": checked_key(event.tenant, "tenant"),
        "kind": event.kind.value,
        "weight": checked_real(event.weight, "weight"),
        "witness": checked_key(event.witness, "witness"),
        "answer_id": None if event.answer_id is None else checked_key(event.answer_id, "answer_id"),
        "reason": checked_text(event.reason, "reason"),
        "at": checked_int(event.at, "at"),
    }


def evidence_of_row(row: Sequence[Any]) -> EvidenceEvent:
    """Return the event of a row of `evidence`."""
    return EvidenceEvent(
        memory_id=MemoryId(row[0]),
        tenant=row[1],
        kind=EvidenceKind(row[2]),
        weight=row[3],
        witness=row[4],
        answer_id=row[5],
        reason=row[6],
        at=row[7],
    )


def utility_of_row(row: Sequence[Any]) -> Utility:
    """Return the counters of a row of `utility`."""
    return Utility(memory_id=MemoryId(row[0]), retrieved=row[1], relevant=row[2], cited=row[3], last_at=row[4])
