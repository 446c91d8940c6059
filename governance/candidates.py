"""From the ledger's ranges to decisions: what decay, prune and gc would do, streamed in one fixed order."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from governance.decide import (
    SHOWN,
    STEP,
    collected,
    decayed,
    faded_cut,
    key_pruned,
    lines_of,
    pruned,
)
from governance.forecast import forecasts
from kb.ledger.governed import Fading
from kb.model import SourceClass
from kb.trust import SHOWN_LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from governance.forecast import Forecast
    from governance.policy import Policy
    from kb.ledger.governed import GovernedRow
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Instant, MemoryId
    from kb.sweeps import Action

DOCUMENTS = 500  # whose live memories are counted at a time

_BELIEVED: tuple[SourceClass, ...] = tuple(c for c in SourceClass if c is not SourceClass.ANSWER)


def decay_actions(tx: LedgerTx, policy: Policy, now: Instant) -> Iterator[Action]:
    """Yield what decay does: one exact range for each source class and each confidence that rows of it show."""
    tenant, lines = policy.tenant, lines_of(policy)
    for standing in SHOWN:
        for source_class in _BELIEVED:
            own = lines[source_class]
            for level in tx.governed.levels(tenant, standing, source_class, above=STEP):
                cut = faded_cut((level - STEP) / SHOWN_LEVELS, now, own.half_life)
                rows = tx.governed.showing(tenant, standing, source_class, level=level, born_before=cut)
                yield from (action for row in rows if (action := decayed(row, own, now)))


def prune_actions(tx: LedgerTx, policy: Policy, now: Instant) -> Iterator[Action]:
    """Yield what prune does to memories, document by document."""
    lines = lines_of(policy)
    ranges = {
        c: Fading(
            below=lines[c].prune_below,
            born_before=faded_cut(lines[c].prune_below, now, lines[c].half_life),
            created_until=now - lines[c].prune_after,
        )
        for c in _BELIEVED
    }
    for documents in _batches(tx.governed.faded(policy.tenant, ranges)):
        live = tx.governed.live_of_documents(d[0].doc_id for d in documents if d[0].doc_id is not None)
        for rows in documents:
            doc_id = rows[0].doc_id
            yield from pruned(rows, lines, now, live=0 if doc_id is None else live.get(doc_id, 0))


def key_actions(tx: LedgerTx, policy: Policy, now: Instant, retiring: Sequence[MemoryId]) -> Iterator[Action]:
    """Yield what prune does to answer-keys once `retiring` are gone: those that then lead nowhere go with them."""
    own = lines_of(policy)[SourceClass.ANSWER]
    until = now - own.prune_after
    for row in tx.governed.idle_keys(policy.tenant, created_until=until):
        if action := key_pruned(row, own, now):
            yield action
    for row in tx.governed.keys_only_to(policy.tenant, retiring, created_until=until):
        if action := key_pruned(row, own, now):
            yield action


def gc_actions(tx: LedgerTx, policy: Policy, now: Instant) -> Iterator[Action]:
    """Yield what gc does: retired memories whose restore window has ended are erased."""
    lines = lines_of(policy)
    for row in tx.governed.retired(policy.tenant, {c: now - own.restore for c, own in lines.items()}):
        if action := collected(row, lines[row.source_class], now):
            yield action


def foreseen(
    memories: Memories, policies: Sequence[Policy], now: Instant, days: int, *, is_synced: bool = True
) -> list[Forecast]:
    """Return the forecast of one tenant under each policy, from one reading of the ledger.

    Args:
        memories: the store; only its ledger is read.
        policies: at least one; all of one tenant.
        now: the instant to look ahead from.
        days: how far, at least 1.
        is_synced: registered sources are synced nightly and do not change; False: as if nobody synced any more.
    """
    tenant = policies[0].tenant
    with memories.ledger.read() as tx:
        synced = {root.name for root in tx.sources.list(tenant)} if is_synced else set()
        return forecasts(tx.governed.believed(tenant), policies, now, days, synced=synced)


def documents_of(rows: Iterator[GovernedRow]) -> Iterator[list[GovernedRow]]:
    """Yield the rows of one document together, and each row of none by itself; rows come by document and id."""
    for doc_id, own in groupby(rows, key=lambda row: row.doc_id):
        if doc_id is None:
            yield from ([row] for row in own)
        else:
            yield list(own)


def _batches(rows: Iterator[GovernedRow]) -> Iterator[list[list[GovernedRow]]]:
    batch: list[list[GovernedRow]] = []
    for document in documents_of(rows):
        batch.append(document)
        if len(batch) == DOCUMENTS:
            yield batch
            batch = []
    if batch:
        yield batch
