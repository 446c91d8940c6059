"""Follows a change of half-life: births are stored, so a new half-life in the settings must rewrite them once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kb.trust import birth_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.ledger import Ledger
    from kb.model import Instant, Json, Memory, SourceClass
    from kb.trust import TrustPolicy

META_KEY = "half_life_days"
PAGE = 1000


def follow_half_lives(ledger: Ledger, policies: Mapping[SourceClass, TrustPolicy], now: Instant) -> int:
    """Rewrite the births of source classes whose half-life is another than when they were written; return how many.

    A run that is cut short is repeated whole by the next one: births follow from confidence and anchor alone.
    """
    wanted: dict[str, Json] = {c.value: p.half_life_days for c, p in sorted(policies.items())}
    with ledger.read() as tx:
        stored = tx.meta.get(META_KEY)
    if stored == wanted:
        return 0
    before = stored if isinstance(stored, dict) else wanted
    classes = {c for c in policies if before.get(c.value) != wanted[c.value]}
    reborn = _rewritten(ledger, policies, classes, now) if classes else 0
    with ledger.write() as tx:
        tx.meta.set(META_KEY, wanted)
    return reborn


def _rewritten(
    ledger: Ledger, policies: Mapping[SourceClass, TrustPolicy], classes: set[SourceClass], now: Instant
) -> int:
    after, total = "", 0
    while True:
        with ledger.write() as tx:
            page = tx.memories.page(after, PAGE)
            changed = [_reborn(m, policies[m.source_class], now) for m in page if m.source_class in classes]
            tx.memories.replace(changed)
            tx.outbox.mark([m.id for m in changed], now)
        if not page:
            return total
        after, total = page[-1].id, total + len(changed)


def _reborn(memory: Memory, policy: TrustPolicy, now: Instant) -> Memory:
    birth = birth_of(memory.trust.confidence, memory.trust.anchor, policy.half_life)
    return replace(memory, trust=replace(memory.trust, birth=birth), updated_at=now, rev=memory.rev + 1)
