"""The chat budget of a question: one count in front of the model, whoever asks it: planner, graders, rewriter, answer.

What would exceed it is not sent: `ModelUnavailable` with the fault BUDGET, which each asker meets as it meets any other
fault, by doing without. The answer itself has a call kept back for it. Calls made at the same time count as they are
begun, so that even a burst stays within the limit; tokens are known only afterwards.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from kb.errors import Fault, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from kb.chat import Chat, Message, Reply, Structured

T = TypeVar("T")

KEPT = 4_096  # questions whose count is remembered; far more than run at a time


@dataclass(slots=True)
class Spent:
    """What one question has spent on the chat model."""

    calls: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Asker:
    spent: Spent
    reserve: int  # calls that this asker must leave to others


_asker: ContextVar[_Asker | None] = ContextVar("kb_spending", default=None)


class Spending:
    """Counts by question. Belongs to one event loop.

    Args:
        calls: chat calls a question may make.
        tokens: tokens, in and out, a question may use; the call that reaches the limit is the last.
    """

    def __init__(self, calls: int, tokens: int) -> None:
        self.calls = calls
        self.tokens = tokens
        self._questions: dict[str, Spent] = {}

    @contextmanager
    def of(self, question: str, usage: Mapping[str, int], *, reserve: int) -> Iterator[None]:
        """Let what runs inside spend on a question's account.

        Args:
            question: the answer's id.
            usage: what is on record for it; more than is counted here only after a restart.
            reserve: calls to leave for the answer.
        """
        spent = self._questions.setdefault(question, Spent())
        spent.calls = max(spent.calls, usage.get("llm_calls", 0))
        spent.tokens = max(spent.tokens, usage.get("tokens_in", 0) + usage.get("tokens_out", 0))
        while len(self._questions) > KEPT:
            del self._questions[next(iter(self._questions))]
        token = _asker.set(_Asker(spent, reserve))
        try:
            yield
        finally:
            _asker.reset(token)

    def admit(self) -> Spent | None:
        """Count one call about to be made, and return the account; None outside of any question.

        Raises:
            ModelUnavailable: (BUDGET) the question may not make it.
        """
        asker = _asker.get()
        if asker is None:
            return None
        spent = asker.spent
        if spent.calls + asker.reserve >= self.calls or spent.tokens >= self.tokens:
            raise ModelUnavailable(
                f"the question's budget of {self.calls} chat calls and {self.tokens:,} tokens is spent",
                fault=Fault.BUDGET,
                hint="raise max_llm_calls or max_tokens in [ask]",
            )
        spent.calls += 1
        return spent


class BudgetedChat:
    """A chat model that asks `Spending` before every call. Implements `kb.chat.Chat`."""

    def __init__(self, chat: Chat, spending: Spending) -> None:
        self._chat = chat
        self._spending = spending

    @property
    def model(self) -> str:
        """The model's name."""
        return self._chat.model

    async def complete(self, messages: Sequence[Message], on_token: Callable[[str], None] | None = None) -> Reply:
        """Return the model's reply; see `kb.chat.Chat`."""
        account = self._spending.admit()
        reply = await _counted(self._chat.complete(messages, on_token), account)
        _add(account, reply.spent.calls, reply.spent.tokens_in + reply.spent.tokens_out)
        return reply

    async def structured(self, messages: Sequence[Message], schema: type[T]) -> Structured[T]:
        """Return a reply as `schema`; see `kb.chat.Chat`."""
        account = self._spending.admit()
        reply = await _counted(self._chat.structured(messages, schema), account)
        _add(account, reply.spent.calls, reply.spent.tokens_in + reply.spent.tokens_out)
        return reply

    async def aclose(self) -> None:
        """Close the model's connections."""
        await self._chat.aclose()


async def _counted(call: Awaitable[T], account: Spent | None) -> T:
    try:
        return await call
    except ModelUnavailable as error:
        _add(account, error.calls, error.tokens_in + error.tokens_out)
        raise


def _add(account: Spent | None, calls: int, tokens: int) -> None:
    if account is not None:
        account.calls += max(0, calls - 1)  # the first was counted when it was admitted
        account.tokens += tokens
