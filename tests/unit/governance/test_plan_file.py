"""A plan's file: what is wrong with it is said in words, and where."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from governance.plan import Plan, plan_of_json
from kb.errors import InputError
from kb.sweeps import Action, ActionKind, SweepJob

PLAN = Plan(
    tenant="default",
    job=SweepJob.PRUNE,
    policy="p",
    at=5,
    actions=tuple(
        Action(memory_id=id_, kind=ActionKind.RETIRE, reason="faded", rev=3, detail={"confidence": 0.1})
        for id_ in ("m1", "m2")
    ),
    notes=("one",),
)


def test_an_untouched_file_is_the_plan_that_was_made() -> None:
    assert plan_of_json(deepcopy(PLAN.as_json())) == PLAN


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tenant": 5}, "tenant is 5; it must be text"),
        ({"job": "tidy"}, "job is 'tidy'; it must be one of"),
        ({"job": ["prune"]}, "job is ['prune']; it must be one of"),
        ({"at": "soon"}, "at is 'soon'; it must be a whole number"),
        ({"live": True}, "live is True; it must be a whole number"),
        ({"at": 1.5}, "at is 1.5; it must be a whole number"),
        ({"left": None}, "left is None; it must be a whole number"),
        ({"actions": {}}, "actions is {}; it must be a list"),
        ({"notes": "one"}, "notes is 'one'; it must be a list"),
        ({"format": 2}, "the plan has format 2; this program reads format 1"),
        ({"hash": "0"}, "its hash does not fit"),
        ({"notes": ["two"]}, "its hash does not fit"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said_in_words(changed: dict[str, Any], said: str) -> None:
    assert said in refused({**PLAN.as_json(), **changed})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rev": "three"}, "action 2: rev is 'three'; it must be a whole number"),
        ({"action": "vanish"}, "action 2: action is 'vanish'; it must be one of"),
        ({"memory_id": None}, "action 2: memory_id is None; it must be text"),
        ({"detail": "much"}, "action 2: detail is 'much'; it must be an object"),
    ],
)
def test_what_is_wrong_with_an_action_is_said_with_its_place(changed: dict[str, Any], said: str) -> None:
    whole: Any = deepcopy(PLAN.as_json())
    whole["actions"][1] |= changed
    assert said in refused(whole)


@pytest.mark.parametrize("name", list(PLAN.as_json()))
def test_what_a_plan_lacks_is_named(name: str) -> None:
    whole = {key: value for key, value in PLAN.as_json().items() if key != name}
    if name == "counts":  # told for readers: nothing is made of it
        assert plan_of_json(whole) == PLAN
    else:
        assert f"{name} is missing" in refused(whole)


def test_an_action_that_is_no_object_and_an_empty_file_are_no_plan() -> None:
    assert "format is missing" in refused({})
    assert "action 1 is 'm1'; it must be an object" in refused({**PLAN.as_json(), "actions": ["m1"]})


def refused(data: dict[str, Any]) -> str:
    """Return why a file is refused; in words, and with what to do."""
    with pytest.raises(InputError) as told:
        plan_of_json(data)
    assert "kb govern plan" in told.value.hint
    assert "Error" not in str(told.value)
    return str(told.value)
