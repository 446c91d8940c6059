"""Bytes become text: the encoding found, and the text in one normal form.

A file that is UTF-8 but for a few bad bytes keeps its good part: each bad byte is read as cp1252 (what such files were
pasted from), or dropped where cp1252 has nothing there; a warning counts them. U+FFFD is never introduced.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from dataclasses import dataclass

from ingest.parse import charset
from kb.errors import DocumentError, FailureCode

HINT = "save the file as UTF-8; if it is not text, give it its right file name ending"
BAD_SHARE = 0.02  # of the non-ASCII characters that may be broken in a file still taken for UTF-8
CONTROL_SHARE = 0.02  # of control characters from which bytes are no text

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ODD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_MULTI_BYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_CONTROL = bytes(set(range(0x20)) - {0x07, 0x08, 0x09, 0x0A, 0x0C, 0x0D, 0x1B})
_SAMPLE = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Text and how it was read.

    Args:
        text: NFC, line feeds, no control characters but tab, no lone surrogates.
        encoding: Python's name of the encoding.
        warnings: what was repaired.
    """

    text: str
    encoding: str
    warnings: tuple[str, ...] = ()


def decode_text(data: bytes, *, declared: str = "") -> Decoded:
    """Return the text of `data`.

    Args:
        data: the file's bytes.
        declared: encoding the file names itself (see declared.py; a mail's header); believed where UTF-8 does not fit
            and it does.

    Raises:
        DocumentError: ENCODING when the bytes fit no text encoding.
    """
    mark = next(((bom, name) for bom, name in _MARKS if data.startswith(bom)), None)
    if mark is not None:
        return _marked(data[len(mark[0]) :], mark[1])
    wide = _wide(data[:_SAMPLE])
    if wide:
        return _marked(data, wide)
    if _is_binary(data):
        wide = _if_reads(data[:_SAMPLE], "utf-16-le") or _if_reads(data[:_SAMPLE], "utf-16-be")
        if wide:
            return _marked(data, wide)
        raise DocumentError(FailureCode.ENCODING, "the bytes are not text in any encoding", hint=HINT)
    return _utf8(data) or _legacy(data, charset.canonical(declared) if declared else "")


def normalised(text: str) -> str:
    """Return `text` in NFC with line feeds, without control characters, byte order marks and lone surrogates."""
    if _ODD.search(text):
        text = _ODD.sub("", _LINE_ENDS.sub("\n", text))
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def _marked(data: bytes, encoding: str) -> Decoded:
    try:
        return Decoded(text=normalised(data.decode(encoding)), encoding=encoding)
    except UnicodeDecodeError as error:
        text = data.decode(encoding, "ignore")
        if not text or (error.start < len(data) // 2 and len(text) * 2 < len(data) // 4):
            raise DocumentError(
                FailureCode.ENCODING, f"it says it is {encoding} but is not: {error.reason}", hint=HINT
            ) from error
        lost = _lost(data, text, encoding)
        return Decoded(
            text=normalised(text), encoding=encoding, warnings=(f"{lost} bytes are not valid {encoding}; dropped",)
        )


def _lost(data: bytes, text: str, encoding: str) -> int:
    return max(len(data) - len(text.encode(encoding, "surrogatepass")), 1)


def _wide(sample: bytes) -> str:
    """Name UTF-16 or UTF-32 without a mark by where the zero bytes stand; "" for neither."""
    if sample.count(0) < len(sample) // 10:
        return _wide_han(sample)
    lanes = [sample[i::4].count(0) / max(len(sample[i::4]), 1) for i in range(4)]
    low, high = 0.5, 0.9
    if min(lanes[0], lanes[1]) > high and lanes[3] < low:
        return "utf-32-be"
    if min(lanes[2], lanes[3]) > high and lanes[0] < low:
        return "utf-32-le"
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if odd > 5 * even:
        return _if_reads(sample, "utf-16-le")
    return _if_reads(sample, "utf-16-be") if even > 5 * odd else ""


def _wide_han(sample: bytes) -> str:
    """Name UTF-16 whose text is Chinese: few zero bytes, but line ends and spaces are two bytes."""
    for encoding, space, line in (("utf-16-le", b"\x20\x00", b"\x0a\x00"), ("utf-16-be", b"\x00\x20", b"\x00\x0a")):
        if (line in sample or space in sample) and b"\x00" in sample:
            return _if_reads(sample, encoding)
    return ""


def _if_reads(sample: bytes, encoding: str) -> str:
    try:
        text = sample[: len(sample) // 2 * 2].decode(encoding)
    except UnicodeDecodeError as error:
        if error.start < len(sample) - 4:
            return ""
        text = sample[: error.start].decode(encoding)
    usual = sum(
        (char.isascii() and char >= "\t") or "\u3000" <= char <= "\u9fff" or "\uff00" <= char <= "\uffef"
        for char in text
    )
    return encoding if text and "\x00" not in text and usual > 0.7 * len(text) else ""


def _is_binary(data: bytes) -> bool:
    sample = data[:_SAMPLE]
    controls = len(sample) - len(sample.translate(None, _CONTROL))
    return controls > CONTROL_SHARE * len(sample) and controls > 1


def _utf8(data: bytes) -> Decoded | None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _mended(data)
    if b"\x1b$" in data[:_SAMPLE] or charset.is_utf8_by_chance(data, text):
        return None
    return Decoded(text=normalised(text), encoding="utf-8")


def _mended(data: bytes) -> Decoded | None:
    """Read a file that is UTF-8 but for a few bytes; None when it is not."""
    good = len(_MULTI_BYTE.findall(data))
    bad = 0
    parts: list[str] = []
    at = 0
    while at < len(data):
        try:
            parts.append(data[at:].decode("utf-8"))
            break
        except UnicodeDecodeError as error:
            parts.append(data[at : at + error.start].decode("utf-8"))
            parts.append(data[at + error.start : at + error.end].decode("cp1252", "ignore"))
            bad += error.end - error.start
            at += error.end
        if bad > max(BAD_SHARE * good, min(good // 2, 3)):
            return None
    if not charset.is_utf8_in_ruins(data, bad):
        return None
    text = normalised("".join(parts))
    return Decoded(
        text=text, encoding="utf-8", warnings=(f"{bad} bytes are not valid UTF-8; read as cp1252 or dropped",)
    )


def _legacy(data: bytes, declared: str) -> Decoded:
    if declared and (fits := _strictly(data, declared)):
        return fits
    guess = charset.guessed(data)
    if guess and (fits := _strictly(data, guess)):
        return fits
    encoding = guess or declared
    if encoding:
        text = data.decode(encoding, "ignore")
        lost = _lost(data, text, encoding)
        if lost <= max(charset.BROKEN_SHARE * len(data), 1):
            warning = f"{lost} bytes are not valid {encoding}; dropped"
            return Decoded(text=normalised(text), encoding=encoding, warnings=(warning,))
    raise DocumentError(FailureCode.ENCODING, "the bytes fit no text encoding", hint=HINT)


def _strictly(data: bytes, encoding: str) -> Decoded | None:
    try:
        return Decoded(text=normalised(data.decode(encoding)), encoding=encoding)
    except UnicodeDecodeError:
        return None
