"""A forecast can be looked at: one picture, whatever its sources are called."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from governance.forecast import forecast
from governance.plot import NAMED, Writer, plotted
from kb.ledger.governed import governed_row
from kb.model import SourceClass
from tests.governing import a_policy, governed
from tests.stores import T0

if TYPE_CHECKING:
    from pathlib import Path

PNG = b"\x89PNG\r\n\x1a\n"


def size_of(picture: Path) -> tuple[int, int]:
    data = picture.read_bytes()
    assert data.startswith(PNG)
    return struct.unpack(">II", data[16:24])  # type: ignore[return-value]


def test_a_picture_is_drawn_of_many_sources_with_names_in_any_script(tmp_path: Path) -> None:
    policy = a_policy()
    names = ["知识库", "_hidden", "$x^", "a" * 80, *(f"source{n}" for n in range(NAMED))]
    rows = [(name, governed_row(governed(f"{n}", policy=policy, age=n))) for n, name in enumerate(names)]
    plotted(forecast(rows, policy, T0, 60, synced={"知识库"}), tmp_path / "f.png")
    assert size_of(tmp_path / "f.png") == (1600, 1000)


def test_an_empty_tenant_has_a_picture_too(tmp_path: Path) -> None:
    plotted(forecast([], a_policy(), T0, 1), tmp_path / "f.png", title="预测")
    assert size_of(tmp_path / "f.png") == (1600, 1000)


def test_a_source_that_never_passes_is_not_in_the_way(tmp_path: Path) -> None:
    policy = a_policy()
    rows = [("", governed_row(governed("n", SourceClass.WEB, policy=policy)))]
    plotted(forecast(rows, policy, T0, 3), tmp_path / "f.png")
    assert size_of(tmp_path / "f.png") == (1600, 1000)


def test_what_no_font_can_show_is_a_mark_that_is_explained_and_never_a_box() -> None:
    writer = Writer(["DejaVu Sans"])
    drawn = writer.drawable("file://docs/知识库/$a.md")
    assert drawn.startswith("file://docs/<")
    assert drawn.endswith(">/$a.md")
    assert drawn.isascii()
    (mark,) = writer.marks
    assert (mark in drawn, writer.marks[mark]) == (True, "知识库")
    assert writer.drawable("plain") == "plain"


def test_a_picture_tells_its_marks_or_has_a_font_for_every_name(tmp_path: Path) -> None:
    policy = a_policy()
    name = "知识库"
    rows = [(name, governed_row(governed("n", policy=policy)))]
    marks = plotted(forecast(rows, policy, T0, 3, synced={name}), tmp_path / "f.png")
    assert set(marks.values()) <= {name}
