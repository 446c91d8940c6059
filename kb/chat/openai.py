"""Chat models at any OpenAI-compatible endpoint, through langchain-openai."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

import httpx
from langchain_core.messages import AIMessageChunk

from kb.chat import Reply, Spent, Structured
from kb.chat.faults import VENDOR_ERRORS, Diagnosis, diagnosed, without
from kb.chat.forms import Form, Known
from kb.chat.reading import UnreadableError
from kb.chat.traced import Told, chat, counted
from kb.chat.wire import Endpoint, opened, read, sendable, shaped, with_words
from kb.errors import ConfigError, Fault, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    from kb.chat import Message
    from kb.chat.forms import Manners
    from kb.chat.wire import Model
    from kb.settings import Settings

T = TypeVar("T")

KEY_NAMES = "KB_CHAT__API_KEY or KB_OPENAI_API_KEY"
FIRST_PAUSE_S = 0.5
OPTIONAL: dict[str, dict[str, object]] = {
    "temperature": {"temperature": None},
    "stream_options": {"stream_usage": False},
}
HIDDEN = {"tags": ["nostream"]}  # LangGraph shows nothing of these calls in its `messages` stream

_KNOWN = Known()


class _Failed(Exception):  # noqa: N818 - never leaves this module
    """One request failed."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis.reason)
        self.diagnosis = diagnosis


@dataclass(slots=True)
class _Line:
    """What belongs to one event loop: connections, turns, and whether the form of structure is being found out."""

    client: httpx.AsyncClient
    model: ChatOpenAI
    turns: asyncio.Semaphore
    probe: asyncio.Event | None = None


@dataclass(slots=True, kw_only=True)
class _Call(Told):
    """One call under way, and its bill."""

    line: _Line
    deadline: float
    repeats: int = 0
    has_begun: bool = False  # a piece of the reply has been given out

    @property
    def spent(self) -> Spent:
        return Spent(calls=self.calls, tokens_in=self.tokens_in, tokens_out=self.tokens_out)


@dataclass(slots=True)
class _Stream:
    """What has come of a streamed reply."""

    pieces: list[str] = field(default_factory=list)
    finish: str = ""


