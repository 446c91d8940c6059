"""Stores with memories of every standing, plans of every plain kind, and all rows that a sweep could touch."""

from __future__ import annotations

import random
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from governance.plan import Plan
from governance.policy import policy_of
from kb.ids import embed_hash
from kb.index.generations import META_KEY
from kb.ledger.schema_governance import contradictions, tombstones
from kb.model import FOREVER, DocumentId, Kind, Memory, MemoryId, Passage, SourceClass, Standing
from kb.passages import embed_text, embedded_as
from kb.settings import Settings
from kb.sweeps import Action, ActionKind, SweepJob
from kb.trust import DAY_MS, trusted
from tests.ledger_samples import a_document, a_fingerprint
from tests.stores import T0

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from governance.policy import Policy
    from kb.memories import Memories
    from tests.stores import InProcessServer

STANDINGS = (Standing.ACTIVE, Standing.QUARANTINED, Standing.SUPERSEDED, Standing.RETIRED)
PLAIN = (
    ActionKind.SHOW,
    ActionKind.RETIRE,
    ActionKind.QUARANTINE,
    ActionKind.ACTIVATE,
    ActionKind.REVIVE,
    ActionKind.WEIGH,
    ActionKind.PIN,
    ActionKind.UNPIN,
    ActionKind.ANNOTATE,
)
CLASSES = (SourceClass.CURATED, SourceClass.DOCUMENT, SourceClass.PERSON, SourceClass.AGENT, SourceClass.WEB)


def unsafe(memories: Memories) -> None:
    """Let a SQLite ledger write without waiting for the disk: of a law's examples nobody survives a power cut."""
    for engine in memories.ledger.engines.owned:
        engine.dispose()
        sa.event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))


def policy(tenant: str = "default", **changes: Any) -> Policy:
    """Return the default policy of a tenant."""
    return replace(policy_of(Settings(), tenant), **changes)


def stocked(memories: Memories, *, count: int, seed: int = 0, tenant: str = "default") -> list[Memory]:
    """Fill a tenant with memories of every kind of trust and standing, four to a document; return them."""
    numbers = random.Random(seed)
    made = [a_governed(numbers, n, tenant) for n in range(count)]
    memories.generations.ensured(memories.embedder.identity, T0)
    memories.embed({m.embed_hash: embedded_as(m) for m in made})
    with memories.ledger.write() as tx:
        tx.memories.add(made)
        for doc_id in sorted({m.doc_id for m in made if m.doc_id}):
            own = tuple(m.id for m in made if m.doc_id == doc_id)
            source = f"file://docs/{doc_id}.md"
            document = a_document(doc_id, tenant=tenant, root="docs", source=source, memory_ids=own, version=2)
            tx.documents.put(document)
            for version, name in ((1, "old"), (2, doc_id)):
                tx.documents.add_version(
                    doc_id, version, fingerprint=a_fingerprint(name), memory_ids=own, at=T0 - DAY_MS
                )
            tx.documents.close_version(doc_id, 1, T0 - DAY_MS + 1)
        tx.outbox.mark([m.id for m in made], T0)
    while memories.projector.drain().pending:  # an index that is made by the first one queues everything again
        pass
    return made


def a_governed(numbers: random.Random, n: int, tenant: str) -> Memory:
    """Return the n-th memory of a tenant."""
    text = f"Passage {n}: gate {numbers.randrange(10**6)} opens at {n % 24} o'clock. 第{n}条。"
    born = T0 - numbers.randrange(90) * DAY_MS
    standing = numbers.choice(STANDINGS)
    confidence = numbers.choice((0.0, 0.2, 0.5, 0.8, 0.95, numbers.random()))
    half_life = numbers.choice((10, 30)) * DAY_MS
    trust = trusted(confidence, born, half_life, verified_at=numbers.choice((None, None, born)))
    return Memory(
        id=MemoryId(f"{tenant}-{n:05d}"),
        tenant=tenant,
        kind=Kind.DOCUMENT if n % 4 else Kind.NOTE,
        source_class=numbers.choice(CLASSES),
        source=f"file://docs/{tenant}-d{n // 4}.md",
        text=text,
        trust=replace(trust, strength=numbers.choice((4.0, 4.5, 20.0))),
        standing=standing,
        standing_reason="" if standing is Standing.ACTIVE else "as it was stocked",
        pinned=numbers.random() < 0.2,
        contested=numbers.random() < 0.2,
        doc_id=DocumentId(f"{tenant}-d{n // 4}") if n % 4 else None,
        passage=Passage(ordinal=n % 4, title=f"Gate {n}", end=len(text)),
        embed_hash=embed_hash(embed_text(f"Gate {n}", (), text)),
        valid_from=born,
        valid_to=T0 if standing is Standing.SUPERSEDED else FOREVER,
        created_at=born,
        updated_at=born,
        rev=1 + n % 3,
        metadata={"n": n},
    )


