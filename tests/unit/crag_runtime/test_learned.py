"""What an answer teaches: trust moves by questions about now that went well, keys lead to whole answers only."""

from __future__ import annotations

from typing import Any

import pytest

from crag_runtime.codec import plain
from crag_runtime.evidence import Citation, Conflict, Draft, Label, Plan, Side
from crag_runtime.recording.evidence_rules import HANDED_OVER
from crag_runtime.recording.learned import CALLER, Learned, learned_of
from crag_runtime.state import ACCUMULATED, TRANSIENT, RunState, Shown
from kb.dates.period import TimeIntent

NOW = 1_800_000_000_000
CONFLICT = Conflict(
    sub=0,
    kind="number",
    sides=(Side(value="1", ids=("a", "b"), quote="", source=""), Side(value="2", ids=("c",), quote="", source="")),
)


def shown(id_: str, label: Label = Label.RELEVANT, sub: int = 0) -> Shown:
    return Shown(sub=sub, id=id_, strips=[[0, 1]], relevance=0.9, label=label.value, answer="")


def learned(*, as_of: int | None = None, generator: str = "extractive", **changes: Any) -> Learned:
    plan = Plan(question="How many?", sub_questions=("How many?",), time=TimeIntent(as_of=as_of))
    draft = Draft(text="one [1]", citations=(Citation(number=1, id="a", quote="one"),), generator=generator)
    state: dict[str, Any] = {
        **TRANSIENT,
        **ACCUMULATED,
        "question": "How many?",
        "tenant": "t",
        "answer_id": "answer",
        "asked_at": NOW,
        "plan": plain(plan),
        "outcome": "answered",
        "verdict": "correct",
        "text": "one [1]",
        "draft": plain(draft),
        "excerpts": [shown("a"), shown("b"), shown("c")],
        "agreements": [{"sub": 0, "ids": ["a", "b"], "value": "1"}],
        "conflicts": [plain(CONFLICT)],
        **changes,
    }
    return learned_of(RunState(**state), NOW)  # type: ignore[typeddict-item]


def moves(found: Learned) -> bool:
    assert bool(found.agreements) is bool(found.conflicts)
    return bool(found.agreements)


@pytest.mark.parametrize(
    "changes",
    [
        {"at": NOW - 1},
        {"at": NOW},
        {"at": NOW + 1},
        {"as_of": NOW - 1},
        {"outcome": "partial"},
        {"outcome": "refused"},
        {"faults": ["search"]},
        {"faults": ["evaluator"]},
        {"degraded": ["grade: the model is away"]},
    ],
)
def test_what_is_not_about_now_or_did_not_go_well_moves_no_trust(changes):
    assert moves(learned())
    assert moves(learned(outcome="conflict", degraded=["web: away"]))
    assert not moves(learned(**changes))


def test_only_relevant_excerpts_speak():
    weak = [shown("a"), shown("b", Label.AMBIGUOUS), shown("c")]
    found = learned(excerpts=weak)
    assert found.agreements == ()
    assert [side.ids for side in found.conflicts[0].sides] == [("a",), ("c",)]
    elsewhere = learned(excerpts=[shown("a"), shown("b"), shown("c", sub=1)])  # relevant to another sub-question
    assert [side.ids for side in elsewhere.conflicts[0].sides] == [("a", "b")]
    assert not moves(learned(excerpts=[]))


def test_a_question_becomes_a_key_only_when_whoever_asks_it_again_means_the_same():
    assert learned().is_key
    for changes in (
        {"at": NOW - 1}, {"as_of": NOW - 1}, {"sources": ["file://docs/a"]}, {"doc_ids": ["d"]},
        {"outcome": "partial"}, {"outcome": "conflict"}, {"verdict": "ambiguous"}, {"faults": ["search"]},
        {"text": ""},
    ):  # fmt: skip
        assert not learned(**changes).is_key, changes


def test_passages_that_were_handed_over_are_said_to_be():
    assert learned(generator=CALLER).report[HANDED_OVER] is True
    assert HANDED_OVER not in learned().report
