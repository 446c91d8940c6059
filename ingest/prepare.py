"""From a file to what it asks of the store: read, parse, chunk, next version. Fails for a document, never for a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from ingest.chunk import CHUNKER_VERSION, ChunkLimits, Counters, chunk
from ingest.front_matter import governed
from ingest.kept_out import KeptOut, Skipped, kept_out, skipped_by_hash, skipped_whole
from ingest.parse import PARSER_VERSION
from ingest.prior import document_prior, given_part, is_prior_alike, metadata_fingerprint
from ingest.version import Rules, VersionChange, next_version
from ingest.walk import read_file
from kb.errors import DocumentError, FailureCode, InputError
from kb.ids import digest, document_id, raw_digest
from kb.index.validate import broken_metadata
from kb.ledger.checks import checked_json
from kb.model import MAX_METADATA_BYTES, Document, Fingerprint
from kb.passages import metadata_bytes
from kb.reputation import UNKNOWN, Record
from kb.telemetry import Attr, Span, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ingest.blocks import Chunk, ParsedDocument
    from ingest.front_matter import Governed
    from ingest.plan import Item
    from ingest.prior import Given
    from ingest.walk import FoundFile
    from kb.memories import Memories
    from kb.model import Instant, Json, Memory, MemoryId, SourceClass
    from kb.settings import IngestSettings
    from kb.trust import TrustPolicy

_METADATA_HINT = "change its front matter, or the `.kb.yaml` rules and --metadata that it gets"


class Parser(Protocol):
    """Turns bytes into a document, or raises DocumentError."""

    def parse(self, name: str, data: bytes) -> ParsedDocument:
        """Parse one file; `name` tells its kind."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A file as read: hash of its bytes, and the document they are."""

    raw: str
    parsed: ParsedDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A document ready to be embedded and stored.

    Args:
        item: the planned action.
        change: what the store must do.
        outcome: the report's document count it belongs to.
        tokens: cl100k tokens of its chunks.
        warnings: what the parser lost.
    """

    item: Item
    change: VersionChange
    outcome: str
    tokens: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparer:
    """Everything that preparing a document needs, the document itself excepted."""

    memories: Memories
    parser: Parser
    given: Given
    policies: Mapping[SourceClass, TrustPolicy]
    limits: IngestSettings
    tenant: str
    root: str
    gate: float
    record: Record = UNKNOWN  # how the source's memories fared

    def read(self, file: FoundFile) -> Read | DocumentError:
        """Return what a file says, or why it says nothing. Touches no ledger, so any thread may call it."""
        try:
            data = read_file(file, self.limits.max_bytes)
            with span(Span.INGEST_PARSE, {Attr.BYTES: len(data)}):
                return Read(raw=raw_digest(data), parsed=self.parser.parse(file.relative, data))
        except DocumentError as error:
            return error

    def skipped(self, items: Iterable[Item]) -> dict[str, Skipped]:
        """Return, by the hash of their bytes, the files that were rolled back as a whole: they are not even read."""
        with self.memories.ledger.read() as tx:
            return skipped_by_hash(tx, self.tenant, {item.raw for item in items})

    def prepared(self, item: Item, file: FoundFile, sidecar: Governed, read: Read, now: Instant) -> Prepared | Skipped:
        """Return the document of `item` as the store will have it, or why it is passed over.

        Raises:
            DocumentError: it cannot be ingested.
        """
        parsed = read.parsed
        front = governed(parsed.front_matter)
        prior = document_prior(self.policies, self.given, sidecar, front)
        _check_metadata(prior.metadata)
        title = prior.title or parsed.title
        with span(Span.INGEST_CHUNK):
            chunks = self.chunks(replace(parsed, title=title))
        fingerprint = Fingerprint(
            raw=read.raw,
            content=content_digest(title, chunks),
            metadata=metadata_fingerprint(given_part(self.policies, self.given, sidecar), parsed.front_matter, prior),
            pipeline=pipeline_digest(self.limits, self.memories.embedder.identity.model),
        )
        old = item.document
        known = self._known(old)
        texts = [c.text for c in chunks]
        out = self._kept_out(fingerprint, texts, known)
        if isinstance(out, Skipped):
            return out
        document = self._document(item, file, title, fingerprint, now)
        reset = old is not None and not is_prior_alike(old.fingerprint.metadata, fingerprint.metadata)
        record = UNKNOWN if prior.is_vouched else self.record
        rules = Rules(prior=prior, reset=reset, gate=self.gate, barred=out.barred, erased=out.erased, record=record)
        change = replace(next_version(document, chunks, known, rules, now), before=old)
        if skipped := skipped_whole(texts, out, change):
            return skipped
        tokens = sum(c.tokens for c in chunks)
        return Prepared(
            item=item, change=change, outcome=outcome_of(old, document), tokens=tokens, warnings=parsed.warnings
        )

    def chunks(self, parsed: ParsedDocument) -> tuple[Chunk, ...]:
        """Return a document's chunks within the limits of the settings and of the embedder.

        Raises:
            DocumentError: there are too many.
        """
        embedder = self.memories.embedder
        limits = ChunkLimits(
            target=self.limits.target_tokens, maximum=self.limits.max_tokens, embed_maximum=embedder.max_tokens
        )
        chunks = chunk(parsed, limits, Counters(embedder=embedder.count_tokens))
        if len(chunks) > self.limits.max_chunks:
            raise DocumentError(
                FailureCode.TOO_LARGE,
                f"the document has {len(chunks):,} chunks, the limit is {self.limits.max_chunks:,}",
                hint="split the file, or raise ingest.max_chunks in kb.toml",
            )
        return chunks

    def _known(self, old: Document | None) -> Mapping[MemoryId, Memory]:
        if old is None:
            return {}
        with self.memories.ledger.read() as tx:
            return {m.id: m for m in tx.memories.of_document(old.id)}

    def _kept_out(
        self, fingerprint: Fingerprint, texts: Sequence[str], known: Mapping[MemoryId, Memory]
    ) -> KeptOut | Skipped:
        with self.memories.ledger.read() as tx:
            whole = skipped_by_hash(tx, self.tenant, [fingerprint.raw, fingerprint.content])
            return next(iter(whole.values()), None) or kept_out(tx, self.tenant, texts, known.values())

    def _document(self, item: Item, file: FoundFile, title: str, fingerprint: Fingerprint, now: Instant) -> Document:
        seen = item.seen
        assert seen is not None, "a removal is not prepared"
        old = item.document
        if old is None:
            with self.memories.ledger.read() as tx:
                birth = tx.documents.born_at(self.tenant, seen.source)
            id_, version, created = document_id(self.tenant, seen.source, birth=birth), 1, now
        else:
            is_new = old.fingerprint.content != fingerprint.content or old.deleted_at is not None
            id_, created = old.id, old.created_at
            version = self._latest(old) + 1 if is_new else old.version
        return Document(
            id=id_,
            tenant=self.tenant,
            root=self.root,
            source=seen.source,
            version=version,
            fingerprint=fingerprint,
            size=file.size,
            mtime_ns=file.mtime_ns,
            title=title,
            created_at=created,
            updated_at=now,
        )

    def _latest(self, document: Document) -> int:
        """Return the number of a document's newest version: one that was rolled back keeps its number."""
        with self.memories.ledger.read() as tx:
            return max((v.version for v in tx.documents.versions(document.id)), default=document.version)


