"""By which pieces a passage is known again."""

from __future__ import annotations

import pytest

from kb.telling import bodies, is_telling, marks, sayings, telling_sentences

LONG = "The person named above is employed here since long ago."
OTHER = "Another sentence follows that all of these forms have."
TABLE = "| Name | Grade | Room |\n| --- | ---: | --- |\n| Ann Lee | 9 | 12 |\n| Bob | | |\n| 王小明 | 9 | |"


def test_a_heading_needs_no_blank_line_after_it() -> None:
    said = f"{LONG} {OTHER}"
    assert marks(f"## Load\n{said}") == (f"## Load\n{said}", said, f"## Load\n\n{said}")
    assert telling_sentences(f"## Load\n{said}") == (LONG, OTHER)
    assert sayings(f"# Guide\n## Load\n{said}") == sayings(said)


def test_a_heading_alone_tells_nothing_however_long() -> None:
    heading = "## What the Anping bridge carries on a dry day"
    assert marks(heading) == (heading,)
    assert telling_sentences(heading) == ()


def test_what_is_short_sets_a_paragraph_apart_on_either_side_near_and_far() -> None:
    (body,) = bodies(f"# Staff\n\n## Ann Lee\n\nGrade 9.\n\n{LONG}\n\nSigned.\n\nRoom 12.")
    assert body.before == ("# Staff", "## Ann Lee", "Grade 9.")
    assert body.after == ("Signed.", "Room 12.")
    assert list(body.set_apart()) == [
        f"Grade 9.\n\n{LONG}",
        f"## Ann Lee\n\nGrade 9.\n\n{LONG}",
        f"# Staff\n\n## Ann Lee\n\nGrade 9.\n\n{LONG}",
        f"{LONG}\n\nSigned.",
        f"{LONG}\n\nSigned.\n\nRoom 12.",
    ]


def test_a_form_is_known_again_under_other_headings() -> None:
    erased = marks(f"## Ann Lee\n\n### Post\n\n{LONG}")
    again = marks(f"# Staff\n\nAll of them.\n\n## Ann Lee\n\n### Post\n\n{LONG}\n\nSigned.")
    of_another = marks(f"# Staff\n\n## Bob Ray\n\n### Post\n\n{LONG}")
    assert f"## Ann Lee\n\n### Post\n\n{LONG}" in {*erased} & {*again}
    assert {*erased} & {*of_another} == {LONG, f"### Post\n\n{LONG}"}


def test_rows_of_a_table_are_known_one_by_one_but_not_its_header() -> None:
    assert telling_sentences(TABLE) == ("| Ann Lee | 9 | 12 |", "| 王小明 | 9 | |")
    assert telling_sentences(f"## Staff\n{TABLE}") == telling_sentences(TABLE)


@pytest.mark.parametrize(
    ("piece", "is_so"),
    [
        ("See below.", False),
        ("| yes | no |", False),
        ("| Ann Lee | 9 |", True),
        ("Ann Lee has grade nine.", True),
        ("见下文。", False),
        ("安平桥可以承载九十吨。", True),
        ("", False),
    ],
)
def test_what_is_telling(piece: str, is_so: bool) -> None:  # noqa: FBT001 - a table
    assert is_telling(piece) is is_so


@pytest.mark.parametrize("text", ["", "Yes.", "#", "## ", "|", "| --- |", "#\n#\n#", "\n\n \n"])
def test_what_says_little_is_known_as_a_whole(text: str) -> None:
    assert marks(text) == (text,)
    assert telling_sentences(text) == ()
