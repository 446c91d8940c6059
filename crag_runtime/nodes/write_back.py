"""Write back: what was learned about memories, in one ledger transaction; the answer is given out whatever happens."""

from __future__ import annotations

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time

from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Usage
from crag_runtime.recording.learned import learned_of
from crag_runtime.state import NodeName, RunState, Update, spent, step


async def write_back(state: RunState, runtime: Runtime[Deps]) -> Update:
    """Record the answer and everything it teaches; a failure is kept for later and said."""
    deps = runtime.context
    recorded = await deps.threads.call(deps.recorder.record, learned_of(state, deps.clock.now()))
    problem = recorded.problem
    if recorded.moved and deps.cache is not None:
        await deps.threads.call(deps.cache.purge, state["tenant"], recorded.moved)
    return {
        "degraded": [f"write_back: {problem}"] if problem else [],
        "usage": spent(Usage(embeddings=recorded.embedded)),
        "path": step(NodeName.WRITE_BACK, problem or recorded.summary),
    }


def unwritten(state: RunState, problem: str) -> Update:  # noqa: ARG001 - every node's fallback takes the state
    """Return the failure; the recorder keeps what it was given."""
    return {"degraded": [f"write_back: {problem}"], "path": step(NodeName.WRITE_BACK, problem)}
