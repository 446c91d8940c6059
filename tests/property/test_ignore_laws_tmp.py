"""`.kbignore` means what `.gitignore` means, by git's own word."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.ignore import DEFAULT_PATTERNS, ignore_rules, is_ignored
from ingest.walk import WalkRules, walk

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git tells what is right")

names = st.sampled_from(("a", "b", "ab", "doc", "x.md", "y.txt", "a b", "[z]"))
paths = st.lists(st.lists(names, min_size=1, max_size=4).map("/".join), min_size=3, max_size=12, unique=True)
segment = st.sampled_from(
    ("a", "b", "*", "**", "?", "a*", "*.md", "[ab]", "[!a]", "doc", "x.md", "*b", "\\[z]", "a\\ b")
)
pattern = st.builds(
    lambda bang, lead, segments, tail: f"{bang}{lead}{'/'.join(segments)}{tail}",
    st.sampled_from(("", "", "!")),
    st.sampled_from(("", "", "/")),
    st.lists(segment, min_size=1, max_size=3),
    st.sampled_from(("", "", "/", " ", "/**")),
)
ignore_files = st.lists(
    st.one_of(pattern, st.sampled_from(("[a-", "# note", "", "/", "!", "\\#x", "\\!a"))), max_size=5
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", "."], cwd=made, check=True, capture_output=True)
    return made / ".git"


def planted(root: Path, made: list[str]) -> list[str]:
    """Make the files whose names do not need a folder to be a file, and return them."""
    files = []
    for path in made:
        target = root / path
        if any(p.is_file() for p in target.parents) or target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("x", encoding="utf-8")
        files.append(path)
    return files


def ignored_by_git(repository: Path, root: Path, files: list[str]) -> set[str]:
    asked = subprocess.run(
        [
            "git",
            f"--git-dir={repository}",
            "--work-tree=.",
            "-c",
            "core.excludesFile=/dev/null",
            "check-ignore",
            "-z",
            "--stdin",
        ],
        cwd=root,
        input="\0".join(files),
        text=True,
        capture_output=True,
        check=False,
    )
    assert asked.returncode in (0, 1), asked.stderr
    return {f for f in asked.stdout.split("\0") if f}


@settings(max_examples=2500)
@given(paths, ignore_files, ignore_files)
def test_a_walk_leaves_out_what_git_ignores(repository: Path, made: list[str], top: list[str], deep: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files = planted(root, made)
        for place, lines in ((root, top), (root / "a", deep)):
            if place.is_dir():
                for name in (".gitignore", ".kbignore"):
                    (place / name).write_text("\n".join(lines), encoding="utf-8")
        found = {f.relative for f in walk(root, WalkRules()).files} & set(files)  # `!*` brings .gitignore back
        assert found == set(files) - ignored_by_git(repository, root, files)


@given(st.lists(st.text(max_size=20), max_size=6), st.text(min_size=1, max_size=20))
def test_no_line_of_an_ignore_file_is_an_error(lines: list[str], path: str) -> None:
    rules = (ignore_rules(DEFAULT_PATTERNS), ignore_rules(lines))
    assert is_ignored(path, rules, is_folder=False) in (True, False)


@settings(max_examples=30)
@given(paths, st.lists(pattern, max_size=3))
def test_excluded_is_left_out_and_included_narrows(made: list[str], patterns: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        planted(root, made)
        every = {f.relative for f in walk(root, WalkRules()).files}
        for rules in (WalkRules(exclude=tuple(patterns)), WalkRules(include=tuple(patterns))):
            assert {f.relative for f in walk(root, rules).files} <= every
        assert {f.relative for f in walk(root, WalkRules(include=("*.md",))).files} == {
            f for f in every if any(part.endswith(".md") for part in f.split("/"))
        }
