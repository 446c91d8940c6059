"""What a question may see, read off its state: the same for retrieval and for every later look at its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_runtime.state import plan_of, scope_of
from crag_runtime.store import Lookup

if TYPE_CHECKING:
    from crag_runtime.policy import RuntimePolicy
    from crag_runtime.state import GradeInput, RunState


def lookup_of(state: RunState | GradeInput, policy: RuntimePolicy) -> Lookup:
    """Return the tenant, scope, gate and instant of a question, and what it is narrowed to."""
    at = state.get("at")
    return Lookup(
        tenant=state["tenant"],
        k=policy.k,
        gate=policy.gate[plan_of(state).type],
        scope=scope_of(state),
        at=state.get("as_of") if at is None else at,
        sources=tuple(state.get("sources", [])),
        doc_ids=tuple(state.get("doc_ids", [])),
        backup=policy.backup_tenant,
    )
