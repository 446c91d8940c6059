"""The one door to memories: a change is one ledger transaction with its outbox entries; the index follows.

Ledger first: what is acknowledged is in the ledger. An index that is away delays what can be found, never loses it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from kb.embedders import notice_of
from kb.embedders.cached import embedded
from kb.embedders.lazy import LazyEmbedder
from kb.errors import DocumentError, IndexUnavailable, InputError, IntegrityError, StaleRevision, UnknownMemory
from kb.ids import embed_hash, note_id
from kb.index.generations import Generations
from kb.index.milvus import open_server
from kb.index.projector import Drained, Projector
from kb.index.validate import broken_metadata
from kb.ledger import open_configured
from kb.ledger.checks import checked_text
from kb.model import MAX_METADATA_BYTES, Kind, Memory, Passage, Scope, SourceClass, Standing
from kb.notes import kept_out, written
from kb.passages import embed_text, embedded_as, metadata_bytes
from kb.ranking import Mode
from kb.rebirth import follow_half_lives
from kb.reputation import reputed
from kb.search import Searcher, SearchResult
from kb.trust import prior

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kb.ledger import Ledger
    from kb.ledger.collections import Collection
    from kb.model import Instant, Json, MemoryId
    from kb.ports import Clock, Embedder, Vector
    from kb.search import SearchRequest
    from kb.settings import Settings
    from kb.trust import TrustPolicy

NOTE_BYTES = 8_192
ATTEMPTS = 4  # others may set up the index, add the same note, or change what it is written from: each once
CATCH_UP_S = 1.0  # how long a search waits for another drainer


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A passage written by hand.

    Args:
        text: verbatim; at most 8,192 bytes of UTF-8.
        tenant: whose.
        by: PERSON or AGENT; an agent's note waits in quarantine.
        source: URI it should be credited to; "" for `note://person` or `note://agent`.
        scope: whose inside the tenant.
        title: what it is about.
        confidence: prior in [0, 1]; None for the class's own.
        metadata: anything else, as JSON.
        derived_from: ids of the memories and answers that it was written from. It descends from them: it is no
            witness for them, and goes with them when they are rolled back.
    """

    text: str
    tenant: str
    by: SourceClass = SourceClass.PERSON
    source: str = ""
    scope: Scope = field(default_factory=Scope)
    title: str = ""
    confidence: float | None = None
    metadata: Mapping[str, Json] | None = None
    derived_from: tuple[str, ...] = ()


