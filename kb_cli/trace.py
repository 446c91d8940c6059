"""`kb trace` and `kb feedback`: look into an answer that was given, and say whether it was right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.session import AsJson, Tenant, opened, settings_of

if TYPE_CHECKING:
    from crag_runtime.feedback import Feedback
    from kb.history import AnswerRecord, Evaluation
    from kb.memories import Memories
    from kb.model import Json

AnswerArgument = Annotated[str, typer.Argument(metavar="ANSWER", help="The answer's id.")]


def trace(answer: AnswerArgument, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Show how an answer came about: path, verdicts, grades, citations, costs."""
    from crag_runtime.feedback import answer_record
    from kb.history import AnswerId

    settings = settings_of(tenant=tenant)
    with opened(settings) as memories:
        record = answer_record(memories, AnswerId(answer), settings.tenant)
        with memories.ledger.read() as tx:
            evaluations = tx.evaluations.of_answer(record.id)
    if as_json:
        render.emit_json(as_object(record, evaluations))
    else:
        render.say(*_lines(record, evaluations))


def feedback(
    answer: AnswerArgument,
    good: Annotated[bool, typer.Option("--good", help="The answer was right.")] = False,
    bad: Annotated[bool, typer.Option("--bad", help="The answer was wrong.")] = False,
    memory: Annotated[str | None, typer.Option("--memory", help="Credit this cited memory alone.")] = None,
    by: Annotated[str, typer.Option("--by", help="Who says so.")] = "",
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Say whether an answer was right; moves the confidence of the memories it cited, and of no other."""
    from crag_runtime.feedback import give_feedback
    from kb.errors import InputError
    from kb.history import AnswerId
    from kb.model import MemoryId
    from kb_cli.values import readable

    readable(answer, by, memory or "")
    if good == bad:
        raise InputError("say either --good or --bad")
    settings = settings_of(tenant=tenant)
    with opened(settings) as memories:
        only = None if memory is None else MemoryId(memory)
        given = give_feedback(memories, AnswerId(answer), settings.tenant, is_good=good, only=only, by=by)
        shown = _feedback_json(memories, given)
    if as_json:
        render.emit_json(shown)
    elif not given.events:
        render.say("already counted, or it cited nothing that could be credited")
    else:
        rows = [(m.id, m.standing.value, f"{m.trust.confidence:.3f}", m.source) for m in given.memories]
        render.say(*render.table(("memory", "standing", "confidence", "source"), rows))


def as_object(record: AnswerRecord, evaluations: list[Evaluation]) -> dict[str, Json]:
    """Return a trace under the stable keys of docs/reference/json.md."""
    from kb.clock import iso

    return {
        "answer_id": record.id,
        "question": record.question,
        "answer": record.text,
        "outcome": record.outcome,
        "verdict": record.verdict,
        "thread": record.thread or None,
        "created_at": iso(record.created_at),
        "citations": [
            {
                "memory_id": c.memory_id,
                "rev": c.rev,
                "source": c.source,
                "url": c.url or None,
                "title": c.title,
                "quote": c.quote,
                "supports": c.supports,
            }
            for c in record.citations
        ],
        "evaluations": [
            {
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
            for e in evaluations
        ],
        "report": dict(record.report),
    }


def _lines(record: AnswerRecord, evaluations: list[Evaluation]) -> list[str]:
    from kb.clock import iso

    report = record.report
    lines = [f"question  {record.question}", f"asked     {iso(record.created_at)}"]
    lines += [f"outcome   {record.outcome}; evidence {record.verdict}", "", "path"]
    lines += [f"   {s['node']:11} {s['why']}" for s in _objects(report.get("path"))]
    lines += ["", "grades"]
    rows = [
        (e.label, "-" if e.relevance is None else f"{e.relevance:.2f}", e.evaluator, e.memory_id, e.reason)
        for e in evaluations
    ]
    lines += [f"   {line}" for line in render.table(("label", "relevance", "by", "memory", "why"), rows)]
    lines += ["", "citations"]
    lines += [f"   [{n}] {c.url or c.source}  [{c.memory_id}]" for n, c in enumerate(record.citations, 1)]
    lines += [f"suppressed {s['memory_id']}: {s['reason']}" for s in _objects(report.get("suppressed"))]
    usage = report.get("usage")
    cost = ", ".join(f"{k} {v}" for k, v in usage.items()) if isinstance(usage, dict) else ""
    return [*lines, "", f"costs     {cost or 'none'}", "", record.text or "(refused)"]


def _objects(value: Json) -> list[dict[str, Json]]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _feedback_json(memories: Memories, given: Feedback) -> dict[str, Json]:
    from kb_cli.memory import as_object as memory_object

    return {
        "events": [
            {"memory_id": e.memory_id, "kind": e.kind.value, "weight": e.weight, "witness": e.witness}
            for e in given.events
        ],
        "memories": [memory_object(memories, m) for m in given.memories],
    }
