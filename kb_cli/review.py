"""`kb govern review`: what waits for a person, and why."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kb_cli import render
from kb_cli.session import AsJson, Tenant, opened, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from governance.queue import ReviewItem
    from kb.model import Json


class WhyOption(StrEnum):
    """Why a memory waits."""

    CONTESTED = "contested"
    DUE = "due"
    QUARANTINED = "quarantined"


Why = Annotated[list[WhyOption] | None, typer.Option("--why", help="Only what waits for this; repeatable.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many.")]


def review(why: Why = None, limit: Limit = 50, tenant: Tenant = None, as_json: AsJson = False) -> None:
    """List what waits for a person: contested memories, verified ones that fell due, quarantined ones."""
    from governance.queue import Waits, review_queue
    from kb.clock import iso

    settings = settings_of(tenant=tenant)
    wanted = [Waits(w.value) for w in why or WhyOption]
    with opened(settings) as memories:
        now = memories.clock.now()
        found = review_queue(memories, settings.tenant, now, why=wanted, limit=limit + 1)
    items, is_more = found[:limit], len(found) > limit
    if as_json:
        listed: list[Json] = [item.as_json() for item in items]
        render.emit_json({"tenant": settings.tenant, "at": iso(now), "items": listed, "more": is_more})
    else:
        render.say(*_lines(settings.tenant, items, is_more=is_more))


def _lines(tenant: str, items: Sequence[ReviewItem], *, is_more: bool) -> list[str]:
    if not items:
        return [f"tenant {tenant}: nothing waits for a person"]
    entries = list(_entries(items))
    counts = Counter(item.why.value for item, _ in entries)  # of what stands below, not of its sides
    listed = ", ".join(f"{number} {why}" for why, number in counts.items())
    return [
        f"tenant {tenant}: {listed}{'; more wait, see --limit' if is_more else ''}",
        *(line for item, other in entries for line in _entry(item, other)),
        "",
        "look: kb govern explain ID    decide: kb memory verify ID… or kb memory reject ID…, with --reason",
    ]


def _entries(items: Sequence[ReviewItem]) -> Iterator[tuple[ReviewItem, ReviewItem | None]]:
    """Yield the items, each contradiction once with its other side, if that is listed."""
    told: set[tuple[str, str, str]] = set()
    sides = {(str(i.memory.id), i.other_id, i.kind): i for i in items if i.other_id}
    for item in items:
        if (item.other_id, item.memory.id, item.kind) not in told:
            told.add((item.memory.id, item.other_id, item.kind))
            yield item, sides.get((item.other_id, item.memory.id, item.kind))


def _entry(item: ReviewItem, other: ReviewItem | None) -> Iterator[str]:
    from kb.clock import iso

    what = f"two memories differ in a {item.kind}" if item.other_id else item.said
    yield from ("", f"{item.why.value} since {iso(item.since)}: {what}")
    yield from _side(item)
    if other is not None:
        yield from _side(other)
    elif item.other_id:
        yield f"   {item.other_id}  says “{item.other_value}”"


def _side(item: ReviewItem) -> Iterator[str]:
    memory = item.memory
    vouched = "  verified" if memory.trust.verified else ""
    value = f"  says “{item.value}”" if item.value else ""
    yield f"   {memory.id}  {memory.source}{vouched}{value}"
    yield f"      {render.excerpt(memory.text, 110)}"
