from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kb.embedders.built import MANIFEST, Built, Recipe, built
from kb.errors import EmbedderUnavailable

ROOT = Path(__file__).parents[4]


class Kitchen:
    """Makes two files from one source, and counts how often."""

    def __init__(self, folder: Path) -> None:
        self.cache, self.source, self.made = folder / "cache", folder / "weights.bin", 0
        self.source.write_bytes(b"weights")
        self.name, self.format = "model", 1

    def make(self, sha256: str) -> dict[str, bytes]:
        self.made += 1
        return {"a": sha256.encode(), "b": b"b" * 1000}

    def build(self) -> Built:
        recipe = Recipe(name=self.name, format=self.format, source=self.source, files=("a", "b"), make=self.make)
        return built(self.cache, recipe)


@pytest.fixture
def kitchen(tmp_path: Path) -> Kitchen:
    return Kitchen(tmp_path)


def test_a_cache_may_be_named_relative_to_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    kitchen = Kitchen(Path("here"))
    assert (kitchen.build().folder / "a").is_file()


def test_files_are_made_once(kitchen: Kitchen) -> None:
    first, second = kitchen.build(), kitchen.build()
    assert first == second
    assert kitchen.made == 1
    assert {name: (first.folder / name).read_bytes() for name in "ab"} == first.contents


@pytest.mark.parametrize("name", ["a", "b", MANIFEST])
@pytest.mark.parametrize("content", [b"", b"other", b"[]", b'{"files": {"a": 1}}', None])
def test_whatever_is_damaged_is_made_again(kitchen: Kitchen, name: str, content: bytes | None) -> None:
    first = kitchen.build()
    path = first.folder / name
    path.unlink() if content is None else path.write_bytes(content)
    assert kitchen.build() == first
    assert kitchen.made == 2


def test_another_source_name_or_format_is_another_folder(kitchen: Kitchen) -> None:
    folders = [kitchen.build().folder]
    kitchen.format = 2
    folders.append(kitchen.build().folder)
    kitchen.name = "other"
    folders.append(kitchen.build().folder)
    kitchen.source.write_bytes(b"longer weights")
    folders.append(kitchen.build().folder)
    assert len(set(folders)) == 4
    assert all(folder.is_dir() for folder in folders)


def test_a_source_installed_again_makes_nothing(kitchen: Kitchen) -> None:
    kitchen.build()
    os.utime(kitchen.source, ns=(1, 1))
    kitchen.build()
    kitchen.build()
    assert kitchen.made == 1


def test_a_builder_that_fails_leaves_nothing(kitchen: Kitchen) -> None:
    def make(_: str) -> dict[str, bytes]:
        raise ImportError("no onnx")

    recipe = Recipe(name="model", format=1, source=kitchen.source, files=("a",), make=make)
    with pytest.raises(EmbedderUnavailable, match="no onnx"):
        built(kitchen.cache, recipe)
    assert [path for path in kitchen.cache.iterdir() if path.suffix != ".lock"] == []


def test_a_killed_builder_leaves_no_half_file_and_no_rest(kitchen: Kitchen) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from kb.embedders.built import Recipe, built
cache, source = Path(sys.argv[1]), Path(sys.argv[2])
def make(_):
    (half,) = cache.glob(".*.build-*/new")
    (half / "a").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
built(cache, Recipe(name="model", format=1, source=source, files=("a", "b"), make=make))
"""
    command = [sys.executable, "-c", code, str(kitchen.cache), str(kitchen.source)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert len(list(kitchen.cache.glob(".*.build-*"))) == 1
    assert list(kitchen.cache.glob("model-*")) == []
    assert kitchen.build().contents["b"] == b"b" * 1000
    assert list(kitchen.cache.glob(".*.build-*")) == []
