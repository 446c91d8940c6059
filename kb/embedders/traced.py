"""The span and the counter around every call of an embedder."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kb.telemetry import Attr, Metric, Operation, Span, count, observe, span

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def embedding(model: str, *, purpose: str, texts: int) -> Iterator[None]:
    """Record one call: which model, for what (`passage`, `query`), how many texts."""
    labels = {Attr.OPERATION: Operation.EMBEDDINGS.value, Attr.REQUEST_MODEL: model}
    began = time.perf_counter()
    with span(Span.EMBED, {**labels, Attr.PURPOSE: purpose, Attr.TEXTS: texts}):
        yield
    observe(Metric.GENAI_SECONDS, time.perf_counter() - began, **labels)
    count(Metric.EMBEDDED_TEXTS, texts, model=model, purpose=purpose)
