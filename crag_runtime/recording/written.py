"""An answer as rows of the ledger: its record, and whence what it cites and found came. Pure; every value fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb.history import AnswerRecord, CitedMemory, Edge, EdgeKind
from kb.ids import digest
from kb.ledger.checks import MAX_NAME_BYTES, MAX_SOURCE_BYTES, storable
from kb.model import MemoryId

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from crag_runtime.recording.learned import Learned
    from kb.model import Json, Memory

NOWHERE = "web://"  # source of a page without an address
MARK = 16  # hex digits that tell two long queries with one beginning apart


def is_storable(memory: Memory) -> bool:
    """Return whether the ledger takes a finding's address whole; a page whose address it cannot hold is not kept."""
    return 0 < len(memory.source.encode("utf-8", "replace")) <= MAX_SOURCE_BYTES


def answer_record(learned: Learned, memories: Mapping[str, Memory], embedded: int) -> AnswerRecord:
    """Return the answer as the ledger keeps it.

    Args:
        learned: the answer.
        memories: what it cites, by id; a citation without one is gone.
        embedded: texts embedded for the write-back, which its costs include.
    """
    counted = learned.report["usage"]
    usage: dict[str, Json] = dict(counted) if isinstance(counted, dict) else {}
    usage["embeddings"] = int(str(usage.get("embeddings", 0))) + embedded
    return AnswerRecord(
        id=learned.answer_id,
        tenant=learned.tenant,
        scope=learned.scope,
        thread=learned.thread,
        question=learned.question,
        text=learned.text,
        outcome=learned.outcome.value,
        verdict=learned.verdict.value,
        citations=tuple(
            CitedMemory(
                memory_id=MemoryId(c.id),
                rev=memories[c.id].rev,
                source=bounded(memories[c.id].source, MAX_SOURCE_BYTES) or NOWHERE,
                url=str(memories[c.id].metadata.get("url") or ""),
                title=memories[c.id].passage.title,
                quote=storable(c.quote),
                supports=c.supports,
            )
            for c in learned.citations
            if c.id in memories
        ),
        report={**learned.report, "usage": usage},
        created_at=learned.at,
    )


def cited_edges(learned: Learned, cited: Iterable[MemoryId]) -> list[Edge]:
    """Return the steps from what an answer cites to the answer."""
    return [edge(learned, id_, learned.answer_id, EdgeKind.CITED) for id_ in dict.fromkeys(cited)]


def found_edges(learned: Learned, there: Container[str], provider: str) -> list[Edge]:
    """Return the steps from a search to what it found and the store has."""
    return [
        edge(learned, search_uri(provider, f.query), f.id, EdgeKind.FOUND) for f in learned.findings if f.id in there
    ]


def edge(learned: Learned, parent: str, child: str, kind: EdgeKind) -> Edge:
    """Return one step of lineage that an answer brought about."""
    return Edge(tenant=learned.tenant, parent=parent, child=child, kind=kind, at=learned.at)


def search_uri(provider: str, query: str) -> str:
    """Return `search://provider/query`, short enough for a name: a long query is cut and told apart by its digest."""
    whole = storable(f"search://{provider}/{query}")
    if len(whole.encode()) <= MAX_NAME_BYTES:
        return whole
    mark = f"~{digest('search', whole)[:MARK]}"
    return bounded(whole, MAX_NAME_BYTES - len(mark)) + mark


def bounded(text: str, octets: int) -> str:
    """Return the longest start of a text that has at most so many bytes of UTF-8; no character is cut in two."""
    return text.encode()[:octets].decode(errors="ignore")
