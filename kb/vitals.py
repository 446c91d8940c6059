"""The gauges that operators watch, read from the ledger: what it holds, how far the index is, how the jobs are."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from kb.errors import KbError
from kb.telemetry import Metric, Reading, watched
from kb.trust import gate_clauses

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from kb.ledger import Ledger
    from kb.ledger.ledger import LedgerTx
    from kb.ledger.slots import DaemonBeat
    from kb.model import Instant
    from kb.ports import Clock
    from kb.settings import Settings

TENANTS = 100  # whose gate is told of one by one, those with most memories first: each is a series of its own
MISSED = 3  # heartbeats after which a daemon counts as dead
STOPPED = "stopped"


def watching(ledger: Ledger, settings: Settings, clock: Clock) -> AbstractContextManager[None]:
    """Have the gauges read from this ledger inside the context."""
    return watched(partial(readings, ledger, settings, clock), every_seconds=settings.telemetry.gauge_seconds)


def readings(ledger: Ledger, settings: Settings, clock: Clock) -> list[Reading]:
    """Return every gauge as it is now; of a ledger that is away only that it is."""
    now = clock.now()
    try:
        with ledger.read() as tx:
            found = [*_stored(tx, settings, now), *_pending(tx, now), *_daemons(tx, settings, now), *_jobs(tx)]
    except KbError:
        return [Reading(metric=Metric.LEDGER_UP, value=0)]
    return [Reading(metric=Metric.LEDGER_UP, value=1), *found]


def _stored(tx: LedgerTx, settings: Settings, now: Instant) -> list[Reading]:
    by_tenant = tx.vitals.standings()
    every: Counter[str] = Counter()
    for standings in by_tenant.values():
        every.update(standings)
    above = tx.vitals.above_gate(gate_clauses(settings.gate, now, settings.policies))
    active = sorted(((s["active"], tenant) for tenant, s in by_tenant.items() if s.get("active")), reverse=True)
    found = [Reading(metric=Metric.MEMORIES, value=n, labels={"standing": s}) for s, n in sorted(every.items())]
    for number, tenant in active[:TENANTS]:
        found.append(Reading(metric=Metric.GATE_ACTIVE, value=number, labels={"tenant": tenant}))
        found.append(Reading(metric=Metric.GATE_OPEN, value=above.get(tenant, 0), labels={"tenant": tenant}))
    return found


def _pending(tx: LedgerTx, now: Instant) -> list[Reading]:
    pending, oldest = tx.outbox.lag()
    lag = 0.0 if oldest is None else max(0.0, (now - oldest) / 1000)
    return [
        Reading(metric=Metric.OUTBOX_PENDING, value=pending),
        Reading(metric=Metric.OUTBOX_LAG, value=lag),
        Reading(metric=Metric.SWEEPS_UNFINISHED, value=tx.vitals.unfinished_sweeps()),
    ]


def _daemons(tx: LedgerTx, settings: Settings, now: Instant) -> list[Reading]:
    """Return how many daemons live and lead. Where none was ever started there is nothing to be missed."""
    beats = tx.slots.daemons()
    if not beats:
        return []
    every = settings.jobs.heartbeat_seconds * 1000
    alive = [beat for beat in beats if _lives(beat, now, every)]
    age = max(0.0, (now - max(beat.heartbeat_at for beat in beats)) / 1000)
    return [
        Reading(metric=Metric.DAEMONS, value=len(alive)),
        Reading(metric=Metric.LEADERS, value=sum(beat.is_leader for beat in alive)),
        Reading(metric=Metric.HEARTBEAT_AGE, value=age),
    ]


def _lives(beat: DaemonBeat, now: Instant, every: float) -> bool:
    return beat.state != STOPPED and abs(now - beat.heartbeat_at) <= MISSED * every


def _jobs(tx: LedgerTx) -> list[Reading]:
    found: list[Reading] = []
    for state in tx.vitals.jobs():
        found.append(Reading(metric=Metric.JOB_FAILED, value=state.is_failed, labels={"job": state.job}))
        if state.done_at is not None:
            done = state.done_at / 1000
            found.append(Reading(metric=Metric.JOB_SUCCEEDED, value=done, labels={"job": state.job}))
    return found
