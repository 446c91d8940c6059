"""What a parser gives and the chunker takes: a document's text and its blocks, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.model import Json


class BlockKind(StrEnum):
    """What a block is; decides where it may be cut."""

    HEADING = "heading"  # never ends a chunk
    TEXT = "text"  # paragraphs, list items, quotes: cut at sentence ends
    TABLE = "table"  # Markdown pipe table: cut between rows, header repeated
    CODE = "code"  # fenced code: cut between lines, fence repeated


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A piece of a document that stays whole if it fits.

    `text` is exactly `document.text[start:end]`.

    Args:
        kind: decides how it may be cut.
        text: source text; a heading in Markdown form (`## Title`), a fence with its marks, a table with its header.
        start: first character of the block in the document's text.
        end: one past its last character.
        level: of a heading, 1 to 6; else 0.
        title: of a heading, its plain text; else "".
        page: 1-based page (pdf), slide (pptx); None where the format has none.
        opening: of code, the fence line with its info string ("```python"); "" when the block is code without a fence.
        closing: of code, the closing fence.
        header_lines: of a table, how many lines are its header (repeated in every part).
    """

    kind: BlockKind
    text: str
    start: int
    end: int
    level: int = 0
    title: str = ""
    page: int | None = None
    opening: str = ""
    closing: str = ""
    header_lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDocument:
    """A document as parsed.

    Blocks are in order, do not overlap, and cover every character of `text` that is not white space.

    Args:
        text: the whole text, Markdown in form whatever the file was; NFC, line feeds only, no NUL.
        blocks: its blocks.
        title: from front matter, first heading or document properties; never from the file's name; "" for none.
        front_matter: governed values and metadata the author wrote in the file (YAML front matter), unvalidated.
        properties: facts the parser found (pages, author, sheet names...).
        parser: name and version of what parsed it, part of the pipeline fingerprint.
        warnings: what was lost or looks wrong ("3 of 10 pages have no text").
    """

    text: str
    blocks: tuple[Block, ...]
    title: str = ""
    front_matter: Mapping[str, Json] = field(default_factory=dict)
    properties: Mapping[str, Json] = field(default_factory=dict)
    parser: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A passage ready to become a memory.

    Args:
        text: verbatim body (a split table repeats its header, split code its fence).
        heading_path: headings above it, outermost first.
        start: first character of the document's text it covers.
        end: one past the last; spans of a document's chunks cover its text.
        page: page of its first block.
        tokens: cl100k tokens of `text`.
    """

    text: str
    heading_path: tuple[str, ...]
    start: int
    end: int
    page: int | None
    tokens: int
