"""What a grade is cached under: pure."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from crag_runtime.evidence import Origin
from crag_runtime.ports import GradeKey
from kb.ids import digest
from kb.trust import DAY_MS

if TYPE_CHECKING:
    from crag_runtime.evidence import Asked, Evidence
    from crag_runtime.ports import EvaluatorIdentity

_END = " ?!.。,、;:…"  # after NFKC, which narrows the wide ones
_SEPARATOR = "\x1f"


def grade_key(asked: Asked, evidence: Evidence, identity: EvaluatorIdentity) -> GradeKey:
    """Return the key of one passage's grade for one question by one evaluator.

    Questions that differ only in case, width, blanks or end marks share it; so do days, unless the answer depends on
    the day.
    """
    day = str(asked.today // DAY_MS) if asked.time.is_time_sensitive else ""
    return GradeKey(
        tenant=asked.tenant,
        question=digest("asked", normal_question(asked.question), asked.type.value, day),
        memory_id=evidence.id,
        rev=evidence.rev or _page(evidence),
        evaluator=_SEPARATOR.join((identity.name, identity.model, identity.version)),
    )


def _page(evidence: Evidence) -> int:
    """Return what stands for a web page's revision: its id comes from its text, its date and title may change."""
    if evidence.origin is not Origin.WEB:
        return 0
    return -int(digest("page", evidence.title, str(evidence.dated))[:12], 16)


def normal_question(question: str) -> str:
    """Return a question in NFKC, without case, with single blanks and without end marks. Applying it twice is once."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", question).casefold())
    return " ".join(folded.split()).rstrip(_END)
