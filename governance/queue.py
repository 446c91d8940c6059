"""The review queue: what waits for a person, and why: contested, due for verification again, quarantined."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kb.clock import iso
from kb.evidence_rules import is_rejected
from kb.ledger.looking import START, Place
from kb.model import FOREVER, Kind, MemoryId, Standing
from kb.rolled_back import is_rolled_back, since_undone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Instant, Json, Memory

PAGE = 500
CONTESTED_AT_MOST = 10_000
_KINDS = tuple(kind for kind in Kind if kind is not Kind.ANSWER)


class Waits(StrEnum):
    """Why a memory waits, the most urgent first."""

    CONTESTED = "contested"
    DUE = "due"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewItem:
    """One memory that waits for a person.

    Args:
        memory: as it is stored.
        why: it waits.
        since: when that began: the contradiction was found, the hold ended, the memory was changed last.
        said: in words.
        other_id: of the memory that says otherwise; "" unless it is contested.
        kind: of the contradiction.
        value: what this memory says.
        other_value: what the other says.
    """

    memory: Memory
    why: Waits
    since: Instant
    said: str
    other_id: str = ""
    kind: str = ""
    value: str = ""
    other_value: str = ""

    def as_json(self) -> dict[str, Json]:
        """Return the item under the stable keys of docs/reference/json.md."""
        return {
            "memory_id": self.memory.id,
            "why": self.why.value,
            "since": iso(self.since),
            "said": self.said,
            "kind": self.memory.kind.value,
            "source": self.memory.source,
            "title": self.memory.passage.title,
            "text": self.memory.text,
            "verified": self.memory.trust.verified,
            "contradiction": self._contradiction(),
        }

    def _contradiction(self) -> dict[str, Json] | None:
        if not self.other_id:
            return None
        return {
            "other_id": self.other_id,
            "kind": self.kind,
            "value": self.value,
            "other_value": self.other_value,
        }


def review_queue(
    memories: Memories, tenant: str, now: Instant, *, why: Sequence[Waits] = tuple(Waits), limit: int = 100
) -> list[ReviewItem]:
    """Return at most `limit` items: contested memories first, then due ones, then quarantined ones.

    A contested memory stands once for each that contradicts it, and once only whatever else it waits for. What a person
    has decided already waits for nobody: what was rejected or rolled back; nor do answer-keys, or what is past.

    Args:
        memories: the store; only its ledger is read.
        tenant: whose.
        now: the instant at which holds must have ended.
        why: only what waits for these reasons.
        limit: at least 0.
    """
    found: list[ReviewItem] = []
    with memories.ledger.read() as tx:
        for item in _waiting(tx, tenant, now, why):
            if len(found) >= limit:
                break
            found.append(item)
    return found


def _waiting(tx: LedgerTx, tenant: str, now: Instant, why: Sequence[Waits]) -> Iterator[ReviewItem]:
    seen: set[MemoryId] = set()
    streams = {Waits.CONTESTED: _contested, Waits.DUE: _due, Waits.QUARANTINED: _quarantined}
    for reason in Waits:
        if reason not in why:
            continue
        listed = set()
        for item in streams[reason](tx, tenant, now):
            if item.memory.id not in seen:
                listed.add(item.memory.id)
                yield item
        seen |= listed


def _contested(tx: LedgerTx, tenant: str, _: Instant) -> Iterator[ReviewItem]:
    open_ = tx.contradictions.open(tenant, CONTESTED_AT_MOST)
    sides = tx.memories.get({MemoryId(id_) for c in open_ for id_ in (c.one, c.other)})
    for c in open_:
        both = ((c.one, c.other, c.one_value, c.other_value), (c.other, c.one, c.other_value, c.one_value))
        for id_, other, value, other_value in both:
            memory = sides.get(MemoryId(id_))
            if memory is None:
                continue
            yield ReviewItem(
                memory=memory,
                why=Waits.CONTESTED,
                since=c.found_at,
                said=f"memory {other} gives another {c.kind}",
                other_id=other,
                kind=c.kind,
                value=value,
                other_value=other_value,
            )


def _due(tx: LedgerTx, tenant: str, now: Instant) -> Iterator[ReviewItem]:
    after: Place = START
    while page := tx.looking.due(tenant, now, PAGE, after):
        for memory in page:
            said = "its verification has run out: verify it again, or reject it"
            yield ReviewItem(memory=memory, why=Waits.DUE, since=memory.trust.anchor, said=said)
        after = Place(page[-1].trust.anchor, page[-1].id)


def _quarantined(tx: LedgerTx, tenant: str, _: Instant) -> Iterator[ReviewItem]:
    after = ""
    while page := tx.memories.page(after, PAGE, tenant=tenant, standings=(Standing.QUARANTINED,), kinds=_KINDS):
        for memory in page:
            if _is_decided(tx, memory):
                continue
            said = since_undone(memory.standing_reason, tx.sweeps.get) or "quarantined"
            yield ReviewItem(memory=memory, why=Waits.QUARANTINED, since=memory.updated_at, said=said)
        after = page[-1].id


def _is_decided(tx: LedgerTx, memory: Memory) -> bool:
    is_past = memory.valid_to != FOREVER
    return is_past or is_rolled_back(memory) or is_rejected(memory, tx.evidence.of_memory(memory.id))
