"""Undo: a sweep of its own that puts back every row as it stood before another sweep, or refuses and says why.

* A row that has changed since is never overwritten: then nothing is undone at all, and the rows are named. A row that
  stands as it stood before already, by whatever way, is in nobody's way.
* A sweep that was interrupted is undone as it stands: what was still waiting is dropped, what was applied is put back.
* An undo is a sweep like any other: journalled, resumed after a kill, and undone in its turn; then what it had undone
  stands again.
* What was erased is gone: a sweep that erased anything cannot be undone. What another sweep has erased since is passed
  over as gone and counted, and the rest is put back; where nothing is left, the undo is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from governance.effects.undone import DOCUMENT, SEQ, disowned, occupied, standing_row, taken_by_gc
from governance.hindrances import hindrances, told_row
from governance.images import memory_columns, put_back, same
from governance.plan import Plan
from governance.running import Run, begin, counts_of, ignore, never, resumed, run_to_end
from governance.sweep import NAMED, named
from kb.errors import InputError, Refused, StalePlan, UnknownSweep
from kb.model import MemoryId
from kb.sweeps import Action, ActionKind, ImageKind, SweepId, SweepJob, SweepStatus
from kb.telemetry import Metric, count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from governance.images import Row
    from governance.policy import Policy
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Json
    from kb.sweeps import Image, Journaled, Sweep

PAGE = 500
NOT_KEPT = "nothing of what was erased is kept; ingest or add it again"
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
        Refused: it was undone before, has erased memories, or all that it had changed was erased since.
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
        raise Refused(f"sweep {sweep_id} erased {erased:,} memories: that cannot be undone", hint=NOT_KEPT)
    return sweep


def _checked(tx: LedgerTx, sweep: Sweep) -> list[Action]:
    """Return the actions that undo a sweep, the last one first.

    Raises:
        StalePlan: a row has changed since.
        Refused: all that it had changed was erased since.
    """
    applied = [j for j in _journal(tx, sweep.id) if j.applied_at is not None and not j.skipped]
    applied.reverse()
    changes = list(zip(applied, _images(tx, sweep.id, applied), strict=True))
    newest_first = [image for _, own in changes for image in own]
    known = _memories(tx, newest_first)

    def current(kind: ImageKind, key: str) -> Mapping[str, Json] | None:
        return known.get(key) if kind is ImageKind.MEMORY else standing_row(tx, kind, key)

    targets, moved = put_back(newest_first, current, taken_by_gc(tx, sweep))
    if moved := [*moved, *occupied(tx, targets), *disowned(tx, targets)]:
        count(Metric.SWEEPS_REFUSED, job=SweepJob.UNDO.value, why="stale")
        shown = named([told_row(tx, row) for row in moved[: NAMED + 1]])
        rows = "1 row" if len(moved) == 1 else f"{len(moved):,} rows"
        message = f"{rows} changed since sweep {sweep.id}, so nothing was undone: {shown}"
        raise StalePlan(message, hint=hindrances(tx, sweep, moved).hint, moved=tuple(key for _, key in moved))
    return _planned(tx, sweep, changes, {row for row, to in targets.items() if not same(to, current(*row))})


def _planned(
    tx: LedgerTx, sweep: Sweep, changes: Sequence[tuple[Journaled, Sequence[Image]]], left: AbstractSet[Row]
) -> list[Action]:
    """Return the actions that undo others, each with its images, where `left` are the rows that go back.

    What else an action had changed goes back, though gc has taken its memory: the words may be said again. Of what
    a person let be erased nothing comes back: a witness that is gone speaks no more.

    Raises:
        Refused: all that these had changed was erased since.
    """
    revisions = tx.sweeping.revisions([j.action.memory_id for j, _ in changes if j.action.memory_id], sweep.tenant)
    gone = {j.action.memory_id for j, _ in changes if j.action.memory_id} - revisions.keys()
    taken = tx.erasure.collected(sweep.tenant, gone)
    actions, is_left = list[Action](), False
    for undone, own in changes:
        id_ = undone.action.memory_id
        actions.append(_action(undone, revisions))
        is_left = is_left or (id_ in revisions and not own)  # a remark, which changes no row, is taken back, too
        if (id_ not in gone or id_ in taken) and any((image.kind, image.key) in left for image in own):
            is_left = True
            if id_ in gone:
                actions.append(replace(actions[-1], memory_id="", kind=ActionKind.PUT_BACK))
    if gone and not is_left:
        count(Metric.SWEEPS_REFUSED, job=SweepJob.UNDO.value, why="erased")
        message = f"nothing of sweep {sweep.id} is left to put back: {len(gone):,} of the memories that it changed"
        raise Refused(f"{message} were erased since", hint=NOT_KEPT)
    return actions


def _action(undone: Journaled, revisions: Mapping[str, int]) -> Action:
    action = undone.action
    rev = revisions.get(action.memory_id, action.rev)
    whose = {DOCUMENT: action.detail[DOCUMENT]} if DOCUMENT in action.detail and not action.memory_id else {}
    detail = {SEQ: undone.seq, **whose}
    return Action(memory_id=action.memory_id, kind=action.kind, reason=UNDONE, rev=rev, detail=detail)


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
