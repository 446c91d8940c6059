"""The span and the measures of one call of a chat model, by the GenAI conventions."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kb.telemetry import Attr, Metric, Operation, Span, count, messages, observe, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from langchain_core.messages import AIMessage, BaseMessage

PROVIDER = "openai"  # whose protocol it is, whoever runs the model


@dataclass(slots=True, kw_only=True)
class Told:
    """What is known of a call by its end.

    Args:
        calls: requests really sent.
        tokens_in: by the endpoint's own count.
        tokens_out: likewise.
        model: that replied, by its own word.
        sent: the messages of the last request.
        heard: pieces of the replies.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    model: str = ""
    sent: Sequence[BaseMessage] = ()
    heard: list[str] = field(default_factory=list)

    def add(self, message: AIMessage) -> None:
        """Take in a reply, or a piece of one."""
        if message.usage_metadata:
            self.tokens_in += message.usage_metadata["input_tokens"]
            self.tokens_out += message.usage_metadata["output_tokens"]
        self.model = str(message.response_metadata.get("model_name") or self.model)
        self.heard.append(message.text)


@contextmanager
def chat(model: str, purpose: str, told: Told) -> Iterator[None]:
    """Record a call: its span, its time, its tokens."""
    labels = {Attr.OPERATION: Operation.CHAT.value, Attr.REQUEST_MODEL: model}
    began = time.perf_counter()
    with span(Span.CHAT, {**labels, Attr.PROVIDER: PROVIDER, Attr.PURPOSE: purpose}) as recording:
        try:
            yield
        finally:
            tokens = {Attr.INPUT_TOKENS: told.tokens_in, Attr.OUTPUT_TOKENS: told.tokens_out}
            recording.set({**tokens, Attr.CALLS: told.calls, Attr.RESPONSE_MODEL: told.model or None})
            recording.capture(Attr.INPUT, lambda: messages((m.type, m.text) for m in told.sent))
            recording.capture(Attr.OUTPUT, lambda: messages([("assistant", "".join(told.heard))]))
            observe(Metric.GENAI_SECONDS, time.perf_counter() - began, **labels)


def counted(model: str, purpose: str, told: Told, outcome: str) -> None:
    """Count a call that has ended, however it did."""
    count(Metric.CHAT_CALLS, told.calls, model=model, purpose=purpose, outcome=outcome)
    labels = {Attr.OPERATION: Operation.CHAT.value, Attr.REQUEST_MODEL: model}
    for direction, kind, tokens in (("in", "input", told.tokens_in), ("out", "output", told.tokens_out)):
        count(Metric.CHAT_TOKENS, tokens, model=model, purpose=purpose, direction=direction)
        if tokens:
            observe(Metric.GENAI_TOKENS, tokens, **labels, **{Attr.TOKEN_TYPE: kind})
