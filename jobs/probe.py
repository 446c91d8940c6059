"""Whether the index finds memories by themselves: each is searched for by its own vector and its own words."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kb.ids import ID_LENGTH
from kb.index.projector import is_indexed
from kb.model import Standing
from kb.ports import Criteria
from kb.terms import query_terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kb.memories import Memories
    from kb.model import Memory, MemoryId
    from kb.ports import Candidate, Index, Vector

K = 50
SEARCHED_CHARACTERS = 400  # of a memory's text: its first sentences
LOOKED_AT = 4  # rows read for each one wanted, since staged and retired ones are passed over
EPSILON = 1e-4  # by which two scores of one text may differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A memory, and whether the index found it."""

    id: MemoryId
    is_found: bool


def sample(memories: Memories, size: int) -> list[MemoryId]:
    """Return at most `size` random memories that the index should hold, each once, of whatever tenant.

    Ids are digests, so the ones after a random digest are a fair choice.
    """
    chosen: dict[MemoryId, None] = {}
    with memories.ledger.read() as tx:
        for _ in range(size):
            page = tx.memories.page(secrets.token_hex(ID_LENGTH // 2), LOOKED_AT) or tx.memories.page("", LOOKED_AT)
            fit = [m.id for m in page if is_searched(m) and m.id not in chosen]
            chosen.update(dict.fromkeys(fit[:1]))
        if len(chosen) < size:  # a small store: all of it
            page = tx.memories.page("", size)
            chosen.update(dict.fromkeys(m.id for m in page if is_searched(m)))
    return list(chosen)[:size]


def is_searched(memory: Memory) -> bool:
    """Return whether a search could find the memory."""
    return is_indexed(memory) and memory.standing is not Standing.STAGED


def probed(memories: Memories, index: Index, model: str, ids: Sequence[MemoryId]) -> Iterator[Probe]:
    """Search for memories one by one; those that changed meanwhile, or wait in the outbox, are left out."""
    for id_ in ids:
        with memories.ledger.read() as tx:
            memory = tx.memories.get([id_]).get(id_)
            vector = {} if memory is None else tx.embeddings.get(model, [memory.embed_hash])
        if memory is None or not is_searched(memory):
            continue
        is_found = bool(vector) and _is_found(index, memory, vector[memory.embed_hash])
        if is_found or _is_settled(memories, memory):
            yield Probe(id=id_, is_found=is_found)


def _is_found(index: Index, memory: Memory, vector: Vector) -> bool:
    criteria = Criteria(
        tenant=memory.tenant,
        scope=memory.scope,
        standings=(memory.standing,),
        kinds=(memory.kind,),
        sources=(memory.source,),
    )
    near = index.dense(vector, criteria, K)
    if not _is_among(memory, near, of_itself=1.0):
        return False
    words = query_terms(memory.text[:SEARCHED_CHARACTERS])
    if not words:
        return True
    found = index.sparse(words, criteria, K)
    return _is_among(memory, found, of_itself=None)


def _is_among(memory: Memory, found: Sequence[Candidate], *, of_itself: float | None) -> bool:
    """Return whether a memory was found, or may have been crowded out by its own copies."""
    if any(candidate.id == memory.id for candidate in found):
        return True
    is_full = len(found) == K
    return is_full and (of_itself is None or found[-1].score >= of_itself - EPSILON)


def _is_settled(memories: Memories, memory: Memory) -> bool:
    """Return whether a memory that was not found is as it was read, and no change of it is on its way to the index."""
    with memories.ledger.read() as tx:
        now = tx.memories.get([memory.id]).get(memory.id)
        waiting = {id_ for _, id_ in tx.outbox.pending(1_000_000)} if now is not None else set()
    return now is not None and now.rev == memory.rev and memory.id not in waiting
