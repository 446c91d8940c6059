"""What happened to memories: answers that cited them, their grades, what moved their confidence, who came from whom.

Frozen values that the ledger keeps. Instants are epoch milliseconds, UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NewType

from kb.model import Instant, MemoryId, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.model import Json

AnswerId = NewType("AnswerId", str)


class EvidenceKind(StrEnum):
    """An event that moves confidence. Reads, retrievals and an evaluator's relevance are none."""

    VERIFICATION = "verification"  # a person or an owner vouched for it
    REJECTION = "rejection"  # a person or an owner refused it
    FEEDBACK = "feedback"  # on an answer that cited it and that it supports
    AGREEMENT = "agreement"  # an independent verified memory says the same
    CONTRADICTION = "contradiction"  # an independent verified memory says otherwise
    CHECK = "check"  # an external check


EVIDENCE_WEIGHT = {  # of one event, before its sign; verification and rejection are decisive, not weighed
    EvidenceKind.FEEDBACK: 0.5,
    EvidenceKind.AGREEMENT: 1.0,
    EvidenceKind.CONTRADICTION: 1.0,
    EvidenceKind.CHECK: 2.0,
}


SAYS = {EvidenceKind.AGREEMENT: "says so too", EvidenceKind.CONTRADICTION: "says otherwise"}
_TOLD = re.compile(rf"memory (.+) (?:{'|'.join(SAYS.values())})", re.DOTALL)


def told_by(id_: str, kind: EvidenceKind) -> str:
    """Return the reason of an event in which a memory says something of another: by it, it can be withdrawn again.

    Args:
        id_: of the memory that is the witness.
        kind: AGREEMENT or CONTRADICTION.
    """
    return f"memory {id_} {SAYS[kind]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceEvent:
    """One event about one memory. Of events with one (memory, kind, witness) only the first counts.

    Args:
        memory_id: whose confidence it moves.
        tenant: of that memory.
        kind: what happened.
        weight: signed; positive supports, negative contradicts. 0 for decisive kinds, and where a check vouches.
        witness: who says so: a root source for agreement and contradiction, a person and a question for feedback, a
            person's name; for a check see `kb.vouching`.
        answer_id: the answer it came about with, if any.
        reason: for people; never a memory's text or value, which an event may outlive.
        at: when.
    """

    memory_id: MemoryId
    tenant: str
    kind: EvidenceKind
    weight: float
    witness: str
    answer_id: AnswerId | None = None
    reason: str = ""
    at: Instant = 0

    @property
    def teller(self) -> MemoryId | None:
        """The memory that said it; None when a person or a check did."""
        told = _TOLD.fullmatch(self.reason) if self.kind in SAYS else None
        return MemoryId(told[1]) if told else None


class EdgeKind(StrEnum):
    """How a child came from its parent."""

    CITED = "cited"  # memory → answer that cited it
    KEY = "key"  # answer → its answer-key memory
    FOUND = "found"  # web search (search://provider/query) → finding that it returned
    DERIVED = "derived"  # memory, answer or root source (root://name) → note that was written from it


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One step of lineage, from what was there first to what was derived from it.

    Parent and child are ids of memories or answers, or URIs of searches and root sources.
    """

    tenant: str
    parent: str
    child: str
    kind: EdgeKind
    at: Instant = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedMemory:
    """A memory as an answer cited it, with what it looked like then."""

    memory_id: MemoryId
    rev: int
    source: str  # URI
    url: str = ""  # where a reader can open it, for web findings
    title: str = ""
    quote: str = ""  # the words it was cited for
    supports: bool = True  # False: the other side of a conflict, or shown without bearing anything out


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """An answer as it was given. Never evidence; a retrieval key at most.

    Args:
        id: unique.
        tenant: whose.
        scope: whose inside the tenant.
        thread: conversation it belongs to; "" for none.
        question: as asked.
        text: as answered; "" when refused.
        outcome: answered, partial, conflict or refused.
        verdict: correct, ambiguous, incorrect or unknown.
        citations: in the order of their numbers in the text.
        report: path, costs, suppression and whatever else explains it, as JSON.
        created_at: when.
    """

    id: AnswerId
    tenant: str
    question: str
    text: str
    outcome: str
    verdict: str
    scope: Scope = field(default_factory=Scope)
    thread: str = ""
    citations: tuple[CitedMemory, ...] = ()
    report: Mapping[str, Json] = field(default_factory=dict)
    created_at: Instant = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How one passage was graded for one question; the full basis of a verdict."""

    answer_id: AnswerId
    tenant: str
    question: str  # the sub-question it was graded for
    memory_id: MemoryId
    rev: int
    label: str  # relevant, ambiguous, irrelevant, unknown
    relevance: float | None  # None exactly when the label is unknown
    reason: str
    evaluator: str
    model: str
    version: str  # of criteria and coefficients
    at: Instant = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Utility:
    """How often a memory was of use. Informs ranking and review, never truth."""

    memory_id: MemoryId
    retrieved: int = 0
    relevant: int = 0
    cited: int = 0
    last_at: Instant = 0
