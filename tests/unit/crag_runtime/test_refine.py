"""Refinement keeps the strips that matter, in order, within the budget, and never a whole text for want of better."""

from __future__ import annotations

import pytest

from crag_runtime.evidence import Evidence, Grade, Label, Origin, ScoredStrip, Strip
from crag_runtime.refine import lowered, matched, refined

FILLER = "The office in Lisbon has a view of the river. Lunch is served at noon in the canteen. "
PRICE = "The Team plan costs 19 euros per month. "


def piece(id_: str, text: str, *, confidence: float = 0.9, verified: bool = False) -> Evidence:
    return Evidence(id=id_, origin=Origin.MEMORY, text=text, confidence=confidence, verified=verified, root=id_)


def grade(id_: str, label: Label = Label.RELEVANT, **more: object) -> Grade:
    return Grade(id=id_, label=label, relevance=0.9, **more)  # type: ignore[arg-type] # test shorthand


def kept(question: str, *pieces: Evidence, budget: int = 1000, **grades: Grade) -> list[str]:
    known = {p.id: grades.get(p.id, grade(p.id)) for p in pieces}
    texts = {p.id: p.text for p in pieces}
    found = refined(question, pieces, known, budget=budget, count=lambda text: len(text.split()))
    return [texts[s.id][s.start : s.end] for s in found]


def test_what_answers_is_kept_and_what_is_beside_the_question_is_not() -> None:
    found = kept("How much does the Team plan cost?", piece("a", FILLER + PRICE + FILLER * 2))
    assert PRICE.strip() in found
    assert len(" ".join(found)) < len(FILLER)


def test_the_same_in_chinese() -> None:
    filler = "里斯本的办公室可以看到河景。午餐中午在食堂供应。"
    found = kept("团队方案多少钱？", piece("a", filler + "团队方案每月十九欧元。" + filler * 2))
    assert "团队方案每月十九欧元。" in found
    assert len(found) < 4


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who painted the ceiling?", PRICE * 3),
        ("What is it?", PRICE * 3),
        ("天花板是谁画的？", "团队方案每月十九欧元。里斯本的办公室可以看到河景。"),
    ],
)
def test_nothing_that_matches_gives_no_strip_and_never_the_full_text(question: str, text: str) -> None:
    assert kept(question, piece("a", text)) == []


def test_a_usable_passage_in_another_script_is_kept_in_part_though_no_word_can_match() -> None:
    found = kept("团队方案多少钱？", piece("a", FILLER * 6))
    assert found
    assert len(" ".join(found)) < len(FILLER * 6)


@pytest.mark.parametrize("label", [Label.IRRELEVANT, Label.UNKNOWN])
def test_what_is_not_graded_usable_gives_nothing(label: Label) -> None:
    assert kept("How much does the Team plan cost?", piece("a", PRICE), a=grade("a", label)) == []


def test_the_readers_span_is_kept_though_it_shares_no_word() -> None:
    text = FILLER + "Nineteen a month. " + FILLER
    found = kept("团队方案多少钱？", piece("a", text), a=grade("a", answer="Nineteen a month"))
    assert "Nineteen a month." in found


def test_a_well_read_window_matches_without_a_shared_word() -> None:
    window = ScoredStrip(start=0, end=len(PRICE), score=0.9)
    assert PRICE.strip() in kept("团队方案多少钱？", piece("a", PRICE + FILLER), a=grade("a", strips=(window,)))


def test_strips_stand_in_the_order_of_the_text() -> None:
    text = f"{FILLER}The Team plan is billed monthly. {FILLER}{PRICE}{FILLER}"
    found = kept("How much does the Team plan cost monthly?", piece("a", text))
    assert found == sorted(found, key=text.index)


def test_every_passages_best_strip_comes_before_a_second_one() -> None:
    a = piece("a", "The Team plan costs 19 euros. The Team plan costs less for schools.")
    b = piece("b", "The Team plan is priced at 21 euros.")
    found = kept("How much does the Team plan cost?", a, b, budget=14)
    assert any("21" in strip for strip in found)
    assert len(found) == 2


def test_a_row_keeps_the_header_of_its_table_within_the_budget() -> None:
    table = "| plan | price |\n|---|---|\n| Solo | 9 |\n| Team | 19 |\n| Firm | 99 |"
    found = kept("What is the price of Team?", piece("a", table))
    assert "| Team | 19 |" in found
    assert "| plan | price |" in found
    assert kept("Team?", piece("a", table), budget=5) in (["| plan | price |"], [])


def test_a_list_item_keeps_the_line_that_opens_the_list() -> None:
    text = f"{FILLER}\n\nAvailable abroad:\n- Solo, for one\n- Team, for ten\n"
    assert kept("Is Team for ten?", piece("a", text))[-2:] == ["Available abroad:", "- Team, for ten"]


def test_the_same_strip_is_kept_once_of_the_more_trusted_passage() -> None:
    weak, strong = piece("a", PRICE), piece("b", "The team plan costs 19 euros per month!", verified=True)
    assert kept("How much does the Team plan cost?", weak, strong) == ["The team plan costs 19 euros per month!"]


@pytest.mark.parametrize(
    "other",
    [
        "The Team plan costs 21 euros per month.",
        "The Team plan does not cost 19 euros per month.",
        "The Solo plan costs 19 euros per month.",
        "The Team plan costs 19 dollars per month.",
    ],
)
def test_a_strip_that_differs_in_a_word_is_never_hidden(other: str) -> None:
    assert set(kept("How much does the Team plan cost?", piece("a", PRICE), piece("b", other))) == {
        PRICE.strip(),
        other,
    }


def test_a_sign_makes_a_difference_though_it_is_no_word() -> None:
    assert len(kept("What is the Team price?", piece("a", "Team price: €19"), piece("b", "Team price: $19"))) == 2


def test_a_budget_of_nothing_keeps_nothing() -> None:
    assert kept("How much does the Team plan cost?", piece("a", PRICE), budget=0) == []


def test_what_matches_does_not_depend_on_budget_or_company() -> None:
    question, own = "How much does the Team plan cost?", piece("a", FILLER + PRICE)
    (strip,) = (s for s in matched(question, own, grade("a")) if own.text[s.start : s.end] == PRICE.strip())
    assert 0 < strip.score <= 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Label.RELEVANT, Label.AMBIGUOUS),
        (Label.AMBIGUOUS, Label.IRRELEVANT),
        (Label.IRRELEVANT, Label.IRRELEVANT),
        (Label.UNKNOWN, Label.UNKNOWN),
    ],
)
def test_nothing_that_matches_lowers_a_grade_by_one_label(before: Label, after: Label) -> None:
    down = lowered(grade("a", before), ())
    assert down.label is after
    assert (down.relevance == 0.45) == (before is not after)


def test_a_grade_with_matching_strips_stays() -> None:
    own = grade("a")
    assert lowered(own, (Strip(id="a", start=0, end=3),)) is own
