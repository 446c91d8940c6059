"""Reads a zip's directory before anything is unpacked: what is inside, and whether it is a bomb."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

from kb.errors import DocumentError, FailureCode

if TYPE_CHECKING:
    from ingest.parse.raw import ParseLimits

RATIO_FLOOR = 10_000_000  # bytes; smaller entries may be packed as tightly as they like

_HINT = "if the file is genuine, split it or save it without embedded objects"


def open_zip(data: bytes) -> zipfile.ZipFile:
    """Return the opened zip.

    Raises:
        DocumentError: CORRUPT when its directory cannot be read (truncated, or no zip at all).
    """
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, EOFError) as error:
        raise DocumentError(
            FailureCode.CORRUPT,
            f"its zip directory cannot be read, it is probably truncated ({error})",
            hint="get the file again from where it came from",
        ) from error


def refuse_bomb(archive: zipfile.ZipFile, limits: ParseLimits) -> None:
    """Raise DocumentError TOO_LARGE when unpacking the zip would exceed `limits`, judging by its directory."""
    entries = archive.infolist()
    if len(entries) > limits.entries:
        raise _too_large(f"it holds {len(entries)} entries, more than {limits.entries}")
    total = sum(entry.file_size for entry in entries)
    if total > limits.unzipped:
        raise _too_large(f"it unpacks to {total:,} bytes, more than {limits.unzipped:,}")
    for entry in entries:
        if entry.file_size > RATIO_FLOOR and entry.file_size > limits.ratio * max(entry.compress_size, 1):
            raise _too_large(
                f"its part {entry.filename[:80]!r} unpacks to {entry.file_size:,} bytes,"
                f" {entry.file_size // max(entry.compress_size, 1)} times its packed size"
            )


def _too_large(message: str) -> DocumentError:
    return DocumentError(FailureCode.TOO_LARGE, message, hint=_HINT)
