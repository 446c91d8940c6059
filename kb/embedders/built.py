"""Files built once from bundled weights, in the user's cache, each folder with a manifest.

The folder's name carries the hash of the weights and the format of the files, so that a new release builds anew beside
the old one. A folder is trusted only if every file has the hash its manifest says; else it is built again. Building
goes to a temporary folder that is renamed when complete, under a file lock, so any number of processes may start at
once.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.errors import EmbedderUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MANIFEST = "manifest.json"
_HASH_STEP = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a folder of files is made.

    Args:
        name: the folder's name begins with it; says all that the files depend on but source and format.
        format: of the files; grows when they would differ for the same source.
        source: the weights file.
        files: names of what is made.
        make: given the sha256 (hex) of the source, returns every file's content.
    """

    name: str
    format: int
    source: Path
    files: tuple[str, ...]
    make: Callable[[str], dict[str, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A folder, and the verified content of its files."""

    folder: Path
    contents: dict[str, bytes] = field(repr=False)


def built(cache_dir: Path, recipe: Recipe) -> Built:
    """Return the verified files of a recipe, building them under `cache_dir` if they are missing or damaged.

    Raises:
        EmbedderUnavailable: it is not there and cannot be built: no space, no right to write, no onnx package.
    """
    try:
        found = _found(cache_dir, recipe)
        return found if found is not None else _build_once(cache_dir, recipe)
    except OSError as error:
        reason = f"the model files cannot be built in {cache_dir}: {error.strerror or error}"
        raise EmbedderUnavailable(
            reason, hint="set KB_CACHE_DIR to a folder with 250 MB that may be written"
        ) from error
    except ImportError as error:
        raise EmbedderUnavailable(f"the model files cannot be built: {error}", hint="install onnx") from error


def file_sha256(path: Path) -> str:
    """Return the sha256 (hex) of a file."""
    h = hashlib.sha256()
    with path.open("rb") as stream:
        while step := stream.read(_HASH_STEP):
            h.update(step)
    return h.hexdigest()


def _found(cache_dir: Path, recipe: Recipe) -> Built | None:
    """Return a verified folder whose weights have the size and time of ours: then hashing 72 MB is not needed."""
    stamp = _stamp(recipe.source)
    for manifest in sorted(cache_dir.glob(f"{recipe.name}-*-{recipe.format}/{MANIFEST}")):
        source = _read_manifest(manifest.parent).get("source", {})
        if {key: source.get(key) for key in stamp} == stamp:
            return _verified(manifest.parent, recipe)
    return None


def _build_once(cache_dir: Path, recipe: Recipe) -> Built:
    source = {"sha256": file_sha256(recipe.source), **_stamp(recipe.source)}
    folder = cache_dir / f"{recipe.name}-{str(source['sha256'])[:12]}-{recipe.format}"
    found = _verified(folder, recipe)
    if found is not None:  # the same weights installed again: remember their new time, if we may
        with contextlib.suppress(OSError):
            _write_manifest(folder, {**_read_manifest(folder), "source": source})
        return found
    cache_dir.mkdir(parents=True, exist_ok=True)
    with _locked(cache_dir / f".{folder.name}.lock"):
        found = _verified(folder, recipe)
        if found is None:
            _build(folder, recipe, source)
            found = _verified(folder, recipe)
    if found is None:
        raise EmbedderUnavailable(f"the model files in {folder} are damaged as soon as they are written")
    return found


def _build(folder: Path, recipe: Recipe, source: dict[str, Any]) -> None:
    for left_over in folder.parent.glob(f".{folder.name}.build-*"):  # of builders that were killed; we hold the lock
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.build-") as scratch:
        new = Path(scratch) / "new"
        new.mkdir()
        files = {}
        for name, data in recipe.make(source["sha256"]).items():
            (new / name).write_bytes(data)
            files[name] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        _write_manifest(new, {"format": recipe.format, "source": source, "files": files})
        if folder.exists():
            folder.rename(new.parent / "damaged")  # goes with the scratch folder
        new.rename(folder)


def _verified(folder: Path, recipe: Recipe) -> Built | None:
    """Return the folder's files if each has the hash its manifest says."""
    files = _read_manifest(folder).get("files", {})
    try:
        contents = {name: (folder / name).read_bytes() for name in recipe.files}
        if all(files[name]["sha256"] == hashlib.sha256(data).hexdigest() for name, data in contents.items()):
            return Built(folder=folder, contents=contents)
    except (OSError, KeyError, TypeError):  # not there, not readable, or a manifest of another shape: build it again
        return None
    return None


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_manifest(folder: Path, content: dict[str, Any]) -> None:
    scratch = folder / f"{MANIFEST}.{os.getpid()}"
    scratch.write_text(json.dumps(content, indent=1, sort_keys=True), encoding="utf-8")
    scratch.replace(folder / MANIFEST)


def _stamp(path: Path) -> dict[str, int]:
    status = path.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns}


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock; the system frees it when the holder ends, however it ends."""
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
