"""Remedies: in order and never back, within their budgets, none after a failure, and no search that was not due."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.evidence import Verdict
from crag_runtime.policy import policy_of
from crag_runtime.remedies import DEFAULT_ORDER, NOT_TIMELY, Remedy, Shortage, next_remedy, obstacle, ordered
from kb.errors import ConfigError
from kb.settings import Settings

R = Remedy
ABLE = Shortage(verdict=Verdict.INCORRECT, rewrites=1, searches=2, has_backup=True, has_search=True)
ORDERS = [order for number in range(len(Remedy) + 1) for order in permutations(Remedy, number)]
shortages = st.builds(
    Shortage,
    verdict=st.sampled_from(Verdict),
    tried=st.frozensets(st.sampled_from(Remedy)),
    faults=st.frozensets(st.sampled_from(["search", "index", "evaluator", "ledger"])),
    rewrites=st.integers(-1, 2),
    searches=st.integers(-1, 2),
    has_backup=st.booleans(),
    has_search=st.booleans(),
    is_wordless=st.booleans(),
    is_narrowed=st.booleans(),
    is_past=st.booleans(),
    is_by_stand_in=st.booleans(),
    is_too_timeless=st.booleans(),
)


@pytest.mark.parametrize("order", [order for order in ORDERS if order])
def test_remedies_are_tried_in_the_order_that_is_configured(order: tuple[Remedy, ...]) -> None:
    tried: list[Remedy] = []
    shortage = ABLE
    while (choice := next_remedy(order, shortage)).remedy is not None:
        tried.append(choice.remedy)
        left = shortage.rewrites - (choice.remedy is R.REWRITE)
        shortage = replace(shortage, tried=frozenset(tried), rewrites=left)
    assert tuple(tried) == order


@given(order=st.sampled_from(ORDERS), shortage=shortages)
def test_what_is_chosen_is_in_the_order_stands_behind_what_was_tried_and_has_nothing_against_it(
    order: tuple[Remedy, ...], shortage: Shortage
) -> None:
    choice = next_remedy(order, shortage)
    assert choice.reason
    if choice.remedy is None:
        return
    assert choice.remedy in order
    assert obstacle(choice.remedy, shortage) == ""
    place = order.index(choice.remedy)
    assert not any(remedy in shortage.tried for remedy in order[place + 1 :])
    for i, passed in enumerate(order[:place]):
        is_over = any(remedy in shortage.tried for remedy in order[i + 1 : place + 1])
        assert is_over or obstacle(passed, shortage)


@given(order=st.sampled_from(ORDERS), shortage=shortages)
def test_the_web_is_never_asked_after_a_failure_by_a_stand_in_twice_or_beyond_its_budget(
    order: tuple[Remedy, ...], shortage: Shortage
) -> None:
    if next_remedy(order, shortage).remedy is R.WEB:
        assert shortage.has_search
        assert shortage.searches > 0
        assert not shortage.faults
        assert R.WEB not in shortage.tried
        assert shortage.verdict in (Verdict.INCORRECT, Verdict.AMBIGUOUS)
        held = ("is_by_stand_in", "is_narrowed", "is_past", "is_too_timeless")
        assert not any(getattr(shortage, name) for name in held)


@given(order=st.sampled_from(ORDERS), shortage=shortages)
def test_a_failure_of_the_store_or_the_evaluator_is_no_shortage_of_evidence(
    order: tuple[Remedy, ...], shortage: Shortage
) -> None:
    is_failed = bool(shortage.faults - {"search"}) or shortage.verdict is Verdict.UNKNOWN
    if is_failed or shortage.verdict is Verdict.CORRECT:
        assert next_remedy(order, shortage).remedy is None


def former(shortage: Shortage) -> Remedy | None:
    """Return what followed a verdict when rewriting and the web were all there was, and their order was fixed."""
    if shortage.verdict in (Verdict.CORRECT, Verdict.UNKNOWN) or shortage.faults:
        return None
    if shortage.rewrites > 0 and R.WEB not in shortage.tried and not shortage.is_wordless:
        return R.REWRITE
    may_search = (
        shortage.has_search
        and shortage.searches > 0
        and R.WEB not in shortage.tried
        and not (shortage.is_narrowed or shortage.is_past or shortage.is_by_stand_in)
    )
    return R.WEB if may_search else None


@given(shortage=shortages)
def test_the_default_order_decides_as_ever(shortage: Shortage) -> None:
    is_reachable = "search" not in shortage.faults or R.WEB in shortage.tried  # only a search leaves this fault
    if is_reachable and not shortage.is_too_timeless:
        assert next_remedy(DEFAULT_ORDER, shortage).remedy is former(shortage)


def test_a_search_that_failed_ends_the_web_alone() -> None:
    order = (R.WEB, R.REWRITE, R.BACKUP, R.HUMAN)
    failed = replace(ABLE, tried=frozenset({R.WEB}), faults=frozenset({"search"}))
    assert next_remedy(order, failed).remedy is R.REWRITE
    assert next_remedy(order, replace(failed, is_wordless=True)).remedy is R.BACKUP
    assert next_remedy((R.WEB, R.HUMAN), failed).remedy is R.HUMAN


@pytest.mark.parametrize(
    ("shortage", "why"),
    [
        (replace(ABLE, verdict=Verdict.CORRECT), "the evidence suffices"),
        (replace(ABLE, verdict=Verdict.UNKNOWN), "no remedy: it could not be graded"),
        (replace(ABLE, faults=frozenset({"index"})), "no remedy: index failed"),
        (ABLE, "rewrite: other words, 1 left"),
        (replace(ABLE, rewrites=0), "web: the web, 2 left"),
        (replace(ABLE, rewrites=0, is_too_timeless=True), f"no rewrite: none is left; no web: {NOT_TIMELY}"),
        (replace(ABLE, rewrites=0, has_search=False), "no rewrite: none is left; no web: none is configured"),
    ],
)
def test_every_choice_says_why(shortage: Shortage, why: str) -> None:
    assert next_remedy(DEFAULT_ORDER, shortage).reason == why
    assert next_remedy((), ABLE).reason == "no remedy is configured"


@pytest.mark.parametrize(
    ("names", "tenant", "message"),
    [
        (["rewrite", "pray"], None, "'pray', which is no remedy"),
        (["Rewrite"], None, "'Rewrite', which is no remedy"),
        (["web", "rewrite", "web"], None, "'web' twice"),
        (["backup"], None, "backup_tenant is not set"),
        (["rewrite"], "reference", "does not name backup"),
    ],
)
def test_remedies_that_make_no_sense_are_refused_with_a_hint(
    names: list[str], tenant: str | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        policy_of(Settings(ask={"remedies": names, "backup_tenant": tenant}))  # type: ignore[arg-type]
    assert caught.value.hint


def test_any_order_of_known_remedies_is_taken_as_it_is() -> None:
    for order, has_backup in product(ORDERS, (False, True)):
        if has_backup == (R.BACKUP in order):
            assert ordered([remedy.value for remedy in order], has_backup=has_backup) == order
    assert policy_of(Settings()).remedies == DEFAULT_ORDER
