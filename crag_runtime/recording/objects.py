"""Answers that were given, and what feedback moved, as JSON objects: the same on the command line and over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.clock import iso
from kb.objects import memory_object

if TYPE_CHECKING:
    from crag_runtime.recording.feedback import Feedback
    from kb.history import AnswerRecord, Evaluation
    from kb.memories import Memories
    from kb.model import Json


def trace_object(record: AnswerRecord, evaluations: list[Evaluation]) -> dict[str, Json]:
    """Return a trace under the stable keys of docs/reference/json.md: those of `kb ask`, and the grades."""
    report = record.report
    same: tuple[str, ...] = ("path", "suppressed", "degraded", "reasons", "missing", "conflicts")
    return {
        "answer_id": record.id,
        "question": record.question,
        "outcome": record.outcome,
        "answer": record.text,
        "verdict": record.verdict,
        "verdicts": report.get("verdicts", []),
        "thread": record.thread or None,
        "created_at": iso(record.created_at),
        "citations": [
            {
                "number": number,
                "memory_id": c.memory_id,
                "rev": c.rev,
                "source": c.source,
                "url": c.url or None,
                "title": c.title,
                "quote": c.quote,
                "supports": c.supports,
            }
            for number, c in enumerate(record.citations, 1)
        ],
        "evaluations": [_evaluation_json(e) for e in evaluations],
        "usage": usage_of(record),
        **{key: report.get(key, []) for key in same},
        "plan": report.get("plan", {}),
    }


def _evaluation_json(e: Evaluation) -> dict[str, Json]:
    return {
        "memory_id": e.memory_id,
        "rev": e.rev,
        "question": e.question,
        "label": e.label,
        "relevance": e.relevance,
        "reason": e.reason,
        "evaluator": e.evaluator,
        "model": e.model,
        "version": e.version,
    }


def usage_of(record: AnswerRecord) -> dict[str, Json]:
    """Return what an answer cost."""
    kept = record.report.get("usage")
    spent = {key: int(str(n)) for key, n in kept.items()} if isinstance(kept, dict) else {}
    tokens_in, tokens_out = spent.get("tokens_in", 0), spent.get("tokens_out", 0)
    return {
        **{key: spent.get(key, 0) for key in ("llm_calls", "searches", "embeddings")},
        "tokens": tokens_in + tokens_out,
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
    }


def feedback_object(memories: Memories, given: Feedback) -> dict[str, Json]:
    """Return what feedback moved under the stable keys of docs/reference/json.md."""
    return {
        "events": [
            {"memory_id": e.memory_id, "kind": e.kind.value, "weight": e.weight, "witness": e.witness}
            for e in given.events
        ],
        "memories": [memory_object(memories, m) for m in given.memories],
        "unmoved": list(given.unmoved),
    }
