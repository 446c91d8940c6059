"""A chat model in the process that says what it is told, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from kb.chat import Reply, Spent, Structured
from kb.errors import Fault, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kb.chat import Message

T = TypeVar("T")

Saying = str | dict[str, Any] | Fault


@dataclass(frozen=True)
class Asking:
    """What a caller asked; `schema` is the name of what was asked for, "" for a text."""

    messages: tuple[Message, ...]
    schema: str
    is_streamed: bool

    @property
    def prompt(self) -> str:
        """All text of all messages."""
        return "\n".join(message.content for message in self.messages)

    def by_role(self, role: str) -> str:
        """All text of one role's messages."""
        return "\n".join(message.content for message in self.messages if message.role == role)


class FakeChat:
    """Says what `script` holds next, then what `respond` decides: a text, a value, or a fault to fail with.

    Costs one call, and a token for every word in and out. `hold` keeps answers back until it is set.
    """

    def __init__(
        self, *script: Saying, respond: Callable[[Asking], Saying] | None = None, model: str = "fake-chat"
    ) -> None:
        self.script: deque[Saying] = deque(script)
        self.respond = respond
        self.asked: list[Asking] = []
        self.hold: asyncio.Event | None = None
        self._model = model

    @property
    def model(self) -> str:
        return self._model

    @property
    def prompts(self) -> list[str]:
        return [asking.prompt for asking in self.asked]

    async def complete(self, messages: Sequence[Message], on_token: Callable[[str], None] | None = None) -> Reply:
        asking = Asking(tuple(messages), "", on_token is not None)
        said = await self._said(asking)
        text = said if isinstance(said, str) else str(said)
        if not text.strip():
            raise _failure(Fault.MALFORMED, asking)
        if on_token is not None:
            for at in range(0, len(text), 3):
                on_token(text[at : at + 3])
        return Reply(text=text, spent=_spent(asking, text))

    async def structured(self, messages: Sequence[Message], schema: type[T]) -> Structured[T]:
        asking = Asking(tuple(messages), schema.__name__, is_streamed=False)
        said = await self._said(asking)
        try:
            adapter: TypeAdapter[T] = TypeAdapter(schema)
            value = adapter.validate_json(said) if isinstance(said, str) else adapter.validate_python(said)
        except ValidationError as error:
            raise _failure(Fault.MALFORMED, asking) from error
        return Structured(value=value, spent=_spent(asking, str(said)))

    async def aclose(self) -> None:
        """Nothing is open."""

    async def _said(self, asking: Asking) -> str | dict[str, Any]:
        self.asked.append(asking)
        await asyncio.sleep(0)
        if self.hold is not None:
            await self.hold.wait()
        said = self.script.popleft() if self.script else self.respond(asking) if self.respond else "It is so."
        if isinstance(said, Fault):
            raise _failure(said, asking)
        return said


def _spent(asking: Asking, text: str) -> Spent:
    return Spent(calls=1, tokens_in=len(asking.prompt.split()), tokens_out=len(text.split()))


def _failure(fault: Fault, asking: Asking) -> ModelUnavailable:
    error = ModelUnavailable(f"chat model fake-chat: told to fail as {fault.value}", fault=fault)
    error.calls, error.tokens_in = 1, len(asking.prompt.split())
    return error
