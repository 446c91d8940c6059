"""Grade: one passage for one sub-question; the graph fans these out, so that one failure stays one failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time

from crag_runtime.codec import plain, restored
from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Asked, Finding, Grade, Label, Usage
from crag_runtime.sight import lookup_of
from crag_runtime.state import Graded, GradeInput, Update, plan_of, spent
from kb.dates.periods import time_intent
from kb.errors import ModelUnavailable
from kb.telemetry import Attr, Event, Metric, count, event, observe

if TYPE_CHECKING:
    from crag_runtime.evidence import Evidence


async def grade(state: GradeInput, runtime: Runtime[Deps]) -> Update:
    """Return the passage's grade; one that is gone meanwhile is irrelevant."""
    deps = runtime.context
    sub, id_ = state["sub"], state["id"]
    evidence, asked, embedded = await deps.threads.call(_read, state, deps)
    if evidence is None or asked is None:
        gone = Grade(
            id=id_, label=Label.IRRELEVANT, relevance=0.0, reason="may not be used any more", evaluator="store"
        )
        return {"grades": [Graded(sub=sub, rev=0, grade=plain(gone))]}
    try:
        grading = await deps.evaluator.grade(asked, [evidence])
    except ModelUnavailable as error:  # what it cost nevertheless is known only here
        cost = Usage(llm_calls=error.calls, tokens_in=error.tokens_in, tokens_out=error.tokens_out, embeddings=embedded)
        return {**ungradable(state, f"{type(error).__name__}: {error}"), "usage": spent(cost)}
    observe(Metric.EVIDENCE_CONFIDENCE, evidence.confidence, origin=evidence.origin.value)
    for g in grading.grades:
        count(Metric.GRADES, evaluator=g.evaluator, label=g.label.value)
        event(Event.EVALUATION, {Attr.EVALUATION: g.evaluator, Attr.SCORE: g.relevance, Attr.LABEL: g.label.value})
    if grading.degraded:
        count(Metric.EVALUATOR_DEGRADED, evaluator=deps.evaluator.identity.name)
    return {
        "grades": [Graded(sub=sub, rev=evidence.rev, grade=plain(g)) for g in grading.grades],
        "usage": spent(grading.usage + Usage(embeddings=embedded)),
        "degraded": [f"grade: {grading.degraded}"] if grading.degraded else [],
    }


def _read(state: GradeInput, deps: Deps) -> tuple[Evidence | None, Asked | None, int]:
    """Return the passage and the question as an evaluator sees them, and how many texts had to be embedded for it."""
    id_, now, plan = state["id"], state["asked_at"], plan_of(state)
    question, given = plan.sub_questions[state["sub"]], state.get("finding")
    findings = {} if given is None else {id_: restored(Finding, given)}
    evidence = deps.store.usable({id_: state["score"]}, findings, lookup_of(state, deps.policy)).get(id_)
    if evidence is None:
        return None, None, 0
    (vector,), embedded = deps.store.vectors.of([question])
    asked = Asked(
        question=question,
        type=plan.type,
        time=time_intent(question, now),
        today=now,
        tenant=state["tenant"],
        vector=vector,
    )
    return evidence, asked, embedded


def ungradable(state: GradeInput, problem: str) -> Update:
    """Return an unknown grade: what failed is known, what the passage is worth is not."""
    unknown = Grade(id=state["id"], label=Label.UNKNOWN, relevance=None, reason=problem)
    count(Metric.GRADES, evaluator="", label=unknown.label.value)
    count(Metric.EVALUATOR_DEGRADED, evaluator="")
    event(Event.EVALUATION, {Attr.EVALUATION: "", Attr.LABEL: unknown.label.value})
    return {
        "grades": [Graded(sub=state["sub"], rev=0, grade=plain(unknown))],
        "degraded": [f"grade: {problem}"],
    }
