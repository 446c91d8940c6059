"""What flows through the graph: plain JSON, ids instead of texts.

Only web findings travel whole, since they have no other home until they are written back. What a caller gives is never
written by a node (`step_of` refuses it); what a turn makes is put back to its beginning by the first node, so that two
turns on one thread never meet.
"""

from __future__ import annotations

import operator
from enum import StrEnum
from typing import Annotated, Any, TypedDict

from crag_runtime.codec import plain, restored
from crag_runtime.evidence import Finding, Plan, Usage
from kb.model import Json, Scope


class NodeName(StrEnum):
    """Every node of the graph; edges and paths use these words only."""

    BEGIN = "begin"
    PLAN = "plan"
    RETRIEVE = "retrieve"
    GRADE = "grade"
    JUDGE = "judge"
    REWRITE = "rewrite"
    BACKUP = "backup"
    HUMAN = "human"
    APPROVE = "approve"
    WEB = "web"
    REFINE = "refine"
    HAND_OVER = "hand_over"
    GENERATE = "generate"
    CHECK = "check"
    REFUSE = "refuse"
    WRITE_BACK = "write_back"


class Step(TypedDict):
    """One step of the path: which node, and why it came out as it did."""

    node: str
    why: str


class Candidate(TypedDict):
    """A passage retrieved for a sub-question; its text is in the ledger."""

    sub: int
    id: str
    score: float


class Found(TypedDict):
    """A web finding and the sub-question it was searched for."""

    sub: int
    id: str
    query: str
    finding: dict[str, Json]


class Graded(TypedDict):
    """A grade of one passage for one sub-question."""

    sub: int
    rev: int
    grade: dict[str, Json]


class Shown(TypedDict):
    """An excerpt by reference: character spans of an evidence's text that the answer may use."""

    sub: int
    id: str
    strips: list[list[int]]
    relevance: float
    label: str
    answer: str


def merged_grades(old: list[Graded], new: list[Graded]) -> list[Graded]:
    """Return the grades with the newest of each (sub-question, passage), in the order they first came."""
    merged = {(g["sub"], g["grade"]["id"]): g for g in old}
    merged.update({(g["sub"], g["grade"]["id"]): g for g in new})
    return list(merged.values())


def summed_usage(old: dict[str, int], new: dict[str, int]) -> dict[str, int]:
    """Return both usages added up."""
    return {key: old.get(key, 0) + new.get(key, 0) for key in {**old, **new}}


def distinct(old: list[str], new: list[str]) -> list[str]:
    """Return both lists' words, each once, where it first stands."""
    return list(dict.fromkeys([*old, *new]))


class Given(TypedDict, total=False):
    """What the caller gives; no node may write it."""

    question: str
    tenant: str
    scope: dict[str, str]
    thread: str
    answer_id: str
    at: int | None
    sources: list[str]
    doc_ids: list[str]
    approve: str


class Update(TypedDict, total=False):
    """What nodes may write."""

    asked_at: int
    plan: dict[str, Json]
    queries: list[str]  # per sub-question: the query that retrieval uses now
    tried: list[list[str]]  # per sub-question: every query so far
    as_of: int | None  # instant that the question's own words ask for, where the store knew anything then
    candidates: list[Candidate]
    suppressed: list[dict[str, Json]]
    found: list[Found]
    grades: Annotated[list[Graded], merged_grades]
    judged: int  # grades that the last verdict rests on
    verdicts: list[str]  # per sub-question
    verdict: str
    excerpts: list[Shown]
    conflicts: list[dict[str, Json]]
    agreements: list[dict[str, Json]]
    missing: list[int]
    draft: dict[str, Json]
    complaint: str
    attempts: int
    rewrites: int
    searches: int
    searched: list[str]
    web_queries: list[dict[str, Json]]  # {sub, query}
    approval: str  # "", approved, declined, not_needed
    is_backed_up: bool  # the second source was asked
    borrowed: list[str]  # ids of its memories: they are read and cited, and nothing is written about them
    person: str  # "", needed, approved, edited, declined: what a person decided with what was found
    is_retry: bool  # the last web search timed out and is to be repeated once, in other words
    outcome: str
    text: str
    reasons: Annotated[list[str], distinct]  # of refusal or partial coverage
    faults: Annotated[list[str], distinct]  # what failed; forbids paid searches
    degraded: Annotated[list[str], distinct]
    path: Annotated[list[Step], operator.add]
    usage: Annotated[dict[str, int], summed_usage]


class RunState(Given, Update, total=False):
    """The whole state."""


class GradeInput(TypedDict, total=False):
    """What one grading branch gets."""

    sub: int
    id: str
    score: float
    finding: dict[str, Json] | None
    plan: dict[str, Json]
    tenant: str
    scope: dict[str, str]
    at: int | None
    as_of: int | None
    sources: list[str]
    doc_ids: list[str]
    asked_at: int
    answer_id: str
    usage: dict[str, int]


TRANSIENT: dict[str, Any] = {
    "plan": {},
    "queries": [],
    "tried": [],
    "as_of": None,
    "candidates": [],
    "suppressed": [],
    "found": [],
    "judged": 0,
    "verdicts": [],
    "verdict": "",
    "excerpts": [],
    "conflicts": [],
    "agreements": [],
    "missing": [],
    "draft": {},
    "complaint": "",
    "attempts": 0,
    "rewrites": 0,
    "searches": 0,
    "searched": [],
    "web_queries": [],
    "approval": "",
    "is_backed_up": False,
    "borrowed": [],
    "person": "",
    "is_retry": False,
    "outcome": "",
    "text": "",
}
ACCUMULATED: dict[str, Any] = {"grades": [], "reasons": [], "faults": [], "degraded": [], "path": [], "usage": {}}


def step(node: NodeName, why: str) -> list[Step]:
    """Return one step of the path, ready to be appended."""
    return [Step(node=node.value, why=why)]


def plan_of(state: Update | RunState | GradeInput) -> Plan:
    """Return the plan in force."""
    return restored(Plan, state["plan"])


def scope_of(state: RunState | GradeInput) -> Scope:
    """Return whose memories may be seen."""
    return Scope(**state.get("scope", {}))


def spent(usage: Usage) -> dict[str, int]:
    """Return a usage as it is added up in the state."""
    return {key: int(value) for key, value in plain(usage).items() if value}  # type: ignore[arg-type] # all integers


def findings_of(state: RunState) -> dict[str, Finding]:
    """Return the web findings by the id they will have as memories."""
    return {f["id"]: restored(Finding, f["finding"]) for f in state.get("found", [])}
