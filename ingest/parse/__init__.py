"""Bytes become documents: what kind of file it is, its text, and the blocks it is made of.

`parse` runs in the caller's process; ingestion calls it through `ingest.parse.worker`, whose child process can be
stopped. Only what a file needs is imported: a folder of Markdown never loads a PDF or Office library.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ingest.parse.detect import FileKind, kind_of
from ingest.parse.foreign import translated
from ingest.parse.raw import ParseLimits, RawFile
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.blocks import ParsedDocument

__all__ = ["PARSER_VERSION", "ParseLimits", "guarded", "parse"]

P = ParamSpec("P")
T = TypeVar("T")

PARSER_VERSION = "1"
"""Part of the pipeline fingerprint; grows whenever any parser gives another text, other blocks or other properties."""

LOW_YIELD = 0.01  # characters of text per byte below which a document is suspect
LOW_YIELD_FLOOR = 10_000  # bytes; small files are never suspect

_PARSERS = {
    FileKind.MARKDOWN: "markdown:parse_markdown",
    FileKind.TEXT: "plaintext:parse_plaintext",
    FileKind.CODE: "source_code:parse_code",
    FileKind.MARKUP: "markup:parse_markup",
    FileKind.SUBTITLES: "markup:parse_subtitles",
    FileKind.NOTEBOOK: "notebook:parse_notebook",
    FileKind.HTML: "html:parse_html",
    FileKind.XML: "xml:parse_xml",
    FileKind.RST: "rst:parse_rst",
    FileKind.PDF: "pdf:parse_pdf",
    FileKind.DOCX: "office:parse_docx",
    FileKind.PPTX: "office:parse_pptx",
    FileKind.XLSX: "office:parse_xlsx",
    FileKind.XLS: "office:parse_xls",
    FileKind.ODT: "odt:parse_odt",
    FileKind.EPUB: "epub:parse_epub",
    FileKind.TABLE: "tabular:parse_table",
    FileKind.JSON: "records:parse_json",
    FileKind.JSON_LINES: "records:parse_json_lines",
    FileKind.MAIL: "mail:parse_mail",
    FileKind.OUTLOOK: "outlook:parse_outlook",
}


def parse(name: str, data: bytes, limits: ParseLimits) -> ParsedDocument:
    """Return the document in a file.

    Args:
        name: the file's name; hints at its kind, never becomes the title.
        data: its bytes.
        limits: sizes it must keep. Time and memory are kept by the worker, not here.

    Raises:
        DocumentError: and nothing else, whatever the file does to the library that reads it.
    """
    if len(data) > limits.max_bytes:
        hint = "split it, or raise `ingest.max_bytes`"
        raise DocumentError(
            FailureCode.TOO_LARGE, f"it has {len(data):,} bytes, more than {limits.max_bytes:,}", hint=hint
        )
    return guarded(_parsed, RawFile(name=name, data=data, limits=limits))


def guarded(step: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `step` returns.

    Raises:
        DocumentError: for anything at all that `step` raises; foreign parsers raise at least nine unrelated families.
    """
    try:
        return step(*args, **kwargs)
    except Exception as error:
        raise translated(error) from error


def _parsed(file: RawFile) -> ParsedDocument:
    kind = kind_of(file.name, file.data)
    return _checked(_parser(kind)(file), kind, size=len(file.data), limits=file.limits)


def _parser(kind: FileKind) -> Callable[[RawFile], ParsedDocument]:
    module, _, function = _PARSERS[kind].partition(":")
    parser: Callable[[RawFile], ParsedDocument] = getattr(import_module(f"{__name__}.{module}"), function)
    return parser


def _checked(document: ParsedDocument, kind: FileKind, *, size: int, limits: ParseLimits) -> ParsedDocument:
    length = len(document.text)
    if not document.blocks:
        hint = "open it: if it shows text, save it in another format; if it is scanned, run OCR over it"
        raise DocumentError(FailureCode.NO_TEXT, f"its {size:,} bytes hold no text", hint=hint)
    if length > limits.max_text:
        raise DocumentError(
            FailureCode.TOO_LARGE, f"it has {length:,} characters, more than {limits.max_text:,}", hint="split it"
        )
    warnings = document.warnings
    if size >= LOW_YIELD_FLOOR and length < LOW_YIELD * size:
        warnings = (*warnings, f"only {length:,} characters of text in {size:,} bytes")
    return replace(document, parser=f"kb-parse/{PARSER_VERSION}/{kind}", warnings=warnings)
