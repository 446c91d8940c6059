"""The span and the counter around every call of an embedder."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kb.telemetry import Metric, Span, count, span

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def embedding(model: str, *, purpose: str, texts: int) -> Iterator[None]:
    """Record one call: which model, for what (`passage`, `query`), how many texts."""
    attributes: dict[str, str | int] = {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.request.model": model,
        "kb.purpose": purpose,
        "kb.texts": texts,
    }
    with span(Span.EMBED, **attributes):
        yield
    count(Metric.EMBEDDED_TEXTS, texts, model=model, purpose=purpose)
