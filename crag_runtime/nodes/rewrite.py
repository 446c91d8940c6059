"""Rewrite: other words for the sub-questions that found too little; the question itself stays as asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time

from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Usage
from crag_runtime.routes import open_subs
from crag_runtime.state import NodeName, RunState, Update, plan_of, spent, step

if TYPE_CHECKING:
    from kb.model import Json


async def rewrite(state: RunState, runtime: Runtime[Deps]) -> Update:
    """Return new queries: for retrieval, or for a search that timed out. What a person approved stays as it is."""
    if state["is_retry"] and state["approval"] == "approved":
        return {"path": step(NodeName.REWRITE, "the approved words once more")}
    deps, plan = runtime.context, plan_of(state)
    subs = [int(str(q["sub"])) for q in state["web_queries"]] if state["is_retry"] else open_subs(state)
    tried = [list(t) for t in state["tried"]]
    queries = ["" for _ in tried]
    usage, degraded = Usage(), []
    for sub in subs:
        words, cost, fell_back = await deps.rewriter.rewrite(tried[sub][-1], tried[sub], plan, state["asked_at"])
        usage += cost
        degraded += [f"rewrite: {fell_back}"] if fell_back else []
        if words:
            tried[sub].append(words)
        queries[sub] = words or (_unsearched(state, sub) if state["is_retry"] else "")
    why = "; ".join(f"{sub + 1}: {queries[sub]}" for sub in subs if queries[sub]) or "no other words found"
    update: Update = {
        "tried": tried,
        "usage": spent(usage),
        "degraded": degraded,
        "path": step(NodeName.REWRITE, why),
    }
    if state["is_retry"]:
        retried: list[dict[str, Json]] = [{"sub": sub, "query": queries[sub]} for sub in subs if queries[sub]]
        return {**update, "web_queries": retried, "faults": [] if retried else ["search"]}
    return {**update, "queries": queries, "rewrites": state["rewrites"] + 1}


def _unsearched(state: RunState, sub: int) -> str:
    """Return the oldest words for a sub-question that the web was not asked yet; "" when it was asked all."""
    return next((words for words in state["tried"][sub] if words not in state["searched"]), "")


def unrewritten(state: RunState, problem: str) -> Update:
    """Return no new query."""
    return {
        "queries": ["" for _ in state["tried"]],
        "web_queries": [],
        "faults": ["search"] if state["is_retry"] else [],
        "rewrites": state["rewrites"] + 1,
        "degraded": [f"rewrite: {problem}"],
        "path": step(NodeName.REWRITE, problem),
    }
