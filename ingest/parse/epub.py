"""EPUB: the chapters of the spine in order, each read as HTML."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ingest.parse import declared
from ingest.parse.archive import open_zip, refuse_bomb
from ingest.parse.builder import DocumentBuilder
from ingest.parse.decode import decode_text
from ingest.parse.html import html_document
from ingest.parse.ooxml import hardened
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    import zipfile

    from ingest.blocks import ParsedDocument
    from ingest.parse.raw import RawFile

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_FONT_ALGORITHMS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_HTML_TYPES = frozenset({"application/xhtml+xml", "text/html", "application/x-dtbook+xml", ""})
_DC = "{http://purl.org/dc/elements/1.1/}"


def parse_epub(file: RawFile) -> ParsedDocument:
    """Return the document of an .epub file.

    Raises:
        DocumentError: TOO_LARGE, ENCRYPTED (DRM), CORRUPT.
    """
    with open_zip(file.data) as archive:
        refuse_bomb(archive, file.limits)
        _refuse_drm(archive)
        names = set(archive.namelist())
        if _CONTAINER not in names:
            raise DocumentError(FailureCode.CORRUPT, "it has no container.xml", hint="get the book again")
        package = _package_path(archive)
        root = hardened(archive.read(package))
        builder = DocumentBuilder()
        chapters = _spine(root, posixpath.dirname(package))
        for path in chapters:
            if path not in names:
                builder.warnings.append(f"chapter {path[:80]!r} is missing from the book")
                continue
            page = archive.read(path)
            builder.embed(html_document(decode_text(page, declared=declared.in_page(page)).text))
            if len(builder) > file.limits.max_text:
                raise DocumentError(FailureCode.TOO_LARGE, f"it has more than {file.limits.max_text:,} characters")
    named = {
        name: [e.text.strip() for e in root.iter(_DC + name) if (e.text or "").strip()] for name in ("title", "creator")
    }
    title = named["title"][0] if named["title"] else ""
    author = ", ".join(named["creator"])
    properties = {"chapters": len(chapters)} | ({"author": author} if author else {})
    return builder.build(title=title, properties=properties, heading_first=False)


def _package_path(archive: zipfile.ZipFile) -> str:
    root = hardened(archive.read(_CONTAINER))
    for element in root.iter("{*}rootfile"):
        path = unquote(element.get("full-path") or "")
        if path in archive.namelist():
            return path
    raise DocumentError(FailureCode.CORRUPT, "its package file is missing", hint="get the book again")


def _spine(root: object, folder: str) -> list[str]:
    """Return the paths of the chapters in reading order."""
    items = {item.get("id"): item for item in root.iter("{*}item")}  # type: ignore[attr-defined] # an lxml element
    paths: list[str] = []
    for reference in root.iter("{*}itemref"):  # type: ignore[attr-defined]
        item = items.get(reference.get("idref"))
        if (
            item is None
            or (item.get("media-type") or "") not in _HTML_TYPES
            or "nav" in (item.get("properties") or "").split()
        ):
            continue
        href = unquote((item.get("href") or "").partition("#")[0])
        paths.append(posixpath.normpath(posixpath.join(folder, href)))
    return list(dict.fromkeys(paths))


def _refuse_drm(archive: zipfile.ZipFile) -> None:
    if _ENCRYPTION not in archive.namelist():
        return
    root = hardened(archive.read(_ENCRYPTION))
    methods = [method.get("Algorithm") or "" for method in root.iter("{*}EncryptionMethod")]
    if any(not method.startswith(_FONT_ALGORITHMS) for method in methods):
        hint = "ingest a copy without DRM"
        raise DocumentError(FailureCode.ENCRYPTED, "the book is protected (DRM)", hint=hint)
