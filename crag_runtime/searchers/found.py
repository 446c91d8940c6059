"""What every adapter does with a reply: normalise it off the loop, count what was left out, complain if it is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_runtime.searchers.normal import normalised
from kb.errors import Fault, SearchUnavailable
from kb.telemetry import Metric, count

if TYPE_CHECKING:
    from crag_runtime.evidence import Finding
    from crag_runtime.threads import Threads


async def found(payload: object, *, who: str, limit: int, threads: Threads) -> list[Finding]:
    """Return the findings of a reply.

    Raises:
        SearchUnavailable: malformed, when the reply is no list of results.
    """
    result = await threads.call(normalised, payload, limit=limit)
    count(Metric.WEB_DROPPED, result.malformed, provider=who, why="malformed")
    count(Metric.WEB_DROPPED, result.repeated, provider=who, why="repeated")
    if result.complaint:
        raise SearchUnavailable(f"{who}: {result.complaint}", fault=Fault.MALFORMED)
    return list(result.findings)
