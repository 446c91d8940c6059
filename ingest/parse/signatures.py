"""File signatures: the first bytes that give a format away, and what an OLE container holds."""

from __future__ import annotations

from enum import Enum, auto


class Signature(Enum):
    """What the first bytes say."""

    PDF = auto()
    ZIP = auto()
    OLE = auto()
    RTF = auto()
    PICTURE = auto()
    ARCHIVE = auto()
    BINARY = auto()


PICTURE_NAMES = frozenset(
    ".png .jpg .jpeg .gif .bmp .tif .tiff .webp .heic .heif .avif .ico .psd .jp2 .jxl .wmf .emf".split()  # noqa: SIM905 - a word list
)

_STARTS = (
    (b"%PDF-", Signature.PDF),
    (b"PK\x03\x04", Signature.ZIP),
    (b"PK\x05\x06", Signature.ZIP),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Signature.OLE),
    (b"{\\rtf", Signature.RTF),
    (b"\x89PNG\r\n\x1a\n", Signature.PICTURE),
    (b"\xff\xd8\xff", Signature.PICTURE),
    (b"GIF87a", Signature.PICTURE),
    (b"GIF89a", Signature.PICTURE),
    (b"II*\x00", Signature.PICTURE),
    (b"MM\x00*", Signature.PICTURE),
    (b"8BPS", Signature.PICTURE),
    (b"\x00\x00\x01\x00", Signature.PICTURE),
    (b"\x00\x00\x00\x0cjP  ", Signature.PICTURE),
    (b"\x1f\x8b", Signature.ARCHIVE),
    (b"BZh", Signature.ARCHIVE),
    (b"\xfd7zXZ\x00", Signature.ARCHIVE),
    (b"7z\xbc\xaf\x27\x1c", Signature.ARCHIVE),
    (b"Rar!\x1a\x07", Signature.ARCHIVE),
    (b"\x28\xb5\x2f\xfd", Signature.ARCHIVE),
    (b"MSCF", Signature.ARCHIVE),
    (b"\x7fELF", Signature.BINARY),
    (b"\xca\xfe\xba\xbe", Signature.BINARY),
    (b"\xcf\xfa\xed\xfe", Signature.BINARY),
    (b"\x00asm", Signature.BINARY),
    (b"SQLite format 3\x00", Signature.BINARY),
    (b"PAR1", Signature.BINARY),
    (b"ID3", Signature.BINARY),
    (b"OggS", Signature.BINARY),
    (b"fLaC", Signature.BINARY),
    (b"\x1aE\xdf\xa3", Signature.BINARY),
    (b"wOFF", Signature.BINARY),
    (b"wOF2", Signature.BINARY),
    (b"\x89HDF", Signature.BINARY),
)
_TAB, _SPACE, _ASCII_END = 0x09, 0x20, 0x80
_MIN_LENGTH = 12  # a shorter file's first bytes prove nothing
_TAR_MARK = 257
_OLE_STREAMS = (
    ("encrypted", "EncryptedPackage"),
    ("msg", "__properties_version1.0"),
    ("legacy", "WordDocument"),
    ("legacy", "PowerPoint Document"),
    ("xls", "Workbook"),
    ("xls", "Book"),
)


def signature_of(data: bytes) -> Signature | None:
    """Return what the first bytes say; None when they say nothing (text, most likely)."""
    if len(data) < _MIN_LENGTH:
        return None
    for start, signature in _STARTS:
        if data.startswith(start):
            return signature if _is_plausible(start, data) else None
    return Signature.ARCHIVE if data[_TAR_MARK : _TAR_MARK + 5] == b"ustar" else _further_in(data)


def _further_in(data: bytes) -> Signature | None:
    """Return what formats say whose mark is not their first bytes, or too short to be trusted alone."""
    if data[4:8] == b"ftyp":
        return Signature.PICTURE if data[8:11] in {b"hei", b"mif", b"avi"} else Signature.BINARY
    if data[:4] == b"RIFF" and data[8:12] in {b"WEBP", b"WAVE", b"AVI "}:
        return Signature.PICTURE if data[8:12] == b"WEBP" else Signature.BINARY
    if data[:2] == b"BM" and int.from_bytes(data[2:6], "little") == len(data):
        return Signature.PICTURE
    return Signature.BINARY if data[:2] == b"MZ" and b"\x00" in data[:64] else None


def _is_plausible(start: bytes, data: bytes) -> bool:
    """Tell whether a signature made of letters is followed by bytes no text holds."""
    if start in {b"%PDF-", b"{\\rtf"} or not start.isascii() or any(byte < _SPACE for byte in start):
        return True
    return any(byte < _TAB or byte >= _ASCII_END for byte in data[:512])


def ole_content(data: bytes) -> str:
    """Return "encrypted", "msg", "legacy", "xls", or "" for an OLE container by its stream names."""
    for content, stream in _OLE_STREAMS:
        # a directory entry: the name in UTF-16, closed by a zero
        if stream.encode("utf-16-le") + b"\x00\x00" in data:
            return content
    return ""
