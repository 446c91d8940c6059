"""Outlook messages (.msg), read from their OLE streams: text properties in the code page the message declares.

The libraries below `unstructured` know no Chinese code page of Windows and give mojibake or an error there; the streams
are few and their names fixed (MS-OXMSG), so they are read here.
"""

from __future__ import annotations

import datetime as dt
import io
import struct
from typing import TYPE_CHECKING, Any

from ingest.parse.decode import decode_text
from ingest.parse.mail import HINT_ENCRYPTED, mail_document
from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    from ingest.blocks import ParsedDocument
    from ingest.parse.raw import RawFile

_PROPERTIES = "__properties_version1.0"
_TOP_HEADER = 32  # bytes before the first property entry
_ENTRY = struct.Struct("<HHIQ")  # type, id, flags, value
_CLASS, _SUBJECT, _SENDER, _SENDER_MAIL, _TO, _CC = 0x001A, 0x0037, 0x0C1A, 0x0C1F, 0x0E04, 0x0E03
_BODY, _HTML, _CODE_PAGES, _DATES = 0x1000, 0x1013, (0x3FDE, 0x3FFD), (0x0039, 0x0E06)
_LONG_NAME, _SHORT_NAME, _MIME_TYPE = 0x3707, 0x3704, 0x370E
_ENCRYPTED_TYPES = frozenset({"application/pgp-encrypted", "application/pkcs7-mime"})
_EPOCH = dt.datetime(1601, 1, 1, tzinfo=dt.UTC)


def parse_outlook(file: RawFile) -> ParsedDocument:
    """Return the document of a .msg file.

    Raises:
        DocumentError: ENCRYPTED (S/MIME), CORRUPT.
    """
    import olefile  # type: ignore[import-untyped]  # noqa: PLC0415 - loaded when first needed

    with olefile.OleFileIO(io.BytesIO(file.data)) as ole:
        numbers = _numbers(ole)
        charset = next((f"cp{numbers[p]}" for p in _CODE_PAGES if numbers.get(p)), "")
        charset = {"cp65001": "utf-8", "cp20127": "", "cp936": "gb18030", "cp54936": "gb18030"}.get(charset, charset)

        def text(prop: int, under: str = "") -> str:
            return _text(ole, prop, under=under, charset=charset)

        kind = text(_CLASS)
        if "SMIME" in kind.upper() and "MULTIPARTSIGNED" not in kind.upper():
            raise DocumentError(FailureCode.ENCRYPTED, "it is encrypted (S/MIME)", hint=HINT_ENCRYPTED)
        headers = {
            "from": " ".join(filter(None, (text(_SENDER), _bracketed(text(_SENDER_MAIL))))),
            "to": text(_TO),
            "cc": text(_CC),
            "subject": text(_SUBJECT),
            "date": next((_date(numbers[p]) for p in _DATES if numbers.get(p)), ""),
        }
        folders = dict.fromkeys(entry[0] for entry in ole.listdir() if entry[0].startswith("__attach"))
        names = [text(_LONG_NAME, folder) or text(_SHORT_NAME, folder) or "unnamed" for folder in folders]
        html = _html(ole, charset)
        plain = text(_BODY)
        types = {text(_MIME_TYPE, folder).lower() for folder in folders}
        if types & _ENCRYPTED_TYPES and not (plain or html):
            raise DocumentError(FailureCode.ENCRYPTED, "it is encrypted (PGP or S/MIME)", hint=HINT_ENCRYPTED)
        return mail_document(headers, plain=plain, html=html, attachments=names)


def _numbers(ole: Any) -> dict[int, int]:  # noqa: ANN401 - the vendor's object
    data = ole.openstream(_PROPERTIES).read()[_TOP_HEADER:]
    entries = _ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size])
    wide = {0x0040, 0x0014}
    return {prop: value if kind in wide else value & 0xFFFFFFFF for kind, prop, _, value in entries}


def _stream(ole: Any, prop: int, kind: int, under: str) -> bytes | None:  # noqa: ANN401 - the vendor's object
    name = f"__substg1.0_{prop:04X}{kind:04X}"
    path = f"{under}/{name}" if under else name
    return bytes(ole.openstream(path).read()) if ole.exists(path) else None


def _text(ole: Any, prop: int, *, under: str, charset: str) -> str:  # noqa: ANN401 - the vendor's object
    wide = _stream(ole, prop, 0x001F, under)
    if wide is not None:
        return wide.decode("utf-16-le", "ignore").strip("\x00 ")
    narrow = _stream(ole, prop, 0x001E, under)
    return _decoded(narrow, charset).strip("\x00 ") if narrow and narrow.strip(b"\x00 ") else ""


def _html(ole: Any, charset: str) -> str:  # noqa: ANN401 - the vendor's object
    data = _stream(ole, _HTML, 0x0102, "")
    return _decoded(data, charset) if data else _text(ole, _HTML, under="", charset=charset)


def _decoded(data: bytes, charset: str) -> str:
    return decode_text(data, declared=charset).text


def _bracketed(address: str) -> str:
    return f"<{address}>" if "@" in address else ""


def _date(filetime: int) -> str:
    try:
        return (_EPOCH + dt.timedelta(microseconds=filetime // 10)).isoformat(timespec="seconds")
    except OverflowError:
        return ""
