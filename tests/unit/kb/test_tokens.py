from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.tokens import cl100k_count, count_tokens, encode, windows

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("hello world", [15339, 1917]),
        ("tiktoken is great!", [83, 1609, 5963, 374, 2294, 0]),
        ("你好", [57668, 53901]),
        ("", []),
    ],
)
def test_ids_are_those_of_cl100k_base(text: str, ids: list[int]) -> None:
    assert encode(text) == ids


def test_what_looks_like_a_special_token_is_text() -> None:
    assert cl100k_count("<|endoftext|>") > 1


@pytest.mark.parametrize("text", ["\ud800", "\0", "a" * 50_000, " " * 50_000])
def test_odd_text_is_counted(text: str) -> None:
    assert cl100k_count(text) > 0


@given(st.lists(st.text()))
def test_a_batch_counts_like_its_texts(texts: list[str]) -> None:
    assert count_tokens(texts) == [cl100k_count(text) for text in texts]


@given(st.text(alphabet=st.characters(codec="utf-8")), st.integers(1, 8))
def test_windows_tile_the_text(text: str, limit: int) -> None:
    pieces = windows(text, limit)
    assert "".join(pieces) == text
    assert all(pieces) or pieces == [""]


def test_windows_hold_about_their_limit() -> None:
    pieces = windows("The quick brown fox jumps over the lazy dog. " * 200, 100)
    assert len(pieces) == 21
    assert max(count_tokens(pieces)) <= 105


def test_counting_asks_no_network_and_leaves_no_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    code = """
import socket, tempfile
def refuse(*_): raise AssertionError("network")
socket.socket.connect = socket.getaddrinfo = refuse
from kb.tokens import cl100k_count
assert cl100k_count("hello world") == 2
"""
    folder = tmp_path_factory.mktemp("tokens")
    env = {"TMPDIR": str(folder), "HOME": str(folder), "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, cwd=ROOT)
    assert list(folder.iterdir()) == []


def test_importing_loads_no_vocabulary() -> None:
    code = "import sys, kb.tokens, kb.terms; assert not {'tiktoken', 'jieba', 'Stemmer', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
