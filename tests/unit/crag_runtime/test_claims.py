"""Values compare equal across formats and languages, and only the asked kind is taken."""

from __future__ import annotations

import pytest

from crag_runtime.refining.claims import ClaimKind, claims_of, same_value
from kb.words.quantities import quantities_of

TODAY = 1_790_000_000_000


def one(question: str, text: str, span: str = "") -> tuple[str, str, str] | None:
    found = claims_of(question, text, span, today=TODAY)
    return (found[0].kind.value, found[0].value, found[0].unit) if found else None


@pytest.mark.parametrize(
    ("spellings", "number", "unit"),
    [
        (("19 euros", "€19", "19 EUR", "19欧元", "19,00 €", "nineteen euros", "十九欧元"), 19, "eur"),
        (("3.5 GB", "3.5GB", "3,500 MB"), 3.5e9, "byte"),
        (("50%", "50 percent", "50％", "50 %", "百分之五十", "fifty percent"), 50, "percent"),
        (("40 t", "40 tons", "40吨", "40,000 kg", "forty tonnes"), 4e7, "gram"),
        (("1,000 users", "1000 users", "1 000 users", "one thousand users", "1k users"), 1000, "user"),
        (("120 people", "一百二十人", "120名", "one hundred and twenty people"), 120, "person"),
        (("$10.4 billion", "10,400 million dollars", "104亿美元"), 1.04e10, "usd"),
        (("90 minutes", "1.5 hours", "1.5小时", "90分钟"), 5400, "second"),
        (("two years", "24 months", "两年", "24个月"), 24, "month"),
        (("二十万元", "20万元", "¥200,000"), 200_000, "cny"),
        (("10.94‰", "1.094%"), 1.094, "percent"),
    ],
)
def test_one_quantity_in_many_spellings(spellings: tuple[str, ...], number: float, unit: str) -> None:
    for spelling in spellings:
        (found,) = quantities_of(f"it is {spelling}") if spelling.isascii() else quantities_of(spelling)
        assert (found.number, found.unit) == (pytest.approx(number), unit), spelling


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("19 euros per month", "month"), ("€19/month", "month"), ("19 euros per seat and month", "month"),
        ("每月19欧元", "month"), ("19欧元/月", "month"), ("190 euros a year", "year"), ("年费190欧元", "year"),
        ("19 euros", ""),
    ],
)  # fmt: skip
def test_a_price_knows_what_it_is_per(text: str, rate: str) -> None:
    assert quantities_of(text)[0].rate == rate


@pytest.mark.parametrize("text", ["v2.4.1", "2021-02-12", "10:30", "第六届", "COVID-19", "万一", "one of them", "6-7"])
def test_what_only_looks_like_a_quantity_is_none(text: str) -> None:
    assert quantities_of(text) == ()


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        ("about 400 people", "412 people", True),
        ("more than 400 people", "900 people", True),
        ("400 people", "412 people", False),
        ("$10.4 billion", "$10,389 million", True),
        ("$10.4 billion", "$1.39 billion", False),
        ("最多40吨", "35 t", True),
        ("至少40吨", "35 t", False),
    ],
)
def test_numbers_agree_as_exactly_as_they_are_said(one: str, other: str, agree: bool) -> None:  # noqa: FBT001 - a table
    assert quantities_of(one)[0].agrees(quantities_of(other)[0]) is agree


@pytest.mark.parametrize(
    ("question", "text", "span", "expected"),
    [
        ("How much is Team?", "Team is 19 euros a month. Solo is 9 euros.", "", ("number", "19", "eur/month")),
        ("团队方案多少钱？", "团队方案每月19欧元。", "", ("number", "19", "eur/month")),
        ("Which TLS version is required?", "Clients need TLS 1.2.", "", ("version", "1.2", "tls")),
        ("What is the newest version of Falcon?", "Falcon v2.4.1 is out.", "", ("version", "2.4.1", "")),
        ("When was it released?", "It was released on 29 May 2020.", "", ("date", "2020-05-29", "")),
        ("什么时候上映？", "影片于2021年2月12日上映。", "", ("date", "2021-02-12", "")),
        ("When did it open?", "It opened in 1998.", "1998", ("date", "1998", "")),
        ("Is SSO part of Team?", "SSO is no longer part of Team.", "", ("negation", "no", "")),
        ("Team包括SSO吗？", "Team不包括SSO。", "", ("negation", "no", "")),
        ("Team包括SSO吗？", "Team包括SSO。", "", ("negation", "yes", "")),
        ("Who won?", "Ashleigh Barty won.", "Ashleigh Barty", ("name", "ashleigh barti", "")),
        ("Who won?", "Ashleigh Barty won 6-3.", "", None),
        ("What is the price of Team?", "Team is €19.", "", ("number", "19", "eur")),
        ("How many seats has Team?", "Solo has a seat.", "", None),
    ],
)
def test_the_value_of_the_kind_that_is_asked(
    question: str, text: str, span: str, expected: tuple[str, str, str] | None
) -> None:
    assert one(question, text, span) == expected


def test_a_value_of_the_question_is_no_answer_to_it() -> None:
    assert one("How much was it in 2024 for 10 seats?", "It was 10 seats in 2024.") is None


def test_a_claim_points_at_its_place_and_sentence() -> None:
    text = "First. The Team plan costs 19 euros."
    (claim,) = claims_of("How much does the Team plan cost?", text, today=TODAY)
    assert text[claim.start : claim.end] == "19 euros"
    assert claim.quote == "The Team plan costs 19 euros."


def test_a_surname_is_the_same_as_the_whole_name() -> None:
    (full,) = claims_of("Who won?", "Ashleigh Barty won.", "Ashleigh Barty", today=TODAY)
    (short,) = claims_of("Who won?", "It was Barty!", "Barty", today=TODAY)
    assert full.kind is ClaimKind.NAME
    assert same_value(full, short)
