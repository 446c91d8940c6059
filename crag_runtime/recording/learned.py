"""What an answer teaches, read off the final state: pure. Nothing the model said is in it but as a record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from crag_runtime.codec import restored
from crag_runtime.evidence import Citation, Conflict, Draft, Finding, Label, Outcome, Verdict
from crag_runtime.recording.evidence_rules import HANDED_OVER
from crag_runtime.refining.conflict import Agreement
from crag_runtime.routes import is_graded_by_stand_in
from crag_runtime.state import findings_of, plan_of, scope_of
from kb.history import AnswerId, Evaluation
from kb.ledger.checks import storable
from kb.model import Instant, MemoryId, Scope

if TYPE_CHECKING:
    from crag_runtime.state import Graded, RunState
    from kb.model import Json

CALLER = "caller"  # who writes the answer when passages are handed over


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedFor:
    """A web finding and the query that found it."""

    id: str
    finding: Finding
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """All that one answer writes back.

    Args:
        answer_id: the answer.
        tenant, scope, thread: whose.
        question: as asked.
        text: as answered; "" when refused.
        outcome, verdict: how it ended.
        citations: by number.
        evaluations: grades of memories and findings.
        retrieved, relevant: ids of the tenant's own memories, for utility.
        findings: from the web, to be quarantined.
        agreements, conflicts: among relevant evidence, where they may move confidence at all: the question is about
            now, it was answered or shows a conflict, and nothing failed on the way.
        is_key: whether the question becomes an answer-key: only for a whole, undisputed, well-founded answer to a
            question about now that was asked of the whole store.
        report: what explains the answer, as JSON; `Any`, since a type that contains itself has no adapter.
        at: when it was given.
    """

    answer_id: AnswerId
    tenant: str
    scope: Scope
    thread: str
    question: str
    text: str
    outcome: Outcome
    verdict: Verdict
    citations: tuple[Citation, ...]
    evaluations: tuple[Evaluation, ...]
    retrieved: tuple[MemoryId, ...]
    relevant: tuple[MemoryId, ...]
    findings: tuple[SearchedFor, ...]
    agreements: tuple[Agreement, ...]
    conflicts: tuple[Conflict, ...]
    is_key: bool
    report: dict[str, Any]  # JSON
    at: Instant


def learned_of(state: RunState, now: Instant) -> Learned:
    """Return what the finished question teaches.

    Args:
        state: after refuse or a passed check.
        now: the instant of writing back.
    """
    outcome = Outcome(state["outcome"])
    is_refused = outcome is Outcome.REFUSED
    draft = restored(Draft, state["draft"]) if state["draft"] else None
    by_id = {f["id"]: f for f in state["found"]}
    findings = findings_of(state)
    borrowed = set(state.get("borrowed", []))
    verdict = Verdict(state["verdict"]) if state["verdict"] else Verdict.UNKNOWN
    has_evidence = _has_evidence(state, outcome)
    report = report_of(state)
    if draft and draft.generator == CALLER:
        report[HANDED_OVER] = True
    return Learned(
        answer_id=AnswerId(state["answer_id"]),
        tenant=state["tenant"],
        scope=scope_of(state),
        thread=state.get("thread", ""),
        question=storable(state["question"]),
        text="" if is_refused else storable(state["text"]),
        outcome=outcome,
        verdict=verdict,
        citations=draft.citations if draft and not is_refused else (),
        evaluations=tuple(_evaluation(state, g, now) for g in state["grades"] if g["rev"] or g["grade"]["id"] in by_id),
        retrieved=tuple(dict.fromkeys(MemoryId(c["id"]) for c in state["candidates"] if c["id"] not in borrowed)),
        relevant=_relevant(state, {*by_id, *borrowed}),
        findings=tuple(SearchedFor(id=id_, finding=f, query=by_id[id_]["query"]) for id_, f in findings.items()),
        agreements=_agreements(state) if has_evidence else (),
        conflicts=_conflicts(state) if has_evidence else (),
        is_key=outcome is Outcome.ANSWERED and verdict is Verdict.CORRECT and bool(state["text"]) and _is_open(state),
        report={key: clean(value) for key, value in report.items()},
        at=now,
    )


def seen_by(learned: Learned) -> frozenset[str]:
    """Return the ids of what an answer cites, or was written with in sight."""
    return frozenset((*(c.id for c in learned.citations), *learned.relevant))


def is_about_now(state: RunState) -> bool:
    """Return whether a question asks what holds today: what was true of the past moves no trust of today."""
    return state.get("at") is None and plan_of(state).time.as_of is None


def _is_open(state: RunState) -> bool:
    """Return whether anybody who asks the same again means the same, and nothing failed on the way."""
    is_narrowed = bool(state.get("sources") or state.get("doc_ids"))
    return is_about_now(state) and not is_narrowed and not state["faults"]


def _has_evidence(state: RunState, outcome: Outcome) -> bool:
    """Return whether agreements and conflicts may move confidence."""
    if outcome not in (Outcome.ANSWERED, Outcome.CONFLICT) or state["faults"] or is_graded_by_stand_in(state):
        return False
    return is_about_now(state)


def _agreements(state: RunState) -> tuple[Agreement, ...]:
    """Return the agreements among relevant excerpts."""
    relevant = _relevant_excerpts(state)
    found = (restored(Agreement, a) for a in state["agreements"])
    return tuple(a for a in found if all((a.sub, id_) in relevant for id_ in a.ids))


def _conflicts(state: RunState) -> tuple[Conflict, ...]:
    """Return the conflicts without what is not relevant; one side alone says at least that its pieces agree."""
    relevant = _relevant_excerpts(state)
    found = []
    for conflict in (restored(Conflict, c) for c in state["conflicts"]):
        sides = (replace(s, ids=tuple(i for i in s.ids if (conflict.sub, i) in relevant)) for s in conflict.sides)
        kept = tuple(side for side in sides if side.ids)
        found += [replace(conflict, sides=kept)] if kept else []
    return tuple(found)


def _relevant_excerpts(state: RunState) -> set[tuple[int, str]]:
    return {(e["sub"], e["id"]) for e in state["excerpts"] if e["label"] == Label.RELEVANT}


def report_of(state: RunState) -> dict[str, Json]:
    """Return what explains the answer: plan, path, verdicts, suppression, costs. No text of a memory."""
    plan = plan_of(state)
    return {
        "question": plan.question,
        "plan": dict(state["plan"]),
        "verdicts": list(state["verdicts"]),
        "path": [{"node": s["node"], "why": s["why"]} for s in state["path"]],
        "suppressed": list(state["suppressed"]),
        "reasons": list(state["reasons"]),
        "degraded": list(state["degraded"]),
        "usage": dict(state["usage"]),
        "missing": [plan.sub_questions[sub] for sub in state["missing"]],
        "conflicts": list(state["conflicts"]),
        "asked_at": state["asked_at"],
    }


def clean(value: Json) -> Json:
    """Return JSON that any database takes: a model, or a page, may have written what is no text."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [clean(part) for part in value]
    if isinstance(value, dict):
        return {storable(key): clean(part) for key, part in value.items()}
    return value


def _evaluation(state: RunState, graded: Graded, now: Instant) -> Evaluation:
    grade = graded["grade"]
    relevance = grade["relevance"]
    return Evaluation(
        answer_id=AnswerId(state["answer_id"]),
        tenant=state["tenant"],
        question=storable(plan_of(state).sub_questions[graded["sub"]]),
        memory_id=MemoryId(str(grade["id"])),
        rev=graded["rev"],
        label=str(grade["label"]),
        relevance=float(str(relevance)) if relevance is not None else None,
        reason=storable(str(grade["reason"])),
        evaluator=str(grade["evaluator"]),
        model=str(grade["model"]),
        version=str(grade["version"]),
        at=now,
    )


def _relevant(state: RunState, foreign: set[str]) -> tuple[MemoryId, ...]:
    ids = (str(g["grade"]["id"]) for g in state["grades"] if g["grade"]["label"] == Label.RELEVANT)
    return tuple(dict.fromkeys(MemoryId(id_) for id_ in ids if id_ not in foreign))
