"""The documentation says what the code does."""

from __future__ import annotations

import importlib.util
import re
import shlex
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from kb.errors import FailureCode
from tests.architecture.tree import ROOT, files, name

if TYPE_CHECKING:
    from pathlib import Path

REFERENCE = ROOT / "docs" / "reference"
PAGES = [p for p in files() if p.suffix == ".md" and not name(p).startswith(("sample/", "tests/"))]


@cache
def generator() -> Any:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = found  # dataclasses look their module up
    spec.loader.exec_module(found)
    return found


@cache
def commands() -> dict[str, Any]:
    return {command.path: command for command in generator().commands()}


def test_the_generated_reference_is_fresh() -> None:
    assert generator().stale() == [], "run `make docs`"


def test_every_command_has_help_and_a_docs_entry() -> None:
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    for path, command in commands().items():
        assert command.help.strip(), path
        assert f"## `{path}`\n" in page


def test_every_parameter_has_help() -> None:
    silent = [f"{path} {p.opts[0]}" for path, c in commands().items() for p in c.parameters if not p.help]
    assert silent == []


@pytest.mark.parametrize("code", FailureCode)
def test_every_failure_code_is_explained(code: FailureCode) -> None:
    assert f"| `{code}` |" in (REFERENCE / "failures.md").read_text(encoding="utf-8")


def written_commands(page: Path) -> list[str]:
    """Return the `kb …` lines of the page's code blocks, and the `kb …` spans of its text."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^(?:```\w*\n(.*?)^```|((?:^ {4}\S.*\n?)+))", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip().removeprefix("$ ") for block in blocks for part in block for line in part.splitlines()]
    spans = re.findall(r"`(kb [^`\n]+)`", text)
    return [line.removeprefix(".venv/bin/") for line in (*lines, *spans) if re.match(r"(\.venv/bin/)?kb [a-z]", line)]


def known(line: str) -> bool:
    words = re.sub(r"\s#.*$", "", line).replace("…", "").replace("'", "").replace('"', "").split()
    path, rest = "kb", words[1:]
    while rest and f"{path} {rest[0]}" in commands():
        path, rest = f"{path} {rest[0]}", rest[1:]
    if path == "kb" or (commands()[path].is_group and rest and "|" not in rest[0]):
        return False
    options = {
        o for p in (*commands()[path].parameters, *commands()["kb"].parameters) for o in (*p.opts, *p.secondary_opts)
    }
    return all(word.split("=")[0] in options | {"--help"} for word in rest if re.match(r"--?[a-z]", word))


def is_written_for_today(page: Path) -> bool:
    return not name(page).startswith("docs/adr/")  # a decision may speak of what it prepares


@pytest.mark.parametrize("page", [p for p in PAGES if is_written_for_today(p)], ids=name)
def test_every_command_written_in_a_page_exists(page: Path) -> None:
    assert [line for line in written_commands(page) if not known(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_make_target_written_in_a_page_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {(name(p), t) for p in PAGES for t in re.findall(r"`make ([a-z-]+)", p.read_text(encoding="utf-8"))}
    assert {(page, target) for page, target in named if target not in targets} == set()


def test_every_page_is_reachable_from_the_readme() -> None:
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop().resolve()
        if page in seen or page.suffix != ".md" or not page.is_file():
            continue
        seen.add(page)
        links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8"))
        todo += [page.parent / link for link in links]
    assert [name(p) for p in PAGES if p.resolve() not in seen] == []


def test_shell_words_in_the_readme_parse() -> None:
    for line in written_commands(ROOT / "README.md"):
        shlex.split(line, comments=True)
