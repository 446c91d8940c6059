"""Memories: found, listed, and one whole: why it stands where it stands, what it came from, who used it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from governance.console.charts import layered
from governance.console.pages.done import can_undo, told
from governance.console.showing import page
from governance.console.visitor import Looks, parts_of
from governance.explain import explain
from governance.lineage import traced
from governance.policy import policy_of
from kb.model import Kind, MemoryId, SourceClass, Standing
from kb.search import SearchRequest
from kb.trust import effective

if TYPE_CHECKING:
    from governance.console.parts import Parts
    from kb.model import Memory

router = APIRouter()
SHOWN = 50
USED = 20
INDEXED = (Standing.ACTIVE, Standing.QUARANTINED, Standing.SUPERSEDED)  # what words find
Words = Annotated[str, Query(max_length=500)]


@router.get("/memories")
async def listed(
    request: Request,
    who: Looks,
    q: Words = "",
    standing: Standing | None = None,
    after: Annotated[str, Query(max_length=128)] = "",
) -> Response:
    """List memories, or those that come near some words, whatever their confidence."""
    parts = parts_of(request)
    given = await parts.threads.call(_listed, parts, who.tenant, q.strip(), standing, after)
    return page(request, "memories.html", who, shown=SHOWN, **given)


@router.get("/memories/{memory_id}")
async def shown(request: Request, who: Looks, memory_id: str, done: str = "", refused: int = 0) -> Response:
    """Show one memory."""
    parts = parts_of(request)
    given = await parts.threads.call(_shown, parts, who.tenant, memory_id, done)
    return page(request, "memory.html", who, refused=refused, **given)


@router.get("/memories/{memory_id}/lineage")
async def lineage(request: Request, who: Looks, memory_id: str) -> Response:
    """Show where it came from and what was made from it, as a graph."""
    parts = parts_of(request)
    given = await parts.threads.call(_lineage, parts, who.tenant, memory_id)
    return page(request, "lineage.html", who, **given)


def _listed(parts: Parts, tenant: str, words: str, standing: Standing | None, after: str) -> dict[str, Any]:
    memories = parts.memories
    standings = (standing,) if standing else ()
    is_unindexed = bool(words) and standing is not None and standing not in INDEXED
    if is_unindexed:
        found: list[Memory] = []
    elif words:
        among = standings or INDEXED
        request = SearchRequest(question=words, tenant=tenant, k=SHOWN, gate=None, standings=among, explain=False)
        found = [hit.memory for hit in memories.search(request).hits]
    else:
        kinds = tuple(kind for kind in Kind if kind is not Kind.ANSWER)
        found = memories.page(tenant, after=after, limit=SHOWN, standings=standings, kinds=kinds)
    return {
        "memories": found,
        "believed": {m.id: _believed(parts, m) for m in found},
        "gate": parts.memories.gate,
        "next": found[-1].id if len(found) == SHOWN and not words else "",
        "q": words,
        "is_unindexed": is_unindexed,
        "chosen": standing.value if standing else "",
        "standings": [s.value for s in Standing if s is not Standing.STAGED],
    }


def _believed(parts: Parts, memory: Memory) -> float:
    return effective(memory.trust, parts.clock.now(), parts.memories.policies[memory.source_class].half_life)


def _shown(parts: Parts, tenant: str, memory_id: str, done: str) -> dict[str, Any]:
    memories = parts.memories
    policy = policy_of(parts.settings, tenant)
    explained = explain(memories, MemoryId(memory_id), policy, parts.clock.now())
    with memories.ledger.read() as tx:
        used = [tx.answers.get(id_, tenant) for id_ in tx.answers.of_memory(MemoryId(memory_id))[:USED]]
    trace = traced(memories, memory_id, tenant)
    sweep = told(memories, tenant, done)
    return {
        "e": explained,
        "m": explained.memory,
        "gate": policy.gate,
        "until": explained.now + policy.trust[SourceClass.CURATED].hold,
        "used": [a for a in used if a is not None],
        "up": len(trace.up),
        "down": len(trace.down),
        "document": trace.document,
        "sweep": sweep,
        "undoable": sweep is not None and can_undo(sweep),
        "was_kept_out": explained.memory.standing in (Standing.RETIRED, Standing.QUARANTINED),
    }


def _lineage(parts: Parts, tenant: str, memory_id: str) -> dict[str, Any]:
    trace = traced(parts.memories, memory_id, tenant)
    up = [(s.id, s.edge.child, s.edge.kind.value, s.distance) for s in trace.up]
    down = [(s.id, s.edge.parent, s.edge.kind.value, s.distance) for s in trace.down]
    graph = layered(memory_id, up, down)
    return {"id": memory_id, "graph": graph, "nodes": {n.id: trace.node(n.id) for n in graph.nodes}, "trace": trace}
