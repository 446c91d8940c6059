"""Markdown (.md, .markdown, .mdx): its own text, cut into blocks where the grammar says, with front matter read.

The text is the file's, verbatim, without front matter and without blocks that are only an HTML comment (readers never
see those). Fences and tables inside list items and quotes are blocks of their own, so no fence is ever split unawares.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from ingest.blocks import BlockKind, ParsedDocument
from ingest.parse import declared
from ingest.parse.builder import Span, blocks_of
from ingest.parse.decode import decode_text
from ingest.parse.frontmatter import split_front_matter

if TYPE_CHECKING:
    from markdown_it.token import Token

    from ingest.parse.raw import RawFile

LONG_TITLE = 1_000  # characters; what is longer is no title, and inline marks in it could cost quadratic time

_MARKS = re.compile(r"[*_`\[\]<>&\\!]")
_COMMENT = re.compile(r"\s*<!--(?:(?!-->).)*-->\s*\Z", re.DOTALL)
_ATTRIBUTES = re.compile(r"\s*\{\s*[#.][^}]*\}\s*$")  # `## Title {#anchor}`
_TAG = re.compile(r"<[^<>]{1,200}>")
_LEAVES = frozenset({"paragraph_open", "html_block", "hr", "heading_open", "blockquote_open"})
_DEEP_QUOTES = re.compile(r"^(?:[ \t]*>){32,}[ \t]?", re.MULTILINE)


def parse_markdown(file: RawFile) -> ParsedDocument:
    """Return the document of a Markdown file.

    Raises:
        DocumentError: ENCODING, or FRONT_MATTER when its YAML does not parse.
    """
    decoded = decode_text(file.data, declared=declared.in_front_matter(file.data))
    front, body = split_front_matter(decoded.text)
    document = markdown_document(body)
    title = front.get("title")
    return replace(
        document,
        front_matter=front,
        title=str(title).strip() if isinstance(title, str | int | float) and str(title).strip() else document.title,
        properties={"encoding": decoded.encoding},
        warnings=decoded.warnings,
    )


def markdown_document(text: str) -> ParsedDocument:
    """Return Markdown text (normalised, no front matter) as a document."""
    tokens = _tokens(text)
    shown = _without_comments(text, tokens)
    if shown != text:
        text, tokens = shown, _tokens(shown)
    blocks = blocks_of(text, _spans(text, tokens))
    title = next((block.title for block in blocks if block.kind is BlockKind.HEADING), "")
    return ParsedDocument(text=text, blocks=blocks, title=title)


@lru_cache(1)
def _grammar() -> MarkdownIt:
    grammar = MarkdownIt("commonmark").enable("table")
    grammar.core.ruler.disable(["inline", "text_join"])  # blocks are all that is needed: headings are read below
    grammar.block.ruler.disable("reference")  # its lines are text like any other
    return grammar


@lru_cache(1)
def _inline_grammar() -> MarkdownIt:
    return MarkdownIt("commonmark")


def _tokens(text: str) -> list[Token]:
    # a line of a thousand quote marks costs the grammar quadratic time and means nothing
    return _grammar().parse(_DEEP_QUOTES.sub(lambda found: " " * len(found[0]), text))


def _without_comments(text: str, tokens: list[Token]) -> str:
    if "<!--" not in text:
        return text
    lines = text.split("\n")
    for token in tokens:
        if token.type == "html_block" and token.level == 0 and token.map and _COMMENT.match(token.content):
            start, end = token.map
            lines[start:end] = [""] * (end - start)
    return "\n".join(lines)


def _spans(text: str, tokens: list[Token]) -> list[Span]:
    """Return the spans of every block; text between two blocks that the grammar swallowed is left to the gaps."""
    offsets = _line_offsets(text)
    specials: list[Span] = []
    starts: list[int] = []
    for index, token in enumerate(tokens):
        if token.map is None:
            continue
        special = _special(token, tokens[index + 1 : index + 2], text, offsets)
        if special is not None:
            specials.append(special)
        elif (token.level == 0 and token.type in _LEAVES) or (token.level == 1 and token.type == "list_item_open"):
            starts.append(offsets[token.map[0]])
    return _merged(text, specials, starts)


def _line_offsets(text: str) -> list[int]:
    offsets = [0]
    offsets.extend(found.end() for found in re.finditer("\n", text))
    offsets.append(len(text))
    return offsets


def _special(token: Token, following: list[Token], text: str, offsets: list[int]) -> Span | None:
    assert token.map is not None
    start, end = offsets[token.map[0]], offsets[min(token.map[1], len(offsets) - 1)]
    if token.type == "heading_open" and token.level == 0:
        title = plain_title(following[0].content)
        if not title:
            return None
        facts: dict[str, int | str] = {"level": int(token.tag[1]), "title": title}
        return Span(kind=BlockKind.HEADING, start=start, end=end, facts=facts)
    if token.type == "fence":
        return _fence(token, text, start, end)
    if token.type == "code_block":
        return Span(kind=BlockKind.CODE, start=start, end=end)
    if token.type == "table_open":
        return Span(kind=BlockKind.TABLE, start=_indented(text, start, end), end=end, facts={"header_lines": 2})
    return None


def _fence(token: Token, text: str, start: int, end: int) -> Span:
    """Return a fence's span: from its marks, or the quote marks before them (`> ```), never from a list marker."""
    line_end = text.find("\n", start)
    first = text[start : line_end if line_end >= 0 else len(text)]
    at = first.find(token.markup)
    quoted = first[:at].lstrip().startswith(">")
    start += len(first) - len(first.lstrip()) if quoted else max(at, 0)
    piece = text[start:end].rstrip()
    opening, _, rest = piece.partition("\n")
    last = rest.rsplit("\n", 1)[-1].strip()
    closed = last.lstrip("> ").startswith(token.markup)
    facts: dict[str, int | str] = {"opening": opening.rstrip(), "closing": last if closed else ""}
    return Span(kind=BlockKind.CODE, start=start, end=end, facts=facts)


