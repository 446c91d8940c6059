"""The evaluator that asks a chat model, once for each passage."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from math import nextafter
from typing import TYPE_CHECKING

from crag_runtime.evaluators.criteria import Relevance, prompt_of, version_of
from crag_runtime.evidence import Grade, Label, Usage
from crag_runtime.ports import EvaluatorIdentity, Grading
from crag_runtime.quoting import verbatim
from crag_runtime.verdict import label_of
from kb.errors import ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crag_runtime.evidence import Asked, Evidence, QuestionType
    from crag_runtime.threads import Threads
    from crag_runtime.verdict import Thresholds
    from kb.chat import Chat, Message, Spent

NAME = "llm"
REASON_LENGTH = 240  # characters


@dataclass(frozen=True, slots=True)
class _Graded:
    """One passage's grade and cost, and what failed where it is unknown."""

    grade: Grade
    usage: Usage
    failure: ModelUnavailable | None = None


class LlmEvaluator:
    """Grades by a chat model: one structured call a passage, as many at a time as the model's own bound allows.

    The label comes first and the score follows it: a "no" that is held with much confidence is no "yes". Where they
    disagree, the relevance is moved to the nearest value of the label's band, and the reason says so.

    Args:
        chat: the model.
        bands: thresholds, by type of question; `criteria.BANDS` unless the settings change them.
        threads: for putting prompts together and looking answers up.
    """

    def __init__(self, chat: Chat, bands: Mapping[QuestionType, Thresholds], threads: Threads) -> None:
        self._chat = chat
        self._bands = dict(bands)
        self._threads = threads
        self._identity = EvaluatorIdentity(name=NAME, model=chat.model, version=version_of(self._bands))

    @property
    def identity(self) -> EvaluatorIdentity:
        """Name, model and version."""
        return self._identity

    async def grade(self, asked: Asked, evidence: Sequence[Evidence]) -> Grading:
        """Grade every passage; one that the model fails on is UNKNOWN and harms no other.

        Raises:
            ModelUnavailable: the model failed on all of them; the first one's fault, and what all of them cost.
        """
        if not evidence:
            return Grading(grades=(), usage=Usage())
        prompts = await self._threads.call(_prompts, asked, evidence)
        graded = await asyncio.gather(*map(self._graded, [asked] * len(evidence), evidence, prompts))
        usage = sum((one.usage for one in graded), Usage())
        failures = [one.failure for one in graded if one.failure is not None]
        if len(failures) == len(graded):
            first = failures[0]
            first.calls, first.tokens_in, first.tokens_out = usage.llm_calls, usage.tokens_in, usage.tokens_out
            raise first
        return Grading(grades=tuple(one.grade for one in graded), usage=usage)

    async def _graded(self, asked: Asked, evidence: Evidence, prompt: list[Message]) -> _Graded:
        try:
            reply = await self._chat.structured(prompt, Relevance)
        except ModelUnavailable as error:
            unknown = self._grade(evidence, Label.UNKNOWN, None, reason=_line(str(error)))
            return _Graded(unknown, _usage(error), error)
        said = reply.value
        relevance = banded(Label(said.label), said.relevance, self._bands[asked.type])
        label = label_of(relevance, self._bands[asked.type])
        reason = _line(said.reason)
        if relevance != said.relevance:
            reason = f"{reason} [score {said.relevance:g} disagreed with the label {said.label}]".strip()
        answer = ""
        if label is not Label.IRRELEVANT and said.answer.strip():
            answer = await self._threads.call(verbatim, said.answer, evidence.text)
        return _Graded(self._grade(evidence, label, relevance, reason=reason, answer=answer), _usage(reply.spent))

    def _grade(
        self, evidence: Evidence, label: Label, relevance: float | None, *, reason: str, answer: str = ""
    ) -> Grade:
        return Grade(
            id=evidence.id,
            label=label,
            relevance=relevance,
            reason=reason,
            answer=answer,
            evaluator=NAME,
            model=self._identity.model,
            version=self._identity.version,
        )


def banded(label: Label, score: float, band: Thresholds) -> float:
    """Return the value of the label's band that is nearest to the score.

    A band without ambiguous values (lower = upper) has what is ambiguous just below it; one that begins at 0 has no
    irrelevant values, and gives 0.
    """
    below = max(0.0, nextafter(band.lower, 0.0))
    match label:
        case Label.RELEVANT:
            return max(score, band.upper)
        case Label.AMBIGUOUS if band.lower < band.upper:
            return min(max(score, band.lower), nextafter(band.upper, 0.0))
        case _:
            return min(score, below)


def _prompts(asked: Asked, evidence: Sequence[Evidence]) -> list[list[Message]]:
    return [prompt_of(asked, one) for one in evidence]


def _usage(cost: Spent | ModelUnavailable) -> Usage:
    return Usage(llm_calls=cost.calls, tokens_in=cost.tokens_in, tokens_out=cost.tokens_out)


def _line(text: str) -> str:
    return " ".join(text.split())[:REASON_LENGTH]
