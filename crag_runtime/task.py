"""The generator's task, rebuilt from the ids in the state: the same for the first draft, the second, and the check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_runtime.codec import restored
from crag_runtime.evidence import Conflict, Excerpt, Label, Task
from crag_runtime.routes import is_uncertain
from crag_runtime.sight import lookup_of
from crag_runtime.state import findings_of, plan_of

if TYPE_CHECKING:
    from crag_runtime.deps import Deps
    from crag_runtime.state import RunState


async def task_of(state: RunState, deps: Deps) -> Task:
    """Return the task, read in a thread; see `read_task`."""
    return await deps.threads.call(read_task, state, deps)


def read_task(state: RunState, deps: Deps) -> Task:
    """Return the task. A memory that may not be used any more since it was graded is left out.

    Raises:
        LedgerUnavailable: the texts cannot be read now.
    """
    plan = plan_of(state)
    ids = {str(e["id"]): 0.0 for e in state["excerpts"]}
    evidence = deps.store.usable(ids, findings_of(state), lookup_of(state, deps.policy))
    excerpts = tuple(
        Excerpt(
            evidence=evidence[e["id"]],
            sub=e["sub"],
            strips=tuple(evidence[e["id"]].text[start:end] for start, end in e["strips"]),
            relevance=e["relevance"],
            label=Label(e["label"]),
            answer=e["answer"],
        )
        for e in state["excerpts"]
        if e["id"] in evidence
    )
    return Task(
        plan=plan,
        excerpts=excerpts,
        missing=tuple(plan.sub_questions[sub] for sub in state["missing"]),
        conflicts=tuple(restored(Conflict, c) for c in state["conflicts"]),
        today=state["asked_at"],
        is_uncertain=is_uncertain(state),
        complaint=state["complaint"],
    )
