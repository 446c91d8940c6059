"""The configured embedder, loaded when the first text comes: most commands, and syncs without change, embed nothing."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from kb.embedders import notice_of, open_embedder
from kb.ports import EmbedderIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.ports import Embedder, Vector
    from kb.settings import Settings

LOCAL_MODEL = "multilingual-e5-small"
LOCAL_DIM = 384
UNLOADED = "not loaded"


class LazyEmbedder:
    """Tells model and dimension without loading them, where they are known.

    Args:
        settings: which embedder.
        known: model and dimension of the stored vectors, if there are any.
    """

    def __init__(self, settings: Settings, known: tuple[str, int] | None) -> None:
        self._settings = settings
        self._known = known

    @cached_property
    def _inner(self) -> Embedder:
        return open_embedder(self._settings)

    @property
    def is_loaded(self) -> bool:
        """Whether the engine runs."""
        return "_inner" in self.__dict__

    @property
    def notice(self) -> str:
        """What the user should know about the engine that runs; "" while none does."""
        return notice_of(self._inner) if self.is_loaded else ""

    @property
    def identity(self) -> EmbedderIdentity:
        """Model, dimension and engine; an endpoint whose dimension nothing tells is asked."""
        if self.is_loaded:
            return self._inner.identity
        if self._settings.embedder == "local":
            return EmbedderIdentity(model=LOCAL_MODEL, dim=LOCAL_DIM, engine=UNLOADED)
        dim = self._settings.embedding_dim
        if dim is None and self._known is not None and self._known[0] == self._settings.embedding_model:
            dim = self._known[1]
        if dim is None:
            return self._inner.identity
        return EmbedderIdentity(model=self._settings.embedding_model, dim=dim, engine=UNLOADED)

    @property
    def max_tokens(self) -> int:
        """Tokens a passage may have."""
        return self._inner.max_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return each passage's tokens."""
        return self._inner.count_tokens(texts)

    def passages(self, texts: Sequence[str]) -> Vector:
        """Embed texts that will be found."""
        return self._inner.passages(texts)

    def queries(self, texts: Sequence[str]) -> Vector:
        """Embed texts that look for them."""
        return self._inner.queries(texts)
