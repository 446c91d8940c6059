"""Generate: an answer from the excerpts and nothing else; a model that fails is replaced by quotation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time

from crag_runtime.codec import plain
from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Usage
from crag_runtime.state import NodeName, RunState, Update, spent, step
from crag_runtime.task import task_of
from kb.errors import ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from crag_runtime.evidence import Draft, Task


async def generate(state: RunState, runtime: Runtime[Deps]) -> Update:
    """Return a draft, streaming its pieces as they come; a void draft is announced."""
    deps, write = runtime.context, runtime.stream_writer
    task = await task_of(state, deps)
    if not task.excerpts:  # everything went away since it was refined
        return {"draft": {}, "complaint": "", "attempts": state["attempts"] + 1, "excerpts": [], "conflicts": []}
    draft, wasted, problem = await _draft(task, state, deps, write)
    degraded = [f"generate: {problem}"] if problem else []
    return {
        "draft": plain(draft),
        "attempts": state["attempts"] + 1,
        "usage": spent(draft.usage + wasted),
        "degraded": degraded,
        "path": step(NodeName.GENERATE, f"{draft.generator}, {len(draft.citations)} citations"),
    }


async def _draft(task: Task, state: RunState, deps: Deps, write: Callable[[object], None]) -> tuple[Draft, Usage, str]:
    """Return a draft, what failed attempts cost, and why the model did not write it ("" when it did)."""

    def emit(piece: str) -> None:
        write({"token": piece})

    if state["attempts"]:
        write({"void": True})
    try:
        return await deps.generator.generate(task, emit), Usage(), ""
    except ModelUnavailable as error:
        write({"void": True})
        wasted = Usage(llm_calls=error.calls, tokens_in=error.tokens_in, tokens_out=error.tokens_out)
        return await deps.quoting.generate(task, emit), wasted, f"{deps.generator.name}: {error.fault.value}"


def ungenerated(state: RunState, problem: str) -> Update:
    """Return no draft; the question is refused, since nothing could be written."""
    return {
        "draft": {},
        "attempts": state["attempts"] + 1,
        "faults": ["model"],
        "degraded": [f"generate: {problem}"],
        "path": step(NodeName.GENERATE, problem),
    }
