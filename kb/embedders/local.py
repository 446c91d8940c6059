"""The default embedder: multilingual-e5-small, int8, through onnxruntime, from weights that come with the product."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from kb.embedders.e5_cache import built_model, shared_tokenizer
from kb.embedders.e5_encoder import E5Encoder
from kb.embedders.e5_tokenizer import PASSAGE_PREFIX, QUERY_PREFIX, SPECIAL_TOKENS, E5Tokenizer
from kb.embedders.e5_weights import E5Weights, bundled_weights
from kb.embedders.traced import embedding
from kb.ports import EmbedderIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kb.embedders.e5_cache import BuiltModel
    from kb.ports import Vector

MODEL = "multilingual-e5-small"
ENGINE = "onnxruntime int8"
DEFAULT_THREADS = 2


class LocalEmbedder:
    """Embeds with onnxruntime.

    A text of more tokens than one window holds is cut into windows whose token vectors are averaged together: nothing
    is dropped, but detail is lost. Each window is one call of the encoder (see `e5_graph`), so a text's vector does
    not depend on its company; windows run side by side in `threads` threads. Safe to share between threads. The
    tokenizer (0.3 GB of memory) is loaded with the first text, and shared with the process.
    """

    notice = ""

    def __init__(self, weights: E5Weights, model: BuiltModel, *, threads: int | None = None) -> None:
        self._weights = weights
        self._threads = threads or min(DEFAULT_THREADS, os.cpu_count() or 1)
        self._encoder = E5Encoder(weights, model.encoder)
        self._saved_tokenizer: bytes | None = model.tokenizer
        self._tokenizer: E5Tokenizer | None = None
        self._loading = threading.Lock()
        self.identity = EmbedderIdentity(model=MODEL, dim=weights.shape.hidden, engine=ENGINE)

    @classmethod
    def open(cls, cache_dir: Path, *, threads: int | None = None) -> LocalEmbedder:
        """Return the embedder, after building its files under `cache_dir` if they are not there (about 2 s, once).

        Args:
            cache_dir: where the built files are kept.
            threads: windows that run side by side; by default min(2, cores).

        Raises:
            EmbedderUnavailable: onnxruntime or tokenizers cannot be imported, or the files cannot be built or loaded.
        """
        E5Tokenizer.ensure_runnable()
        weights = E5Weights.open(bundled_weights())
        return cls(weights, built_model(cache_dir, weights), threads=threads)

    @property
    def max_tokens(self) -> int:
        """Tokens of one window, prefix and special tokens included."""
        return self._weights.shape.positions

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return each passage's tokens, prefix and special tokens included."""
        return self._tokens().passage_tokens(texts)

    def passages(self, texts: Sequence[str]) -> Vector:
        """Embed texts that will be found: float32, shape (len(texts), 384), unit length."""
        with embedding(MODEL, purpose="passage", texts=len(texts)):
            return self._embed(texts, PASSAGE_PREFIX)

    def queries(self, texts: Sequence[str]) -> Vector:
        """Embed texts that look for them: float32, shape (len(texts), 384), unit length."""
        with embedding(MODEL, purpose="query", texts=len(texts)):
            return self._embed(texts, QUERY_PREFIX)

    def _tokens(self) -> E5Tokenizer:
        with self._loading:
            if self._tokenizer is None:
                assert self._saved_tokenizer is not None
                self._tokenizer = shared_tokenizer(self._saved_tokenizer, self._weights)
                self._saved_tokenizer = None
        return self._tokenizer

    def _embed(self, texts: Sequence[str], prefix: str) -> Vector:
        sums = np.zeros((len(texts), self._weights.shape.hidden), np.float32)
        if not texts:
            return sums
        size = self._weights.shape.positions - SPECIAL_TOKENS
        ids = self._tokens().ids(texts, prefix)
        owners = [text for text, sequence in enumerate(ids) for _ in range(0, len(sequence), size)]
        windows = [sequence[at : at + size] for sequence in ids for at in range(0, len(sequence), size)]
        for owner, summed in zip(owners, self._run(windows), strict=True):
            sums[owner] += summed
        unit: Vector = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return unit

    def _run(self, windows: list[list[int]]) -> list[Vector]:
        if len(windows) == 1 or self._threads == 1:
            return [self._window(window) for window in windows]
        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(self._window, windows))

    def _window(self, ids: list[int]) -> Vector:
        """Return the sum of one window's token vectors, shape (dim,)."""
        shape = self._weights.shape
        summed: Vector = self._encoder.hidden([shape.bos, *ids, shape.eos]).sum(axis=0)
        return summed
