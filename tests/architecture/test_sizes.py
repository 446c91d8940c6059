"""Every file and function fits in the head."""

from __future__ import annotations

import ast

from tests.architecture.tree import name, python_files, syntax, top

FILE_LINES = 400
FUNCTION_LINES = 40  # code; a docstring that gives shapes and ranges is not held against it
GRAB_BAGS = {
    "base",
    "common",
    "core",
    "helper",
    "helpers",
    "lib",
    "manager",
    "managers",
    "misc",
    "shared",
    "util",
    "utils",
}


def is_migration(path: str) -> bool:
    return "/migrations/" in path


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    documented = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if documented else 0
    return (node.end_lineno or node.lineno) - node.lineno + 1 - docstring


def test_no_file_is_longer_than_400_lines() -> None:
    sizes = {name(p): len(p.read_text(encoding="utf-8").splitlines()) for p in python_files()}
    assert {path: lines for path, lines in sizes.items() if lines > FILE_LINES and not is_migration(path)} == {}


def test_no_function_is_longer_than_40_lines() -> None:
    long = [
        f"{name(path)}:{node.lineno} {node.name} ({lines})"
        for path in python_files()
        if not is_migration(name(path))
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (lines := function_lines(node)) > FUNCTION_LINES
    ]
    assert long == []


def test_no_module_is_a_grab_bag() -> None:
    stems = {name(p): set(p.relative_to(p.anchor).with_suffix("").parts[-2:]) for p in python_files()}
    assert [path for path, parts in stems.items() if parts & GRAB_BAGS] == []


def test_every_module_says_what_it_is_for() -> None:
    product = [p for p in python_files() if top(p) != "tests" and p.stat().st_size]
    assert [name(p) for p in product if ast.get_docstring(syntax(p)) is None] == []
