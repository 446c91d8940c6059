"""Human: a person decides with what was found; where nothing is kept to wait with, the outcome says one is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime  # noqa: TC002 - the graph reads this annotation at run time
from langgraph.types import interrupt

from crag_runtime.deps import Deps  # noqa: TC001
from crag_runtime.evidence import Verdict
from crag_runtime.routes import open_subs, usable
from crag_runtime.sight import lookup_of
from crag_runtime.state import NodeName, RunState, Update, findings_of, plan_of, step

if TYPE_CHECKING:
    from crag_runtime.routes import Limits
    from kb.model import Json

SHOWN = 10  # passages that a person is shown


async def human(state: RunState, runtime: Runtime[Deps], limits: Limits) -> Update:
    """Return the decision. A question waits here, across restarts; no text leaves the store while it does."""
    if not limits.waits:
        return {
            "person": "needed",
            "path": step(NodeName.HUMAN, "a person is needed, and nothing is kept to wait with"),
        }
    deps, parts = runtime.context, plan_of(state).sub_questions
    found = await deps.threads.call(_found, state, deps)
    answer = interrupt({"kind": "judge_evidence", "queries": [parts[sub] for sub in open_subs(state)], "found": found})
    # days may have passed meanwhile: what is found from here on is looked at as of now
    return {**judged(state, answer), "asked_at": deps.clock.now()}


def judged(state: RunState, answer: object) -> Update:
    """Return what a person's answer means; anything but a clear yes is a no.

    A yes lets what was found be used for what it is: an unsure answer stays an unsure one. A no drops it, and leaves
    the sub-questions that are settled without it. Other words are looked up in the store once more.

    Args:
        state: when the person was asked.
        answer: {"decision": approve | edit | decline, "query": the words to look up instead, for edit}.
    """
    said = answer if isinstance(answer, dict) else {"decision": answer}
    decision, words = str(said.get("decision", "")), str(said.get("query") or "").strip()
    if decision == "edit" and words:
        subs = open_subs(state)
        return {
            "person": "edited",
            "queries": [words if sub in subs else "" for sub in range(len(state["tried"]))],
            "tried": [[*tried, words] if sub in subs else list(tried) for sub, tried in enumerate(state["tried"])],
            "path": step(NodeName.HUMAN, f"to be looked up in other words: {words}"),
        }
    if decision == "approve":
        return {"person": "approved", "path": step(NodeName.HUMAN, "what was found may be used")}
    kept = [v if v == Verdict.CORRECT else Verdict.INCORRECT.value for v in state["verdicts"]]
    return {"person": "declined", "verdicts": kept, "path": step(NodeName.HUMAN, "what was found is not to be used")}


def _found(state: RunState, deps: Deps) -> list[dict[str, Json]]:
    """Return what a yes would let be used for the open sub-questions, the most relevant first: no text."""
    subs = open_subs(state)
    grades = [g["grade"] for sub in subs for g in usable(state["grades"], sub, state["verdicts"][sub])]
    best = sorted(grades, key=lambda grade: -float(str(grade["relevance"] or 0.0)))
    ids = {str(grade["id"]): 0.0 for grade in best}
    evidence = deps.store.usable(ids, findings_of(state), lookup_of(state, deps.policy))
    shown: dict[str, dict[str, Json]] = {}
    for grade in best:
        e = evidence.get(str(grade["id"]))
        if e is not None and e.id not in shown:
            shown[e.id] = {
                "memory_id": e.id,
                "source": e.source,
                "url": e.url or None,
                "title": e.title,
                "label": grade["label"],
                "relevance": grade["relevance"],
            }
    return list(shown.values())[:SHOWN]


def undecided(state: RunState, problem: str) -> Update:  # noqa: ARG001 - every node's fallback takes the state
    """Return that a person is needed: what was found cannot be shown now."""
    return {"person": "needed", "degraded": [f"human: {problem}"], "path": step(NodeName.HUMAN, problem)}
