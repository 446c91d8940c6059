"""Sources: what is kept in step, when that was done last, what it holds and what of it failed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from governance.console.showing import page
from governance.console.visitor import Looks, parts_of

if TYPE_CHECKING:
    from governance.console.parts import Parts

router = APIRouter()
FAILURES = 20


@router.get("/sources")
async def sources(request: Request, who: Looks) -> Response:
    """List the tenant's sources."""
    parts = parts_of(request)
    return page(request, "sources.html", who, **await parts.threads.call(_sources, parts, who.tenant))


def _sources(parts: Parts, tenant: str) -> dict[str, Any]:
    with parts.memories.ledger.read() as tx:
        counts: dict[str, Counter[str]] = {}
        for count in tx.memories.counts(tenant):
            counts.setdefault(count.root, Counter())[count.standing.value] += count.count
        found = [
            {
                "root": root,
                "counts": counts.get(root.name, Counter()),
                "run": tx.runs.latest("ingest", tenant=tenant, root=root.name),
                "failed": len(failures := tx.failures.of_root(tenant, root.name)),
                "failures": failures[:FAILURES],
            }
            for root in tx.sources.list(tenant)
        ]
    return {"sources": found, "beside": sorted(counts.get("", Counter()).items())}
