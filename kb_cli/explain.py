"""`kb govern explain`: why a memory stands where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.session import AsJson, Tenant, opened, settings_of
from kb_cli.sweeps import journaled_json

if TYPE_CHECKING:
    from governance.explain import Crossing, Explanation
    from kb.history import EvidenceEvent
    from kb.memories import Memories
    from kb.model import Json
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
        whole = explanation_json(memories, shown)
    if as_json:
        render.emit_json(whole)
    else:
        render.say(*_explanation_lines(shown))


def explanation_json(memories: Memories, e: Explanation) -> dict[str, Json]:
    """Return an explanation under the stable keys of docs/reference/json.md."""
    from dataclasses import asdict

    from kb.clock import iso
    from kb_cli.memory import as_object as memory_object

    return {
        "memory": memory_object(memories, e.memory),
        "at": iso(e.now),
        "prior": asdict(e.prior),
        "effective_confidence": round(e.effective, 6),
        "shown_confidence": e.shown,
        "passes_gate": e.passes_gate,
        "why": list(e.why),
        "evidence": [
            {"kind": v.kind.value, "weight": v.weight, "witness": v.witness, "reason": v.reason, "at": iso(v.at)}
            for v in e.evidence
        ],
        "decisions": [journaled_json(j) for j in e.decisions],
        "contradictions": [_contradiction_json(e, c) for c in e.contradictions],
        "next": [{"at": iso(c.at), "what": c.what} for c in e.crossings],
    }


def _contradiction_json(e: Explanation, c: Contradiction) -> dict[str, Json]:
    from kb.clock import iso

    other, value, other_value = _other_side(e, c)
    return {
        "memory_id": other,
        "kind": c.kind,
        "value": value,
        "other_value": other_value,
        "found_at": iso(c.found_at),
        "settled_at": iso(c.settled_at),
        "settled_by": c.settled_by or None,
    }


def _other_side(e: Explanation, c: Contradiction) -> tuple[str, str, str]:
    """Return the other side of a contradiction, what the memory itself says, and what the other does."""
    if c.one == e.memory.id:
        return c.other, c.one_value, c.other_value
    return c.one, c.other_value, c.one_value


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

    other, own, its = _other_side(e, c)
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
