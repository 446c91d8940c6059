"""The words of the domain as frozen values. Instants are epoch milliseconds, UTC; confidences are in [0, 1]."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NewType, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

MemoryId = NewType("MemoryId", str)
DocumentId = NewType("DocumentId", str)
Instant: TypeAlias = int
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

FOREVER: Instant = 2**63 - 1
MAX_METADATA_BYTES = 60_000  # of JSON; an index row may hold 65,536, of which ours are a few


class Kind(StrEnum):
    """What a memory is."""

    DOCUMENT = "document"  # chunk of an ingested file
    WEB = "web"  # finding of a web search
    NOTE = "note"  # written by an agent or a person
    ANSWER = "answer"  # an answer the runtime gave: a retrieval key, never evidence


class SourceClass(StrEnum):
    """Where a memory came from; sets its prior trust. `person` is a note written by a person."""

    CURATED = "curated"
    DOCUMENT = "document"
    PERSON = "person"
    AGENT = "agent"
    WEB = "web"
    ANSWER = "answer"

    @property
    def policy(self) -> int:
        """The class's number in the index's `policy` column; stable, never reused."""
        return _POLICY[self]


_POLICY = {
    SourceClass.CURATED: 1,
    SourceClass.DOCUMENT: 2,
    SourceClass.PERSON: 3,
    SourceClass.AGENT: 4,
    SourceClass.WEB: 5,
    SourceClass.ANSWER: 6,
}


class Standing(StrEnum):
    """What a memory may be used for."""

    ACTIVE = "active"  # retrievable, if the gate lets it pass
    QUARANTINED = "quarantined"  # kept, never retrieved
    SUPERSEDED = "superseded"  # a newer version replaced it
    RETIRED = "retired"  # pruned; restorable until the restore window ends
    STAGED = "staged"  # of a version that is not switched in yet; seen by nobody

    @property
    def number(self) -> int:
        """The standing's number in the index's `standing` column; stable. Staged rows wait there as active."""
        return _STANDING[self]


_STANDING = {
    Standing.ACTIVE: 0,
    Standing.QUARANTINED: 1,
    Standing.SUPERSEDED: 2,
    Standing.RETIRED: 3,
    Standing.STAGED: 0,  # the ledger hides it until the switch, so the switch needs no write to the index
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose memory it is inside a tenant. An empty part means shared; a set part is seen only by who names it."""

    agent: str = ""
    user: str = ""
    conversation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """How far a memory may be believed, and since when."""

    confidence: float  # c0 at the anchor, in [0, 1]
    anchor: Instant  # decay starts here
    birth: Instant  # virtual birth: anchor + H·log2(c0)
    verified: bool = False
    verified_at: Instant | None = None
    strength: float = 4.0  # weight of the prior; grows with evidence, at most 20
    shown: float | None = None  # confidence that the row's metadata tells other readers; None: c0


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Where a memory's text stands in its document."""

    ordinal: int = 0
    title: str = ""
    heading_path: tuple[str, ...] = ()
    page: int | None = None
    start: int = 0  # character span in the document's parsed text
    end: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One retrievable passage and its trust."""

    id: MemoryId
    tenant: str
    kind: Kind
    source_class: SourceClass
    source: str  # URI scheme://root/relative/path
    text: str  # verbatim body
    trust: Trust
    standing: Standing = Standing.ACTIVE
    standing_reason: str = ""
    pinned: bool = False  # a person wants it kept: never pruned
    contested: bool = False  # another live memory says otherwise, and nobody has settled it
    doc_id: DocumentId | None = None
    passage: Passage = field(default_factory=Passage)
    scope: Scope = field(default_factory=Scope)
    embed_hash: str = ""  # sha256 of the embedded text; key into the embedding cache
    valid_from: Instant = 0
    valid_to: Instant = FOREVER
    created_at: Instant = 0
    updated_at: Instant = 0
    rev: int = 1  # grows by one with every change
    metadata: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The four hashes (sha256 hex) that decide what a sync must do with a document."""

    raw: str  # bytes
    content: str  # parsed text and structure
    metadata: str  # trust, front matter and given metadata
    pipeline: str  # parser, chunker and embedder versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A source file as the ledger knows it."""

    id: DocumentId
    tenant: str
    root: str  # name of the source root
    source: str  # URI
    version: int
    fingerprint: Fingerprint
    size: int = 0  # bytes
    mtime_ns: int = 0
    title: str = ""
    memory_ids: tuple[MemoryId, ...] = ()  # of the current version, in order
    deleted_at: Instant | None = None
    created_at: Instant = 0
    updated_at: Instant = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRoot:
    """A registered source: what the nightly sync walks again, with the options it was ingested with."""

    name: str
    tenant: str
    location: str  # where it is on this machine
    source_class: SourceClass
    options: Mapping[str, Json] = field(default_factory=dict)
    registered_at: Instant = 0
    synced_at: Instant | None = None  # last complete, error-free scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A document that could not be ingested, kept so that it is retried when it, or the pipeline, changes."""

    tenant: str
    root: str
    source: str
    raw: str  # hash of the bytes that failed; empty when they could not be read
    pipeline: str
    code: str
    message: str
    hint: str = ""
    attempts: int = 1
    failed_at: Instant = 0
