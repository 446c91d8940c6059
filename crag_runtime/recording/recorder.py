"""Writes back: one ledger transaction per answer; what cannot be written now is kept on disk and written later.

Order inside the transaction: the answer (a second time is no error and ends it), evaluations, utility, web findings in
quarantine and the answer-key, lineage, evidence by independence. The index follows through the outbox. Whatever goes
wrong, the answer is given out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from crag_runtime.codec import plain, restored
from crag_runtime.recording.evidence_rules import HANDED_OVER, Party, corroboration, party_of
from crag_runtime.recording.findings import finding_memory
from crag_runtime.recording.keep_out import kept_out, rests_on_erased, rests_on_rolled_back
from crag_runtime.recording.keys import answer_key, leads
from crag_runtime.recording.learned import Learned, seen_by
from crag_runtime.recording.written import answer_record, cited_edges, edge, found_edges, is_storable
from kb.errors import InputError, IntegrityError, KbError, StaleRevision
from kb.evidence_rules import changed_by
from kb.history import AnswerId, EdgeKind
from kb.independence import root_of
from kb.log import get_logger
from kb.model import MemoryId, SourceClass
from kb.passages import embedded_as
from kb.reputation import UNKNOWN, reputed
from kb.telemetry import KEPT_AS, Attr, Metric, Span, count, current, span
from kb.vouching import with_vouchers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crag_runtime.recording.spool import Spool
    from crag_runtime.store import Store
    from kb.history import AnswerRecord, EvidenceEvent
    from kb.ledger.ledger import LedgerTx
    from kb.model import Instant, Memory

ATTEMPTS = 4  # others may set up the index, add the same page or key, or change a memory in between: each once
CAUGHT_UP = 32  # write-backs that one answer makes up for, so that none waits for a long row of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What came of a write-back: texts embedded for it, memories that evidence moved, what was written, and why not."""

    embedded: int = 0
    moved: tuple[MemoryId, ...] = ()
    summary: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What an answer adds: every finding by id, the findings that can be stored, the key, and texts embedded."""

    findings: Mapping[str, Memory]
    stored: Mapping[str, Memory]
    key: Memory | None
    embedded: int


class Recorder:
    """Records answers. Thread-safe."""

    def __init__(self, store: Store, spool: Spool, provider: str = "") -> None:
        self._store = store
        self._memories = store.memories
        self._spool = spool
        self._provider = provider

    def record(self, learned: Learned) -> Recorded:
        """Write back, and what earlier answers could not; a failure is returned, never raised."""
        with span(Span.WRITE_BACK, {Attr.ANSWER: learned.answer_id, Attr.TENANT: learned.tenant}) as recording:
            learned = _traced(learned)
            try:
                recorded = self._write(learned)
            except KbError as error:
                count(Metric.WRITE_BACK_FAILURES)
                kept = self._kept(learned, error)
                get_logger().warning("write_back_failed", answer_id=learned.answer_id, problem=str(error), kept=kept)
                return Recorded(problem=f"{error} ({kept})")
            recording.set({Attr.MOVED: len(recorded.moved)})
            self.catch_up()
            return recorded

    def catch_up(self) -> int:
        """Write what earlier answers could not, some at a time; return how many are still waiting.

        What the ledger refuses for good is put aside, so that it holds up nothing that came after it.
        """
        for name, data in self._spool.waiting(CAUGHT_UP):
            try:
                self._write(restored(Learned, data))
            except StaleRevision:
                continue  # somebody else is at the same memories: later
            except (InputError, IntegrityError, ValueError) as error:
                self._spool.put_aside(name, str(error))
                continue
            except KbError as error:
                get_logger().warning("write_back_waits", answer_id=name, problem=str(error))
                break
            self._spool.drop(name)
        return self._spool.count()

    def _kept(self, learned: Learned, error: KbError) -> str:
        """Keep a write-back that failed; return in words what became of it."""
        try:
            data = plain(learned)
        except (ValueError, TypeError, RecursionError) as unwritable:
            get_logger().error("write_back_lost", answer_id=learned.answer_id, problem=str(unwritable))
            return "lost: it cannot be written as JSON"
        if not self._spool.put(learned.answer_id, data):
            return "lost: the disk refuses it too"
        if not isinstance(error, InputError):
            return "kept for later"
        self._spool.put_aside(learned.answer_id, str(error))  # the same again would be refused again
        return "put aside: the ledger cannot hold it"

    def _write(self, learned: Learned) -> Recorded:
        embedded = 0
        for attempt in range(1, ATTEMPTS + 1):
            try:
                made = self._made(learned)
                embedded += made.embedded
                recorded = self._committed(learned, replace(made, embedded=embedded))
                break
            except IntegrityError:  # a memory was changed, or the same thing added, by somebody else in between
                if attempt == ATTEMPTS:
                    raise
        try:
            self._memories.projector.drain()
        except KbError as error:  # it is in the ledger: the outbox has the rest
            get_logger().warning("write_back_not_projected", answer_id=learned.answer_id, problem=str(error))
        return recorded

    def _made(self, learned: Learned) -> _Made:
        """Return what the answer adds, embedded; what cannot be stored or embedded is left out of the store."""
        findings = self._reputed(learned, self._findings(learned))
        storable = self._may_be_kept({id_: m for id_, m in findings.items() if is_storable(m)})
        key = answer_key(learned, self._memories.policies) if learned.is_key else None
        made = [*storable.values(), *([key] if key else [])]
        if made:
            self._memories.generations.ensured(self._memories.embedder.identity, learned.at)
        embedded, refused = self._memories.embed({m.embed_hash: embedded_as(m) for m in made})
        return _Made(
            findings=findings,
            stored={id_: m for id_, m in storable.items() if m.embed_hash not in refused},
            key=None if key is None or key.embed_hash in refused else key,
            embedded=embedded,
        )

    def _reputed(self, learned: Learned, findings: Mapping[str, Memory]) -> Mapping[str, Memory]:
        """Return the findings as their hosts have earned it: a host whose pages keep being refused is believed less."""
        if not findings or not self._memories.has_reputation:
            return findings
        hosts = {id_: root_of(m) for id_, m in findings.items()}
        with self._memories.ledger.read() as tx:
            records = tx.reputation.of_hosts(learned.tenant, set(hosts.values()))
        policy = self._memories.policies[SourceClass.WEB]
        return {id_: reputed(m, policy, records.get(hosts[id_], UNKNOWN), learned.at) for id_, m in findings.items()}

    def _may_be_kept(self, findings: Mapping[str, Memory]) -> dict[str, Memory]:
        """Return the findings without those whose words were erased: they are neither stored nor embedded."""
        with self._memories.ledger.read() as tx:
            return {id_: m for id_, m in findings.items() if kept_out(tx, m) is not None}

    def _committed(self, learned: Learned, made: _Made) -> Recorded:
        repeat = Recorded(embedded=made.embedded, summary="already recorded")
        now = self._memories.clock.now()
        with self._memories.ledger.write() as tx:
            _hold(tx, learned)
            if tx.answers.get(learned.answer_id, learned.tenant) is not None:  # an id is given once: this is a repeat
                return repeat
            known = tx.memories.get(MemoryId(id_) for id_ in (*made.findings, *(c.id for c in learned.citations)))
            outs = {id_: kept_out(tx, m) for id_, m in made.findings.items() if id_ not in known}
            seen = seen_by(learned)
            if rests_on_erased(tx, seen) or any(m is None for id_, m in outs.items() if id_ in seen):
                return Recorded(embedded=made.embedded, summary="not recorded: what it rests on was erased meanwhile")
            new = {id_: m for id_, m in outs.items() if m is not None and id_ in made.stored}
            there = {**new, **{str(id_): memory for id_, memory in known.items()}}
            absent = {id_: replace(m, rev=0) for id_, m in made.findings.items() if id_ not in there}
            record = answer_record(learned, {**absent, **there}, made.embedded)
            if not tx.answers.add(record):  # another process was quicker by a moment
                return repeat
            gone = tx.erasure.erased_among({*learned.retrieved, *(e.memory_id for e in learned.evaluations)})
            tx.evaluations.add([e for e in learned.evaluations if e.memory_id not in gone])
            is_handed_over = learned.report.get(HANDED_OVER) is True
            cited = [] if is_handed_over else [c.memory_id for c in record.citations if c.memory_id in there]
            own = [id_ for id_ in cited if there[id_].tenant == learned.tenant]
            retrieved = [id_ for id_ in learned.retrieved if id_ not in gone]
            tx.utility.bump(retrieved=retrieved, relevant=learned.relevant, cited=own, now=learned.at)
            key = None if rests_on_rolled_back(tx, (there[id_] for id_ in cited)) else made.key
            added = self._added(tx, new, key)
            tx.lineage.add([*cited_edges(learned, cited), *found_edges(learned, there, self._provider)])
            renewed = [] if key is None else _lead(tx, learned, key)
            moved = self._moved(tx, learned, now)
            tx.outbox.mark([m.id for m in (*added, *renewed, *moved)], now)
        evidence = f", {len(moved)} moved by evidence" if moved else ""
        summary = f"{len(learned.evaluations)} evaluations, {len(new)} findings quarantined{evidence}"
        return Recorded(embedded=made.embedded, moved=tuple(m.id for m in moved), summary=summary)

    def _added(self, tx: LedgerTx, new: Mapping[str, Memory], key: Memory | None) -> list[Memory]:
        """Add what is new, in one order everywhere, so that two writers never wait in a ring.

        Raises:
            StaleRevision: a vector was erased since it was made, with the last memory that had the same words.
        """
        keys = [] if key is None or tx.memories.get([key.id]) else [key]
        added = sorted([*new.values(), *keys], key=lambda m: m.id)
        if tx.embeddings.missing(
            self._memories.embedder.identity.model, [m.embed_hash for m in added], is_holding=True
        ):
            raise StaleRevision("a vector was erased meanwhile")
        tx.memories.add(added)
        return added

    def _moved(self, tx: LedgerTx, learned: Learned, now: Instant) -> list[Memory]:
        """Record evidence that is new, and return the memories as it left them."""
        involved = {id_ for a in learned.agreements for id_ in a.ids}
        involved |= {id_ for c in learned.conflicts for side in c.sides for id_ in side.ids}
        if not involved:
            return []
        tx.sweeping.revisions(involved, learned.tenant, is_locking=True)  # memories before evidence, as sweeps do
        found = tx.memories.get([MemoryId(id_) for id_ in sorted(involved)])
        memories = {id_: m for id_, m in found.items() if m.tenant == learned.tenant}
        history = {id_: tx.evidence.of_memory(id_) for id_ in memories}
        lines: dict[str, frozenset[str]] = {id_: frozenset(tx.lineage.ancestors([id_])) for id_ in memories}
        ancestors = with_vouchers(lines, memories.values(), history)
        events = corroboration(
            learned.agreements,
            learned.conflicts,
            parties=self._parties(learned, memories, history, now),
            ancestors=ancestors,
            answer_id=learned.answer_id,
            tenant=learned.tenant,
            now=learned.at,
        )
        moved = changed_by(tx.evidence.add(events), memories, history, self._memories.policies, learned.at)
        tx.memories.replace(moved)
        return moved

    def _parties(
        self,
        learned: Learned,
        memories: Mapping[MemoryId, Memory],
        history: Mapping[MemoryId, list[EvidenceEvent]],
        now: Instant,
    ) -> dict[str, Party]:
        """Return who may testify and who may be told of, as they stand now: much may have happened since the answer."""
        findings = {f.id for f in learned.findings}
        return {
            id_: party_of(
                memory,
                self._store.as_evidence(memory, now),
                policy=self._memories.policies[memory.source_class],
                gate=self._memories.gate,
                now=now,
                history=history[id_],
                is_finding=id_ in findings,
            )
            for id_, memory in memories.items()
        }

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


def _hold(tx: LedgerTx, learned: Learned) -> None:
    """Let nothing that the answer rests on, whoever's it is, be erased or rolled back before it is written."""
    rests_on = tx.memories.get(map(MemoryId, sorted(seen_by(learned)))).values()
    for tenant in sorted({learned.tenant, *(m.tenant for m in rests_on)}):
        tx.tombstones.hold(tenant)


