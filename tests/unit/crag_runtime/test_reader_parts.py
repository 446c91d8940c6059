from __future__ import annotations

import itertools
import json
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crag_runtime.evaluators.reader_adapter import FOLDER, AdaptedWeights, described, ensure_base, read_adapter
from crag_runtime.evaluators.reader_answer import tidied
from crag_runtime.evaluators.reader_heads import best_span
from crag_runtime.evaluators.reader_windows import WINDOW_TOKENS, WINDOWS, windows
from kb.embedders.e5_weights import E5Weights, bundled_weights
from kb.errors import EvaluatorUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FILLER = "The old mill stood by the river and nobody went there after dark. "


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def letters(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def test_a_short_passage_is_read_whole() -> None:
    text = "\n  One sentence here. And another one there.  "
    assert windows("another", text, words) == [(3, len(text) - 2)]


def test_nothing_is_read_of_nothing() -> None:
    assert windows("what", "", words) == windows("what", " \n\t ", words) == []


def test_a_window_is_around_what_the_question_names() -> None:
    text = FILLER * 9 + "The warranty of the Aurora pump lasts seven years. " + FILLER * 9
    found = windows("How long is the warranty of the Aurora pump?", text, words)
    assert any("seven years" in text[start:end] for start, end in found)


def test_with_no_word_in_common_the_windows_are_spread() -> None:
    text = FILLER * 20
    first, second = windows("极光热泵的保修期是多久？", text, words)
    assert first[1] <= len(text) / 2 <= second[0]
    assert first[0] > 0


def test_a_passage_without_any_stop_is_cut_too() -> None:
    text = "word " * 400 + "needle " + "word " * 400
    found = windows("where is the needle", text, words)
    assert any("needle" in text[start:end] for start, end in found)
    assert max(words([text[start:end] for start, end in found])) <= WINDOW_TOKENS


@given(
    st.lists(
        st.sampled_from(["Alpha beta gamma. ", "delta\n", "保修期七年。", "| a | b |\n", "x" * 300, " "]), max_size=60
    )
)
def test_windows_are_few_in_order_apart_and_small(parts: list[str]) -> None:
    text = "".join(parts)
    found = windows("beta 保修期", text, letters)
    assert len(found) <= WINDOWS
    assert found == sorted(found)
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(found))
    assert all(0 <= start < end <= len(text) and text[start:end].strip() for start, end in found)
    assert bool(found) == bool(text.strip())


@pytest.mark.parametrize(
    ("text", "chosen", "answer"),
    [
        ("It costs 30,000 euros.", "000", "30,000"),
        ("It is version 2.4.1 now.", "4", "2.4.1"),
        ("He met Saint-Exupéry.", "Exup", "Exupéry"),
        ("Call it cafe\u0301 please.", "cafe", "cafe\u0301"),
        ("保修期为７年，可延长。", "７年，", "７年"),
        ("价格是 1280.5 公斤", "280", "1280.5"),
        ("a state (or city) was", "state (", "state"),
        ("a state (or city) was", "state (or city)", "state (or city)"),
        ("a state or city) was", "city)", "city"),
        ("known as “the Wall” then", "the Wall”", "the Wall"),
        ("北京办公室", "京", "京"),
        ("stop. ", ". ", ""),
    ],
)
def test_an_answer_is_whole_words_without_strays(text: str, chosen: str, answer: str) -> None:
    at = text.index(chosen)
    start, end = tidied(text, at, at + len(chosen))
    assert text[start:end] == answer


@given(st.text(max_size=30), st.integers(-5, 40), st.integers(-5, 40))
def test_an_answer_never_leaves_the_text(text: str, start: int, end: int) -> None:
    first, last = tidied(text, start, end)
    assert 0 <= first <= last <= max(len(text), first)
    assert text[first:last] == text[first:last].strip(" \t\r\n")


def test_the_best_span_begins_before_it_ends_and_stays_inside() -> None:
    logits = np.random.default_rng(7).normal(size=(60, 2)).astype(np.float32)
    span = best_span(logits, 10, 40)
    assert span is not None
    assert 10 <= span[0] <= span[1] < 40
    assert best_span(logits, 10, 10) is None


@pytest.fixture
def adapter_copy(tmp_path: Path) -> Path:
    return shutil.copytree(FOLDER, tmp_path / "reader")


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_adapter_is_refused(adapter_copy: Path, damage: str) -> None:
    path = adapter_copy / "adapter.npz"
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(data[:-1] + (bytes([data[-1] ^ 1]) if damage == "flipped" else b""))
    with pytest.raises(EvaluatorUnavailable, match="adapter") as caught:
        read_adapter(adapter_copy)
    assert "reinstall" in caught.value.hint


@pytest.mark.parametrize("change", [{"format": "e5ce-lora/9"}, {"calibration": {}}, {"adapter_sha256": "0" * 64}])
def test_a_description_of_another_shape_is_refused(adapter_copy: Path, change: dict[str, object]) -> None:
    path = adapter_copy / "adapter.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **change}))
    with pytest.raises(EvaluatorUnavailable, match="adapter"):
        read_adapter(adapter_copy)


def test_an_adapter_fits_its_own_base_only() -> None:
    ensure_base(described(), described().base_sha256)
    with pytest.raises(EvaluatorUnavailable, match="not those"):
        ensure_base(described(), "0" * 64)


def test_the_adapter_changes_every_matrix_and_keeps_its_shape() -> None:
    base = E5Weights.open(bundled_weights())
    adapted = AdaptedWeights(base, read_adapter())
    for name, columns in (("l0.q.w", base.shape.hidden), ("l5.fi.w", base.shape.hidden), ("l11.fo.w", base.shape.ffn)):
        before, after = base.matrix(name, columns), adapted.matrix(name, columns)
        assert before.shape == after.shape
        assert 0 < np.abs(after - before).max() < np.abs(before).max()
    assert adapted.floats("emb.ln.w").shape == base.floats("emb.ln.w").shape
