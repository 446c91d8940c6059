"""What the store holds and what will become of it: counts, what leaves the gate when, and the index's lag."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.ledger.memories import trust_of
from kb.model import Standing
from kb.trust import DAY_MS, leaves_gate_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kb.ledger.memories import TrustRow
    from kb.memories import Memories
    from kb.model import Instant, SourceClass
    from kb.trust import TrustPolicy

HORIZON_DAYS = (1, 7, 30, 90)
LITE_COMFORTABLE = 100_000
LITE_WARNING = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """Active memories by when they leave the gate.

    Args:
        outside: already below it.
        within: number that leaves within 1, 7, 30 and 90 days (each counts the ones before).
        first_at: when the next one leaves; None if none does.
        due: verified memories whose hold has ended.
    """

    outside: int
    within: Mapping[int, int]
    first_at: Instant | None
    due: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCount:
    """How many memories of one source have one standing."""

    source: str
    source_class: str
    standing: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of one tenant's memories, and of the store they share."""

    tenant: str
    standings: Mapping[str, int]
    sources: tuple[SourceCount, ...]
    failures: int
    leaving: Leaving
    outbox_pending: int
    outbox_oldest_at: Instant | None
    embedder: str
    collection: str
    rows: int
    advice: str


def leaving(
    rows: Iterable[TrustRow], policies: Mapping[SourceClass, TrustPolicy], gate: float, now: Instant
) -> Leaving:
    """Return when active memories leave the gate if no sync renews them and no evidence comes. Pure."""
    outside = due = 0
    within = dict.fromkeys(HORIZON_DAYS, 0)
    first: Instant | None = None
    for row in rows:
        policy = policies[row.source_class]
        at = leaves_gate_at(trust_of(row), gate, policy.half_life)
        due += row.verified and now > row.anchor
        if at <= now:
            outside += 1
            continue
        first = at if first is None else min(first, at)
        for days in HORIZON_DAYS:
            within[days] += at <= now + days * DAY_MS
    return Leaving(outside=outside, within=within, first_at=first, due=due)


def status(memories: Memories, tenant: str, *, is_lite: bool) -> Status:
    """Return the status of a tenant, from the ledger alone."""
    now = memories.clock.now()
    with memories.ledger.read() as tx:
        counts = tx.memories.counts(tenant)
        failures = tx.failures.count(tenant)
        pending, oldest = tx.outbox.lag()
        current = memories.generations.current(tx)
        rows = tx.memories.indexed_count()
        out = leaving(tx.memories.trust_columns(tenant, (Standing.ACTIVE,)), memories.policies, memories.gate, now)
    standings: Counter[str] = Counter({s.value: 0 for s in Standing if s is not Standing.STAGED})
    for c in counts:
        standings[c.standing.value] += c.count
    return Status(
        tenant=tenant,
        standings=dict(standings),
        sources=tuple(
            SourceCount(
                source=c.root or c.kind.value,
                source_class=c.source_class.value,
                standing=c.standing.value,
                count=c.count,
            )
            for c in counts
        ),
        failures=failures,
        leaving=out,
        outbox_pending=pending,
        outbox_oldest_at=oldest,
        embedder=current.model if current else "",
        collection=current.name if current else "",
        rows=rows,
        advice=size_advice(rows, is_lite=is_lite),
    )


def size_advice(rows: int, *, is_lite: bool) -> str:
    """Return what to do about the store's size; "" when nothing."""
    if not is_lite or rows < LITE_COMFORTABLE:
        return ""
    advice = "set KB_INDEX_URI to a Milvus server, then `kb reindex`"
    if rows < LITE_WARNING:
        return f"{rows:,} rows: Milvus Lite is comfortable up to about {LITE_COMFORTABLE:,}; later {advice}"
    return f"{rows:,} rows are too many for Milvus Lite: {advice}"
