from __future__ import annotations

import pytest

from kb.words.figures import Date, Quantity, figures


@pytest.mark.parametrize(
    "text",
    [
        "1 July 2026",
        "July 1, 2026",
        "Jul. 1 2026",
        "1st of July 2026",
        "2026-07-01",
        "2026/7/1",
        "2026年7月1日",
        "２０２６年７月１日",
    ],
)
def test_a_date_is_one_date_however_it_is_written(text: str) -> None:
    assert figures(f"since {text} or so").dates == (Date(2026, 7, 1),)
    assert figures(text).quantities == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("€1,075.50", Quantity(1075.5, "money:eur")),
        ("19欧元", Quantity(19, "money:eur")),
        ("$10.4 billion", Quantity(10.4e9, "money:usd")),
        ("14亿人口", Quantity(14e8, "")),
        ("99.95 %", Quantity(99.95, "share:percent")),
        ("30-day", Quantity(30, "time:d")),
        ("2 MiB", Quantity(2, "size:mb")),
        ("4,000/s", Quantity(4000, "")),
    ],
)
def test_a_quantity_has_its_number_and_unit(text: str, expected: Quantity) -> None:
    assert figures(text).quantities == (expected,)


@pytest.mark.parametrize(
    ("text", "number"),
    [("three days", 3), ("三十天", 30), ("两倍", 2), ("五千个", 5000), ("十二个月", 12), ("三百五十人", 350)],
)
def test_numbers_in_words_are_numbers(text: str, number: float) -> None:
    assert [q.number for q in figures(text).worded] == [number]


@pytest.mark.parametrize("text", ["十分重要", "三星手机", "统一说明", "v2.3.1", "E1007", "127.0.0.1"])
def test_what_only_looks_like_a_number_is_none(text: str) -> None:
    found = figures(text)
    assert (found.quantities, found.worded, found.dates) == ((), (), ())


def test_a_date_covers_what_says_less_and_a_cell_without_unit_fits_any() -> None:
    assert Date(2026, 7, 1).covers(Date(2026, None, None))
    assert not Date(2026, None, None).covers(Date(2026, 7, 1))
    assert Quantity(75, "").covers(Quantity(75, "money:eur"))
    assert not Quantity(75, "money:usd").covers(Quantity(75, "money:eur"))
