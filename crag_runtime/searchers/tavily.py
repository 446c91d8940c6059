"""Web search by Tavily, through langchain-tavily; paid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crag_runtime.searchers.exchange import Exchange
from crag_runtime.searchers.found import found
from crag_runtime.searchers.normal import asked_query
from kb.errors import Fault, SearchUnavailable

if TYPE_CHECKING:
    from pydantic import SecretStr

    from crag_runtime.evidence import Finding
    from crag_runtime.threads import Threads

NAME = "tavily"
MAX_RESULTS = 20  # Tavily's own limit


class TavilyWebSearch:
    """Implements `crag_runtime.ports.WebSearch`. The package is imported with the first search, in a thread.

    Args:
        key: Tavily's key.
        url: a proxy's base URL; None for Tavily's own.
        seconds: wall-clock limit of one search.
        threads: where the package is imported and replies are decoded.
    """

    name = NAME
    is_paid = True

    def __init__(self, key: SecretStr, *, url: str | None, seconds: float, threads: Threads) -> None:
        self._key = key
        self._url = url
        self._threads = threads
        self._exchange = Exchange(NAME, seconds=seconds, threads=threads)

    async def search(self, query: str, *, limit: int) -> list[Finding]:
        """Return what the web says; an empty query, or a limit below 1, asks nobody and costs nothing."""
        asked = asked_query(query)
        if not asked or limit < 1:
            return []
        payload = await self._asked(asked, min(limit, MAX_RESULTS))
        if isinstance(payload, dict) and isinstance(error := payload.get("error"), Exception):
            if isinstance(error, SearchUnavailable):
                raise error
            raise SearchUnavailable(f"{NAME}: {type(error).__name__}", fault=Fault.MALFORMED) from error
        return await found(payload, who=NAME, limit=limit, threads=self._threads)

    async def _asked(self, query: str, limit: int) -> object:
        tool, nothing_found = await self._threads.call(self._tool, limit)
        try:
            payload: object = await tool.ainvoke({"query": query})
        except nothing_found:
            return []
        return payload

    def _tool(self, limit: int) -> tuple[Any, type[Exception]]:  # the vendor's type is not at hand before its import
        from langchain_core.tools import ToolException  # noqa: PLC0415 - takes seconds

        from crag_runtime.searchers.tavily_endpoint import open_tool  # noqa: PLC0415 - likewise

        return open_tool(self._key, url=self._url, limit=limit, exchange=self._exchange), ToolException
