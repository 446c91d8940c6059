"""Backup: a second source of evidence, another tenant of the same store, looked in under the same gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time

from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Usage
from crag_runtime.nodes.retrieve import merged, unretrieved
from crag_runtime.routes import open_subs
from crag_runtime.sight import lookup_of
from crag_runtime.state import NodeName, RunState, Update, plan_of, spent, step
from crag_runtime.store import of_backup

if TYPE_CHECKING:
    from crag_runtime.state import Candidate


async def backup(state: RunState, runtime: Runtime[Deps]) -> Update:
    """Return what the second source has for each open sub-question, asked in its own words and in the newest."""
    deps = runtime.context
    asked = [(sub, words) for sub in open_subs(state) for words in _words(state["tried"][sub])]
    lookup = of_backup(lookup_of(state, deps.policy))
    found = await deps.threads.call(deps.store.retrieve, [words for _, words in asked], lookup)
    candidates: list[Candidate] = merged(state["candidates"], [sub for sub, _ in asked], found)
    new = len(candidates) - len(state["candidates"])
    ids = dict.fromkeys(id_ for passages in found.passages for id_, _ in passages)
    gate = deps.policy.gate[plan_of(state).type]
    return {
        "is_backed_up": True,
        "borrowed": list(ids),
        "candidates": candidates,
        "usage": spent(Usage(embeddings=found.embedded)),
        "path": step(NodeName.BACKUP, f"{new} passages of {lookup.tenant} above gate {gate:g}"),
    }


def _words(tried: list[str]) -> list[str]:
    return list(dict.fromkeys((tried[0], tried[-1])))


def unbacked(state: RunState, problem: str) -> Update:
    """Return nothing new: it is one store, and what failed for the second source failed for the first."""
    failed = unretrieved(state, problem)
    return {
        **failed,
        "is_backed_up": True,
        "degraded": [f"backup: {problem}"],
        "path": step(NodeName.BACKUP, problem),
    }
