"""Runs what a sweep's journal holds, batch by batch, until nothing waits: for a new sweep and for an interrupted one.

A batch is one ledger transaction: its rows, their images and the marks in the journal are there together or not at
all. So a sweep that was killed anywhere goes on from its journal, and nothing is applied twice.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from governance.causes import swept
from governance.effects import EFFECTS, Occasion
from governance.effects.erased import is_forgotten
from governance.effects.plain import GONE
from governance.effects.undone import MOVED, put_back
from governance.writer import Writer
from kb.errors import InputError, IntegrityError, StaleRevision
from kb.log import get_logger
from kb.model import MemoryId
from kb.sweeps import ImageKind, Sweep, SweepId, SweepJob, SweepStatus
from kb.telemetry import Attr, Metric, Span, count, observe, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from governance.effects import Effect
    from governance.plan import Plan
    from governance.policy import Policy
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Instant, Memory
    from kb.sweeps import Action, ActionKind, Image

LOCK_WAIT_S = 30.0  # a person's decision waits for the sweep that runs
REASON_BYTES = 2_048  # of a person's own words; the journal keeps them for years
TRIES = 5  # of a batch, whose effects may meet a writer on rows that were not planned for
PAGE = 1_000
SKIPPED = "skipped"
KEEP_OUT = frozenset({SweepJob.ERASE, SweepJob.ROLLBACK, SweepJob.REJECT})  # nothing slips past their tombstones
UNSUPPORTED = "unsupported"  # planned by a version of the program that knew more


def never() -> bool:
    """Return that a sweep need not stop."""
    return False


def ignore(_: int) -> None:
    """Tell nobody how far a sweep is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Who runs sweeps of a tenant, and how.

    Args:
        memories: whose ledger and index.
        policy: of the tenant.
        is_stopped: asked before each batch; a sweep that is stopped goes on with the next run.
        advance: told after each batch how many actions it took.
    """

    memories: Memories
    policy: Policy
    is_stopped: Callable[[], bool] = never
    advance: Callable[[int], None] = ignore

    @contextmanager
    def alone(self) -> Iterator[Run]:
        """Hold what keeps two sweeps of one tenant from running at once; freed when its process dies.

        Yields:
            The same run, which also stops when the lock is lost.

        Raises:
            Locked: another sweep has been running for 30 s.
        """
        name = f"govern:{self.policy.tenant}"
        with self.memories.ledger.lock(name, wait_seconds=LOCK_WAIT_S) as held:
            yield replace(self, is_stopped=lambda: self.is_stopped() or not held.is_held())


def begin(tx: LedgerTx, plan: Plan, *, actor: str, reason: str, now: Instant, undoes: SweepId | None = None) -> Sweep:
    """Record a sweep and its whole plan, before anything is done.

    Raises:
        InputError: the reason is too long.
    """
    if len(reason.encode("utf-8", "surrogatepass")) > REASON_BYTES:
        raise InputError(f"the reason is longer than {REASON_BYTES:,} bytes")
    sweep = Sweep(
        id=SweepId(uuid.uuid4().hex),
        tenant=plan.tenant,
        job=plan.job,
        actor=actor,
        reason=reason,
        policy=plan.policy,
        plan=plan.hash,
        at=plan.at,
        started_at=now,
        undoes=undoes,
    )
    tx.sweeps.begin(sweep, plan.actions)
    return sweep


def resumed(run: Run, *, but: SweepId | None = None) -> list[Sweep]:
    """Finish the tenant's interrupted sweeps, those that began first first; the caller holds the lock."""
    with run.memories.ledger.read() as tx:
        running = tx.sweeps.list(PAGE, tenant=run.policy.tenant, status=SweepStatus.RUNNING)
    return [run_to_end(run, sweep) for sweep in reversed(running) if sweep.id != but]


def run_to_end(run: Run, sweep: Sweep) -> Sweep:
    """Apply what waits in a sweep's journal; the caller holds the lock.

    Returns:
        The sweep as it stands then: still running, when it was told to stop.
    """
    began, is_reachable = time.perf_counter(), True
    with run.memories.ledger.read() as tx:
        sweep = replace(sweep, counts=counts_of(tx, sweep.id))  # once: to tally with every batch would be quadratic
    with swept(run.memories, sweep) as recording:
        while sweep.status is SweepStatus.RUNNING and not run.is_stopped():
            sweep, done = _tried(run, sweep)
            if is_reachable:  # an index that is away is not waited for with every batch
                is_reachable = not run.memories.projector.drain(wait_seconds=0).problem
            run.advance(done)
        drained = run.memories.projector.drain()
        recording.set({Attr.APPLIED: sum(sweep.counts.values()), Attr.OUTCOME: sweep.status.value})
    if sweep.status is SweepStatus.DONE:
        count(Metric.SWEEPS, job=sweep.job.value)
    observe(Metric.SWEEP_SECONDS, time.perf_counter() - began, job=sweep.job.value)
    get_logger().info(
        "sweep_finished" if sweep.status is SweepStatus.DONE else "sweep_stopped",
        sweep_id=sweep.id,
        job=sweep.job.value,
        tenant=sweep.tenant,
        counts=dict(sweep.counts),
        index_pending=drained.pending,
    )
    return sweep


def _tried(run: Run, sweep: Sweep) -> tuple[Sweep, int]:
    for _ in range(TRIES - 1):
        try:
            return _batch(run, sweep)
        except StaleRevision:  # somebody changed a row meanwhile: nothing of the batch was kept
            continue
    return _batch(run, sweep)