class Memories:
    """Opened by `open_memories`; every room that adds, changes or finds memories comes through here."""

    def __init__(
        self, *, ledger: Ledger, generations: Generations, embedder: Embedder, settings: Settings, clock: Clock
    ) -> None:
        self.ledger = ledger
        self.generations = generations
        self.embedder = embedder
        self.clock = clock
        self.policies: Mapping[SourceClass, TrustPolicy] = settings.policies
        self.gate = settings.gate
        self.has_reputation = settings.govern.reputation
        self.projector = Projector(ledger, generations, clock)
        catch_up = partial(self.projector.catch_up, wait_seconds=CATCH_UP_S, is_needed=True)
        self._searcher = Searcher(ledger, self.policies, catch_up)

    @property
    def embedder_notice(self) -> str:
        """What the user should know about the embedder that runs; "" when it is the one configured."""
        return notice_of(self.embedder)

    def search(self, request: SearchRequest, *, vector: Vector | None = None) -> SearchResult:
        """Return what may be retrieved for the question at this instant, best first.

        Args:
            request: what is asked.
            vector: the question as the store's embedder embeds it, shape (dim,); None to have it embedded here.

        Raises:
            InputError: the vector is of another shape.
            EmbedderChanged: the configured embedder is not the stored vectors' own.
            IndexUnavailable: the index cannot be reached.
        """
        dim = self.embedder.identity.dim
        if vector is not None and vector.shape != (dim,):
            raise InputError(f"the question's vector has shape {vector.shape}; the embedder's have ({dim},)")
        if self.generations.checked(self.embedder.identity) is None:
            return SearchResult(hits=(), suppressed=(), arms=request.mode)
        if request.mode is Mode.TEXT:
            vector = None
        elif vector is None:
            vector = self.embedder.queries([request.question])[0]
        now = self.clock.now()
        current = self.generations.ensured(self.embedder.identity, now)
        try:
            return self._searched(request, current, vector, now)
        except IndexUnavailable:
            newer = self.generations.ensured(self.embedder.identity, now)
            if newer.name == current.name:
                raise
            self.generations.forget(current.name)  # another process has reindexed meanwhile
            return self._searched(request, newer, vector, now)

    def _searched(
        self, request: SearchRequest, current: Collection, vector: Vector | None, now: Instant
    ) -> SearchResult:
        index = self.generations.index(current, now)
        with self.ledger.read() as tx:
            is_behind = bool(tx.outbox.pending(1))
        if is_behind:  # what a crash, or an index that was away, has left
            self.projector.catch_up()
        return self._searcher.search(request, index, vector, now)

    def add_note(self, note: Note) -> tuple[Memory, Drained]:
        """Store a note and return it with the state of its projection. The same note twice is one memory.

        A note whose words were rolled back, or that was written from what was, waits in quarantine. Said again with
        other parents, a note descends from all of them.

        Raises:
            InputError: the text is empty or too long, `by` is no author of notes, or what it was written from is none
                of the tenant's.
            Refused: its words were erased.
        """
        now = self.clock.now()
        memory = note_memory(note, self.policies, now)
        self.generations.ensured(self.embedder.identity, now)
        if not note.derived_from and (known := self._stored(memory.id)) is not None:
            return known, Drained()
        with self.ledger.read() as tx:
            kept_out(tx, memory)  # nothing of what was erased is even embedded
            if self.has_reputation and note.confidence is None:
                memory = reputed(memory, self.policies[note.by], tx.reputation.of_author(memory), now)
        return self._written(memory, note.derived_from, now), self.projector.drain()

    def _written(self, memory: Memory, parents: Sequence[str], now: Instant) -> Memory:
        """Store a note, again where others come in between: the same note twice is one, with the parents of both."""
        for attempt in range(1, ATTEMPTS + 1):
            _, refused = self.embed({memory.embed_hash: embedded_as(memory)})
            try:
                return self._add_note(memory, parents, now, has_vector=not refused)
            except IntegrityError as error:
                known = self._stored(memory.id)  # somebody else has added the same note meanwhile
                if known is not None and not parents:
                    return known
                if attempt == ATTEMPTS or (known is None and not isinstance(error, StaleRevision)):
                    raise
        raise AssertionError

    def _add_note(self, memory: Memory, parents: Sequence[str], now: Instant, *, has_vector: bool) -> Memory:
        with self.ledger.write() as tx:
            self.generations.matching(tx, self.embedder.identity)
            stored = written(tx, memory, parents, now)
            if has_vector and tx.embeddings.missing(self.embedder.identity.model, [memory.embed_hash], is_holding=True):
                raise StaleRevision("its vector was erased meanwhile, with the last memory that had the same words")
            return stored

    def _stored(self, id_: MemoryId) -> Memory | None:
        with self.ledger.read() as tx:
            return tx.memories.get([id_]).get(id_)

    def embed(
        self, texts: Mapping[str, str], progress: Callable[[int, int], None] | None = None
    ) -> tuple[int, dict[str, DocumentError]]:
        """Make sure that every text (by its hash) has a vector in the ledger.

        Returns:
            How many were really embedded, and the texts the embedder refuses, by hash.

        Raises:
            EmbedderUnavailable: nothing more can be embedded; what was, is kept.
        """
        result = embedded(_LedgerCache(self.ledger), self.embedder, texts, progress=progress)
        return result.embedded, dict(result.refused)

    def get(self, id_: MemoryId, tenant: str) -> Memory:
        """Return one memory.

        Raises:
            UnknownMemory: the tenant has none with this id.
        """
        with self.ledger.read() as tx:
            memory = tx.memories.get([id_]).get(id_)
        if memory is None or memory.tenant != tenant:
            raise UnknownMemory(f"there is no memory {id_} in tenant {tenant}")
        return memory

    def page(
        self,
        tenant: str,
        *,
        after: str = "",
        limit: int = 50,
        standings: Sequence[Standing] = (),
        kinds: Sequence[Kind] = (),
    ) -> list[Memory]:
        """Return memories of a tenant in id order, after the id `after`."""
        with self.ledger.read() as tx:
            return tx.memories.page(after, limit, tenant=tenant, standings=tuple(standings), kinds=tuple(kinds))


