"""Embedder over any OpenAI-compatible endpoint, through langchain-openai."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

import numpy as np

from kb.embedders.backoff import pause, retry_after_seconds
from kb.embedders.traced import embedding
from kb.errors import ConfigError, DocumentError, EmbedderUnavailable, FailureCode
from kb.ports import EmbedderIdentity
from kb.tokens import count_tokens, windows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from langchain_openai import OpenAIEmbeddings
    from openai import APIStatusError
    from pydantic import SecretStr

    from kb.ports import Vector
    from kb.settings import Settings

OPENAI_URL = "https://api.openai.com/v1"
KEY_NAME = "KB_OPENAI_API_KEY"
BLANK = "(empty)"  # sent for texts of white space, which endpoints refuse
PROBE = "probe"
REFUSED = frozenset({400, 413, 422})  # by the texts sent; splitting finds which
TOO_MANY = 413
TRANSIENT = frozenset({408, 409, 425, 429})
SHOWN = 200  # characters of an endpoint's message


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where and how to embed.

    Args:
        model: name at the endpoint; also the name of the vector space.
        base_url: None for OpenAI itself.
        api_key: None where the endpoint asks for none.
        dim: dimension to ask for; None for the model's own, learnt from the first answer.
        max_tokens: tokens the model takes in one text; longer texts are averaged over windows.
        max_items: texts in one request; lowered when the endpoint says it is too many.
        max_batch_tokens: tokens in one request.
        timeout_s: of one request.
    """

    model: str
    base_url: str | None = None
    api_key: SecretStr | None = None
    dim: int | None = None
    max_tokens: int = 8191
    max_items: int = 256
    max_batch_tokens: int = 100_000
    timeout_s: float = 60.0


