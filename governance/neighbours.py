"""A memory's nearest neighbours in the index, by the vector it is stored under: nothing is embedded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.model import Kind, Standing
from kb.ports import Criteria
from kb.vouching import with_vouchers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kb.history import EvidenceEvent
    from kb.memories import Memories
    from kb.model import Instant, Memory, MemoryId
    from kb.sweeps import Contradiction
    from kb.trust import GateClause

ASKED = 40  # rows of one search: passages of the memory's own document take places
NEAREST = 10  # neighbours that are compared
BATCH = 100  # memories whose neighbours are read in one transaction
_EVIDENT = tuple(kind for kind in Kind if kind is not Kind.ANSWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """Memories with their neighbours, and what the ledger knows of all of them.

    Args:
        pairs: each memory with its neighbours, nearest first: live, of other documents.
        history: evidence by id.
        lines: by id, all that a memory was made from, and the sources by whose word alone it is verified.
        contradictions: that any of them is a side of, open and settled.
    """

    pairs: tuple[tuple[Memory, tuple[Memory, ...]], ...]
    history: Mapping[MemoryId, list[EvidenceEvent]]
    lines: Mapping[str, frozenset[str]]
    contradictions: tuple[Contradiction, ...]


def neighbourhoods(
    memories: Memories,
    looked: Sequence[Memory],
    now: Instant,
    *,
    gate: tuple[GateClause, ...] | None = None,
    only: Callable[[Memory], bool] | None = None,
) -> Iterator[Neighbourhood]:
    """Yield the neighbourhoods of memories, some at a time, in the order given.

    Args:
        memories: the store.
        looked: whose neighbours are wanted, of one tenant; one without a stored vector has none.
        now: the instant of the search.
        gate: only neighbours that pass it; None: all active ones.
        only: of the nearest, those for which it holds; None: all. Of the others nothing more is read.

    Raises:
        IndexUnavailable: the index cannot be searched.
        IndexOutdated: it has another schema than this version's.
    """
    with memories.ledger.read() as tx:
        current = memories.generations.current(tx)
    if current is None or not looked:
        return
    index = memories.generations.index(current, now)
    for start in range(0, len(looked), BATCH):
        part = looked[start : start + BATCH]
        with memories.ledger.read() as tx:
            vectors = tx.embeddings.get(current.model, [m.embed_hash for m in part])
        near: dict[MemoryId, list[MemoryId]] = {
            m.id: [c.id for c in index.dense(vectors[m.embed_hash], _criteria(m, gate), ASKED)]
            for m in part
            if m.embed_hash in vectors
        }
        yield _read(memories, part, near, only)


def _criteria(memory: Memory, gate: tuple[GateClause, ...] | None) -> Criteria:
    return Criteria(tenant=memory.tenant, scope=memory.scope, standings=(Standing.ACTIVE,), gate=gate, kinds=_EVIDENT)


def _read(
    memories: Memories,
    part: Sequence[Memory],
    near: Mapping[MemoryId, Sequence[MemoryId]],
    only: Callable[[Memory], bool] | None,
) -> Neighbourhood:
    """Return what the ledger says: the index may lag behind it."""
    with memories.ledger.read() as tx:
        found = tx.memories.get({id_ for ids in near.values() for id_ in ids})
        nearest = {
            m.id: [n for id_ in near.get(m.id, ()) if (n := found.get(id_)) and _is_other(m, n)][:NEAREST] for m in part
        }
        pairs = tuple((m, tuple(n for n in nearest[m.id] if only is None or only(n))) for m in part)
        involved = sorted({m.id for m, _ in pairs} | {n.id for _, others in pairs for n in others})
        history = {id_: tx.evidence.of_memory(id_) for id_ in involved}
        those = {m.id: m for one, others in pairs for m in (one, *others)}
        return Neighbourhood(
            pairs=pairs,
            history=history,
            lines=with_vouchers(tx.looking.lines(involved), those.values(), history),
            contradictions=tuple(tx.contradictions.of_memories(involved)),
        )


def _is_other(memory: Memory, neighbour: Memory) -> bool:
    """Return whether a neighbour is live and of another document and source than the memory."""
    if neighbour.standing is not Standing.ACTIVE or neighbour.kind is Kind.ANSWER or neighbour.id == memory.id:
        return False
    if neighbour.tenant != memory.tenant or (memory.doc_id and memory.doc_id == neighbour.doc_id):
        return False
    return memory.kind is Kind.NOTE or neighbour.kind is Kind.NOTE or memory.source != neighbour.source
