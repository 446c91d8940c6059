"""What kind of file this is, from its bytes first and its name second: a PDF named .txt is a PDF."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ingest.parse import signatures
from ingest.parse.archive import open_zip
from ingest.parse.decode import decode_text
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    import zipfile


class FileKind(StrEnum):
    """A kind of file there is a parser for."""

    MARKDOWN = "markdown"
    TEXT = "text"
    CODE = "code"
    MARKUP = "markup"
    SUBTITLES = "subtitles"
    NOTEBOOK = "notebook"
    HTML = "html"
    XML = "xml"
    RST = "rst"
    PDF = "pdf"
    DOCX = "docx"
    PPTX = "pptx"
    XLSX = "xlsx"
    XLS = "xls"
    ODT = "odt"
    EPUB = "epub"
    TABLE = "table"
    JSON = "json"
    JSON_LINES = "json_lines"
    MAIL = "mail"
    OUTLOOK = "outlook"


_TEXTUAL = {
    FileKind.MARKDOWN: ".md .markdown .mdx .mdown .mkd .qmd .rmd",
    FileKind.TEXT: ".txt .text",
    FileKind.MARKUP: ".adoc .asciidoc .org .tex .latex",
    FileKind.SUBTITLES: ".vtt .srt",
    FileKind.NOTEBOOK: ".ipynb",
    FileKind.HTML: ".html .htm .xhtml .shtml",
    FileKind.XML: ".xml .svg .rss .atom .xsd .xsl .xslt .wsdl .opml .xliff .dita .kml .gpx",
    FileKind.RST: ".rst .rest",
    FileKind.TABLE: ".csv .tsv .tab",
    FileKind.JSON: ".json .geojson .jsonld .webmanifest",
    FileKind.JSON_LINES: ".ndjson .jsonl",
    FileKind.MAIL: ".eml",
    FileKind.CODE: (
        ".py .pyi .go .js .mjs .cjs .ts .tsx .jsx .java .c .h .cc .cpp .cxx .hpp .hh .rs .sh .bash .zsh .fish"
        " .sql .yaml .yml .toml .ini .cfg .conf .properties .env .rb .php .pl .pm .lua .r .jl .kt .kts .scala"
        " .swift .m .mm .cs .fs .vb .dart .ex .exs .erl .hs .ml .mli .clj .cljs .lisp .el .scm .vim .ps1 .psm1"
        " .bat .cmd .awk .sed .proto .thrift .graphql .gql .tf .tfvars .hcl .nix .cmake .mk .gradle .groovy"
        " .css .scss .less .sass .vue .svelte .astro .jsonc .json5 .log .diff .patch .bib .sol .v .vhd .asm .s"
        " .f90 .f .pas .d .zig .nim .cr .tcl .dockerfile .bzl .bazel .rego .cue .jsonnet .puml .plantuml .mmd"
        " .dot"
    ),
}
_BY_SUFFIX = {suffix: kind for kind, suffixes in _TEXTUAL.items() for suffix in suffixes.split()}
_CODE_NAMES = frozenset(
    "dockerfile makefile jenkinsfile vagrantfile gemfile rakefile procfile containerfile justfile codeowners .gitignore"  # noqa: SIM905 - a word list
    " .dockerignore .editorconfig .gitattributes .env".split()
)
_OFFICE = {
    ".docx": FileKind.DOCX, ".docm": FileKind.DOCX, ".dotx": FileKind.DOCX, ".pptx": FileKind.PPTX,
    ".pptm": FileKind.PPTX, ".ppsx": FileKind.PPTX, ".xlsx": FileKind.XLSX, ".xlsm": FileKind.XLSX,
    ".odt": FileKind.ODT, ".epub": FileKind.EPUB,
}  # fmt: skip
_BINARY_NAMES = {*_OFFICE, ".pdf", ".msg", ".xls"}
_LEGACY = {".doc": ".docx", ".dot": ".docx", ".ppt": ".pptx", ".pps": ".pptx"}
_ZIP_PARTS = (("word/", FileKind.DOCX), ("ppt/", FileKind.PPTX), ("xl/", FileKind.XLSX))
_MIMETYPES = {b"application/epub+zip": FileKind.EPUB, b"application/vnd.oasis.opendocument.text": FileKind.ODT}
_PROLOGUE = ((b"<?xml", b"?>"), (b"<!--", b"-->"))
_HTML_STARTS = (b"<!doctype html", b"<html>", b"<html ")
_BLANK = b" \t\r\n\x0b\x0c\x00\xef\xbb\xbf\xff\xfe"
_MIMETYPE_LENGTH = 200  # bytes no real one exceeds
_MANIFEST_LENGTH = 1_000_000
_ENCRYPTED_HINT = "save a copy without a password and ingest that"
_AGAIN = "get the file again from where it came from, or give it its right file name ending"


def kind_of(name: str, data: bytes) -> FileKind:
    """Return the kind of a file.

    Args:
        name: its name, with or without folders.
        data: all its bytes.

    Raises:
        DocumentError: EMPTY, ENCRYPTED, LEGACY_FORMAT, NO_TEXT (pictures), CORRUPT (not what its name says) or
            UNSUPPORTED.
    """
    if not data[:4096].strip(_BLANK) and not data.strip(_BLANK):
        raise DocumentError(FailureCode.EMPTY, "the file is empty", hint="write something in it, or delete it")
    suffix = PurePosixPath(name.replace("\\", "/")).suffix.lower()
    signature = signatures.signature_of(data)
    if signature is not None:
        return _by_signature(signature, suffix, data)
    if suffix == ".pdf" and b"%PDF-" in data[:1024]:
        return FileKind.PDF
    return _by_name(PurePosixPath(name.replace("\\", "/")).name.lower(), suffix, data)


def _by_signature(signature: signatures.Signature, suffix: str, data: bytes) -> FileKind:
    match signature:
        case signatures.Signature.PDF:
            return FileKind.PDF
        case signatures.Signature.ZIP:
            return _in_zip(suffix, data)
        case signatures.Signature.OLE:
            return _in_ole(suffix, data)
        case signatures.Signature.PICTURE:
            hint = "run OCR over it and ingest the text, or describe it in a Markdown file"
            raise DocumentError(FailureCode.NO_TEXT, "it is a picture", hint=hint)
        case signatures.Signature.ARCHIVE:
            raise DocumentError(FailureCode.UNSUPPORTED, "it is an archive", hint="unpack it and ingest the folder")
        case signatures.Signature.RTF:
            hint = "convert it to .docx (for example with LibreOffice) and ingest that"
            raise DocumentError(FailureCode.UNSUPPORTED, "RTF is not read", hint=hint)
        case signatures.Signature.BINARY:
            hint = "exclude it with .kbignore"
            raise DocumentError(FailureCode.UNSUPPORTED, "it is a program, a database, sound or video", hint=hint)


def _in_zip(suffix: str, data: bytes) -> FileKind:
    with open_zip(data) as archive:
        names = archive.namelist()
        mimetype = _mimetype(archive) if "mimetype" in names else b""
        encrypted = mimetype in _MIMETYPES and b"encryption-data" in _manifest(archive)
    if encrypted:
        raise DocumentError(FailureCode.ENCRYPTED, "it is protected with a password", hint=_ENCRYPTED_HINT)
    kind = _MIMETYPES.get(mimetype) or _by_parts(names)
    if kind is not None:
        return kind
    if suffix in _BINARY_NAMES:
        raise DocumentError(FailureCode.CORRUPT, f"it is a zip, but not a {suffix} file", hint=_AGAIN)
    if mimetype.startswith(b"application/vnd.oasis."):
        hint = "save it as .xlsx or .pptx (for example with LibreOffice)"
        raise DocumentError(FailureCode.UNSUPPORTED, "OpenDocument sheets and slides are not read", hint=hint)
    raise DocumentError(FailureCode.UNSUPPORTED, "it is an archive", hint="unpack it and ingest the folder")


def _by_parts(names: list[str]) -> FileKind | None:
    if "[Content_Types].xml" in names:
        for part, kind in _ZIP_PARTS:
            if any(name.startswith(part) for name in names):
                return kind
    return FileKind.EPUB if "META-INF/container.xml" in names else None


def _mimetype(archive: zipfile.ZipFile) -> bytes:
    entry = archive.getinfo("mimetype")
    return archive.read(entry).strip() if entry.file_size < _MIMETYPE_LENGTH and not entry.flag_bits & 1 else b""


def _manifest(archive: zipfile.ZipFile) -> bytes:
    name = "META-INF/manifest.xml"
    return (
        archive.read(name) if name in archive.namelist() and archive.getinfo(name).file_size < _MANIFEST_LENGTH else b""
    )


def _in_ole(suffix: str, data: bytes) -> FileKind:
    match signatures.ole_content(data):
        case "encrypted":
            raise DocumentError(FailureCode.ENCRYPTED, "it is protected with a password", hint=_ENCRYPTED_HINT)
        case "msg":
            return FileKind.OUTLOOK
        case "xls":
            return FileKind.XLS
        case "legacy":
            target = _LEGACY.get(suffix, ".docx")
            raise DocumentError(
                FailureCode.LEGACY_FORMAT,
                "it is in the old binary Office format",
                hint=f"convert it to {target} (for example with LibreOffice: soffice --convert-to {target[1:]})",
            )
        case _ if suffix in _BINARY_NAMES:
            raise DocumentError(FailureCode.CORRUPT, f"it is not a {suffix} file", hint=_AGAIN)
        case _:
            raise DocumentError(FailureCode.UNSUPPORTED, "an OLE file of an unknown program", hint="convert it first")


def _starts_as_html(head: bytes) -> bool:
    """Tell whether a page begins here, after an XML declaration and comments."""
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    while opened := next((pair for pair in _PROLOGUE if head.startswith(pair[0])), None):
        _, closed, head = head.partition(opened[1])
        if not closed:
            return False
        head = head.lstrip()
    return head[:20].lower().startswith(_HTML_STARTS)


def _by_name(base: str, suffix: str, data: bytes) -> FileKind:
    if suffix in _BINARY_NAMES or suffix in signatures.PICTURE_NAMES:
        raise DocumentError(FailureCode.CORRUPT, f"it is not a {suffix} file, or its start is missing", hint=_AGAIN)
    kind = FileKind.CODE if base in _CODE_NAMES else _BY_SUFFIX.get(suffix)
    if kind in {FileKind.TEXT, FileKind.MARKDOWN, FileKind.XML, None} and _starts_as_html(data[:4096]):
        return FileKind.HTML
    if suffix in _LEGACY:
        hint = f"convert it to {_LEGACY[suffix]} (for example with LibreOffice)"
        raise DocumentError(FailureCode.LEGACY_FORMAT, "it is in an old Office format", hint=hint)
    if kind is not None:
        return kind
    try:
        decode_text(data)
    except DocumentError as error:
        hint = "exclude it with .kbignore, or convert it to a format that is read"
        raise DocumentError(FailureCode.UNSUPPORTED, f"no parser reads {suffix or 'such'} files", hint=hint) from error
    return FileKind.TEXT
