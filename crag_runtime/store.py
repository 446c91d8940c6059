"""The synchronous side of the runtime: what retrieval finds behind the gate, evidence by id, a thread's last turns.

Nothing below the gate ever leaves here as evidence: when nothing passes, nothing is returned, and what was stopped is
reported by id and reason alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from crag_runtime.evidence import Evidence, Origin, Turn
from crag_runtime.freshness import best_of_each, freshness
from crag_runtime.recording.findings import as_evidence, kept_text
from crag_runtime.recording.keys import leads
from crag_runtime.vectors import QuestionVectors
from kb.dates.periods import periods_in
from kb.evidence_rules import NET_NEGATIVES, QUARANTINE_BELOW, net_negatives
from kb.history import AnswerId, EdgeKind, EvidenceKind
from kb.independence import root_of
from kb.ledger.barring import barred_texts
from kb.model import Kind, MemoryId, Scope, SourceClass, Standing
from kb.rolled_back import is_rolled_back
from kb.search import SearchRequest
from kb.trust import effective, passes
from kb.words.entities import entities

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from crag_runtime.evidence import Finding
    from kb.history import AnswerRecord, EvidenceEvent
    from kb.ledger.ledger import LedgerTx
    from kb.memories import Memories
    from kb.model import Instant, Memory
    from kb.ports import Vector
    from kb.search import Suppressed

KEYS = 2  # answer-keys that are expanded per query
KEY_LIKENESS = 0.9  # least cosine between a query and an earlier question that counts as the same
DATE_KEYS = ("date", "updated", "last_modified", "modified", "published")  # of front matter, sidecars and web pages
EXPANDED = 3  # memories that answer-keys may add to a sub-question


_STANDINGS = {False: (Standing.ACTIVE,), True: (Standing.ACTIVE, Standing.SUPERSEDED)}  # now, and in the past


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What a retrieval may see.

    Args:
        tenant: whose.
        k: passages per query.
        gate: effective confidence to exceed.
        scope: whose inside the tenant.
        at: instant to answer for; None is now.
        sources: source URIs allowed; empty for all.
        doc_ids: documents allowed; empty for all.
        explain: whether to report what the gate stopped.
        backup: another tenant whose memories may be looked at, those of everybody in it alone; "" for none. It is never
            retrieved from along with the tenant's own.
    """

    tenant: str
    k: int
    gate: float
    scope: Scope = field(default_factory=Scope)
    at: Instant | None = None
    sources: tuple[str, ...] = ()
    doc_ids: tuple[str, ...] = ()
    explain: bool = True
    backup: str = ""