class OpenAIChat:
    """A chat model at an endpoint. May be used from several event loops; connections and turns are each loop's own.

    Args:
        endpoint: where and how.
        sleep: waits, in seconds.
        clock: tells epoch seconds, to understand dates in `Retry-After`.
        known: what has been learnt of endpoints; this process's own by default.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.time,
        known: Known = _KNOWN,
    ) -> None:
        if endpoint.api_key is None and endpoint.base_url is None:
            raise ConfigError(f"{KEY_NAMES} is not set")
        self._endpoint = endpoint
        self._sleep = sleep
        self._clock = clock
        self._manners: Manners = known.of(endpoint.url, endpoint.model)
        self._trust = httpx.create_ssl_context()  # slow to make, and no loop's own
        self._unused = httpx.Client(verify=self._trust)  # else a second pool is made for calls that never come
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()
        opened(endpoint, self._unused, None)  # whatever is slow once is slow here, before a loop runs

    @classmethod
    def from_settings(cls, settings: Settings) -> OpenAIChat:
        """Return the chat model that the settings describe."""
        given = settings.chat
        assert given.model is not None
        return cls(
            Endpoint(
                model=given.model,
                base_url=given.base_url or settings.openai_base_url,
                api_key=_key(settings),
                timeout_s=given.timeout_seconds,
                retries=given.retries,
                max_tokens=given.max_tokens,
                max_concurrency=given.max_concurrency,
            )
        )

    @property
    def model(self) -> str:
        """The model's name."""
        return self._endpoint.model

    @property
    def form(self) -> str:
        """The form of structure that has worked at this endpoint: schema, tool or words; "" before any has."""
        return self._manners.form.name.lower() if self._manners.is_settled else ""

    async def complete(self, messages: Sequence[Message], on_token: Callable[[str], None] | None = None) -> Reply:
        """Return the model's reply; with `on_token`, stream it. An empty reply, or one cut off, is a fault."""
        sent = sendable(messages)
        async with self._turn("complete") as call:

            async def ask() -> str:
                if on_token is not None:
                    return await self._streamed(call, sent, on_token)
                return _text(await self._asked(call, self._ready(call), sent))

            text = await self._repeated(call, ask)
            return Reply(text=text, spent=call.spent)

    async def structured(self, messages: Sequence[Message], schema: type[T]) -> Structured[T]:
        """Return a reply as `schema`, a pydantic model; never streamed. What does not fit is MALFORMED.

        The first call finds out which form of structure the endpoint takes; calls beside it wait for that, once.
        """
        line = self._line()
        if self._manners.is_settled:
            return await self._in_form(messages, schema)
        if line.probe is not None:
            await line.probe.wait()
            return await self._in_form(messages, schema)
        line.probe = asyncio.Event()
        try:
            return await self._in_form(messages, schema)
        finally:
            line.probe.set()
            line.probe = None

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line.client.aclose()

    async def _in_form(self, messages: Sequence[Message], schema: type[T]) -> Structured[T]:
        async with self._turn("structured") as call:
            for form in self._manners.to_try():
                try:
                    value = await self._repeated(call, partial(self._value, call, messages, schema, form))
                except _Failed as failure:
                    if self._manners.is_settled or not failure.diagnosis.may_be_form:
                        raise
                    self._manners.failed(form)
                    if form is Form.WORDS:
                        raise
                else:
                    self._manners.worked(form)
                    return Structured(value=value, spent=call.spent)
            raise AssertionError  # to_try is never empty and its last form raises

    async def _value(self, call: _Call, messages: Sequence[Message], schema: type[T], form: Form) -> T:
        sent = sendable(with_words(messages, schema) if form is Form.WORDS else messages)
        message = await self._asked(call, shaped(self._ready(call), schema, form), sent)
        if _finish(message) == "length":
            raise _Failed(_malformed("the reply is longer than max_tokens allows"))
        try:
            return read(schema, message, form)
        except UnreadableError as error:
            if error.is_shaped:
                self._manners.worked(form)
            raise _Failed(_malformed(f"the reply cannot be used: {error}")) from error

    async def _asked(self, call: _Call, model: Model, sent: list[BaseMessage]) -> AIMessage:
        call.calls, call.sent = call.calls + 1, sent
        try:
            message = await model.ainvoke(sent, HIDDEN)  # type: ignore[arg-type] # a config is any such mapping
        except VENDOR_ERRORS as error:
            raise self._failed(call, error) from error
        call.add(message)
        return message

    async def _streamed(self, call: _Call, sent: list[BaseMessage], on_token: Callable[[str], None]) -> str:
        call.calls, call.sent = call.calls + 1, sent
        stream = _Stream()
        async with aclosing(self._pieces(call, sent)) as chunks:
            async for chunk in chunks:
                call.add(chunk)
                stream.finish = _finish(chunk) or stream.finish
                if chunk.text:
                    call.has_begun = True
                    stream.pieces.append(chunk.text)
                    on_token(chunk.text)
        if not stream.finish:
            raise _Failed(Diagnosis(fault=Fault.CUT_OFF, reason="the reply stopped without an end", is_passing=True))
        return _whole("".join(stream.pieces), stream.finish)

    async def _pieces(self, call: _Call, sent: list[BaseMessage]) -> AsyncGenerator[AIMessageChunk, None]:
        """Yield what comes; errors of the caller's own, raised between pieces, are not translated."""
        streaming = self._ready(call).model_copy(update={"disable_streaming": False})
        try:
            async for chunk in streaming.astream(sent, HIDDEN):  # type: ignore[arg-type] # likewise
                assert isinstance(chunk, AIMessageChunk)
                yield chunk
        except VENDOR_ERRORS as error:
            raise self._failed(call, error) from error

    async def _repeated(self, call: _Call, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask, again while the fault is a passing one, nothing has been given out, and there is time."""
        while True:
            try:
                return await ask()
            except _Failed as failure:
                pause = self._pause(call, failure.diagnosis)
                if pause is None:
                    raise
            await self._sleep(pause)

    def _pause(self, call: _Call, diagnosis: Diagnosis) -> float | None:
        """Return how long to wait before asking again, in seconds; None to give up."""
        if diagnosis.parameter in OPTIONAL and diagnosis.parameter not in self._manners.refused:
            self._manners.refused.add(diagnosis.parameter)
            return 0.0
        if call.has_begun or not diagnosis.is_passing or call.repeats >= self._endpoint.retries:
            return None
        pause = max(diagnosis.retry_after or 0.0, FIRST_PAUSE_S * 2.0**call.repeats)
        call.repeats += 1
        left = call.deadline - asyncio.get_running_loop().time()
        return pause if pause < left else None

    @asynccontextmanager
    async def _turn(self, purpose: str) -> AsyncIterator[_Call]:
        """Wait for a turn, then hold it for one call, under its wall clock; translate what fails."""
        line, limit = self._line(), self._endpoint.timeout_s
        async with line.turns:
            call = _Call(line=line, deadline=asyncio.get_running_loop().time() + limit)
            outcome = "cancelled"
            try:
                with chat(self.model, purpose, call):
                    try:
                        async with asyncio.timeout_at(call.deadline):
                            yield call
                    except TimeoutError:
                        late = Diagnosis(fault=Fault.TIMEOUT, reason=f"no reply within {limit:g} s")
                        raise self._unavailable(call, late) from None
                    except _Failed as failure:
                        raise self._unavailable(call, failure.diagnosis) from self._cause(failure)
                outcome = "ok"
            except ModelUnavailable as error:
                outcome = error.fault.value
                raise
            finally:
                counted(self.model, purpose, call, outcome)

    def _failed(self, call: _Call, error: Exception) -> _Failed:
        diagnosis = diagnosed(error, now=self._clock(), has_begun=call.has_begun)
        call.tokens_in += diagnosis.tokens_in
        call.tokens_out += diagnosis.tokens_out
        return _Failed(without(self._secret, diagnosis))

    def _unavailable(self, call: _Call, diagnosis: Diagnosis) -> ModelUnavailable:
        error = ModelUnavailable(
            f"chat model {self.model}: {diagnosis.reason}", fault=diagnosis.fault, retry_after=diagnosis.retry_after
        )
        error.calls, error.tokens_in, error.tokens_out = call.calls, call.tokens_in, call.tokens_out
        return error

    def _cause(self, failure: _Failed) -> BaseException | None:
        """Return the vendor's error for a traceback, unless it holds the key."""
        cause = failure.__cause__
        is_quiet = failure.diagnosis.fault is Fault.UNAUTHORISED or (self._secret and self._secret in str(cause))
        return None if is_quiet else cause

    @property
    def _secret(self) -> str:
        return self._endpoint.api_key.get_secret_value() if self._endpoint.api_key else ""

    def _ready(self, call: _Call) -> ChatOpenAI:
        """Return the model without the parameters that its endpoint refuses."""
        update: dict[str, object] = {}
        for name in self._manners.refused:
            update |= OPTIONAL[name]
        return call.line.model.model_copy(update=update) if update else call.line.model

    def _line(self) -> _Line:
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            client = httpx.AsyncClient(verify=self._trust, timeout=self._endpoint.timeout_s)
            model = opened(self._endpoint, self._unused, client)
            line = _Line(client, model, asyncio.Semaphore(self._endpoint.max_concurrency))
            self._lines[loop] = line
        return line


def _key(settings: Settings) -> SecretStr | None:
    """Return the key for the chat endpoint; a key that was given for another endpoint is never sent to it."""
    chat = settings.chat
    is_same = chat.base_url in (None, settings.openai_base_url)
    return chat.api_key or (settings.openai_api_key if is_same else None)


def _text(message: AIMessage) -> str:
    return _whole(message.text, _finish(message))


def _whole(text: str, finish: str) -> str:
    if finish == "length":
        raise _Failed(Diagnosis(fault=Fault.CUT_OFF, reason="the reply is longer than max_tokens allows"))
    if not text.strip() or finish == "content_filter":
        raise _Failed(_malformed("the reply is empty" if not text.strip() else "the endpoint filtered the reply"))
    return text


def _finish(message: AIMessage) -> str:
    return str(message.response_metadata.get("finish_reason") or "")


def _malformed(reason: str) -> Diagnosis:
    return Diagnosis(fault=Fault.MALFORMED, reason=reason, may_be_form=True)
