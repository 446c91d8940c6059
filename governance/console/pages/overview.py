"""The first page: how memories stand, how far they are believed, what answers came to, what leaves the gate when."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from governance.candidates import foreseen
from governance.console.charts import histogram, polyline
from governance.console.showing import page
from governance.console.visitor import Looks, parts_of
from governance.policy import policy_of
from governance.queue import Waits, review_queue
from kb.ledger.memories import trust_of
from kb.model import Standing
from kb.trust import effective

if TYPE_CHECKING:
    from collections.abc import Sequence

    from governance.console.parts import Parts
    from kb.history import AnswerRecord

router = APIRouter()
ANSWERS = 500  # latest answers that rates are of
DAYS = 30
WAITING = 1_000  # of each reason; counted no further


@router.get("/")
async def overview(request: Request, who: Looks) -> Response:
    """Show the state of the tenant."""
    parts = parts_of(request)
    return page(request, "overview.html", who, **await parts.threads.call(_overview, parts, who.tenant))


def _overview(parts: Parts, tenant: str) -> dict[str, Any]:
    memories, now = parts.memories, parts.clock.now()
    with memories.ledger.read() as tx:
        standings: Counter[str] = Counter()
        for count in tx.memories.counts(tenant):
            standings[count.standing.value] += count.count
        half_lives = {c: p.half_life for c, p in memories.policies.items()}
        rows = tx.memories.trust_columns(tenant, (Standing.ACTIVE,))
        bars = histogram(effective(trust_of(row), now, half_lives[row.source_class]) for row in rows)
        answers = tx.answers.page(tenant, limit=ANSWERS)
        pending, _ = tx.outbox.lag()
    (seen,) = foreseen(memories, [policy_of(parts.settings, tenant)], now, DAYS)
    leaving = seen.total("leave")
    return {
        "standings": [(s.value, standings.get(s.value, 0)) for s in Standing if s is not Standing.STAGED],
        "bars": bars,
        "gate": memories.gate,
        "passing": seen.now("passing"),
        "active": seen.now("active"),
        "waiting": [(w.value, len(review_queue(memories, tenant, now, why=[w], limit=WAITING + 1))) for w in Waits],
        "most_waiting": WAITING,
        "answers": rates(answers),
        "leaving": list(enumerate(leaving, 1)),
        "above": polyline(seen.total("above"), 600, 120),
        "above_first": seen.total("above")[0],
        "above_then": seen.total("above")[-1],
        "most_leaving": max(leaving, default=0),
        "days": DAYS,
        "pending": pending,
    }


def rates(answers: Sequence[AnswerRecord]) -> dict[str, Any]:
    """Return how answers ended, as shares of them; the web was searched where the report counts a search."""
    total = len(answers)
    outcomes, verdicts = Counter(a.outcome for a in answers), Counter(a.verdict for a in answers)
    searched = sum(_searches(a) > 0 for a in answers)
    return {
        "total": total,
        "outcomes": [(name, n, n / total) for name, n in outcomes.most_common()],
        "verdicts": [(name, n, n / total) for name, n in verdicts.most_common()],
        "web": (searched, searched / total if total else 0.0),
    }


def _searches(answer: AnswerRecord) -> int:
    usage = answer.report.get("usage")
    found = usage.get("searches", 0) if isinstance(usage, dict) else 0
    return found if isinstance(found, int) else 0
