"""The OpenAI-compatible embedder against a real HTTP server that misbehaves."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from kb.embedders.backoff import ATTEMPTS
from kb.embedders.each import embed_each
from kb.embedders.openai import Endpoint, OpenAIEmbedder, batch_end
from kb.errors import ConfigError, DocumentError, EmbedderUnavailable
from tests.fakes.openai_server import OpenAIServer, Reply

NOW = 1_900_000_000.0
KEY = "sk-secret-0123"


class Sleeper:
    """Remembers how long it was told to sleep."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


def near(server: OpenAIServer, sleeper: Sleeper | None = None, **changes: Any) -> OpenAIEmbedder:
    endpoint: dict[str, Any] = {"model": "tiny", "base_url": server.url, "api_key": SecretStr(KEY), **changes}
    return OpenAIEmbedder(Endpoint(**endpoint), sleep=sleeper or Sleeper(), clock=lambda: NOW)


def test_texts_go_as_text_with_model_and_key(openai_server: OpenAIServer) -> None:
    near(openai_server).passages(["hello", "你好"])
    (request,) = openai_server.requests
    assert (request.input, request.model) == (["hello", "你好"], "tiny")
    assert request.authorization == f"Bearer {KEY}"
    assert request.dimensions is None


def test_a_set_dimension_is_asked_for_and_known_without_a_request(openai_server: OpenAIServer) -> None:
    embedder = near(openai_server, dim=32)
    assert embedder.identity.dim == 32
    assert openai_server.requests == []
    assert embedder.passages(["x"]).shape == (1, 32)
    assert openai_server.requests[0].dimensions == 32


def test_the_dimension_is_learnt_from_the_first_answer(openai_server: OpenAIServer) -> None:
    embedder = near(openai_server)
    embedder.passages(["x"])
    assert embedder.identity.dim == 64
    assert len(openai_server.requests) == 1


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_a_busy_endpoint_is_asked_again(openai_server: OpenAIServer, status: int) -> None:
    openai_server.script.extend([Reply(status), Reply(status)])
    sleeper = Sleeper()
    assert near(openai_server, sleeper).passages(["x"]).shape == (1, 64)
    assert sleeper.slept == [0.5, 1.0]


@pytest.mark.parametrize(
    "asked", ["17", format_datetime(datetime.fromtimestamp(NOW + 17, UTC), usegmt=True)], ids=["seconds", "date"]
)
def test_retry_after_is_honoured(openai_server: OpenAIServer, asked: str) -> None:
    openai_server.script.append(Reply(429, headers={"Retry-After": asked}))
    sleeper = Sleeper()
    near(openai_server, sleeper).passages(["x"])
    assert sleeper.slept == [17.0]


def test_an_endpoint_that_stays_busy_is_given_up(openai_server: OpenAIServer) -> None:
    openai_server.script.extend([Reply(503, "overloaded")] * 50)
    with pytest.raises(EmbedderUnavailable, match=r"503: .*overloaded"):
        near(openai_server).passages(["x"])
    assert len(openai_server.requests) == ATTEMPTS


@pytest.mark.parametrize(
    "reply", [Reply(429, headers={"Retry-After": "86400"}), Reply(429, code="insufficient_quota")], ids=["day", "quota"]
)
def test_what_waiting_cannot_mend_is_not_waited_for(openai_server: OpenAIServer, reply: Reply) -> None:
    openai_server.script.append(reply)
    with pytest.raises(EmbedderUnavailable):
        near(openai_server).passages(["x"])
    assert len(openai_server.requests) == 1


def test_a_slow_answer_is_a_timeout_and_is_asked_again(openai_server: OpenAIServer) -> None:
    openai_server.hold.clear()
    sleeper = Sleeper()
    with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
        near(openai_server, sleeper, timeout_s=0.05).passages(["x"])
    assert len(sleeper.slept) == ATTEMPTS - 1


def test_an_endpoint_that_is_gone_is_unavailable() -> None:
    with OpenAIServer() as server:
        embedder = near(server)
    with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
        embedder.passages(["x"])


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_names_the_setting_and_never_the_key(openai_server: OpenAIServer, status: int) -> None:
    openai_server.script.append(Reply(status, f"Incorrect API key provided: {KEY}"))
    with pytest.raises(ConfigError, match="KB_OPENAI_API_KEY") as caught:
        near(openai_server).passages(["x"])
    assert KEY not in f"{caught.value} {caught.value.hint} {caught.value.__cause__}"


