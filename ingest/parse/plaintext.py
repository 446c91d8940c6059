"""Plain text: paragraphs, and the headings people number by hand, Chinese ones above all."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ingest.blocks import BlockKind, ParsedDocument
from ingest.parse.builder import Span, blocks_of
from ingest.parse.decode import decode_text

if TYPE_CHECKING:
    from ingest.parse.raw import RawFile

HEADING_LENGTH = 40  # characters; a longer numbered line is a clause, not a heading

_NUMERAL = "[一二三四五六七八九十百千零〇两0-9]+"
_CHINESE = (
    (1, re.compile(rf"第{_NUMERAL}[编篇部卷]")),
    (2, re.compile(rf"第{_NUMERAL}章")),
    (3, re.compile(rf"第{_NUMERAL}节")),
    (4, re.compile(rf"第{_NUMERAL}[条款]")),
    (2, re.compile("[一二三四五六七八九十]+、")),
    (3, re.compile("[（(][一二三四五六七八九十]+[)）]")),
)
_DECIMAL = re.compile(r"(\d{1,2}(?:\.\d{1,3}){1,4})\.?[ \t\u3000]+\S")
_CHAPTER = re.compile(r"(?:chapter|part|section|appendix|article)\s+(?:\d+|[ivxlc]+|[a-z])\b", re.IGNORECASE)
_ENDS_SENTENCE = re.compile(r"[。；;，,：:！!？?.…、]\s*$")
_UNDERLINE = re.compile(r"(=|-|~|\*){3,}\s*$")
_PARAGRAPH = re.compile(r"\n[ \t\u3000]*\n+")


def parse_plaintext(file: RawFile) -> ParsedDocument:
    """Return the document of a text file: its own text, paragraphs as blocks.

    Raises:
        DocumentError: ENCODING.
    """
    decoded = decode_text(file.data)
    document = plain_document(decoded.text)
    return replace(document, properties={"encoding": decoded.encoding}, warnings=decoded.warnings)


def plain_document(text: str) -> ParsedDocument:
    """Return normalised text as a document."""
    spans: list[Span] = []
    start = 0
    for gap in _PARAGRAPH.finditer(text):
        spans.extend(_paragraph(text, start, gap.start()))
        start = gap.end()
    spans.extend(_paragraph(text, start, len(text)))
    blocks = blocks_of(text, spans)
    title = next((block.title for block in blocks if block.kind is BlockKind.HEADING), "")
    return ParsedDocument(text=text, blocks=blocks, title=title)


def numbered_heading(line: str) -> int:
    """Return the level (1 to 6) of a line that reads as a numbered heading; 0 when it does not."""
    line = line.strip()
    if not 0 < len(line) <= 2 * HEADING_LENGTH or _ENDS_SENTENCE.search(line):
        return 0
    if len(line) <= HEADING_LENGTH:
        for level, pattern in _CHINESE:
            if pattern.match(line):
                return level
    if _CHAPTER.match(line):
        return 1
    found = _DECIMAL.match(line)
    return min(found[1].count(".") + 1, 6) if found else 0


def _paragraph(text: str, start: int, end: int) -> list[Span]:
    """Return the spans of a run of lines without blank ones; headings in it stand alone."""
    spans: list[Span] = []
    at = body = start
    lines = text[start:end].split("\n")
    skip = False
    for index, line in enumerate(lines):
        stop = at + len(line)
        level = 0 if skip else _level(lines, index)
        underlined = level < 0
        if level:
            if underlined and index + 1 < len(lines):
                stop += 1 + len(lines[index + 1])
            spans.append(Span(kind=BlockKind.TEXT, start=body, end=at))
            facts: dict[str, int | str] = {"level": abs(level), "title": " ".join(line.split())}
            first = at + len(line) - len(line.lstrip())
            spans.append(Span(kind=BlockKind.HEADING, start=first, end=stop, facts=facts))
            body = stop
        skip = underlined
        at += len(line) + 1
    spans.append(Span(kind=BlockKind.TEXT, start=body, end=end))
    return [_without_margin(text, span) for span in spans if text[span.start : span.end].strip()]


def _without_margin(text: str, span: Span) -> Span:
    piece = text[span.start : span.end]
    return replace(span, start=span.start + len(piece) - len(piece.lstrip()))


def _level(lines: list[str], index: int) -> int:
    """Return the heading level of a line, negative when the next line underlines it."""
    line = lines[index].strip()
    following = lines[index + 1].strip() if index + 1 < len(lines) else ""
    underline = _UNDERLINE.match(following)
    if line and underline and index == 0 and 0.5 * len(line) <= len(following) <= 2 * len(line) + 2:
        return -1 if underline[1] == "=" else -2
    level = numbered_heading(line)
    if level and line[0].isascii() and len(lines) > 1:
        return 0  # a Latin number in the midst of lines is a list or a table
    return level
