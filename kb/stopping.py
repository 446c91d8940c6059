"""Why what matched a question was stopped. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from kb.rolled_back import ERASED, KEPT_OUT, is_rolled_back

if TYPE_CHECKING:
    from kb.model import Memory

REJECTED = "rejected"  # begins the standing reason of what a person has refused


class Stopped(StrEnum):
    """Why a memory that matched was not retrieved."""

    QUARANTINED = "quarantined"  # waits for corroboration or verification
    ROLLED_BACK = "rolled_back"  # it, or what it was made from, was rolled back: only a person lets it back
    REJECTED = "rejected"  # a person has refused it, and only a person takes that back
    KEPT_OUT = "kept_out"  # it says what was rejected or erased, and came in after that
    FADED = "faded"  # was above the gate, has decayed below it
    LOW_CONFIDENCE = "low_confidence"  # was never above this gate


def why_quarantined(memory: Memory) -> Stopped:
    """Return why a memory in quarantine is stopped: what a person has decided about waits for nobody else.

    Its standing's reason tells, which every decision leaves and no words of a memory can make.
    """
    said = memory.standing_reason
    if is_rolled_back(memory):
        return Stopped.ROLLED_BACK
    if said.startswith(REJECTED):
        return Stopped.REJECTED
    return Stopped.KEPT_OUT if said.startswith((KEPT_OUT, ERASED)) else Stopped.QUARANTINED
