"""Refine: the strips that matter of the passages that may be used, within the token budget, and where they disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time

from crag_runtime.codec import plain, restored
from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Excerpt, Grade
from crag_runtime.refine import lowered, matched, refined
from crag_runtime.refining.conflict import agreements, conflicts
from crag_runtime.refining.pointing import pointed
from crag_runtime.routes import usable
from crag_runtime.sight import lookup_of
from crag_runtime.state import Graded, NodeName, RunState, Shown, Update, findings_of, plan_of, step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from crag_runtime.evidence import Evidence, Plan, Strip
    from kb.model import Instant


async def refine(state: RunState, runtime: Runtime[Deps]) -> Update:
    """Return excerpts by reference, conflicts and agreements among them, and the sub-questions left without any."""
    return await runtime.context.threads.call(_of_state, state, runtime.context)


def _of_state(state: RunState, deps: Deps) -> Update:
    graded = {sub: usable(state["grades"], sub, v) for sub, v in enumerate(state["verdicts"])}
    scores = {c["id"]: c["score"] for c in state["candidates"]} | {f["id"]: 0.0 for f in state["found"]}
    wanted = {str(g["grade"]["id"]) for grades in graded.values() for g in grades}
    evidence = deps.store.usable(
        {id_: scores[id_] for id_ in wanted}, findings_of(state), lookup_of(state, deps.policy)
    )
    return _refined(plan_of(state), graded, evidence, deps, state["asked_at"])


def _refined(
    plan: Plan, graded: Mapping[int, list[Graded]], evidence: Mapping[str, Evidence], deps: Deps, now: int
) -> Update:
    budget = deps.policy.budgets.evidence_tokens // len(plan.sub_questions)
    excerpts: list[Excerpt] = []
    shown: list[Shown] = []
    weaker: list[Graded] = []
    for sub, question in enumerate(plan.sub_questions):
        grades = {str(g["grade"]["id"]): restored(Grade, g["grade"]) for g in graded.get(sub, [])}
        own = [evidence[id_] for id_ in grades if id_ in evidence]
        strips = refined(question, own, grades, budget=budget, count=deps.count_tokens)
        for e in own:
            kept = [s for s in strips if s.id == e.id]
            if kept:
                excerpts.append(_excerpt(question, e, sub, kept, grades[e.id], now=now))
                shown.append(_by_reference(excerpts[-1], kept))
            elif (less := lowered(grades[e.id], matched(question, e, grades[e.id]))) != grades[e.id]:
                weaker.append(Graded(sub=sub, rev=e.rev, grade=plain(less)))
    disputed = conflicts(plan.sub_questions, excerpts, plan.time, now)
    covered = {e.sub for e in excerpts}
    return {
        "excerpts": shown,
        "grades": weaker,
        "conflicts": [plain(c) for c in disputed],
        "agreements": [plain(a) for a in agreements(plan.sub_questions, excerpts, plan.time, now)],
        "missing": [sub for sub in range(len(plan.sub_questions)) if sub not in covered],
        "path": step(NodeName.REFINE, _why(excerpts, deps.count_tokens, len(disputed))),
    }


def _excerpt(
    question: str, evidence: Evidence, sub: int, kept: Sequence[Strip], grade: Grade, *, now: Instant
) -> Excerpt:
    strips = tuple(evidence.text[s.start : s.end] for s in kept)
    return Excerpt(
        evidence=evidence,
        sub=sub,
        strips=strips,
        relevance=grade.relevance or 0.0,
        label=grade.label,
        answer=pointed(question, strips, grade.answer, today=now),
    )


def _by_reference(excerpt: Excerpt, kept: Sequence[Strip]) -> Shown:
    return Shown(
        sub=excerpt.sub,
        id=excerpt.evidence.id,
        strips=[[s.start, s.end] for s in kept],
        relevance=excerpt.relevance,
        label=excerpt.label.value,
        answer=excerpt.answer,
    )


def _why(excerpts: Sequence[Excerpt], tokens: Callable[[str], int], disputed: int) -> str:
    kept = sum(tokens(strip) for e in excerpts for strip in e.strips)
    whole = sum(tokens(e.evidence.text) for e in excerpts)
    conflict = f", {disputed} conflict{'s' if disputed > 1 else ''}" if disputed else ""
    return f"{len(excerpts)} excerpts, {kept} of {whole} tokens kept{conflict}"


def unrefined(state: RunState, problem: str) -> Update:
    """Return no excerpt: texts that cannot be read cannot be used."""
    return {
        "excerpts": [],
        "missing": list(range(len(state["queries"]))),
        "faults": ["ledger"],
        "degraded": [f"refine: {problem}"],
        "path": step(NodeName.REFINE, problem),
    }
