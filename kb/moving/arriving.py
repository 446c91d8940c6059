"""What every arrival of rows in a ledger shares: it was empty, one transaction fills it, then its index is built.

The transaction leaves a mark that says from what the ledger was filled and that its index is not built yet. Whoever
dies after it leaves a whole ledger; the same command goes on from the mark.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from kb.errors import IntegrityError, Refused
from kb.ledger.migrations import HEAD
from kb.ledger.portable import ARRIVAL, CARRIED, EMBEDDINGS
from kb.rebirth import follow_half_lives
from kb.rebuild import reconcile, reindex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kb.ledger import Ledger
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Instant, Json

    Sized = Iterable[tuple[int, dict[str, Json]]]  # rows with about how many bytes each has

LOCK = "arrival"
INDEX = "index"  # the stage that comes after all tables
BATCH_ROWS, BATCH_BYTES = 1000, 4 << 20  # inserted at a time, whichever comes first
NOT_EMPTY = "import into an empty one: set KB_DATA_DIR to a new folder, or KB_LEDGER_URL to a new database"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """An index that was built for a ledger that arrived.

    Args:
        collection: its name.
        memories: rows written to it.
        embedded: texts that had no vector and were embedded.
        repaired: rows that a comparison with the ledger found wrong afterwards.
    """

    collection: str
    memories: int
    embedded: int
    repaired: int


def mark_of(tx: LedgerTx) -> tuple[str, bool] | None:
    """Return the digest of what a ledger was filled from and whether its index is built; None: it was not filled."""
    match tx.meta.get(ARRIVAL):
        case {"digest": str(digest), "is_settled": bool(is_settled)}:
            return digest, is_settled
        case _:
            return None


def is_begun(ledger: Ledger, digest: str) -> bool:
    """Return whether the ledger was filled from just this and only lacks its index.

    Raises:
        Refused: it holds something else.
    """
    with ledger.read() as tx:
        if mark_of(tx) == (digest, False):
            return True
        refuse_occupied(tx, ledger)
    return False


def refuse_occupied(tx: LedgerTx, ledger: Ledger) -> None:
    """Refuse a ledger that holds rows of its own.

    Raises:
        Refused: it does.
    """
    if occupied := tx.portable.occupied(t for t in CARRIED if t != EMBEDDINGS):
        raise Refused(f"the ledger ({ledger.place.shown}) is not empty: it has {', '.join(occupied)}", hint=NOT_EMPTY)


@contextmanager
def filling(ledger: Ledger, revision: str) -> Iterator[LedgerTx]:
    """Fill an empty ledger in one transaction, which must leave a mark; at its end the schema is this program's.

    Args:
        ledger: an empty one.
        revision: of the schema that the rows are of.

    Raises:
        Refused: it is not empty, or the rows refer to what is not among them.
    """
    try:
        with ledger.write() as tx:
            tx.portable.shut(list(CARRIED))
            refuse_occupied(tx, ledger)
            tx.portable.step_to(revision)
            tx.portable.clear_meta()
            yield tx
            tx.portable.finish(CARRIED)
            tx.portable.step_to(HEAD)
    except IntegrityError as error:
        hint = "nothing was written; take another copy, or export again"
        raise Refused(f"the rows do not fit together: {error}", hint=hint) from error


def leave_mark(tx: LedgerTx, digest: str, now: Instant) -> None:
    """Note what a ledger was filled from, as `digest`, and that its index is not built yet."""
    tx.meta.set(ARRIVAL, {"digest": digest, "is_settled": False, "at": now})


def insert(
    tx: LedgerTx, table: str, rows: Sized, *, progress: Callable[[int], None], shape: Mapping[str, str] | None = None
) -> int:
    """Insert a table's rows as they come, so many at a time that memory does not grow; return how many.

    Args:
        tx: of `filling`.
        table: where they go.
        rows: with their sizes in bytes.
        progress: told after how many rows it goes on.
        shape: kinds of the columns that the rows are of; None: the ledger's own.

    Raises:
        Refused: the ledger's table has other columns.
    """
    own = tx.portable.shape(table)
    if shape is not None and dict(shape) != own:
        odd = sorted({*shape.items()} ^ {*own.items()})
        raise Refused(f"{table} has other columns than its schema: {odd[0][0] if odd else 'none'}")
    done = 0
    for batch in _batches(rows):
        tx.portable.insert(table, own, batch)
        done += len(batch)
        progress(done)
    return done


def settled(memories: Memories, progress: Callable[[int], None]) -> Settled:
    """Build the index of a ledger that was filled, compare the two, and take the mark away.

    Raises:
        EmbedderUnavailable: a text lacks a vector and cannot be embedded; the ledger stays whole.
        IndexUnavailable: likewise, of the index.
    """
    follow_half_lives(memories.ledger, memories.policies, memories.clock.now())
    done = 0

    def advance(rows: int) -> None:
        nonlocal done
        done += rows
        progress(done)

    built = reindex(memories, re_embed=True, progress=advance)
    repaired = len(reconcile(memories).ids)
    with memories.ledger.write() as tx:
        mark = tx.meta.get(ARRIVAL)
        if isinstance(mark, dict):
            tx.meta.set(ARRIVAL, {**mark, "is_settled": True})
    return Settled(collection=built.collection, memories=built.memories, embedded=built.embedded, repaired=repaired)


def _batches(rows: Sized) -> Iterator[list[dict[str, Json]]]:
    incoming = iter(rows)
    for first_size, first in incoming:
        batch, size = [first], first_size
        for next_size, row in islice(incoming, BATCH_ROWS - 1):
            batch.append(row)
            size += next_size
            if size >= BATCH_BYTES:
                break
        yield batch
