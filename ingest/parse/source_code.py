"""Code and config files: one document of code, cut where a top-level thing begins after a blank line."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ingest.blocks import BlockKind, ParsedDocument
from ingest.parse import declared
from ingest.parse.builder import Span, blocks_of
from ingest.parse.decode import decode_text

if TYPE_CHECKING:
    from ingest.parse.raw import RawFile

_BOUNDARY = re.compile(r"\n[ \t]*\n+(?=[^\s})\]])")


def parse_code(file: RawFile) -> ParsedDocument:
    """Return the document of a code, config or log file.

    Raises:
        DocumentError: ENCODING.
    """
    decoded = decode_text(file.data, declared=declared.in_source(file.data))
    text = decoded.text
    spans: list[Span] = []
    start = len(text) - len(text.lstrip("\n"))
    for gap in _BOUNDARY.finditer(text, start):
        spans.append(Span(kind=BlockKind.CODE, start=start, end=gap.start()))
        start = gap.end()
    spans.append(Span(kind=BlockKind.CODE, start=start, end=len(text)))
    language = file.suffix.lstrip(".") or PurePosixPath(file.name).name.lower()
    return ParsedDocument(
        text=text,
        blocks=blocks_of(text, spans),
        properties={"encoding": decoded.encoding, "language": language},
        warnings=decoded.warnings,
    )
