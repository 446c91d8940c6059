"""Sweeps and their journal: what was planned, what was done to which row, and how it was before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from kb.errors import IntegrityError
from kb.ledger.batches import chunks
from kb.ledger.checks import checked_int, checked_int_or_none, checked_json, checked_key, checked_name, checked_text
from kb.ledger.schema_governance import actions, images, sweeps
from kb.model import FOREVER
from kb.sweeps import (
    Action,
    ActionKind,
    Image,
    ImageKind,
    Journaled,
    Sweep,
    SweepId,
    SweepJob,
    SweepStatus,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from kb.model import Instant, MemoryId

_S, _A, _I = sweeps.c, actions.c, images.c
_ID: sa.BindParameter[str] = sa.bindparam("id")
_AT_MOST: sa.BindParameter[int] = sa.bindparam("at_most", type_=sa.Integer)
_GET = sa.select(sweeps).where(_S.id == _ID)
_LOCKED = _GET.with_for_update()
_WAITING = sa.select(actions).where(_A.sweep_id == _ID, _A.applied_at.is_(None)).order_by(_A.seq).limit(_AT_MOST)
_OF_SWEEP = (
    sa.select(actions).where(_A.sweep_id == _ID, _A.seq > sa.bindparam("after")).order_by(_A.seq).limit(_AT_MOST)
)
# Of one instant: the sweep that began first, then what met the older revision, so that a cause comes before its effect;
# what was passed over comes after what made it so, and no order hangs on an id that is random.
_OF_MEMORY = (
    sa.select(actions)
    .join(sweeps, _S.id == _A.sweep_id)
    .where(_A.memory_id == _ID)
    .order_by(_A.applied_at, _S.started_at, _A.rev, _A.skipped != "", _A.seq, _S.job, _A.sweep_id)
)
_LATEST_FIRST = (  # of one instant: what runs still, then what ended last, then an undo before what it undid
    _S.started_at.desc(),
    _S.finished_at.is_(None).desc(),
    _S.finished_at.desc(),
    _S.undoes.is_not(None).desc(),
    _S.id.desc(),
)
_IMAGES = (
    sa.select(images)
    .where(_I.sweep_id == _ID, _I.seq.in_(sa.bindparam("seqs", expanding=True)))
    .order_by(_I.seq, _I.number)
)
_APPLIED = (
    sa.update(actions)
    .where(_A.sweep_id == sa.bindparam("at_sweep"), _A.seq == sa.bindparam("at_seq"), _A.applied_at.is_(None))
    .values(applied_at=sa.bindparam("new_at"), skipped=sa.bindparam("new_skipped"))
)
_CANCEL = (
    sa.update(actions)
    .where(_A.sweep_id == sa.bindparam("at_sweep"), _A.applied_at.is_(None))
    .values(applied_at=sa.bindparam("new_at"), skipped=sa.bindparam("new_skipped"))
)
_TALLY = (
    sa.select(_A.kind, _A.skipped, sa.func.count())
    .where(_A.sweep_id == _ID, _A.applied_at.is_not(None))
    .group_by(_A.kind, _A.skipped)
    .order_by(_A.kind, _A.skipped)
)
_OF_ROW = (
    sa.select(images)
    .where(_I.key == sa.bindparam("key"), _I.kind == sa.bindparam("kind"), _I.sweep_id == _ID)
    .order_by(_I.seq, _I.number)
)
PAGE = 1_000


class Sweeps:
    """The sweeps of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def begin(self, sweep: Sweep, planned: Iterable[Action]) -> int:
        """Record a sweep and its whole plan, before anything is done; return how many actions.

        Raises:
            IntegrityError: the id is taken.
            InputError: a value cannot be stored as it is.
        """
        self._connection.execute(sa.insert(sweeps), _row_of_sweep(sweep))
        total, page = 0, []
        for seq, action in enumerate(planned):
            page.append(_row_of_action(sweep.id, seq, action))
            if len(page) == PAGE:
                self._connection.execute(sa.insert(actions), page)
                page = []
            total = seq + 1
        if page:
            self._connection.execute(sa.insert(actions), page)
        return total

    def get(self, sweep_id: SweepId, *, is_locking: bool = False) -> Sweep | None:
        """Return a sweep, None when there is none.

        Args:
            sweep_id: of the sweep.
            is_locking: nobody else may take a batch of it, or undo it, before this transaction ends.
        """
        query = _LOCKED if is_locking else _GET
        row = self._connection.execute(query, {"id": checked_key(sweep_id, "sweep_id")}).first()
        return None if row is None else _sweep_of_row(row)

    def waiting(self, sweep_id: SweepId, limit: int) -> list[Journaled]:
        """Return the next actions that were not applied yet, in the order of the plan."""
        rows = self._connection.execute(_WAITING, {"id": checked_key(sweep_id, "sweep_id"), "at_most": limit})
        return [_journaled_of_row(row) for row in rows]

    def applied(self, sweep_id: SweepId, done: Sequence[tuple[int, str, Sequence[Image]]], at: Instant) -> None:
        """Record actions as applied.

        Args:
            sweep_id: of the sweep.
            done: (seq, why it was skipped or "", rows it changed).
            at: when.

        Raises:
            IntegrityError: an action was applied before.
        """
        checked_int(at, "at")
        for seq, skipped, _ in done:
            named = {"at_sweep": sweep_id, "at_seq": seq, "new_at": at, "new_skipped": checked_text(skipped, "skipped")}
            if self._connection.execute(_APPLIED, named).rowcount == 0:
                raise IntegrityError(f"action {seq} of sweep {sweep_id} was applied before")
        rows = [_row_of_image(sweep_id, seq, n, image) for seq, _, own in done for n, image in enumerate(own)]
        if rows:
            self._connection.execute(sa.insert(images), rows)

    def cancel(self, sweep_id: SweepId, at: Instant, why: str) -> int:
        """Record that what waits will not be applied; return how many actions."""
        named = {"at_sweep": checked_key(sweep_id, "sweep_id"), "new_at": checked_int(at, "at")}
        return self._connection.execute(_CANCEL, {**named, "new_skipped": checked_text(why, "why")}).rowcount

    def tally(self, sweep_id: SweepId) -> list[tuple[ActionKind, str, int]]:
        """Return how many actions have been applied, or skipped and why, by kind: (kind, skipped, count)."""
        rows = self._connection.execute(_TALLY, {"id": checked_key(sweep_id, "sweep_id")})
        return [(ActionKind(row[0]), row[1], row[2]) for row in rows]

    def mark_undone(self, sweep_id: SweepId, by: SweepId | None) -> None:
        """Record which sweep undid this one; None: what was done stands again.

        Raises:
            IntegrityError: there is no such sweep.
        """
        status = SweepStatus.DONE if by is None else SweepStatus.UNDONE
        values = {"status": status.value, "undone_by": None if by is None else checked_key(by, "by")}
        if self._connection.execute(sa.update(sweeps).where(_S.id == sweep_id).values(values)).rowcount == 0:
            raise IntegrityError(f"there is no sweep {sweep_id}")

    def finish(
        self,
        sweep_id: SweepId,
        status: SweepStatus,
        at: Instant,
        *,
        counts: Mapping[str, int] | None = None,
        undone_by: SweepId | None = None,
    ) -> None:
        """Record how a sweep stands.

        Raises:
            IntegrityError: there is no such sweep.
        """
        values: dict[str, Any] = {"status": status.value, "finished_at": checked_int(at, "at")}
        if counts is not None:
            values["counts"] = checked_json(dict(counts), "counts")
        if undone_by is not None:
            values["undone_by"] = checked_key(undone_by, "undone_by")
        ended = self._connection.execute(sa.update(sweeps).where(_S.id == sweep_id).values(values))
        if ended.rowcount == 0:
            raise IntegrityError(f"there is no sweep {sweep_id}")

    def journal(self, sweep_id: SweepId, *, after: int = -1, limit: int = PAGE) -> list[Journaled]:
        """Return a sweep's actions in the order of its plan, those after place `after`."""
        named = {"id": checked_key(sweep_id, "sweep_id"), "after": checked_int(after, "after"), "at_most": limit}
        return [_journaled_of_row(row) for row in self._connection.execute(_OF_SWEEP, named)]

    def images(self, sweep_id: SweepId, seqs: Iterable[int]) -> dict[int, list[Image]]:
        """Return the rows that actions changed, by the actions' places in the plan."""
        found: dict[int, list[Image]] = {}
        for part in chunks(sorted(set(seqs))):
            named = {"id": checked_key(sweep_id, "sweep_id"), "seqs": part}
            for row in self._connection.execute(_IMAGES, named):
                found.setdefault(row[1], []).append(_image_of_row(row))
        return found

    def images_of_row(self, sweep_id: SweepId, kind: ImageKind, key: str) -> list[Image]:
        """Return a sweep's images of one row, in the order in which it changed."""
        named = {"id": checked_key(sweep_id, "sweep_id"), "kind": kind.value, "key": checked_text(key, "key")}
        return [_image_of_row(row) for row in self._connection.execute(_OF_ROW, named)]

    def of_memory(self, memory_id: MemoryId) -> list[Journaled]:
        """Return what sweeps planned and did to a memory, oldest first, what waits last."""
        rows = self._connection.execute(_OF_MEMORY, {"id": checked_key(memory_id, "memory_id")})
        found = [_journaled_of_row(row) for row in rows]
        return sorted(found, key=lambda j: FOREVER if j.applied_at is None else j.applied_at)

    def list(
        self,
        limit: int,
        *,
        tenant: str | None = None,
        job: SweepJob | None = None,
        status: SweepStatus | None = None,
    ) -> list[Sweep]:
        """Return at most `limit` sweeps, those that began last first; None does not narrow."""
        query = sa.select(sweeps).order_by(*_LATEST_FIRST).limit(limit)
        for column, value in ((_S.tenant, tenant), (_S.job, job), (_S.status, status)):
            if value is not None:
                query = query.where(column == checked_name(str(value), column.name))
        return [_sweep_of_row(row) for row in self._connection.execute(query)]

    def changed_rows(self, key: str) -> Iterator[tuple[SweepId, int]]:
        """Yield (sweep, place) of every action that changed the row with this key."""
        query = sa.select(_I.sweep_id, _I.seq).where(_I.key == checked_text(key, "key")).order_by(_I.sweep_id, _I.seq)
        for row in self._connection.execute(query):
            yield SweepId(row[0]), row[1]