def an_action(memory: Memory, kind: ActionKind, numbers: random.Random) -> Action:
    """Return an action on a memory, with details of the kind."""
    details: dict[ActionKind, tuple[str, dict[str, Any]]] = {
        ActionKind.SHOW: ("decayed", {"confidence": numbers.random() * memory.trust.confidence}),
        ActionKind.RETIRE: ("faded", {"effective": numbers.random() * 0.2, "was": memory.standing.value}),
        ActionKind.QUARANTINE: ("contradicted", {"said": "others say so", "tombstone": numbers.random() < 0.5}),
        ActionKind.ACTIVATE: ("corroborated", {"said": ""}),
        ActionKind.REVIVE: ("superseded_was_rolled_back", {}),
        ActionKind.WEIGH: ("checked", {"events": [_event(numbers) for _ in range(numbers.randrange(1, 4))]}),
        ActionKind.ANNOTATE: ("annotated", {"note": "看过了"}),
    }
    reason, detail = details.get(kind, (f"{kind.value}ned", {}))
    return Action(memory_id=memory.id, kind=kind, reason=reason, rev=memory.rev, detail=detail)


def _event(numbers: random.Random) -> dict[str, Any]:
    kind, weight = numbers.choice((("check", 2.0), ("agreement", 1.0), ("contradiction", -1.0), ("check", -2.0)))
    return {"kind": kind, "weight": weight, "witness": f"w{numbers.randrange(4)}", "reason": "said so"}


def a_plan(
    of: Sequence[Memory],
    *,
    seed: int = 0,
    kinds: Sequence[ActionKind] = PLAIN,
    job: SweepJob = SweepJob.RECHECK,
    **changes: Any,
) -> Plan:
    """Return a plan with one action a memory; where there are many, some memories have a second one."""
    numbers = random.Random(seed)
    chosen = [an_action(m, numbers.choice(list(kinds)), numbers) for m in of]
    again = [an_action(m, numbers.choice(list(kinds)), numbers) for m in of if numbers.random() < 0.15]
    return plan_of([*chosen, *again], tenant=of[0].tenant if of else "default", job=job, **changes)


def plan_of(
    actions: Iterable[Action], *, tenant: str = "default", job: SweepJob = SweepJob.RECHECK, **changes: Any
) -> Plan:
    """Return a plan under the default policy."""
    plan = Plan(tenant=tenant, job=job, policy=policy(tenant).hash, at=T0, actions=tuple(actions), live=10**6)
    return replace(plan, **changes)


def ledger_id(memories: Memories) -> str:
    """Return the ledger's own id."""
    with memories.ledger.read() as tx:
        return str(tx.meta.get(META_KEY) or "")


def ledger_rows(memories: Memories, tenant: str = "default") -> dict[str, Any]:
    """Return all of a tenant's rows that a sweep could change, without what only grows."""
    with memories.ledger.read() as tx:
        documents = tx.documents.of_root(tenant, "docs", include_deleted=True)
        found = {
            "memories": [replace(m, rev=0, updated_at=0) for m in tx.memories.page("", 10**6, tenant=tenant)],
            "documents": [replace(d, updated_at=0) for d in documents],
            "versions": [v for d in documents for v in tx.documents.versions(d.id)],
            "evidence": tx.evidence.since(tenant, -(2**63)),
        }
    with memories.ledger.engines.reads.connect() as connection:
        for table in (tombstones, contradictions):
            rows = connection.execute(sa.select(table).where(table.c.tenant == tenant))
            found[table.name] = sorted(tuple(row) for row in rows)
    return found


def revisions(memories: Memories, tenant: str = "default") -> dict[str, tuple[int, int]]:
    """Return what only grows: (rev, updated_at) of each memory."""
    with memories.ledger.read() as tx:
        return {m.id: (m.rev, m.updated_at) for m in tx.memories.page("", 10**6, tenant=tenant)}


def index_rows(server: InProcessServer, tenant: str = "default") -> dict[str, dict[str, Any]]:
    """Return a tenant's rows of the index in this process, vectors as bytes, without revisions."""
    rows = [row for index in server.collections.values() for row in index._rows.values() if row.tenant == tenant]
    return {row.id: {**asdict(replace(row, rev=0)), "dense": row.dense.tobytes()} for row in rows}


def is_in_step(memories: Memories) -> bool:
    """Return whether the index holds exactly what the ledger says, and nothing waits."""
    with memories.ledger.read() as tx:
        current, wanted = memories.generations.current(tx), dict(tx.memories.revisions("", 10**6))
        pending = tx.outbox.lag().count
    assert current is not None
    return pending == 0 and dict(memories.generations.index(current, T0).revisions()) == wanted
