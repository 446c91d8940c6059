"""Findings and notes that wait in quarantine though answers cited them; and what pages found together say of them.

A search that brought pages of two owners which say the same was an external check already: it is not paid for twice.
The runtime cannot say so itself, since it knows that two excerpts gave one value for one question, not that a page is
borne out in what it claims; nor could what it wrote be planned, explained or undone. So the stored pages are compared
here, by the rules that compare everything else, and nobody outside is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from governance.contradict import compare
from governance.vouching import WITNESSES, bearing_out
from kb.evidence_rules import is_rejected
from kb.independence import root_of
from kb.ledger.barring import barred_texts
from kb.ledger.looking import MOST_USED, Place
from kb.model import FOREVER, Kind, Standing
from kb.rolled_back import is_rolled_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from governance.ports import Comparer
    from kb.history import EvidenceEvent
    from kb.ledger.ledger import LedgerTx
    from kb.model import Memory

KINDS = (Kind.WEB, Kind.NOTE)  # what waits for corroboration
PAGE = 200
LOOKS = 2_000  # memories of one recheck; those that answers cite least wait for another


def is_waiting(memory: Memory, history: Sequence[EvidenceEvent]) -> bool:
    """Return whether a memory waits for corroboration: not for a person who refused it, nor for an undone rollback."""
    is_kind = memory.kind in KINDS and memory.standing is Standing.QUARANTINED and memory.valid_to == FOREVER
    return is_kind and not is_rolled_back(memory) and not is_rejected(memory, history)


def waiting(tx: LedgerTx, tenant: str, limit: int = LOOKS) -> Iterator[Memory]:
    """Yield what waits for corroboration though answers cited it, the most cited first; nothing that a person decided.

    Args:
        tx: where they are.
        tenant: whose.
        limit: memories that are looked at.
    """
    after, seen = MOST_USED, 0
    while seen < limit and (page := tx.looking.used(tenant, min(PAGE, limit - seen), after)):
        barred = barred_texts(tx, tenant, [m.text for m, _ in page])
        for memory, _ in page:
            if memory.text not in barred and is_waiting(memory, tx.evidence.of_memory(memory.id)):
                yield memory
        last, cited = page[-1]
        after, seen = Place(cited, last.id), seen + len(page)


def borne_out(
    tx: LedgerTx, tenant: str, comparer: Comparer = compare, limit: int = LOOKS
) -> Iterator[tuple[Memory, tuple[Memory, ...]]]:
    """Yield waiting findings with the pages of other owners, found by the same search, that say what they say.

    Args:
        tx: where they are.
        tenant: whose.
        comparer: the rules, or a judge behind them.
        limit: memories that are looked at.
    """
    for memory in waiting(tx, tenant, limit):
        if memory.kind is not Kind.WEB:
            continue
        ids = tx.looking.found_with([memory.id]).get(memory.id, frozenset())
        pages = [p for p in tx.memories.get(sorted(ids)).values() if not is_rejected(p, tx.evidence.of_memory(p.id))]
        bearing = bearing_out(memory, pages, tx.looking.lines([memory.id, *ids]), comparer)
        if len({root_of(m) for m in (memory, *bearing)}) >= WITNESSES:
            yield memory, bearing
