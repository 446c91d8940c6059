from __future__ import annotations

import io
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas

from kb.errors import FailureCode
from tests.unit.ingest.parse.laws import code, failure, headings, parsed

if TYPE_CHECKING:
    from collections.abc import Sequence

SONG = "STSong-Light"


def pdf(*pages: Sequence[tuple[str, float, str]], locked: str = "", outline: dict[int, str] | None = None) -> bytes:
    """Return a PDF; each page is lines of (font, size, text) from top to bottom; a blank text leaves a gap."""
    pdfmetrics.registerFont(UnicodeCIDFont(SONG))
    out = io.BytesIO()
    canvas = Canvas(out, encrypt=StandardEncryption(locked) if locked else None)
    for number, lines in enumerate(pages):
        if outline and number in outline:
            canvas.bookmarkPage(f"p{number}")
            canvas.addOutlineEntry(outline[number], f"p{number}", level=0)
        y = 800.0
        for font, size, text in lines:
            canvas.setFont(font, size)
            canvas.drawString(72, y, text)
            y -= size * 1.3
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def body(*texts: str) -> list[tuple[str, float, str]]:
    return [("Helvetica", 10, text) for text in texts]


def test_pages_and_paragraphs_are_kept_and_lines_joined() -> None:
    one = body("The refund policy covers every prod-", "uct that was sold in this quarter.", "", "Another paragraph.")
    document = parsed("a.pdf", pdf(one, body("Second page.")))
    assert [(b.page, b.text) for b in document.blocks] == [
        (1, "The refund policy covers every product that was sold in this quarter."),
        (1, "Another paragraph."),
        (2, "Second page."),
    ]
    assert document.properties["pages"] == 2


def test_chinese_pages_read_as_written() -> None:
    lines = [
        (SONG, 12, "第一章 总则"),
        (SONG, 12, "本办法适用于公司全体员工，包括试用期"),
        (SONG, 12, "员工和实习生。"),
    ]
    document = parsed("a.pdf", pdf(lines))
    assert headings(document) == [(2, "第一章 总则")]
    assert "本办法适用于公司全体员工，包括试用期员工和实习生。" in document.text


def test_the_outline_gives_headings() -> None:
    document = parsed("a.pdf", pdf(body("Scope", "", "It covers all."), outline={0: "Scope"}))
    assert headings(document) == [(1, "Scope")]
    assert document.title == "Scope"


def test_large_type_gives_headings_where_there_is_no_outline() -> None:
    page = [("Helvetica-Bold", 20, "User guide"), *body(*["Body text of the guide, long enough."] * 20)]
    assert headings(parsed("a.pdf", pdf(page))) == [(1, "User guide")]


def test_running_heads_are_left_out() -> None:
    pages = [
        body("ACME internal", *[f"text {i} of page {n}, differing" for i in range(5)], f"{n} / 6") for n in range(6)
    ]
    document = parsed("a.pdf", pdf(*pages))
    assert "ACME internal" not in document.text
    assert "text 4 of page 5" in document.text


def test_a_password_is_asked_for() -> None:
    assert code("a.pdf", pdf(body("secret"), locked="pässwörd")) is FailureCode.ENCRYPTED


def test_pages_without_text_are_named_and_a_scan_is_told_to_use_ocr() -> None:
    document = parsed("a.pdf", pdf(body("text"), [], []))
    assert "2 of 3 pages have no text: 2, 3" in document.warnings
    error = failure("a.pdf", pdf([], []))
    assert error.code is FailureCode.NO_TEXT
    assert "OCR" in error.hint


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_a_truncated_file_is_corrupt_or_read_never_silent(keep: float) -> None:
    data = pdf(body("text"))
    assert code("a.pdf", data[: int(len(data) * keep)]) is FailureCode.CORRUPT


def test_six_hundred_pages_are_read_in_bounded_memory() -> None:
    data = pdf(*[body(*[f"Line {i} of page {n} says something of its own." for i in range(40)]) for n in range(600)])
    tracemalloc.start()
    document = parsed("a.pdf", data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert document.blocks[-1].page == 600
    assert peak < 200_000_000