def _check_metadata(metadata: Mapping[str, Json]) -> None:
    """Refuse what ledger or index could not hold: acknowledged, such a document would never be found."""
    try:
        checked_json(dict(metadata), "metadata")
    except InputError as error:
        raise DocumentError(FailureCode.FRONT_MATTER, f"its {error}", hint=_METADATA_HINT) from error
    broken = broken_metadata(metadata)
    if not broken and metadata_bytes(metadata) > MAX_METADATA_BYTES:
        broken = f"metadata is longer than {MAX_METADATA_BYTES:,} bytes of JSON"
    if broken:
        raise DocumentError(FailureCode.FRONT_MATTER, f"its {broken}", hint=_METADATA_HINT)


def outcome_of(old: Document | None, new: Document) -> str:
    """Return the report's count that a document belongs to. Bytes that differ without meaning are unchanged."""
    if old is None or old.deleted_at is not None:
        return "added"
    if old.fingerprint.content != new.fingerprint.content:
        return "changed"
    return "metadata_changed" if old.fingerprint.metadata != new.fingerprint.metadata else "unchanged"


def content_digest(title: str, chunks: tuple[Chunk, ...]) -> str:
    """Return the hash of what a document says, as far as it is retrieved."""
    return digest(
        "content", title, *(part for c in chunks for part in (str(len(c.heading_path)), *c.heading_path, c.text))
    )


def pipeline_digest(limits: IngestSettings, model: str) -> str:
    """Return the hash of everything that turns bytes into memories."""
    return digest("pipeline", PARSER_VERSION, CHUNKER_VERSION, str(limits.target_tokens), str(limits.max_tokens), model)
