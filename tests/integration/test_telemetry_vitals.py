"""The gauges say what the ledger holds, and the daemon's page shows them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from jobs.health import health_page
from kb import telemetry
from kb.errors import LedgerUnavailable
from kb.ledger.slots import DaemonBeat, SlotStatus
from kb.memories import Note
from kb.model import SourceClass
from kb.settings import Settings
from kb.sweeps import Sweep, SweepId, SweepJob
from kb.telemetry import Metric
from kb.trust import DAY_MS, effective
from kb.vitals import MISSED, TENANTS, readings, watching
from tests.stores import FakeClock, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.memories import Memories

SETTINGS = Settings()
BEAT_MS = round(SETTINGS.jobs.heartbeat_seconds * 1000)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def memories(tmp_path: Path, clock: FakeClock) -> Iterator[Memories]:
    with open_store(tmp_path / "data", clock=clock) as store:
        yield store


def told(memories: Memories) -> dict[tuple[Metric, str], float]:
    """Return every gauge by its metric and the value of its label."""
    found = readings(memories.ledger, SETTINGS, memories.clock)
    return {(r.metric, "".join(r.labels.values())): r.value for r in found}


def note(memories: Memories, tenant: str, text: str, by: SourceClass = SourceClass.PERSON) -> None:
    memories.add_note(Note(text=text, tenant=tenant, by=by))


def beat(memories: Memories, id_: str, **changes: Any) -> None:
    now = memories.clock.now()
    given: dict[str, Any] = {"is_leader": False, "state": "waiting", "heartbeat_at": now, **changes}
    with memories.ledger.write() as tx:
        tx.slots.beat(DaemonBeat(id=id_, host="h", pid=1, version="0", started_at=now, **given))


def test_memories_are_counted_by_standing_and_the_gate_by_tenant_as_each_memory_says(
    memories: Memories, clock: FakeClock
) -> None:
    for n in range(3):
        note(memories, "acme", f"Note {n}.")
    note(memories, "acme", "A guess.", by=SourceClass.AGENT)
    note(memories, "other", "One note.")
    seen = told(memories)
    assert (seen[Metric.MEMORIES, "active"], seen[Metric.MEMORIES, "quarantined"]) == (4, 1)
    assert (seen[Metric.GATE_ACTIVE, "acme"], seen[Metric.GATE_OPEN, "acme"]) == (3, 3)
    assert seen[Metric.GATE_OPEN, "other"] == 1
    for day in (1, 5, 6, 30, 400):
        clock.instant += day * DAY_MS
        stored = [m for m in memories.page("acme") if m.standing == "active"]
        half_life = SETTINGS.policies[SourceClass.PERSON].half_life
        open_now = sum(effective(m.trust, clock.now(), half_life) > SETTINGS.gate for m in stored)
        assert told(memories)[Metric.GATE_OPEN, "acme"] == open_now
    assert told(memories)[Metric.GATE_OPEN, "acme"] == 0


def test_the_lag_is_the_age_of_the_oldest_change_that_waits(memories: Memories, clock: FakeClock) -> None:
    note(memories, "acme", "A note.")
    memories.projector.drain()
    assert told(memories)[Metric.OUTBOX_LAG, ""] == told(memories)[Metric.OUTBOX_PENDING, ""] == 0
    (stored,) = memories.page("acme")
    with memories.ledger.write() as tx:
        tx.outbox.mark([stored.id], clock.now())
    clock.advance(90_000)
    assert told(memories)[Metric.OUTBOX_LAG, ""] == 90
    assert told(memories)[Metric.OUTBOX_PENDING, ""] == 1


def test_daemons_that_are_silent_or_stopped_neither_live_nor_lead(memories: Memories, clock: FakeClock) -> None:
    assert (Metric.LEADERS, "") not in told(memories)  # none was ever started: nothing to alarm about
    beat(memories, "d1", is_leader=True, state="leading")
    beat(memories, "d2")
    beat(memories, "d3", is_leader=True, state="stopped")
    seen = told(memories)
    assert (seen[Metric.DAEMONS, ""], seen[Metric.LEADERS, ""], seen[Metric.HEARTBEAT_AGE, ""]) == (2, 1, 0)
    clock.advance(MISSED * BEAT_MS + 1)
    seen = told(memories)
    assert (seen[Metric.DAEMONS, ""], seen[Metric.LEADERS, ""]) == (0, 0)


def test_a_job_fails_as_its_latest_slot_does_and_remembers_its_last_success(
    memories: Memories, clock: FakeClock
) -> None:
    first, second = clock.now(), clock.now() + 1000
    with memories.ledger.write() as tx:
        tx.slots.claim("prune", first, holder="h", at=first)
        tx.slots.finish("prune", first, SlotStatus.DONE, first + 5000, report={})
    assert told(memories)[Metric.JOB_FAILED, "prune"] == 0
    with memories.ledger.write() as tx:
        tx.slots.claim("prune", second, holder="h", at=second)
        tx.slots.finish("prune", second, SlotStatus.FAILED, second + 5000, report={})
        tx.slots.claim("sync", second, holder="h", at=second)
    seen = told(memories)
    assert (seen[Metric.JOB_FAILED, "prune"], seen[Metric.JOB_FAILED, "sync"]) == (1, 0)
    assert seen[Metric.JOB_SUCCEEDED, "prune"] == (first + 5000) / 1000
    assert (Metric.JOB_SUCCEEDED, "sync") not in seen


def test_a_sweep_that_was_cut_off_is_counted(memories: Memories) -> None:
    assert told(memories)[Metric.SWEEPS_UNFINISHED, ""] == 0
    with memories.ledger.write() as tx:
        tx.sweeps.begin(Sweep(id=SweepId("s1"), tenant="acme", job=SweepJob.PRUNE), [])
    assert told(memories)[Metric.SWEEPS_UNFINISHED, ""] == 1


def test_of_many_tenants_only_the_largest_are_told_of_one_by_one(memories: Memories) -> None:
    assert TENANTS == 100
    for n in range(TENANTS + 5):
        note(memories, f"t{n}", "A note.")
    note(memories, "large", "One.")
    note(memories, "large", "Two.")
    seen = [key for key in told(memories) if key[0] is Metric.GATE_ACTIVE]
    assert len(seen) == TENANTS
    assert (Metric.GATE_ACTIVE, "large") in seen


def test_of_a_ledger_that_is_away_only_that_is_told(memories: Memories) -> None:
    class Away:
        def read(self) -> object:
            raise LedgerUnavailable("away")

    found = readings(Away(), SETTINGS, memories.clock)  # type: ignore[arg-type] # a ledger that is away
    assert [(r.metric, r.value) for r in found] == [(Metric.LEDGER_UP, 0)]


def test_the_daemons_page_shows_its_health_and_its_metrics(memories: Memories) -> None:
    note(memories, "acme", "A note.")
    telemetry.configure(None, prometheus=True)
    try:
        with (
            watching(memories.ledger, SETTINGS, memories.clock),
            health_page(0, lambda: (True, {"ok": True})) as port,
        ):
            base = f"http://127.0.0.1:{port}"
            metrics, health = httpx.get(f"{base}/metrics"), httpx.get(f"{base}/healthz")
    finally:
        telemetry.shutdown()
    assert metrics.headers["content-type"].startswith("text/plain")
    assert 'kb_gate_open_memories{tenant="acme"} 1.0' in metrics.text
    assert json.loads(health.text) == {"ok": True}
