"""What no file of the project may contain."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.tree import files, name, packages, python_files, syntax

# The brackets keep each pattern from finding itself.
FORBIDDEN = {
    "a path of a builder": r"(?<![\w/])/(?:wor[k]/(?:main|shared)|roo[t]/|hom[e]/[a-z]+/|tmp/se[t]up)",
    "a package registry's host": r"(?:pypi[.]org|python[h]osted|registry[.]npmjs|deb[.]debian|crates[.]io\b)",
    "work left undone": r"\b(?:TOD[O]|FIXM[E]|XX[X])\b",
}

# Where a handler may catch everything, and why. Elsewhere the error tree is enough.
CATCH_ALL = {
    "ingest/parse/__init__.py": "foreign parsers raise anything; translated at once into a coded failure",
    "kb/embedders/e5_tokenizer.py": "the tokenizer library raises bare Exception for a damaged file",
    "kb/embedders/e5_encoder.py": "onnxruntime's errors share no root but Exception",
    "crag_runtime/evaluators/guarded.py": "others' code raises anything; becomes a stand-in's turn",
    "jobs/report.py": "one tenant's defect must not stop the others' jobs",
    "serving/daemon.py": "a thread's defect ends the server that it runs in, and is raised there",
    "serving/middleware.py": "the one place where a request's unforeseen ends, as a 500 that names it",
    "serving/streams.py": "likewise for a stream whose status has been sent",
    "kb_cli/main.py": "the one place where the unforeseen ends, as exit code 1",
}


def text_of(path: str) -> str:
    return "" if path.endswith((".docx", ".pdf", ".png")) else (FILES[path].read_bytes()).decode("utf-8", "ignore")


FILES = {name(p): p for p in files()}


@pytest.mark.parametrize(("what", "pattern"), FORBIDDEN.items(), ids=lambda v: v if " " in v else "")
def test_no_file_names(what: str, pattern: str) -> None:
    found = [f"{path}: {m[0]}" for path in FILES for m in re.finditer(pattern, text_of(path))]
    assert found == [], what


def test_no_lock_file_that_names_hosts() -> None:
    assert [path for path in FILES if path.endswith(("uv.lock", "poetry.lock", "Pipfile.lock"))] == []


def test_every_locked_package_has_a_hash() -> None:
    for path in (p for p in FILES if p.startswith("requirements/")):
        text = text_of(path)
        pins = re.split(r"\n(?=\S)", text.strip())
        assert all("==" in pin and "--hash=sha256:" in pin for pin in pins), path
        assert not re.search(r"^-", text, re.MULTILINE), path


def test_the_lock_files_agree() -> None:
    pins: dict[str, set[str]] = {}
    for path in (p for p in FILES if p.startswith("requirements/")):
        for package, version in re.findall(r"^(\S+?)==(\S+)", text_of(path), re.MULTILINE):
            pins.setdefault(package, set()).add(version)
    assert {package: versions for package, versions in pins.items() if len(versions) > 1} == {}


def catches_all(node: ast.ExceptHandler) -> bool:
    caught = [node.type] if not isinstance(node.type, ast.Tuple) else node.type.elts
    return any(c is None or (isinstance(c, ast.Name) and c.id in {"Exception", "BaseException"}) for c in caught)


def test_only_the_listed_handlers_catch_everything() -> None:
    found = {
        name(path)
        for path in python_files(*packages())
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.ExceptHandler) and catches_all(node)
    }
    assert found - set(CATCH_ALL) == set()


def test_what_is_caught_whole_is_never_dropped() -> None:
    """A handler that catches everything must use the error it got: raise from it, or report it."""
    dropped = [
        f"{name(path)}:{node.lineno}"
        for path in python_files(*packages())
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.ExceptHandler)
        and catches_all(node)
        and not any(isinstance(n, ast.Raise) or (isinstance(n, ast.Name) and n.id == node.name) for n in ast.walk(node))
    ]
    assert dropped == []


def test_fakes_are_real_classes_not_patches() -> None:
    patched = [
        name(p)
        for p in python_files()
        if re.search(r"\bmock[.]patch|import [m]ock|unittest[.]mock", p.read_text("utf-8"))
    ]
    assert patched == []


def test_no_test_bears_a_number_of_a_tracker() -> None:
    tests = [
        f"{name(p)} {node.name}"
        for p in python_files("tests")
        for node in ast.walk(syntax(p))
        if isinstance(node, ast.FunctionDef) and re.search(r"issue|ticket|bug_?\d|gh_?\d", node.name)
    ]
    assert tests == []