def _indented(text: str, start: int, end: int) -> int:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip())


def _merged(text: str, specials: list[Span], starts: list[int]) -> list[Span]:
    """Return specials and, cut at `starts`, the text between them."""
    spans: list[Span] = []
    cuts = sorted(set(starts))
    at = next_cut = 0
    for special in [*sorted(specials, key=lambda span: span.start), None]:
        stop = special.start if special else len(text)
        while next_cut < len(cuts) and cuts[next_cut] < stop:
            cut = cuts[next_cut]
            next_cut += 1
            if cut > at:
                spans.append(Span(kind=BlockKind.TEXT, start=at, end=cut))
                at = cut
        if stop > at:
            spans.append(Span(kind=BlockKind.TEXT, start=at, end=stop))
        if special and special.end > at:
            spans.append(special if special.start >= at else replace(special, start=at))
            at = special.end
    return [_trimmed(text, span) for span in spans]


def _trimmed(text: str, span: Span) -> Span:
    """Drop blank lines at a span's head; code keeps its first line's indentation."""
    piece = text[span.start : span.end]
    head = len(piece) - len(piece.lstrip())
    if span.kind is BlockKind.CODE:
        head = piece.rfind("\n", 0, head) + 1
    return replace(span, start=span.start + head) if head else span


def plain_title(content: str) -> str:
    """Return a heading's text as a reader sees it: no marks, no links, no tags, no anchors."""
    content = _ATTRIBUTES.sub("", content)
    if len(content) > LONG_TITLE or not _MARKS.search(content):
        return " ".join(content.split())
    parts: list[str] = []
    for token in _inline_grammar().parseInline(content)[0].children or []:
        if token.type in {"text", "code_inline"} or token.type == "image":
            parts.append(token.content)
        elif token.type in {"softbreak", "hardbreak"}:
            parts.append(" ")
    return " ".join(_TAG.sub("", "".join(parts)).split())
