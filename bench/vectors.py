"""Vectors that benchmarks share, kept in one file under .kb/bench so that a second run embeds nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kb.embedders import open_embedder
from kb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kb.ports import Embedder, Vector

CACHE = Path(".kb/bench")
BATCH = 64


class Vectors:
    """Embeds texts with the configured embedder, each once.

    Args:
        embedder: what embeds; the settings' own by default, opened when first needed.
        folder: where the file lies; one file a model and engine.
    """

    def __init__(self, embedder: Embedder | None = None, folder: Path = CACHE) -> None:
        self.embedder = embedder or open_embedder(Settings())
        identity = self.embedder.identity
        self._path = folder / f"vectors-{_key(f'{identity.model} {identity.engine}')[:12]}.npz"
        self._known: dict[str, Vector] = {}
        if self._path.exists():
            with np.load(self._path) as stored:
                self._known = dict(zip(stored["keys"].tolist(), stored["vectors"], strict=True))

    def passages(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of texts that are found."""
        return self._embedded("passage", texts, self.embedder.passages)

    def queries(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of questions."""
        return self._embedded("query", texts, self.embedder.queries)

    def _embedded(self, kind: str, texts: Sequence[str], embed: Callable[[Sequence[str]], Vector]) -> list[Vector]:
        keys = [_key(f"{kind}: {text}") for text in texts]
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in self._known}
        ordered = sorted(missing, key=lambda k: len(missing[k]))
        for start in range(0, len(ordered), BATCH):
            batch = ordered[start : start + BATCH]
            self._known.update(zip(batch, embed([missing[k] for k in batch]), strict=True))
        if missing:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            keys_of = np.array(list(self._known))
            np.savez(self._path, keys=keys_of, vectors=np.stack(list(self._known.values())))
        return [self._known[k] for k in keys]


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
