"""Tables of an HTML page: which hold data, and their cells as rows with merged cells repeated."""

from __future__ import annotations

from typing import Any

from ingest.parse.html_text import inline_text
from kb.errors import DocumentError, FailureCode

Element = Any  # see html_text.py

MAX_SPAN = 1_000  # columns or rows one cell may cover
MAX_CELLS = 1_000_000
_DIGITS = 5  # of a span; more is nonsense
LONG_CELL = 1_500  # characters; a longer cell is a page laid out in a table

_PROSE = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "table", "pre", "article", "section", "form", "iframe"})


def holds_data(table: Element) -> bool:
    """Tell whether a table holds data; one that lays out a page (nested tables, headings, one column) does not."""
    if (table.get("role") or "").lower() in {"presentation", "none"}:
        return False
    rows = 0
    widest = 0
    for node in table.iter():
        if not isinstance(node.tag, str) or node is table:
            continue
        tag = node.tag.rpartition("}")[2]
        if tag in _PROSE:
            return False
        if tag == "tr":
            rows += 1
            cells = [cell for cell in node if cell.tag in {"td", "th"}]
            widest = max(widest, len(cells))
            if any(_is_long(cell) for cell in cells):
                return False
    return rows > 1 and widest > 1


def rows_of(table: Element) -> list[list[str]]:
    """Return the table's cells, row by row; a merged cell stands once, the places it covers are empty.

    Raises:
        DocumentError: TOO_LARGE, above a million cells (merged ones count for what they cover).
    """
    rows: list[list[str]] = []
    below: dict[int, int] = {}  # column -> rows still covered from above
    cells = 0
    for row in table.iter("tr"):
        line: list[str] = []
        for cell in row:
            if cell.tag not in {"td", "th"}:
                continue
            _fill(line, below)
            across, down = _span(cell, "colspan"), _span(cell, "rowspan")
            for column in range(len(line), len(line) + across):
                if down > 1:
                    below[column] = down - 1
            line += [inline_text(cell), *[""] * (across - 1)]
        _fill(line, below)
        rows.append(line)
        cells += len(line)
        if cells > MAX_CELLS:
            message = f"a table of it has more than {MAX_CELLS:,} cells"
            raise DocumentError(FailureCode.TOO_LARGE, message, hint="split the table, or give it as .csv")
    captions = [inline_text(caption) for caption in table.iter("caption")]
    return rows if not any(captions) else _captioned(rows, captions[0])


def _captioned(rows: list[list[str]], caption: str) -> list[list[str]]:
    if rows and rows[0] and not rows[0][0]:
        rows[0][0] = caption
        return rows
    return [*rows, [caption]]


def _fill(line: list[str], below: dict[int, int]) -> None:
    while below.get(len(line), 0) > 0:
        below[len(line)] -= 1
        line.append("")


def _span(cell: Element, name: str) -> int:
    value = cell.get(name) or "1"
    return min(max(int(value), 1), MAX_SPAN) if value.isascii() and value.isdigit() and len(value) <= _DIGITS else 1


def _is_long(cell: Element) -> bool:
    return sum(len(text) for text in cell.itertext()) > LONG_CELL
