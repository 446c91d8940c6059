"""The evaluator that reads: a small cross-encoder says how likely a passage answers, and points at the answer.

The default where no chat model is configured. What it cannot do: tell a true statement from a false one, or a person
of the right kind from the right person; its p is a probability only on text like what it was trained on (see the
bands, which `kb eval calibrate` fits to one's own).
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from typing import TYPE_CHECKING

from crag_runtime.evaluators.objections import has_its_code, is_misfit, missing_names
from crag_runtime.evaluators.reader_adapter import described
from crag_runtime.evaluators.reader_model import FORMAT, ReaderModel
from crag_runtime.evidence import Grade, Label, QuestionType, ScoredStrip, Usage
from crag_runtime.ports import EvaluatorIdentity, Grading
from crag_runtime.verdict import Thresholds, label_of
from kb.dates.periods import ANOTHER_TIME, mismatched
from kb.errors import EmbedderUnavailable, EvaluatorUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from crag_runtime.evaluators.reader_model import Reading
    from crag_runtime.evidence import Asked, Evidence
    from crag_runtime.policy import Bands
    from crag_runtime.threads import Threads

NAME = "reader"
MODEL = "e5ce-lora int8"
READING = 2  # grows when windows, context or what lowers a grade change

# The adapter's own thresholds (adapter.json): at .65 nine of ten are right on validation, below .30 nine of ten are
# wrong, .50 is even. A fact must be there; an analysis lives on what bears on it; a creative text on what is near it.
BANDS: Bands = {
    QuestionType.FACTUAL: Thresholds(lower=0.30, upper=0.65),
    QuestionType.ANALYTICAL: Thresholds(lower=0.30, upper=0.50),
    QuestionType.CREATIVE: Thresholds(lower=0.15, upper=0.30),
}

# A passage against which something speaks: p is scaled to below the band's lower edge, its order kept.
BELOW = 0.8


def open_reader(cache_dir: Path, bands: Bands, threads: Threads) -> ReaderEvaluator:
    """Return the reader; nothing is loaded or built before its first grade.

    Args:
        cache_dir: where its model file is, or will be built.
        bands: thresholds by type of question, all types.
        threads: where it reads.
    """
    return ReaderEvaluator(lambda: ReaderModel.open(cache_dir), bands, threads)


class ReaderEvaluator:
    """Implements `crag_runtime.ports.Evaluator`.

    The relevance of a passage is the p of its likeliest window, of two at most. A passage's grade is made from the
    question and that passage alone. Passages are read side by side in `threads`.

    Args:
        load: opens the model; called with the first grade, again after it failed.
        bands: thresholds by type of question, all types.
        threads: where it reads.
    """

    def __init__(self, load: Callable[[], ReaderModel], bands: Bands, threads: Threads) -> None:
        self._load = load
        self._bands = dict(bands)
        self._threads = threads
        self._model: ReaderModel | None = None
        self._loading = threading.Lock()
        self.identity = EvaluatorIdentity(name=NAME, model=MODEL, version=_version(self._bands))

    def warm(self) -> None:
        """Load the model now, 1 s; 0.7 s of it hold up every Python thread, so before an event loop has work.

        Raises:
            EvaluatorUnavailable: see `grade`.
        """
        self._ready()

    async def grade(self, asked: Asked, evidence: Sequence[Evidence]) -> Grading:
        """Grade every passage.

        Raises:
            EvaluatorUnavailable: onnxruntime is missing, the adapter is damaged or made for other weights, the model
                file cannot be built, or no passage at all could be read.
        """
        if not evidence:
            return Grading(grades=(), usage=Usage())
        model = await self._threads.call(self._ready)
        calls = (self._threads.call(self._graded, model, asked, one) for one in evidence)
        grades = tuple(await asyncio.gather(*calls))
        if all(grade.label is Label.UNKNOWN for grade in grades):
            raise EvaluatorUnavailable(f"the reader cannot read: {grades[0].reason}")
        return Grading(grades=grades, usage=Usage())

    def _ready(self) -> ReaderModel:
        with self._loading:
            if self._model is None:
                try:
                    self._model = self._load()
                except EmbedderUnavailable as error:  # the reader runs on the embedder's parts
                    raise EvaluatorUnavailable(f"the reader cannot be loaded: {error}", hint=error.hint) from error
            return self._model

    def _graded(self, model: ReaderModel, asked: Asked, one: Evidence) -> Grade:
        try:
            readings = model.read(asked.question, one.text, (one.title, *one.heading_path[-1:]))
        except EmbedderUnavailable as error:
            return self._grade(one, Label.UNKNOWN, None, reason=str(error))
        band = self._bands[asked.type]
        if not readings:
            return self._grade(one, label_of(0.0, band), 0.0, reason="there is nothing to read")
        best = max(readings, key=lambda reading: reading.p)
        factor, reason = self._weighed(asked, one, best)
        label = label_of(best.p * factor, band)
        return self._grade(
            one,
            label,
            best.p * factor,
            reason="; ".join(part for part in (_reason(best.p, len(readings)), reason) if part),
            answer="" if label is Label.IRRELEVANT else one.text[slice(*best.answer)],
            readings=[(reading, min(1.0, reading.p * factor)) for reading in readings],
        )

    def _weighed(self, asked: Asked, one: Evidence, best: Reading) -> tuple[float, str]:
        """Return the factor on a passage's p, and why it is not 1."""
        band = self._bands[asked.type]
        whole = "\n".join((one.title, *one.heading_path, one.text))
        below = BELOW * band.lower
        if mismatched(asked.time.periods, whole, one.dated, asked.today):
            wanted = ", ".join(p.label for p in asked.time.periods)
            why = f"lowered, {ANOTHER_TIME} {wanted}"
            return below, why if best.p >= band.lower else ""
        if has_its_code(asked.question, one.text):
            return _lift(best.p, band), "it has the code that is asked about"
        if missing := missing_names(asked.question, whole):
            return below, f"lowered, it does not speak of {', '.join(missing)}"
        is_open = label_of(best.p, band) is Label.AMBIGUOUS
        if is_open and is_misfit(asked.question, one.text, one.text[slice(*best.answer)]):
            return below, "lowered, its likeliest answer is not of the kind that is asked for"
        return 1.0, ""

    def _grade(
        self,
        one: Evidence,
        label: Label,
        relevance: float | None,
        *,
        reason: str,
        answer: str = "",
        readings: Sequence[tuple[Reading, float]] = (),
    ) -> Grade:
        return Grade(
            id=one.id,
            label=label,
            relevance=relevance,
            reason=reason,
            answer=answer,
            strips=tuple(ScoredStrip(start=r.start, end=r.end, score=p) for r, p in readings),
            evaluator=self.identity.name,
            model=self.identity.model,
            version=self.identity.version,
        )


def _reason(p: float, read: int) -> str:
    return f"p {p:.2f} that it answers" + (f", best of {read} windows" if read > 1 else "")


def _lift(p: float, band: Thresholds) -> float:
    """Return the factor that brings p one label up."""
    edge = band.upper if p >= band.lower else band.lower
    return max(1.0, edge * (1 + 1e-9) / p) if p > 0 else 1.0


def _version(bands: Bands) -> str:
    """Return what a grade depends on: adapter, format, way of reading, bands."""
    try:
        adapter = described().adapter_sha256[:12]
    except EvaluatorUnavailable:  # said again, and aloud, with the first grade
        adapter = "none"
    edges = " ".join(f"{kind.value} {band.lower:g} {band.upper:g}" for kind, band in sorted(bands.items()))
    return f"{adapter}-{FORMAT}.{READING}-{hashlib.sha256(edges.encode()).hexdigest()[:8]}"
