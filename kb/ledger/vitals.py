"""What is watched from outside, in a few counts: memories by standing, those above the gate, latest slots, sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from kb.ledger.schema import memories
from kb.ledger.schema_governance import slots, sweeps
from kb.ledger.slots import SlotStatus
from kb.model import SourceClass, Standing
from kb.sweeps import SweepStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kb.model import Instant
    from kb.trust import GateClause

_M, _S = memories.c, slots.c
_STANDINGS = sa.select(_M.tenant, _M.standing, sa.func.count()).group_by(_M.tenant, _M.standing)
_DONE = sa.func.max(sa.case((_S.status == SlotStatus.DONE.value, _S.finished_at)))
_LATEST = sa.select(_S.job, sa.func.max(_S.slot).label("slot"), _DONE.label("done")).group_by(_S.job).subquery()
_SLOTS = (
    sa.select(_S.job, _S.status, _LATEST.c.done)
    .join(_LATEST, sa.and_(_LATEST.c.job == _S.job, _LATEST.c.slot == _S.slot))
    .order_by(_S.job)
)
_UNFINISHED = sa.select(sa.func.count()).select_from(sweeps).where(sweeps.c.status == SweepStatus.RUNNING.value)


class JobState(NamedTuple):
    """How a job stands: whether its latest slot failed, and when it last was done."""

    job: str
    is_failed: bool
    done_at: Instant | None


class Vitals:
    """The vitals of one transaction, of all tenants together."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def standings(self) -> dict[str, dict[str, int]]:
        """Return how many memories stand how, by tenant."""
        found: dict[str, dict[str, int]] = {}
        for tenant, standing, number in self._connection.execute(_STANDINGS):
            found.setdefault(tenant, {})[standing] = number
        return found

    def above_gate(self, clauses: Iterable[GateClause]) -> dict[str, int]:
        """Return how many active memories the gate lets through, by tenant; a tenant without any is absent."""
        named = {source_class.policy: source_class.value for source_class in SourceClass}
        any_of = [
            sa.and_(
                _M.confidence > clause.above,
                _M.birth > clause.born_after,
                *([_M.source_class.in_([named[p] for p in clause.policies])] if clause.policies else []),
            )
            for clause in clauses
        ]
        query = sa.select(_M.tenant, sa.func.count()).where(_M.standing == Standing.ACTIVE.value, sa.or_(*any_of))
        return {row[0]: row[1] for row in self._connection.execute(query.group_by(_M.tenant))}

    def jobs(self) -> list[JobState]:
        """Return how each job stands that ever ran by its schedule."""
        return [JobState(row[0], row[1] == SlotStatus.FAILED.value, row[2]) for row in self._connection.execute(_SLOTS)]

    def unfinished_sweeps(self) -> int:
        """Return how many sweeps are under way, or were cut off."""
        return int(self._connection.execute(_UNFINISHED).scalar_one())
