"""Write-backs for tests: whole, small, and different where the argument says so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crag_runtime.evidence import Citation, Conflict, Finding, Outcome, Side, Verdict
from crag_runtime.recording.findings import finding_id
from crag_runtime.recording.learned import Learned, SearchedFor
from crag_runtime.refining.conflict import Agreement
from kb.history import AnswerId
from kb.model import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

QUESTION = "How many tons does the Anping bridge carry?"


def a_learned(name: str, at: int, **changes: Any) -> Learned:
    """Return what an answered question teaches; nothing but the answer and its key unless it is said."""
    made = Learned(
        answer_id=AnswerId(name),
        tenant="default",
        scope=Scope(),
        thread="",
        question=QUESTION,
        text="It carries 40 tons [1].",
        outcome=Outcome.ANSWERED,
        verdict=Verdict.CORRECT,
        citations=(),
        evaluations=(),
        retrieved=(),
        relevant=(),
        findings=(),
        agreements=(),
        conflicts=(),
        is_key=True,
        report={"question": QUESTION, "usage": {}},
        at=at,
    )
    return replace(made, **changes)


def citing(*ids: str) -> tuple[Citation, ...]:
    """Return citations, numbered from 1."""
    return tuple(Citation(number=n, id=id_, quote="40 tons") for n, id_ in enumerate(ids, 1))


def agreeing(one: str, other: str) -> Agreement:
    """Return two pieces of evidence that say the same."""
    return Agreement(sub=0, ids=(min(one, other), max(one, other)), value="40 ton")


def disagreeing(*sides: Sequence[str], kind: str = "number") -> Conflict:
    """Return pieces of evidence that say otherwise."""
    made = (Side(value=str(n), ids=tuple(ids), quote="q", source="s") for n, ids in enumerate(sides))
    return Conflict(sub=0, kind=kind, sides=tuple(made))


def found(url: str, text: str, query: str = "bridge tons") -> SearchedFor:
    """Return a finding of the default tenant, shared by all."""
    finding = Finding(url=url, title="page", text=text)
    return SearchedFor(id=finding_id(finding, tenant="default", scope=Scope()), finding=finding, query=query)
