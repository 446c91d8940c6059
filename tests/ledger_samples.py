"""Values of the ledger for tests: small, whole, and different where the argument says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kb.model import (
    Document,
    DocumentId,
    Fingerprint,
    Kind,
    Memory,
    MemoryId,
    Passage,
    Scope,
    SourceClass,
    Trust,
)

NOW = 1_750_000_000_000

TRUST = Trust(confidence=0.9, anchor=NOW, birth=NOW - 394_000_000, verified=True, verified_at=NOW, strength=4.5)


def a_memory(name: str | int = 1, **changes: Any) -> Memory:
    """Return a memory whose id is made of `name`."""
    memory = Memory(
        id=MemoryId(f"m{name:05d}" if isinstance(name, int) else name),
        tenant="acme",
        kind=Kind.DOCUMENT,
        source_class=SourceClass.DOCUMENT,
        source="file://handbook/intro.md",
        text=f"Passage {name} of the handbook. 第一章，概述。",
        trust=TRUST,
        doc_id=DocumentId("d1"),
        passage=Passage(ordinal=3, title="Intro", heading_path=("Handbook", "Intro"), page=2, start=10, end=60),
        scope=Scope(agent="writer", user="u1", conversation="c9"),
        embed_hash="e" * 64,
        created_at=NOW,
        updated_at=NOW,
        metadata={"tags": ["a", "b"], "n": {"deep": [1, 2.5, None, True]}},
    )
    return replace(memory, **changes)


def a_document(name: str = "d1", **changes: Any) -> Document:
    """Return a document whose id is `name`."""
    document = Document(
        id=DocumentId(name),
        tenant="acme",
        root="handbook",
        source=f"file://handbook/{name}.md",
        version=1,
        fingerprint=a_fingerprint(name),
        size=1234,
        mtime_ns=NOW * 1_000_000 + 1,
        title="Intro",
        memory_ids=(MemoryId("m00001"), MemoryId("m00002")),
        created_at=NOW,
        updated_at=NOW,
    )
    return replace(document, **changes)


def a_fingerprint(name: str) -> Fingerprint:
    """Return four hashes made of `name`."""
    return Fingerprint(raw=f"raw-{name}", content=f"content-{name}", metadata=f"metadata-{name}", pipeline="p1")
