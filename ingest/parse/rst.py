"""reStructuredText by docutils, as a tree only: nothing is included, nothing raw passes, nothing unknown kills."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ingest.parse.builder import DocumentBuilder
from ingest.parse.decode import decode_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ingest.blocks import ParsedDocument
    from ingest.parse.raw import RawFile

_SETTINGS = {
    "report_level": 5,
    "halt_level": 6,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "_disable_config": True,
    "warning_stream": False,
    "doctitle_xform": False,
    "docinfo_xform": False,
    "syntax_highlight": "none",
    "smart_quotes": False,
    "line_length_limit": 10_000_000,
    "input_encoding": "unicode",
}
_ROLE = re.compile(r":[\w:+.-]+:`([^`<]*?)(?:\s*<([^`>]*)>)?`")
_DIRECTIVE = re.compile(r"\.\.\s+([\w:+.-]+)::[ \t]*(.*)")
_OPTION = re.compile(r"\s*:[\w-]+:")
_CODE_DIRECTIVES = frozenset({"code-block", "sourcecode", "code", "literalinclude", "highlight", "prompt", "doctest"})
_SILENT_DIRECTIVES = frozenset(
    "toctree index automodule autoclass autofunction currentmodule contents raw include meta".split()  # noqa: SIM905 - a word list
)
_HEADER_LINE = re.compile(r"[A-Z][\w-]*:(?:\s|$)")
_BODY = frozenset(
    {"paragraph", "rubric", "attribution", "caption", "term", "subtitle", "line_block", "footnote", "citation"}
)
_LISTS = frozenset({"bullet_list", "enumerated_list", "definition_list", "field_list", "option_list"})
_SKIPPED = frozenset(
    {"comment", "target", "substitution_definition", "pending", "meta", "topic_contents", "decoration"}
)


def parse_rst(file: RawFile) -> ParsedDocument:
    """Return the document of a .rst file.

    Raises:
        DocumentError: ENCODING.
    """
    from docutils.core import publish_doctree  # noqa: PLC0415 - loaded when first needed

    decoded = decode_text(file.data)
    headers, body = _mail_headers(decoded.text)
    builder = DocumentBuilder()
    if headers:
        builder.paragraph("\n".join(f"{name}: {value}" for name, value in headers.items()))
    tree = publish_doctree(body, settings_overrides=dict(_SETTINGS))
    _Reader(builder).children(tree, depth=1)
    document = builder.build(
        title=headers.get("Title", ""),
        properties={"encoding": decoded.encoding, **{k.lower(): v for k, v in headers.items()}},
        heading_first=not headers.get("Title"),
    )
    return replace(document, warnings=(*decoded.warnings, *document.warnings))


def _mail_headers(text: str) -> tuple[dict[str, str], str]:
    """Return the mail-like header above the text (Python's PEPs have one), and the text below it."""
    head, _, body = text.lstrip("\n").partition("\n\n")
    headers: dict[str, str] = {}
    name = ""
    for line in head.split("\n"):
        if _HEADER_LINE.match(line):
            name, _, value = line.partition(":")
            headers[name] = value.strip()
        elif name and line[:1].isspace():
            headers[name] += f" {line.strip()}"
        else:
            return {}, text
    return (headers, body) if len(headers) > 1 else ({}, text)


class _Reader:
    """Turns a docutils tree into blocks, in order."""

    def __init__(self, builder: DocumentBuilder) -> None:
        self._builder = builder
        self._by_tag: dict[str, Callable[[Any, int], None]] = {
            "section": self._section,
            "literal_block": self._literal,
            "doctest_block": self._literal,
            "math_block": self._literal,
            "table": self._table,
            "system_message": self._unknown,
            "title": lambda node, depth: self._builder.heading(max(depth - 1, 1), plain(node)),
            "image": lambda node, _: self._builder.paragraph(str(node.get("alt", ""))),
        }

    def children(self, node: Any, *, depth: int) -> None:  # noqa: ANN401 - the vendor's object
        """Read what stands directly under `node`; `depth` is the level of a section there."""
        for child in node.children:
            tag = child.tagname
            if tag in _SKIPPED or (tag == "topic" and "contents" in child.get("classes", ())):
                continue
            if tag in self._by_tag:
                self._by_tag[tag](child, depth)
            elif tag in _BODY or not hasattr(child, "children") or tag == "#text":
                self._builder.paragraph(plain(child))
            elif tag in _LISTS:
                self._list(child, depth)
            else:
                self.children(child, depth=depth)

    def _section(self, node: Any, depth: int) -> None:  # noqa: ANN401 - the vendor's object
        self.children(node, depth=depth + 1)

    def _literal(self, node: Any, _depth: int) -> None:  # noqa: ANN401 - the vendor's object
        classes = [name for name in node.get("classes", ()) if name != "code"]
        self._builder.code(node.astext(), language=str(classes[0]) if classes else "")

    def _table(self, node: Any, _depth: int) -> None:  # noqa: ANN401 - the vendor's object
        for title in (child for child in node.children if child.tagname == "title"):
            self._builder.paragraph(plain(title))
        rows = [
            [" ".join(plain(entry).split()) for entry in row.children if entry.tagname == "entry"]
            for row in node.findall(lambda found: found.tagname == "row")
        ]
        self._builder.table(rows)

    def _unknown(self, node: Any, depth: int) -> None:  # noqa: ANN401 - the vendor's object
        """Read a directive docutils does not know: its argument and body, as code where the name says so."""
        for block in (child for child in node.children if child.tagname == "literal_block"):
            first, _, rest = block.astext().partition("\n")
            found = _DIRECTIVE.match(first)
            if found is None or found[1] in _SILENT_DIRECTIVES:
                continue
            lines = rest.split("\n")
            while lines and (_OPTION.match(lines[0])):
                lines.pop(0)
            body = _dedented(lines)
            if found[1] in _CODE_DIRECTIVES:
                self._builder.code(body, language=found[2])
                continue
            self._builder.paragraph(_roles_read(found[2]))
            self._inner(body, depth)

    def _inner(self, body: str, depth: int) -> None:
        from docutils.core import publish_doctree  # noqa: PLC0415 - loaded when first needed

        if body.strip():
            self.children(publish_doctree(body, settings_overrides=dict(_SETTINGS)), depth=depth + 1)

    def _list(self, node: Any, depth: int) -> None:  # noqa: ANN401 - the vendor's object
        """Add a list as one block; one that holds code or tables is added piece by piece."""
        special = {"literal_block", "doctest_block", "table", "system_message", "section"}
        if any(True for _ in node.findall(lambda found: found.tagname in special)):
            for item in node.children:
                self.children(item, depth=depth)
        else:
            self._builder.paragraph("\n".join(_list_lines(node, "")))


def _list_lines(node: Any, indent: str) -> Iterator[str]:  # noqa: ANN401 - the vendor's object
    number = int(node.get("start", 1)) if node.tagname == "enumerated_list" else 0
    for item in node.children:
        marker = f"{number}. " if number else "- "
        number += bool(number)
        first = True
        for child in item.children:
            if child.tagname in _LISTS:
                yield from _list_lines(child, indent + "  ")
                continue
            text = plain(child).strip()
            if text:
                yield f"{indent}{marker if first else '  '}" + text.replace("\n", f"\n{indent}  ")
                first = False


def plain(node: Any) -> str:  # noqa: ANN401 - the vendor's object
    """Return a node's text; roles docutils does not know are read as their text."""
    return _roles_read(node.astext())


def _roles_read(text: str) -> str:
    return _ROLE.sub(lambda role: role[1].strip() or role[2] or "", text)


def _dedented(lines: list[str]) -> str:
    import textwrap  # noqa: PLC0415 - loaded when first needed

    return textwrap.dedent("\n".join(lines)).strip("\n")
