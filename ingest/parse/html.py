"""HTML by our own walk over lxml's tree: headings, paragraphs, lists with their numbers, tables, code.

`unstructured` loses `<details>`, list numbers and nesting, pages laid out in tables and everything in a page that nests
deeply, and is ten times slower; so HTML (also inside mail and EPUB) is read here. The walk is a loop over events: no
depth of nesting can exhaust the stack.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lxml import etree

from ingest.parse import declared, html_table
from ingest.parse.builder import DocumentBuilder
from ingest.parse.decode import decode_text
from ingest.parse.html_text import BLOCKS, BREAK, DROPPED, folded, inline_text, local_name, strings

if TYPE_CHECKING:
    from ingest.blocks import ParsedDocument
    from ingest.parse.raw import RawFile

MAX_DEPTH = 200  # of nested elements kept in a page nested too deeply for libxml2

Element = Any  # see html_text.py

_HEADINGS = {f"h{n}": n for n in range(1, 7)}
_FURNITURE_ROLES = frozenset({"navigation", "search", "banner", "contentinfo", "menu", "menubar", "dialog"})
_FURNITURE_CLASSES = frozenset(
    "topnav bottomnav subnav skipnav navbar skip-link skip-to-content skip-to-main sr-only visually-hidden breadcrumb"  # noqa: SIM905 - a word list
    " breadcrumbs sidebar site-footer site-header page-footer cookie-banner headerlink".split()
)
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?!\.)", re.IGNORECASE)
_INLINE_CODE = frozenset({"code", "kbd", "samp", "tt"})
_TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*)[^<>]*>")
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905 - a word list
_LANGUAGE = re.compile(r"(?:language|lang|highlight-source|brush:)-?\s*([\w+#-]+)")


def parse_html(file: RawFile) -> ParsedDocument:
    """Return the document of an HTML page; its title is the first heading, else `<title>`.

    Raises:
        DocumentError: ENCODING.
    """
    decoded = decode_text(file.data, declared=declared.in_page(file.data))
    document = html_document(decoded.text)
    return replace(
        document,
        properties={**document.properties, "encoding": decoded.encoding},
        warnings=(*decoded.warnings, *document.warnings),
    )


def html_document(text: str) -> ParsedDocument:
    """Return HTML source as a document; navigation and hidden parts are left out unless nothing else is there."""
    root = _tree(text)
    if root is None:
        return DocumentBuilder().build()
    builder = DocumentBuilder()
    _Walk(builder, furniture=False).over(root)
    if not len(builder):
        _Walk(builder, furniture=True).over(root)
    titles = [" ".join((title.text or "").split()) for title in root.iter("title")]
    return builder.build(title=titles[0] if titles else "")


def _tree(text: str, *, flattened: bool = False) -> Element | None:
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True, no_network=True)
    data = text.encode("utf-8")
    if not data.strip():
        return None
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError:  # nothing but comments
        return None
    too_deep = any("depth" in entry.message for entry in parser.error_log)
    if too_deep and not flattened:
        return _tree(_shallow(text), flattened=True)
    return root


def _shallow(text: str) -> str:
    """Drop the tags nested deeper than libxml2 follows: it would end the page there."""
    depth = 0

    def kept(tag: re.Match[str]) -> str:
        nonlocal depth
        if tag[2].lower() in _VOID:
            return tag[0]
        depth += -1 if tag[1] else 1
        # the end tag of a kept start tag is met one level up
        return tag[0] if depth + bool(tag[1]) <= MAX_DEPTH else "<br>"

    return _TAG.sub(kept, text)


class _Walk:
    """One pass over a tree in document order, filling a builder."""

    def __init__(self, builder: DocumentBuilder, *, furniture: bool, nested: bool = False) -> None:
        self._builder = builder
        self._furniture = furniture  # keep navigation and hidden parts
        self._nested = nested  # already inside a template: do not open another
        self._inline: list[str] = []
        self._lists: list[int | None] = []  # open lists: next number, or None for bullets
        self._lines: list[str] = []  # of the outermost open list
        self._marker = ""

    def over(self, root: Element) -> None:
        """Walk the tree."""
        events: Any = etree.iterwalk(root, events=("start", "end"))
        for event, element in events:
            tag = local_name(element)
            if event == "start":
                if self._skips(element, tag):
                    events.skip_subtree()
            else:
                self._close(element, tag)
        self._flush()
        self._end_list()

    def _skips(self, element: Element, tag: str) -> bool:
        """Open an element; return whether its inside is done with."""
        if tag == "script" and "template" in (element.get("type") or "") and not self._nested:
            self._template(element.text or "")
            return True
        if tag in DROPPED or (not self._furniture and is_furniture(element, tag)):
            return True
        if tag in _HEADINGS:
            self._break_off()
            self._builder.heading(_HEADINGS[tag], inline_text(element))
            return True
        if tag == "pre":
            self._break_off()
            self._builder.code("".join(strings(element)), language=_language(element))
            return True
        if tag == "table" and html_table.holds_data(element):
            self._break_off()
            self._builder.table(html_table.rows_of(element))
            return True
        self._open(element, tag)
        return False

    def _open(self, element: Element, tag: str) -> None:
        if tag in BLOCKS:
            self._flush()
        if tag in {"ul", "ol", "dl"}:
            start = element.get("start") or "1"
            self._lists.append((int(start) if start.isascii() and start.isdigit() else 1) if tag == "ol" else None)
        elif tag in {"li", "dt"} and self._lists:
            number = self._lists[-1]
            self._marker = "- " if number is None else f"{number}. "
            if number is not None:
                self._lists[-1] = number + 1
        self._inline.append(_mark(element, tag))
        self._inline.append(element.text or "")

    def _close(self, element: Element, tag: str) -> None:
        if tag in BLOCKS:
            self._flush()
        if tag in {"ul", "ol", "dl"} and self._lists and not self._was_skipped(element):
            self._lists.pop()
            if not self._lists:
                self._end_list()
        elif tag in _INLINE_CODE and not self._was_skipped(element):
            self._inline.append("`")
        if element.tail:
            self._inline.append(element.tail)

    def _was_skipped(self, element: Element) -> bool:
        return not self._furniture and is_furniture(element, local_name(element))

    def _flush(self) -> None:
        """End the paragraph or list item being collected."""
        text = folded("".join(self._inline))
        self._inline.clear()
        if text in {"", "`", "``"}:
            return
        if not self._lists:
            self._builder.paragraph(text)
            return
        indent = "  " * (len(self._lists) - 1)
        hanging = indent + "  "
        first = indent + self._marker if self._marker else hanging
        self._marker = ""
        self._lines.append(first + text.replace("\n", f"\n{hanging}"))

    def _end_list(self) -> None:
        if self._lines:
            self._builder.paragraph("\n".join(self._lines))
            self._lines.clear()

    def _break_off(self) -> None:
        """Write what is collected, so that a block of another kind can follow; open lists stay open."""
        self._flush()
        self._end_list()

    def _template(self, source: str) -> None:
        """Read a template that a script would show: some sites keep their whole text in one."""
        self._break_off()
        root = _tree(source)
        if root is not None:
            _Walk(self._builder, furniture=self._furniture, nested=True).over(root)


def _mark(element: Element, tag: str) -> str:
    """Return what an inline element itself stands for, before its text."""
    if tag == "br":
        return BREAK
    if tag == "img":
        return f" {element.get('alt') or ''} "
    return "`" if tag in _INLINE_CODE else ""


def is_furniture(element: Element, tag: str) -> bool:
    """Tell whether an element is navigation, page header or footer, or hidden from readers."""
    attributes = element.attrib
    if not attributes:
        return tag == "footer" and local_name(element.getparent()) == "body"
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    if _HIDDEN_STYLE.search(attributes.get("style", "")):
        return True
    if attributes.get("role", "").lower() in _FURNITURE_ROLES:
        return True
    if tag in {"html", "body", "main", "article"}:
        return False
    classes = attributes.get("class", "").lower().split()
    return not _FURNITURE_CLASSES.isdisjoint(classes)


def _language(element: Element) -> str:
    for node in (element, element[0] if len(element) else element):
        found = _LANGUAGE.search(node.get("class") or "")
        if found:
            return str(found[1])
    return ""