def _row_of_sweep(sweep: Sweep) -> dict[str, Any]:
    return {
        "id": checked_key(sweep.id, "id"),
        "tenant": checked_key(sweep.tenant, "tenant"),
        "job": sweep.job.value,
        "actor": checked_text(sweep.actor, "actor"),
        "reason": checked_text(sweep.reason, "reason"),
        "policy": checked_name(sweep.policy, "policy"),
        "plan": checked_name(sweep.plan, "plan"),
        "at": checked_int(sweep.at, "at"),
        "status": sweep.status.value,
        "counts": checked_json(dict(sweep.counts), "counts"),
        "started_at": checked_int(sweep.started_at, "started_at"),
        "finished_at": checked_int_or_none(sweep.finished_at, "finished_at"),
        "undoes": sweep.undoes,
        "undone_by": sweep.undone_by,
    }


def _sweep_of_row(row: Sequence[Any]) -> Sweep:
    return Sweep(
        id=SweepId(row[0]),
        tenant=row[1],
        job=SweepJob(row[2]),
        actor=row[3],
        reason=row[4],
        policy=row[5],
        plan=row[6],
        at=row[7],
        status=SweepStatus(row[8]),
        counts=row[9],
        started_at=row[10],
        finished_at=row[11],
        undoes=None if row[12] is None else SweepId(row[12]),
        undone_by=None if row[13] is None else SweepId(row[13]),
    )


