"""What the jobs' own upkeep asks of the ledger: the slot before an instant, and what nobody needs any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from kb.ledger.batches import chunks
from kb.ledger.checks import checked_int, checked_key
from kb.ledger.runs import RunStatus
from kb.ledger.schema import embeddings, memories, runs
from kb.ledger.schema_governance import daemons, slots
from kb.model import MemoryId, Standing
from kb.trust import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kb.model import Instant

LULL_DAYS = 8  # between two slots; longer than a week, so that those of a weekly job are no lulls
_S, _R, _E, _M = slots.c, runs.c, embeddings.c, memories.c
_NEEDED_BY_NONE = sa.select(_E.text_hash).except_(sa.select(memories.c.embed_hash))  # one pass over both tables
_UNUSED = (
    sa.select(_E.model, _E.text_hash)
    .where(_E.text_hash.in_(_NEEDED_BY_NONE))
    .order_by(_E.model, _E.text_hash)
    .limit(sa.bindparam("at_most", type_=sa.Integer))
)
_DROP = sa.delete(embeddings).where(
    _E.model == sa.bindparam("of_model"), _E.text_hash.in_(sa.bindparam("hashes", expanding=True))
)
_LOCK = (
    sa.select(_E.text_hash)
    .where(_E.model == sa.bindparam("of_model"), _E.text_hash.in_(sa.bindparam("hashes", expanding=True)))
    .order_by(_E.text_hash)
    .with_for_update()
)
_NEEDED = sa.select(_M.embed_hash).where(_M.embed_hash.in_(sa.bindparam("hashes", expanding=True))).distinct()


class Vector(NamedTuple):
    """A cached vector by its key."""

    model: str
    text_hash: str


class Upkeep:
    """The upkeep of one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def slot_before(self, job: str, at: Instant) -> Instant | None:
        """Return the latest slot at or before an instant that anybody took, None when none was."""
        query = sa.select(sa.func.max(_S.slot)).where(
            _S.job == checked_key(job, "job"), _S.slot <= checked_int(at, "at")
        )
        found: Instant | None = self._connection.execute(query).scalar()
        return found

    def forget_slots(self, before: Instant) -> int:
        """Forget slots that were taken before an instant, but of each job the latest; return how many.

        The last one before a long lull stays, too: a clock that was far ahead leaves one, and once it is set back, that
        slot is the latest.
        """
        later = slots.alias()
        is_followed = sa.exists().where(
            later.c.job == _S.job, later.c.slot > _S.slot, later.c.slot <= _S.slot + LULL_DAYS * DAY_MS
        )
        old = _S.started_at < checked_int(before, "before")
        return self._connection.execute(sa.delete(slots).where(old, is_followed)).rowcount

    def forget_daemons(self, before: Instant) -> int:
        """Forget daemons whose last heartbeat is older than an instant; return how many."""
        old = daemons.c.heartbeat_at < checked_int(before, "before")
        return self._connection.execute(sa.delete(daemons).where(old)).rowcount

    def forget_runs(self, before: Instant) -> int:
        """Forget runs that ended before an instant; return how many. What they stored keeps their ids."""
        ended = sa.and_(_R.finished_at < checked_int(before, "before"), _R.status != RunStatus.RUNNING.value)
        return self._connection.execute(sa.delete(runs).where(ended)).rowcount

    def unused_vectors(self, limit: int) -> list[Vector]:
        """Return at most `limit` cached vectors that no memory's text needs now, in the order of their keys."""
        return [Vector(row[0], row[1]) for row in self._connection.execute(_UNUSED, {"at_most": limit})]

    def drop_unneeded(self, named: Iterable[Vector]) -> int:
        """Delete those of these vectors that nothing needs now; return how many.

        Who is about to write a memory that needs one is waited for; who comes later finds it gone.
        """
        number = 0
        for model, hashes in _by_model(named):
            for part in chunks(hashes):
                self._connection.execute(_LOCK, {"of_model": model, "hashes": part}).all()
                needed = set(self._connection.execute(_NEEDED, {"hashes": part}).scalars())
                number += self.drop_vectors(Vector(model, h) for h in part if h not in needed)
        return number

    def drop_vectors(self, named: Iterable[Vector]) -> int:
        """Delete vectors, needed or not; return how many were there."""
        return sum(
            self._connection.execute(_DROP, {"of_model": model, "hashes": part}).rowcount
            for model, hashes in _by_model(named)
            for part in chunks(hashes)
        )

    def without_vector(self, model: str, limit: int) -> list[MemoryId]:
        """Return at most `limit` memories that belong in the index and have no vector of this model, in id order."""
        has_one = sa.exists().where(_E.model == checked_key(model, "model"), _E.text_hash == _M.embed_hash)
        query = (
            sa.select(_M.id)
            .where(_M.standing != Standing.RETIRED.value, _M.embed_hash != "", ~has_one)
            .order_by(_M.id)
            .limit(limit)
        )
        return [MemoryId(row[0]) for row in self._connection.execute(query)]


def _by_model(named: Iterable[Vector]) -> list[tuple[str, list[str]]]:
    """Return hashes by model, both in order: in one order everywhere, so that two writers never wait in a ring."""
    by_model: dict[str, set[str]] = {}
    for vector in named:
        by_model.setdefault(checked_key(vector.model, "model"), set()).add(vector.text_hash)
    return [(model, sorted(hashes)) for model, hashes in sorted(by_model.items())]
