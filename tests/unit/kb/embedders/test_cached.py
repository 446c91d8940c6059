from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kb.embedders.cached import embedded
from kb.errors import EmbedderUnavailable
from tests.fakes.embedder import HashingEmbedder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kb.ports import Vector

TEXTS = {f"h{n}": f"text number {n}" for n in range(10)}


class DictCache:
    """An embedding cache in a dictionary, which remembers how it was written."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Vector] = {}
        self.puts: list[list[str]] = []

    def get(self, model: str, hashes: Sequence[str]) -> Mapping[str, Vector]:
        return {h: self.kept[model, h] for h in hashes if (model, h) in self.kept}

    def put(self, model: str, vectors: Mapping[str, Vector]) -> None:
        self.puts.append(list(vectors))
        self.kept |= {(model, h): vector for h, vector in vectors.items()}


def test_every_text_has_the_vector_the_embedder_gives() -> None:
    result = embedded(DictCache(), HashingEmbedder(), TEXTS, batch=3)
    assert set(result.vectors) == set(TEXTS)
    for name, text in TEXTS.items():
        assert np.array_equal(result.vectors[name], HashingEmbedder().passages([text])[0])
    assert result.embedded == 10


def test_a_text_is_embedded_once() -> None:
    cache, embedder = DictCache(), HashingEmbedder()
    first = embedded(cache, embedder, TEXTS)
    second = embedded(cache, embedder, {**TEXTS, "new": "one more"})
    assert (first.embedded, second.embedded, embedder.passages_embedded) == (10, 1, 11)
    assert np.array_equal(second.vectors["h3"], first.vectors["h3"])


def test_another_model_is_another_cache() -> None:
    cache = DictCache()
    embedded(cache, HashingEmbedder(), TEXTS)
    assert embedded(cache, HashingEmbedder(model="other"), TEXTS).embedded == 10


def test_a_vector_of_another_dimension_is_made_anew() -> None:
    cache = DictCache()
    embedded(cache, HashingEmbedder(dim=32), TEXTS)
    result = embedded(cache, HashingEmbedder(dim=64), TEXTS)
    assert result.embedded == 10
    assert cache.get("hashing", ["h0"])["h0"].shape == (64,)


def test_each_batch_is_stored_before_the_next_is_begun() -> None:
    cache, embedder = DictCache(), HashingEmbedder()
    embedder.fails_after = 2
    with pytest.raises(EmbedderUnavailable):
        embedded(cache, embedder, TEXTS, batch=3)
    assert cache.puts == [["h0", "h1", "h2"], ["h3", "h4", "h5"]]
    embedder.fails_after = None
    assert embedded(cache, embedder, TEXTS, batch=3).embedded == 4


def test_a_refused_text_harms_no_other_and_is_not_cached() -> None:
    cache = DictCache()
    texts = {**TEXTS, "bad": "poison"}
    result = embedded(cache, HashingEmbedder(refuses="poison"), texts, batch=4)
    assert set(result.refused) == {"bad"}
    assert set(result.vectors) == set(TEXTS)
    assert result.embedded == 10
    assert ("hashing", "bad") not in cache.kept


def test_progress_counts_what_had_to_be_embedded() -> None:
    cache, steps = DictCache(), list[tuple[int, int]]()
    embedded(cache, HashingEmbedder(), {"h0": TEXTS["h0"]})
    embedded(cache, HashingEmbedder(), TEXTS, batch=4, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(4, 9), (8, 9), (9, 9)]


def test_nothing_asked_is_nothing_done() -> None:
    cache = DictCache()
    assert embedded(cache, HashingEmbedder(), {}).vectors == {}
    assert cache.puts == []
