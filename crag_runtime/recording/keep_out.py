"""What a write-back must not bring back: pages that were rolled back or erased, and keys to what was made from them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kb.ledger.barring import barred_texts
from kb.model import Kind, Standing
from kb.rolled_back import is_rolled_back, why_barred

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kb.ledger.ledger import LedgerTx
    from kb.model import Memory


def kept_out(tx: LedgerTx, finding: Memory) -> Memory | None:
    """Return a new finding as it may be stored: in quarantine when its words were rolled back, None when erased."""
    bar = barred_texts(tx, finding.tenant, [finding.text]).get(finding.text)
    if bar is None:
        return finding
    if bar.tombstone.is_erased:
        return None
    return replace(finding, standing=Standing.QUARANTINED, standing_reason=why_barred(bar.tombstone))


def rests_on_erased(tx: LedgerTx, ids: Iterable[str]) -> bool:
    """Return whether an answer rests on what was erased while it was being written: then nothing of it is kept."""
    return bool(tx.erasure.erased_among(ids))


def rests_on_rolled_back(tx: LedgerTx, cited: Iterable[Memory]) -> bool:
    """Return whether an answer rests on what was rolled back while it was being written: then nothing leads to it."""
    memories = [m for m in cited if m.kind is not Kind.ANSWER]
    if any(is_rolled_back(m) for m in memories):
        return True
    return any(barred_texts(tx, m.tenant, [m.text]) for m in memories if m.standing is not Standing.ACTIVE)
