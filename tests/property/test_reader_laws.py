from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb.embedders.e5_cache import built_model, shared_tokenizer
from kb.embedders.e5_tokenizer import PASSAGE_PREFIX, E5Tokenizer
from kb.embedders.e5_weights import E5Weights, bundled_weights

if TYPE_CHECKING:
    from pathlib import Path

    from crag_runtime.evaluators.reader_model import ReaderModel

PIECES = st.sampled_from(
    [
        *("The warranty lasts 7 years. ", "Version 2.4.1 (beta), ", "ends\n", "  ", "\u3000", "\u200b", "\0", "\ud800"),
        *(
            "保修期为７年，",
            "极光热泵。",
            "ＡＢＣ１２３",
            "ﬁne ﬂow ",
            "cafe\u0301 ",
            "e\u0301\u0323",
            "㈱ ½ ",
            "한국어 ",
            "日本語",
        ),
        *("👩\u200d🚀", "ﷺ ", "İstanbul ", "| a | b |\n", "▁▁", "<s>", "\x1c", "\u2028", "\ufeff", "a\u0300" * 9),
    ]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text(max_size=60))


@pytest.fixture(scope="module")
def tokenizer(model_cache: Path) -> E5Tokenizer:
    weights = E5Weights.open(bundled_weights())
    return shared_tokenizer(built_model(model_cache, weights).tokenizer, weights)


@given(text=TEXTS)
def test_pieces_are_the_ids_and_tile_the_text_in_order(tokenizer: E5Tokenizer, text: str) -> None:
    for prefix in (PASSAGE_PREFIX, PASSAGE_PREFIX + "Aurora 手册: "):
        ids, places = tokenizer.pieces(text, prefix)
        assert ids == tokenizer.ids([text], prefix)[0]
        assert len(ids) == len(places)
        assert all(-len(prefix) <= start <= end <= len(text) for start, end in places)
        assert all(one[0] <= other[0] and one[1] <= other[1] for one, other in pairwise(places))


@settings(max_examples=60)
@given(text=TEXTS, question=TEXTS, title=TEXTS)
def test_every_answer_is_verbatim_within_its_window(
    reader_model: ReaderModel, text: str, question: str, title: str
) -> None:
    readings = reader_model.read(question, text, (title,))
    assert bool(readings) == bool(text.strip())
    for reading in readings:
        assert 0 <= reading.start < reading.end <= len(text)
        assert 0.0 <= reading.p <= 1.0
        start, end = reading.answer
        assert 0 <= start <= end <= len(text)
        assert text[start:end] in text
        assert start >= end or (reading.start < end and start < reading.end)
