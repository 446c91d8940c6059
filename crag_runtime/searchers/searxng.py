"""Web search by a SearXNG instance of one's own, through its JSON API; free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_runtime.searchers.exchange import Call, Exchange
from crag_runtime.searchers.found import found
from crag_runtime.searchers.normal import asked_query
from kb.errors import Fault, SearchUnavailable

if TYPE_CHECKING:
    from crag_runtime.evidence import Finding
    from crag_runtime.threads import Threads

NAME = "searxng"


class SearxngSearch:
    """Implements `crag_runtime.ports.WebSearch`.

    Args:
        url: base URL of the instance, http(s).
        seconds: wall-clock limit of one search.
        threads: where replies are decoded.
    """

    name = NAME
    is_paid = False

    def __init__(self, url: str, *, seconds: float, threads: Threads) -> None:
        self._url = f"{url.rstrip('/')}/search"
        self._threads = threads
        self._exchange = Exchange(NAME, seconds=seconds, threads=threads)

    async def search(self, query: str, *, limit: int) -> list[Finding]:
        """Return what the web says; an empty query, or a limit below 1, asks nobody and gives nothing."""
        asked = asked_query(query)
        if not asked or limit < 1:
            return []
        call = Call(
            method="GET", url=self._url, headers={"Accept": "application/json"}, query={"q": asked, "format": "json"}
        )
        try:
            payload = await self._exchange.reply(call)
        except SearchUnavailable as error:
            if error.fault is Fault.UNAUTHORISED:
                error.hint = "add `json` to `search.formats` in the instance's settings.yml, or allow this client there"
            raise
        findings = await found(payload, who=NAME, limit=limit, threads=self._threads)
        if not findings and (silent := _silent_engines(payload)):
            raise SearchUnavailable(f"{NAME} found nothing, its engines being away: {silent}", fault=Fault.SERVER)
        return findings


def _silent_engines(payload: object) -> str:
    """Return the engines that did not answer; finding nothing says something only if somebody looked."""
    named = payload.get("unresponsive_engines") if isinstance(payload, dict) else None
    if not isinstance(named, list):
        return ""
    return ", ".join(": ".join(str(p) for p in e) if isinstance(e, list) else str(e) for e in named)[:200]
