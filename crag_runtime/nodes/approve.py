"""Approve: whether the web is asked, decided by the policy or by a person before anything is paid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time
from langgraph.types import interrupt

from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.routes import open_subs
from crag_runtime.state import NodeName, RunState, Update, step
from kb.errors import InputError

if TYPE_CHECKING:
    from kb.model import Json

MAX_WORDS = 400  # characters of an edited search


async def approve(state: RunState, runtime: Runtime[Deps]) -> Update:
    """Return the decision on a search. A question waits here, across restarts, when a person must decide."""
    search, policy = runtime.context.search, runtime.context.policy
    queries: list[dict[str, Json]] = [{"sub": sub, "query": state["tried"][sub][-1]} for sub in open_subs(state)]
    assert search is not None
    mode = state.get("approve") or policy.approve
    if mode == "never":
        return _decided("declined", [], "the policy never asks the web")
    if mode == "always" or not search.is_paid:
        return _decided("not_needed", queries, f"{len(queries)} queries for {search.name}, no approval needed")
    answer = interrupt(
        {
            "kind": "approve_search",
            "provider": search.name,
            "queries": [q["query"] for q in queries],
            "max_searches": policy.budgets.searches,
        }
    )
    # days may have passed meanwhile: what is found from here on is looked at as of now
    return {**decided(queries, answer), "asked_at": runtime.context.clock.now()}


def decided(queries: list[dict[str, Json]], answer: object) -> Update:
    """Return what a person's answer means; anything but a clear yes is a no.

    Args:
        queries: what would be searched.
        answer: {"decision": approve | edit | decline, "query": the words to search instead, for edit}.
    """
    said = answer if isinstance(answer, dict) else {"decision": answer}
    decision, words = str(said.get("decision", "")), str(said.get("query") or "").strip()
    if decision == "edit" and words:
        edited: list[dict[str, Json]] = [{"sub": q["sub"], "query": words} for q in queries]  # one search for all
        return _decided("approved", edited, f"approved with other words: {words}")
    if decision == "approve":
        return _decided("approved", queries, "approved")
    return _decided("declined", [], "declined")


def checked_decision(decision: str, query: str) -> dict[str, str] | None:
    """Return what a person said as `decided` takes it; None for nothing.

    Raises:
        InputError: it is none of approve, decline and edit, or an edit without usable words.
    """
    if not decision:
        if query.strip():
            raise InputError("words to search for come with the decision edit")
        return None
    if decision not in ("approve", "decline", "edit"):
        raise InputError(f"decision is {decision!r}; it must be approve, decline or edit")
    words = query.strip()
    if (decision == "edit") != bool(words):
        raise InputError("an edited search needs its words" if decision == "edit" else f"{decision} takes no words")
    if len(words) > MAX_WORDS:
        raise InputError(f"the words to search for are longer than {MAX_WORDS} characters")
    return {"decision": decision, "query": words}


def _decided(approval: str, queries: list[dict[str, Json]], why: str) -> Update:
    return {"approval": approval, "web_queries": queries, "path": step(NodeName.APPROVE, why)}
