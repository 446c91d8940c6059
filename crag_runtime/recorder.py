"""Writes back: one ledger transaction per answer; what cannot be written now is kept on disk and written later.

Order inside the transaction: the answer (a second time is no error and ends it), evaluations, utility, lineage, web
findings in quarantine, evidence by independence, the answer-key. The index follows through the outbox.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crag_runtime.codec import plain, restored
from crag_runtime.evidence_rules import applied, corroboration
from crag_runtime.findings import finding_memory
from crag_runtime.keys import answer_key
from crag_runtime.learned import Learned
from kb.errors import DependencyError, IntegrityError, KbError, StaleRevision
from kb.history import AnswerRecord, CitedMemory, Edge, EdgeKind
from kb.ledger.checks import storable
from kb.log import get_logger
from kb.model import Kind, MemoryId, SourceClass
from kb.passages import embedded_as
from kb.telemetry import Metric, Span, count, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crag_runtime.evidence import Evidence
    from crag_runtime.spool import Spool
    from crag_runtime.store import Store
    from kb.history import EvidenceEvent
    from kb.ledger.ledger import LedgerTx
    from kb.model import Instant, Json, Memory
    from kb.trust import TrustPolicy

ATTEMPTS = 2  # a memory may change between reading and writing it; then once more
CAUGHT_UP = 32  # write-backs that one answer makes up for, so that none waits for a long row of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What came of a write-back: texts embedded for it, memories that evidence moved, what was written, and why not."""

    embedded: int = 0
    moved: tuple[MemoryId, ...] = ()
    summary: str = ""
    problem: str = ""