def _batch(run: Run, sweep: Sweep) -> tuple[Sweep, int]:
    """Apply the next actions in one transaction; with the last of them the sweep is done.

    Whoever was thought dead and is not, or lost the lock inside a batch, finds the sweep here as it stands by now.
    """
    ledger, now = run.memories.ledger, run.memories.clock.now()
    occasion = Occasion(sweep=sweep, policy=run.policy, now=sweep.started_at)
    with span(Span.SWEEP_BATCH, {Attr.JOB: sweep.job.value}), ledger.write() as tx:
        stands = tx.sweeps.get(sweep.id, is_locking=True)
        if stands is None or stands.status is not SweepStatus.RUNNING:
            return stands or replace(sweep, status=SweepStatus.DONE), 0
        if sweep.job in KEEP_OUT:
            tx.tombstones.alone(sweep.tenant)
        waiting = tx.sweeps.waiting(sweep.id, run.policy.batch)
        tx.sweeping.revisions(
            [j.action.memory_id for j in waiting if j.action.memory_id], sweep.tenant, is_locking=True
        )
        skipped: list[tuple[ActionKind, str]] = []
        for journaled in waiting:
            why, images = _applied(Writer(tx, sweep.id, now), journaled.action, occasion)
            tx.sweeps.applied(sweep.id, [(journaled.seq, why, images)], at=now)
            skipped.append((journaled.action.kind, why))
        sweep = replace(sweep, counts=_counted(sweep.counts, skipped))
        if len(waiting) < run.policy.batch:
            sweep = _finished(tx, replace(sweep, counts=counts_of(tx, sweep.id)), now)
    for kind, why in skipped:
        outcome = SKIPPED if why else "applied"
        count(Metric.SWEEP_ACTIONS, job=sweep.job.value, action=kind.value, outcome=outcome)
    return sweep, len(waiting)


def _applied(writer: Writer, action: Action, occasion: Occasion) -> tuple[str, Sequence[Image]]:
    """Apply one action; return why it was skipped or "", and the images of what it changed."""
    memory: Memory | None = None
    if action.memory_id:
        id_ = MemoryId(action.memory_id)
        memory = writer.tx.memories.get([id_]).get(id_)
        is_needed = not is_forgotten(action)
        if (memory is None and is_needed) or (memory and memory.tenant != occasion.sweep.tenant):
            return GONE, ()
        if memory and _has_changed(writer.tx, occasion.sweep.id, action, memory):
            return MOVED, ()
    effect = effect_of(occasion.sweep.job, action.kind)
    if effect is None:
        return UNSUPPORTED, ()
    why, images = effect(writer, memory, action, occasion), writer.images()
    if why and images:
        raise IntegrityError(f"an action was skipped ({why}) that had changed {len(images)} rows")
    return why, images


def effect_of(job: SweepJob, kind: ActionKind) -> Effect | None:
    """Return what an action does; an undo puts rows back, whatever had happened to them."""
    return put_back if job is SweepJob.UNDO else EFFECTS.get(kind)


def _has_changed(tx: LedgerTx, sweep_id: SweepId, action: Action, memory: Memory) -> bool:
    """Return whether somebody has changed what the action was planned for; what a person has erased goes as it is."""
    return memory.rev != action.rev and not is_forgotten(action) and not _is_ours(tx, sweep_id, action, memory)


def _is_ours(tx: LedgerTx, sweep_id: SweepId, action: Action, memory: Memory) -> bool:
    """Return whether nobody but this sweep has changed the memory since it was planned."""
    rev = action.rev
    for image in tx.sweeps.images_of_row(sweep_id, ImageKind.MEMORY, memory.id):
        if image.before is None or image.after is None or image.before["rev"] != rev:
            return False
        rev = int(image.after["rev"])  # type: ignore[arg-type] # a column of ours
    return rev == memory.rev


def counts_of(tx: LedgerTx, sweep_id: SweepId) -> dict[str, int]:
    """Return how many actions of each kind were applied, and how many were skipped."""
    counts: dict[str, int] = {}
    for kind, why, number in tx.sweeps.tally(sweep_id):
        name = SKIPPED if why else kind.value
        counts[name] = counts.get(name, 0) + number
    return dict(sorted(counts.items()))


def _counted(before: Mapping[str, int], done: Iterable[tuple[ActionKind, str]]) -> dict[str, int]:
    counts = Counter(SKIPPED if why else kind.value for kind, why in done)
    return dict(sorted((counts + Counter(before)).items()))


def _finished(tx: LedgerTx, sweep: Sweep, now: Instant) -> Sweep:
    tx.sweeps.finish(sweep.id, SweepStatus.DONE, now, counts=sweep.counts)
    if sweep.undoes is not None and not _has_moved(tx, sweep.id):
        _mark_undone(tx, sweep.undoes, sweep.id)
    return replace(sweep, status=SweepStatus.DONE, finished_at=now)


def _has_moved(tx: LedgerTx, sweep_id: SweepId) -> bool:
    """Return whether a writer came between the check of an undo and one of its batches: it is not whole then.

    What is gone is in nobody's way: no later undo could put it back.
    """
    return any(why == MOVED for _, why, _ in tx.sweeps.tally(sweep_id))


def _mark_undone(tx: LedgerTx, sweep_id: SweepId, by: SweepId) -> None:
    """Mark a sweep as undone. If it was an undo itself, what it had undone stands again, and so on down."""
    undoer: SweepId | None = by
    target: SweepId | None = sweep_id
    while target is not None:
        tx.sweeps.mark_undone(target, undoer)
        known = tx.sweeps.get(target)
        undoer, target = (None if undoer else target), (known.undoes if known else None)
