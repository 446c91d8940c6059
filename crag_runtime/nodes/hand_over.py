"""Hand over: the evidence itself, for callers whose own model writes the answer."""

from __future__ import annotations

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time

from crag_runtime.codec import plain
from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Citation, Draft
from crag_runtime.recording.learned import CALLER
from crag_runtime.routes import outcome_of, shortfalls_of
from crag_runtime.state import NodeName, RunState, Update, step


async def hand_over(state: RunState, runtime: Runtime[Deps]) -> Update:  # noqa: ARG001 - a node's signature
    """Return the outcome, and every excerpt as a citation: shown, but in support of nothing.

    Nothing is written, so nothing is checked; what the caller makes of it is not known here.
    """
    ids = dict.fromkeys(e["id"] for e in state["excerpts"])
    citations = tuple(Citation(number=n, id=id_, quote="", supports=False) for n, id_ in enumerate(ids, 1))
    outcome = outcome_of(state)
    return {
        "outcome": outcome.value,
        "text": "",
        "reasons": shortfalls_of(state, outcome),
        "draft": plain(Draft(text="", citations=citations, generator=CALLER)),
        "path": step(NodeName.HAND_OVER, f"{len(ids)} passages: {outcome.value}"),
    }
