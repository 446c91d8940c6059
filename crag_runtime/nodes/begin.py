"""The first node: a turn starts from nothing but what the caller gave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time
from langgraph.types import Overwrite

from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.state import ACCUMULATED, TRANSIENT, NodeName, RunState, Update, step

if TYPE_CHECKING:
    from typing import Any


async def begin(state: RunState, runtime: Runtime[Deps]) -> Update:
    """Put every transient field back, so that the last turn of the thread leaves nothing behind."""
    fresh: dict[str, Any] = {key: Overwrite(value) for key, value in ACCUMULATED.items()}
    notices = list(runtime.context.notices)
    fresh["path"] = Overwrite(step(NodeName.BEGIN, f"{len(state['question'])} characters asked"))
    fresh["degraded"] = Overwrite(notices)
    update: Update = {**TRANSIENT, **fresh, "asked_at": runtime.context.clock.now()}  # type: ignore[typeddict-item] # Overwrite stands for its value
    return update
