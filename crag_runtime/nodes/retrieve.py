"""Retrieve: what the gate lets through for each sub-question, added to what earlier rounds found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time

from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Usage
from crag_runtime.state import Candidate, NodeName, RunState, Update, plan_of, scope_of, spent, step
from crag_runtime.store import Lookup

if TYPE_CHECKING:
    from crag_runtime.store import Retrieved
    from kb.model import Json
    from kb.search import Suppressed


async def retrieve(state: RunState, runtime: Runtime[Deps]) -> Update:
    """Search every sub-question that has a query; evidence of earlier rounds stays."""
    deps = runtime.context
    subs = [sub for sub, query in enumerate(state["queries"]) if query]
    lookup = _lookup(state, deps)
    found = await deps.threads.call(deps.store.retrieve, [state["queries"][sub] for sub in subs], lookup)
    candidates = _merged(state["candidates"], subs, found)
    new = len(candidates) - len(state["candidates"])
    suppressed = _suppressed(state["suppressed"], found.suppressed, {c["id"] for c in candidates})
    return {
        "candidates": candidates,
        "suppressed": suppressed,
        "usage": spent(Usage(embeddings=found.embedded)),
        "path": step(NodeName.RETRIEVE, f"{new} passages above gate {lookup.gate:g}, {len(suppressed)} suppressed"),
    }


def _lookup(state: RunState, deps: Deps) -> Lookup:
    plan = plan_of(state)
    at = state.get("at")
    return Lookup(
        tenant=state["tenant"],
        k=deps.policy.k,
        gate=deps.policy.gate[plan.type],
        scope=scope_of(state),
        at=plan.time.as_of if at is None else at,
        sources=tuple(state.get("sources", [])),
        doc_ids=tuple(state.get("doc_ids", [])),
    )


def _merged(known: list[Candidate], subs: list[int], found: Retrieved) -> list[Candidate]:
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
