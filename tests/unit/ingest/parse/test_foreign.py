from __future__ import annotations

import zipfile
import zlib
from struct import error as StructError  # noqa: N812 - the class is called `error`

import pytest
from lxml import etree
from pptx.exc import PackageNotFoundError
from pypdfium2 import PdfiumError
from xlrd import XLRDError

from ingest.parse import ParseLimits, guarded, parse
from ingest.parse.foreign import translated
from kb.errors import DocumentError, FailureCode


def malformed() -> etree.XMLSyntaxError:
    with pytest.raises(etree.XMLSyntaxError) as caught:
        etree.fromstring("<a>")
    return caught.value


FAMILIES = [
    (PdfiumError("Failed to load document (PDFium: Incorrect password error)."), FailureCode.ENCRYPTED),
    (PdfiumError("Failed to load document (PDFium: Data format error)."), FailureCode.CORRUPT),
    (XLRDError("Workbook is encrypted"), FailureCode.ENCRYPTED),
    (PackageNotFoundError("Package not found"), FailureCode.CORRUPT),
    (zipfile.BadZipFile("File is not a zip file"), FailureCode.CORRUPT),
    (RuntimeError("File 'x' is encrypted, password required for extraction"), FailureCode.ENCRYPTED),
    (ValueError("not a ZIP archive (so not a DOCX file)"), FailureCode.CORRUPT),
    (KeyError("no relationship of type officeDocument"), FailureCode.CORRUPT),
    (malformed(), FailureCode.CORRUPT),
    (zlib.error("invalid block type"), FailureCode.CORRUPT),
    (StructError("unpack requires a buffer"), FailureCode.CORRUPT),
    (EOFError("ran out"), FailureCode.CORRUPT),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), FailureCode.ENCODING),
    (LookupError("unknown encoding: windows-950"), FailureCode.ENCODING),
    (MemoryError(), FailureCode.OUT_OF_MEMORY),
    (RecursionError("maximum recursion depth exceeded"), FailureCode.CORRUPT),
    (IndexError("list index out of range"), FailureCode.PARSER_ERROR),
    (TypeError("'NoneType' object is not iterable"), FailureCode.PARSER_ERROR),
    (AttributeError("'NoneType' object has no attribute 'xpath'"), FailureCode.PARSER_ERROR),
]


@pytest.mark.parametrize(("error", "expected"), FAMILIES, ids=lambda v: type(v).__name__)
def test_every_family_of_errors_becomes_a_code(error: Exception, expected: FailureCode) -> None:
    def fails() -> None:
        raise error

    with pytest.raises(DocumentError) as caught:
        guarded(fails)
    assert caught.value.code is expected
    assert caught.value.hint
    assert len(str(caught.value)) <= 300


def test_a_document_error_passes_as_it_is() -> None:
    error = DocumentError(FailureCode.EMPTY, "x")
    assert translated(error) is error


def test_too_many_bytes_are_refused_unread() -> None:
    with pytest.raises(DocumentError) as caught:
        parse("a.md", b"x" * 11, ParseLimits(max_bytes=10))
    assert caught.value.code is FailureCode.TOO_LARGE


def test_too_much_text_is_refused() -> None:
    with pytest.raises(DocumentError) as caught:
        parse("a.md", b"x" * 11, ParseLimits(max_text=10))
    assert caught.value.code is FailureCode.TOO_LARGE


def test_little_text_in_many_bytes_is_told() -> None:
    page = b"<p>few words</p><script>" + b"x" * 20_000 + b"</script>"
    assert parse("a.html", page, ParseLimits()).warnings == ("only 9 characters of text in 20,033 bytes",)
