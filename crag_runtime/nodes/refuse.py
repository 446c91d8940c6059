"""Refuse: a typed end with its reasons and no model call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crag_runtime.evidence import Outcome
from crag_runtime.language import refusal
from crag_runtime.routes import reasons_of
from crag_runtime.state import NodeName, RunState, Update, step

if TYPE_CHECKING:
    from crag_runtime.routes import Limits


async def refuse(state: RunState, limits: Limits) -> Update:
    """Return the refusal in the question's language."""
    reasons = reasons_of(state, limits)
    return {
        "outcome": Outcome.REFUSED.value,
        "text": refusal(reasons[0], state["question"], *reasons[1:]),
        "reasons": [reason.value for reason in reasons],
        "draft": {},
        "path": step(NodeName.REFUSE, ", ".join(reason.value for reason in reasons)),
    }