class _LedgerCache:
    """The embedding cache, one short transaction a call, so that a long embedding run holds no lock."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def get(self, model: str, hashes: Sequence[str]) -> dict[str, Vector]:
        with self._ledger.read() as tx:
            return tx.embeddings.get(model, hashes)

    def put(self, model: str, vectors: Mapping[str, Vector]) -> None:
        with self._ledger.write() as tx:
            tx.embeddings.put(model, vectors)


def note_memory(note: Note, policies: Mapping[SourceClass, TrustPolicy], now: Instant) -> Memory:
    """Return the memory that a note becomes at `now`. Pure."""
    text = note.text.strip()
    if not text:
        raise InputError("the note is empty")
    checked_text(text, "the note")
    checked_text(note.title, "the note's title")
    if len(text.encode()) > NOTE_BYTES:
        hint = "put long texts in a file and `kb ingest` it"
        raise InputError(f"the note is longer than {NOTE_BYTES:,} bytes", hint=hint)
    if note.by not in (SourceClass.PERSON, SourceClass.AGENT):
        raise InputError(f"a note is by a person or an agent, not {note.by.value}")
    if broken := broken_metadata(note.metadata or {}):
        raise InputError(f"the note's {broken}")
    if metadata_bytes(note.metadata or {}) > MAX_METADATA_BYTES:
        raise InputError(f"the note's metadata is longer than {MAX_METADATA_BYTES:,} bytes of JSON")
    policy = policies[note.by]
    if note.confidence is not None:
        policy = replace(policy, confidence=note.confidence)
    source = note.source or f"note://{note.by.value}"
    return Memory(
        id=note_id(note.tenant, source, text, by=note.by, scope=note.scope),
        tenant=note.tenant,
        kind=Kind.NOTE,
        source_class=note.by,
        source=source,
        text=text,
        trust=prior(policy, now),
        standing=Standing.QUARANTINED if policy.quarantined else Standing.ACTIVE,
        standing_reason="waits for corroboration or verification" if policy.quarantined else "",
        passage=Passage(title=note.title, end=len(text)),
        scope=note.scope,
        embed_hash=embed_hash(embed_text(note.title, (), text)),
        valid_from=now,
        created_at=now,
        updated_at=now,
        metadata=dict(note.metadata or {}),
    )


@contextmanager
def open_memories(settings: Settings, clock: Clock, *, is_following: bool = True) -> Iterator[Memories]:
    """Open ledger, index and embedder as the settings say, and close them after. Each connects when first used.

    Args:
        settings: all of them.
        clock: tells the time.
        is_following: births follow half-lives that were changed since; False for who only judges whether they should.
    """
    ledger = open_configured(settings)
    try:
        generations = Generations(open_server(settings), ledger)
        if is_following:
            follow_half_lives(ledger, settings.policies, clock.now())
        with ledger.read() as tx:
            current = generations.current(tx)
        embedder = LazyEmbedder(settings, (current.model, current.dim) if current else None)
        try:
            yield Memories(ledger=ledger, generations=generations, embedder=embedder, settings=settings, clock=clock)
        finally:
            generations.close()
    finally:
        ledger.close()
