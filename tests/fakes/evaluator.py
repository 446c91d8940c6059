"""An evaluator without a model: instant, scripted by id or by a function, fails or hangs when told, counts its work."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from crag_runtime.evidence import Grade, QuestionType, Usage
from crag_runtime.ports import EvaluatorIdentity, Grading
from crag_runtime.verdict import Thresholds, label_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crag_runtime.evidence import Asked, Evidence
    from crag_runtime.policy import Bands

    Scripted = Grade | float | None
    Script = Mapping[str, Scripted] | Callable[[Asked, Evidence], Scripted]

BAND = Thresholds(lower=0.3, upper=0.7)


class FakeEvaluator:
    """Grades as scripted; one test may change the public attributes between calls.

    Args:
        script: relevance (None: unknown) or a whole grade, by evidence id or by a function of question and evidence.
        default: relevance of ids that the script does not name.
        bands: thresholds by type of question; 0.3 and 0.7 for all by default.
        cost: usage of each call that grades something.
        degraded: what each grading says of itself.
        name: of the identity.

    Attributes:
        error: raised by the next calls while it is set.
        hangs: calls wait until `released` is set (or their task is cancelled); `entered` is set once one waits.
        calls: how often `grade` was called with evidence.
        graded: (question, evidence id) of each graded passage, in order.
        asked: what was asked, in order.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        default: float | None = 0.0,
        bands: Bands | None = None,
        cost: Usage | None = None,
        degraded: str = "",
        name: str = "fake",
    ) -> None:
        self.identity = EvaluatorIdentity(name=name, model="script", version="1")
        self.script: Script = {} if script is None else script
        self.default = default
        self.bands = bands or dict.fromkeys(QuestionType, BAND)
        self.cost = cost or Usage()
        self.degraded = degraded
        self.error: Exception | None = None
        self.hangs = False
        self.entered, self.released = asyncio.Event(), asyncio.Event()
        self.calls = 0
        self.graded: list[tuple[str, str]] = []
        self.asked: list[Asked] = []

    async def grade(self, asked: Asked, evidence: Sequence[Evidence]) -> Grading:
        if not evidence:
            return Grading(grades=(), usage=Usage())
        self.calls += 1
        self.asked.append(asked)
        if self.hangs:
            self.entered.set()
            await self.released.wait()
        if self.error is not None:
            raise self.error
        self.graded.extend((asked.question, e.id) for e in evidence)
        return Grading(grades=tuple(self._grade(asked, e) for e in evidence), usage=self.cost, degraded=self.degraded)

    def _grade(self, asked: Asked, evidence: Evidence) -> Grade:
        found = (
            self.script.get(evidence.id, self.default)
            if isinstance(self.script, Mapping)
            else self.script(asked, evidence)
        )
        if isinstance(found, Grade):
            return replace(found, id=evidence.id)
        identity = self.identity
        return Grade(
            id=evidence.id,
            label=label_of(found, self.bands[asked.type]),
            relevance=found,
            reason="cannot be graded, by script" if found is None else f"relevance {found:.2f} by script",
            evaluator=identity.name,
            model=identity.model,
            version=identity.version,
        )
