"""A plan by rules alone, English and Chinese: follow-up, parts, type and time. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_runtime.evidence import Plan
from crag_runtime.planning.follow_ups import self_contained
from crag_runtime.planning.question_parts import sub_questions
from crag_runtime.planning.question_types import question_type
from kb.dates.periods import time_intent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crag_runtime.evidence import Turn
    from kb.model import Instant


def planned(question: str, turns: Sequence[Turn], today: Instant) -> Plan:
    """Return what will be looked for.

    Args:
        question: as asked; blanks at its ends do not matter.
        turns: earlier ones of the thread, the last one last; only it is looked at, and only by a follow-up.
        today: the instant of asking.
    """
    whole, carried = self_contained(question, turns, today)
    return Plan(
        question=whole,
        sub_questions=sub_questions(whole, today),
        type=question_type(whole),
        time=time_intent(whole, today),
        carried=carried,
    )
