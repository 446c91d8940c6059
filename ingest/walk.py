"""Finds the files of a source, and reads one of them. The edge to the file system: every surprise becomes a value.

Real folders are walked first, links afterwards and only inside the root, so that a file is found under its own name;
every folder is entered once, whatever links lead to it. Nothing but regular files is ever opened.
"""

from __future__ import annotations

import errno
import heapq
import os
import stat
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ingest.ignore import DEFAULT_PATTERNS, IGNORE_FILE, IgnoreRules, PathGlobs, ignore_rules, is_ignored
from kb.errors import DocumentError, FailureCode

_MAX_BYTES = 50_000_000
_ENVIRONMENT_MARK = "pyvenv.cfg"  # stands in every Python environment, whatever its folder is called
_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)


class SkipReason(StrEnum):
    """Why an entry was left out though no rule says so; documented in docs/reference/failures.md."""

    TOO_LARGE = "too_large"
    SPECIAL_FILE = "special_file"  # FIFO, socket, device
    LINK_DANGLING = "link_dangling"
    LINK_OUTSIDE = "link_outside"  # leads out of the root
    LINK_LOOP = "link_loop"  # leads to a folder above itself, or to itself
    LINK_REPEATED = "link_repeated"  # what it leads to was found already
    NAME_ENCODING = "name_encoding"  # no valid UTF-8
    NAME_REPEATED = "name_repeated"  # another name is the same in NFC, with forward slashes
    NAME_TOO_LONG = "name_too_long"  # no URI could hold it
    UNREADABLE_FOLDER = "unreadable_folder"
    VANISHED = "vanished"


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkRules:
    """What a walk takes and leaves.

    Args:
        include: gitignore patterns that narrow: a file must match one of them; empty for all.
        exclude: gitignore patterns left out, stronger than any `.kbignore`.
        max_bytes: larger files are skipped.
        max_name_bytes: files whose path from the root is longer, in UTF-8, are skipped; None for no limit.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_bytes: int = _MAX_BYTES
    max_name_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file as it was when the walk passed.

    Args:
        relative: path from the root: forward slashes, NFC.
        path: absolute path, spelled as on the disk.
        size: bytes.
        mtime_ns: time of its last change.
        inode: its number on its device.
        device: the device.
    """

    relative: str
    path: Path
    size: int
    mtime_ns: int
    inode: int
    device: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """An entry that was left out, and why."""

    relative: str
    reason: SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a walk found.

    Args:
        files: sorted by `relative`, which is unique.
        skipped: sorted likewise.
        complete: every folder could be listed. Only then is a missing file known to be deleted.
        single: the root was one file, or one file was asked for: nothing is known of any other.
    """

    files: tuple[FoundFile, ...]
    skipped: tuple[Skipped, ...]
    complete: bool
    single: bool = False


def walk(root: Path, rules: WalkRules, *, within: str = "") -> Scan:
    """Return the files under `root` that no rule leaves out.

    Args:
        root: folder, or one file. A file that is named is taken whatever `.kbignore` says.
        rules: what to take.
        within: relative path that narrows the walk, while the rules of the folders above it still count: a folder with
            a slash at its end, or a file; "" for all.
    """
    single = within if within and not within.endswith("/") else ""
    try:
        if not stat.S_ISDIR(root.stat().st_mode):
            root, single = root.parent, root.name
    except OSError as error:
        walker = _Walker(root, rules)
        walker.unlisted("", error)
        return walker.scan(single=False)
    walker = _Walker(root, rules)
    if single:
        walker.take_file(single)
    else:
        walker.walk_folder(within)
    return walker.scan(single=bool(single))


def read_file(found: FoundFile, max_bytes: int) -> bytes:
    """Return the bytes of a found file, if it still is that file and did not change while it was read.

    Raises:
        DocumentError: VANISHED (gone, replaced, or changing), PERMISSION, or TOO_LARGE.
    """
    try:
        if not stat.S_ISREG(found.path.stat().st_mode):  # before opening: opening a device may do something
            raise _changed("it is no regular file any more")
        descriptor = os.open(found.path, _OPEN)
        with os.fdopen(descriptor, "rb") as file:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode) or (before.st_ino, before.st_dev) != (found.inode, found.device):
                raise _changed("another file took its place")
            data = file.read(max_bytes + 1)
            after = os.fstat(descriptor)
    except PermissionError as error:
        hint = "let the user who runs kb read it, or leave it out in .kbignore"
        raise DocumentError(FailureCode.PERMISSION, "the file may not be read", hint=hint) from error
    except OSError as error:
        message = f"the file cannot be read: {error.strerror or error}"
        raise DocumentError(FailureCode.VANISHED, message, hint=_AGAIN) from error
    if len(data) > max_bytes:
        message = f"the file has more than {max_bytes:,} bytes"
        raise DocumentError(FailureCode.TOO_LARGE, message, hint="raise ingest.max_bytes in kb.toml, or split the file")
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or len(data) != after.st_size:
        raise _changed("changing while it was read")
    return data


def place_of(name: str) -> str:
    """Return a name or path as a URI has it: in NFC, a backslash taken for a slash."""
    return unicodedata.normalize("NFC", name).replace("\\", "/")


_AGAIN = "run again when nothing writes to it"


def _changed(what: str) -> DocumentError:
    return DocumentError(FailureCode.VANISHED, f"the file has changed since the walk: {what}", hint=_AGAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    path: Path
    relative: str  # NFC, with a slash at its end; "" for the root
    rules: tuple[IgnoreRules, ...]


class _Walker:
    def __init__(self, root: Path, rules: WalkRules) -> None:
        self._root = root
        self._max_bytes = rules.max_bytes
        self._max_name_bytes = rules.max_name_bytes
        self._include = PathGlobs(rules.include) if rules.include else None
        self._exclude = ignore_rules(rules.exclude)
        self._files: dict[str, FoundFile] = {}  # by place_of their path
        self._skipped: list[Skipped] = []
        self._complete = True
        self._seen: set[tuple[int, int]] = set()  # folders entered and files found: (device, inode)
        self._links: list[tuple[tuple[bytes, str], str, Path, _Folder]] = []  # a heap, in the order of names

    def scan(self, *, single: bool) -> Scan:
        files = sorted(self._files.values(), key=lambda f: f.relative)
        skipped = sorted(self._skipped, key=lambda s: (s.relative, s.reason))
        return Scan(files=tuple(files), skipped=tuple(skipped), complete=self._complete and not single, single=single)

    def take_file(self, relative: str) -> None:
        path = self._spelled(relative)
        if "\\" in relative and self._spelled(place_of(relative)).is_file():
            self._skip(relative, SkipReason.NAME_REPEATED)
            return
        try:
            self._take(unicodedata.normalize("NFC", relative), path, path.stat())
        except OSError:
            reason = SkipReason.LINK_DANGLING if path.is_symlink() else SkipReason.VANISHED
            self._skip(relative, reason)

    def walk_folder(self, within: str) -> None:
        """Walk the folder at `within`, then what links lead to."""
        path, relative = self._root, ""
        start = self._opened(path, relative, (ignore_rules(DEFAULT_PATTERNS),))
        for part in within.split("/")[:-1]:
            if start is None:
                return
            path, relative = self._spelled(f"{relative}{part}"), f"{relative}{unicodedata.normalize('NFC', part)}/"
            start = self._opened(path, relative, start.rules)
        if start is not None:
            self._walk_real([start])
        while self._links:
            self._follow(*heapq.heappop(self._links)[1:])

    def _spelled(self, relative: str) -> Path:
        """Return the path as it is spelled on the disk, which may not be in NFC."""
        path = self._root
        for part in relative.split("/"):
            found = path / part
            if not os.path.lexists(found) and path.is_dir():
                alike = [n for n in sorted(_listed(path)) if unicodedata.normalize("NFC", n) == part]
                found = path / alike[0] if alike else found
            path = found
        return path

    def _walk_real(self, folders: list[_Folder]) -> None:
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder.path) as listing:
                    entries = sorted(listing, key=lambda e: _spelling(e.name))
            except OSError as error:
                self.unlisted(folder.relative, error)
                continue
            if folder.relative and any(e.name == _ENVIRONMENT_MARK for e in entries):
                continue
            inside = [f for e in entries if (f := self._visit(e, folder)) is not None]
            folders.extend(reversed(inside))

    def _visit(self, entry: os.DirEntry[str], folder: _Folder) -> _Folder | None:
        """Take a file, keep a link for later, return a folder to walk."""
        relative = folder.relative + unicodedata.normalize("NFC", entry.name)
        if not _is_utf8(entry.name):
            self._skip(relative, SkipReason.NAME_ENCODING)
            return None
        try:
            if entry.is_symlink():
                order = (relative.encode("utf-8", "surrogateescape"), entry.path)  # no two links have one path
                heapq.heappush(self._links, (order, relative, Path(entry.path), folder))
                return None
            facts = entry.stat(follow_symlinks=False)
        except OSError:
            self._skip(relative, SkipReason.VANISHED)
            return None
        if stat.S_ISDIR(facts.st_mode):
            return self._entered(relative, Path(entry.path), folder, facts)
        if not self._is_left_out(relative, folder, is_folder=False):
            self._take(relative, Path(entry.path), facts)
        return None

    def _entered(self, relative: str, path: Path, folder: _Folder, facts: os.stat_result) -> _Folder | None:
        if self._is_left_out(relative, folder, is_folder=True) or (facts.st_dev, facts.st_ino) in self._seen:
            return None
        return self._opened(path, f"{relative}/", folder.rules)

    def _opened(self, path: Path, relative: str, rules: tuple[IgnoreRules, ...]) -> _Folder | None:
        """Return a folder with its own ignore file read. One whose rules cannot be read is not walked without them."""
        try:
            facts = path.stat()
            lines = _ignore_lines(path / IGNORE_FILE)
        except OSError as error:
            self.unlisted(relative, error)
            return None
        self._seen.add((facts.st_dev, facts.st_ino))
        own = (*rules, ignore_rules(lines, relative)) if lines else rules
        return _Folder(path=path, relative=relative, rules=own)

    def _follow(self, relative: str, path: Path, folder: _Folder) -> None:
        try:
            target = path.resolve(strict=True)
            facts = target.stat()
        except (OSError, RuntimeError) as error:  # RuntimeError: a link to itself, on Python before 3.13
            if not self._is_left_out(relative, folder, is_folder=False):
                is_loop = isinstance(error, RuntimeError) or getattr(error, "errno", 0) == errno.ELOOP
                self._skip(relative, SkipReason.LINK_LOOP if is_loop else SkipReason.LINK_DANGLING)
            return
        is_folder = stat.S_ISDIR(facts.st_mode)
        if self._is_left_out(relative, folder, is_folder=is_folder):
            return
        reason = self._unfollowed(path, target, facts)
        if reason is not None:
            self._skip(relative, reason)
        elif is_folder:
            opened = self._opened(path, f"{relative}/", folder.rules)
            self._walk_real([opened] if opened else [])
        else:
            self._take(relative, path, facts)

    def _unfollowed(self, path: Path, target: Path, facts: os.stat_result) -> SkipReason | None:
        if not target.is_relative_to(self._root.resolve()):
            return SkipReason.LINK_OUTSIDE
        if path.parent.resolve().is_relative_to(target):
            return SkipReason.LINK_LOOP
        return SkipReason.LINK_REPEATED if (facts.st_dev, facts.st_ino) in self._seen else None

    def _take(self, relative: str, path: Path, facts: os.stat_result) -> None:
        if self._include is not None and not self._include.chooses(relative):
            return
        reason = self._untaken(relative, facts)
        if reason is not None:
            self._skip(relative, reason)
            return
        other = self._files.get(place_of(relative))
        if other is not None:
            self._skip(other.relative, SkipReason.NAME_REPEATED)
        self._seen.add((facts.st_dev, facts.st_ino))
        self._files[place_of(relative)] = FoundFile(
            relative=relative,
            path=path,
            size=facts.st_size,
            mtime_ns=facts.st_mtime_ns,
            inode=facts.st_ino,
            device=facts.st_dev,
        )

    def _untaken(self, relative: str, facts: os.stat_result) -> SkipReason | None:
        """Return why a file is not taken. Of two with one URI, the one without backslashes in its name is."""
        if not stat.S_ISREG(facts.st_mode):
            return SkipReason.SPECIAL_FILE
        size = len(relative.encode("utf-8", "surrogateescape"))
        if self._max_name_bytes is not None and size > self._max_name_bytes:
            return SkipReason.NAME_TOO_LONG
        other = self._files.get(place_of(relative))
        if other is not None and (place_of(relative) != relative or other.relative == relative):
            return SkipReason.NAME_REPEATED
        return SkipReason.TOO_LARGE if facts.st_size > self._max_bytes else None

    def _is_left_out(self, relative: str, folder: _Folder, *, is_folder: bool) -> bool:
        excluded = self._exclude.verdict(relative, is_folder=is_folder)
        return bool(excluded) or is_ignored(relative, folder.rules, is_folder=is_folder)

    def unlisted(self, relative: str, error: OSError) -> None:
        gone = isinstance(error, FileNotFoundError)
        self._skip(relative.rstrip("/") or ".", SkipReason.VANISHED if gone else SkipReason.UNREADABLE_FOLDER)
        self._complete = False

    def _skip(self, relative: str, reason: SkipReason) -> None:
        shown = relative.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        self._skipped.append(Skipped(relative=shown, reason=reason))


def _ignore_lines(path: Path) -> list[str]:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return []
        return path.read_text(encoding="utf-8-sig", errors="surrogateescape").split("\n")
    except FileNotFoundError:
        return []


def _listed(path: Path) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208 - names, not paths
    except OSError:
        return []


def _spelling(name: str) -> tuple[bool, bytes]:
    """Return the order of names: of two that are one in NFC, the one that is spelled so comes first."""
    return unicodedata.normalize("NFC", name) != name, os.fsencode(name)


def _is_utf8(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
