"""Who vouched for a verified memory, an external check or a person, and whose words such a check rests on: pure.

A check is told by the witness of its event: what it came to, and the root sources that decided it. What only a check
has vouched for speaks with the voices of those sources, and a check may take it back; what a person, or an owner,
has vouched for is theirs.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from kb.history import EvidenceKind
from kb.independence import root_mark
from kb.model import SourceClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kb.history import EvidenceEvent
    from kb.model import Memory, MemoryId

FOR, AGAINST = "check:for:", "check:against:"  # begin the witness of a check; the sources that decided it follow
VOUCHED = "check:vouched:"  # of no weight: a check vouched for what nobody had; an id and `:` come before the sources
WITNESS_BYTES = 256  # as long as the ledger lets a name be
_ROOT_BYTES = 60  # of a source's name in a witness; a longer one is told by its beginning and its digest
_JOINT = "+"


def known_as(root: str) -> str:
    """Return the name of a root source as witnesses give it: short enough that several fit."""
    data = root.encode("utf-8", "replace")
    if len(data) <= _ROOT_BYTES:
        return root
    return f"{data[:_ROOT_BYTES].decode(errors='ignore')}~{hashlib.sha256(data).hexdigest()[:16]}"


def check_witness(prefix: str, roots: Sequence[str]) -> str:
    """Return the witness of a check: its prefix and the first of its sources that the ledger's name has room for."""
    witness = prefix
    for n, root in enumerate(map(known_as, roots)):
        longer = f"{witness}{_JOINT if n else ''}{root}"
        if len(longer.encode("utf-8", "replace")) > WITNESS_BYTES:
            break
        witness = longer
    return witness


def roots_of(event: EvidenceEvent, prefix: str) -> frozenset[str]:
    """Return the root sources that a check of this prefix rests on; none of any other event."""
    if event.kind is not EvidenceKind.CHECK or not event.witness.startswith(prefix):
        return frozenset()
    named = event.witness.removeprefix(prefix)
    return frozenset(filter(None, (named.partition(":")[2] if prefix == VOUCHED else named).split(_JOINT)))


def vouchers(memory: Memory, history: Iterable[EvidenceEvent]) -> frozenset[str]:
    """Return the root sources by whose word alone a memory is verified; none where a person or an owner vouched.

    Args:
        memory: as it is stored.
        history: its evidence.
    """
    if not memory.trust.verified or memory.source_class is SourceClass.CURATED:
        return frozenset()
    events = list(history)
    vouched = max((e.at for e in events if roots_of(e, VOUCHED)), default=None)
    if vouched is None or any(e.kind is EvidenceKind.VERIFICATION and e.at >= vouched for e in events):
        return frozenset()
    return frozenset(root for e in events for prefix in (FOR, VOUCHED) for root in roots_of(e, prefix))


def is_persons(memory: Memory, history: Iterable[EvidenceEvent]) -> bool:
    """Return whether a person or an owner has vouched for a memory, not a check alone."""
    return memory.trust.verified and not vouchers(memory, history)


def with_vouchers(
    lines: Mapping[str, frozenset[str]],
    memories: Iterable[Memory],
    history: Mapping[MemoryId, Sequence[EvidenceEvent]],
) -> dict[str, frozenset[str]]:
    """Return lines of descent to which the sources belong that vouched: two that the same vouched for are one witness.

    Args:
        lines: by id, all that a memory was made from.
        memories: those in question.
        history: by id, their evidence.
    """
    found = dict(lines)
    for memory in memories:
        if roots := vouchers(memory, history.get(memory.id, ())):
            found[memory.id] = found.get(memory.id, frozenset()) | {root_mark(root) for root in roots}
    return found