def test_an_unknown_model_is_a_matter_of_settings(openai_server: OpenAIServer) -> None:
    openai_server.script.append(Reply(404, "model tiny does not exist"))
    with pytest.raises(ConfigError, match="does not exist"):
        near(openai_server).passages(["x"])


def test_openai_itself_needs_a_key() -> None:
    with pytest.raises(ConfigError, match="KB_OPENAI_API_KEY"):
        OpenAIEmbedder(Endpoint(model="tiny")).passages(["x"])


@pytest.mark.parametrize("status", [400, 413, 422])
def test_only_the_offending_texts_fail(openai_server: OpenAIServer, status: int) -> None:
    openai_server.marker, openai_server.marker_status = "poison", status
    texts = [f"poison {n}" if n in {5, 6, 40} else f"text {n}" for n in range(64)]
    outcomes = embed_each(near(openai_server), texts)
    assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, DocumentError)] == [5, 6, 40]
    assert "text 40" in str(outcomes[40])
    rest = [o for o in outcomes if not isinstance(o, DocumentError)]
    expected = near(openai_server).passages([text for text in texts if "poison" not in text])
    assert np.allclose(np.stack(rest), expected, atol=1e-6)


def test_an_endpoint_that_refuses_everything_is_a_matter_of_settings(openai_server: OpenAIServer) -> None:
    openai_server.script.extend([Reply(400, "dimensions not supported")] * 500)
    with pytest.raises(ConfigError, match="dimensions not supported"):
        near(openai_server).passages([f"text {n}" for n in range(256)])
    assert len(openai_server.requests) <= 12


def test_an_endpoint_with_small_batches_is_learnt_once(openai_server: OpenAIServer) -> None:
    openai_server.max_items = 32
    vectors = near(openai_server).passages([f"text {n}" for n in range(1000)])
    assert vectors.shape == (1000, 64)
    refused = [r for r in openai_server.requests if len(r.input) > 32]
    assert len(refused) <= 8


def test_requests_keep_within_items_and_tokens(openai_server: OpenAIServer) -> None:
    near(openai_server, max_items=5, max_batch_tokens=30).passages(["one two three four five six"] * 20 + ["x"] * 20)
    sizes = [len(request.input) for request in openai_server.requests]
    assert max(sizes) == 5
    assert sum(sizes) == 40


def test_a_text_over_the_models_limit_is_sent_in_windows_within_it(openai_server: OpenAIServer) -> None:
    embedder = near(openai_server, max_tokens=100)
    embedder.passages(["short", "word after word " * 200, "short too"])
    assert max(embedder.count_tokens(openai_server.texts)) <= 100
    assert "".join(openai_server.texts[1:-1]) == "word after word " * 200


@pytest.mark.parametrize("blank", ["", " \n"])
def test_blank_texts_are_never_sent(openai_server: OpenAIServer, blank: str) -> None:
    assert near(openai_server).passages([blank]).shape == (1, 64)
    assert all(text.strip() for text in openai_server.texts)


def test_answers_that_are_no_embeddings_are_reported(openai_server: OpenAIServer) -> None:
    embedder = near(openai_server)
    embedder.passages(["x"])
    openai_server.missing = 1
    with pytest.raises(EmbedderUnavailable, match="1 vectors for 2 texts"):
        embedder.passages(["x", "y"])
    openai_server.missing, openai_server.dim = 0, 32
    with pytest.raises(EmbedderUnavailable, match="dimension 32, not 64"):
        embedder.passages(["x"])
    openai_server.dim = 64
    for value in (0.0, float("nan"), float("inf")):
        openai_server.value = value
        with pytest.raises(EmbedderUnavailable, match="zero or not finite"):
            embedder.passages(["x"])


@pytest.mark.parametrize("body", [b"", b"not json", b"{}", b'{"data": []}', b'{"data": [{"embedding": null}]}', b"[]"])
def test_answers_of_another_shape_are_reported(openai_server: OpenAIServer, body: bytes) -> None:
    openai_server.script.append(Reply(200, body=body))
    with pytest.raises(EmbedderUnavailable):
        near(openai_server).passages(["x"])


def test_batches_cover_all_texts_once() -> None:
    tokens = [5, 50, 5, 5, 5, 100, 1]
    ends, at = [], 0
    while at < len(tokens):
        at = batch_end(tokens, at, max_items=3, max_tokens=60)
        ends.append(at)
    assert ends == [3, 5, 6, 7]
