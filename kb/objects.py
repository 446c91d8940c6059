"""Memories and hits as JSON objects, the same on the command line and over HTTP: stable keys, see the reference."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from kb.clock import iso
from kb.model import FOREVER
from kb.rolled_back import since_undone
from kb.trust import effective, leaves_gate_at

if TYPE_CHECKING:
    from kb.memories import Memories
    from kb.model import Json, Memory
    from kb.search import Hit, SearchResult, Suppressed
    from kb.sweeps import Sweep, SweepId


def memory_object(memories: Memories, memory: Memory) -> dict[str, Json]:
    """Return a memory under the stable keys of docs/reference/json.md, with its trust at this instant."""
    half_life = memories.policies[memory.source_class].half_life
    trust, now = memory.trust, memories.clock.now()
    leaves = leaves_gate_at(trust, memories.gate, half_life)
    return {
        "id": memory.id,
        "tenant": memory.tenant,
        "kind": memory.kind.value,
        "source_class": memory.source_class.value,
        "source": memory.source,
        "title": memory.passage.title,
        "heading_path": list(memory.passage.heading_path),
        "page": memory.passage.page,
        "standing": memory.standing.value,
        "standing_reason": since_undone(memory.standing_reason, partial(_sweep, memories)),
        "confidence": trust.confidence,
        "effective_confidence": round(effective(trust, now, half_life), 6),
        "verified": trust.verified,
        "pinned": memory.pinned,
        "leaves_gate_at": iso(leaves) if 0 < leaves < FOREVER else None,
        "valid_from": iso(memory.valid_from),
        "valid_to": iso(memory.valid_to) if memory.valid_to < FOREVER else None,
        "rev": memory.rev,
        "metadata": dict(memory.metadata),
        "text": memory.text,
    }


def _sweep(memories: Memories, id_: SweepId) -> Sweep | None:
    with memories.ledger.read() as tx:
        return tx.sweeps.get(id_)


def search_object(result: SearchResult) -> dict[str, Json]:
    """Return what a search found, and what the gate stopped."""
    return {
        "hits": [_hit(h) for h in result.hits],
        "suppressed": {
            "count": len(result.suppressed),
            "reasons": dict(Counter(s.reason.value for s in result.suppressed)),
            "memories": [_suppressed(s) for s in result.suppressed],
        },
        "mode": result.arms.value,
    }


def _hit(hit: Hit) -> dict[str, Json]:
    m = hit.memory
    return {
        "id": m.id,
        "text": m.text,
        "source": m.source,
        "title": m.passage.title,
        "heading_path": list(m.passage.heading_path),
        "page": m.passage.page,
        "score": round(hit.score, 6),
        "confidence": m.trust.confidence,
        "effective_confidence": round(hit.effective_confidence, 6),
        "verified": m.trust.verified,
        "standing": m.standing.value,
        "kind": m.kind.value,
        "source_class": m.source_class.value,
        "reasons": list(hit.reasons),
        "metadata": dict(m.metadata),
    }


def _suppressed(s: Suppressed) -> dict[str, Json]:
    return {
        "id": s.memory.id,
        "source": s.memory.source,
        "reason": s.reason.value,
        "score": round(s.score, 6),
        "effective_confidence": round(s.effective_confidence, 6),
    }
