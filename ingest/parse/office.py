"""Office files (docx, pptx, xlsx) through `unstructured`, and old .xls through xlrd."""

from __future__ import annotations

import io
import re
import warnings
from typing import TYPE_CHECKING, Any

from ingest.parse import ooxml
from ingest.parse.archive import open_zip, refuse_bomb
from ingest.parse.builder import DocumentBuilder
from ingest.parse.html_table import rows_of
from ingest.parse.unstructured_shim import NO_DETECTION, partitioner
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Sequence

    from ingest.blocks import ParsedDocument
    from ingest.parse.raw import RawFile

LARGE_SHEETS = 5_000_000  # bytes of sheet XML; above it a sheet is read as one table, not searched for islands
MAX_NOTES = 10_000

_NUMBERED = re.compile(r"(?:\d+|[a-zA-Z])(?:\.\d+)*[.)]\s")
_FURNITURE = frozenset({"Header", "Footer", "PageBreak", "PageNumber"})


def parse_docx(file: RawFile) -> ParsedDocument:
    """Return the document of a Word file: headings with levels, lists, tables, notes and comments at the end.

    Raises:
        DocumentError: TOO_LARGE, CORRUPT.
    """
    with open_zip(file.data) as archive:
        elements = _partitioned("docx", file, archive)
        builder = DocumentBuilder()
        kept = [e for e in elements if _category(e) not in _FURNITURE]
        _add(builder, kept or elements, title_level=1)
        for number, (kind, text) in enumerate(ooxml.notes(archive)):
            if number >= MAX_NOTES:
                builder.warnings.append(f"only the first {MAX_NOTES} notes and comments were read")
                break
            builder.paragraph(f"({kind}) {text}")
        properties = ooxml.core_properties(archive)
    return builder.build(title=properties.get("title", ""), properties=properties)


def parse_pptx(file: RawFile) -> ParsedDocument:
    """Return the document of a PowerPoint file; every block knows its slide.

    Raises:
        DocumentError: TOO_LARGE, CORRUPT.
    """
    with open_zip(file.data) as archive:
        elements = _partitioned("pptx", file, archive, include_page_breaks=False, include_slide_notes=True)
        properties = ooxml.core_properties(archive)
    builder = DocumentBuilder()
    _add(builder, elements, title_level=2)
    pages = max((block.page or 0 for block in builder.build().blocks), default=0)
    return builder.build(title=properties.get("title", ""), properties={**properties, "slides": pages})


def parse_xlsx(file: RawFile) -> ParsedDocument:
    """Return the document of an Excel file: a heading for each sheet, its islands of cells as tables.

    Raises:
        DocumentError: TOO_LARGE, CORRUPT.
    """
    with open_zip(file.data) as archive:
        size = sum(entry.file_size for entry in archive.infolist() if entry.filename.startswith("xl/worksheets/"))
        elements = _partitioned("xlsx", file, archive, find_subtable=size <= LARGE_SHEETS)
        properties = ooxml.core_properties(archive)
    builder = DocumentBuilder()
    sheet: str | None = None
    sheets: list[str] = []
    for element in elements:
        name = element.metadata.page_name or ""
        if name != sheet:
            sheet = name
            sheets.append(name)
            builder.heading(1, name, page=element.metadata.page_number)
        if _category(element) == "Table":
            _add_table(builder, element)
        else:
            builder.paragraph(str(element.text), page=element.metadata.page_number)
    if not any(str(element.text).strip() for element in elements):
        builder = DocumentBuilder()  # headings of empty sheets are no text
    return builder.build(
        title=properties.get("title", ""), properties={**properties, "sheets": [*sheets]}, heading_first=False
    )


