"""Where a question goes next: every branch by name, and no branch that leads nowhere."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.types import Send

from crag_runtime import routes
from crag_runtime.codec import plain
from crag_runtime.evidence import Plan, Verdict
from crag_runtime.graph import after_rewrite, after_web, build_graph, fanned_out
from crag_runtime.remedies import Remedy
from crag_runtime.routes import MAX_ATTEMPTS, Limits
from crag_runtime.state import ACCUMULATED, TRANSIENT, NodeName, RunState
from crag_runtime.verdict import combined

if TYPE_CHECKING:
    from collections.abc import Callable

N = NodeName
LIMITS = Limits(rewrites=1, searches=2, has_search=True)
NO_WEB = Limits(rewrites=1, searches=2, has_search=False)
NOW = 1_800_000_000_000
GRADED = {"sub": 0, "rev": 1, "grade": {"id": "a", "label": "relevant"}}


def state(*verdicts: str, **changes: Any) -> RunState:
    given: dict[str, Any] = {
        **TRANSIENT,
        **ACCUMULATED,
        "question": "How many?",
        "tenant": "t",
        "answer_id": "answer",
        "asked_at": NOW,
        "plan": plain(Plan(question="How many?", sub_questions=("How many?",))),
        "verdicts": list(verdicts),
        "verdict": combined(map(Verdict, verdicts)).value,
        **changes,
    }
    return RunState(**given)  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("now", "limits", "to"),
    [
        (state("correct"), LIMITS, N.REFINE),
        (state("correct", "correct"), LIMITS, N.REFINE),
        (state("incorrect"), LIMITS, N.REWRITE),  # what the store has comes before what the web has
        (state("ambiguous"), LIMITS, N.REWRITE),
        (state("correct", "incorrect"), LIMITS, N.REWRITE),
        (state("incorrect", rewrites=1), LIMITS, N.APPROVE),
        (state("incorrect", rewrites=1), NO_WEB, N.REFINE),
        (state("incorrect", rewrites=1, searches=2), LIMITS, N.REFINE),
        (state("incorrect", rewrites=1, approval="approved"), LIMITS, N.REFINE),  # the web is asked once
        (state("incorrect", rewrites=1, approval="declined"), LIMITS, N.REFINE),
        (state("incorrect", approval="approved"), LIMITS, N.REFINE),
        (state("incorrect", faults=["evaluator"]), LIMITS, N.REFINE),
        (state("incorrect", faults=["index"]), LIMITS, N.REFINE),
        (state("unknown"), LIMITS, N.REFINE),
        (state("incorrect"), Limits(rewrites=0, searches=0, has_search=True), N.REFINE),
        (state("incorrect"), Limits(rewrites=0, searches=1, has_search=True), N.APPROVE),
        (state("incorrect", rewrites=2), Limits(rewrites=3, searches=0, has_search=False), N.REWRITE),
        (state("incorrect", rewrites=3), Limits(rewrites=3, searches=0, has_search=False), N.REFINE),
    ],
)
def test_what_does_not_suffice_is_corrected_locally_then_by_the_web_and_never_beyond_a_budget(
    now: RunState, limits: Limits, to: NodeName
) -> None:
    assert routes.after_judge(now, limits) is to


@pytest.mark.parametrize(
    "changes",
    [
        {"faults": ["ledger"]},
        {"degraded": ["grade: the reader stood in"]},
        {"sources": ["file://one"]},
        {"doc_ids": ["one"]},
        {"at": NOW - 1},
        {"searches": 2},
        {"approval": "not_needed"},
    ],
)
def test_a_failure_a_narrowed_question_the_past_or_a_spent_budget_is_no_reason_to_search(
    changes: dict[str, Any],
) -> None:
    def searches(now: RunState, limits: Limits) -> bool:
        return routes.after_judge(now, limits) is N.APPROVE

    web_alone = replace(LIMITS, remedies=(Remedy.WEB,))
    assert searches(state("incorrect"), web_alone)
    assert not searches(state("incorrect", **changes), web_alone)
    assert not searches(state("incorrect"), replace(web_alone, has_search=False))
    assert not searches(state("unknown"), web_alone)


@pytest.mark.parametrize(
    ("now", "to"),
    [
        (state("incorrect", queries=["other words"]), N.RETRIEVE),  # other words look in the store first
        (state("incorrect", queries=[""]), N.APPROVE),
        (state("incorrect", queries=[""], faults=["index"]), N.REFINE),
        (state("incorrect", is_retry=True, web_queries=[{"sub": 0, "query": "q"}]), N.WEB),
        (state("incorrect", is_retry=True), N.JUDGE),
    ],
)
def test_other_words_lead_back_to_the_store_or_to_the_search_that_timed_out(now: RunState, to: NodeName) -> None:
    assert after_rewrite(now, LIMITS) is to


FOUND = {"sub": 0, "id": "w", "query": "q", "finding": {}}


def test_what_the_web_found_is_graded_like_any_other_passage() -> None:
    now = state("incorrect", found=[FOUND], searches=1, usage={})
    (branch,) = after_web(now)
    assert isinstance(branch, Send)
    assert (branch.node, branch.arg["id"]) == (N.GRADE, "w")
    assert after_web(state("incorrect", found=[FOUND], is_retry=True)) is N.REWRITE
    assert after_web(state("incorrect")) is N.JUDGE


def test_every_passage_is_graded_once_for_each_question_it_came_for() -> None:
    candidates = [{"sub": sub, "id": id_, "score": 0.5} for sub in (0, 1) for id_ in "abc"]
    branches = fanned_out(state("incorrect", candidates=[*candidates, *candidates], grades=[GRADED]))
    assert [(b.arg["sub"], b.arg["id"]) for b in branches] == [(0, "b"), (0, "c"), (1, "a"), (1, "b"), (1, "c")]


def test_without_evidence_no_model_is_asked_and_a_declined_search_is_not_made() -> None:
    assert routes.after_refine(state("correct"), LIMITS) is N.REFUSE
    assert routes.after_approve(state("incorrect", approval="declined"), LIMITS) is N.REFINE
    assert routes.after_approve(state("incorrect", approval="approved"), LIMITS) is N.WEB


def test_a_draft_that_is_not_supported_is_written_once_more_and_then_refused() -> None:
    assert MAX_ATTEMPTS == 2
    assert routes.after_check(state("correct", attempts=1)) is N.WRITE_BACK
    assert routes.after_check(state("correct", attempts=1, complaint="unsupported")) is N.GENERATE
    assert routes.after_check(state("correct", attempts=2, complaint="unsupported")) is N.REFUSE


def test_ambiguous_passages_are_used_only_where_nothing_better_is() -> None:
    grades: Any = [
        {"sub": 0, "rev": 1, "grade": {"id": label, "label": label}}
        for label in ("relevant", "ambiguous", "irrelevant", "unknown")
    ]
    used = {v: [g["grade"]["id"] for g in routes.usable(grades, 0, v.value)] for v in Verdict}
    assert used == {
        Verdict.CORRECT: ["relevant"],
        Verdict.AMBIGUOUS: ["relevant", "ambiguous"],
        Verdict.INCORRECT: [],
        Verdict.UNKNOWN: [],
    }


WORLD = {
    "rewrites": (0, 1),
    "searches": (0, 2),
    "approval": ("", "declined", "approved", "not_needed"),
    "faults": ([], ["search"]),
    "is_retry": (False, True),
    "web_queries": ([], [{"sub": 0, "query": "q"}]),
    "queries": ([""], ["words"]),
    "excerpts": ([], [{"sub": 0}]),
    "complaint": ("", "unsupported"),
    "attempts": (1, 2),
    "found": ([], [FOUND]),
    "is_backed_up": (False, True),
    "person": ("", "needed", "approved", "edited", "declined"),
}
ORDERS = tuple(
    Limits(rewrites=1, searches=2, has_search=True, remedies=order, backup_tenant="reference")
    for number in range(len(Remedy) + 1)
    for order in permutations(Remedy, number)
)
KNOWN = ((), ("correct",), ("incorrect",), ("ambiguous",), ("unknown",), ("correct", "incorrect"))
ROUTES: dict[NodeName, tuple[Callable[[RunState, Limits], Any], tuple[str, ...]]] = {
    N.RETRIEVE: (lambda s, _: fanned_out(s), ("found",)),
    N.JUDGE: (routes.after_judge, ("rewrites", "approval", "faults", "is_backed_up", "person")),
    N.REWRITE: (after_rewrite, ("is_retry", "web_queries", "queries", "approval", "faults", "found")),
    N.BACKUP: (lambda s, _: fanned_out(s), ("found",)),
    N.APPROVE: (routes.after_approve, ("approval", "rewrites", "is_backed_up", "person")),
    N.HUMAN: (routes.after_human, ("person", "rewrites", "approval", "is_backed_up")),
    N.WEB: (lambda s, _: after_web(s), ("is_retry", "found")),
    N.REFINE: (routes.after_refine, ("excerpts",)),
    N.GENERATE: (lambda s, _: routes.after_generate(s), ("excerpts",)),
    N.CHECK: (lambda s, _: routes.after_check(s), ("complaint", "attempts")),
}


@pytest.fixture(scope="module")
def edges() -> dict[str, set[str]]:
    """Where each node's edges lead, by the compiled graph."""
    found: dict[str, set[str]] = {}
    for edge in build_graph(LIMITS).get_graph().edges:
        found.setdefault(edge.source, set()).add(edge.target)
    return found


@pytest.mark.parametrize("node", ROUTES)
def test_a_route_leads_only_along_edges_of_the_graph_and_takes_each_of_them(
    node: NodeName, edges: dict[str, set[str]]
) -> None:
    route, fields = ROUTES[node]
    taken = set()
    for verdicts in KNOWN:
        for values in product(*(WORLD[name] for name in fields)):
            now = state(*verdicts, **dict(zip(fields, values, strict=True)))
            for limits in (LIMITS, NO_WEB, replace(LIMITS, writes=False), *ORDERS):
                to = route(now, limits)
                taken |= {branch.node for branch in to} if isinstance(to, list) else {to}
    assert taken <= set(NodeName)
    assert {str(name) for name in taken} == edges[node.value]
