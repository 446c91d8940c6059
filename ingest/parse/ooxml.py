"""What `unstructured` does not read of an Office file, taken from its zip: properties, notes, comments, equations.

Strict OOXML (valid, but unknown to the libraries below us) is rewritten with the usual names; equations are flattened
to their characters, so that they are not dropped from the sentence they stand in.
"""

from __future__ import annotations

import io
import re
import zipfile
from typing import TYPE_CHECKING, Any

from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Iterator

Element = Any

_STRICT = b"http://purl.oclc.org/ooxml/"
_STRICT_NAMES = (
    (b"officeDocument/relationships", b"http://schemas.openxmlformats.org/officeDocument/2006/relationships"),
    (b"officeDocument/math", b"http://schemas.openxmlformats.org/officeDocument/2006/math"),
    (b"officeDocument/", b"http://schemas.openxmlformats.org/officeDocument/2006/"),
    (b"wordprocessingml/main", b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"),
    (b"spreadsheetml/main", b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"),
    (b"presentationml/main", b"http://schemas.openxmlformats.org/presentationml/2006/main"),
    (b"drawingml/wordprocessingDrawing", b"http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"),
    (b"drawingml/", b"http://schemas.openxmlformats.org/drawingml/2006/"),
)
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_CORE = re.compile(r"\{[^}]*\}(title|creator|subject|keywords|created|modified)$")
_NOTES = (("word/footnotes.xml", "footnote"), ("word/endnotes.xml", "endnote"), ("word/comments.xml", "comment"))
_CONTENT_TYPES = {
    b"application/vnd.ms-word.document.macroEnabled.main+xml": (
        b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    ),
    b"application/vnd.ms-word.template.macroEnabledTemplate.main+xml": (
        b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    ),
    b"application/vnd.openxmlformats-officedocument.wordprocessingml.template.main+xml": (
        b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    ),
    b"application/vnd.ms-powerpoint.presentation.macroEnabled.main+xml": (
        b"application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml"
    ),
    b"application/vnd.openxmlformats-officedocument.presentationml.slideshow.main+xml": (
        b"application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml"
    ),
}


def hardened(data: bytes) -> Element:
    """Parse XML that a stranger wrote: no outside entities, no network, no huge trees, no amplification."""
    parser = etree.XMLParser(
        resolve_entities="internal",  # type: ignore[arg-type] # the stubs are older than this value
        no_network=True,
        load_dtd=False,
        huge_tree=False,
    )
    return etree.fromstring(data, parser)


def usual(data: bytes, archive: zipfile.ZipFile) -> bytes:
    """Return the Office file with everything in it named and written so that the libraries below read it.

    Args:
        data: the file.
        archive: the same file, opened; its sizes were checked.

    Returns:
        `data` itself when nothing had to change.
    """
    changed = {}
    for name in archive.namelist():
        if not name.endswith((".xml", ".rels")):
            continue
        part = archive.read(name)
        new = _renamed(part)
        if name == "word/document.xml" and b"oMath" in new:
            new = _flattened(new)
        if new != part:
            changed[name] = new
    return _rewritten(archive, changed) if changed else data


def core_properties(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return title, author, subject, keywords and dates of an Office file, where they are set."""
    if "docProps/core.xml" not in archive.namelist():
        return {}
    try:
        root = hardened(archive.read("docProps/core.xml"))
    except etree.XMLSyntaxError:
        return {}
    found: dict[str, str] = {}
    for element in root:
        name = _CORE.search(str(element.tag))
        if name and (element.text or "").strip():
            found["author" if name[1] == "creator" else name[1]] = element.text.strip()
    return found


def notes(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of the footnotes, endnotes and comments of a Word file."""
    names = set(archive.namelist())
    for part, kind in _NOTES:
        if part not in names:
            continue
        for note in hardened(_renamed(archive.read(part))).iter(f"{_W}{kind}"):
            paragraphs = ("".join(text.text or "" for text in p.iter(f"{_W}t")) for p in note.iter(f"{_W}p"))
            text = " ".join(filter(None, (paragraph.strip() for paragraph in paragraphs)))
            if text:
                yield kind, text


def _renamed(part: bytes) -> bytes:
    if _STRICT in part:
        for strict, transitional in _STRICT_NAMES:
            part = part.replace(_STRICT + strict, transitional)
    for macro, plain in _CONTENT_TYPES.items():
        part = part.replace(macro, plain)
    return part


def _flattened(part: bytes) -> bytes:
    root = hardened(part)
    for equation in list(root.iter(f"{_M}oMath")):
        text = "".join(piece.text or "" for piece in equation.iter(f"{_M}t"))
        for child in list(equation):
            equation.remove(child)
        equation.tag = f"{_W}r"
        etree.SubElement(equation, f"{_W}t").text = f" {text} "
        outer = equation.getparent()
        if outer is not None and outer.tag == f"{_M}oMathPara":
            outer.addprevious(equation)
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8", standalone=True))


def _rewritten(archive: zipfile.ZipFile, changed: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as copy:
        for entry in archive.infolist():
            copy.writestr(entry.filename, changed.get(entry.filename) or archive.read(entry))
    return out.getvalue()
