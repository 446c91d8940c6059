"""Undo: a sweep of its own that puts back every row as it stood before another sweep, or refuses and says why.

* A row that has changed since is never overwritten: then nothing is undone at all, and the rows are named. A row that
  stands as it stood before already, by whatever way, is in nobody's way.
* A sweep that was interrupted is undone as it stands: what was still waiting is dropped, what was applied is put back.
* An undo is a sweep like any other: journalled, resumed after a kill, and undone in its turn; then what it had undone
  stands again.
* What was erased is gone: a sweep that erased anything cannot be undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from governance.effects.undone import SEQ, disowned, occupied, standing_row, taken_by_gc
from governance.hindrances import hindrances
from governance.images import memory_columns, put_back
from governance.plan import Plan
from governance.running import Run, begin, counts_of, ignore, never, resumed, run_to_end
from governance.sweep import named
from kb.errors import InputError, Refused, StalePlan, UnknownSweep
from kb.model import MemoryId
from kb.sweeps import Action, ActionKind, ImageKind, SweepId, SweepJob, SweepStatus
from kb.telemetry import Metric, count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from governance.policy import Policy
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Json
    from kb.sweeps import Image, Journaled, Sweep

PAGE = 500
UNDONE = "undone"  # reason of an undo's actions, and why what waited was dropped


def undo(
    memories: Memories,
    sweep_id: SweepId,
    tenant: str,
    *,
    actor: str,
    policy: Policy,
    reason: str = "",
    is_stopped: Callable[[], bool] = never,
    advance: Callable[[int], None] = ignore,
) -> Sweep:
    """Undo a sweep and return the sweep that undid it.

    Args:
        memories: whose.
        sweep_id: what is undone.
        tenant: whose it must be.
        actor: who undoes it.
        policy: of the tenant.
        reason: a person's own words.
        is_stopped: as of `apply`.
        advance: as of `apply`.

    Raises:
        UnknownSweep: the tenant has none with this id.
        Refused: it was undone before, or has erased memories.
        StalePlan: rows have changed since; `moved` holds their keys, and nothing was undone.
        Locked: another sweep of the tenant is running.
    """
    if policy.tenant != tenant:
        raise InputError(f"the policy is of tenant {policy.tenant}, not of {tenant}")
    run = Run(memories=memories, policy=policy, is_stopped=is_stopped, advance=advance)
    with run.alone() as run:
        for finished in resumed(run, but=sweep_id):
            if finished.undoes == sweep_id and finished.status is SweepStatus.DONE:
                return finished  # an undo of it had been interrupted
        with memories.ledger.write() as tx:
            sweep = _undoable(tx, sweep_id, tenant)
            actions = _checked(tx, sweep)
            now = memories.clock.now()
            if sweep.status is SweepStatus.RUNNING:
                tx.sweeps.cancel(sweep.id, now, UNDONE)
                tx.sweeps.finish(sweep.id, SweepStatus.DONE, now, counts=counts_of(tx, sweep.id))
            plan = Plan(tenant=tenant, job=SweepJob.UNDO, policy=policy.hash, at=now, actions=tuple(actions))
            undoing = begin(tx, plan, actor=actor, reason=reason, now=now, undoes=sweep.id)
        return run_to_end(run, undoing)


def _undoable(tx: LedgerTx, sweep_id: SweepId, tenant: str) -> Sweep:
    sweep = tx.sweeps.get(sweep_id, is_locking=True)
    if sweep is None or sweep.tenant != tenant:
        raise UnknownSweep(f"there is no sweep {sweep_id} in tenant {tenant}")
    if sweep.status is SweepStatus.UNDONE:
        hint = f"`kb govern undo {sweep.undone_by}` takes the undo back"
        raise Refused(f"sweep {sweep_id} was undone before, by {sweep.undone_by}", hint=hint)
    erased = sum(n for kind, why, n in tx.sweeps.tally(sweep_id) if kind is ActionKind.ERASE and not why)
    if erased and sweep.job is not SweepJob.UNDO:
        count(Metric.SWEEPS_REFUSED, job=SweepJob.UNDO.value, why="erased")
        hint = "nothing of what was erased is kept; ingest or add it again"
        raise Refused(f"sweep {sweep_id} erased {erased:,} memories: that cannot be undone", hint=hint)
    return sweep


def _checked(tx: LedgerTx, sweep: Sweep) -> list[Action]:
    """Return the actions that undo a sweep, the last one first.

    Raises:
        StalePlan: a row has changed since.
    """
    applied = [j for j in _journal(tx, sweep.id) if j.applied_at is not None and not j.skipped]
    applied.reverse()
    newest_first = [image for own in _images(tx, sweep.id, applied) for image in own]
    known = _memories(tx, newest_first)
    targets, moved = put_back(
        newest_first,
        lambda kind, key: known.get(key) if kind is ImageKind.MEMORY else standing_row(tx, kind, key),
        taken_by_gc(tx, sweep),
    )
    if moved := [*moved, *occupied(tx, targets), *disowned(tx, targets)]:
        count(Metric.SWEEPS_REFUSED, job=SweepJob.UNDO.value, why="stale")
        shown = named([key.replace("\x1f", " ") for key in moved])
        message = f"{len(moved):,} rows changed since sweep {sweep.id}, so nothing was undone: {shown}"
        raise StalePlan(message, hint=hindrances(tx, sweep, moved).hint, moved=tuple(moved))
    revisions = tx.sweeping.revisions([j.action.memory_id for j in applied if j.action.memory_id], sweep.tenant)
    return [_action(j, revisions) for j in applied]


def _action(undone: Journaled, revisions: Mapping[str, int]) -> Action:
    action = undone.action
    rev = revisions.get(action.memory_id, action.rev)
    return Action(memory_id=action.memory_id, kind=action.kind, reason=UNDONE, rev=rev, detail={SEQ: undone.seq})


def _journal(tx: LedgerTx, sweep_id: SweepId) -> Iterator[Journaled]:
    after = -1
    while page := tx.sweeps.journal(sweep_id, after=after, limit=PAGE):
        yield from page
        after = page[-1].seq


def _images(tx: LedgerTx, sweep_id: SweepId, newest_first: Sequence[Journaled]) -> Iterator[list[Image]]:
    """Yield the images of each action, its last change first."""
    for start in range(0, len(newest_first), PAGE):
        page = [j.seq for j in newest_first[start : start + PAGE]]
        found = tx.sweeps.images(sweep_id, page)
        for seq in page:
            yield found.get(seq, [])[::-1]


def _memories(tx: LedgerTx, images: Sequence[Image]) -> dict[str, dict[str, Json]]:
    """Return how the memories among the images stand now, by id."""
    ids = sorted({image.key for image in images if image.kind is ImageKind.MEMORY})
    found: dict[str, dict[str, Json]] = {}
    for start in range(0, len(ids), PAGE):  # their texts are let go page by page
        page = tx.memories.get(map(MemoryId, ids[start : start + PAGE]))
        found.update((id_, memory_columns(memory)) for id_, memory in page.items())
    return found
