"""Retrieve: what the gate lets through for each sub-question, added to what earlier rounds found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time

from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Usage
from crag_runtime.sight import lookup_of
from crag_runtime.state import Candidate, NodeName, RunState, Update, plan_of, spent, step
from kb.clock import iso

if TYPE_CHECKING:
    from crag_runtime.store import Retrieved
    from kb.model import Instant, Json
    from kb.search import Suppressed


async def retrieve(state: RunState, runtime: Runtime[Deps]) -> Update:
    """Search every sub-question that has a query; evidence of earlier rounds stays."""
    deps = runtime.context
    subs = [sub for sub, query in enumerate(state["queries"]) if query]
    found, as_of = await deps.threads.call(_found, state, [state["queries"][sub] for sub in subs], deps)
    candidates = merged(state["candidates"], subs, found)
    new = len(candidates) - len(state["candidates"])
    suppressed = _suppressed(state["suppressed"], found.suppressed, {c["id"] for c in candidates})
    gate = deps.policy.gate[plan_of(state).type]
    then = f", as of {iso(as_of)}" if as_of is not None else ""
    return {
        "as_of": as_of,
        "candidates": candidates,
        "suppressed": suppressed,
        "usage": spent(Usage(embeddings=found.embedded)),
        "path": step(NodeName.RETRIEVE, f"{new} passages above gate {gate:g}, {len(suppressed)} suppressed{then}"),
    }


def _found(state: RunState, queries: list[str], deps: Deps) -> tuple[Retrieved, Instant | None]:
    """Return what is found, and the instant that the question's own words made it look back to.

    "As of March 2024" may mean what was known then, or what is known by now about then. The versions that were valid
    then come first; a store that knew nothing at all then is asked for what it knows now.
    """
    lookup = lookup_of(state, deps.policy)
    worded = plan_of(state).time.as_of
    is_open = state.get("at") is None and worded is not None and not state["candidates"]
    if is_open and worded is not None:
        found = deps.store.retrieve(queries, replace(lookup, at=worded))
        if any(found.passages):
            return found, worded
        now = deps.store.retrieve(queries, lookup)
        return replace(now, embedded=now.embedded + found.embedded), None
    return deps.store.retrieve(queries, lookup), state["as_of"]


def merged(known: list[Candidate], subs: list[int], found: Retrieved) -> list[Candidate]:
    """Return old and new passages, each (sub-question, id) once with its best score."""
    merged = {(c["sub"], c["id"]): c for c in known}
    for sub, passages in zip(subs, found.passages, strict=True):
        for id_, score in passages:
            before = merged.get((sub, id_))
            if before is None or score > before["score"]:
                merged[sub, id_] = Candidate(sub=sub, id=id_, score=score)
    return list(merged.values())


def _suppressed(
    known: list[dict[str, Json]], found: tuple[Suppressed, ...], retrieved: set[str]
) -> list[dict[str, Json]]:
    """Return what the gate stopped: never a text."""
    shown: dict[str, dict[str, Json]] = {str(s["memory_id"]): s for s in known}
    for stopped in found:
        memory = stopped.memory
        shown[memory.id] = {
            "memory_id": memory.id,
            "source": memory.source,
            "reason": stopped.reason.value,
            "effective_confidence": round(stopped.effective_confidence, 4),
        }
    return [s for id_, s in shown.items() if id_ not in retrieved]


def unretrieved(state: RunState, problem: str) -> Update:
    """Return nothing new and which part of the store failed; a failure of the store is never paid for with a search."""
    parts = {"EmbedderUnavailable": "embedder", "LedgerUnavailable": "ledger"}
    return {
        "faults": [parts.get(problem.split(":", 1)[0], "index")],
        "degraded": [f"retrieve: {problem}"],
        "path": step(NodeName.RETRIEVE, problem),
        "candidates": state["candidates"],
    }
