"""Judge: one verdict for each sub-question, by the paper's rule."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time

from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Label, Verdict
from crag_runtime.routes import correction
from crag_runtime.state import NodeName, RunState, Update, findings_of, plan_of, step
from crag_runtime.verdict import combined, verdict_of
from kb.telemetry import Attr, Metric, annotate, count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crag_runtime.routes import Limits
    from crag_runtime.state import Graded, Step


async def judge(state: RunState, runtime: Runtime[Deps], limits: Limits) -> Update:
    """Return the verdicts. A sub-question short of evidence with unknown grades forbids paid searches."""
    deps, plan = runtime.context, plan_of(state)
    subs = range(len(plan.sub_questions))
    min_sources = deps.policy.sources_for(plan.type)
    roots = None if min_sources == 1 else await _roots(state, deps)
    verdicts = [_verdict(state["grades"], sub, roots, min_sources) for sub in subs]
    verdict = combined(verdicts)
    failed = any(
        verdicts[g["sub"]] is not Verdict.CORRECT and g["grade"]["label"] == Label.UNKNOWN for g in state["grades"]
    )
    count(Metric.VERDICTS, verdict=verdict.value)
    annotate({Attr.VERDICT: verdict.value})
    faults = ["evaluator"] if failed else []
    judged: RunState = {**state, "verdict": verdict.value, "faults": [*state["faults"], *faults]}
    next_ = "" if verdict is Verdict.CORRECT else f"; {correction(judged, limits).reason}"
    return {
        "verdicts": [v.value for v in verdicts],
        "verdict": verdict.value,
        "faults": faults,
        "judged": len(state["grades"]),
        "path": _path(state["grades"], state["judged"], f"{_why(state['grades'], verdicts)}{next_}"),
    }


async def _roots(state: RunState, deps: Deps) -> Mapping[str, str]:
    """Return the root source of each graded passage."""
    ids = {str(g["grade"]["id"]): 0.0 for g in state["grades"]}
    loaded = await deps.threads.call(
        deps.store.evidence,
        ids,
        findings_of(state),
        tenant=state["tenant"],
        now=state["asked_at"],
        backup=deps.policy.backup_tenant,
    )
    return {id_: e.root for id_, e in loaded.items()}


def _verdict(grades: list[Graded], sub: int, roots: Mapping[str, str] | None, min_sources: int) -> Verdict:
    own = [g["grade"] for g in grades if g["sub"] == sub]
    if roots is None:
        return verdict_of([Label(str(g["label"])) for g in own])
    known = [g for g in own if roots.get(str(g["id"]))]  # what is gone, or comes from nowhere, is no source
    labels = [Label(str(g["label"])) for g in known]
    return verdict_of(labels, [roots[str(g["id"])] for g in known], min_sources=min_sources)


def _path(grades: list[Graded], judged: int, why: str) -> list[Step]:
    new = grades[judged:]
    graders = ", ".join(sorted({str(g["grade"]["evaluator"]) for g in new} - {""}))
    graded = step(NodeName.GRADE, f"{len(new)} grades by {graders or 'nobody'}") if new else []
    return [*graded, *step(NodeName.JUDGE, why)]


def _why(grades: list[Graded], verdicts: list[Verdict]) -> str:
    labels = Counter(str(g["grade"]["label"]) for g in grades)
    graded = ", ".join(f"{labels[label.value]} {label.value}" for label in Label if labels[label.value])
    return f"{' + '.join(v.value for v in verdicts)} ({graded or 'nothing retrieved'})"


def unjudged(state: RunState, problem: str) -> Update:
    """Return no verdict: what could not be judged is not used."""
    return {
        "verdicts": [Verdict.UNKNOWN.value for _ in state["queries"]],
        "verdict": Verdict.UNKNOWN.value,
        "faults": ["ledger"],
        "degraded": [f"judge: {problem}"],
        "path": step(NodeName.JUDGE, problem),
    }
