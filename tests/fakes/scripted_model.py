"""A LangChain chat model that says what it was told to, and keeps every prompt it was given."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage


class ScriptedModel(BaseChatModel):
    """Says the next reply of the script; "done" once the script is over. Thread-safe."""

    script: list[Any] = Field(default_factory=list)
    _prompts: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    @property
    def prompts(self) -> list[list[BaseMessage]]:
        """What the model was given, call by call."""
        return self._prompts

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_kwargs: Any) -> ScriptedModel:  # noqa: ARG002 - the framework's
        return self

    def _generate(self, messages: list[BaseMessage], stop=None, run_manager=None, **_kwargs: Any) -> ChatResult:  # noqa: ARG002
        with self._lock:
            self._prompts.append(list(messages))
            reply = self.script.pop(0) if self.script else AIMessage("done")
        message = AIMessage(reply) if isinstance(reply, str) else reply
        return ChatResult(generations=[ChatGeneration(message=message)])


def calling(tool: str, **args: Any) -> AIMessage:
    """Return a reply that calls a tool."""
    return AIMessage("", tool_calls=[{"name": tool, "args": args, "id": f"call-{tool}"}])
