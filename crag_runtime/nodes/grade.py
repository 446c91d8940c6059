"""Grade: one passage for one sub-question; the graph fans these out, so that one failure stays one failure."""

from __future__ import annotations

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time

from crag_runtime.codec import plain, restored
from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Asked, Finding, Grade, Label, Usage
from crag_runtime.periods import time_intent
from crag_runtime.sight import lookup_of
from crag_runtime.state import Graded, GradeInput, Update, plan_of, spent
from kb.errors import ModelUnavailable


async def grade(state: GradeInput, runtime: Runtime[Deps]) -> Update:
    """Return the passage's grade; one that is gone meanwhile is irrelevant."""
    deps = runtime.context
    sub, id_, now = state["sub"], state["id"], state["asked_at"]
    plan = plan_of(state)
    question = plan.sub_questions[sub]
    given = state.get("finding")
    findings = {} if given is None else {id_: restored(Finding, given)}
    lookup = lookup_of(state, deps.policy)
    loaded = await deps.threads.call(deps.store.usable, {id_: state["score"]}, findings, lookup)
    evidence = loaded.get(id_)
    if evidence is None:
        gone = Grade(
            id=id_, label=Label.IRRELEVANT, relevance=0.0, reason="may not be used any more", evaluator="store"
        )
        return {"grades": [Graded(sub=sub, rev=0, grade=plain(gone))]}
    (vector,), embedded = await deps.threads.call(deps.store.vectors.of, [question])
    asked = Asked(
        question=question,
        type=plan.type,
        time=time_intent(question, now),
        today=now,
        tenant=state["tenant"],
        vector=vector,
    )
    try:
        grading = await deps.evaluator.grade(asked, [evidence])
    except ModelUnavailable as error:  # what it cost nevertheless is known only here
        cost = Usage(llm_calls=error.calls, tokens_in=error.tokens_in, tokens_out=error.tokens_out, embeddings=embedded)
        return {**ungradable(state, f"{type(error).__name__}: {error}"), "usage": spent(cost)}
    return {
        "grades": [Graded(sub=sub, rev=evidence.rev, grade=plain(g)) for g in grading.grades],
        "usage": spent(grading.usage + Usage(embeddings=embedded)),
        "degraded": [f"grade: {grading.degraded}"] if grading.degraded else [],
    }


def ungradable(state: GradeInput, problem: str) -> Update:
    """Return an unknown grade: what failed is known, what the passage is worth is not."""
    unknown = Grade(id=state["id"], label=Label.UNKNOWN, relevance=None, reason=problem)
    return {
        "grades": [Graded(sub=state["sub"], rev=0, grade=plain(unknown))],
        "degraded": [f"grade: {problem}"],
    }
