"""Puts a document together block by block, so that every block's span is right by construction."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ingest.blocks import Block, BlockKind, ParsedDocument
from ingest.parse.decode import normalised

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kb.model import Json

SEPARATOR = "\n\n"
MAX_LEVEL = 6

_NON_BLANK = re.compile(r"\S")
_BACKTICKS = re.compile(r"`{3,}")


class DocumentBuilder:
    """Collects blocks in reading order and joins them with blank lines.

    Text given to it is normalised first (NFC, one kind of line end, no control characters); blank text adds nothing.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._blocks: list[Block] = []
        self._length = 0
        self.warnings: list[str] = []

    def __len__(self) -> int:
        """Return how many characters of text there are."""
        return self._length

    def heading(self, level: int, title: str, *, page: int | None = None) -> None:
        """Add a heading; `level` is clamped to 1..6, `title` made one line."""
        level = min(max(level, 1), MAX_LEVEL)
        title = " ".join(normalised(title).split())
        if title:
            text = f"{'#' * level} {title}"
            self._append(Block(kind=BlockKind.HEADING, text=text, start=0, end=0, level=level, title=title, page=page))

    def paragraph(self, text: str, *, page: int | None = None) -> None:
        """Add a paragraph, a whole list or a quote."""
        text = normalised(text).strip("\n").rstrip()
        self._append(Block(kind=BlockKind.TEXT, text=text, start=0, end=0, page=page))

    def table(self, rows: Sequence[Sequence[str]], *, page: int | None = None) -> None:
        """Add a table; the first row is its header, short rows are filled up."""
        text = pipe_table(rows)
        self._append(Block(kind=BlockKind.TABLE, text=text, start=0, end=0, page=page, header_lines=2))

    def code(self, text: str, *, language: str = "", page: int | None = None) -> None:
        """Add code as a fence that no line inside can close."""
        body = normalised(text).strip("\n").rstrip()
        if not body:
            return
        longest = max((len(run) for run in _BACKTICKS.findall(body)), default=2)
        closing = "`" * (longest + 1)
        opening = closing + re.sub(r"[^\w+#.-]", "", language)
        text = f"{opening}\n{body}\n{closing}"
        block = Block(kind=BlockKind.CODE, text=text, start=0, end=0, page=page, opening=opening, closing=closing)
        self._append(block)

    def unfenced(self, text: str, *, page: int | None = None) -> None:
        """Add lines that are only ever cut between lines, without a fence."""
        body = normalised(text).strip("\n").rstrip()
        self._append(Block(kind=BlockKind.CODE, text=body, start=0, end=0, page=page))

    def embed(self, document: ParsedDocument, *, page: int | None = None) -> None:
        """Add the blocks of another document, each as it stands there."""
        for block in document.blocks:
            self._append(replace(block, page=block.page if page is None else page))
        self.warnings.extend(document.warnings)

    def build(
        self, *, title: str = "", properties: Mapping[str, Json] | None = None, heading_first: bool = True
    ) -> ParsedDocument:
        """Return the document.

        Args:
            title: title from the document's properties; "" when they have none.
            properties: facts found.
            heading_first: the first heading is a better title than `title`.
        """
        heading = next((block.title for block in self._blocks if block.kind is BlockKind.HEADING), "")
        given = " ".join(normalised(title).split())
        return ParsedDocument(
            text="".join(self._parts),
            blocks=tuple(self._blocks),
            title=(heading or given) if heading_first else (given or heading),
            properties=properties or {},
            warnings=tuple(dict.fromkeys(self.warnings)),
        )

    def _append(self, block: Block) -> None:
        if not block.text.strip():
            return
        if self._parts:
            self._parts.append(SEPARATOR)
            self._length += len(SEPARATOR)
        start = self._length
        self._parts.append(block.text)
        self._length += len(block.text)
        self._blocks.append(replace(block, start=start, end=self._length))


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of a text that is already whole: what a verbatim parser found in it."""

    kind: BlockKind
    start: int
    end: int
    facts: Mapping[str, int | str] = field(default_factory=dict)


def blocks_of(text: str, spans: Iterable[Span]) -> tuple[Block, ...]:
    """Return the blocks of `spans` over `text`; what no span covers and is not blank becomes a text block."""
    blocks: list[Block] = []
    at = 0
    for span in sorted(spans, key=lambda span: span.start):
        blocks.extend(_gap(text, at, span.start))
        piece = text[span.start : span.end].rstrip()
        if piece.strip():
            end = span.start + len(piece)
            blocks.append(Block(kind=span.kind, text=piece, start=span.start, end=end, **span.facts))  # type: ignore[arg-type] # facts are Block's own fields
        at = span.end
    blocks.extend(_gap(text, at, len(text)))
    return tuple(blocks)


def _gap(text: str, start: int, end: int) -> Iterable[Block]:
    found = _NON_BLANK.search(text, start, end) if start < end else None
    if found is None:
        return
    piece = text[found.start() : end].rstrip()
    yield Block(kind=BlockKind.TEXT, text=piece, start=found.start(), end=found.start() + len(piece))


def pipe_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a Markdown pipe table, the first row as its header; "" when no cell holds text."""
    cells = [[_cell(value) for value in row] for row in rows]
    cells = [row for row in cells if any(row)]
    if not cells:
        return ""
    width = max(max((i + 1 for i, cell in enumerate(row) if cell), default=0) for row in cells)
    lines = [_line((row + [""] * width)[:width]) for row in cells]
    lines.insert(1, _line(["---"] * width))
    return "\n".join(lines)


def _cell(value: str) -> str:
    return " ".join(normalised(value).split()).replace("|", "\\|")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