def _traced(learned: Learned) -> Learned:
    """Return it with where it was written back, for the sweeps that it may cause."""
    trace = current()
    return replace(learned, report={**learned.report, KEPT_AS: trace}) if trace else learned


def _lead(tx: LedgerTx, learned: Learned, key: Memory) -> list[Memory]:
    """Let a key lead to this answer alone, unless it leads to a newer one already; return it where it had been out.

    A key whose answer was rolled back leads nowhere until the question is answered anew.

    A step from the key to itself is the turnstile: another writer of the same key waits at it for this transaction's
    end, and sees then what it has added. It is gone before anybody could read it.
    """
    tx.lineage.add([edge(learned, key.id, key.id, EdgeKind.KEY)])
    steps = [s for s in tx.lineage.parents(key.id) if s.kind is EdgeKind.KEY and s.parent != key.id]
    tx.lineage.remove(key.id, EdgeKind.KEY)
    newer = [step for step in steps if _is_newer(tx.answers.get(AnswerId(step.parent), learned.tenant), learned)]
    tx.lineage.add(newer or [edge(learned, learned.answer_id, key.id, EdgeKind.KEY)])
    stored = tx.memories.get([key.id])[key.id]
    if newer or leads(stored):
        return []
    again = replace(stored, standing=key.standing, standing_reason=key.standing_reason)
    again = replace(again, rev=stored.rev + 1, updated_at=max(learned.at, stored.updated_at))
    tx.memories.replace([again])
    return [again]


def _is_newer(record: AnswerRecord | None, learned: Learned) -> bool:
    return record is not None and record.created_at > learned.at
