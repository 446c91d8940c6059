"""A reader's model without a model: finds words of the question, waits and fails when told."""

from __future__ import annotations

import threading

from crag_runtime.evaluators.reader_model import ReaderModel, Reading
from kb.errors import EmbedderUnavailable


class WordReader(ReaderModel):
    """Reads a text as one window; p is the share of the question's words in it.

    Attributes:
        broken: texts that cannot be read.
        gate: reading waits for it; open unless a test closes it.
    """

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()

    def read(self, question: str, text: str, context: object = ()) -> list[Reading]:  # noqa: ARG002
        self.gate.wait()
        if text in self.broken:
            raise EmbedderUnavailable("onnxruntime failed: out of memory")
        words = question.lower().split()
        p = sum(word in text.lower() for word in words) / len(words)
        return [Reading(start=0, end=len(text), p=p, answer=(0, len(text)))] if text.strip() else []
