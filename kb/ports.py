"""The seams of the foundation.

Each Protocol's docstring is its contract; a suite in tests/contract holds every implementation to it, fakes included.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kb.model import Scope, Standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kb.model import Instant, Json, Kind, MemoryId
    from kb.trust import GateClause

    Vector = NDArray[np.float32]


class Clock(Protocol):
    """Tells the time. Only shells hold one; decisions take `now` as an argument."""

    def now(self) -> Instant:
        """Return epoch milliseconds, UTC."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderIdentity:
    """What the vectors came from. Vectors of different `model` or `dim` must never meet in one index."""

    model: str  # vector space, e.g. "multilingual-e5-small"
    dim: int
    engine: str  # what ran, e.g. "onnxruntime int8"; engines of one model share a space


class Embedder(Protocol):
    """Turns texts into vectors, batch first.

    `passages` and `queries` return float32 arrays of shape (len(texts), dim), rows of unit length, finite, in the order
    of the texts; an empty list gives shape (0, dim). The same text gives the same vector. Texts longer than
    `max_tokens` are legal but lose detail; `count_tokens` counts as the model does, prefixes included.

    Raises:
        EmbedderUnavailable: after its own retries.
        DocumentError: (EMBED_FAILED) a text is refused for good; `index` in the message tells which.
    """

    @property
    def identity(self) -> EmbedderIdentity:
        """Model, dimension and engine."""
        ...

    @property
    def max_tokens(self) -> int:
        """Tokens a passage may have in all, by the model's own count."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return each passage's tokens by the model's own tokenizer, prefixes and special tokens included."""
        ...

    def passages(self, texts: Sequence[str]) -> Vector:
        """Embed texts that will be found."""
        ...

    def queries(self, texts: Sequence[str]) -> Vector:
        """Embed texts that look for them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexRow:
    """A memory as the index holds it. `metadata` also carries confidence, verified and source for other readers."""

    id: MemoryId
    tenant: str
    scope: Scope
    text: str
    terms: str  # our own analysis of the text, blank-separated
    dense: Vector  # shape (dim,), unit length
    birth: Instant
    confidence: float
    verified: bool
    standing: int
    valid_from: Instant
    valid_to: Instant
    kind: str
    source_class: str
    policy: int
    doc_id: str
    source: str
    rev: int
    metadata: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """Which memories a search may see. Every field narrows; an empty tuple or None does not.

    Args:
        tenant: required, never empty.
        scope: rows whose scope part is empty or equal to the given part.
        standings: standings allowed.
        gate: clauses OR-ed together; None for no gate.
        gated_out: True turns the gate round: only rows that it stops.
        valid_at: only rows with valid_from <= t < valid_to.
        kinds: kinds allowed.
        sources: source URIs allowed.
        doc_ids: documents allowed.
        metadata: keys of `metadata` that must equal the value (text, number or boolean).
    """

    tenant: str
    scope: Scope = field(default_factory=Scope)
    standings: tuple[Standing, ...] = (Standing.ACTIVE,)
    gate: tuple[GateClause, ...] | None = None
    gated_out: bool = False
    valid_at: Instant | None = None
    kinds: tuple[Kind, ...] = ()
    sources: tuple[str, ...] = ()
    doc_ids: tuple[str, ...] = ()
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One row that a search arm found, and its raw score (larger is better)."""

    id: MemoryId
    score: float


class Index(Protocol):
    """What retrieval searches: a projection of the ledger that can be rebuilt at any time.

    All calls are idempotent and time-limited. Rows are whole: an upsert replaces. A write is visible to the next
    search of every client once the call has returned. Filters run inside the search, which is exact under any filter:
    if n rows match, min(n, k) are returned. Ids in a result are distinct.

    Raises:
        IndexUnavailable: the server cannot be reached, or did not answer in time; the call may have happened.
        IntegrityError: rows break the server's rules (bytes, finite vectors, sizes); nothing was written.
        InputError: criteria that cannot be expressed (empty tenant, a metadata key that is no plain word).
    """

    def upsert(self, rows: Sequence[IndexRow]) -> None:
        """Write whole rows by id; of rows with one id in a call the last wins."""
        ...

    def delete(self, ids: Sequence[MemoryId]) -> None:
        """Remove rows; ids that are not there are no error."""
        ...

    def dense(self, vector: Vector, criteria: Criteria, k: int) -> list[Candidate]:
        """Return the k rows nearest by cosine, best first; score in [-1, 1]."""
        ...

    def sparse(self, terms: str, criteria: Criteria, k: int) -> list[Candidate]:
        """Return the k best rows by BM25 over `terms`, best first; score > 0; rows that share no term are absent."""
        ...

    def revisions(self) -> Iterator[tuple[MemoryId, int]]:
        """Yield (id, rev) of every row, each id once, in id order."""
        ...

    def count(self) -> int:
        """Return the number of rows."""
        ...
