"""Vectors of questions, each embedded once while the process lives."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.ports import Embedder, Vector

KEPT = 512


class QuestionVectors:
    """Remembers the vectors of the last 512 questions. Thread-safe."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: OrderedDict[str, Vector] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, questions: Sequence[str]) -> tuple[list[Vector], int]:
        """Return the questions' vectors, shape (dim,) each, in order, and how many had to be embedded.

        Raises:
            EmbedderUnavailable: one is not remembered and cannot be embedded.
        """
        with self._lock:
            known = {q: self._kept[q] for q in questions if q in self._kept}
        missing = [q for q in dict.fromkeys(questions) if q not in known]
        if missing:
            known.update(zip(missing, self._embedder.queries(missing), strict=True))
        with self._lock:
            for question in questions:
                self._kept[question] = known[question]
                self._kept.move_to_end(question)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return [known[q] for q in questions], len(missing)
