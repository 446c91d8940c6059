"""What every parsed document must keep, and short ways to parse bytes and to fail at it."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import pytest

from ingest.blocks import BlockKind, ParsedDocument
from ingest.parse import ParseLimits, parse
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    from ingest.blocks import Block

LIMITS = ParseLimits()


def assert_lawful(document: ParsedDocument) -> None:
    at = 0
    for block in document.blocks:
        assert document.text[block.start : block.end] == block.text
        assert block.text.strip()
        assert at <= block.start < block.end
        assert not document.text[at : block.start].strip(), "text between two blocks"
        assert_block(block)
        at = block.end
    assert not document.text[at:].strip(), "text after the last block"
    assert unicodedata.is_normalized("NFC", document.text)
    assert not set(document.text) & {"\r", "\x00", "\ufeff", "\x0b", "\x0c", "\x85"}
    document.text.encode("utf-8")  # no lone surrogate
    assert "\n" not in document.title


def assert_block(block: Block) -> None:
    assert (block.level > 0) == (block.kind is BlockKind.HEADING) == bool(block.title)
    assert block.level <= 6
    if block.opening:
        assert block.text.startswith(block.opening)
    if block.closing:
        assert block.text.endswith(block.closing)
    if block.header_lines:
        assert block.text.count("\n") + 1 >= block.header_lines


def parsed(name: str, data: bytes | str, *, limits: ParseLimits = LIMITS) -> ParsedDocument:
    """Parse and check the laws."""
    document = parse(name, data.encode() if isinstance(data, str) else data, limits)
    assert_lawful(document)
    return document


def failure(name: str, data: bytes | str, *, limits: ParseLimits = LIMITS) -> DocumentError:
    """Parse what must fail."""
    with pytest.raises(DocumentError) as caught:
        parse(name, data.encode() if isinstance(data, str) else data, limits)
    assert str(caught.value)
    assert caught.value.hint
    return caught.value


def code(name: str, data: bytes | str, *, limits: ParseLimits = LIMITS) -> FailureCode:
    return failure(name, data, limits=limits).code


def headings(document: ParsedDocument) -> list[tuple[int, str]]:
    return [(block.level, block.title) for block in document.blocks if block.level]


def of_kind(document: ParsedDocument, kind: BlockKind) -> list[str]:
    return [block.text for block in document.blocks if block.kind is kind]
