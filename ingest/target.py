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


def target_of(path: Path, name: str, roots: Sequence[SourceRoot], *, own: bool = False) -> Target:
    """Return the target that `path` means.

    A path inside a registered source is a part of that source, unless another name is given. A folder's source is
    named after it. A name that another folder has moves that source here; it never moves to a single file's folder.

    Args:
        path: existing file or folder, absolute and resolved.
        name: name given by the caller; "" to find one.
        roots: the tenant's registered sources.
        own: the path is a source of its own even inside another.

    Raises:
        InputError: the name is not a plain word.
        Refused: another folder that still exists has this name, or this folder another name.
    """
    if name and not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is not a source name", hint="use letters, digits, dots, dashes and underscores")
    folder = path.parent if path.is_file() else path
    inside = max(
        (r for r in roots if folder.is_relative_to(r.location)), key=lambda r: len(Path(r.location).parts), default=None
    )
    if inside is not None and not name and not own:
        return _within(path, inside)
    chosen = name or slug(folder.name)
    if inside is not None and inside.name == chosen:
        return _within(path, inside)
    same = next((r for r in roots if r.name == chosen), None)
    _refuse_clash(path, folder, inside, same, is_named=bool(name))
    return Target(name=chosen, location=folder, single=path.name if path.is_file() else "")


def _refuse_clash(
    path: Path, folder: Path, inside: SourceRoot | None, same: SourceRoot | None, *, is_named: bool
) -> None:
    """Refuse what would give one document two names, or one name to two folders."""
    if inside is not None and Path(inside.location) == folder:
        raise Refused(
            f"{folder} is the source {inside.name!r} already", hint=f"leave the name out, or call it {inside.name!r}"
        )
    if same is None:
        return
    if inside is not None and folder.is_relative_to(same.location):
        raise Refused(f"{path} belongs to the source {inside.name!r}, not to {same.name!r}", hint="leave the name out")
    if path.is_file() or (not is_named and Path(same.location).exists()):
        raise Refused(
            f"the source {same.name!r} is {same.location}; {folder} would take its name",
            hint="give the new folder a name of its own: --source-name NAME",
        )


def _within(path: Path, root: SourceRoot) -> Target:
    relative = path.relative_to(root.location).as_posix()
    location = Path(root.location)
    if path.is_file():
        return Target(name=root.name, location=location, single=relative)
    return Target(name=root.name, location=location, prefix="" if relative == "." else f"{relative}/")


def slug(name: str) -> str:
    """Return a source name made of a folder's name."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-._")[:63] or "docs"
