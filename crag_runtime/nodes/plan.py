"""Plan: what will be looked for, made self-contained with the thread's last turns."""

from __future__ import annotations

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time

from crag_runtime.codec import plain
from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Plan, QuestionType, Usage
from crag_runtime.state import NodeName, RunState, Update, scope_of, spent, step
from crag_runtime.store import Lookup


async def plan(state: RunState, runtime: Runtime[Deps]) -> Update:
    """Return one to three sub-questions, the question's type and its time intent."""
    deps = runtime.context
    whose = Lookup(
        tenant=state["tenant"],
        k=deps.policy.k,
        gate=deps.policy.gate[QuestionType.FACTUAL],
        scope=scope_of(state),
        backup=deps.policy.backup_tenant,
    )
    turns = await deps.threads.call(deps.store.turns, whose, state.get("thread", ""))
    planned, usage, fell_back = await deps.planner.plan(state["question"], turns, state["asked_at"])
    return _update(planned, usage, [f"plan: {fell_back}"] if fell_back else [])


def _update(planned: Plan, usage: Usage, degraded: list[str]) -> Update:
    parts = list(planned.sub_questions)
    carried = f"; carried over: {planned.carried}" if planned.carried else ""
    why = (
        f"{planned.type.value}, {len(parts)} sub-question{'s' if len(parts) > 1 else ''} by {planned.planner}{carried}"
    )
    return {
        "plan": plain(planned),
        "queries": parts,
        "tried": [[part] for part in parts],
        "degraded": degraded,
        "usage": spent(usage),
        "path": step(NodeName.PLAN, why),
    }


def unplanned(state: RunState, problem: str) -> Update:
    """Return the plan of last resort: the question as it stands."""
    return _update(Plan(question=state["question"], sub_questions=(state["question"],)), Usage(), [f"plan: {problem}"])
