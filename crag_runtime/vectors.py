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
    """Remembers the vectors of the last 512 questions. Thread-safe; who asks for one in the making waits for it."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: OrderedDict[str, Vector] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[str, threading.Event] = {}

    def of(self, questions: Sequence[str]) -> tuple[list[Vector], int]:
        """Return the questions' vectors, shape (dim,) each, in order, and how many had to be embedded.

        Raises:
            EmbedderUnavailable: one is not remembered and cannot be embedded.
        """
        wanted = list(dict.fromkeys(questions))
        found: dict[str, Vector] = {}
        embedded = 0
        while missing := [q for q in wanted if q not in found]:
            mine, others = self._claimed(missing, found)
            if mine:
                found.update(self._made(mine))
                embedded += len(mine)
            for made in others:
                made.wait()  # then looked up again: it is there, or it failed and is ours to try
        return [found[q] for q in questions], embedded

    def _claimed(self, missing: list[str], found: dict[str, Vector]) -> tuple[list[str], list[threading.Event]]:
        """Take what is remembered into `found`; return what is now ours to make, and what others are making."""
        with self._lock:
            for question in missing:
                if question in self._kept:
                    self._kept.move_to_end(question)
                    found[question] = self._kept[question]
            left = [q for q in missing if q not in found]
            mine = [q for q in left if q not in self._making]
            others = [self._making[q] for q in left if q in self._making]
            self._making.update({q: threading.Event() for q in mine})
        return mine, others

    def _made(self, mine: list[str]) -> dict[str, Vector]:
        try:
            made = dict(zip(mine, self._embedder.queries(mine), strict=True))
            with self._lock:
                self._kept.update(made)
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            return made
        finally:
            with self._lock:
                done = [self._making.pop(question) for question in mine]
            for event in done:
                event.set()