class Recorder:
    """Records answers. Thread-safe."""

    def __init__(self, store: Store, spool: Spool, provider: str = "") -> None:
        self._store = store
        self._memories = store.memories
        self._spool = spool
        self._provider = provider

    def record(self, learned: Learned) -> Recorded:
        """Write back, and what earlier answers could not; never raises a dependency's failure."""
        with span(Span.WRITE_BACK):
            try:
                recorded = self._write(learned)
            except (DependencyError, IntegrityError) as error:
                count(Metric.WRITE_BACK_FAILURES)
                kept = self._spool.put(learned.answer_id, plain(learned))
                get_logger().warning("write_back_failed", answer_id=learned.answer_id, problem=str(error), kept=kept)
                return Recorded(problem=f"{error} ({'kept for later' if kept else 'lost: the disk refuses it too'})")
            self.catch_up()
            return recorded

    def catch_up(self) -> int:
        """Write what earlier answers could not, some at a time; return how many are still waiting."""
        for name, data in self._spool.waiting(CAUGHT_UP):
            try:
                learned = restored(Learned, data)
            except ValueError as error:
                self._spool.put_aside(name, str(error))
                continue
            try:
                self._write(learned)
            except StaleRevision:
                continue  # somebody else is at the same memories: later
            except IntegrityError as error:
                self._spool.put_aside(name, str(error))
                continue
            except KbError as error:
                get_logger().warning("write_back_waits", answer_id=name, problem=str(error))
                break
            self._spool.drop(name)
        return self._spool.count()

    def _write(self, learned: Learned) -> Recorded:
        findings = self._findings(learned)
        key = answer_key(learned, self._memories.policies) if learned.is_key else None
        made = [*findings.values(), *([key] if key else [])]
        if made:
            self._memories.generations.ensured(self._memories.embedder.identity, learned.at)
        embedded, refused = self._memories.embed({m.embed_hash: embedded_as(m) for m in made})
        kept = {id_: m for id_, m in findings.items() if m.embed_hash not in refused}
        key = None if key is None or key.embed_hash in refused else key
        for attempt in range(1, ATTEMPTS + 1):
            try:
                recorded = self._committed(learned, kept, key, embedded)
                break
            except IntegrityError:  # a memory was changed, or the same one added, by somebody else in between
                if attempt == ATTEMPTS:
                    raise
        self._memories.projector.drain()
        return recorded

    def _committed(
        self, learned: Learned, findings: Mapping[str, Memory], key: Memory | None, embedded: int
    ) -> Recorded:
        with self._memories.ledger.write() as tx:
            if tx.answers.get(learned.answer_id, learned.tenant) is not None:  # an id is given once: this is a repeat
                return Recorded(embedded=embedded, summary="already recorded")
            known = tx.memories.get(MemoryId(id_) for id_ in (*findings, *(c.id for c in learned.citations)))
            stated: dict[str, Memory] = dict(findings)
            stated.update({str(id_): memory for id_, memory in known.items()})
            record = _record(learned, stated, embedded)
            tx.answers.add(record)
            tx.evaluations.add(learned.evaluations)
            cited = [c.memory_id for c in record.citations]
            tx.utility.bump(retrieved=learned.retrieved, relevant=learned.relevant, cited=cited, now=learned.at)
            new = [m for id_, m in findings.items() if id_ not in known]
            tx.memories.add(new)
            keys = [] if key is None or tx.memories.get([key.id]) else [key]
            tx.memories.add(keys)
            tx.lineage.add(_edges(learned, cited, self._provider))
            if key is not None:
                tx.lineage.remove(key.id, EdgeKind.KEY)  # it now leads to its newest answer only
                tx.lineage.add([_edge(learned, learned.answer_id, key.id, EdgeKind.KEY)])
            moved = self._moved(tx, learned)
            tx.outbox.mark([m.id for m in (*new, *keys, *moved)], learned.at)
        evidence = f", {len(moved)} moved by evidence" if moved else ""
        summary = f"{len(learned.evaluations)} evaluations, {len(new)} findings quarantined{evidence}"
        return Recorded(embedded=embedded, moved=tuple(m.id for m in moved), summary=summary)

    def _moved(self, tx: LedgerTx, learned: Learned) -> list[Memory]:
        """Record evidence that is new, and return the memories as it left them."""
        if not learned.agreements and not learned.conflicts:
            return []
        involved = {id_ for a in learned.agreements for id_ in a.ids}
        involved |= {id_ for c in learned.conflicts for side in c.sides for id_ in side.ids}
        memories = tx.memories.get([MemoryId(id_) for id_ in involved])
        evidence: dict[str, Evidence] = {id_: self._store.as_evidence(m, learned.at) for id_, m in memories.items()}
        ancestors: dict[str, frozenset[str]] = {id_: frozenset(tx.lineage.ancestors([id_])) for id_ in memories}
        events = corroboration(
            learned.agreements,
            learned.conflicts,
            evidence=evidence,
            ancestors=ancestors,
            answer_id=learned.answer_id,
            tenant=learned.tenant,
            now=learned.at,
        )
        history = {id_: tx.evidence.of_memory(id_) for id_ in memories}
        moved = changed_by(tx.evidence.add(events), memories, history, self._memories.policies, learned.at)
        tx.memories.replace(moved)
        return moved

    def _findings(self, learned: Learned) -> dict[str, Memory]:
        policy = self._memories.policies[SourceClass.WEB]
        return {
            f.id: finding_memory(
                f.finding,
                tenant=learned.tenant,
                scope=learned.scope,
                query=f.query,
                provider=self._provider,
                answer_id=learned.answer_id,
                policy=policy,
                now=learned.at,
            )
            for f in learned.findings
        }


def changed_by(
    events: Iterable[EvidenceEvent],
    memories: Mapping[MemoryId, Memory],
    history: Mapping[MemoryId, Iterable[EvidenceEvent]],
    policies: Mapping[SourceClass, TrustPolicy],
    now: Instant,
) -> list[Memory]:
    """Return the memories that events change, all events of one memory at once."""
    by_memory: dict[MemoryId, list[EvidenceEvent]] = {}
    for event in events:
        by_memory.setdefault(event.memory_id, []).append(event)
    return [
        applied(memories[id_], own, policy=policies[memories[id_].source_class], now=now, history=tuple(history[id_]))
        for id_, own in by_memory.items()
        if id_ in memories and memories[id_].kind is not Kind.ANSWER
    ]


def _record(learned: Learned, memories: Mapping[str, Memory], embedded: int) -> AnswerRecord:
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
                source=memories[c.id].source,
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


def _edges(learned: Learned, cited: Iterable[MemoryId], provider: str) -> list[Edge]:
    edges = [_edge(learned, id_, learned.answer_id, EdgeKind.CITED) for id_ in dict.fromkeys(cited)]
    found = [_edge(learned, f"search://{provider}/{f.query}"[:512], f.id, EdgeKind.FOUND) for f in learned.findings]
    return edges + found


def _edge(learned: Learned, parent: str, child: str, kind: EdgeKind) -> Edge:
    return Edge(tenant=learned.tenant, parent=parent, child=child, kind=kind, at=learned.at)
