"""A passage that differs from its neighbours in a few short words does not come back for what they say as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kb.model import Standing
from tests.forgetting import forget
from tests.invariants import broken
from tests.rolling import FILLER, later, note, roll_back, says, stored, sync
from tests.stores import write

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories
    from kb.model import Memory


def staff(*sections: str, more: str = "") -> str:
    """Return a list of people whose passages say one thing of each, and the same of all."""
    parts = [f"{section} {FILLER}" for section in sections]
    return "\n\n".join(["# Staff", *parts, *([f"## More\n\n{more} {FILLER.replace('guide', 'rest')}"] * bool(more))])


BOB = "## Bob Ray\n\nGrade 3."
WHOM = {
    "a short sentence": "## Person\n\nAnn Lee.",
    "a heading": "## Ann Lee\n\n",
    "a heading on the next line": "## Ann Lee\n",
    "two headings": "## Ann Lee\n\n### Grade 9\n\n",
    "a short paragraph": "## Person\n\nAnn Lee.\n\n",
}


def the_one(store: Memories, words: str) -> Memory:
    (memory,) = stored(store, words)
    return memory


@pytest.mark.parametrize("is_first", [False, True], ids=["last", "first"])
@pytest.mark.parametrize("whom", WHOM)
def test_an_erased_person_does_not_come_back_among_others(
    store: Memories, folder: Path, tmp_path: Path, whom: str, *, is_first: bool
) -> None:
    write(folder, staff_md=staff(BOB, WHOM[whom]))
    sync(store, folder)
    forget(store, tmp_path, the_one(store, "Ann Lee"))
    later(store)
    order = (WHOM[whom], BOB) if is_first else (BOB, WHOM[whom])
    write(folder, staff_md=staff(*order, more="A canteen was opened in the spring of this year."))
    report = sync(store, folder)
    assert says(store, "A canteen was opened")
    assert stored(store, "Ann Lee") == []
    assert any("erased" in w.reason for w in report.warnings)
    assert broken(store) == []


@pytest.mark.parametrize("is_first", [False, True], ids=["last", "first"])
@pytest.mark.parametrize("whom", WHOM)
def test_a_bad_passage_does_not_come_back_for_the_words_around_it(
    store: Memories, folder: Path, whom: str, *, is_first: bool
) -> None:
    write(folder, staff_md=staff(BOB, WHOM[whom]))
    sync(store, folder)
    roll_back(store, memories=(the_one(store, "Ann Lee").id,))
    later(store)
    order = (WHOM[whom], BOB) if is_first else (BOB, WHOM[whom])
    write(folder, staff_md=staff(*order, more="A canteen was opened in the spring of this year."))
    sync(store, folder)
    assert says(store, "A canteen was opened")
    assert not says(store, "Ann Lee")
    assert {m.standing for m in stored(store, "Ann Lee")} == {Standing.QUARANTINED}


def test_what_a_document_says_word_for_word_it_may_say_in_another_passage(store: Memories, folder: Path) -> None:
    write(folder, staff_md=f"{staff(BOB)}\n")
    sync(store, folder)
    copied = note(store, the_one(store, "Bob Ray").text.partition("\n\n## Bob Ray\n\n")[2])
    roll_back(store, memories=(copied.id,))
    later(store)
    write(folder, staff_md=staff(BOB.replace("## Bob", "## Robert"), more="A canteen was opened in the spring."))
    sync(store, folder)
    assert says(store, "## Robert Ray\n\nGrade 3.")
