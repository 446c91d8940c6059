"""Check: the draft is supported by what it cites and answers the question; else once more, else refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time

from crag_runtime.checking.check import checked
from crag_runtime.codec import plain, restored
from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Draft
from crag_runtime.routes import MAX_ATTEMPTS, outcome_of, shortfalls_of
from crag_runtime.state import NodeName, RunState, Update, step
from crag_runtime.task import read_task

if TYPE_CHECKING:
    from crag_runtime.evidence import Checked


async def check(state: RunState, runtime: Runtime[Deps]) -> Update:
    """Return the complaint, "" when the draft may be given out."""
    if not state["draft"]:
        return {"complaint": "nothing was written", "path": step(NodeName.CHECK, "nothing was written")}
    return await runtime.context.threads.call(_checked, state, runtime.context)


def _checked(state: RunState, deps: Deps) -> Update:
    draft, task = restored(Draft, state["draft"]), read_task(state, deps)
    result = checked(draft, task)
    conflicts = [plain(conflict) for conflict in task.conflicts]  # those that still stand
    if result.is_supported and result.is_answer:
        without = {*task.missing, *draft.missing, *result.unanswered}
        missing = [sub for sub, question in enumerate(task.plan.sub_questions) if question in without]
        outcome = outcome_of({**state, "missing": missing, "conflicts": conflicts})
        return {
            "conflicts": conflicts,
            "missing": missing,
            "complaint": "",
            "outcome": outcome.value,
            "text": draft.text,
            "reasons": shortfalls_of(state, outcome),
            "path": step(NodeName.CHECK, f"supported: {outcome.value}"),
        }
    complaint = result.complaint or "it does not answer the question"
    update: Update = {"conflicts": conflicts, "complaint": complaint, "path": step(NodeName.CHECK, _why(result))}
    if draft.generator == deps.quoting.name:  # quotation says the same every time
        update["attempts"] = MAX_ATTEMPTS
    return update


def _why(result: Checked) -> str:
    """Return why a draft was not accepted, without its words: nothing bears them out, and a path is kept."""
    if result.is_supported:
        return result.complaint or "it does not answer the question"
    return "not supported by what it cites" if result.is_answer else "not supported: it cites nothing for what it says"


def unchecked(state: RunState, problem: str) -> Update:  # noqa: ARG001 - every node's fallback takes the state
    """Return a complaint: what could not be checked is not given out."""
    return {"complaint": problem, "degraded": [f"check: {problem}"], "path": step(NodeName.CHECK, problem)}
