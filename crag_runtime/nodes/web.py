"""Web: one search per distinct query within the budget; what comes back is graded like any other passage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time

from crag_runtime.codec import plain, restored
from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Finding, Usage
from crag_runtime.recording.findings import finding_id, kept_text
from crag_runtime.sight import lookup_of
from crag_runtime.state import Candidate, Found, NodeName, RunState, Update, scope_of, spent, step
from kb.errors import Fault, SearchUnavailable
from kb.telemetry import Attr, Metric, Operation, Span, count, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_runtime.ports import WebSearch
    from kb.model import Json


async def web(state: RunState, runtime: Runtime[Deps]) -> Update:
    """Return findings. A search that times out is asked for once more, in other words; another fault ends searching."""
    deps = runtime.context
    search = deps.search
    assert search is not None
    searched, found = list(state["searched"]), {(f["sub"], f["id"]): f for f in state["found"]}
    used, timed_out, problem = 0, [], ""
    for query, subs in _by_query(state).items():
        if state["searches"] + used >= deps.policy.budgets.searches:
            break
        searched += [] if query in searched else [query]
        used += 1
        count(Metric.WEB_SEARCHES)
        try:
            findings = await _searched(search, query, deps.policy.max_results)
        except SearchUnavailable as error:
            problem = f"{search.name}: {error.fault.value}"
            timed_out += [_asked(sub, query) for sub in subs] if error.fault is Fault.TIMEOUT else []
            continue
        for finding in findings:
            id_ = finding_id(finding, tenant=state["tenant"], scope=scope_of(state))
            found.update({(s, id_): Found(sub=s, id=id_, query=query, finding=plain(finding)) for s in subs})
    texts = {f["id"]: kept_text(restored(Finding, f["finding"])) for f in found.values()}
    known = await deps.threads.call(deps.store.screened, set(texts), lookup_of(state, deps.policy), texts)
    stored = [Candidate(sub=f["sub"], id=f["id"], score=0.0) for f in found.values() if f["id"] in known.stored]
    found = {key: f for key, f in found.items() if f["id"] not in known.stored | known.refused}
    is_retry = bool(timed_out) and not state["is_retry"] and state["searches"] + used < deps.policy.budgets.searches
    why = f"{used} searches, {len(found) - len(state['found'])} findings"
    why += f", {len(known.refused)} refused before" if known.refused else ""
    return {
        "found": list(found.values()),
        "candidates": state["candidates"] + [c for c in stored if (c["sub"], c["id"]) not in _keys(state)],
        "searched": searched,
        "searches": state["searches"] + used,
        "web_queries": timed_out if is_retry else [],
        "is_retry": is_retry,
        "faults": ["search"] if problem and not is_retry else [],
        "degraded": [f"web: {problem}"] if problem else [],
        "usage": spent(Usage(searches=used)),
        "path": step(NodeName.WEB, f"{why}{'; ' + problem if problem else ''}"),
    }


async def _searched(search: WebSearch, query: str, limit: int) -> Sequence[Finding]:
    with span(Span.WEB_SEARCH, {Attr.OPERATION: Operation.TOOL.value, Attr.TOOL: search.name}) as recording:
        recording.capture(Attr.QUERY, lambda: query)
        findings = await search.search(query, limit=limit)
        recording.set({Attr.RESULTS: len(findings)})
        return findings


def _by_query(state: RunState) -> dict[str, list[int]]:
    """Return the queries to search and the sub-questions each is for: one search per distinct query.

    Only a search that timed out may be made again in the same words, when those are the words a person approved.
    """
    queries: dict[str, list[int]] = {}
    for asked in state["web_queries"]:
        queries.setdefault(str(asked["query"]), []).append(int(str(asked["sub"])))
    done = set() if state["is_retry"] else set(state["searched"])
    return {query: subs for query, subs in queries.items() if query not in done}


def _asked(sub: int, query: str) -> dict[str, Json]:
    return {"sub": sub, "query": query}


def _keys(state: RunState) -> set[tuple[int, str]]:
    return {(c["sub"], c["id"]) for c in state["candidates"]}


def unsearched(state: RunState, problem: str) -> Update:
    """Return nothing found; a search that ran out of the node's time was still made."""
    return {
        "searches": state["searches"] + 1,
        "web_queries": [],
        "is_retry": False,
        "faults": ["search"],
        "degraded": [f"web: {problem}"],
        "usage": spent(Usage(searches=1)),
        "path": step(NodeName.WEB, problem),
    }
