"""Chat models: what a caller sees. The adapter for OpenAI-compatible endpoints is opened by `open_chat`.

Vendors are imported when a chat model is opened, so this package imports cheaply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kb.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a prompt. Text of memories goes into `user` messages only, never into `system`."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a call cost: requests really sent (repeats and probes included) and tokens by the endpoint's own count."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's text, and what it cost."""

    text: str
    spent: Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Structured(Generic[T]):
    """A reply in the form that was asked for, and what it cost."""

    value: T
    spent: Spent


class Chat(Protocol):
    """A chat model at temperature 0. Safe to share between tasks of one event loop; bounded in calls at a time.

    Raises:
        ModelUnavailable: with the fault, after its own bounded repeats; `calls`, `tokens_in` and
            `tokens_out` on the exception tell what it cost.
    """

    @property
    def model(self) -> str:
        """The model's name."""
        ...

    async def complete(self, messages: Sequence[Message], on_token: Callable[[str], None] | None = None) -> Reply:
        """Return the model's reply; with `on_token`, stream it. An empty reply, or one cut off, is a fault."""
        ...

    async def structured(self, messages: Sequence[Message], schema: type[T]) -> Structured[T]:
        """Return a reply as `schema`, a pydantic model; never streamed. What does not fit is MALFORMED."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


def open_chat(settings: Settings) -> Chat | None:
    """Return the configured chat model, or None when none is configured. Sends nothing.

    Takes seconds the first time: open it before an event loop has work to do.

    Raises:
        ConfigError: it is OpenAI's own endpoint, and there is no key.
    """
    if settings.chat.model is None:
        return None
    from kb.chat.openai import OpenAIChat  # noqa: PLC0415 - import what is used

    return OpenAIChat.from_settings(settings)
