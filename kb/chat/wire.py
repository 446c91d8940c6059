"""What goes to langchain-openai and what comes back: the model, its messages, and the forms of structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, assert_never
from urllib.parse import urlsplit

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from kb.chat import Message
from kb.chat.forms import Form
from kb.chat.reading import UnreadableError, fitting, found, in_words, parsed, strict_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx
    from langchain_core.language_models import LanguageModelInput
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import Runnable

    Model = Runnable[LanguageModelInput, AIMessage]

T = TypeVar("T")

OPENAI_URL = "https://api.openai.com/v1"
PLACEHOLDER = "none"  # the SDK wants a key where the endpoint wants none
ROLES: dict[str, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where and how to ask.

    Args:
        model: name at the endpoint.
        base_url: None for OpenAI itself.
        api_key: None where the endpoint asks for none.
        timeout_s: wall clock of one call, repeats and pauses included, from when it gets its turn.
        retries: repeats after a passing fault.
        max_tokens: of a reply.
        max_concurrency: calls at a time in one event loop.
    """

    model: str
    base_url: str | None = None
    api_key: SecretStr | None = None
    timeout_s: float = 30.0
    retries: int = 1
    max_tokens: int = 800
    max_concurrency: int = 4

    @property
    def url(self) -> str:
        """Base URL."""
        return self.base_url or OPENAI_URL


def opened(endpoint: Endpoint, unused: httpx.Client, client: httpx.AsyncClient | None) -> ChatOpenAI:
    """Return langchain's model. Only OpenAI itself knows `max_completion_tokens` for sure; others know the old name."""
    is_openai = (urlsplit(endpoint.url).hostname or "").endswith((".openai.com", ".openai.azure.com"))
    limit: dict[str, Any] = {"max_completion_tokens" if is_openai else "max_tokens": endpoint.max_tokens}
    return ChatOpenAI(
        model=endpoint.model,
        base_url=endpoint.url,
        api_key=endpoint.api_key or SecretStr(PLACEHOLDER),
        temperature=0,
        timeout=endpoint.timeout_s,
        max_retries=0,  # ours honour Retry-After and the call's wall clock, and are counted
        stream_usage=True,
        stream_chunk_timeout=None,  # the call's wall clock covers the stream
        disable_streaming=True,  # else a surrounding stream turns every call into one
        use_responses_api=False,  # a self-hosted model may bear a name that would switch it on
        extra_body=limit,
        openai_proxy=None,
        http_client=unused,
        http_async_client=client,
    )


def shaped(model: ChatOpenAI, schema: type[object], form: Form) -> Model:
    """Return the model, bound to give `schema` in this form."""
    function = {"name": schema.__name__, "description": (schema.__doc__ or schema.__name__).strip()}
    match form:
        case Form.SCHEMA:
            wanted = {"name": schema.__name__, "schema": strict_schema(schema), "strict": True}
            return model.bind(response_format={"type": "json_schema", "json_schema": wanted})
        case Form.TOOL:
            tool = {"type": "function", "function": {**function, "parameters": strict_schema(schema)}}
            return model.bind_tools([tool], tool_choice=schema.__name__)
        case Form.WORDS:
            return model
        case _:
            assert_never(form)


def read(schema: type[T], message: AIMessage, form: Form) -> T:
    """Return the value of a reply that was asked for in this form.

    Raises:
        UnreadableError: it holds none.
    """
    if message.additional_kwargs.get("refusal"):
        raise UnreadableError("the model refuses")
    if message.tool_calls:
        return fitting(schema, message.tool_calls[0]["args"])
    return parsed(schema, message.text) if form is Form.SCHEMA else found(schema, message.text)


def with_words(messages: Sequence[Message], schema: type[object]) -> list[Message]:
    """Return the messages with the schema in the system message, which is made when there is none."""
    words = in_words(schema)
    first, rest = (messages[0], messages[1:]) if messages and messages[0].role == "system" else (None, messages)
    return [Message(role="system", content=f"{first.content}\n\n{words}" if first else words), *rest]


def sendable(messages: Sequence[Message]) -> list[BaseMessage]:
    """Return the messages as langchain's, their text as JSON can carry it."""
    return [ROLES[m.role](content=m.content.encode("utf-8", "replace").decode("utf-8")) for m in messages]
