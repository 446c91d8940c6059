"""The generator's task, rebuilt from the ids in the state: the same for the first draft, the second, and the check."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from crag_runtime.codec import restored
from crag_runtime.evidence import Conflict, Excerpt, Label, Task
from crag_runtime.routes import is_uncertain
from crag_runtime.sight import lookup_of
from crag_runtime.state import findings_of, plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crag_runtime.deps import Deps
    from crag_runtime.evidence import Side
    from crag_runtime.state import RunState


async def task_of(state: RunState, deps: Deps) -> Task:
    """Return the task, read in a thread; see `read_task`."""
    return await deps.threads.call(read_task, state, deps)


def read_task(state: RunState, deps: Deps) -> Task:
    """Return the task. A memory that may not be used any more since it was graded is left out.

    Raises:
        LedgerUnavailable: the texts cannot be read now.
    """
    plan = plan_of(state)
    ids = {str(e["id"]): 0.0 for e in state["excerpts"]}
    evidence = deps.store.usable(ids, findings_of(state), lookup_of(state, deps.policy))
    excerpts = tuple(
        Excerpt(
            evidence=evidence[e["id"]],
            sub=e["sub"],
            strips=tuple(evidence[e["id"]].text[start:end] for start, end in e["strips"]),
            relevance=e["relevance"],
            label=Label(e["label"]),
            answer=e["answer"],
        )
        for e in state["excerpts"]
        if e["id"] in evidence
    )
    return Task(
        plan=plan,
        excerpts=excerpts,
        missing=tuple(plan.sub_questions[sub] for sub in state["missing"]),
        conflicts=standing([restored(Conflict, c) for c in state["conflicts"]], excerpts),
        today=state["asked_at"],
        is_uncertain=is_uncertain(state),
        complaint=state["complaint"],
    )


def standing(conflicts: Sequence[Conflict], excerpts: Sequence[Excerpt]) -> tuple[Conflict, ...]:
    """Return what of the conflicts may still be shown: sides that evidence stands for, in words that it has. Pure.

    A conflict was found when evidence was refined; whatever went since then takes its words with it.
    """
    found = (replace(c, sides=tuple(_standing(c.sides, excerpts))) for c in conflicts)
    return tuple(c for c in found if len(c.sides) > 1)


def _standing(sides: Sequence[Side], excerpts: Sequence[Excerpt]) -> Iterator[Side]:
    for side in sides:
        own = [e for e in excerpts if e.evidence.id in side.ids]
        ids = tuple(id_ for id_ in side.ids if any(e.evidence.id == id_ for e in own))
        if ids == side.ids or any(side.quote in e.evidence.text for e in own):
            yield replace(side, ids=ids)
        elif own:  # who was quoted is gone
            e = own[0].evidence
            yield replace(side, ids=ids, quote="\n".join(own[0].strips), source=e.url or e.source, dated=None)