def of_backup(lookup: Lookup) -> Lookup:
    """Return the lookup in the second source: under the same gate, of what everybody in it may see.

    What the gate stops there is none of the asker's business, so that it is not reported.
    """
    return replace(lookup, tenant=lookup.backup, scope=Scope(), explain=False, backup="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieved:
    """For each query its passages (id, rank score) best first; what the gate stopped; texts that had to be embedded."""

    passages: tuple[tuple[tuple[str, float], ...], ...]
    suppressed: tuple[Suppressed, ...]
    embedded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """Findings that the ledger knows: active memories by now, and those that were refused. All others are new."""

    stored: frozenset[str]
    refused: frozenset[str]


class Store:
    """Reads memories for the runtime."""

    def __init__(self, memories: Memories) -> None:
        self.memories = memories
        self.vectors = QuestionVectors(memories.embedder)

    def retrieve(self, queries: Sequence[str], lookup: Lookup) -> Retrieved:
        """Return what may be used for each query: a quota of k each, and what earlier answers to it had cited.

        Raises:
            IndexUnavailable, LedgerUnavailable, EmbedderUnavailable: nothing can be retrieved now.
            EmbedderChanged, IndexOutdated: not before the index is rebuilt.
        """
        lookup = replace(lookup, backup="")  # an answer-key leads to the tenant's own
        vectors, embedded = self.vectors.of(queries)
        passages: list[tuple[tuple[str, float], ...]] = []
        stopped: dict[MemoryId, Suppressed] = {}
        for query, vector in zip(queries, vectors, strict=True):
            request = self._request(query, lookup)
            result = self.memories.search(request, vector=vector)
            at = self._at(lookup)
            ranked = [(h.memory.id, h.score * self._freshness(h.memory, at)) for h in result.hits]
            best = best_of_each(ranked, lookup.k)
            known = {id_ for id_, _ in best}
            more = [item for item in self._expanded(query, vector, lookup) if item[0] not in known]
            passages.append((*best, *more[:EXPANDED]))
            stopped.update({s.memory.id: s for s in result.suppressed})
        retrieved = {id_ for found in passages for id_, _ in found}
        suppressed = tuple(s for id_, s in stopped.items() if id_ not in retrieved)
        return Retrieved(passages=tuple(passages), suppressed=suppressed, embedded=embedded)

    def usable(
        self, candidates: Mapping[str, float], findings: Mapping[str, Finding], lookup: Lookup
    ) -> dict[str, Evidence]:
        """Return the evidence behind ids that may speak at this instant; whatever may not any more is absent.

        Between retrieval and an answer a memory may fade, be rejected or be superseded, above all while a question
        waits for a person. So every look at evidence asks again what retrieval, or the search, had asked.

        Args:
            candidates: rank score by memory or finding id.
            findings: web findings by the id they will have as memories.
            lookup: what the question may see.
        """
        at = self._at(lookup)
        memories, vectors = self._loaded(candidates, findings)
        may = {id_: m for id_, m in memories.items() if self._may_use(m, lookup, at)}
        told = {id_: kept_text(f) for id_, f in findings.items() if id_ in candidates}
        refused = self.screened(told, lookup, told).refused if told else frozenset()
        left = {id_: f for id_, f in findings.items() if id_ not in refused}
        return self._as_evidence(may, vectors, candidates, left, at)

    def evidence(
        self,
        candidates: Mapping[str, float],
        findings: Mapping[str, Finding],
        *,
        tenant: str,
        now: Instant,
        backup: str = "",
    ) -> dict[str, Evidence]:
        """Return what stands behind ids, for showing it; ids that are gone, or another tenant's, are absent.

        Args:
            candidates: rank score by memory or finding id.
            findings: web findings by the id they will have as memories.
            tenant: whose.
            now: the instant of the question.
            backup: another tenant, of which what everybody in it may see is shown too; "" for none.
        """
        memories, vectors = self._loaded(candidates, findings)
        own = {id_: m for id_, m in memories.items() if m.tenant == tenant or _is_of_backup(m, backup)}
        return self._as_evidence(own, vectors, candidates, findings, now)

    def screened(self, ids: Iterable[str], lookup: Lookup, texts: Mapping[str, str] | None = None) -> Screened:
        """Return what the ledger says of findings that came in before: a rejected page does not answer again.

        Args:
            ids: of the findings.
            lookup: what the question may see.
            texts: their texts, by id; one whose words were rolled back or erased is refused at any address.
        """
        at, told = self._at(lookup), texts or {}
        stored: set[str] = set()
        refused: set[str] = set()
        with self.memories.ledger.read() as tx:
            barred = barred_texts(tx, lookup.tenant, told.values())
            refused.update(id_ for id_, text in told.items() if text in barred)
            for id_, memory in tx.memories.get(map(MemoryId, ids)).items():
                if self._may_use(memory, lookup, at):
                    stored.add(str(id_))
                    refused.discard(str(id_))
                elif _is_refused(memory, tx.evidence.of_memory(id_)):
                    refused.add(str(id_))
        return Screened(stored=frozenset(stored), refused=frozenset(refused))

    def _loaded(
        self, candidates: Mapping[str, float], findings: Mapping[str, Finding]
    ) -> tuple[dict[MemoryId, Memory], Mapping[str, Vector]]:
        wanted = [MemoryId(id_) for id_ in candidates if id_ not in findings]
        with self.memories.ledger.read() as tx:
            memories = tx.memories.get(wanted)
            return memories, self._vectors(tx, memories.values())

    def _as_evidence(
        self,
        memories: Mapping[MemoryId, Memory],
        vectors: Mapping[str, Vector],
        candidates: Mapping[str, float],
        findings: Mapping[str, Finding],
        at: Instant,
    ) -> dict[str, Evidence]:
        policy = self.memories.policies[SourceClass.WEB]
        local: dict[str, Evidence] = {
            id_: self.as_evidence(m, at, score=candidates[id_], vector=vectors.get(m.embed_hash))
            for id_, m in memories.items()
        }
        web = {
            id_: as_evidence(f, id_=id_, score=candidates[id_], now=at, policy=policy)
            for id_, f in findings.items()
            if id_ in candidates
        }
        return {**local, **web}

    def turns(self, lookup: Lookup, thread: str, limit: int = 3) -> list[Turn]:
        """Return a thread's last questions, oldest first, with the quotes that answered them; none without a thread.

        A follow-up may take words over from them, into searches and prompts. So nothing that a model said is here, and
        nothing of a memory that may not speak any more.

        Args:
            lookup: whose thread it is, and what may be seen now.
            thread: its name.
            limit: turns at most.
        """
        if not thread:
            return []
        at = self._at(lookup)
        with self.memories.ledger.read() as tx:
            records = tx.answers.latest(lookup.tenant, thread, limit, scope=lookup.scope)
            cited = {c.memory_id for r in records for c in r.citations}
            usable = {id_ for id_, m in tx.memories.get(cited).items() if self._may_use(m, lookup, at)}
        turns: list[Turn] = []
        said = ""  # what may be taken over: questions as they were asked, and quotes that still stand
        for record in reversed(records):
            turns.append(_turn(record, usable, said))
            said = f"{said}\n{record.question}\n{turns[-1].answer}".casefold()
        return turns

    def _request(self, query: str, lookup: Lookup) -> SearchRequest:
        return SearchRequest(
            question=query,
            tenant=lookup.tenant,
            k=lookup.k * 2,  # freshness chooses among twice the quota
            gate=lookup.gate,
            at=lookup.at,
            scope=lookup.scope,
            sources=lookup.sources,
            doc_ids=lookup.doc_ids,
            explain=lookup.explain,
        )

    def _expanded(self, query: str, vector: Vector, lookup: Lookup) -> list[tuple[str, float]]:
        """Return live memories that an answer to nearly the same question had cited, behind the same gate."""
        request = SearchRequest(
            question=query,
            tenant=lookup.tenant,
            k=KEYS,
            gate=None,
            scope=lookup.scope,
            kinds=(Kind.ANSWER,),
            standings=(Standing.QUARANTINED,),
            explain=False,
        )
        keys = [h.memory for h in self.memories.search(request, vector=vector).hits if leads(h.memory)]
        if not keys:
            return []
        at = self._at(lookup)
        with self.memories.ledger.read() as tx:
            vectors = self._vectors(tx, keys)
            likeness = {k.id: _cosine(vectors.get(k.embed_hash), vector) for k in keys}
            cited = _cited(tx, (k.id for k in keys if likeness[k.id] >= KEY_LIKENESS))
            memories = tx.memories.get(cited)
        usable = [m for m in memories.values() if self._may_use(m, lookup, at)]
        return [(m.id, max(likeness.values()) * self._freshness(m, at)) for m in usable]

    def _may_use(self, memory: Memory, lookup: Lookup, at: Instant) -> bool:
        return (
            (_is_in_scope(memory, lookup) or _is_of_backup(memory, lookup.backup))
            and memory.kind is not Kind.ANSWER
            and memory.standing in _STANDINGS[lookup.at is not None and at < self.memories.clock.now()]
            and memory.valid_from <= at < memory.valid_to
            and (not lookup.sources or memory.source in lookup.sources)
            and (not lookup.doc_ids or memory.doc_id in lookup.doc_ids)
            and passes(memory.trust, lookup.gate, at, self.memories.policies[memory.source_class].half_life)
        )

    def _at(self, lookup: Lookup) -> Instant:
        return self.memories.clock.now() if lookup.at is None else lookup.at

    def _freshness(self, memory: Memory, at: Instant) -> float:
        return freshness(memory.trust, at, self.memories.policies[memory.source_class].half_life)

    def _vectors(self, tx: LedgerTx, memories: Iterable[Memory]) -> Mapping[str, Vector]:
        hashes = [m.embed_hash for m in memories if m.embed_hash]
        return tx.embeddings.get(self.memories.embedder.identity.model, hashes) if hashes else {}

    def as_evidence(
        self, memory: Memory, now: Instant, *, score: float = 0.0, vector: Vector | None = None
    ) -> Evidence:
        """Return a memory as evidence at an instant."""
        half_life = self.memories.policies[memory.source_class].half_life
        return Evidence(
            id=memory.id,
            origin=Origin.MEMORY,
            text=memory.text,
            title=memory.passage.title,
            heading_path=memory.passage.heading_path,
            source=memory.source,
            url=str(memory.metadata.get("url") or ""),
            source_class=memory.source_class,
            root=root_of(memory),
            doc_id=memory.doc_id or "",
            dated=dated(memory, now),
            verified=memory.trust.verified,
            confidence=effective(memory.trust, now, half_life),
            rev=memory.rev,
            score=score,
            vector=vector,
        )


def _is_in_scope(memory: Memory, lookup: Lookup) -> bool:
    scope, wanted = memory.scope, lookup.scope
    return (
        memory.tenant == lookup.tenant
        and scope.agent in ("", wanted.agent)
        and scope.user in ("", wanted.user)
        and scope.conversation in ("", wanted.conversation)
    )


def _is_of_backup(memory: Memory, backup: str) -> bool:
    """Return whether a memory is reference material of the second source: for everybody there, and so for the asker."""
    return bool(backup) and memory.tenant == backup and memory.scope == Scope()


def dated(memory: Memory, now: Instant) -> Instant:
    """Return when a memory was published: the date its document states, else since when it is valid here."""
    stated = (str(memory.metadata.get(key) or "") for key in DATE_KEYS)
    periods = (period for text in stated if text for period in periods_in(text, now))
    first = next(periods, None)
    return memory.valid_from if first is None else first.start


def _turn(record: AnswerRecord, usable: Collection[MemoryId], said: str) -> Turn:
    """Return a turn; names that its question took over are left out when nothing that still stands has them."""
    quotes = [c.quote for c in record.citations if c.supports and c.quote and c.memory_id in usable]
    whole = str(record.report.get("question") or record.question)
    taken = (name.casefold() for name in entities(whole) if name.casefold() not in record.question.casefold())
    question = whole if all(name in said for name in taken) else record.question
    return Turn(question=question, answer=" ".join(dict.fromkeys(quotes)), at=record.created_at)


def _is_refused(memory: Memory, events: Iterable[EvidenceEvent]) -> bool:
    """Return whether a finding was retired, rolled back, rejected by a person, or brought down by evidence.

    One contradiction brings nothing down: it takes what would quarantine an active memory.
    """
    told = list(events)
    decisive = [e.kind for e in told if e.kind in (EvidenceKind.VERIFICATION, EvidenceKind.REJECTION)]
    is_low = memory.trust.confidence < QUARANTINE_BELOW and net_negatives(told) >= NET_NEGATIVES
    return (
        memory.standing is Standing.RETIRED
        or is_rolled_back(memory)
        or decisive[-1:] == [EvidenceKind.REJECTION]
        or (memory.standing is Standing.QUARANTINED and is_low)
    )


def _cosine(a: Vector | None, b: Vector) -> float:
    return 0.0 if a is None or a.shape != b.shape else float(a @ b)


def _cited(tx: LedgerTx, keys: Iterable[str]) -> list[MemoryId]:
    """Return the memories that the newest answers behind these keys had cited."""
    answers = [AnswerId(e.parent) for key in keys for e in tx.lineage.parents(key) if e.kind is EdgeKind.KEY]
    edges = [e for answer in answers for e in tx.lineage.parents(answer)]
    return [MemoryId(e.parent) for e in edges if e.kind is EdgeKind.CITED]
