"""XML (and SVG) with every door shut: no outside entities, no network, no huge trees.

A feed's items become sections, other elements `path: text` lines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lxml import etree

from ingest.parse import declared
from ingest.parse.builder import DocumentBuilder
from ingest.parse.decode import decode_text
from ingest.parse.html import html_document
from ingest.parse.html_text import local_name
from ingest.parse.ooxml import hardened
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    from ingest.blocks import ParsedDocument
    from ingest.parse.raw import RawFile

Element = Any

GROUP_LINES = 40  # lines of loose elements gathered in one block

_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
_FEED_ITEMS = frozenset({"item", "entry"})
_FEEDS = frozenset({"rss", "feed", "rdf"})
_BODIES = ("content", "encoded", "description", "summary")
_SVG_TEXT = frozenset({"text", "title", "desc"})
_TITLES = ("title", "name", "heading", "head", "label")


def parse_xml(file: RawFile) -> ParsedDocument:
    """Return the document of an XML file.

    Raises:
        DocumentError: CORRUPT, with the line, when it is not well formed; ENCODING.
    """
    root = _root(file.data)
    kind = local_name(root)
    if kind == "html":
        return html_document(decode_text(file.data, declared=declared.in_page(file.data)).text)
    builder = DocumentBuilder()
    if kind == "svg":
        for element in root.iter():
            if local_name(element) in _SVG_TEXT:
                builder.paragraph(_text(element))
    elif kind in _FEEDS:
        _feed(root, builder)
    else:
        _generic(root, builder)
    return builder.build(properties={"root": kind})


def _root(data: bytes) -> Element:
    try:
        try:
            return hardened(data)
        except etree.XMLSyntaxError as error:
            if "ncoding" not in str(error) and "not proper UTF-8" not in str(error):
                raise
            text = _DECLARATION.sub("", decode_text(data, declared=declared.in_xml(data)).text)
            return hardened(text.encode("utf-8"))
    except etree.XMLSyntaxError as error:
        hint = "check it with an XML validator"
        raise DocumentError(FailureCode.CORRUPT, f"not well-formed XML: {error.msg}", hint=hint) from error


def _feed(root: Element, builder: DocumentBuilder) -> None:
    channel = next((element for element in root if local_name(element) == "channel"), root)
    builder.heading(1, _child_text(channel, "title"))
    builder.paragraph(_child_text(channel, "description") or _child_text(channel, "subtitle"))
    for item in root.iter():
        if local_name(item) not in _FEED_ITEMS:
            continue
        builder.heading(2, _child_text(item, "title"))
        builder.paragraph(_child_text(item, "pubdate") or _child_text(item, "updated"))
        body = next((text for text in (_child_text(item, name) for name in _BODIES) if text), "")
        if "<" in body:
            builder.embed(html_document(body))
        else:
            builder.paragraph(body)


def _child_text(element: Element, name: str) -> str:
    return next((_text(child) for child in element if local_name(child) == name), "")


def _generic(root: Element, builder: DocumentBuilder) -> None:
    """Gather `path: text` lines: the leaves of one parent are one block, of at most GROUP_LINES lines."""
    lines: list[str] = []
    path: list[str] = []
    group: Element = None
    events: Any = etree.iterwalk(root, events=("start", "end"))
    for event, element in events:
        if event == "end":
            path.pop()
            continue
        path.append(local_name(element))
        if len(element) and not _is_mixed(element):
            continue
        events.skip_subtree()
        text = _text(element)
        if not text:
            continue
        if element.getparent() is not group or len(lines) >= GROUP_LINES:
            _end_group(builder, lines)
            group = element.getparent()
        lines.append(f"{'/'.join(path[1:]) or path[0]}: {text}")
    _end_group(builder, lines)


def _end_group(builder: DocumentBuilder, lines: list[str]) -> None:
    if lines:
        builder.paragraph("\n".join(lines))
        lines.clear()


def _is_mixed(element: Element) -> bool:
    return bool((element.text or "").strip()) or any((child.tail or "").strip() for child in element)


def _text(element: Element) -> str:
    """Return an element's text as one line."""
    found: list[str] = []
    events: Any = etree.iterwalk(element, events=("start", "end", "comment", "pi"))
    for event, node in events:
        if event == "start":
            found.append(node.text or "")
        elif node is not element:
            found.append(node.tail or "")
    return " ".join("".join(found).split())
