"""Embedding with a cache: a text is embedded once per model, whatever happens to the run that asked for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kb.embedders.each import embed_each
from kb.errors import DocumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kb.ports import Embedder, Vector

BATCH = 64  # texts embedded and stored at once: what a crash can cost


class EmbeddingCache(Protocol):
    """Keeps vectors by (model, text hash). What `put` has returned from is durable."""

    def get(self, model: str, hashes: Sequence[str]) -> Mapping[str, Vector]:
        """Return the vectors that are known, by hash."""
        ...

    def put(self, model: str, vectors: Mapping[str, Vector]) -> None:
        """Store vectors; one that is known already is replaced."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """What came of the texts asked for: each hash is in `vectors` or in `refused`."""

    vectors: dict[str, Vector] = field(default_factory=dict)
    refused: dict[str, DocumentError] = field(default_factory=dict)
    embedded: int = 0  # texts really given to the embedder


def embedded(
    cache: EmbeddingCache,
    embedder: Embedder,
    texts: Mapping[str, str],
    *,
    batch: int = BATCH,
    progress: Callable[[int, int], None] | None = None,
) -> Embedded:
    """Return the vectors of `texts`, embedding as passages only what the cache lacks.

    Each batch is stored before the next is begun. A cached vector of another dimension than the embedder's counts as
    missing, and is replaced.

    Args:
        cache: where vectors are kept.
        embedder: makes what is missing.
        texts: embedded text by its hash.
        batch: texts embedded and stored at once.
        progress: told (texts embedded so far, texts to embed) after each batch.

    Raises:
        EmbedderUnavailable: the embedder failed; batches before that are stored.
    """
    if not texts:
        return Embedded()
    identity = embedder.identity
    known = cache.get(identity.model, list(texts))
    vectors = {name: vector for name, vector in known.items() if name in texts and vector.shape == (identity.dim,)}
    missing = [name for name in texts if name not in vectors]
    refused: dict[str, DocumentError] = {}
    done = 0
    for names in _batches(missing, batch):
        fresh: dict[str, Vector] = {}
        for name, outcome in zip(names, embed_each(embedder, [texts[name] for name in names]), strict=True):
            if isinstance(outcome, DocumentError):
                refused[name] = outcome
            else:
                fresh[name] = outcome
        if fresh:
            cache.put(identity.model, fresh)
        vectors |= fresh
        done += len(names)
        if progress is not None:
            progress(done, len(missing))
    return Embedded(vectors=vectors, refused=refused, embedded=len(missing) - len(refused))


def _batches(names: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]