def parse_xls(file: RawFile) -> ParsedDocument:
    """Return the document of an Excel 97 file: a heading and a table for each sheet.

    Raises:
        DocumentError: ENCRYPTED and CORRUPT come as xlrd's own errors, translated by the caller.
    """
    import xlrd  # type: ignore[import-untyped]  # noqa: PLC0415 - loaded when first needed

    book = xlrd.open_workbook(file_contents=file.data, logfile=io.StringIO(), on_demand=True)
    builder = DocumentBuilder()
    sheets: list[str] = []
    for number, name in enumerate(book.sheet_names(), 1):
        sheet = book.sheet_by_name(name)
        rows = [[_xls_cell(cell, book.datemode, xlrd) for cell in sheet.row(r)] for r in range(sheet.nrows)]
        if any(any(row) for row in rows):
            sheets.append(name)
            builder.heading(1, name, page=number)
            builder.table(rows, page=number)
        book.unload_sheet(name)
    return builder.build(properties={"sheets": [*sheets]}, heading_first=False)


def _xls_cell(cell: Any, datemode: int, xlrd: Any) -> str:  # noqa: ANN401 - the vendor's object
    if cell.ctype == xlrd.XL_CELL_NUMBER:
        return str(int(cell.value)) if cell.value == int(cell.value) else repr(cell.value)
    if cell.ctype == xlrd.XL_CELL_DATE:
        return str(xlrd.xldate_as_datetime(cell.value, datemode))
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        return "TRUE" if cell.value else "FALSE"
    return "" if cell.ctype == xlrd.XL_CELL_ERROR else str(cell.value)


def _partitioned(kind: str, file: RawFile, archive: zipfile.ZipFile, **options: object) -> list[Any]:
    refuse_bomb(archive, file.limits)
    if archive.testzip() is not None:
        raise DocumentError(FailureCode.CORRUPT, "a part of it is damaged", hint="get the file again from its source")
    data = ooxml.usual(file.data, archive)
    partition = partitioner(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the libraries warn of styles and extensions they skip
        return partition(file=io.BytesIO(data), languages=NO_DETECTION, **options)


def _add(builder: DocumentBuilder, elements: Sequence[Any], *, title_level: int) -> None:
    """Add elements in order; list items that follow one another are one list."""
    items: list[str] = []
    page: int | None = None
    for element in elements:
        category = _category(element)
        if category == "ListItem" and (not items or element.metadata.page_number == page):
            page = element.metadata.page_number
            items.append(_item(element))
            continue
        _end_list(builder, items, page)
        page = element.metadata.page_number
        if category == "ListItem":
            items.append(_item(element))
        else:
            _add_one(builder, element, category, title_level=title_level)
    _end_list(builder, items, page)


def _add_one(builder: DocumentBuilder, element: Any, category: str, *, title_level: int) -> None:  # noqa: ANN401 - the vendor's object
    page = element.metadata.page_number
    depth = element.metadata.category_depth or 0
    if category == "Table":
        _add_table(builder, element)
    elif category == "Title" and (title_level == 1 or depth == 0):
        builder.heading(title_level + depth, str(element.text), page=page)
    else:
        builder.paragraph(str(element.text), page=page)


def _end_list(builder: DocumentBuilder, items: list[str], page: int | None) -> None:
    if items:
        builder.paragraph("\n".join(items), page=page)
        items.clear()


def _item(element: Any) -> str:  # noqa: ANN401 - the vendor's object
    indent = "  " * (element.metadata.category_depth or 0)
    text = " ".join(str(element.text).split())
    return f"{indent}{text}" if _NUMBERED.match(text) else f"{indent}- {text}"


def _add_table(builder: DocumentBuilder, element: Any) -> None:  # noqa: ANN401 - the vendor's object
    page = element.metadata.page_number
    html = element.metadata.text_as_html
    rows = html_rows(html) if html else []
    if rows:
        builder.table(rows, page=page)
    else:
        builder.paragraph(str(element.text), page=page)


def html_rows(html: str) -> list[list[str]]:
    """Return the rows of the one table in a piece of HTML; none when there is no table."""
    from lxml import etree  # noqa: PLC0415 - loaded when first needed

    root = etree.fromstring(html.encode("utf-8"), etree.HTMLParser(encoding="utf-8", huge_tree=True))
    table = root.find(".//table") if root is not None else None
    return rows_of(table) if table is not None else []


def _category(element: Any) -> str:  # noqa: ANN401 - the vendor's object
    return str(type(element).__name__)
