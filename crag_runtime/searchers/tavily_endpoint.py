"""Tavily's tool of langchain-tavily, with a transport that has a time limit and tells faults apart.

The package's own transport has no timeout to set, drops `Retry-After`, and turns every failure into one text.
"""

from __future__ import annotations

from typing import Any

from langchain_tavily import TavilySearch
from langchain_tavily._utilities import TAVILY_API_URL, TavilySearchAPIWrapper
from pydantic import ConfigDict, SecretStr

from crag_runtime.searchers.exchange import Call, Exchange
from crag_runtime.searchers.normal import entries_of
from kb.errors import Fault, SearchUnavailable


class Endpoint(TavilySearchAPIWrapper):
    """The package's wrapper of the API, asking through our exchange."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    exchange: Exchange

    async def raw_results_async(self, *_: Any, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - the package's
        """Return the reply to a search as a mapping with `results`: the tool takes one without them for an empty one.

        Raises:
            SearchUnavailable: with the fault; the tool hands it on inside its result.
        """
        call = Call(
            method="POST",
            url=f"{(self.api_base_url or TAVILY_API_URL).rstrip('/')}/search",
            headers={
                "Authorization": f"Bearer {self.tavily_api_key.get_secret_value()}",
                "X-Client-Source": "langchain-tavily",
            },
            body={name: value for name, value in parameters.items() if value is not None},
        )
        reply = await self.exchange.reply(call)
        entries = entries_of(reply)
        if isinstance(entries, str):
            raise SearchUnavailable(f"{self.exchange.who}: {entries}", fault=Fault.MALFORMED)
        return {"results": entries}


def open_tool(key: SecretStr, *, url: str | None, limit: int, exchange: Exchange) -> TavilySearch:
    """Return the tool, set to plain results and nothing that costs more."""
    # in plain: the package makes a text of what it gets, and a SecretStr's text is asterisks
    given = {"tavily_api_key": key.get_secret_value(), "api_base_url": url, "exchange": exchange}
    endpoint = Endpoint.model_validate(given)
    return TavilySearch(
        api_wrapper=endpoint,
        max_results=limit,
        search_depth="basic",
        topic="general",
        include_answer=False,
        include_raw_content=False,
        include_images=False,
        auto_parameters=False,  # it may choose the depth that costs twice
        handle_tool_error=False,
    )
