"""Search: the gate inside the index, every hit confirmed by the ledger, and what the gate stopped explained.

The index may run ahead of the ledger (rows staged before a switch) or behind it (outbox not drained). So a hit counts
only if the ledger, in one read transaction, says that it may be retrieved now; and when a hit turns out to have been
superseded meanwhile, the search is repeated, because its successor's row was in the index before the switch. That is
why a search shows one version of a document at every instant: never both, never neither.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kb.errors import InputError
from kb.model import FOREVER, Kind, Scope, Standing
from kb.ports import Criteria
from kb.ranking import Fusion, Mode, ranked
from kb.stopping import Stopped, why_quarantined
from kb.telemetry import Attr, Metric, Operation, Span, count, documents, observe, span
from kb.terms import Script, query_terms, script_of
from kb.trust import effective, gate_clauses, passes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kb.ledger import Ledger
    from kb.ledger.ledger import LedgerTx
    from kb.model import Instant, Memory, MemoryId, SourceClass
    from kb.ports import Candidate, Index, Vector
    from kb.telemetry import Attribute
    from kb.trust import TrustPolicy

MAX_K = 1000
MAX_ROUNDS = 6
POOL_FLOOR = 50
POOL_FACTOR = 4
MAX_POOL = 16_384
_CODE = re.compile(r"\d")
_SEARCHABLE = (Standing.ACTIVE, Standing.QUARANTINED, Standing.SUPERSEDED)
_EVIDENT = tuple(kind for kind in Kind if kind is not Kind.ANSWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """What is asked.

    Args:
        question: the words.
        tenant: whose memories.
        k: hits wanted, 1 to 1000.
        gate: effective confidence to exceed, in [0, 1]; None to ask for none, not even one above 0.
        at: instant to answer for; None is now. In the past, what was valid then; in the future, today's rows decayed.
        mode: arms used.
        fusion: how the arms are fused.
        scope: whose memories inside the tenant.
        kinds: kinds allowed; empty for all that can be evidence: an answer-key is found only where it is named.
        standings: exactly the standings allowed; empty for what may be retrieved at that instant.
        sources: source URIs allowed; empty for all.
        doc_ids: documents allowed; empty for all.
        metadata: values that must be equal.
        explain: whether to look for what the gate stopped, which asks the index twice more.
    """

    question: str
    tenant: str
    k: int = 5
    gate: float | None = 0.7
    at: Instant | None = None
    mode: Mode = Mode.HYBRID
    fusion: Fusion = Fusion.MINMAX
    scope: Scope = field(default_factory=Scope)
    kinds: tuple[Kind, ...] = ()
    standings: tuple[Standing, ...] = ()
    sources: tuple[str, ...] = ()
    doc_ids: tuple[str, ...] = ()
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    explain: bool = True

    def __post_init__(self) -> None:
        if not self.question.strip():
            raise InputError("the question is empty")
        if not 1 <= self.k <= MAX_K:
            raise InputError(f"k is {self.k}; it must be between 1 and {MAX_K}")
        if self.gate is not None and not 0.0 <= self.gate <= 1.0:
            raise InputError(f"gate is {self.gate}; it must be between 0 and 1")
        if self.at is not None and not 0 <= self.at < FOREVER:
            raise InputError("the instant asked for is out of range")
        if unseen := [s.value for s in self.standings if s not in _SEARCHABLE]:
            raise InputError(f"{' and '.join(unseen)} memories are searched by nobody")

    @property
    def wanted_kinds(self) -> tuple[Kind, ...]:
        """The kinds that may be hits."""
        return self.kinds or _EVIDENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A retrieved memory."""

    memory: Memory
    score: float  # fused, in [0, 1]
    effective_confidence: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppressed:
    """A memory that would have been among the hits, had the gate let it pass."""

    memory: Memory
    score: float
    effective_confidence: float
    reason: Stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Hits best first, and what the gate stopped. `arms` says which arms decided the ranking."""

    hits: tuple[Hit, ...]
    suppressed: tuple[Suppressed, ...]
    arms: Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arms:
    dense: list[Candidate]
    text: list[Candidate]


_NOTHING = _Arms(dense=[], text=[])


class Searcher:
    """Runs searches over one index and one ledger."""

    def __init__(
        self,
        ledger: Ledger,
        policies: Mapping[SourceClass, TrustPolicy],
        catch_up: Callable[[], object],
    ) -> None:
        self._ledger = ledger
        self._policies = policies
        self._catch_up = catch_up

    def search(self, request: SearchRequest, index: Index, vector: Vector | None, now: Instant) -> SearchResult:
        """Return hits and suppression for a request whose question is embedded as `vector` (None in text mode)."""
        began = time.perf_counter()
        at = now if request.at is None else request.at
        said: dict[Attr, Attribute | None] = {
            Attr.OPERATION: Operation.RETRIEVAL.value,
            Attr.TENANT: request.tenant,
            Attr.TOP_K: request.k,
            Attr.MODE: request.mode.value,
        }
        with span(Span.SEARCH, said) as recording:
            criteria = self._criteria(request, at, now)
            hits, arms, mode = self._confirmed(request, criteria, index, vector, at, past=at < now)
            suppressed = self._suppressed(request, criteria, index, vector, at, arms) if request.explain else ()
            recording.set({Attr.HITS: len(hits), Attr.SUPPRESSED: len(suppressed)})
            recording.capture(Attr.QUERY, lambda: request.question)
            recording.capture(Attr.DOCUMENTS, lambda: documents((h.memory.id, h.score, h.memory.text) for h in hits))
        count(Metric.SEARCHES)
        observe(Metric.SEARCH_SECONDS, time.perf_counter() - began)
        count(Metric.SUPPRESSED, len(suppressed))
        return SearchResult(hits=tuple(hits), suppressed=suppressed, arms=mode)

    def _criteria(self, request: SearchRequest, at: Instant, now: Instant) -> Criteria:
        past = at < now
        return Criteria(
            tenant=request.tenant,
            scope=request.scope,
            standings=request.standings or ((Standing.ACTIVE, Standing.SUPERSEDED) if past else (Standing.ACTIVE,)),
            gate=None if request.gate is None else gate_clauses(request.gate, at, self._policies),
            valid_at=at if past else None,
            kinds=request.wanted_kinds,
            sources=request.sources,
            doc_ids=request.doc_ids,
            metadata=request.metadata,
        )

    def _confirmed(
        self,
        request: SearchRequest,
        criteria: Criteria,
        index: Index,
        vector: Vector | None,
        at: Instant,
        *,
        past: bool,
    ) -> tuple[list[Hit], _Arms, Mode]:
        pool = min(MAX_POOL, max(POOL_FLOOR, POOL_FACTOR * request.k))
        known_stale: set[MemoryId] = set()
        for _ in range(MAX_ROUNDS):
            arms = _ask(request, criteria, index, vector, pool)
            mode, ranking = self._ranking(request, arms)
            hits, stale = self._confirm(request, ranking, at, past=past)
            if stale - known_stale:  # moved on meanwhile: their successors are in the index by now
                known_stale |= stale
                self._catch_up()
                continue
            if len(hits) < request.k and len(ranking) >= pool and pool < MAX_POOL:
                pool = min(MAX_POOL, pool * POOL_FACTOR)  # rows the ledger hides took the places
                continue
            break
        return hits, arms, mode

    def _ranking(self, request: SearchRequest, arms: _Arms) -> tuple[Mode, list[tuple[MemoryId, float]]]:
        mode = request.mode
        if mode is Mode.HYBRID and arms.dense and self._is_foreign(request.question, arms.dense[: request.k]):
            mode = Mode.DENSE  # across scripts BM25 finds only chance matches
        text = [] if mode is Mode.DENSE else arms.text
        return mode, ranked(arms.dense, text, request.fusion)

    def _is_foreign(self, question: str, nearest: Sequence[Candidate]) -> bool:
        """Return whether most of the nearest passages are in another script than a question of words.

        A code or a number is written alike in every script: a question with one in it keeps BM25.
        """
        asked = script_of(question)
        if asked is Script.NONE or _CODE.search(question):
            return False
        with self._ledger.read() as tx:
            found = [script_of(m.text) for m in tx.memories.get([c.id for c in nearest]).values()]
        other = sum(s not in (asked, Script.NONE) for s in found)
        return other * 2 > len(found)

    def _confirm(
        self, request: SearchRequest, ranking: Sequence[tuple[MemoryId, float]], at: Instant, *, past: bool
    ) -> tuple[list[Hit], set[MemoryId]]:
        """Return the first k that the ledger confirms, and those before the last of them that it has superseded."""
        hits: list[Hit] = []
        stale: set[MemoryId] = set()
        step = request.k + 10
        with self._ledger.read() as tx:
            for start in range(0, len(ranking), step):
                batch = ranking[start : start + step]
                memories = tx.memories.get([id_ for id_, _ in batch])
                stood = _stood(tx, memories.values(), at) if past else set(memories)
                for id_, score in batch:
                    memory = memories.get(id_)
                    if memory is not None and id_ in stood and self._may_show(memory, request, at, past=past):
                        hits.append(self._hit(memory, score, at))
                        if len(hits) == request.k:
                            return hits, stale
                    elif memory is None or _has_moved_on(memory, at, past=past):
                        stale.add(id_)
        return hits, stale

    def _may_show(self, memory: Memory, request: SearchRequest, at: Instant, *, past: bool) -> bool:
        usual = (Standing.ACTIVE, Standing.SUPERSEDED, Standing.STAGED) if past else (Standing.ACTIVE,)
        return (
            memory.standing in (request.standings or usual)
            and _is_asked_for(memory, request)
            and self._passes(memory, request.gate, at)
        )

    def _passes(self, memory: Memory, gate: float | None, at: Instant) -> bool:
        return gate is None or passes(memory.trust, gate, at, self._policies[memory.source_class].half_life)

    def _hit(self, memory: Memory, score: float, at: Instant) -> Hit:
        c = effective(memory.trust, at, self._policies[memory.source_class].half_life)
        reasons = [f"confidence {memory.trust.confidence:.2f}, now {c:.2f}", memory.source_class.value]
        if memory.trust.verified:
            reasons.append("verified")
        return Hit(memory=memory, score=score, effective_confidence=c, reasons=tuple(reasons))

    def _suppressed(
        self, request: SearchRequest, criteria: Criteria, index: Index, vector: Vector | None, at: Instant, arms: _Arms
    ) -> tuple[Suppressed, ...]:
        """Return what the gate, or quarantine, kept out of the first k.

        Without a gate nothing fades, and where standings are named quarantine stops nothing.
        """
        past = criteria.valid_at is not None
        standings, faded, waiting = criteria.standings, _NOTHING, _NOTHING
        if request.gate is not None:
            faded = _ask(request, replace(criteria, gated_out=True), index, vector, request.k)
        if not request.standings:
            standings = (*standings, Standing.QUARANTINED)
            quarantined = replace(criteria, standings=(Standing.QUARANTINED,), gate=None)
            waiting = _ask(request, quarantined, index, vector, request.k)
        together = _Arms(
            dense=_merged(arms.dense, faded.dense, waiting.dense), text=_merged(arms.text, faded.text, waiting.text)
        )
        _, ranking = self._ranking(request, together)
        stopped = {c.id for found in (faded, waiting) for c in (*found.dense, *found.text)}
        scores = dict(ranking[: request.k])
        with self._ledger.read() as tx:
            memories = tx.memories.get([id_ for id_ in scores if id_ in stopped])
            there = _stood(tx, memories.values(), at) if past else {m.id for m in memories.values() if _is_held(m)}
        found_out = (
            self._explained(m, scores[m.id], request, at)
            for m in memories.values()
            if m.id in there and m.standing in standings and _is_asked_for(m, request)
        )
        return tuple(sorted((s for s in found_out if s is not None), key=lambda s: -s.score))

    def _explained(self, memory: Memory, score: float, request: SearchRequest, at: Instant) -> Suppressed | None:
        gate = request.gate
        if memory.standing is Standing.QUARANTINED and not request.standings:
            reason = why_quarantined(memory)
        elif gate is None or self._passes(memory, gate, at):
            return None
        else:
            reason = Stopped.FADED if memory.trust.confidence > gate else Stopped.LOW_CONFIDENCE
        c = effective(memory.trust, at, self._policies[memory.source_class].half_life)
        return Suppressed(memory=memory, score=score, effective_confidence=c, reason=reason)


def _has_moved_on(memory: Memory, at: Instant, *, past: bool) -> bool:
    return memory.standing is Standing.SUPERSEDED and (not past or memory.valid_to <= at)


def _is_held(memory: Memory) -> bool:
    """Return whether its document still holds it; one in quarantine keeps its standing when its document loses it."""
    return memory.valid_to == FOREVER


def _stood(tx: LedgerTx, memories: Collection[Memory], at: Instant) -> set[MemoryId]:
    """Return which memories stood at a past instant.

    A passage that left its document and came back has one interval around its absence; the versions know the gap.
    """
    valid = [m for m in memories if m.valid_from <= at < m.valid_to]
    documents = tx.documents.stood_at({m.doc_id for m in valid if m.doc_id is not None}, at)
    return {m.id for m in valid if m.doc_id is None or m.id in documents.get(m.doc_id, ())}


def _is_asked_for(memory: Memory, request: SearchRequest) -> bool:
    """Return whether the ledger's row is still what the request narrows to: the index's may lag behind it."""
    wanted, given = request.scope, memory.scope
    return (
        memory.tenant == request.tenant
        and given.agent in ("", wanted.agent)
        and given.user in ("", wanted.user)
        and given.conversation in ("", wanted.conversation)
        and memory.kind in request.wanted_kinds
        and (not request.sources or memory.source in request.sources)
        and (not request.doc_ids or memory.doc_id in request.doc_ids)
    )


def _merged(*found: Sequence[Candidate]) -> list[Candidate]:
    """Return one arm's candidates of several questions, best first: fusion by rank reads their order."""
    unique = {c.id: c for part in found for c in part}
    return sorted(unique.values(), key=lambda c: -c.score)


def _ask(request: SearchRequest, criteria: Criteria, index: Index, vector: Vector | None, k: int) -> _Arms:
    dense = index.dense(vector, criteria, k) if vector is not None and request.mode is not Mode.TEXT else []
    words = query_terms(request.question) if request.mode is not Mode.DENSE else ""
    return _Arms(dense=dense, text=index.sparse(words, criteria, k) if words else [])
