"""An embedder without a model: hashed words and letter pairs, so that texts which share words are near each other."""

from __future__ import annotations

import re
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kb.errors import DocumentError, EmbedderUnavailable, FailureCode
from kb.ports import EmbedderIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kb.ports import Vector


class HashingEmbedder:
    """Deterministic, instant, and counts what it is asked.

    Args:
        dim: dimension of the vectors.
        model: name of the vector space.
        refuses: texts that contain this are refused for good; "" refuses none.
        limit: `max_tokens`, in words.
    """

    notice = ""

    def __init__(self, *, dim: int = 64, model: str = "hashing", refuses: str = "", limit: int = 512) -> None:
        self.identity = EmbedderIdentity(model=model, dim=dim, engine="hashing")
        self.max_tokens = limit
        self.refuses = refuses
        self.unavailable = False
        self.fails_after: int | None = None  # calls that succeed before it becomes unavailable
        self.calls = 0
        self.passages_embedded = 0

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) + 2 for text in texts]

    def passages(self, texts: Sequence[str]) -> Vector:
        vectors = self._embed(texts)
        self.passages_embedded += len(texts)
        return vectors

    def queries(self, texts: Sequence[str]) -> Vector:
        return self._embed(texts)

    def _embed(self, texts: Sequence[str]) -> Vector:
        if self.unavailable or (self.fails_after is not None and self.calls >= self.fails_after):
            raise EmbedderUnavailable("the embedder was told to fail")
        self.calls += 1
        for index, text in enumerate(texts):
            if self.refuses and self.refuses in text:
                raise DocumentError(FailureCode.EMBED_FAILED, f"text {index} is refused")
        return np.stack([self._vector(text) for text in texts]) if texts else np.zeros((0, self.identity.dim), "f4")

    def _vector(self, text: str) -> Vector:
        vector = np.zeros(self.identity.dim, np.float32)
        for word in re.findall(r"\w+", text.lower()):
            for feature, weight in [(word, 1.0), *((a + b, 0.3) for a, b in pairwise(word))]:
                number = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
                vector[number % self.identity.dim] += weight if number & 0x10000 else -weight
        length = float(np.linalg.norm(vector))
        if length == 0:
            vector[0] = length = 1.0
        unit: Vector = vector / length
        return unit


class InterruptedEmbedder(HashingEmbedder):
    """Does something once, when it is next asked for passages: what others do meanwhile."""

    then: Callable[[], object] | None = None

    def passages(self, texts: Sequence[str]) -> Vector:
        then, self.then = self.then, None
        if then is not None:
            then()
        return super().passages(texts)
