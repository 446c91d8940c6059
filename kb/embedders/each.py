"""Embedding many texts of which some may be refused: each text gets its vector or its own error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kb.errors import DocumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.ports import Embedder, Vector


@runtime_checkable
class EachEmbedder(Protocol):
    """An embedder that sorts out refused texts by itself, at less cost than calling it again would have."""

    def passages_each(self, texts: Sequence[str]) -> list[Vector | DocumentError]:
        """Return each text's vector or error, in order."""
        ...


def embed_each(embedder: Embedder, texts: Sequence[str]) -> list[Vector | DocumentError]:
    """Return each passage's vector, shape (dim,), or the error by which the embedder refused it, in order.

    Raises:
        EmbedderUnavailable: the embedder itself failed; nothing is known about the texts.
    """
    if isinstance(embedder, EachEmbedder):
        return embedder.passages_each(texts)
    if not texts:
        return []
    try:
        return list(embedder.passages(texts))
    except DocumentError as error:
        if len(texts) == 1:
            return [error]
    half = len(texts) // 2
    return embed_each(embedder, texts[:half]) + embed_each(embedder, texts[half:])
