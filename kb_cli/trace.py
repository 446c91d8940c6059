"""`kb trace` and `kb feedback`: look into an answer that was given, and say whether it was right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from crag_runtime.recording.objects import feedback_object, trace_object, usage_of
from kb_cli import render
from kb_cli.acting import is_agent
from kb_cli.session import AsJson, Tenant, opened, settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crag_runtime.recording.feedback import Feedback
    from kb.history import AnswerRecord, Evaluation
    from kb.memories import Memories
    from kb.model import Json, Memory, MemoryId

AnswerArgument = Annotated[str, typer.Argument(metavar="ANSWER", help="The answer's id.")]


def trace(answer: AnswerArgument, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """Show how an answer came about: path, verdicts, grades, citations, costs."""
    from crag_runtime.recording.feedback import answer_record
    from kb.history import AnswerId
    from kb_cli.values import readable

    readable(answer)
    settings = settings_of(tenant=tenant)
    with opened(settings) as memories:
        record = answer_record(memories, AnswerId(answer), settings.tenant)
        with memories.ledger.read() as tx:
            evaluations = tx.evaluations.of_answer(record.id)
            graded = tx.memories.get([e.memory_id for e in evaluations])
    if as_json:
        render.emit_json(trace_object(record, evaluations))
    else:
        render.say(*_lines(record, evaluations, graded))


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
    from crag_runtime.recording.feedback import answer_record, give_feedback
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
        record = answer_record(memories, AnswerId(answer), settings.tenant)
        before = _confidences(memories, record)
        given = give_feedback(memories, record.id, settings.tenant, is_good=good, only=only, by=by, is_agent=is_agent())
        after = _confidences(memories, record)
        shown = feedback_object(memories, given)
    if as_json:
        render.emit_json(shown)
    elif not given.events:
        render.say(_why_not(record, given))
    else:
        rows = [
            (m.id, m.standing.value, f"{before[m.id]:.3f} → {after[m.id]:.3f}", m.source)
            for m in given.memories
            if m.id in before
        ]
        render.say(*render.table(("memory", "standing", "confidence", "source"), rows))


def _confidences(memories: Memories, record: AnswerRecord) -> dict[MemoryId, float]:
    """Return the effective confidence of what an answer cited, as it is now."""
    from kb.trust import effective

    now = memories.clock.now()
    with memories.ledger.read() as tx:
        cited = tx.memories.get([c.memory_id for c in record.citations])
    half_life = {m.id: memories.policies[m.source_class].half_life for m in cited.values()}
    return {m.id: effective(m.trust, now, half_life[m.id]) for m in cited.values()}


def _why_not(record: AnswerRecord, given: Feedback) -> str:
    """Return why feedback moved nothing."""
    if given.rejected:
        return "a person has rejected what it cites; that stands"
    if given.borrowed:
        return "what it cites is another tenant's, the second source: nothing is written about it"
    if given.unmoved:
        return "what it cites is vouched for, or does not pass the gate any more: no agent's word moves it"
    can_credit = any(c.supports for c in record.citations)
    return "this was counted already" if can_credit else "the answer cites nothing that could be credited"


def _lines(record: AnswerRecord, evaluations: list[Evaluation], graded: Mapping[MemoryId, Memory]) -> list[str]:
    from kb.clock import iso

    report = record.report
    understood = str(report.get("question") or record.question)
    reasons = _texts(report.get("reasons"))
    why = f" ({', '.join(reasons)})" if reasons else ""
    head = [
        f"question  {record.question}",
        *([f"meant     {understood}"] if understood != record.question else []),
        f"asked     {iso(record.created_at)}{f' on thread {record.thread}' if record.thread else ''}",
        f"outcome   {record.outcome}{why}; evidence {record.verdict}",
        f"costs     {', '.join(f'{n} {key}' for key, n in usage_of(record).items() if n) or 'none'}",
    ]
    note = " (handed over)" if report.get("handed_over") else " (the other side)"
    parts = {
        "answer": (record.text or "(refused)").splitlines(),
        "path": [f"{s['node']:11} {s['why']}" for s in _objects(report.get("path"))],
        **_grades(evaluations, graded),
        "citations": [
            f"[{n}] {c.url or c.source}{'' if c.supports else note}  [{c.memory_id}]"
            for n, c in enumerate(record.citations, 1)
        ],
        "suppressed": [f"{s['reason']}: {s['source']}  [{s['memory_id']}]" for s in _objects(report.get("suppressed"))],
        "not covered": _texts(report.get("missing")),
        "degraded": _texts(report.get("degraded")),
    }
    body = [line for name, own in parts.items() if own for line in ("", name, *(f"   {text}" for text in own))]
    return [*head, *body]


def _grades(evaluations: list[Evaluation], graded: Mapping[MemoryId, Memory]) -> dict[str, list[str]]:
    """Return the grades as a table for each sub-question, the best first."""
    parts = {}
    for question in dict.fromkeys(e.question for e in evaluations):
        own = [e for e in evaluations if e.question == question]
        own.sort(key=lambda e: -1.0 if e.relevance is None else e.relevance, reverse=True)
        rows = [
            (
                e.label,
                "-" if e.relevance is None else f"{e.relevance:.2f}",
                graded[e.memory_id].source if e.memory_id in graded else "(gone)",
                f"{e.evaluator}: {e.reason}",
                f"[{e.memory_id}]",
            )
            for e in own
        ]
        parts[f"grades for: {question}"] = render.table(("label", "relevance", "source", "why", "memory"), rows)
    return parts


def _objects(value: Json) -> list[dict[str, Json]]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _texts(value: Json) -> list[str]:
    return [str(part) for part in value] if isinstance(value, list) else []
