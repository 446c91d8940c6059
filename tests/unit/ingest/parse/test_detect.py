from __future__ import annotations

import gzip
import io
import tarfile
import zipfile

import pytest

from ingest.parse.detect import FileKind, kind_of
from kb.errors import FailureCode
from tests.unit.ingest.parse.laws import code, failure, parsed


def zipped(**parts: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return out.getvalue()


def ole(*streams: str) -> bytes:
    directory = b"".join(stream.encode("utf-16-le") + b"\x00\x00" for stream in streams)
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + directory


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.md", FileKind.MARKDOWN),
        ("A.MDX", FileKind.MARKDOWN),
        ("folder.pdf/readme.markdown", FileKind.MARKDOWN),
        ("C:\\docs\\a.rst", FileKind.RST),
        ("a.py", FileKind.CODE),
        ("config.yaml", FileKind.CODE),
        ("Dockerfile", FileKind.CODE),
        ("LICENSE", FileKind.TEXT),
        ("notes.unknown", FileKind.TEXT),
        ("a.jsonl", FileKind.JSON_LINES),
        ("a.svg", FileKind.XML),
    ],
)
def test_text_is_told_by_its_name(name: str, kind: FileKind) -> None:
    assert kind_of(name, b"some words\n") is kind


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.unknown", "noext"])
def test_bytes_win_over_the_name(name: str) -> None:
    assert kind_of(name, b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n") is FileKind.PDF
    assert kind_of(name, zipped(**{"[Content_Types].xml": b"", "word/document.xml": b""})) is FileKind.DOCX
    assert kind_of(name, zipped(mimetype=b"application/epub+zip")) is FileKind.EPUB
    assert kind_of(name, ole("__properties_version1.0")) is FileKind.OUTLOOK
    assert code(name, b"\x89PNG\r\n\x1a\n" + bytes(100)) is FailureCode.NO_TEXT


def test_an_html_page_under_another_name_is_a_page() -> None:
    page = b"<?xml version='1.0'?>\n<!-- a --><!-- b -->\n<!DOCTYPE HTML><html><p>x</p></html>"
    assert kind_of("a.txt", page) is FileKind.HTML
    assert kind_of("a.md", b"\xef\xbb\xbf  <html ><p>x</p></html>") is FileKind.HTML
    assert kind_of("a.md", b"<!-- html --> <html-like> text") is FileKind.MARKDOWN


def test_a_thousand_comments_cost_no_time_to_tell_apart() -> None:
    assert kind_of("a.md", b"<!-- a -->\n" * 100_000) is FileKind.MARKDOWN


@pytest.mark.parametrize("data", [b"", b" \n\t", b"\xef\xbb\xbf\n", b"\x00\x00", b"\xff\xfe"])
@pytest.mark.parametrize("name", ["a.md", "a.pdf", "a.docx", "noext"])
def test_nothing_is_empty_whatever_its_name(name: str, data: bytes) -> None:
    assert code(name, data) is FailureCode.EMPTY


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.docx", ole("EncryptedPackage"), FailureCode.ENCRYPTED),
        ("a.xlsx", ole("EncryptionInfo", "EncryptedPackage"), FailureCode.ENCRYPTED),
        ("a.doc", ole("WordDocument"), FailureCode.LEGACY_FORMAT),
        ("a.ppt", ole("PowerPoint Document"), FailureCode.LEGACY_FORMAT),
        ("a.doc", b"plain words under an old name", FailureCode.LEGACY_FORMAT),
        ("a.docx", zipped(**{"a.txt": b"x"}), FailureCode.CORRUPT),
        ("a.zip", zipped(**{"a.txt": b"x"}), FailureCode.UNSUPPORTED),
        ("a.txt", gzip.compress(b"x" * 100, mtime=0), FailureCode.UNSUPPORTED),
        ("a.rtf", b"{\\rtf1\\ansi some words}", FailureCode.UNSUPPORTED),
        ("a.pdf", b"these are words, not pages", FailureCode.CORRUPT),
        ("a.png", b"these are words, not pixels", FailureCode.CORRUPT),
        ("a.docx", b"these are words, not a zip", FailureCode.CORRUPT),
        ("a.exe", b"MZ\x90\x00" + bytes(200), FailureCode.UNSUPPORTED),
        ("a.blob", bytes(range(256)) * 20, FailureCode.UNSUPPORTED),
        ("a.mp4", b"\x00\x00\x00\x18ftypmp42" + bytes(100), FailureCode.UNSUPPORTED),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else str(value),
)
def test_what_cannot_be_read_says_why(name: str, data: bytes, expected: FailureCode) -> None:
    assert code(name, data) is expected


def test_an_old_word_file_is_told_how_to_become_a_new_one() -> None:
    assert "LibreOffice" in failure("a.doc", ole("WordDocument")).hint
    assert ".pptx" in failure("a.ppt", ole("PowerPoint Document")).hint


def test_a_tar_is_an_archive() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"), io.BytesIO(b""))
    assert code("a.bin", out.getvalue()) is FailureCode.UNSUPPORTED


def test_words_that_look_like_a_signature_are_words() -> None:
    assert parsed("a.txt", "MZ was a good band, and so was ID3.").text.startswith("MZ")
    assert parsed("a.txt", "BM stands for many things in many texts").text.startswith("BM")
    assert parsed("a.txt", "ID3 tags are described on this page").text.startswith("ID3")
