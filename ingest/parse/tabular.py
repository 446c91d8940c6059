"""CSV and TSV as one table: the separator sniffed, encodings as everywhere, ragged rows taken as they are."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import TYPE_CHECKING

from ingest.parse.builder import DocumentBuilder
from ingest.parse.decode import decode_text

if TYPE_CHECKING:
    from ingest.blocks import ParsedDocument
    from ingest.parse.raw import RawFile

SEPARATORS = ",;\t|"
HEAD_ROWS = 2  # a title and a header
SNIFFED_LINES = 50


def parse_table(file: RawFile) -> ParsedDocument:
    """Return the document of a .csv or .tsv file: a table whose header is the first row.

    Raises:
        DocumentError: ENCODING.
    """
    decoded = decode_text(file.data)
    separator = "\t" if file.suffix in {".tsv", ".tab"} else separator_of(decoded.text)
    rows = rows_of(decoded.text, separator)
    builder = DocumentBuilder()
    while len(rows) > HEAD_ROWS and _filled(rows[0]) == 1 < min(_filled(rows[1]), len(rows[1])):
        builder.paragraph("".join(rows.pop(0)))  # a title above the table
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        odd = sum(len(row) != len(rows[0]) for row in rows)
        builder.warnings.append(f"{odd} of {len(rows)} rows do not have the header's {len(rows[0])} columns")
    builder.table(rows)
    document = builder.build(properties={"encoding": decoded.encoding, "rows": len(rows)})
    return replace(document, warnings=(*decoded.warnings, *document.warnings))


def rows_of(text: str, separator: str) -> list[list[str]]:
    """Return the rows that hold anything; a quote that never closes is taken for a plain character."""
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    rows = [row for row in reader if any(cell.strip() for cell in row)]
    lines = text.count("\n")
    swallowed = any(cell.count("\n") > max(100, lines // 2) for row in rows for cell in row)
    if swallowed:
        reader = csv.reader(io.StringIO(text), delimiter=separator, quoting=csv.QUOTE_NONE)
        rows = [row for row in reader if any(cell.strip() for cell in row)]
    return rows


def _filled(row: list[str]) -> int:
    return sum(bool(cell.strip()) for cell in row)


def separator_of(text: str) -> str:
    """Return the separator that cuts the first lines most evenly; a comma when none does."""
    lines = [line for line in text.split("\n", SNIFFED_LINES)[:SNIFFED_LINES] if line.strip()]
    best, best_score = ",", 0.0
    for separator in SEPARATORS:
        counts = [len(row) - 1 for row in csv.reader(lines, delimiter=separator) if row]
        usual = max(set(counts), key=counts.count) if counts else 0
        score = counts.count(usual) / len(counts) + min(usual, 20) / 100 if usual else 0.0
        if score > best_score:
            best, best_score = separator, score
    return best
