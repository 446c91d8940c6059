"""What flows through the graph: how updates add up, and that a turn starts from nothing."""

from __future__ import annotations

import json
from typing import Any

from crag_runtime.evidence import Usage
from crag_runtime.state import (
    ACCUMULATED,
    TRANSIENT,
    Given,
    GradeInput,
    NodeName,
    Update,
    distinct,
    merged_grades,
    spent,
    step,
    summed_usage,
)


def test_a_turn_puts_back_everything_that_nodes_may_write() -> None:
    put_back = {*TRANSIENT, *ACCUMULATED, "asked_at"}
    assert put_back == set(Update.__annotations__)
    assert not set(TRANSIENT) & set(ACCUMULATED)


def test_nothing_that_a_caller_gives_is_also_written_by_a_node() -> None:
    assert not set(Given.__annotations__) & set(Update.__annotations__)
    assert {"question", "tenant", "scope", "answer_id"} <= set(Given.__annotations__)


def test_what_adds_up_has_a_rule_for_it_and_what_has_a_rule_is_emptied_as_such() -> None:
    ruled = {name for name, kind in Update.__annotations__.items() if "Annotated" in str(kind)}
    assert ruled == set(ACCUMULATED)


def test_the_beginning_of_a_turn_is_plain_json() -> None:
    given: dict[str, Any] = {**TRANSIENT, **ACCUMULATED}
    assert json.loads(json.dumps(given)) == given


def graded(sub: int, id_: str, label: str) -> Any:
    return {"sub": sub, "rev": 1, "grade": {"id": id_, "label": label}}


def test_a_later_grade_takes_the_place_of_an_earlier_one_and_no_other() -> None:
    old = [graded(0, "a", "relevant"), graded(1, "a", "relevant"), graded(0, "b", "unknown")]
    new = [graded(0, "a", "ambiguous"), graded(0, "c", "relevant")]
    labels = [(g["sub"], g["grade"]["id"], g["grade"]["label"]) for g in merged_grades(old, new)]
    assert labels == [
        (0, "a", "ambiguous"),
        (1, "a", "relevant"),
        (0, "b", "unknown"),
        (0, "c", "relevant"),
    ]


def test_costs_add_up_and_reasons_stand_once() -> None:
    assert summed_usage({"llm_calls": 2}, {"llm_calls": 1, "searches": 1}) == {"llm_calls": 3, "searches": 1}
    assert distinct(["a", "b"], ["b", "c", "c"]) == ["a", "b", "c"]
    assert spent(Usage(llm_calls=2)) == {"llm_calls": 2}


def test_a_step_says_where_and_why() -> None:
    assert step(NodeName.JUDGE, "because") == [{"node": "judge", "why": "because"}]


def test_a_grading_branch_is_told_the_original_question_by_its_plan_and_no_rewritten_query() -> None:
    assert not {"queries", "tried"} & set(GradeInput.__annotations__)
    assert "plan" in GradeInput.__annotations__
