from __future__ import annotations

import numpy as np
import pytest

from kb.embedders.each import embed_each
from kb.errors import DocumentError, EmbedderUnavailable
from tests.fakes.embedder import HashingEmbedder


def test_every_text_gets_its_vector_or_its_own_error_in_order() -> None:
    texts = [f"poison {n}" if n % 7 == 3 else f"text {n}" for n in range(40)]
    outcomes = embed_each(HashingEmbedder(refuses="poison"), texts)
    assert [isinstance(o, DocumentError) for o in outcomes] == ["poison" in text for text in texts]
    for text, outcome in zip(texts, outcomes, strict=True):
        if not isinstance(outcome, DocumentError):
            assert np.array_equal(outcome, HashingEmbedder().passages([text])[0])


def test_nothing_refused_is_one_call() -> None:
    embedder = HashingEmbedder()
    assert len(embed_each(embedder, ["a", "b", "c"])) == 3
    assert embedder.calls == 1


def test_no_text_is_no_call() -> None:
    embedder = HashingEmbedder()
    assert embed_each(embedder, []) == []
    assert embedder.calls == 0


def test_one_offender_among_many_costs_a_logarithm_of_calls() -> None:
    embedder = HashingEmbedder(refuses="poison")
    embed_each(embedder, ["poison", *["fine"] * 1023])
    assert embedder.calls <= 2 * 11


def test_an_embedder_that_is_away_blames_no_text() -> None:
    embedder = HashingEmbedder()
    embedder.unavailable = True
    with pytest.raises(EmbedderUnavailable):
        embed_each(embedder, ["a", "b"])
