"""What was erased or rolled back stays out when another part of its file is edited, or its text comes as a copy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kb.model import Standing
from tests.forgetting import forget
from tests.rolling import later, note, roll_back, says, stored, sync

if TYPE_CHECKING:
    from pathlib import Path

    from kb.memories import Memories

LONG = " ".join(f"Sentence {n} of the guide adds a detail that nobody asks for." for n in range(34))
REST = LONG.replace("guide", "rest")
PEOPLE = [f"Ann{i} Lee{i}, tel 55{i:05}, {i} Harbour Road" for i in range(70)]
ZH = "王小明的护照号码是八八七七六六五五。他住在安平港口路十二号的旧房子里。"
POISON = "The Anping bridge carries ninety tons on a dry day. Its toll is three coins for everybody who crosses it."


def md(section: str, more: str = "", before: str = LONG) -> str:
    section = section if section.startswith("##") else f"## P\n\n{section}"
    return f"# Staff\n\n{before}\n\n{section}\n\n## More\n\n{more}{REST}\n"


def lines(form: str, *, new: str = "") -> str:
    return new + "\n".join(form.format(i=i, p=p) for i, p in enumerate(PEOPLE)) + "\n"


def numbered(*first: str) -> str:
    items = [*first, *(f"Ann{i} Lee{i} lives at number {i} of the Harbour Road." for i in range(70))]
    return "# Staff\n\n" + "\n".join(f"{n}. {item}" for n, item in enumerate(items, 1)) + "\n"


def clauses(*first: str) -> str:
    said = [*first, *(f"heir {n} of the house called Ann{n} Lee{n} with passport X{n * 7919}" for n in range(60))]
    return ", ".join(said) + ".\n"


def staff(*first: str) -> str:
    return json.dumps({"staff": {**dict.fromkeys(first, "x"), **{f"u{i}": p for i, p in enumerate(PEOPLE)}}})


FORM = "## P\n\nName: Ann Lee\nAddress: 12 Harbour Road\nPassport: X1234567"
ROWS = "| name | phone | no |\n|---|---|---|\n{}| Ann Lee | 5551234 | X1 |\n| Bob Roy | 5559999 | X2 |"
NEW_ROW = "| New One | 1 | X9 |\n"
BARE = "name | phone | no\n--- | --- | ---\n{}Ann Lee | 5551234 | X1\nBob Roy | 5559999 | X2"
ABOUT = "The phone of Ann Lee is 5551234 in the house of hers"
CASES: dict[str, tuple[str, str, str, str]] = {  # name of the file, before, after, what must not come back
    # lines have no sentences
    "lines of a text": ("a.txt", lines("{p}"), lines("{p}", new="New Person, 1 Road\n"), PEOPLE[3]),
    "lines of code": ("a.py", lines('U{i} = "{p}"'), lines('U{i} = "{p}"', new="NEW = 1\n"), PEOPLE[3]),
    "lines of yaml": ("a.yaml", lines('u{i}: "{p}"'), lines('u{i}: "{p}"', new="new: 1\n"), PEOPLE[3]),
    "lines of json": ("a.json", staff(), staff("new"), PEOPLE[3]),
    "a form": ("a.md", md(f"{FORM}\nGrade: nine"), md(f"{FORM}\nGrade: ten"), "X1234567"),
    "short items": ("a.md", lines("- Ann{i}: {i}1"), lines("- Ann{i}: {i}1", new="- New: 1\n"), "Ann3: 31"),
    "a table without outer pipes": ("a.md", md(BARE.format("")), md(BARE.format("New | 1 | X9\n")), "5551234"),
    "a table under a line": (
        "a.md",
        md("These:\n" + ROWS.format("")),
        md("These:\n" + ROWS.format(NEW_ROW)),
        "5551234",
    ),
    "a table in a quotation": (
        "a.md",
        md("> " + ROWS.format("").replace("\n", "\n> ")),
        md("> " + ROWS.format(NEW_ROW).replace("\n", "\n> ")),
        "5551234",
    ),
    # what an item begins with
    "numbered items": ("a.md", numbered(), numbered("New Person lives elsewhere by now."), "lives at number 3 "),
    "numbered items in html": (
        "a.html",
        f"<h1>S</h1><p>{LONG}</p><h2>L</h2><ol><li>{ABOUT}.</ol><h2>M</h2><p>{REST}</p>",
        f"<h1>S</h1><p>{LONG}</p><h2>L</h2><ol><li>New.<li>{ABOUT}.</ol><h2>M</h2><p>{REST}</p>",
        "5551234",
    ),
    "numbered items in Chinese": (
        "a.md",
        md("## 王\n\n1、" + ZH.replace("。他", "。\n2、他")),
        md("## 王\n\n1、首先说一件新的没有关系的事情。\n2、" + ZH.replace("。他", "。\n3、他")),
        "八八七七",
    ),
    "other bullets": ("a.md", md(f"- {ABOUT}."), md(f"* {ABOUT}."), "5551234"),
    # headings of forms that are alike
    "a heading's level": ("a.md", md(f"## Ann Lee\n\n{LONG}"), md(f"### Ann Lee\n\n{LONG}"), "Ann Lee"),
    "a heading's form": ("a.md", md(f"## Ann Lee\n\n{LONG}"), md(f"Ann Lee\n-------\n\n{LONG}"), "Ann Lee"),
    "a heading's number": ("a.md", md(f"## 2. Ann Lee\n\n{LONG}"), md(f"## 3. Ann Lee\n\n{LONG}"), "Ann Lee"),
    # spelling
    "quotation marks": ("a.md", md(f"It's said: {ABOUT}."), md(f"It’s said: {ABOUT}."), "5551234"),
    "emphasis": ("a.md", md(f"{ABOUT}."), md(ABOUT.replace("Ann Lee", "**Ann Lee**") + "."), "5551234"),
    "a full stop": ("a.md", md(ABOUT), md(f"{ABOUT}."), "5551234"),
    "a quotation": ("a.md", md(f"{ABOUT}."), md("> " + ABOUT.replace(" in ", "\n> in ") + "."), "5551234"),
    "unseen letters": ("a.md", md(f"{ABOUT}."), md(ABOUT.replace("house", "hou\u00adse") + ".\u200b"), "5551234"),
    "cells closed up": ("a.md", md(ROWS.format("")), md(ROWS.format(NEW_ROW).replace(" | ", "|")), "5551234"),
    "wrapped Chinese": (
        "a.md",
        md(f"## 王\n\n{ZH}"),
        md("## 王\n\n" + ZH.replace("码是", "码\n是").replace("港口", "港\n口")),
        "八八七七",
    ),
    "half-width Chinese": ("a.md", md(f"## 王\n\n{ZH}"), md(f"## 王\n\n{ZH}".replace("。", ". ")), "八八七七"),
    "spaced Chinese": (
        "a.md",
        md("## 王\n\n王小明的护照号码是E887766。"),
        md("## 王\n\n王小明的护照号码是 E887766。"),
        "887766",
    ),
    # two scripts
    "two scripts": (
        "a.md",
        md("## 王\n\n王小明，手机13800138000，邮箱wang@example.com。"),
        md("## 王\n\n王小明，手机13800138000，邮箱wang@example.com。每天晚上大家都会去听音乐会的演出。"),
        "13800138000",
    ),
    # sentences that are cut inside
    "a long sentence": ("a.txt", clauses(), clauses("heir zero with no passport at all"), "Ann3 Lee3"),
    "a long Chinese sentence": (
        "a.txt",
        "，".join(f"第{n}位继承人王小明{n}的护照号码是E{n * 7919}" for n in range(60)),
        "首先要说的是新的一位继承人没有护照，"
        + "，".join(f"第{n}位继承人王小明{n}的护照号码是E{n * 7919}" for n in range(60)),
        "王小明3的",
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_erased", [True, False], ids=["erased", "rolled back"])
def test_it_stays_out(store: Memories, folder: Path, tmp_path: Path, name: str, *, is_erased: bool) -> None:
    file, before, after, words = CASES[name]
    (folder / file).write_text(before, encoding="utf-8")
    sync(store, folder)
    bad = stored(store, words)[0]
    if is_erased:
        forget(store, tmp_path, bad.id)
    else:
        roll_back(store, memories=(bad.id,))
    later(store)
    (folder / file).write_text(after, encoding="utf-8")
    sync(store, folder)
    assert [m.text for m in stored(store, words) if is_erased or m.standing is Standing.ACTIVE] == []


COPIES = {
    "in a file of another name, edited": md(f"## Load\n\n{POISON} It opens at noon."),
    "in another paragraph": md(f"## Bridge\n\nNew words stand here now. {POISON}"),
    "among rows": "",
}


@pytest.mark.parametrize("name", COPIES)
def test_what_was_rolled_back_is_not_retrieved_from_an_edited_copy(
    store: Memories, folder: Path, tmp_path: Path, name: str
) -> None:
    """A copy that holds half of it, or more, is known by its sentences and rows."""
    table, words = ("name,phone,addr\n{}" + "\n".join(PEOPLE), PEOPLE[3].split(",")[0]), "ninety tons"
    before, after, ext = (
        (table[0].format(""), table[0].format("New,1,2\n"), "csv")
        if not COPIES[name]
        else (md(f"## Load\n\n{POISON}"), COPIES[name], "md")
    )
    words = words if COPIES[name] else table[1]
    (folder / f"a.{ext}").write_text(before, encoding="utf-8")
    sync(store, folder)
    roll_back(store, memories=(stored(store, words)[0].id,))
    later(store)
    other = tmp_path / "other"
    other.mkdir()
    (other / f"b.{ext}").write_text(after, encoding="utf-8")
    sync(store, other)
    assert not says(store, words)


def test_a_note_that_quotes_what_was_rolled_back_waits(store: Memories, folder: Path) -> None:
    (folder / "a.md").write_text(md(f"## Load\n\n{POISON}"), encoding="utf-8")
    sync(store, folder)
    roll_back(store, memories=(stored(store, "ninety tons")[0].id,))
    assert note(store, POISON.partition(". ")[0] + ".").standing is Standing.QUARANTINED


OVER = {
    "a setext heading": ("a.md", "How many tons does the Anping bridge carry now?\n-----", "a.md"),
    "a numbered heading": ("a.txt", "1.2 How much the bridge of Anping carries", "a.txt"),
    "a Chinese article": ("a.txt", "第二条 安平大桥最大载重的规定", "a.txt"),
}


@pytest.mark.parametrize("name", OVER)
@pytest.mark.parametrize("is_erased", [True, False], ids=["erased", "rolled back"])
def test_new_words_under_an_old_heading_come_in(
    store: Memories, folder: Path, tmp_path: Path, name: str, *, is_erased: bool
) -> None:
    """A heading is known as one in every spelling, and alone bars nothing."""
    file, heading, _ = OVER[name]
    (folder / file).write_text(
        f"{LONG}\n\n{heading}\n\nIt carries ninety tons on every dry day.\n\n{REST}\n", encoding="utf-8"
    )
    sync(store, folder)
    bad = stored(store, "ninety tons")[0]
    if is_erased:
        forget(store, tmp_path, bad.id)
    else:
        roll_back(store, memories=(bad.id,))
    later(store)
    (folder / file).write_text(
        f"{LONG}\n\n{heading}\n\nThe town has measured forty of them.\n\n{REST}\n", encoding="utf-8"
    )
    sync(store, folder)
    assert says(store, "measured forty")


def test_rows_of_small_numbers_keep_no_other_table_out(store: Memories, folder: Path, tmp_path: Path) -> None:
    """A row of numbers is nobody's secret."""
    (folder / "a.csv").write_text("day,errors,retries\n" + "".join(f"{d},{d % 3},0\n" for d in range(1, 20)))
    sync(store, folder)
    forget(store, tmp_path, stored(store, "errors")[0].id)
    (folder / "b.csv").write_text("month,cats,dogs\n" + "".join(f"{d},{d % 3},0\n" for d in range(1, 13)))
    sync(store, folder)
    assert says(store, "cats")


def rows(*names: str, end: str = "") -> str:
    return "no,name,phone\n" + "".join(f"{n},{name},5{n * 0}55123{name[-1]}{end}\n" for n, name in enumerate(names, 1))


def test_a_row_is_known_again_under_another_number(store: Memories, folder: Path, tmp_path: Path) -> None:
    """Rows that are counted get other numbers when one comes in before."""
    names = [f"Ann{i} Lee" for i in range(60)]
    (folder / "a.csv").write_text(rows(*names))
    sync(store, folder)
    forget(store, tmp_path, stored(store, "Ann3 Lee")[0].id)
    later(store)
    (folder / "a.csv").write_text(rows("New One", *names))
    sync(store, folder)
    assert stored(store, "Ann3 Lee") == []
