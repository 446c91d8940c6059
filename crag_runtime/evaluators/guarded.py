"""An evaluator with stand-ins: when the first cannot grade, the next does, and the grading says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_runtime.evidence import Label, Usage
from crag_runtime.ports import Grading
from kb.errors import EvaluatorUnavailable, Fault, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_runtime.breaker import Breaker
    from crag_runtime.evidence import Asked, Evidence
    from crag_runtime.ports import Evaluator, EvaluatorIdentity
    from kb.ports import Clock

REASON_CHARS = 200


class Guarded:
    """Implements `crag_runtime.ports.Evaluator` over a primary and its stand-ins; its identity is the primary's.

    An evaluator has failed when it raises, gives no known grade, or gives other grades than were asked for. After
    failures in a row the breaker keeps the primary from being asked for a while. Raises nothing but
    `EvaluatorUnavailable`, when everybody failed; its message says how each did.

    Args:
        primary: who should grade.
        fallbacks: who grades in its place, in order.
        breaker: of the primary; shared where the service is.
        clock: the time.
    """

    def __init__(self, primary: Evaluator, fallbacks: Sequence[Evaluator], breaker: Breaker, clock: Clock) -> None:
        self._primary = primary
        self._fallbacks = tuple(fallbacks)
        self._breaker = breaker
        self._clock = clock

    @property
    def identity(self) -> EvaluatorIdentity:
        """The primary's."""
        return self._primary.identity

    async def grade(self, asked: Asked, evidence: Sequence[Evidence]) -> Grading:
        """Grade every passage by the first that can."""
        if not evidence:
            return Grading(grades=(), usage=Usage())
        attempt = await self._by_primary(asked, evidence)
        spent, reasons = attempt.usage, []
        if not attempt.degraded or attempt.grades:
            return attempt
        reasons.append(attempt.degraded)
        for fallback in self._fallbacks:
            attempt = await _tried(fallback, asked, evidence)
            spent += attempt.usage
            if attempt.grades:
                own = [attempt.degraded] if attempt.degraded else []
                told = "; ".join([*reasons, *own, f"graded by {fallback.identity.name}"])
                return Grading(grades=attempt.grades, usage=spent, degraded=told)
            reasons.append(attempt.degraded)
        raise EvaluatorUnavailable("nobody could grade: " + "; ".join(reasons))

    async def _by_primary(self, asked: Asked, evidence: Sequence[Evidence]) -> Grading:
        if not self._breaker.allows(self._clock.now()):
            return _failure(self._primary, "not asked, it failed repeatedly")
        is_settled = False
        try:
            attempt = await _tried(self._primary, asked, evidence)
            is_settled = True
        finally:
            if not is_settled:  # cancelled: neither a success nor a failure
                self._breaker.abandoned()
        if attempt.grades:
            self._breaker.succeeded()
        elif attempt.degraded.startswith(f"{self._primary.identity.name}: {Fault.BUDGET.value}: "):
            self._breaker.abandoned()  # a question that may not ask says nothing of the service
        else:
            self._breaker.failed(self._clock.now())
        return attempt


async def _tried(evaluator: Evaluator, asked: Asked, evidence: Sequence[Evidence]) -> Grading:
    """Return a grading with at least one known grade; without any, a grading whose `degraded` says why."""
    try:
        grading = await evaluator.grade(asked, evidence)
    except ModelUnavailable as error:
        spent = Usage(llm_calls=error.calls, tokens_in=error.tokens_in, tokens_out=error.tokens_out)
        return _failure(evaluator, f"{error.fault.value}: {error}", spent)
    except Exception as error:  # noqa: BLE001 - evaluators are a seam for other people's code, which raises anything
        return _failure(evaluator, f"{error}" or type(error).__name__)
    if [grade.id for grade in grading.grades] != [piece.id for piece in evidence]:
        return _failure(evaluator, "gave grades that were not asked for", grading.usage)
    if all(grade.label is Label.UNKNOWN for grade in grading.grades):
        return _failure(evaluator, grading.grades[0].reason or "could grade none of the passages", grading.usage)
    return grading


def _failure(evaluator: Evaluator, reason: str, spent: Usage | None = None) -> Grading:
    told = " ".join(reason.split())[:REASON_CHARS]
    return Grading(grades=(), usage=spent or Usage(), degraded=f"{evaluator.identity.name}: {told}")
