"""Which source a path belongs to, so that a document has one name however it is reached."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kb.errors import InputError, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kb.model import SourceRoot

_NAME = re.compile(r"[\w][\w.-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a run reads.

    Args:
        name: of the source root.
        location: absolute folder of the root.
        prefix: relative folder inside the root that the run is narrowed to ("" for all), with a slash at its end.
        single: relative path of the one file the run is about; "" when it is about a folder.
    """

    name: str
    location: Path
    prefix: str = ""
    single: str = ""


def target_of(path: Path, name: str, roots: Sequence[SourceRoot]) -> Target:
    """Return the target that `path` means.

    A path inside a registered source is a part of that source, unless another name is given. A folder's source is
    named after it.

    Args:
        path: existing file or folder, absolute and resolved.
        name: name given by the caller; "" to find one.
        roots: the tenant's registered sources.

    Raises:
        InputError: the name is not a plain word.
        Refused: another folder that still exists has this name.
    """
    if name and not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is not a source name", hint="use letters, digits, dots, dashes and underscores")
    folder = path.parent if path.is_file() else path
    if not name:
        inside = [r for r in roots if folder.is_relative_to(r.location)]
        if inside:
            return _within(path, max(inside, key=lambda r: len(r.location)))
    chosen = name or slug(folder.name)
    same = next((r for r in roots if r.name == chosen), None)
    if not name and same is not None and Path(same.location).exists():
        raise Refused(
            f"the source {chosen!r} is {same.location}; {folder} would take its name",
            hint="give the new folder a name of its own: --source-name NAME",
        )
    return Target(name=chosen, location=folder, single=path.name if path.is_file() else "")


def _within(path: Path, root: SourceRoot) -> Target:
    relative = path.relative_to(root.location).as_posix()
    location = Path(root.location)
    if path.is_file():
        return Target(name=root.name, location=location, single=relative)
    return Target(name=root.name, location=location, prefix="" if relative == "." else f"{relative}/")


def slug(name: str) -> str:
    """Return a source name made of a folder's name."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-._")[:63] or "docs"
