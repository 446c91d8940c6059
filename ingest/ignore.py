"""Which paths a walk leaves out: `.kbignore` files, in gitignore's syntax and with its precedence. Pure."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.base import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

IGNORE_FILE = ".kbignore"
NEVER = frozenset({".git", IGNORE_FILE, ".kb.yaml"})  # no pattern brings these back
DEFAULT_PATTERNS = (
    ".*",  # hidden
    "node_modules/",
    "__pycache__/",
    "venv/",
    "*~",
    "~$*",
    "#*#",
    "*.swp",
    "*.swo",
    "*.bak",
    "*.tmp",
    "Thumbs.db",
    "desktop.ini",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    regex: re.Pattern[str]
    ignores: bool  # False: brings back
    only_folders: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRules:
    """The patterns of one ignore file.

    Args:
        folder: where they apply, relative to the root, with a slash at its end; "" for the root.
        patterns: in order of the file; the last that matches decides.
    """

    folder: str
    patterns: tuple[_Pattern, ...]

    def verdict(self, relative: str, *, is_folder: bool) -> bool | None:
        """Return whether the entry is ignored (True), brought back (False) or not mentioned (None).

        Only the entry itself is looked at: a walk never gets to what is inside an ignored folder.
        """
        inside = relative[len(self.folder) :]
        for pattern in reversed(self.patterns):
            if pattern.only_folders and not is_folder:
                continue
            found = pattern.regex.search(inside)
            if found is not None and found.lastgroup is None:  # a group tells that only a folder above matched
                return pattern.ignores
        return None


def ignore_rules(lines: Iterable[str], folder: str = "") -> IgnoreRules:
    """Return the rules written in the lines of an ignore file; a line that git would disregard is disregarded.

    Args:
        lines: text lines, with or without line ends.
        folder: the file's folder relative to the root, with a slash at its end; "" for the root.
    """
    patterns = (_pattern(unicodedata.normalize("NFC", line.rstrip("\r\n"))) for line in lines)
    return IgnoreRules(folder=folder, patterns=tuple(p for p in patterns if p is not None))


def is_ignored(relative: str, rules: Sequence[IgnoreRules], *, is_folder: bool) -> bool:
    """Return whether an entry is left out.

    Args:
        relative: NFC path from the root, forward slashes, no slash at its end.
        rules: from the weakest (the defaults) to the strongest (the deepest ignore file).
        is_folder: whether the entry is a folder.
    """
    if relative.rsplit("/", 1)[-1] in NEVER:
        return True
    for rule in reversed(rules):
        verdict = rule.verdict(relative, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


class PathGlobs:
    """Gitignore patterns that choose files, as `--include` and the sidecar do: `docs/` means all below."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._spec = GitIgnoreSpec.from_lines([unicodedata.normalize("NFC", p) for p in patterns])

    def chooses(self, relative: str) -> bool:
        """Return whether the file at `relative` is meant."""
        return self._spec.match_file(relative)


def _pattern(line: str) -> _Pattern | None:
    line = _without_trailing_blanks(line)
    if line.startswith("#"):
        return None
    only_folders = line.endswith("/")
    try:
        made = GitIgnoreSpecPattern(line.removesuffix("/"))
    except GitIgnorePatternError:
        return None
    if made.regex is None or made.include is None:
        return None
    return _Pattern(regex=made.regex, ignores=made.include, only_folders=only_folders)


def _without_trailing_blanks(line: str) -> str:
    """Strip blanks at the end unless the first of them is escaped."""
    bare = line.rstrip(" ")
    escapes = len(bare) - len(bare.rstrip("\\"))
    return f"{bare} " if escapes % 2 and len(bare) < len(line) else bare
