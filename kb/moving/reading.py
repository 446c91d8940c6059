"""Reads an archive that may be damaged or hostile: nothing is unpacked, nothing followed, every byte accounted for.

A folder or a tar file holds exactly the files that its manifest names, each a regular one. Rows come one by one,
bounded in length and in number; when a table's last row has come, its file's hash, size and count have been held
against the manifest.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import stat
import tarfile
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from kb.errors import InputError, KbError, Refused
from kb.moving.manifest import ENDING, HINT, MANIFEST, MAX_MANIFEST_BYTES, file_name, parsed
from kb.moving.values import checked_row
from kb.moving.writing import MAX_ROW_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kb.model import Json
    from kb.moving.manifest import Manifest, TableFile

STEP = 1 << 16
MOST_FILES = 200
BLOCK = 512  # bytes of a tar's header, and what its members are padded to
_PLAIN = re.compile(rf"[a-z][a-z_]*{re.escape(ENDING)}")


class Archive:
    """An archive that was found to have the right files; made by `reading`."""

    def __init__(self, files: dict[str, _Part], manifest: Manifest) -> None:
        self._files = files
        self.manifest = manifest

    def rows(self, table: str) -> Iterator[tuple[int, dict[str, Json]]]:
        """Yield a table's rows with their lines' lengths in bytes.

        Raises:
            Refused: the file is not the one that the manifest describes, or a row is not fit for its table.
        """
        said = self.manifest.tables[table]
        number = 0
        with _opened(self._files[file_name(table)]) as raw:
            counted = _Counted(raw, said.size)
            for line in _lines(table, counted, said):
                number += 1
                yield len(line), _row_of(table, said, number, line)
            counted.drain()
        if (number, counted.size, counted.sha.hexdigest()) != (said.rows, said.size, said.sha256):
            raise Refused(f"{file_name(table)} is not the file that was exported: its checksum differs", hint=HINT)

    def verify(self) -> None:
        """Read every row once and keep none.

        Raises:
            Refused: as `rows`.
        """
        for table in self.manifest.tables:
            for _ in self.rows(table):
                pass


@contextmanager
def reading(path: Path) -> Iterator[Archive]:
    """Open an archive, a folder or a tar file, and look at its list of files; rows are read later.

    Raises:
        InputError: there is none.
        Refused: it holds other files than its manifest says, or what is no plain file.
    """
    try:
        files = _of_folder(path) if path.is_dir() else _of_tar(path)
        if MANIFEST not in files:
            raise Refused(f"{path} has no {MANIFEST}: it is no archive, or only the beginning of one", hint=HINT)
        if files[MANIFEST].size > MAX_MANIFEST_BYTES:
            raise Refused(f"{MANIFEST} is too long", hint=HINT)
        with _opened(files[MANIFEST]) as raw:
            manifest = parsed(raw.read(MAX_MANIFEST_BYTES))
        expected = {MANIFEST, *map(file_name, manifest.tables)}
        if files.keys() != expected:
            odd = sorted(files.keys() ^ expected)
            raise Refused(f"{path} does not hold the files that it lists: {odd[0]!r}", hint=HINT)
        for table, said in manifest.tables.items():
            if files[file_name(table)].size != said.size:
                raise Refused(f"{file_name(table)} is not as long as it was: it is cut off, or was changed", hint=HINT)
        yield Archive(files, manifest)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", hint=HINT) from error


class _Part:
    """Where a file's bytes are: all of a file, or a stretch of a tar."""

    def __init__(self, path: Path, start: int, size: int) -> None:
        self.path = path
        self.start = start
        self.size = size


class _Counted(io.RawIOBase):
    """A file that hashes what is read of it and ends after as many bytes as were promised, and one more."""

    def __init__(self, raw: IO[bytes], most: int) -> None:
        self._raw = raw
        self._left = most + 1  # one more gives a longer file away
        self.sha = hashlib.sha256()
        self.size = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._raw.read(min(STEP if size < 0 else size, self._left))
        self._left -= len(data)
        self.size += len(data)
        self.sha.update(data)
        return data

    def drain(self) -> None:
        """Read what is left, so that all of it is hashed."""
        while self.read(STEP):
            pass


