"""OpenAI's chat completions as shapes: what a request may hold, what of it counts here, and what a reply looks like.

The last user message is the question. What the system, the assistant or an earlier turn said is no evidence and steers
nothing: answers come from governed memories alone. What only tunes a model is taken and passed over; what asks for
something that is not done here (tools, several choices, forced formats) is refused by name.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from crag_runtime.result import Answer
from serving.bodies import Approve, Listed, Name, When, Whose
from serving.failures import RefusedParameter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from crag_runtime.result import Waiting
    from kb.model import Json

MODEL = "kb"
NOT_FOUND = HTTPStatus.NOT_FOUND
PIECE = 48  # characters of a streamed piece, about
MAX_MESSAGES = 1000

# Asked for so, each of these would change what the reply is: better refused than passed over.
_REFUSED: Mapping[str, tuple[object, ...]] = {  # with the values that ask for nothing
    "n": (None, 1),
    "tools": (None, []),
    "functions": (None, []),
    "tool_choice": (None, "none", "auto"),
    "function_call": (None, "none", "auto"),
    "response_format": (None, {"type": "text"}),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "prediction": (None,),
    "web_search_options": (None,),
}


class StreamOptions(BaseModel):
    """How a stream ends."""

    include_usage: bool = False


class Message(BaseModel):
    """One turn of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None


class Options(Whose):
    """What this product's own options of a question are, under the key `kb`."""

    thread: Name = ""
    at: When | None = None
    sources: Listed = Field(default_factory=list)
    documents: Listed = Field(default_factory=list)
    approve: Approve = ""


class ChatBody(BaseModel):
    """A request for a chat completion."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {"model": "kb", "messages": [{"role": "user", "content": "How long may a card payment take?"}]},
                {
                    "model": "kb",
                    "stream": True,
                    "kb_thread": "case-17",
                    "messages": [{"role": "user", "content": "And for business customers?"}],
                },
            ]
        },
    )
    model: str = Field(max_length=200)
    messages: list[Message] = Field(min_length=1, max_length=MAX_MESSAGES)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    user: Name | None = Field(default=None, description="whose conversation it is: keeps the thread of this key's user")
    kb_thread: Name | None = Field(default=None, description="conversation that follow-ups are understood by")
    kb: Options | None = Field(default=None, description="this product's own options")

    @property
    def has_usage(self) -> bool:
        """Whether a stream ends with what it cost."""
        return self.stream_options is not None and self.stream_options.include_usage


def checked_parameters(body: ChatBody) -> list[str]:
    """Return the parameters that were given and change nothing.

    Raises:
        RefusedParameter: the model is not known, or a parameter asks for what is not done here.
    """
    if body.model != MODEL:
        raise RefusedParameter(
            "model", f"the model {body.model!r} does not exist", code="model_not_found", status=NOT_FOUND
        )
    given = body.model_extra or {}
    for name, harmless in _REFUSED.items():
        if name in given and given[name] not in harmless:
            raise RefusedParameter(name, f"{name} is not supported: answers are written from evidence only")
    return sorted(name[:64] for name in given if name not in _REFUSED)[:50]


def question_in(messages: Sequence[Message]) -> str:
    """Return the last user message as text.

    Raises:
        RefusedParameter: there is none, or it is not text.
    """
    asked = next((message for message in reversed(messages) if message.role == "user"), None)
    if asked is None:
        raise RefusedParameter("messages", "there is no user message: nothing is asked", code="invalid_value")
    if isinstance(asked.content, str):
        return asked.content
    parts = asked.content or []
    if any(part.get("type") != "text" or not isinstance(part.get("text"), str) for part in parts):
        raise RefusedParameter("messages", "only text can be asked", code="unsupported_value")
    return "\n".join(str(part["text"]) for part in parts)


def text_of(result: Answer | Waiting) -> str:
    """Return what a reader of the chat sees."""
    if isinstance(result, Answer):
        return result.text
    queries = "; ".join(result.queries)
    return f"This waits for a person's decision before it is answered: {queries} (thread {result.thread})"


def completion(id_: str, created: int, result: Answer | Waiting, extra: Mapping[str, Json]) -> dict[str, Json]:
    """Return a whole completion; `extra` stands under `kb`."""
    message: dict[str, Json] = {"role": "assistant", "content": text_of(result), "refusal": None}
    return {
        **_head(id_, created, "chat.completion"),
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": usage_of(result),
        "kb": dict(extra),
    }


def opening_chunk(id_: str, created: int) -> dict[str, Json]:
    """Return the first chunk of a stream."""
    return _chunk(id_, created, {"role": "assistant", "content": ""})


def chunks(
    id_: str, created: int, result: Answer | Waiting, extra: Mapping[str, Json], *, has_usage: bool
) -> Iterator[dict[str, Json]]:
    """Yield the rest of a stream; the last chunk has `extra` under `kb`."""
    for piece in pieces(text_of(result)):
        yield _chunk(id_, created, {"content": piece})
    last = _chunk(id_, created, {}, finish="stop")
    if has_usage:
        yield last
        last = {**_head(id_, created, "chat.completion.chunk"), "choices": [], "usage": usage_of(result)}
    yield {**last, "kb": dict(extra)}


def pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces of about a line, cut after white space where there is any."""
    rest = text
    while len(rest) > PIECE:
        at = rest.rfind(" ", 0, PIECE) + 1 or PIECE
        yield rest[:at]
        rest = rest[at:]
    if rest:
        yield rest


def usage_of(result: Answer | Waiting) -> dict[str, Json]:
    """Return what the chat model was given and wrote; nothing where none was asked."""
    spent = result.usage if isinstance(result, Answer) else None
    given, written = (spent.tokens_in, spent.tokens_out) if spent else (0, 0)
    return {"prompt_tokens": given, "completion_tokens": written, "total_tokens": given + written}


def models(created: int) -> list[dict[str, Json]]:
    """Return the models that may be named."""
    return [{"id": MODEL, "object": "model", "created": created, "owned_by": "kb"}]


def _chunk(id_: str, created: int, delta: dict[str, Json], finish: str | None = None) -> dict[str, Json]:
    choice: dict[str, Json] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {**_head(id_, created, "chat.completion.chunk"), "choices": [choice]}


def _head(id_: str, created: int, kind: str) -> dict[str, Json]:
    return {"id": f"chatcmpl-{id_}", "object": kind, "created": created, "model": MODEL}
