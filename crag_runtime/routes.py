"""Where a question goes next: pure functions of the state and of what the runtime may do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crag_runtime.evidence import Label, Outcome, Verdict
from crag_runtime.refusal import RefusalReason
from crag_runtime.remedies import DEFAULT_ORDER, NOT_TIMELY, Choice, Remedy, Shortage, next_remedy, obstacle
from crag_runtime.state import NodeName, RunState, plan_of
from kb.dates.periods import ANOTHER_TIME

if TYPE_CHECKING:
    from crag_runtime.policy import RuntimePolicy
    from crag_runtime.state import Graded

MAX_ATTEMPTS = 2  # drafts: the first, and one more after a complaint


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What correction may do in this runtime."""

    rewrites: int
    searches: int
    has_search: bool
    writes: bool = True  # False: the caller's own model writes the answer from the evidence
    remedies: tuple[Remedy, ...] = DEFAULT_ORDER
    backup_tenant: str = ""  # the second source; "" for none
    only_timely: bool = False  # the web is for questions of time only
    waits: bool = False  # whether a question can wait for a person who decides with what was found


def limits_of(policy: RuntimePolicy, *, has_search: bool, waits: bool) -> Limits:
    """Return the limits of a policy.

    Args:
        policy: how the runtime works.
        has_search: whether there is a web search.
        waits: whether a question that waits outlives this process.
    """
    return Limits(
        rewrites=policy.budgets.rewrites,
        searches=policy.budgets.searches,
        has_search=has_search,
        remedies=policy.remedies,
        backup_tenant=policy.backup_tenant,
        only_timely=policy.only_timely,
        waits=waits,
    )


def open_subs(state: RunState) -> list[int]:
    """Return the sub-questions that still need evidence."""
    return [sub for sub, verdict in enumerate(state["verdicts"]) if verdict != Verdict.CORRECT]


def shortage_of(state: RunState, limits: Limits, *, is_wordless: bool = False) -> Shortage:
    """Return what the question lacks and what it has had.

    What a stand-in could not find, the evaluator that failed might have seen: that is no reason to pay. A question
    that is narrowed to sources or documents is asked of nobody else, and today's web does not know the past.

    Args:
        state: after a verdict.
        limits: what correction may do.
        is_wordless: whether the rewriter has just found no other words.
    """
    at = state.get("at")
    had = {
        Remedy.REWRITE: state["rewrites"] > 0,
        Remedy.BACKUP: state.get("is_backed_up", False),
        Remedy.WEB: bool(state["approval"]),
        Remedy.HUMAN: bool(state.get("person", "")),
    }
    return Shortage(
        verdict=Verdict(state["verdict"] or Verdict.UNKNOWN),
        tried=frozenset(remedy for remedy, is_tried in had.items() if is_tried),
        faults=frozenset(state["faults"]),
        rewrites=limits.rewrites - state["rewrites"],
        searches=limits.searches - state["searches"],
        has_backup=limits.backup_tenant not in ("", state["tenant"]),
        has_search=limits.has_search,
        is_wordless=is_wordless,
        is_narrowed=bool(state.get("sources") or state.get("doc_ids")),
        is_past=at is not None and at < state["asked_at"],
        is_by_stand_in=is_graded_by_stand_in(state),
        is_too_timeless=limits.only_timely and not plan_of(state).time.is_time_sensitive,
    )


def correction(state: RunState, limits: Limits, *, is_wordless: bool = False) -> Choice:
    """Return the next remedy of a question, and why; none for one that is settled or cannot be helped."""
    return next_remedy(limits.remedies, shortage_of(state, limits, is_wordless=is_wordless))


_LEADS_TO = {
    None: NodeName.REFINE,
    Remedy.REWRITE: NodeName.REWRITE,
    Remedy.BACKUP: NodeName.BACKUP,
    Remedy.WEB: NodeName.APPROVE,
    Remedy.HUMAN: NodeName.HUMAN,
}


def is_graded_by_stand_in(state: RunState) -> bool:
    """Return whether the configured evaluator failed on some passage, and somebody else graded it."""
    return any(reason.startswith("grade: ") for reason in state["degraded"])


def after_judge(state: RunState, limits: Limits) -> NodeName:
    """Return the next node once the verdict is known: the next remedy, or an end with what there is."""
    return _LEADS_TO[correction(state, limits).remedy]


def after_rewrite(state: RunState, limits: Limits) -> NodeName:
    """Return the next node once queries were rewritten: back to retrieval if any is new."""
    if state["is_retry"]:
        return NodeName.WEB
    if any(state["queries"]):
        return NodeName.RETRIEVE
    return _LEADS_TO[correction(state, limits, is_wordless=True).remedy]


def after_approve(state: RunState, limits: Limits) -> NodeName:
    """Return the next node once a person, or the policy, has decided on the search."""
    return _LEADS_TO[correction(state, limits).remedy] if state["approval"] == "declined" else NodeName.WEB


def after_human(state: RunState, limits: Limits) -> NodeName:
    """Return the next node once a person has decided with what was found, or nobody could be waited for."""
    if state["person"] == "needed":
        return _LEADS_TO[correction(state, limits).remedy]
    return NodeName.RETRIEVE if state["person"] == "edited" else NodeName.REFINE


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
    elif not reasons and state.get("person") != "declined":
        reasons.append(_why_nothing(state))
    person = _PERSONS.get(state.get("person", ""), [])
    if state.get("person") == "declined":
        return [*reasons, *person, *_why_no_web(state, limits)]
    return [*reasons, *_why_no_web(state, limits), *person]


def shortfalls_of(state: RunState, outcome: Outcome) -> list[str]:
    """Return the reasons that an answer which is not whole owes to a person, or to nobody's being there."""
    if outcome is Outcome.ANSWERED:
        return []
    return [reason.value for reason in _PERSONS.get(state.get("person", ""), [])]


_PERSONS = {"needed": [RefusalReason.PERSON_NEEDED], "declined": [RefusalReason.PERSON_DECLINED]}


def _why_no_web(state: RunState, limits: Limits) -> list[RefusalReason]:
    """Return why the web did not help; nothing where something else is why the question failed."""
    if state["approval"] == "declined":
        return [RefusalReason.SEARCH_DECLINED]
    if "search" in state["faults"]:
        return [RefusalReason.SEARCH_FAILED]
    if state["complaint"] or state["faults"] or Remedy.WEB not in limits.remedies:
        return []
    if not limits.has_search:
        return [RefusalReason.SEARCH_NOT_CONFIGURED]
    if is_graded_by_stand_in(state):
        return [RefusalReason.EVALUATOR_UNAVAILABLE]
    is_timeless = obstacle(Remedy.WEB, shortage_of(state, limits)) == NOT_TIMELY
    return [RefusalReason.SEARCH_NOT_TIMELY] if is_timeless else []


def _why_nothing(state: RunState) -> RefusalReason:
    """Return why no evidence is left though nothing failed."""
    if state["suppressed"] and not state["candidates"]:
        return RefusalReason.ONLY_SUPPRESSED
    if Verdict.CORRECT in state["verdicts"]:
        return RefusalReason.NOT_SUPPORTED  # something was relevant, and nothing of it could be used
    reasons = [str(g["grade"].get("reason", "")) for g in state["grades"]]
    is_of_other_times = any(ANOTHER_TIME in reason for reason in reasons)
    return RefusalReason.PERIOD_NOT_COVERED if is_of_other_times else RefusalReason.NOTHING_FOUND
