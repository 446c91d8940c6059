"""The project's own files, as the architecture tests see them: tracked, or new and not ignored."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SUPPORT = {"bench", "docs", "sample", "tests"}  # hold Python, but are not part of the product


@cache
def files() -> tuple[Path, ...]:
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    return tuple(path for name in names.split("\0") if name and (path := ROOT / name).is_file())


def python_files(*tops: str) -> list[Path]:
    """Return the Python files under the given top-level folders; of the whole project when none is given."""
    return [p for p in files() if p.suffix == ".py" and (not tops or top(p) in tops)]


def top(path: Path) -> str:
    return path.relative_to(ROOT).parts[0]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def packages() -> tuple[str, ...]:
    """Return the product's top-level packages."""
    return tuple(sorted({top(p) for p in files() if p.name == "__init__.py"} - SUPPORT))


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@cache
def syntax(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Yield (top-level name, line) of every absolute import in the file, wherever it stands."""
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0], node.lineno


def run_python(code: str, *, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter, from the project's root unless told otherwise."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd or ROOT, timeout=120)