def _row_of_action(sweep_id: SweepId, seq: int, action: Action) -> dict[str, Any]:
    return {
        "sweep_id": sweep_id,
        "seq": seq,
        "memory_id": checked_name(action.memory_id, "memory_id"),
        "kind": action.kind.value,
        "reason": checked_key(action.reason, "reason"),
        "rev": checked_int(action.rev, "rev"),
        "detail": checked_json(dict(action.detail), "detail"),
        "applied_at": None,
        "skipped": "",
    }


def _journaled_of_row(row: Sequence[Any]) -> Journaled:
    return Journaled(
        sweep_id=SweepId(row[0]),
        seq=row[1],
        action=Action(memory_id=row[2], kind=ActionKind(row[3]), reason=row[4], rev=row[5], detail=row[6]),
        applied_at=row[7],
        skipped=row[8],
    )


def _row_of_image(sweep_id: SweepId, seq: int, number: int, image: Image) -> dict[str, Any]:
    return {
        "sweep_id": sweep_id,
        "seq": seq,
        "number": number,
        "kind": image.kind.value,
        "key": checked_text(image.key, "key"),
        "before": None if image.before is None else checked_json(dict(image.before), "before"),
        "after": None if image.after is None else checked_json(dict(image.after), "after"),
    }


def _image_of_row(row: Sequence[Any]) -> Image:
    return Image(kind=ImageKind(row[3]), key=row[4], before=row[5], after=row[6])
