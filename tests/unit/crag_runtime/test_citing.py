from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.checking.citing import Marks, Part, cited_ids, cited_numbers, normalised, pieces, unmarked
from crag_runtime.evidence import Citation
from crag_runtime.generators.quotation import inert

KNOWN = frozenset({1, 2, 3})
ATOMS = """[1]|[2, 3]|【1】|［２］|[9]| [9]|[1-3]|[source 2]|【3†p】|`|```|\n|\\[|\\
| |[|]|price|19 euros.|每月。|x[0]|[2024]|1|,|[[1]]|[1](http://a)"""
TEXTS = st.lists(st.sampled_from([*ATOMS.split("|"), "| a |"]), max_size=14).map("".join)


@given(TEXTS | st.text(max_size=60), st.lists(st.integers(1, 7), max_size=30))
def test_marks_do_not_depend_on_how_the_text_is_cut(text: str, cuts: list[int]) -> None:
    whole, marks, position, out = normalised(text, KNOWN), Marks(KNOWN), 0, ""
    for size in cuts:
        out += marks.feed(text[position : position + size])
        position += size
    assert out + marks.feed(text[position:]) + marks.close() == whole


@given(TEXTS)
def test_only_known_numbers_are_left_counted_from_one(text: str) -> None:
    marks = Marks(KNOWN)
    out = marks.feed(text) + marks.close()
    assert set(marks.used) <= KNOWN
    assert sorted(marks.used.values()) == list(range(1, len(marks.used) + 1))
    assert normalised(out) == out


@given(TEXTS | st.text(max_size=60))
def test_foreign_text_made_unmarked_cites_nothing(text: str) -> None:
    line = text.replace("\n", " ")
    assert cited_numbers(unmarked(line)) == ()
    assert cited_numbers(f"“{inert(line)}” [1]") == (1,)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("19 euros [1, 2].", "19 euros [1][2]."),
        ("每月【1】", "每月[1]"),
        ("［３］ and [1、 2]", "[1] and [2][3]"),
        ("so [7].", "so."),
        ("so [7, 2].", "so [1]."),
        ("`a[1]` stays, [2] counts", "`a[1]` stays, [1] counts"),
        ("```\nx[1]\n``` [1]", "```\nx[1]\n``` [1]"),
        ("in [2024]", "in [2024]"),
        ("[1-3]", "[1][2][3]"),
        ("[Source 2] 【1†page 4】", "[1] [2]"),
        (r"\[1\] is text", r"\[1\] is text"),
    ],
)
def test_marks_take_one_form(written: str, expected: str) -> None:
    assert normalised(written, KNOWN) == expected


def test_a_mark_after_the_full_stop_belongs_to_the_sentence_before_it() -> None:
    found = pieces("It costs 75 euros. [1] It is billed monthly.[2] 每月计费。[3]没有折扣。")
    assert [(p.text, p.numbers) for p in found] == [
        ("It costs 75 euros.", (1,)),
        ("It is billed monthly.", (2,)),
        ("每月计费。", (3,)),
        ("没有折扣。", ()),
    ]


def test_a_quotation_is_not_cut_and_a_block_cites_what_the_line_before_it_does() -> None:
    found = pieces("**75** — “One. Two. Three.” [1]\n\n```\n| a[2] |\n```\n| h |\n| - |\n| Team 75 [2] |")
    assert [(p.text, p.numbers, p.part) for p in found] == [
        ("**75** — “One. Two. Three.”", (1,), Part.SENTENCE),
        ("| a[2] |", (1,), Part.BLOCK),
        ("| h |", (), Part.FRAME),
        ("| - |", (), Part.FRAME),
        ("| Team 75 |", (2,), Part.SENTENCE),
    ]


def test_cited_ids_come_in_the_order_of_the_text_and_unknown_numbers_are_passed_over() -> None:
    citations = [Citation(number=1, id="a", quote=""), Citation(number=2, id="b", quote="")]
    assert cited_ids("x [2] y [1] z [2] [8]", citations) == ("b", "a")
