from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import docx
import openpyxl
import pptx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from pptx.util import Inches

from ingest.blocks import BlockKind
from ingest.parse import ParseLimits
from ingest.parse.unstructured_shim import partitioner, prepare
from kb.errors import FailureCode
from tests.unit.ingest.parse.laws import code, headings, of_kind, parsed

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def saved(document: object) -> bytes:
    out = io.BytesIO()
    document.save(out)  # type: ignore[attr-defined]
    return out.getvalue()


def word(*, title: str = "") -> bytes:
    document = docx.Document()
    document.core_properties.title = title
    document.add_heading("退货政策", 1)
    document.add_paragraph("自收到商品之日起七天内可以申请退货。")
    document.add_heading("Details", 2)
    document.add_paragraph("First item", style="List Bullet")
    document.add_paragraph("Second item", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(table._cells, ["产品", "价格", "A|B", "100"], strict=True):
        cell.text = text
    document.add_paragraph("After the table.")
    assert document.styles.default(WD_STYLE_TYPE.PARAGRAPH)
    return saved(document)


def rewritten(data: bytes, change: Callable[[str, bytes], bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as copy:
        for name in archive.namelist():
            copy.writestr(name, change(name, archive.read(name)))
    return out.getvalue()


def test_the_shim_still_finds_the_function_it_replaces() -> None:
    tokenize = prepare()
    assert tokenize._get_nlp().pipe_names == ["sentencizer"]
    assert callable(partitioner("docx"))


def test_a_chinese_word_file_keeps_headings_lists_and_tables() -> None:
    document = parsed("a.docx", word())
    assert headings(document) == [(1, "退货政策"), (2, "Details")]
    assert "自收到商品之日起七天内可以申请退货。" in document.text
    assert "- First item\n- Second item" in of_kind(document, BlockKind.TEXT)
    assert of_kind(document, BlockKind.TABLE) == ["| 产品 | 价格 |\n| --- | --- |\n| A\\|B | 100 |"]
    assert document.blocks[-1].text == "After the table."


def test_the_first_heading_is_the_title_and_properties_are_kept() -> None:
    document = parsed("a.docx", word(title="From properties"))
    assert document.title == "退货政策"
    assert document.properties["title"] == "From properties"


def test_strict_ooxml_is_read_like_any_other() -> None:
    names = {
        b"http://schemas.openxmlformats.org/officeDocument/2006/relationships": b"officeDocument/relationships",
        b"http://schemas.openxmlformats.org/wordprocessingml/2006/main": b"wordprocessingml/main",
    }

    def strict(_: str, part: bytes) -> bytes:
        for transitional, name in names.items():
            part = part.replace(transitional, b"http://purl.oclc.org/ooxml/" + name)
        return part

    assert parsed("a.docx", rewritten(word(), strict)).text == parsed("a.docx", word()).text


def test_equations_keep_their_characters() -> None:
    math = b'<m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"><m:r><m:t>E=mc</m:t></m:r></m:oMath>'

    def with_math(_: str, part: bytes) -> bytes:
        return part.replace(b"<w:r><w:t>After the table.", math + b"<w:r><w:t>After the table.")

    assert "E=mc" in parsed("a.docx", rewritten(word(), with_math)).text


def test_a_macro_file_is_read_for_its_text() -> None:
    def macro(_: str, part: bytes) -> bytes:
        plain = b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
        return part.replace(plain, b"application/vnd.ms-word.document.macroEnabled.main+xml")

    assert headings(parsed("a.docm", rewritten(word(), macro)))


def test_a_bomb_is_stopped_before_it_is_unpacked() -> None:
    def bomb(name: str, part: bytes) -> bytes:
        return part + b" " * 20_000_000 if name == "word/document.xml" else part

    assert code("a.docx", rewritten(word(), bomb)) is FailureCode.TOO_LARGE
    assert code("a.docx", word(), limits=ParseLimits(unzipped=10_000)) is FailureCode.TOO_LARGE
    assert code("a.docx", word(), limits=ParseLimits(entries=3)) is FailureCode.TOO_LARGE


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.95])
def test_a_truncated_word_file_is_corrupt(keep: float) -> None:
    data = word()
    assert code("a.docx", data[: int(len(data) * keep)]) is FailureCode.CORRUPT


def test_a_damaged_part_is_corrupt() -> None:
    data = bytearray(word())
    at = data.find(b"word/document.xml") + 200
    data[at : at + 20] = bytes(20)
    assert code("a.docx", bytes(data)) is FailureCode.CORRUPT


def test_slides_are_pages_with_titles_and_notes() -> None:
    deck = pptx.Presentation()
    for number in (1, 2):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = f"Slide {number}"
        slide.placeholders[1].text = f"要点 {number}"
        slide.notes_slide.notes_text_frame.text = f"Speaker says {number}"
    table = deck.slides[1].shapes.add_table(2, 2, Inches(1), Inches(4), Inches(4), Inches(1)).table
    for row in range(2):
        for column in range(2):
            table.cell(row, column).text = f"{row}{column}"
    document = parsed("a.pptx", saved(deck))
    assert headings(document) == [(2, "Slide 1"), (2, "Slide 2")]
    assert {b.page for b in document.blocks if "Slide 2" in b.text or "Speaker says 2" in b.text} == {2}
    assert of_kind(document, BlockKind.TABLE) == ["| 00 | 01 |\n| --- | --- |\n| 10 | 11 |"]
    assert document.properties["slides"] == 2


def test_sheets_are_headings_over_tables() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "价格"
    for row in (["产品", "价格"], ["手机", 100], ["电脑", 99.5]):
        sheet.append(row)
    book.create_sheet("Empty")
    document = parsed("a.xlsx", saved(book))
    assert headings(document) == [(1, "价格")]
    assert of_kind(document, BlockKind.TABLE) == ["| 产品 | 价格 |\n| --- | --- |\n| 手机 | 100 |\n| 电脑 | 99.5 |"]
    assert document.properties["sheets"] == ["价格"]


def test_a_book_of_empty_sheets_has_no_text() -> None:
    assert code("a.xlsx", saved(openpyxl.Workbook())) is FailureCode.NO_TEXT


def test_footnotes_and_comments_are_read() -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("Body text.")
    document.add_comment(paragraph.runs, text="Is this still true?", author="a")
    assert "(comment) Is this still true?" in parsed("a.docx", saved(document)).text
