"""Takes a ledger to another database: one snapshot of the old into one transaction of the new, no files between."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.ledger.checks import json_text
from kb.ledger.migrations import HEAD
from kb.ledger.portable import EMBEDDINGS, carried
from kb.moving.arriving import LOCK, filling, insert, is_begun, leave_mark, mark_of, refuse_occupied
from kb.telemetry import Attr, Span, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kb.ledger import Ledger
    from kb.ledger.ledger import LedgerTx
    from kb.model import Instant, Json
    from kb.moving.exporting import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A ledger's copy.

    Args:
        rows: by table.
        digest: of the rows that were copied, for `digest_of` to be held against.
        was_begun: the rows were there already, from a copy that was cut short.
    """

    rows: dict[str, int]
    digest: str
    was_begun: bool


def copied(source: Ledger, target: Ledger, now: Instant, *, progress: Progress = lambda _table, _rows: None) -> Copied:
    """Copy a ledger into an empty one. Cut short, it is repeated: the new one is empty, or whole, never in between.

    Whoever writes to the old one meanwhile is not held up, and not copied: compare `digest` in the end.

    Raises:
        Refused: the target holds something else.
        Locked: another copy goes there.
        DependencyError: either ledger is away.
    """
    with span(Span.MOVE_LEDGER) as recording, target.lock(LOCK), source.read() as old:
        done = _begun(old, target) or _copied(old, target, now, progress)
        recording.set({Attr.ROWS: sum(done.rows.values()), Attr.RESUMED: done.was_begun})
        return done


def _copied(old: LedgerTx, target: Ledger, now: Instant, progress: Progress) -> Copied:
    sums, rows = _Sums(), dict[str, int]()
    with filling(target, HEAD) as new:
        for table in _tables():
            rows[table] = insert(new, table, sums.read(old, table), progress=_named(progress, table))
        leave_mark(new, sums.digest, now)
    return Copied(rows=rows, digest=sums.digest, was_begun=False)


def digest_of(ledger: Ledger) -> str:
    """Return the digest of all that a copy holds, as it is now: but for vectors, which anybody can make again."""
    sums = _Sums()
    with ledger.read() as tx:
        for table in _tables():
            if table != EMBEDDINGS:
                for _ in sums.read(tx, table):
                    pass
    return sums.digest


def counts_of(ledger: Ledger) -> dict[str, int]:
    """Return how many rows a copy would hold, by table."""
    with ledger.read() as tx:
        return {table: tx.portable.count(table) for table in _tables()}


class _Sums:
    """Hashes rows on their way."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    @property
    def digest(self) -> str:
        return self._sha.hexdigest()

    def read(self, tx: LedgerTx, table: str) -> Iterator[tuple[int, dict[str, Json]]]:
        """Yield a table's rows with their sizes."""
        for row in tx.portable.rows(table):
            line = json_text(row).encode()
            if table != EMBEDDINGS:
                self._sha.update(table.encode() + b"\0" + line + b"\n")
            yield len(line), row


def _begun(old: LedgerTx, target: Ledger) -> Copied | None:
    with target.read() as tx:
        mark = mark_of(tx)
        if mark is None or mark[1]:
            refuse_occupied(tx, target)
            return None
    sums, rows = _Sums(), dict[str, int]()
    for table in _tables():
        rows[table] = old.portable.count(table)
        if table != EMBEDDINGS:
            for _ in sums.read(old, table):
                pass
    return Copied(rows=rows, digest=sums.digest, was_begun=True) if is_begun(target, sums.digest) else None


def _tables() -> list[str]:
    return carried(with_embeddings=True, with_keys=True, tenant=None)


def _named(progress: Progress, table: str) -> Callable[[int], None]:
    return lambda rows: progress(table, rows)
