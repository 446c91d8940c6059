"""`kb govern explain`: why a memory stands where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from governance.objects import explanation_object, other_side
from kb_cli import render
from kb_cli.session import AsJson, Tenant, opened, settings_of

if TYPE_CHECKING:
    from governance.explain import Crossing, Explanation
    from kb.history import EvidenceEvent
    from kb.sweeps import Contradiction, Journaled

_NEXT = {
    "hold_ends": "its hold ends: from then on it decays",
    "leaves_gate": "it leaves the gate",
    "prune": "prune may retire it",
    "erase": "gc may erase it; until then `kb memory restore` brings it back",
}


def explain(
    id_: Annotated[str, typer.Argument(metavar="MEMORY", help="The memory's id.")],
    tenant: Tenant = None,
    as_json: AsJson = False,
) -> None:
    """Show why a memory stands where it stands: prior, evidence, decay, next crossing, what sweeps did."""
    from governance.explain import explain as explained
    from governance.policy import policy_of
    from kb.model import MemoryId

    settings = settings_of(tenant=tenant)
    with opened(settings) as memories:
        policy = policy_of(settings, settings.tenant)
        shown = explained(memories, MemoryId(id_), policy, memories.clock.now())
        whole = explanation_object(memories, shown)
    if as_json:
        render.emit_json(whole)
    else:
        render.say(*_explanation_lines(shown))


def _explanation_lines(e: Explanation) -> list[str]:
    parts = {
        "why": list(e.why),
        "contradictions": [_contradiction(e, c) for c in e.contradictions],
        "evidence": [_event(v) for v in e.evidence],
        "what was done": [_decision(j) for j in e.decisions],
        "next, if nothing else happens": [_next(e, c) for c in e.crossings],
    }
    head = [f"{e.memory.id}  {e.memory.source}", f"“{render.excerpt(e.memory.text, 100)}”"]
    body = [line for name, own in parts.items() if own for line in ("", name, *(f"   {text}" for text in own))]
    return [*head, *body]


def _contradiction(e: Explanation, c: Contradiction) -> str:
    from kb.clock import iso

    other, own, its = other_side(e, c)
    values = f": “{own}” here, “{its}” there" if own or its else ""
    end = f"settled {iso(c.settled_at)}: {c.settled_by}" if c.settled_at is not None else "open"
    return f"{iso(c.found_at)}  {c.kind}, with {other}{values}; {end}"


def _event(event: EvidenceEvent) -> str:
    from kb.clock import iso

    weight = f" {event.weight:+g}" if event.weight else ""
    return f"{iso(event.at)}  {event.kind.value}{weight}  {event.reason}"


def _decision(journaled: Journaled) -> str:
    from kb.clock import iso

    action, detail = journaled.action, journaled.action.detail
    what = f"not done: {journaled.skipped}" if journaled.skipped else action.reason
    by, note = detail.get("by"), detail.get("note")
    said = (f" by {by}" if by and not journaled.skipped else "") + (f": “{note}”" if note else "")
    return f"{iso(journaled.applied_at) or 'waits':20}  {action.kind.value}: {what}{said}  [{journaled.sweep_id}]"


def _next(e: Explanation, crossing: Crossing) -> str:
    from governance.explain import days_until
    from kb.clock import iso

    days = days_until(crossing, e.now)
    what = _NEXT[crossing.what]
    if crossing.what == "hold_ends" and e.memory.trust.verified:
        what = "its verification runs out: it waits in the review queue, and decays"
    return f"{iso(crossing.at)}  {what} ({f'in {days:.1f} days' if days else 'now'})"
