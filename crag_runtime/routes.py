"""Where a question goes next: pure functions of the state and of what the runtime may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crag_runtime.dates.periods import ANOTHER_TIME
from crag_runtime.evidence import Label, Outcome, Verdict
from crag_runtime.refusal import RefusalReason
from crag_runtime.state import NodeName, RunState

if TYPE_CHECKING:
    from crag_runtime.state import Graded

MAX_ATTEMPTS = 2  # drafts: the first, and one more after a complaint


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What correction may do in this runtime."""

    rewrites: int
    searches: int
    has_search: bool
    writes: bool = True  # False: the caller's own model writes the answer from the evidence


def is_settled(state: RunState) -> bool:
    """Return whether every sub-question has all it needs."""
    return bool(state["verdicts"]) and all(v == Verdict.CORRECT for v in state["verdicts"])


def open_subs(state: RunState) -> list[int]:
    """Return the sub-questions that still need evidence."""
    return [sub for sub, verdict in enumerate(state["verdicts"]) if verdict != Verdict.CORRECT]


def may_search(state: RunState, limits: Limits) -> bool:
    """Return whether the web may be asked: never because something failed, never twice in one question.

    What a stand-in could not find, the evaluator that failed might have seen: that is no reason to pay. A question
    that is narrowed to sources or documents is asked of nobody else, and today's web does not know the past.
    """
    at = state.get("at")
    is_narrowed = bool(state.get("sources") or state.get("doc_ids"))
    return (
        limits.has_search
        and not is_narrowed
        and (at is None or at >= state["asked_at"])
        and not state["faults"]
        and not is_graded_by_stand_in(state)
        and not state["approval"]
        and state["searches"] < limits.searches
        and state["verdict"] != Verdict.UNKNOWN
    )


def is_graded_by_stand_in(state: RunState) -> bool:
    """Return whether the configured evaluator failed on some passage, and somebody else graded it."""
    return any(reason.startswith("grade: ") for reason in state["degraded"])


def after_judge(state: RunState, limits: Limits) -> NodeName:
    """Return the next node once the verdict is known: local correction comes before the web."""
    if is_settled(state) or state["faults"] or state["verdict"] == Verdict.UNKNOWN:
        return NodeName.REFINE
    if state["rewrites"] < limits.rewrites and not state["approval"]:
        return NodeName.REWRITE
    return NodeName.APPROVE if may_search(state, limits) else NodeName.REFINE


def after_rewrite(state: RunState, limits: Limits) -> NodeName:
    """Return the next node once queries were rewritten: back to retrieval if any is new."""
    if state["is_retry"]:
        return NodeName.WEB
    if any(state["queries"]):
        return NodeName.RETRIEVE
    return NodeName.APPROVE if may_search(state, limits) else NodeName.REFINE


def after_approve(state: RunState) -> NodeName:
    """Return the next node once a person, or the policy, has decided on the search."""
    return NodeName.REFINE if state["approval"] == "declined" else NodeName.WEB


def after_refine(state: RunState, limits: Limits) -> NodeName:
    """Return the next node once evidence is refined: without any, no model is asked."""
    if not state["excerpts"]:
        return NodeName.REFUSE
    return NodeName.GENERATE if limits.writes else NodeName.HAND_OVER


def after_generate(state: RunState) -> NodeName:
    """Return the next node once a draft was written; when its evidence has gone meanwhile, there is none to check."""
    return NodeName.CHECK if state["excerpts"] else NodeName.REFUSE


def after_check(state: RunState) -> NodeName:
    """Return the next node once the draft is checked: give it out, try once more, or refuse."""
    if not state["complaint"]:
        return NodeName.WRITE_BACK
    return NodeName.GENERATE if state["attempts"] < MAX_ATTEMPTS else NodeName.REFUSE


def ungraded(state: RunState) -> list[tuple[int, str]]:
    """Return (sub-question, id) of what was retrieved or found and has no grade yet, in order."""
    done = {(g["sub"], str(g["grade"]["id"])) for g in state["grades"]}
    waiting = [(c["sub"], c["id"]) for c in state["candidates"]] + [(f["sub"], f["id"]) for f in state["found"]]
    return [item for item in dict.fromkeys(waiting) if item not in done]


def usable(grades: list[Graded], sub: int, verdict: str) -> list[Graded]:
    """Return the grades whose passages may be used: relevant ones; ambiguous ones only under an ambiguous verdict."""
    if verdict not in (Verdict.CORRECT, Verdict.AMBIGUOUS):
        return []
    labels = {Label.RELEVANT.value}
    if verdict == Verdict.AMBIGUOUS:
        labels.add(Label.AMBIGUOUS.value)
    return [g for g in grades if g["sub"] == sub and g["grade"]["label"] in labels]


def outcome_of(state: RunState) -> Outcome:
    """Return how a question with a supported draft ends."""
    if state["conflicts"]:
        return Outcome.CONFLICT
    return Outcome.PARTIAL if state["missing"] or is_uncertain(state) else Outcome.ANSWERED


def is_uncertain(state: RunState) -> bool:
    """Return whether some sub-question rests on ambiguous evidence alone."""
    used = {e["sub"] for e in state["excerpts"]}
    return any(v != Verdict.CORRECT for sub, v in enumerate(state["verdicts"]) if sub in used)


_FAULTS = {
    "index": RefusalReason.INDEX_UNAVAILABLE,
    "ledger": RefusalReason.LEDGER_UNAVAILABLE,
    "embedder": RefusalReason.EMBEDDER_UNAVAILABLE,
    "evaluator": RefusalReason.EVALUATOR_UNAVAILABLE,
    "model": RefusalReason.MODEL_UNAVAILABLE,
}


def reasons_of(state: RunState, limits: Limits) -> list[RefusalReason]:
    """Return why the evidence did not suffice, the main reason first."""
    reasons = [_FAULTS[fault] for fault in state["faults"] if fault in _FAULTS]
    if state["complaint"] and "model" not in state["faults"]:
        reasons.append(RefusalReason.NOT_SUPPORTED)
    elif not reasons:
        reasons.append(_why_nothing(state))
    if state["approval"] == "declined":
        reasons.append(RefusalReason.SEARCH_DECLINED)
    elif "search" in state["faults"]:
        reasons.append(RefusalReason.SEARCH_FAILED)
    elif limits.has_search and is_graded_by_stand_in(state) and not state["complaint"] and not state["faults"]:
        reasons.append(RefusalReason.EVALUATOR_UNAVAILABLE)  # why the web was not asked
    elif not limits.has_search and not state["complaint"] and not state["faults"]:
        reasons.append(RefusalReason.SEARCH_NOT_CONFIGURED)
    return reasons


def _why_nothing(state: RunState) -> RefusalReason:
    """Return why no evidence is left though nothing failed."""
    if state["suppressed"] and not state["candidates"]:
        return RefusalReason.ONLY_SUPPRESSED
    if Verdict.CORRECT in state["verdicts"]:
        return RefusalReason.NOT_SUPPORTED  # something was relevant, and nothing of it could be used
    reasons = [str(g["grade"].get("reason", "")) for g in state["grades"]]
    is_of_other_times = any(ANOTHER_TIME in reason for reason in reasons)
    return RefusalReason.PERIOD_NOT_COVERED if is_of_other_times else RefusalReason.NOTHING_FOUND