class _Stretch(io.RawIOBase):
    """A stretch of a file, read from its beginning to its end."""

    def __init__(self, raw: IO[bytes], size: int) -> None:
        self._raw = raw
        self._left = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._raw.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


@contextmanager
def _opened(part: _Part) -> Iterator[IO[bytes]]:
    with _plain(part.path) as raw:
        raw.seek(part.start)
        yield _Stretch(raw, part.size)  # type: ignore[misc] # it reads, no more is asked


def _plain(path: Path) -> IO[bytes]:
    """Open a regular file; a link is not followed, a pipe not waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Refused(f"{path} is no regular file", hint=HINT)
    return os.fdopen(handle, "rb")


def _of_folder(folder: Path) -> dict[str, _Part]:
    files = dict[str, _Part]()
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):  # file managers leave such
                continue
            if len(files) > MOST_FILES or not entry.is_file(follow_symlinks=False):
                raise Refused(f"{folder} holds what is no file of an archive: {entry.name!r}", hint=HINT)
            size = entry.stat(follow_symlinks=False).st_size
            files[entry.name] = _Part(folder / entry.name, 0, size)
    return files


def _of_tar(path: Path) -> dict[str, _Part]:
    """Return where the members of a tar are. Only plain members of plain names are taken, and none is unpacked."""
    files: dict[str, _Part] = {}
    with _plain(path) as raw:
        length = os.fstat(raw.fileno()).st_size
        at = 0
        while (header := _header(path, raw, at)) is not None:
            if header.type not in {tarfile.REGTYPE, tarfile.AREGTYPE} or not _is_expected(header.name):
                raise Refused(f"{path} holds what is no file of an archive: {header.name!r}", hint=HINT)
            start = at + BLOCK
            if header.name in files or len(files) > MOST_FILES or not 0 <= header.size <= length - start:
                raise Refused(f"{path} is cut off, or {header.name!r} is in it twice", hint=HINT)
            files[header.name] = _Part(path, start, header.size)
            at = start + -(-header.size // BLOCK) * BLOCK
    return files


def _header(path: Path, raw: IO[bytes], at: int) -> tarfile.TarInfo | None:
    raw.seek(at)
    block = raw.read(BLOCK)
    if block == bytes(BLOCK):
        return None
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError) as error:
        raise Refused(f"{path} is no tar file, or is cut off: {error}", hint=HINT) from None


def _is_expected(name: str) -> bool:
    return name == MANIFEST or _PLAIN.fullmatch(name) is not None


def _lines(table: str, raw: _Counted, said: TableFile) -> Iterator[bytes]:
    """Yield the lines of a packed file, never more bytes than were promised."""
    left, held, pieces = said.unpacked, 0, list[bytes]()
    with gzip.GzipFile(fileobj=raw, mode="rb") as packed:
        while piece := _unpacked(table, packed):
            left -= len(piece)
            held += len(piece)
            if left < 0 or held > MAX_ROW_BYTES:
                raise Refused(f"{file_name(table)} unpacks to more than it says", hint=HINT)
            pieces.append(piece)
            if b"\n" in piece:
                *whole, rest = b"".join(pieces).split(b"\n")
                pieces, held = [rest], len(rest)
                yield from whole
    if held or left:
        raise Refused(f"{file_name(table)} is cut off", hint=HINT)


def _unpacked(table: str, packed: gzip.GzipFile) -> bytes:
    try:
        return packed.read(STEP)
    except (OSError, EOFError, zlib.error) as error:
        raise Refused(f"{file_name(table)} does not unpack: {error}", hint=HINT) from None


def _row_of(table: str, said: TableFile, number: int, line: bytes) -> dict[str, Json]:
    try:
        return checked_row(table, said.columns, json.loads(line.decode("utf-8"), parse_constant=_refused))
    except (ValueError, RecursionError, KbError) as error:
        raise Refused(f"{file_name(table)}, row {number}: {error}", hint=HINT) from None


def _refused(name: str) -> Json:
    raise ValueError(f"{name} is no JSON")