class _Refusal(Exception):  # noqa: N818 - never leaves this module
    """The endpoint refused a request for what was in it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class OpenAIEmbedder:
    """Embeds at an endpoint. Passages and queries are embedded alike. Token counts are cl100k's: an estimate elsewhere.

    Args:
        endpoint: where and how.
        sleep: waits, in seconds.
        clock: tells epoch seconds, to understand dates in `Retry-After`.
    """

    notice = ""

    def __init__(
        self, endpoint: Endpoint, *, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.time
    ) -> None:
        self._endpoint = endpoint
        self._sleep = sleep
        self._clock = clock
        self._dim = endpoint.dim
        self._max_items = endpoint.max_items
        self._has_worked = False

    @classmethod
    def from_settings(cls, settings: Settings) -> OpenAIEmbedder:
        """Return the embedder that the settings describe."""
        return cls(
            Endpoint(
                model=settings.embedding_model,
                base_url=settings.openai_base_url,
                api_key=settings.openai_api_key,
                dim=settings.embedding_dim,
                max_tokens=settings.embedding_max_tokens,
            )
        )

    @property
    def identity(self) -> EmbedderIdentity:
        """Model, dimension and engine; asks the endpoint once when the dimension is not known yet."""
        if self._dim is None:
            self._unit(self._ask([PROBE]), 1)
        assert self._dim is not None
        host = urlsplit(self._url).hostname
        return EmbedderIdentity(model=self._endpoint.model, dim=self._dim, engine=f"openai-compatible at {host}")

    @property
    def max_tokens(self) -> int:
        """Tokens the model takes in one text."""
        return self._endpoint.max_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return each text's tokens as sent."""
        return count_tokens([_sendable(text) for text in texts])

    def passages(self, texts: Sequence[str]) -> Vector:
        """Embed texts that will be found: float32, shape (len(texts), dim), unit length."""
        with embedding(self._endpoint.model, purpose="passage", texts=len(texts)):
            return self._all(texts)

    def queries(self, texts: Sequence[str]) -> Vector:
        """Embed texts that look for them: float32, shape (len(texts), dim), unit length."""
        with embedding(self._endpoint.model, purpose="query", texts=len(texts)):
            return self._all(texts)

    def passages_each(self, texts: Sequence[str]) -> list[Vector | DocumentError]:
        """Embed texts that will be found; a text that is refused gives its error in its place and harms no other."""
        with embedding(self._endpoint.model, purpose="passage", texts=len(texts)):
            return list(self._each(texts))

    def _all(self, texts: Sequence[str]) -> Vector:
        if not texts:
            return np.zeros((0, self.identity.dim), np.float32)
        vectors = []
        for outcome in self._each(texts):
            if isinstance(outcome, DocumentError):
                raise outcome
            vectors.append(outcome)
        return np.stack(vectors)

    def _each(self, texts: Sequence[str]) -> Iterator[Vector | DocumentError]:
        """Yield each text's vector or error, in order, a batch ahead."""
        limit = self._endpoint.max_tokens - self._endpoint.max_tokens // 16  # pieces may recount a little longer
        cut = [self._windows(_sendable(text), limit) for text in texts]
        pieces = [piece for text in cut for piece in text]
        tokens = count_tokens(pieces)
        outcomes = self._pieces(pieces, tokens)
        at = 0
        for index, text in enumerate(cut):
            mine = [next(outcomes) for _ in text]
            refusals = [outcome for outcome in mine if isinstance(outcome, _Refusal)]
            if refusals:
                yield DocumentError(FailureCode.EMBED_FAILED, f"the embedder refuses text {index}: {refusals[0]}")
            else:
                weights = np.array(tokens[at : at + len(mine)], np.float32)
                mixed: Vector = (np.stack(mine) * weights[:, None]).sum(axis=0)  # type: ignore[arg-type] # no refusal
                yield mixed / np.linalg.norm(mixed)
            at += len(mine)

    def _windows(self, text: str, limit: int) -> list[str]:
        return windows(text, limit) if count_tokens([text])[0] > self._endpoint.max_tokens else [text]

    def _pieces(self, pieces: list[str], tokens: list[int]) -> Iterator[Vector | _Refusal]:
        at = 0
        while at < len(pieces):
            end = batch_end(tokens, at, max_items=self._max_items, max_tokens=self._endpoint.max_batch_tokens)
            yield from self._split(pieces[at:end])
            at = end

    def _split(self, batch: list[str]) -> list[Vector | _Refusal]:
        """Embed a batch; halve it while the endpoint refuses it, down to the text that is to blame."""
        try:
            return list(self._unit(self._ask(batch), len(batch)))
        except _Refusal as refusal:
            if len(batch) == 1:
                self._ensure_endpoint_takes_anything(refusal)
                return [refusal]
            half = len(batch) // 2
            if refusal.status == TOO_MANY:
                self._max_items = min(self._max_items, half)
        return self._split(batch[:half]) + self._split(batch[half:])

    def _ensure_endpoint_takes_anything(self, refusal: _Refusal) -> None:
        if self._has_worked:
            return
        try:
            self._unit(self._ask([PROBE]), 1)
        except _Refusal:
            raise ConfigError(
                f"the embedding endpoint refuses every text: {refusal}",
                hint="check embedding_model, embedding_dim and openai_base_url",
            ) from refusal

    def _ask(self, batch: list[str]) -> list[list[float]]:
        """Send one request, again while the endpoint is busy or away."""
        import openai  # noqa: PLC0415 - heavy, and only this embedder needs it

        attempt = 0
        while True:
            attempt += 1
            try:
                return self._client.embed_documents(batch, chunk_size=len(batch))
            except openai.APIStatusError as error:
                wait = pause(attempt, self._asked_wait(error)) if _is_transient(error) else None
                if wait is None:
                    _give_up(error)
            except openai.APIConnectionError as error:  # includes its timeout
                wait = pause(attempt, None)
                if wait is None:
                    raise EmbedderUnavailable(f"the embedding endpoint cannot be reached: {error}") from error
            except (openai.OpenAIError, ValueError, KeyError, TypeError, AttributeError) as error:
                reason = f"the embedding endpoint gave no embeddings: {str(error)[:SHOWN]}"
                raise EmbedderUnavailable(reason) from error
            self._sleep(wait)

    def _asked_wait(self, error: APIStatusError) -> float | None:
        return retry_after_seconds(error.response.headers.get("retry-after"), self._clock())

    def _unit(self, answer: list[list[float]], texts: int) -> Vector:
        """Return the answer as unit vectors, shape (texts, dim).

        Raises:
            EmbedderUnavailable: number, dimension or values are not those of embeddings.
        """
        try:
            vectors = np.asarray(answer, np.float32)
        except (ValueError, TypeError) as error:
            raise EmbedderUnavailable("the embedding endpoint gave vectors of unlike length") from error
        if vectors.ndim != 2 or len(vectors) != texts:  # noqa: PLR2004 - a matrix
            raise EmbedderUnavailable(f"the embedding endpoint gave {len(vectors)} vectors for {texts} texts")
        dim = vectors.shape[1]
        if self._dim not in (None, dim):
            raise EmbedderUnavailable(f"the embedding endpoint gave vectors of dimension {dim}, not {self._dim}")
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not lengths.all():
            raise EmbedderUnavailable("the embedding endpoint gave vectors that are zero or not finite")
        self._dim, self._has_worked = dim, True
        unit: Vector = vectors / lengths
        return unit

    @property
    def _url(self) -> str:
        return self._endpoint.base_url or OPENAI_URL

    @cached_property
    def _client(self) -> OpenAIEmbeddings:
        from langchain_openai import OpenAIEmbeddings  # noqa: PLC0415 - heavy, and only this embedder needs it
        from pydantic import SecretStr  # noqa: PLC0415

        if self._endpoint.api_key is None and self._endpoint.base_url is None:
            raise ConfigError(f"{KEY_NAME} is not set")
        return OpenAIEmbeddings(
            model=self._endpoint.model,
            base_url=self._url,
            api_key=self._endpoint.api_key or SecretStr("none"),
            dimensions=self._endpoint.dim,
            check_embedding_ctx_length=False,  # else token ids are sent, which only OpenAI itself understands
            max_retries=0,  # ours honour Retry-After
            timeout=self._endpoint.timeout_s,
        )


def batch_end(tokens: Sequence[int], start: int, *, max_items: int, max_tokens: int) -> int:
    """Return where the batch that begins at `start` ends: at least one text, else within both limits."""
    total, end = tokens[start], start + 1
    while end < len(tokens) and end - start < max_items and total + tokens[end] <= max_tokens:
        total += tokens[end]
        end += 1
    return end


def _sendable(text: str) -> str:
    """Return the text as JSON can carry it, never blank."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if text.strip() else BLANK


def _is_transient(error: APIStatusError) -> bool:
    if error.code == "insufficient_quota":
        return False
    return error.status_code in TRANSIENT or error.status_code >= 500  # noqa: PLR2004 - server errors


def _give_up(error: APIStatusError) -> NoReturn:
    status, message = error.status_code, error.message[:SHOWN]
    match status:
        case 401 | 403:  # the message may quote the key
            reason = f"the embedding endpoint refuses the key in {KEY_NAME} ({status})"
            raise ConfigError(reason, hint=f"set {KEY_NAME} to a key that may embed") from None
        case 404:
            reason = f"the embedding endpoint does not know the model or the address: {message}"
            raise ConfigError(reason, hint="check embedding_model and openai_base_url") from error
        case _ if status in REFUSED:
            raise _Refusal(status, message) from error
        case _:
            raise EmbedderUnavailable(f"the embedding endpoint answers {status}: {message}") from error
