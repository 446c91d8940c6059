"""OpenDocument text (.odt): headings, paragraphs, lists and tables from its content.xml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lxml import etree

from ingest.parse.archive import open_zip, refuse_bomb
from ingest.parse.builder import DocumentBuilder
from ingest.parse.ooxml import hardened
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.blocks import ParsedDocument
    from ingest.parse.raw import RawFile

Element = Any

MAX_REPEAT = 1_000  # times a repeated cell or space is written out

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_DC = "{http://purl.org/dc/elements/1.1/}"
_SKIPPED = frozenset({f"{_TEXT}tracked-changes", f"{_TEXT}table-of-content", f"{_TEXT}sequence-decls"})


def parse_odt(file: RawFile) -> ParsedDocument:
    """Return the document of an .odt file.

    Raises:
        DocumentError: TOO_LARGE, CORRUPT.
    """
    with open_zip(file.data) as archive:
        refuse_bomb(archive, file.limits)
        if "content.xml" not in archive.namelist():
            raise DocumentError(FailureCode.CORRUPT, "it has no content.xml", hint="get the file again")
        root = hardened(archive.read("content.xml"))
        meta = hardened(archive.read("meta.xml")) if "meta.xml" in archive.namelist() else None
    builder = DocumentBuilder()
    _walk(root, builder)
    titles = [] if meta is None else [str(e.text).strip() for e in meta.iter(f"{_DC}title") if e.text]
    return builder.build(title=titles[0] if titles else "")


def _walk(root: Element, builder: DocumentBuilder) -> None:
    events: Any = etree.iterwalk(root, events=("start",))
    for _, element in events:
        if element.tag == f"{_TEXT}h":
            level = element.get(f"{_TEXT}outline-level") or "1"
            builder.heading(int(level) if level.isdigit() else 1, _plain(element))
        elif element.tag == f"{_TEXT}p":
            builder.paragraph(_plain(element))
        elif element.tag == f"{_TEXT}list":
            builder.paragraph("\n".join(_items(element)))
        elif element.tag == f"{_TABLE}table":
            builder.table([_row(row) for row in element.iter(f"{_TABLE}table-row")])
        elif element.tag not in _SKIPPED:
            continue
        events.skip_subtree()


def _row(row: Element) -> list[str]:
    cells: list[str] = []
    for cell in row:
        if cell.tag not in {f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"}:
            continue
        repeat = cell.get(f"{_TABLE}number-columns-repeated") or "1"
        text = " ".join(_plain(paragraph) for paragraph in cell.iter(f"{_TEXT}p"))
        cells += [text] * (min(int(repeat), MAX_REPEAT) if repeat.isdigit() else 1)
    return cells


def _items(element: Element) -> Iterator[str]:
    """Yield the lines of a list; nesting is how many lists stand above an item."""
    for paragraph in element.iter(f"{_TEXT}p", f"{_TEXT}h"):
        depth = sum(1 for above in paragraph.iterancestors(f"{_TEXT}list")) - 1
        text = _plain(paragraph)
        if text:
            yield f"{'  ' * depth}- {text}"


def _plain(element: Element) -> str:
    parts: list[str] = []
    events: Any = etree.iterwalk(element, events=("start", "end"))
    for event, node in events:
        if event == "end":
            parts.append((node.tail or "") if node is not element else "")
        elif node.tag == f"{_TEXT}note-citation":
            events.skip_subtree()
        else:
            spacing = node.tag in {f"{_TEXT}s", f"{_TEXT}tab", f"{_TEXT}line-break"}
            parts.append(" " if spacing else node.text or "")
    return " ".join("".join(parts).split())
