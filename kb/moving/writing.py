"""Writes an archive, as a folder or as one tar file: under a temporary name, renamed when everything is on the disk.

Whoever is killed meanwhile leaves a hidden name that the next export to the same place removes; nothing looks whole
that is not. The same rows give the same bytes.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import gzip
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kb.errors import DependencyError, InputError, IntegrityError
from kb.moving.manifest import MANIFEST, TableFile, file_name, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kb.model import Json
    from kb.moving.manifest import Manifest

TAR = ".tar"
MAX_ROW_BYTES = 64 << 20  # of a row's line; what reads it holds one in memory
BUFFER = 1 << 18
TEXT_LEVEL, VECTOR_LEVEL = 6, 1  # vectors hardly pack: little work for the little there is
STEP = 1000  # rows between two words of progress
ARCHIVE_NAME = "archive.tar"


class ArchiveWriter:
    """An archive that is being written; made by `writing`."""

    def __init__(self, folder: Path, tar: tarfile.TarFile | None) -> None:
        self._folder = folder
        self._tar = tar

    def add(
        self,
        table: str,
        columns: Mapping[str, str],
        rows: Iterable[Mapping[str, Json]],
        progress: Callable[[int], None] = lambda _: None,
    ) -> TableFile:
        """Write a table's rows and return what the manifest says of them.

        Args:
            table: its name.
            columns: kind by name.
            rows: in the order in which they are to be read.
            progress: told after how many rows it goes on.

        Raises:
            IntegrityError: a row is longer than any reader takes.
        """
        path = self._folder / file_name(table)
        level = VECTOR_LEVEL if "bytes" in columns.values() else TEXT_LEVEL
        with _new_file(path) as raw:
            hashed = _Hashed(raw)
            with gzip.GzipFile("", "wb", level, hashed, mtime=0) as packed:
                count, unpacked = _write_lines(table, rows, packed, progress)
        self._pack(path)
        return TableFile(
            rows=count, size=hashed.size, unpacked=unpacked, sha256=hashed.sha.hexdigest(), columns=dict(columns)
        )

    def seal(self, manifest: Manifest) -> None:
        """Write the manifest, after which the archive is whole."""
        path = self._folder / MANIFEST
        with _new_file(path) as raw:
            raw.write(written(manifest))
        self._pack(path)

    def _pack(self, path: Path) -> None:
        if self._tar is None:
            return
        entry = tarfile.TarInfo(path.name)
        entry.size, entry.mode = path.stat().st_size, 0o600
        with path.open("rb") as content:
            self._tar.addfile(entry, content)
        path.unlink()


@contextmanager
def writing(target: Path) -> Iterator[ArchiveWriter]:
    """Write an archive to `target`: a tar file when its name ends in `.tar`, else a folder.

    The context must end without an exception for anything to be at `target`.

    Raises:
        InputError: something is there already, or its folder is not.
        DependencyError: the disk is full, or may not be written.
    """
    target = target.absolute()
    is_tar = target.suffix == TAR
    _refuse_taken(target, is_tar=is_tar)
    with _told(target), _own_folder(target) as folder:
        whole = folder / ARCHIVE_NAME if is_tar else folder
        if is_tar:
            with _new_file(whole) as raw, tarfile.open(mode="w", fileobj=raw, format=tarfile.GNU_FORMAT) as tar:
                yield ArchiveWriter(folder, tar)
        else:
            yield ArchiveWriter(folder, None)
        _sync_folder(folder)
        _refuse_taken(target, is_tar=is_tar)
        whole.rename(target)
        _sync_folder(target.parent)


class _Hashed:
    """Passes bytes on, counts and hashes them."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self.sha = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.sha.update(data)
        self.size += len(data)
        return self._raw.write(data)

    def flush(self) -> None:
        self._raw.flush()


def _write_lines(
    table: str, rows: Iterable[Mapping[str, Json]], packed: gzip.GzipFile, progress: Callable[[int], None]
) -> tuple[int, int]:
    count = unpacked = 0
    held = bytearray()
    for row in rows:
        line = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        if len(line) > MAX_ROW_BYTES:
            raise IntegrityError(f"a row of {table} is {len(line):,} bytes long; at most {MAX_ROW_BYTES:,} travel")
        held += line
        if len(held) >= BUFFER:
            packed.write(held)
            held.clear()
        count, unpacked = count + 1, unpacked + len(line)
        if count % STEP == 0:
            progress(count)
    packed.write(held)
    progress(count)
    return count, unpacked


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that only its owner may read, on the disk when the context ends."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as raw:
        yield raw
        raw.flush()
        os.fsync(raw.fileno())


def _refuse_taken(target: Path, *, is_tar: bool) -> None:
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is no folder", hint="create it first")
    if target.is_symlink() or (target.exists() and (is_tar or not target.is_dir() or any(target.iterdir()))):
        raise InputError(f"{target} is there already", hint="name another place; an export never overwrites")


@contextmanager
def _own_folder(target: Path) -> Iterator[Path]:
    """A hidden folder beside the target, locked as long as its process lives, and gone afterwards."""
    beginning = f".{target.name}.partial-"
    _remove_left(target.parent, beginning)
    folder = Path(tempfile.mkdtemp(prefix=beginning, dir=target.parent))
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(handle)
        shutil.rmtree(folder, ignore_errors=True)  # of a folder that was renamed nothing is here


def _remove_left(parent: Path, beginning: str) -> None:
    for left in parent.glob(f"{glob.escape(beginning)}*"):
        try:
            handle = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
        except BlockingIOError:
            pass  # another export is at work
        finally:
            os.close(handle)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _told(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        hint = "free some space, or name another disk" if is_full else "check the folder's owner and permissions"
        raise DependencyError(f"{target} cannot be written: {error.strerror or error}", hint=hint) from error
