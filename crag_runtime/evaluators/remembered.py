"""An evaluator that grades nothing twice: served from the grade cache, the rest graded in one batch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic import ValidationError

from crag_runtime.codec import plain, restored
from crag_runtime.evidence import Grade, Label, Usage
from crag_runtime.grade_keys import grade_key
from crag_runtime.ports import EvaluatorIdentity, Grading
from kb.telemetry import Metric, count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_runtime.evidence import Asked, Evidence
    from crag_runtime.ports import Evaluator, GradeCache, GradeKey
    from crag_runtime.threads import Threads


class Remembered:
    """Implements `crag_runtime.ports.Evaluator` over another one, and keeps its identity.

    Only known grades are kept. What somebody else graded in the evaluator's place is kept under who really graded, so
    that it is never served as the evaluator's own once that is back.

    Args:
        inner: who grades what is not known.
        cache: where grades are kept.
        threads: where the cache is read and written.
    """

    def __init__(self, inner: Evaluator, cache: GradeCache, threads: Threads) -> None:
        self._inner = inner
        self._cache = cache
        self._threads = threads

    @property
    def identity(self) -> EvaluatorIdentity:
        """The inner evaluator's."""
        return self._inner.identity

    async def grade(self, asked: Asked, evidence: Sequence[Evidence]) -> Grading:
        """Grade every passage; what is known costs nothing."""
        if not evidence:
            return Grading(grades=(), usage=Usage())
        keys = [grade_key(asked, piece, self.identity) for piece in evidence]
        known = await self._threads.call(self._known, keys)
        misses = [piece for piece, key in zip(evidence, keys, strict=True) if key not in known]
        count(Metric.GRADE_CACHE_HITS, len(keys) - len(misses), evaluator=self.identity.name)
        count(Metric.GRADE_CACHE_MISSES, len(misses), evaluator=self.identity.name)
        if not misses:
            return Grading(grades=tuple(known[key] for key in keys), usage=Usage())
        graded = await self._inner.grade(asked, misses)
        await self._threads.call(self._keep, asked, misses, graded)
        fresh = iter(graded.grades)
        grades = tuple(known[key] if key in known else next(fresh) for key in keys)
        return Grading(grades=grades, usage=graded.usage, degraded=graded.degraded)

    def _known(self, keys: Sequence[GradeKey]) -> dict[GradeKey, Grade]:
        found = {key: _grade(text) for key, text in self._cache.get(keys).items()}
        return {key: grade for key, grade in found.items() if grade is not None and grade.id == key.memory_id}

    def _keep(self, asked: Asked, evidence: Sequence[Evidence], graded: Grading) -> None:
        kept = {
            grade_key(asked, piece, self._grader(grade, graded.degraded)): json.dumps(plain(grade))
            for piece, grade in zip(evidence, graded.grades, strict=True)
            if grade.label is not Label.UNKNOWN and grade.relevance is not None
        }
        self._cache.put(kept)

    def _grader(self, grade: Grade, degraded: str) -> EvaluatorIdentity:
        if not degraded:
            return self.identity
        return EvaluatorIdentity(name=grade.evaluator, model=grade.model, version=grade.version)


def _grade(text: str) -> Grade | None:
    """Return a kept grade; None when the text is none, as after a change of its form."""
    try:
        grade = restored(Grade, json.loads(text))
    except (ValueError, RecursionError, ValidationError):
        return None
    return None if grade.label is Label.UNKNOWN or grade.relevance is None else grade
